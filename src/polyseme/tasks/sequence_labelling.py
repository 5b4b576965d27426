"""Sequence labelling: a tag for each word of a sentence.

A word is predicted at its first token (Devlin et al., 2018, section 5.3), or at its last in left-to-right families,
which have not seen all of it before. Sentences that are too long are split between words.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from torch import Tensor

from polyseme.batch import IGNORED, Batch, Encoded
from polyseme.datasets.task_schemas import TagExample
from polyseme.models.base import Encoder
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig, LabelsConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter, Token
from polyseme.tasks.metrics import entity_counts, find_entities, marks_entities, tag_accuracy
from polyseme.tasks.networks.features import Features
from polyseme.tasks.networks.heads import Head
from polyseme.tasks.spec import LinearProbe, TaskSpec
from polyseme.tokenization.tokenizer import Tokens

Word = tuple[str, int, int]  # with its start and end offset


class SequenceLabellingConfig(LabelsConfig):
    """The tags."""

    kind: Literal["tag"] = "tag"


@dataclass(frozen=True, kw_only=True)
class TaggedWord:
    """A word with its most probable tag, and its offsets in the text."""

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class TagPrediction:
    """The words of a sentence."""

    words: tuple[TaggedWord, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(word.tag for word in self.words)

    @property
    def entities(self) -> list[tuple[str, int, int]]:
        """Name, start and end offset of each entity."""
        return [
            (entity.name, self.words[entity.start].start, self.words[entity.end - 1].end)
            for entity in (find_entities(self.tags) if marks_entities(self.tags) else ())
        ]

    def to_json(self, example: TagExample) -> dict[str, Any]:
        """All fields, as JSON values."""
        words = [{**asdict(word), "probability": round(word.probability, 6)} for word in self.words]
        entities = [
            {"name": name, "text": example.text[start:end], "start": start, "end": end}
            for name, start, end in self.entities
        ]
        return {"words": words, "entities": entities}

    def to_row(self, example: TagExample) -> dict[str, str]:
        """The cells of a table row."""
        entities = ", ".join(f"{example.text[start:end]} ({name})" for name, start, end in self.entities)
        return {"tags": " ".join(self.tags), "entities": entities}


@dataclass(frozen=True, kw_only=True)
class SentenceInstance(Instance):
    """A sentence, or a part of one."""

    words: Sequence[Word]
    positions: Sequence[int]  # of the token at which each word is predicted


class SequenceLabelling(Task[TagExample, TagPrediction]):
    """Tag scores from the vector of each word."""

    hf_class = "TokenClassification"

    def __init__(
        self,
        name: str,
        config: SequenceLabellingConfig,
        finetuning: FineTuningConfig,
        encoder: Encoder,
        features: Features | None = None,
    ) -> None:
        super().__init__(name, finetuning, encoder, features)
        self.labels = {label: number for number, label in enumerate(config.labels)}
        self.num_scores = len(config.labels)
        self.head = Head(self.features.width, self.num_scores, dropout=finetuning.dropout)

    @property
    def selection_metric(self) -> str:  # type: ignore[override]
        return tag_metric(self.labels)

    def instances(self, formatter: InputFormatter, examples: Sequence[TagExample]) -> list[SentenceInstance]:
        encoded = formatter.tokenizer.encode_batch([" ".join(example.words) for example in examples], specials=False)
        return [
            part
            for number, (example, tokens) in enumerate(zip(examples, encoded, strict=True))
            for part in self._parts(formatter, number, example, tokens)
        ]

    def _parts(
        self, formatter: InputFormatter, number: int, example: TagExample, tokens: Tokens
    ) -> Iterator[SentenceInstance]:
        text, ends = " ".join(example.words), list(accumulate(len(word) + 1 for word in example.words))
        words = [(word, end - 1 - len(word), end - 1) for word, end in zip(example.words, ends, strict=True)]
        room = formatter.max_length - formatter.single.num_specials
        pieces = [piece[:room] for piece in _pieces(text, words, tokens, formatter.unknown_id)]
        first, at_last_token = len(formatter.single.added[0]), formatter.encoder.context == "left"
        for part in _split([len(piece) for piece in pieces], room):
            row = formatter.build_row([token for piece in pieces[part] for token in piece], text)
            bounds = list(accumulate((len(piece) for piece in pieces[part]), initial=first))
            positions = [end - 1 for end in bounds[1:]] if at_last_token else bounds[:-1]
            label = np.full(len(row.ids), IGNORED, np.int64)
            label[positions] = [self.labels.get(tag, IGNORED) for tag in example.tags[part]] or IGNORED
            yield SentenceInstance(
                example=number, rows=[row], label=label, words=example.spans[part], positions=positions
            )

    def head_scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        return self.head(self.features(encoded))  # type: ignore[no-any-return]

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        predicted = labels != IGNORED
        return super().compare(scores[predicted], labels[predicted])

    def decode(self, instances: Sequence[SentenceInstance], scores: Sequence[Tensor]) -> TagPrediction:
        names, words = list(self.labels), []
        for instance, of_tokens in zip(instances, scores, strict=True):
            best = of_tokens[list(instance.positions)].softmax(-1).max(-1)
            predicted = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            for (word, start, end), (number, probability) in zip(instance.words, predicted, strict=True):
                words.append(TaggedWord(text=word, start=start, end=end, tag=names[number], probability=probability))
        return TagPrediction(words=tuple(words))

    def score(self, predicted: Sequence[TagPrediction], gold: Sequence[TagExample]) -> dict[str, float]:
        expected, found = [example.tags for example in gold], [prediction.tags for prediction in predicted]
        scores = {"accuracy": tag_accuracy(expected, found)}
        if marks_entities(self.labels):
            counts = entity_counts(expected, found)
            scores |= {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
        return scores


def tag_metric(labels: Iterable[str]) -> str:
    """Entity F1 for BIO and BIOES tags, accuracy for others."""
    return "f1" if marks_entities(labels) else "accuracy"


def _pieces(text: str, words: Sequence[Word], tokens: Tokens, unknown_id: int) -> list[list[Token]]:
    """The tokens of each word; a word without any gets the unknown token."""
    ends = [end for _, _, end in words]
    pieces: list[list[Token]] = [[] for _ in words]
    number = 0
    for id, (start, end) in zip(tokens.ids, tokens.offsets, strict=True):
        blank = len(text[start:end]) - len(text[start:end].lstrip())
        if start + blank < end:  # a white-space token belongs to the word before it
            number = bisect_right(ends, start + blank)
        pieces[number].append((id, (start, end)))
    return [piece or [(unknown_id, (start, end))] for piece, (_, start, end) in zip(pieces, words, strict=True)]


def _split(sizes: Sequence[int], room: int) -> Iterator[slice]:
    """Split words, given their sizes in tokens, into parts of at most `room` tokens; there is at least one part."""
    start = total = 0
    for number, size in enumerate(sizes):
        if total + size > room:
            yield slice(start, number)
            start, total = number, 0
        total += size
    yield slice(start, len(sizes))


SPEC = TaskSpec(
    kind="tag",
    display_name="sequence labelling",
    Example=TagExample,
    Config=SequenceLabellingConfig,
    Head=SequenceLabelling,
    metric=tag_metric,
    probe=LinearProbe(inputs="words"),
    use="sequence_labelling",
    endpoint="tag",
)
