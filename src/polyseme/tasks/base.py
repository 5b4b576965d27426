"""What every task is: a head that asks only for an encoder's widths and summary, so that it fits every family."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.errors import ConfigError
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, Together
from polyseme.objectives.next_token import NextToken
from polyseme.tasks.examples import Examples, Item
from polyseme.tasks.features import Features, Mixed, Recurrent, Top
from polyseme.tasks.layout import Layout
from polyseme.tasks.several import Several
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome, State
from polyseme.text.records import Example

Asked = TypeVar("Asked", bound=Example)
Prediction = TypeVar("Prediction")
Method = Literal["full", "frozen", "mix", "gradual", "cvt"]


class TuningConfig(Config):
    """How a model is tuned, whatever for."""

    # Which weights move: all, only those above the top layer or a mix of all layers, or all from the top downwards;
    # or those of layer 0 and a network above it, which also learns from sentences without labels.
    method: Method = "full"
    dropout: float = Field(0.1, ge=0, lt=1)  # of what the task reads
    width: int = Field(200, ge=1)  # of the task's own network, in each direction
    penalty: float = Field(0.001, ge=0)  # what keeps a mix near the mean of the layers
    chunk: int = Field(70, ge=0)  # gradual: tokens between which a recurrent state passes a gradient back; 0: all
    consistency: float = Field(1.0, ge=0)  # cvt: how much sentences without labels count beside those with
    language_model: float = Field(0.5, ge=0)  # how much the next token counts beside the task, for families with marks
    # Two texts: in one row where the family can, or each in its own and compared (Reimers and Gurevych, 2019).
    texts: Literal["together", "apart"] = "together"
    start: Literal["model", "chance"] = "model"  # chance: what the same network learns without pretraining
    patience: int = Field(4, ge=0)  # looks at the dev sets without gain before it stops; 0: it never does


class TaskConfig(Config):
    """What a task is about."""

    kind: str

    @classmethod
    def told_by(cls, examples: Sequence[Any]) -> dict[str, Any]:
        """The settings that the examples themselves tell."""
        return {}

    @property
    def foreign(self) -> dict[str, Any]:
        """What transformers has to know of the task, in its config.json."""
        return {}

    def tuned(self, scores: Mapping[str, float]) -> Self:
        """The settings with what a look at the dev set found best."""
        return self


def name_labels(labels: Sequence[str]) -> dict[str, Any]:
    """The names of classes, as transformers has them in its config.json."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


class Task(Objective, Generic[Asked, Prediction]):
    """Learns from examples, answers, and tells how far answers are right."""

    criterion: ClassVar[str]  # the score that tells the better of two models

    def __init__(self, name: str, tuning: TuningConfig, encoder: Encoder, features: Features | None = None) -> None:
        super().__init__()
        self.name = name
        self.features = features or _features(tuning, encoder)
        self.chunk = tuning.chunk if tuning.method == "gradual" else 0

    def read(self, layout: Layout, examples: Sequence[Asked], *, num_rows: int) -> Examples:
        """Examples as the model reads them, so many a batch; labels that are not known are not asked for."""
        return Examples.of(self.items(layout, examples), layout, num_rows=num_rows)

    def items(self, layout: Layout, examples: Sequence[Asked]) -> Sequence[Item]:
        """The rows of examples, and what is right."""
        raise NotImplementedError

    def draw(self, source: Examples, *, seed: int, step: int) -> Batch:  # type: ignore[override]  # and from no text
        return source.draw(self.name, seed=seed, step=step)

    def label(self, batch: Batch, source: Any, *, seed: int, step: int) -> Batch:
        return dataclasses.replace(batch, chunk=self.chunk)  # which changes what is learnt, but not what is said

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        scores = self.scores(encoder, encoded, batch)
        loss, right = self.compare(scores, batch.labels[self.name][:: batch.group])
        loss = loss + batch.counts[self.name] * self.features.penalty()
        return Outcome(losses={self.name: loss}, correct={} if right is None else {self.name: right})

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        """What the head says to each item, (items, …)."""
        raise NotImplementedError

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the scores cost, summed, and how many are right."""
        raise NotImplementedError

    @torch.inference_mode()
    def predict(self, encoder: Encoder, source: Examples) -> list[Prediction]:
        """An answer to each example, in order."""
        encoder.eval()
        self.eval()
        found: dict[int, Tensor] = {}
        for numbers in source.batches:
            batch = source.batch(numbers, self.name).to(encoder.device)
            scores = self.scores(encoder, encoder(batch), batch).double().cpu()
            found.update(zip(numbers.tolist(), scores, strict=True))
        answers = []
        for _, group in itertools.groupby(range(len(found)), key=lambda number: source.items[number].example):
            parts = list(group)
            answers.append(self.answer([source.items[n] for n in parts], [found[n] for n in parts]))
        return answers

    def answer(self, items: Sequence[Any], scores: Sequence[Tensor]) -> Prediction:
        """The answer to an example from the scores of its items, which may have more places than they have."""
        raise NotImplementedError

    def score(self, predicted: Sequence[Prediction], gold: Sequence[Asked]) -> dict[str, float]:
        """How far answers are right."""
        raise NotImplementedError


def _features(tuning: TuningConfig, encoder: Encoder) -> Features:
    if tuning.method == "mix":
        if len(encoder.widths) == 1:
            raise ConfigError("tuning.method: this family has one layer, and nothing to mix; say frozen")
        return Mixed(encoder, tuning.width, tuning.dropout, tuning.penalty)
    if tuning.method == "gradual" and len(encoder.stages()) == 1:
        raise ConfigError("tuning.method: this family has one layer, and nothing to unfreeze; say full or frozen")
    # What knows no context gets a network that does.
    if tuning.method == "frozen" or encoder.context == "none":
        return Recurrent(encoder, tuning.width, tuning.dropout)
    return Top(encoder)


class Head(nn.Module):
    """Scores from vectors, with a layer of its own between them where it is asked for."""

    def __init__(self, width: int, num_scores: int, *, dropout: float, inner_width: int = 0, bias: bool = True) -> None:
        super().__init__()
        self.drop = Dropout(dropout)
        self.dense = nn.Linear(width, inner_width) if inner_width else None
        self.output = nn.Linear(inner_width or width, num_scores, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.dense is not None:
            x = torch.tanh(self.dense(self.drop(x)))
        return self.output(self.drop(x))  # type: ignore[no-any-return]


class LanguageModel(NextToken):
    """The next token of the rows of a task, which keeps a model from forgetting (Radford et al., 2018, equation 5)."""

    def label(self, batch: Batch, source: Any, *, seed: int, step: int) -> Batch:
        labels = torch.full_like(batch.ids, IGNORED)
        labels[:, :-1] = batch.ids[:, 1:].where(batch.mask[:, 1:], IGNORED)
        return batch.labelled(self.name, labels)

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        return {}


class Tuning(Together):
    """Tasks, perhaps beside a language model, on an encoder that learns along or stays as it is."""

    def __init__(self, tasks: Mapping[str, Task[Any, Any]], config: TuningConfig, encoder: Encoder) -> None:
        self.frozen = config.method in ("frozen", "mix")
        moving = config.method in ("full", "gradual")  # up to the top, which is what a language model reads
        beside = encoder.layout == "marked" and moving and config.language_model > 0
        others: dict[str, Objective] = {LanguageModel.name: LanguageModel()} if beside else {}
        super().__init__({**tasks, **others}, weights=dict.fromkeys(others, config.language_model))

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """The tasks by name."""
        return {part.name: part for part in self.parts if isinstance(part, Task)}

    def read(
        self, layout: Layout, examples: Mapping[str, Sequence[Any]], unlabelled: Sequence[Any] = (), *, num_rows: int
    ) -> Several:
        """The examples of tasks as the model reads them, so many a batch, and others that have no labels."""
        if unlabelled:
            raise ConfigError("data.unlabelled: only cvt learns from examples without labels; say tuning.method=cvt")
        return Several(
            sources={name: self.tasks[name].read(layout, some, num_rows=num_rows) for name, some in examples.items()}
        )

    def draw(self, source: Examples | Several, *, seed: int, step: int) -> Batch:  # type: ignore[override]
        if isinstance(source, Several):
            return source.draw(seed=seed, step=step)
        return super().draw(source, seed=seed, step=step)  # type: ignore[arg-type]  # of the only task

    def asked(self, batch: Batch) -> list[Objective]:
        return [part for name, part in zip(self.names, self.parts, strict=True) if name in batch.labels]

    def forward(self, encoder: Encoder, batch: Batch, state: State | None = None) -> Outcome:
        if not self.frozen:
            return super().forward(encoder, batch, state)
        encoder.eval()
        with torch.no_grad():
            encoded = encoder(batch, state)
        return self.cost(encoder, encoded, batch)
