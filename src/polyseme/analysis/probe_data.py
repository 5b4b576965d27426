"""Probing datasets: train and dev sentences with labelled spans, and the label set of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from polyseme.datasets.edge_probing import ProbingSentence, read_sentences
from polyseme.errors import DataError
from polyseme.tasks.metrics import Counts, marks_entities


@dataclass(frozen=True, kw_only=True)
class ProbeDataset:
    """Sentences with the targets of one or several tasks."""

    train: Sequence[ProbingSentence]
    dev: Sequence[ProbingSentence]
    task_names: Mapping[str, str]  # by kind

    @staticmethod
    def labels(sentences: Sequence[ProbingSentence], kind: str) -> list[tuple[str, ...]]:
        """The labels of all targets of a kind."""
        return [target.labels for sentence in sentences for target in sentence.targets[kind]]


def read_probe_dataset(
    data: str | Path,
    dev: str | Path | None = None,
    kinds: Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
    name: str = "",
    max_sentences: int,
    seed: int,
) -> ProbeDataset:
    """Sample train and dev sentences from files; without a dev file, a tenth of `data` is held out."""
    sentences = read_sentences(data, kinds, columns=columns)
    kinds = list(sentences[0].targets)
    rng = np.random.default_rng([seed, 19])
    train = [sentences[index] for index in rng.permutation(len(sentences))]
    if dev is None:
        num_dev = -(-len(train) // 10)
        train, others = train[num_dev:], train[:num_dev]
    else:
        dev_sentences = read_sentences(dev, kinds, columns=columns)
        others = [dev_sentences[index] for index in rng.permutation(len(dev_sentences))]
    multi_task = name and len(kinds) > 1
    task_names = {kind: f"{name} {kind}" if multi_task else name or kind for kind in kinds}
    dataset = ProbeDataset(train=train[:max_sentences], dev=others[:max_sentences], task_names=task_names)
    for kind in kinds:
        num_spans = set()
        for split, file in ((dataset.train, data), (dataset.dev, dev or data)):
            if not ProbeDataset.labels(split, kind):
                raise DataError(f"{file}: {len(split):,} sentences contain no target of {kind}; use more sentences")
            num_spans |= {len(target.spans) for sentence in split for target in sentence.targets[kind]}
        if len(num_spans) > 1:
            raise DataError(f"{dev}: the number of spans per target differs from {data}; use files of the same task")
        LabelSet.of(ProbeDataset.labels(dataset.train, kind), str(data))  # raises an error if all labels are equal
    return dataset


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """The labels of a task; targets become rows of a boolean matrix."""

    names: Sequence[str]
    multi_label: bool  # targets may have no label, or several
    outside: int | None  # the label O of entity tags, which metrics ignore

    @classmethod
    def of(cls, targets: Sequence[Sequence[str]], source: str) -> Self:
        """The label set of training targets."""
        names = sorted({name for labels in targets for name in labels})
        multi_label = any(len(labels) != 1 for labels in targets)
        if len(names) < 2 and not (multi_label and names):
            problem = f"all targets have the label {names[0]!r:.40}" if names else "no target has a label"
            raise DataError(f"{source}: {problem}, so a probe cannot be trained; use more sentences")
        entities = not multi_label and "O" in names and marks_entities(names)
        return cls(names=names, multi_label=multi_label, outside=names.index("O") if entities else None)

    @property
    def metric(self) -> str:
        """The name of `score`: micro-F1 is accuracy if every target has one label that counts."""
        return "accuracy" if not self.multi_label and self.outside is None else "f1"

    def to_matrix(self, targets: Sequence[Sequence[str]]) -> Tensor:
        """Which labels each target has, (N, labels); unknown labels are ignored."""
        ids = {name: id for id, name in enumerate(self.names)}
        matrix = torch.zeros(len(targets), len(ids), dtype=torch.bool)
        for row, labels in enumerate(targets):
            matrix[row, [ids[name] for name in labels if name in ids]] = True
        return matrix

    def predict(self, scores: Tensor) -> Tensor:
        """The labels predicted by logits, as a boolean matrix."""
        return scores > 0 if self.multi_label else F.one_hot(scores.argmax(-1), len(self.names)).bool()

    def score(self, predictions: Tensor, targets: Sequence[Sequence[str]]) -> float:
        """Micro-F1 over all targets."""
        counted = [id for id in range(len(self.names)) if id != self.outside]
        gold, predictions = self.to_matrix(targets)[:, counted], predictions[:, counted]
        outside = None if self.outside is None else self.names[self.outside]
        return Counts(
            num_correct=int((predictions & gold).sum()),
            num_predicted=int(predictions.sum()),
            num_gold=sum(len({*labels} - {outside}) for labels in targets),
        ).f1

    def majority_baseline(self, train: Tensor, targets: Sequence[Sequence[str]]) -> float:
        """The score of predicting the most frequent training label(s) for every target."""
        frequencies = train.float().mean(0)
        prediction = self.predict(frequencies - 0.5 if self.multi_label else frequencies)
        return self.score(prediction.expand(len(targets), -1), targets)
