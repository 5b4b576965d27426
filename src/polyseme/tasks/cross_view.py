"""Learning from sentences without labels by views that see less of them (Clark et al., 2018).

Two LSTMs from each end, one above the other, read layer 0 of an encoder, which learns along; all tasks share them. What
a task says of a word from both layers is taken for right, and four views, each with a part of the lower one, learn to
say the same. That makes the lower layer better, and with it what they learn from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.errors import ConfigError
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder
from polyseme.tasks.base import TaskConfig, Tuning, TuningConfig
from polyseme.tasks.examples import Examples
from polyseme.tasks.features import Features, both_ways, read_both_ways
from polyseme.tasks.layout import Layout
from polyseme.tasks.several import Alternating, Several
from polyseme.tasks.tag import Sentence, Tag, TagConfig
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome, State

UNLABELLED = "unlabelled"
_DROPOUT = 0.2  # of what views read


class CrossView(Tuning):
    """Tasks of tags, and what their views cost in sentences without labels."""

    def __init__(self, tasks: Mapping[str, TaskConfig], config: TuningConfig, encoder: Encoder) -> None:
        lower, upper = _lstm(encoder.widths[0], config.width), _lstm(2 * config.width, config.width)
        parts, views = {}, {}
        for name, task in tasks.items():
            if not isinstance(task, TagConfig):
                raise ConfigError(f"tuning.method: cvt is for tags, and {name} is of the kind {task.kind}; say full")
            parts[name] = Tag(name, task, config, encoder, Whole((lower, upper), config))
            views[name] = Views(config.width, len(task.labels))
        super().__init__(parts, config, encoder)
        self.weights[UNLABELLED] = config.consistency
        self.lower, self.upper = lower, upper
        self.views = nn.ModuleDict(views)
        self.drop = Dropout(_DROPOUT)

    def read(
        self, layout: Layout, examples: Mapping[str, Sequence[Any]], unlabelled: Sequence[Any] = (), *, num_rows: int
    ) -> Several:
        labelled = super().read(layout, examples, num_rows=num_rows)
        if not (unlabelled and self.weights[UNLABELLED]):
            return labelled
        task = cast(Tag, self.parts[0])  # all of them read alike
        items = [_ask_at_words(item) for item in task.items(layout, unlabelled)]
        rest = Several(sources={UNLABELLED: Examples.of(items, layout, num_rows=num_rows)})
        return Alternating(sources=labelled.sources, unlabelled=rest)

    def forward(self, encoder: Encoder, batch: Batch, state: State | None = None) -> Outcome:
        encoder.eval()  # what is above it drops enough, and what is taken for right must not
        return super().forward(encoder, batch, state)

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        if UNLABELLED not in batch.labels:
            return super().cost(encoder, encoded, batch)
        words = batch.labels[UNLABELLED] != IGNORED
        right = self._teach(encoder, encoded, batch)
        lower = read_both_ways(self.lower, self.drop(encoded.layers[0]), encoded.mask)
        seen = [states[words] for states in restrict(lower)]
        losses = [
            F.kl_div(said.log_softmax(-1), right[name][words], reduction="sum")
            for name, views in self.views.items()
            for said in views(seen)
        ]
        return Outcome(losses={UNLABELLED: torch.stack(losses).sum()})

    @torch.no_grad()
    def _teach(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> dict[str, Tensor]:
        """How likely each task takes its tags to be, (B, T, tags), if it drops nothing."""
        learning = self.training
        self.eval()
        right = {name: task.scores(encoder, encoded, batch).softmax(-1) for name, task in self.tasks.items()}
        self.train(learning)
        return right


class Whole(Features):
    """What is made of a word from both layers, ReLU(W[h1; h2])."""

    def __init__(self, lstms: tuple[nn.LSTM, nn.LSTM], tuning: TuningConfig) -> None:
        super().__init__()
        self.width = tuning.width
        self.lstms = lstms  # in a tuple they are not its own, and not saved with it
        self.drop = Dropout(tuning.dropout)
        self.dense = _rectified(4 * tuning.width, tuning.width)

    def forward(self, encoded: Encoded) -> Tensor:
        layers = [encoded.layers[0]]
        for lstm in self.lstms:
            layers.append(read_both_ways(lstm, self.drop(layers[-1]), encoded.mask))
        return self.dense(torch.cat(layers[1:], -1))  # type: ignore[no-any-return]


class Views(nn.ModuleList):
    """What a task says of words from each part that they are seen in."""

    def __init__(self, width: int, num_labels: int) -> None:
        super().__init__(nn.Sequential(_rectified(width, width), nn.Linear(width, num_labels)) for _ in range(4))

    def forward(self, seen: Sequence[Tensor]) -> list[Tensor]:
        return [view(states) for view, states in zip(self, seen, strict=True)]


def restrict(lower: Tensor) -> tuple[Tensor, ...]:
    """States that have seen, of a row, a word and all before it, it and all behind it, or the same without the word."""
    forward, backward = lower.chunk(2, -1)  # (B, T, D)
    # Before the first word there is nothing, and behind the last, where there may be padding, zeros.
    return forward, backward, F.pad(forward[:, :-1], (0, 0, 1, 0)), F.pad(backward[:, 1:], (0, 0, 0, 1))


# First weights of Glorot and Bengio (2010) and He et al. (2015), which are larger than torch's: after ten epochs of
# 1,308 sentences the F1 is 77 instead of 71.


def _lstm(input_width: int, width: int) -> nn.LSTM:
    """An LSTM from each end."""
    lstm = both_ways(input_width, width)
    for name, weight in lstm.named_parameters():
        if name.startswith("weight_ih"):
            for gate in weight.detach().chunk(4):
                nn.init.xavier_uniform_(gate)
    return lstm


def _rectified(input_width: int, width: int) -> nn.Sequential:
    """A layer under a ReLU."""
    linear = nn.Linear(input_width, width)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    return nn.Sequential(linear, nn.ReLU())


def _ask_at_words(item: Sentence) -> Sentence:
    label = np.full(len(item.rows[0].ids), IGNORED)
    label[list(item.places)] = 0
    return dataclasses.replace(item, label=label)
