"""Which layers a task reads: probes on a frozen encoder (Tenney et al., ICLR 2019 and ACL 2019).

A probe mixes the layers by weights that it learns, γ Σ s_l h_l with s = softmax(a), projects the tokens of one or two
spans, each with parameters of its own, pools them by self-attention, and names the label from the spans together. The
weights of a probe of all layers have a centre of gravity; probes of layers 0 to l, for every l, have scores whose gains
tell at which layer the answer is expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.inside.asked import Asked, Labels
from polyseme.inside.encoding import Model
from polyseme.inside.kept import Kept, Places, batches, join, keep_layers, tokens_of
from polyseme.inside.layer_worth import Probed, Trial, summarize
from polyseme.layers.mix import LayerMix

_BATCH, _FEWEST, _STEPS = 256, 16, 64  # targets at once: fewer where an epoch would have fewer steps than this
_BATCH_TOKENS = 8192


class ProbeConfig(Config):
    """How much is read, and how a probe learns."""

    most: int = Field(2000, ge=1)  # sentences to learn from, and to measure on, drawn by the seed
    seed: int = Field(0, ge=0)
    seeds: int = Field(1, ge=1)  # times that every probe learns, from this seed on
    epochs: int = Field(4, ge=1)
    width: int = Field(256, ge=1)  # of a projected token, unless the model is narrower, and of what is made of spans
    rate: float = Field(1e-3, gt=0)
    mix_rate: float = Field(2e-2, gt=0)  # of the weights of layers, which have a long way and few steps


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How many probes have learnt, none at first; and what a task reads, when all of its probes have."""

    done: int
    total: int  # of all tasks
    found: Probed | None = None


class Probe(nn.Module):
    """See the top of this file; `widths` are those of the layers it reads, `top` is what they are all brought to."""

    def __init__(self, widths: Sequence[int], top: int, *, num_spans: int, num_labels: int, width: int) -> None:
        super().__init__()
        self.fit = nn.ModuleList(nn.Identity() if wide == top else nn.Linear(wide, top) for wide in widths)
        self.mix = LayerMix(len(widths))
        narrow = min(width, top)
        self.project = nn.ModuleList(nn.Linear(top, narrow) for _ in range(num_spans))
        self.attend = nn.ModuleList(nn.Linear(narrow, 1, bias=False) for _ in range(num_spans))
        self.classify = nn.Sequential(nn.Linear(num_spans * narrow, width), nn.ReLU(), nn.Linear(width, num_labels))

    def forward(self, layers: Sequence[Tensor], lengths: Tensor) -> Tensor:
        """Scores of the labels (B, labels) from layers (N, D) at the tokens of spans with these lengths (B, S)."""
        fitted = [fit(layer)[None] for fit, layer in zip(self.fit, layers, strict=True)]
        mixed = self.mix(fitted, torch.ones(fitted[0].shape[:2], dtype=torch.bool))[0, 0]  # (N, top)
        spans = mixed.split(lengths.sum(0).tolist())
        pooled = [
            pool(project(tokens), attend, length)
            for tokens, project, attend, length in zip(spans, self.project, self.attend, lengths.T, strict=True)
        ]
        return self.classify(torch.cat(pooled, -1))  # type: ignore[no-any-return]


def pool(tokens: Tensor, attend: nn.Module, lengths: Tensor) -> Tensor:
    """The mean of the tokens of each span (B, D), weighted by attention; zeros where a span has none."""
    span = torch.arange(len(lengths)).repeat_interleave(lengths)
    scores = attend(tokens)[:, 0]
    highest = scores.new_full((len(lengths),), -torch.inf).scatter_reduce(0, span, scores.detach(), "amax")
    weights = (scores - highest[span]).exp()
    shares = weights / weights.new_zeros(len(lengths)).index_add(0, span, weights)[span]
    return tokens.new_zeros(len(lengths), tokens.shape[1]).index_add(0, span, shares[:, None] * tokens)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Targets with where they are and what they are."""

    places: Places
    targets: Sequence[Sequence[str]]


class Study:
    """One task on one model."""

    def __init__(self, kept: Kept, train: Split, dev: Split, *, task: str, config: ProbeConfig) -> None:
        self.kept, self.train, self.dev, self.config, self.task = kept, train, dev, config, task
        self.labels = Labels.of(train.targets, task)
        self.gold = self.labels.table(train.targets)

    @property
    def total(self) -> int:
        """Probes that have to learn: of layers 0 to l for every l, and one whose weights stay even."""
        num_layers = len(self.kept.widths)
        return self.config.seeds * (num_layers + (num_layers > 1))

    def trials(self) -> Iterator[Trial | None]:
        """A trial for every seed, and nothing after every other probe."""
        num_layers = len(self.kept.widths)
        for seed in range(self.config.seed, self.config.seed + self.config.seeds):
            scores: list[float] = []
            for top in range(num_layers):
                probe = self.learn(top + 1, seed=seed)
                scores.append(self.score(probe))
                if top + 1 < num_layers:
                    yield None
            shares, scale = probe.mix.shares[0].tolist(), probe.mix.scale.item()
            if num_layers == 1:
                yield Trial(shares=shares, scale=scale, scores=scores, uniform=scores[0])
                continue
            yield None
            uniform = self.score(self.learn(num_layers, seed=seed, even=True))
            yield Trial(shares=shares, scale=scale, scores=scores, uniform=uniform)

    def learn(self, num_layers: int, *, seed: int, even: bool = False) -> Probe:
        """A probe of the lowest layers; with `even`, their weights stay the same for all."""
        config, places = self.config, self.train.places
        widths, top = self.kept.widths, self.kept.widths[-1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            probe = Probe(
                widths[:num_layers],
                top,
                num_spans=places.first.shape[1],
                num_labels=len(self.labels.names),
                width=config.width,
            )
        probe.mix.weight.requires_grad_(not even)
        others = [weight for name, weight in probe.named_parameters() if not name.startswith("mix.")]
        optimizer = torch.optim.Adam(
            [{"params": [*probe.mix.parameters()], "lr": config.mix_rate}, {"params": others, "lr": config.rate}],
            fused=True,
        )
        chance = np.random.default_rng([seed, 23])
        at_once = min(_BATCH, max(_FEWEST, len(places) // _STEPS))
        rates = [group["lr"] for group in optimizer.param_groups]
        done, total = 0, config.epochs * len(places)
        for _ in range(config.epochs):
            order = chance.permutation(len(places)).tolist()
            for batch in batches(places, order, most=at_once, most_tokens=_BATCH_TOKENS):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * (1 - done / total)
                loss = self._loss(self._scores(probe, places, batch), self.gold[batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += len(batch)
        return probe

    def score(self, probe: Probe) -> float:
        """How good a probe is on the targets to measure on."""
        places = self.dev.places
        groups = batches(places, range(len(places)), most=4 * _BATCH, most_tokens=_BATCH_TOKENS)
        with torch.inference_mode():
            scores = torch.cat([self._scores(probe, places, batch) for batch in groups])
        return self.labels.score(self.labels.answers(scores), self.dev.targets)

    def summarize(self, trials: Sequence[Trial], *, model: str, family: str) -> Probed:
        """What all seeds have found together."""
        return summarize(
            trials,
            model=model,
            family=family,
            task=self.task,
            measure=self.labels.measure,
            num_labels=len(self.labels.names),
            num_train=len(self.train.targets),
            num_items=len(self.dev.targets),
            majority=self.labels.majority(self.gold, self.dev.targets),
        )

    def _scores(self, probe: Probe, places: Places, batch: Tensor) -> Tensor:
        tokens, lengths = tokens_of(places, batch)
        return probe(self.kept.take(tokens, len(probe.fit)), lengths)  # type: ignore[no-any-return]

    def _loss(self, scores: Tensor, gold: Tensor) -> Tensor:
        if self.labels.several:
            return F.binary_cross_entropy_with_logits(scores, gold.float())
        return F.cross_entropy(scores, gold.long().argmax(-1))


def probe_layers(model: Model, asked: Asked, config: ProbeConfig, *, name: str = "") -> Iterator[Progress]:
    """Probe a model for everything that is asked; the encoder runs once."""
    kept, places = keep_layers(model, [*asked.train, *asked.dev], len(asked.train))
    middle = len(asked.train)
    studies = [
        Study(
            kept,
            Split(places=join(places[:middle], kind), targets=asked.targets(asked.train, kind)),
            Split(places=join(places[middle:], kind), targets=asked.targets(asked.dev, kind)),
            task=task,
            config=config,
        )
        for kind, task in asked.names.items()
    ]
    done, total = 0, sum(study.total for study in studies)
    yield Progress(done=done, total=total)
    for study in studies:
        trials: list[Trial] = []
        for trial in study.trials():
            done += 1
            trials += [trial] if trial else []
            over = len(trials) == config.seeds
            found = study.summarize(trials, model=name or model.folder.name, family=model.family) if over else None
            yield Progress(done=done, total=total, found=found)
