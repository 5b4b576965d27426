"""What probes are asked: sentences to learn from and to measure on, and the labels of their spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from polyseme.errors import DataError
from polyseme.tasks.metrics import marks_entities
from polyseme.text.edges import Sentence, read_sentences


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Sentences, and the tasks that they are about."""

    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    names: Mapping[str, str]  # of tasks by kind

    @staticmethod
    def targets(sentences: Sequence[Sentence], kind: str) -> list[tuple[str, ...]]:
        """The labels of all that is asked of a kind."""
        return [target.labels for sentence in sentences for target in sentence.targets[kind]]


def read_asked(
    data: str | Path,
    dev: str | Path | None = None,
    kinds: Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
    name: str = "",
    most: int,
    seed: int,
) -> Asked:
    """So many sentences of a file, and of another to measure on; without one, a tenth of the first is held out."""
    sentences = read_sentences(data, kinds, columns=columns)
    kinds = list(sentences[0].targets)
    chance = np.random.default_rng([seed, 19])
    drawn = [sentences[number] for number in chance.permutation(len(sentences))]
    if dev is None:
        held = -(-len(drawn) // 10)
        drawn, others = drawn[held:], drawn[:held]
    else:
        found = read_sentences(dev, kinds, columns=columns)
        others = [found[number] for number in chance.permutation(len(found))]
    several = name and len(kinds) > 1
    names = {kind: f"{name} {kind}" if several else name or kind for kind in kinds}
    asked = Asked(train=drawn[:most], dev=others[:most], names=names)
    for kind in kinds:
        num_spans = set()
        for part, file in ((asked.train, data), (asked.dev, dev or data)):
            if not Asked.targets(part, kind):
                raise DataError(f"{file}: {kind} asks nothing of {len(part):,} sentences; give more, or others")
            num_spans |= {len(target.spans) for sentence in part for target in sentence.targets[kind]}
        if len(num_spans) > 1:
            raise DataError(f"{dev}: targets have not as many spans as those of {data}; give all the same number")
        Labels.of(Asked.targets(asked.train, kind), str(data))  # which says at once if there is nothing to learn
    return asked


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What targets are, as a table of yes and no."""

    names: Sequence[str]
    several: bool  # a target may have none, or more than one
    ignored: int | None  # the name for nothing, which earns nothing

    @classmethod
    def of(cls, targets: Sequence[Sequence[str]], place: str) -> Labels:
        """The labels of targets to learn from."""
        names = sorted({name for labels in targets for name in labels})
        several = any(len(labels) != 1 for labels in targets)
        if len(names) < 2 and not (several and names):
            what = f"every target is {names[0]!r:.40}" if names else "no target has a label"
            raise DataError(f"{place}: {what}, so there is nothing to learn; give more sentences, or others")
        entities = not several and "O" in names and marks_entities(names)
        return cls(names=names, several=several, ignored=names.index("O") if entities else None)

    @property
    def measure(self) -> str:
        """By what probes are scored; where every target has one label that counts, micro-F1 is the accuracy."""
        return "accuracy" if not self.several and self.ignored is None else "f1"

    def table(self, targets: Sequence[Sequence[str]]) -> Tensor:
        """Which labels each target has, (N, labels); those that are not known are left out."""
        numbers = {name: number for number, name in enumerate(self.names)}
        found = torch.zeros(len(targets), len(numbers), dtype=torch.bool)
        for row, labels in enumerate(targets):
            found[row, [numbers[name] for name in labels if name in numbers]] = True
        return found

    def answers(self, scores: Tensor) -> Tensor:
        """What scores say, as such a table."""
        return scores > 0 if self.several else F.one_hot(scores.argmax(-1), len(self.names)).bool()

    def score(self, answers: Tensor, targets: Sequence[Sequence[str]]) -> float:
        """Micro-F1 over all targets."""
        gold = self.table(targets)
        num_gold = sum(len(set(labels)) for labels in targets)
        if self.ignored is not None:
            num_gold -= int(gold[:, self.ignored].sum())
            kept = [number for number in range(len(self.names)) if number != self.ignored]
            gold, answers = gold[:, kept], answers[:, kept]
        both = int(answers.sum()) + num_gold
        return 2 * int((answers & gold).sum()) / both if both else 0.0

    def majority(self, learnt: Tensor, targets: Sequence[Sequence[str]]) -> float:
        """The score of saying to every target what most of those to learn from are."""
        shares = learnt.float().mean(0)
        return self.score(self.answers(shares - 0.5 if self.several else shares).expand(len(targets), -1), targets)
