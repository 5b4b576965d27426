"""A tag for each word of a sentence.

A word is read at its first token (Devlin et al., 2018, section 5.3), or at its last by families that read from left to
right, which have not seen all of it before. Sentences that are too long are cut between words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import Head, Task, TaskConfig, TuningConfig, name_labels
from polyseme.tasks.examples import Item
from polyseme.tasks.features import Features
from polyseme.tasks.layout import Layout, Token
from polyseme.tasks.metrics import Counts, entity_counts, find_entities, marks_entities, tag_accuracy
from polyseme.tensors import IGNORED, Batch, Encoded
from polyseme.text.forms import TagExample
from polyseme.text.labelled import find_labels
from polyseme.text.tokenizer import Tokens

Word = tuple[str, int, int]  # with its first character and one behind its last


class TagConfig(TaskConfig):
    """The tags."""

    kind: Literal["tag"] = "tag"
    labels: tuple[str, ...] = Field(min_length=2)

    @classmethod
    def told_by(cls, examples: Sequence[TagExample]) -> dict[str, Any]:
        return {"labels": find_labels(examples)}

    @property
    def foreign(self) -> dict[str, Any]:
        return name_labels(self.labels)


@dataclass(frozen=True, kw_only=True)
class TaggedWord:
    """A word and its likeliest tag; its characters are those of the text that it was cut from."""

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """The words of a sentence."""

    words: tuple[TaggedWord, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(word.tag for word in self.words)

    @property
    def entities(self) -> list[tuple[str, int, int]]:
        """What is marked together: its name, its first character, and the one behind its last."""
        return [
            (entity.name, self.words[entity.start].start, self.words[entity.end - 1].end)
            for entity in (find_entities(self.tags) if marks_entities(self.tags) else ())
        ]

    def describe(self, example: TagExample) -> dict[str, Any]:
        """All of it, as JSON has it."""
        words = [{**asdict(word), "probability": round(word.probability, 6)} for word in self.words]
        entities = [
            {"name": name, "text": example.text[start:end], "start": start, "end": end}
            for name, start, end in self.entities
        ]
        return {"words": words, "entities": entities}

    def outline(self, example: TagExample) -> dict[str, str]:
        """The cells of a table."""
        entities = ", ".join(f"{example.text[start:end]} ({name})" for name, start, end in self.entities)
        return {"tags": " ".join(self.tags), "entities": entities}


@dataclass(frozen=True, kw_only=True)
class Sentence(Item):
    """A sentence, or a part of one."""

    words: Sequence[Word]
    places: Sequence[int]  # of the tokens that they are read at


class Tag(Task[TagExample, Tagged]):
    """Scores of the tags from the vector of a word."""

    def __init__(
        self, name: str, config: TagConfig, tuning: TuningConfig, encoder: Encoder, features: Features | None = None
    ) -> None:
        super().__init__(name, tuning, encoder, features)
        self.labels = {label: number for number, label in enumerate(config.labels)}
        self.head = Head(self.features.width, len(config.labels), dropout=tuning.dropout)

    @property
    def criterion(self) -> str:  # type: ignore[override]
        return "f1" if marks_entities(self.labels) else "accuracy"

    def items(self, layout: Layout, examples: Sequence[TagExample]) -> list[Sentence]:
        encoded = layout.tokenizer.encode_batch([" ".join(example.words) for example in examples], specials=False)
        return [
            part
            for number, (example, tokens) in enumerate(zip(examples, encoded, strict=True))
            for part in self._parts(layout, number, example, tokens)
        ]

    def _parts(self, layout: Layout, number: int, example: TagExample, tokens: Tokens) -> Iterator[Sentence]:
        text, ends = " ".join(example.words), list(accumulate(len(word) + 1 for word in example.words))
        words = [(word, end - 1 - len(word), end - 1) for word, end in zip(example.words, ends, strict=True)]
        room = layout.max_length - layout.single.num_specials
        pieces = [piece[:room] for piece in _pieces(text, words, tokens, layout.unknown)]
        first, last = len(layout.single.added[0]), layout.encoder.context == "left"
        for part in _cut([len(piece) for piece in pieces], room):
            row = layout.framed([token for piece in pieces[part] for token in piece], text)
            bounds = list(accumulate((len(piece) for piece in pieces[part]), initial=first))
            places = [end - 1 for end in bounds[1:]] if last else bounds[:-1]
            label = np.full(len(row.ids), IGNORED, np.int64)
            label[places] = [self.labels.get(tag, IGNORED) for tag in example.tags[part]] or IGNORED
            yield Sentence(example=number, rows=[row], label=label, words=example.spans[part], places=places)

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        return self.head(self.features(encoded))  # type: ignore[no-any-return]

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        asked = labels != IGNORED
        scores, labels = scores[asked], labels[asked]
        return F.cross_entropy(scores, labels, reduction="sum"), (scores.argmax(-1) == labels).sum()

    def answer(self, items: Sequence[Sentence], scores: Sequence[Tensor]) -> Tagged:
        names, words = list(self.labels), []
        for item, of_tokens in zip(items, scores, strict=True):
            best = of_tokens[list(item.places)].softmax(-1).max(-1)
            likeliest = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            for (word, start, end), (number, probability) in zip(item.words, likeliest, strict=True):
                words.append(TaggedWord(text=word, start=start, end=end, tag=names[number], probability=probability))
        return Tagged(words=tuple(words))

    def score(self, predicted: Sequence[Tagged], gold: Sequence[TagExample]) -> dict[str, float]:
        theirs, mine = [example.tags for example in gold], [answer.tags for answer in predicted]
        scores = {"accuracy": tag_accuracy(theirs, mine)}
        if marks_entities(self.labels):
            counts = sum(entity_counts(theirs, mine).values(), Counts())
            scores |= {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
        return scores


def _pieces(text: str, words: Sequence[Word], tokens: Tokens, unknown: int) -> list[list[Token]]:
    """The tokens of each word; a word that has none is unknown."""
    ends = [end for _, _, end in words]
    pieces: list[list[Token]] = [[] for _ in words]
    number = 0
    for id, (start, end) in zip(tokens.ids, tokens.offsets, strict=True):
        blank = len(text[start:end]) - len(text[start:end].lstrip())
        if start + blank < end:  # a token that is all blank belongs to the word before
            number = bisect_right(ends, start + blank)
        pieces[number].append((id, (start, end)))
    return [piece or [(unknown, (start, end))] for piece, (_, start, end) in zip(pieces, words, strict=True)]


def _cut(sizes: Sequence[int], room: int) -> Iterator[slice]:
    """Parts of at most so many tokens; there is always one."""
    start = total = 0
    for number, size in enumerate(sizes):
        if total + size > room:
            yield slice(start, number)
            start, total = number, 0
        total += size
    yield slice(start, len(sizes))
