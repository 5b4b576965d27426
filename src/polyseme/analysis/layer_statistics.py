"""Probing statistics of layers: centre of gravity, KL divergence, expected layer (Tenney et al., ACL 2019)."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self


def centre_of_gravity(weights: Sequence[float]) -> float:
    """The mean layer under the mixing weights, Σ l s_l."""
    return math.fsum(layer * weight for layer, weight in enumerate(weights))


def kl_from_uniform(weights: Sequence[float]) -> float:
    """The Kullback–Leibler divergence of the mixing weights from uniform ones, in nats."""
    return math.fsum(weight * math.log(weight * len(weights)) for weight in weights if weight > 0)


def gains(scores: Sequence[float]) -> list[float]:
    """The score that each layer from 1 on adds to that of a probe of all layers below it."""
    return [after - before for before, after in pairwise(scores)]


def expected_layer(scores: Sequence[float], *, min_gain: float = 0.0) -> float | None:
    """The mean layer at which a target is predicted correctly, Σ l Δ_l / Σ Δ_l.

    None if the total gain is at most `min_gain`: gains that are only random make the ratio arbitrarily large.
    """
    differences = gains(scores)
    total = math.fsum(differences)
    if total <= min_gain:
        return None
    return math.fsum(layer * gain for layer, gain in enumerate(differences, start=1)) / total


@dataclass(frozen=True, kw_only=True)
class MeanStd:
    """A mean over seeds with its standard deviation, which a single seed does not have."""

    mean: float
    std: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(mean=statistics.fmean(values), std=statistics.stdev(values) if len(values) > 1 else None)

    @property
    def low(self) -> float:
        return self.mean - (self.std or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.std or 0.0)


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """The result of one seed."""

    layer_weights: Sequence[float]
    scale: float
    scores: Sequence[float]  # of probes of layers 0 to l
    uniform_score: float  # of a mix with fixed uniform weights


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The probing result of a task on a model."""

    model: str
    family: str
    task: str
    metric: str  # accuracy or f1
    num_labels: int
    num_train: int  # targets
    num_dev: int
    num_seeds: int
    majority_baseline: float
    uniform_score: MeanStd
    scale: MeanStd  # γ
    layer_weights: Sequence[MeanStd]
    scores: Sequence[MeanStd]  # of probes of layers 0 to l; the last is that of the mix of all
    gains: Sequence[MeanStd]  # from layer 1 on
    centre_of_gravity: MeanStd
    kl_from_uniform: MeanStd
    expected_layer: MeanStd | None  # None with a single layer, or without a significant gain

    @property
    def num_layers(self) -> int:
        return len(self.layer_weights)

    @property
    def score(self) -> MeanStd:
        """The score of the mix of all layers."""
        return self.scores[-1]

    def describe(self) -> dict[str, Any]:
        """The result as JSON, with numbers of six decimals."""
        fields = asdict(self)
        weights, scores, gains = (fields.pop(name) for name in ("layer_weights", "scores", "gains"))
        layers = [
            {"layer": layer, "weight": weight, "score": score} | ({"gain": gains[layer - 1]} if layer else {})
            for layer, (weight, score) in enumerate(zip(weights, scores, strict=True))
        ]
        text = json.dumps({**fields, "score": scores[-1], "layers": layers})
        return json.loads(text, parse_float=lambda number: round(float(number), 6))  # type: ignore[no-any-return]


def summarize(results: Sequence[SeedResult], *, num_dev: int, **fields: Any) -> ProbeResult:
    """Mean and standard deviation over seeds.

    The expected layer is a ratio and therefore computed from the mean scores; it is None if all layers together gain
    less than the standard error of a score.
    """

    def by_layer(values: Iterable[Sequence[float]]) -> list[MeanStd]:
        return [MeanStd.of(layer) for layer in zip(*values, strict=True)]

    scores = by_layer(result.scores for result in results)
    standard_error = math.sqrt(max(0.0, scores[-1].mean * (1 - scores[-1].mean)) / num_dev)
    layer = expected_layer([score.mean for score in scores], min_gain=standard_error)
    by_seed = [expected_layer(result.scores, min_gain=standard_error) for result in results]
    layers = [found for found in by_seed if found is not None]
    std = statistics.stdev(layers) if len(layers) == len(results) > 1 else None
    return ProbeResult(
        num_dev=num_dev,
        num_seeds=len(results),
        uniform_score=MeanStd.of([result.uniform_score for result in results]),
        scale=MeanStd.of([result.scale for result in results]),
        layer_weights=by_layer(result.layer_weights for result in results),
        scores=scores,
        gains=by_layer(gains(result.scores) for result in results),
        centre_of_gravity=MeanStd.of([centre_of_gravity(result.layer_weights) for result in results]),
        kl_from_uniform=MeanStd.of([kl_from_uniform(result.layer_weights) for result in results]),
        expected_layer=None if layer is None else MeanStd(mean=layer, std=std),
        **fields,
    )
