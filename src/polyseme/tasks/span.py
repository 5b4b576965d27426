"""The answer to a question, where a passage has it.

Every token gets a score as the first of the answer and one as its last (Devlin et al., 2018, section 4.2). A family
that reads texts apart joins the summary of the question to each token of the passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.models.base import Encoder
from polyseme.tasks.base import Head, Task, TaskConfig, TuningConfig
from polyseme.tasks.examples import Item
from polyseme.tasks.layout import Layout
from polyseme.tasks.metrics import Language, best_threshold, score_answer, score_answers
from polyseme.tensors import IGNORED, Batch, Encoded
from polyseme.text.forms import SpanExample
from polyseme.text.tokenizer import Tokens
from polyseme.text.windows import Answer, Answers, Windows

ALWAYS = -1e9
"""The threshold at which every question is answered."""

_NO_QUESTION = Tokens(ids=[], tokens=[], offsets=[], segments=[], special=[])


class SpanConfig(TaskConfig):
    """How passages are cut, and when to answer."""

    kind: Literal["span"] = "span"
    stride: int = Field(0, ge=0)  # tokens from one window of a long passage to the next; 0: a third of a row
    longest_answer: int = Field(30, ge=1)  # tokens
    threshold: float = ALWAYS  # by how much an answer must beat there being none
    language: Language = "en"  # whose rules tell when two answers are the same

    @classmethod
    def told_by(cls, examples: Sequence[SpanExample]) -> dict[str, Any]:
        letters = "".join(example.passage for example in examples[:100])
        chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
        # Unless a dev set tells better, an answer has to beat there being none if that is an answer too.
        threshold = ALWAYS if all(example.answers for example in examples) else 0.0
        return {"language": "zh" if chinese > len(letters) / 3 else "en", "threshold": threshold}

    def tuned(self, scores: Mapping[str, float]) -> Self:
        return self.replace(threshold=scores["threshold"])


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The best answers, with their characters in the passage; none may be better than all of them."""

    answers: Answers
    probabilities: tuple[float, ...]  # of each, beside each other and none
    threshold: float

    @property
    def text(self) -> str:
        """What is said in the end, which may be nothing."""
        return self.chosen.text if self.chosen else ""

    @property
    def chosen(self) -> Answer | None:
        """The best answer, if it is good enough."""
        return self.answers.choose(self.threshold)

    @property
    def probability(self) -> float:
        """Of what is said."""
        return self.probabilities[0] if self.chosen else 1 - sum(self.probabilities)

    def describe(self, example: SpanExample) -> dict[str, Any]:
        """All of it, as JSON has it."""
        best = self.answers.best
        return {
            "id": example.id,
            "answer": self.text,
            "start": self.chosen and self.chosen.start,
            "end": self.chosen and self.chosen.end,
            "probability": round(self.probability, 6),
            "margin": round(self.answers.margin, 6) if best else None,
            "best": [
                {**asdict(answer), "score": round(answer.score, 6), "probability": round(probability, 6)}
                for answer, probability in zip(best, self.probabilities, strict=True)
            ],
        }

    def outline(self, example: SpanExample) -> dict[str, str]:
        """The cells of a table."""
        place = f"{self.chosen.start}-{self.chosen.end}" if self.chosen else ""
        return {"answer": self.text, "characters": place, "probability": f"{self.probability:.3f}"}


@dataclass(frozen=True, kw_only=True)
class Passage(Item):
    """One window of a passage."""

    windows: Windows  # all of them


class Span(Task[SpanExample, Answered]):
    """Scores of starts and ends."""

    criterion = "best_f1"

    def __init__(self, name: str, config: SpanConfig, tuning: TuningConfig, encoder: Encoder) -> None:
        super().__init__(name, tuning, encoder)
        self.config = config
        width = self.features.width
        self.question = nn.Linear(self.features.summary_width, width) if encoder.layout == "apart" else None
        self.head = Head(width if self.question is None else 3 * width, 2, dropout=tuning.dropout)

    def items(self, layout: Layout, examples: Sequence[SpanExample]) -> list[Passage]:
        texts = list(dict.fromkeys(text for example in examples for text in example.texts))
        encoded = dict(zip(texts, layout.tokenizer.encode_batch(texts, specials=False), strict=True))
        return [
            item
            for number, example in enumerate(examples)
            for item in self._windows(layout, number, example, *(encoded[text] for text in example.texts))
        ]

    def _windows(
        self, layout: Layout, number: int, example: SpanExample, question: Tokens, tokens: Tokens
    ) -> Iterator[Passage]:
        windows = Windows.of(
            question if layout.joins else _NO_QUESTION,
            tokens,
            example.passage,
            layout.pair,
            max_length=layout.max_length,
            stride=self.config.stride or max(1, layout.max_length // 3),  # 128 of 384, as in BERT
            null=layout.null,
        )
        given = [(start, start + len(answer.text)) for answer in example.answers if (start := answer.start) is not None]
        known = given or not example.answers  # else the passage has the answer in other words
        asked = list(zip(question.ids, question.offsets, strict=True))
        apart = [] if layout.joins else [layout.framed(asked, example.question)]
        for window, places in zip(windows.rows, windows.places(given[0] if given else None), strict=True):
            offsets = [(0, 0)] * len(window.ids)
            offsets[window.first : window.first + len(window.tokens)] = [tokens.offsets[n] for n in window.tokens]
            row = layout.row(window.ids, window.segments, offsets, example.passage)
            label = places if known else (IGNORED, IGNORED)
            yield Passage(example=number, rows=[*apart, row], label=label, windows=windows)

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        tokens, mask = self.features(encoded), batch.mask
        if self.question is not None:
            summary = _normed(self.features.summarize(encoder, encoded, tokens)[0::2])
            tokens, mask = _normed(tokens[1::2]), mask[1::2]
            question = torch.tanh(self.question(summary))[:, None].expand_as(tokens)
            tokens = torch.cat([tokens, question, tokens * question], -1)
        scores: Tensor = self.head(tokens)
        return scores.transpose(1, 2).masked_fill(~mask[:, None], float("-inf"))  # (items, 2, T)

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        scores, labels = scores.flatten(0, 1), labels.flatten()
        loss = F.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    def answer(self, items: Sequence[Passage], scores: Sequence[Tensor]) -> Answered:
        starts, ends = ([of_row[side].numpy() for of_row in scores] for side in (0, 1))
        answers = items[0].windows.answers(starts, ends, max_tokens=self.config.longest_answer)
        said = torch.tensor([answers.null, *(answer.score for answer in answers.best)], dtype=torch.float64)
        probabilities = tuple(said.softmax(-1).tolist()[1:])
        return Answered(answers=answers, probabilities=probabilities, threshold=self.config.threshold)

    def score(self, predicted: Sequence[Answered], gold: Sequence[SpanExample]) -> dict[str, float]:
        theirs, language = [[answer.text for answer in example.answers] for example in gold], self.config.language
        scored = score_answers(theirs, [answer.text for answer in predicted], language)
        scores = {"exact": scored.exact, "f1": scored.f1, "best_f1": scored.f1, "threshold": self.config.threshold}
        if not all(theirs):  # where some have no answer, it matters when one is given
            said = [best[0].text if (best := answer.answers.best) else "" for answer in predicted]
            each = [score_answer(right, text, language).f1 for right, text in zip(theirs, said, strict=True)]
            margins = [max(answer.answers.margin, ALWAYS) for answer in predicted]
            tuned = best_threshold(margins, each, [bool(right) for right in theirs])
            scores |= {"best_f1": tuned.score, "threshold": tuned.value}
        return scores


def _normed(vectors: Tensor) -> Tensor:
    """Vectors of one scale: of short ones, a product is too little to learn which question it belongs to."""
    return F.layer_norm(vectors, vectors.shape[-1:])
