"""Edge probing of the layers of a frozen encoder (Tenney et al., ICLR 2019 and ACL 2019).

A probe mixes the layers with trained weights, γ Σ s_l h_l with s = softmax(a), projects the tokens of one or two spans
with separate parameters, pools them by attention, and classifies the concatenated spans. The mixing weights of a probe
of all layers have a centre of gravity; the gains in score of probes of layers 0 to l, over l, give the expected layer.
"""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from scipy.special import rel_entr
from torch import Tensor, nn

from polyseme.analysis.probe_data import LabelSet, ProbeDataset
from polyseme.analysis.span_activations import ActivationCache, cache_layers, token_indices
from polyseme.arrays import Doubles
from polyseme.config import Config
from polyseme.inference.batching import pack
from polyseme.inference.model import LoadedModel
from polyseme.layers.scalar_mix import ScalarMix

_BATCH_SIZE, _MIN_BATCH_SIZE, _MIN_STEPS = 256, 16, 64  # batches are smaller if an epoch would have fewer steps
_BATCH_TOKENS = 8192


class ProbeConfig(Config):
    """The size of the data and the training of probes."""

    max_sentences: int = Field(2000, ge=1)  # of train and of dev, sampled by the seed
    seed: int = Field(0, ge=0)
    seeds: int = Field(1, ge=1)  # number of runs of every probe, with consecutive seeds
    epochs: int = Field(4, ge=1)
    width: int = Field(256, ge=1)  # of projected tokens (at most that of the model) and of the hidden layer
    learning_rate: float = Field(1e-3, gt=0)
    mix_learning_rate: float = Field(2e-2, gt=0)  # higher, because mixing weights move far in few steps


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


@dataclass(frozen=True, kw_only=True)
class ProbeProgress:
    """The number of trained probes, 0 at first; with the result of a task once all of its probes are trained."""

    probes_done: int
    total_probes: int  # of all tasks
    result: ProbeResult | None = None


class Probe(nn.Module):
    """Scalar mix, span pooling and a two-layer classifier; layers of other widths are projected to that of the top."""

    def __init__(self, widths: Sequence[int], top: int, *, num_spans: int, num_labels: int, width: int) -> None:
        super().__init__()
        self.to_top_width = nn.ModuleList(nn.Identity() if size == top else nn.Linear(size, top) for size in widths)
        self.mix = ScalarMix(len(widths))
        projected = min(width, top)
        self.project = nn.ModuleList(nn.Linear(top, projected) for _ in range(num_spans))
        self.attend = nn.ModuleList(nn.Linear(projected, 1, bias=False) for _ in range(num_spans))
        self.classify = nn.Sequential(nn.Linear(num_spans * projected, width), nn.ReLU(), nn.Linear(width, num_labels))

    def forward(self, layers: Sequence[Tensor], lengths: Tensor) -> Tensor:
        """Logits (B, labels) from layers (N, D) at the tokens of spans with these lengths (B, S)."""
        same_width = [project(layer)[None] for project, layer in zip(self.to_top_width, layers, strict=True)]
        mixed = self.mix(same_width)[0]  # (N, top)
        spans = mixed.split(lengths.sum(0).tolist())
        pooled = [
            attention_pool(project(tokens), attend, length)
            for tokens, project, attend, length in zip(spans, self.project, self.attend, lengths.T, strict=True)
        ]
        return self.classify(torch.cat(pooled, -1))  # type: ignore[no-any-return]


def attention_pool(tokens: Tensor, attend: nn.Module, lengths: Tensor) -> Tensor:
    """The attention-weighted mean of the tokens of each span, (B, D); zeros for empty spans."""
    span = torch.arange(len(lengths)).repeat_interleave(lengths)
    scores = attend(tokens)[:, 0]
    maxima = scores.new_full((len(lengths),), -torch.inf).scatter_reduce(0, span, scores.detach(), "amax")
    exponentials = (scores - maxima[span]).exp()
    weights = exponentials / exponentials.new_zeros(len(lengths)).index_add(0, span, exponentials)[span]
    return tokens.new_zeros(len(lengths), tokens.shape[1]).index_add(0, span, weights[:, None] * tokens)


class TaskProbes:
    """The probes of one task on one model."""

    def __init__(
        self,
        cache: ActivationCache,
        spans: Sequence[Mapping[str, Tensor]],
        dataset: ProbeDataset,
        kind: str,
        config: ProbeConfig,
    ) -> None:
        self.cache, self.config, self.task = cache, config, dataset.task_names[kind]
        splits = spans[: len(dataset.train)], spans[len(dataset.train) :]
        self.train_spans, self.dev_spans = (
            torch.cat([of_kind for sentence in split if len(of_kind := sentence[kind])]) for split in splits
        )
        self.train_labels, self.dev_labels = (dataset.labels(split, kind) for split in (dataset.train, dataset.dev))
        self.label_set = LabelSet.of(self.train_labels, self.task)
        self.gold = self.label_set.to_matrix(self.train_labels)

    def train_probe(self, num_layers: int, *, seed: int, uniform: bool = False) -> Probe:
        """Train a probe of the lowest layers; with `uniform`, their weights stay equal."""
        config, spans = self.config, self.train_spans
        widths, top = self.cache.widths, self.cache.widths[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            num_spans, num_labels = spans.shape[1], len(self.label_set.names)
            probe = Probe(widths[:num_layers], top, num_spans=num_spans, num_labels=num_labels, width=config.width)
        probe.mix.weight.requires_grad_(not uniform)
        others = [weight for name, weight in probe.named_parameters() if not name.startswith("mix.")]
        mix = {"params": [*probe.mix.parameters()], "lr": config.mix_learning_rate}
        optimizer = torch.optim.Adam([mix, {"params": others, "lr": config.learning_rate}], fused=True)
        rng = np.random.default_rng([seed, 23])
        batch_size = min(_BATCH_SIZE, max(_MIN_BATCH_SIZE, len(spans) // _MIN_STEPS))
        lengths = spans[..., 1].sum(1).tolist()
        learning_rates = [group["lr"] for group in optimizer.param_groups]
        num_seen, total = 0, config.epochs * len(spans)
        for _ in range(config.epochs):
            order = rng.permutation(len(spans)).tolist()
            for batch in pack(lengths, _BATCH_TOKENS, order=order, batch_size=batch_size):
                for group, learning_rate in zip(optimizer.param_groups, learning_rates, strict=True):
                    group["lr"] = learning_rate * (1 - num_seen / total)
                loss = self._loss(self._logits(probe, spans[batch]), self.gold[batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                num_seen += len(batch)
        return probe

    def score(self, probe: Probe) -> float:
        """Evaluate a probe on the dev targets."""
        lengths = self.dev_spans[..., 1].sum(1).tolist()
        batches = pack(lengths, _BATCH_TOKENS, order=range(len(lengths)), batch_size=4 * _BATCH_SIZE)
        with torch.inference_mode():
            logits = torch.cat([self._logits(probe, self.dev_spans[batch]) for batch in batches])
        return self.label_set.score(self.label_set.predict(logits), self.dev_labels)

    def summarize(self, results: Sequence[SeedResult], *, model: str, family: str) -> ProbeResult:
        """The result of the task over all seeds."""
        return summarize(
            results,
            model=model,
            family=family,
            task=self.task,
            metric=self.label_set.metric,
            num_labels=len(self.label_set.names),
            num_train=len(self.train_labels),
            num_dev=len(self.dev_labels),
            majority_baseline=self.label_set.majority_baseline(self.gold, self.dev_labels),
        )

    def _logits(self, probe: Probe, spans: Tensor) -> Tensor:
        layers = self.cache.gather(token_indices(spans), len(probe.to_top_width))
        return probe(layers, spans[..., 1])  # type: ignore[no-any-return]

    def _loss(self, logits: Tensor, gold: Tensor) -> Tensor:
        if self.label_set.multi_label:
            return F.binary_cross_entropy_with_logits(logits, gold.float())
        return F.cross_entropy(logits, gold.long().argmax(-1))


def probe_layers(
    model: LoadedModel, dataset: ProbeDataset, config: ProbeConfig, *, name: str = ""
) -> Iterator[ProbeProgress]:
    """Probe a model for all tasks of a dataset; the encoder runs once."""
    cache, spans = cache_layers(model, [*dataset.train, *dataset.dev], len(dataset.train))
    tasks = [TaskProbes(cache, spans, dataset, kind, config) for kind in dataset.task_names]
    num_layers = len(cache.widths)
    probes = [(depth, False) for depth in range(1, num_layers + 1)] + [(num_layers, True)] * (num_layers > 1)
    done, total = 0, len(tasks) * config.seeds * len(probes)
    yield ProbeProgress(probes_done=done, total_probes=total)
    for task in tasks:
        results: list[SeedResult] = []
        for seed in range(config.seed, config.seed + config.seeds):
            scores, mixes = [], []
            for depth, uniform in probes:
                probe = task.train_probe(depth, seed=seed, uniform=uniform)
                scores.append(task.score(probe))
                mixes.append(probe.mix)
                done += 1
                yield ProbeProgress(probes_done=done, total_probes=total)
            results.append(
                SeedResult(
                    layer_weights=mixes[num_layers - 1].layer_weights.tolist(),
                    scale=mixes[num_layers - 1].scale.item(),
                    scores=scores[:num_layers],
                    uniform_score=scores[-1],
                )
            )
        result = task.summarize(results, model=name or model.folder.name, family=model.family)
        yield ProbeProgress(probes_done=done, total_probes=total, result=result)


def summarize(results: Sequence[SeedResult], *, num_dev: int, **fields: Any) -> ProbeResult:
    """Mean and standard deviation over seeds.

    The expected layer is a ratio and therefore computed from the mean scores; it is None if all layers together gain
    less than the standard error of a score.
    """
    weights = np.array([result.layer_weights for result in results], np.float64)  # (seeds, layers)
    scores = np.array([result.scores for result in results], np.float64)
    means, num_layers = scores.mean(0), scores.shape[1]
    standard_error = math.sqrt(max(0.0, means[-1] * (1 - means[-1])) / num_dev)
    layer, *by_seed = (expected_layer(one, min_gain=standard_error) for one in (means, *scores))
    found = [one for one in by_seed if one is not None]
    std = statistics.stdev(found) if len(found) == len(results) > 1 else None
    return ProbeResult(
        num_dev=num_dev,
        num_seeds=len(results),
        uniform_score=MeanStd.of([result.uniform_score for result in results]),
        scale=MeanStd.of([result.scale for result in results]),
        layer_weights=[MeanStd.of(of_layer) for of_layer in weights.T.tolist()],
        scores=[MeanStd.of(of_layer) for of_layer in scores.T.tolist()],
        gains=[MeanStd.of(of_layer) for of_layer in np.diff(scores).T.tolist()],
        centre_of_gravity=MeanStd.of((weights @ np.arange(num_layers)).tolist()),
        kl_from_uniform=MeanStd.of(rel_entr(weights, 1 / num_layers).sum(1).tolist()),
        expected_layer=None if layer is None else MeanStd(mean=layer, std=std),
        **fields,
    )


def expected_layer(scores: Doubles, *, min_gain: float = 0.0) -> float | None:
    """The mean layer at which a target is predicted correctly, Σ l Δ_l / Σ Δ_l.

    None if the total gain is at most `min_gain`: gains that are only random make the ratio arbitrarily large.
    """
    gains = np.diff(scores)
    total = math.fsum(gains)
    return math.fsum(gains * np.arange(1, len(scores))) / total if total > min_gain else None
