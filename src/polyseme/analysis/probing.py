"""Edge probing of the layers of a frozen encoder (Tenney et al., ICLR 2019 and ACL 2019).

A probe mixes the layers with trained weights, γ Σ s_l h_l with s = softmax(a), projects the tokens of one or two spans
with separate parameters, pools them by attention, and classifies the concatenated spans. The mixing weights of a probe
of all layers have a centre of gravity; the gains in score of probes of layers 0 to l, over l, give the expected layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.analysis.layer_statistics import ProbeResult, SeedResult, summarize
from polyseme.analysis.probe_data import LabelSet, ProbeDataset
from polyseme.analysis.span_activations import ActivationCache, SpanIndex, cache_layers, join_spans, token_indices
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
class ProbeProgress:
    """The number of trained probes, 0 at first; with the result of a task when all of its probes are trained."""

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
        spans: Sequence[Mapping[str, SpanIndex]],
        dataset: ProbeDataset,
        kind: str,
        config: ProbeConfig,
    ) -> None:
        self.cache, self.config, self.task = cache, config, dataset.task_names[kind]
        splits = spans[: len(dataset.train)], spans[len(dataset.train) :]
        self.train_spans, self.dev_spans = (join_spans(split, kind) for split in splits)
        self.train_labels, self.dev_labels = (dataset.labels(split, kind) for split in (dataset.train, dataset.dev))
        self.label_set = LabelSet.of(self.train_labels, self.task)
        self.gold = self.label_set.to_matrix(self.train_labels)

    @property
    def total_probes(self) -> int:
        """The number of probes: of layers 0 to l for every l, and one with uniform weights; for every seed."""
        num_layers = len(self.cache.widths)
        return self.config.seeds * (num_layers + (num_layers > 1))

    def seed_results(self) -> Iterator[SeedResult | None]:
        """The result after the last probe of each seed, and None after every other probe."""
        num_layers = len(self.cache.widths)
        for seed in range(self.config.seed, self.config.seed + self.config.seeds):
            scores: list[float] = []
            for top in range(num_layers):
                probe = self.train_probe(top + 1, seed=seed)
                scores.append(self.score(probe))
                if top + 1 < num_layers:
                    yield None
            layer_weights, scale = probe.mix.layer_weights.tolist(), probe.mix.scale.item()
            uniform_score = scores[0]
            if num_layers > 1:
                yield None
                uniform_score = self.score(self.train_probe(num_layers, seed=seed, uniform=True))
            yield SeedResult(layer_weights=layer_weights, scale=scale, scores=scores, uniform_score=uniform_score)

    def train_probe(self, num_layers: int, *, seed: int, uniform: bool = False) -> Probe:
        """Train a probe of the lowest layers; with `uniform`, their weights stay equal."""
        config, spans = self.config, self.train_spans
        widths, top = self.cache.widths, self.cache.widths[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            num_spans, num_labels = spans.first.shape[1], len(self.label_set.names)
            probe = Probe(widths[:num_layers], top, num_spans=num_spans, num_labels=num_labels, width=config.width)
        probe.mix.weight.requires_grad_(not uniform)
        others = [weight for name, weight in probe.named_parameters() if not name.startswith("mix.")]
        mix = {"params": [*probe.mix.parameters()], "lr": config.mix_learning_rate}
        optimizer = torch.optim.Adam([mix, {"params": others, "lr": config.learning_rate}], fused=True)
        rng = np.random.default_rng([seed, 23])
        batch_size = min(_BATCH_SIZE, max(_MIN_BATCH_SIZE, len(spans) // _MIN_STEPS))
        lengths = spans.length.sum(1).tolist()
        learning_rates = [group["lr"] for group in optimizer.param_groups]
        num_seen, total = 0, config.epochs * len(spans)
        for _ in range(config.epochs):
            order = rng.permutation(len(spans)).tolist()
            for batch in pack(lengths, _BATCH_TOKENS, order=order, batch_size=batch_size):
                for group, learning_rate in zip(optimizer.param_groups, learning_rates, strict=True):
                    group["lr"] = learning_rate * (1 - num_seen / total)
                loss = self._loss(self._logits(probe, spans, batch), self.gold[batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                num_seen += len(batch)
        return probe

    def score(self, probe: Probe) -> float:
        """Evaluate a probe on the dev targets."""
        lengths = self.dev_spans.length.sum(1).tolist()
        batches = pack(lengths, _BATCH_TOKENS, order=range(len(lengths)), batch_size=4 * _BATCH_SIZE)
        with torch.inference_mode():
            logits = torch.cat([self._logits(probe, self.dev_spans, batch) for batch in batches])
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

    def _logits(self, probe: Probe, spans: SpanIndex, batch: Sequence[int]) -> Tensor:
        tokens, lengths = token_indices(spans, batch)
        return probe(self.cache.gather(tokens, len(probe.to_top_width)), lengths)  # type: ignore[no-any-return]

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
    done, total = 0, sum(task.total_probes for task in tasks)
    yield ProbeProgress(probes_done=done, total_probes=total)
    for task in tasks:
        results: list[SeedResult] = []
        for seed_result in task.seed_results():
            done += 1
            results += [seed_result] if seed_result else []
            summary = None
            if len(results) == config.seeds:
                summary = task.summarize(results, model=name or model.folder.name, family=model.family)
            yield ProbeProgress(probes_done=done, total_probes=total, result=summary)
