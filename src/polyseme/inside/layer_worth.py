"""What probes say of layers (Tenney et al., ACL 2019): where weights balance, how uneven they are, where gains lie."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


def centre_of_gravity(shares: Sequence[float]) -> float:
    """The layer where the weights balance, Σ l s_l."""
    return math.fsum(layer * share for layer, share in enumerate(shares))


def divergence(shares: Sequence[float]) -> float:
    """How far the weights are from even ones: the Kullback–Leibler divergence from these, in nats."""
    return math.fsum(share * math.log(share * len(shares)) for share in shares if share > 0)


def gains(scores: Sequence[float]) -> list[float]:
    """What each layer from 1 on adds to the score of a probe of all below it."""
    return [after - before for before, after in pairwise(scores)]


def expected_layer(scores: Sequence[float], *, least: float = 0.0) -> float | None:
    """The layer at which a target is answered on average, Σ l Δ_l / Σ Δ_l; none if all layers gain no more than that.

    Of gains that are chance it would be a chance of any size, because they are divided by their sum.
    """
    added = gains(scores)
    whole = math.fsum(added)
    return math.fsum(layer * gain for layer, gain in enumerate(added, start=1)) / whole if whole > least else None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A mean over seeds, and how far they lie from it; one seed tells nothing of that."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(mean=statistics.fmean(values), deviation=statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What was found with one seed."""

    shares: Sequence[float]  # weights of all layers
    scale: float
    scores: Sequence[float]  # of probes of layers 0 to l
    uniform: float  # score of a mix whose weights stay even


@dataclass(frozen=True, kw_only=True)
class Probed:
    """What a task reads of a model."""

    model: str
    family: str
    task: str
    measure: str  # accuracy or f1
    num_labels: int
    num_train: int  # targets to learn from
    num_items: int  # targets to measure on
    num_seeds: int
    majority: float
    uniform: Spread
    scale: Spread  # γ
    shares: Sequence[Spread]  # by layer
    scores: Sequence[Spread]  # of probes of layers 0 to l; the last is that of the mix of all
    gains: Sequence[Spread]  # from layer 1 on
    gravity: Spread
    divergence: Spread
    expected_layer: Spread | None  # none where there is one layer, or no gain that is more than chance

    @property
    def num_layers(self) -> int:
        return len(self.shares)

    @property
    def score(self) -> Spread:
        """That of the mix of all layers."""
        return self.scores[-1]

    def describe(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in _FACTS}
        facts["score"] = self.score
        facts |= {name: getattr(self, name) for name in _FIGURES}
        facts["layers"] = [
            {"layer": layer, "weight": self.shares[layer], "score": self.scores[layer]}
            | ({"gain": self.gains[layer - 1]} if layer else {})
            for layer in range(self.num_layers)
        ]
        rounded: dict[str, Any] = _rounded(facts)
        return rounded


_FACTS = ("model", "family", "task", "measure", "num_labels", "num_train", "num_items", "num_seeds", "majority")
_FIGURES = ("uniform", "scale", "gravity", "divergence", "expected_layer")


def summarize(trials: Sequence[Trial], *, num_items: int, **facts: Any) -> Probed:
    """Means and deviations over seeds; the expected layer is that of the mean scores, because it is a ratio.

    There is none where all layers together gain less than the standard error of a score.
    """
    columns = list(zip(*(trial.scores for trial in trials), strict=True))
    scores = [Spread.of(column) for column in columns]
    error = math.sqrt(max(0.0, scores[-1].mean * (1 - scores[-1].mean)) / num_items)
    layer = expected_layer([score.mean for score in scores], least=error)
    layers = [found for trial in trials if (found := expected_layer(trial.scores, least=error)) is not None]
    deviation = statistics.stdev(layers) if len(layers) == len(trials) > 1 else None
    return Probed(
        num_items=num_items,
        num_seeds=len(trials),
        uniform=Spread.of([trial.uniform for trial in trials]),
        scale=Spread.of([trial.scale for trial in trials]),
        shares=[Spread.of(column) for column in zip(*(trial.shares for trial in trials), strict=True)],
        scores=scores,
        gains=[Spread.of(column) for column in zip(*(gains(trial.scores) for trial in trials), strict=True)],
        gravity=Spread.of([centre_of_gravity(trial.shares) for trial in trials]),
        divergence=Spread.of([divergence(trial.shares) for trial in trials]),
        expected_layer=None if layer is None else Spread(mean=layer, deviation=deviation),
        **facts,
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, Spread):
        return {"mean": _rounded(value.mean), "deviation": _rounded(value.deviation)}
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value
