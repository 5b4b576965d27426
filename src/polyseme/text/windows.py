"""Questions about long passages: rows that fit a model, where an answer lies in them, and back to its characters.

A row is the question and a window of the passage; windows overlap. As in BERT (Devlin et al., 2018, the released code),
an answer begins in the row in which its first token has the most context, and rows without the answer point to a token
that stands for none.
"""

import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ConfigError
from polyseme.text.tokenizer import Template, Tokens


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Some characters of a passage."""

    text: str  # as the passage has it
    start: int
    end: int
    score: float  # of its first token as a start, and its last as an end


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a model says to a question."""

    best: list[Answer]  # all different, the best first
    null: float  # the score of there being none

    @property
    def margin(self) -> float:
        """By how much the best answer beats there being none."""
        return self.best[0].score - self.null if self.best else -math.inf

    def choose(self, threshold: float = -math.inf) -> Answer | None:
        """The best answer if its margin is above a threshold."""
        return self.best[0] if self.margin > threshold else None


@dataclass(frozen=True, kw_only=True)
class Window:
    """A row of tokens: a question and some of the passage."""

    ids: list[int]
    segments: list[int]
    tokens: range  # of the passage that it holds
    own: range  # those of them that have the most context here; each token is some row's own
    first: int  # the place of its first token of the passage
    null: int  # the place that stands for no answer

    @property
    def shift(self) -> int:
        """How far the place of a token is from its number in the passage."""
        return self.first - self.tokens.start


@dataclass(frozen=True, kw_only=True)
class Windows:
    """All rows of a question and its passage."""

    passage: str
    offsets: list[tuple[int, int]]  # characters of the tokens of the passage; white space has none
    rows: list[Window]

    @classmethod
    def of(
        cls,
        question: Tokens,
        tokens: Tokens,
        passage: str,
        template: Template,
        *,
        max_length: int,
        stride: int,
        longest_question: int = 64,
        null: int = 0,
    ) -> Self:
        """Rows of at most `max_length` tokens, each `stride` tokens of the passage after the one before.

        Both texts come without special tokens, which the template adds. A long question is cut, to leave at least half
        of a row to the passage. Null is the place of a token that is not of the passage, from the end if negative.
        """
        free = max_length - template.num_specials
        if free < 1:
            raise ConfigError(f"max_length: {max_length} tokens leave no room for a passage; give more")
        asked = question.ids[: min(longest_question, free // 2)]
        room = free - len(asked)
        num_tokens, step = len(tokens.ids), min(stride, room)
        before, between, after = template.added
        head = [*before, *((id, template.segments[0]) for id in asked), *between]
        spans = [
            range(start, min(start + room, num_tokens)) for start in range(0, max(num_tokens - room, 0) + step, step)
        ]
        rows = []
        for span, own in zip(spans, _share(spans, num_tokens), strict=True):
            row = [*head, *((tokens.ids[number], template.segments[1]) for number in span), *after]
            rows.append(
                Window(
                    ids=[id for id, _ in row],
                    segments=[segment for _, segment in row],
                    tokens=span,
                    own=own,
                    first=len(head),
                    null=null if null >= 0 else len(row) + null,
                )
            )
        offsets = [_trim(passage, start, end) for start, end in tokens.offsets]
        return cls(passage=passage, offsets=offsets, rows=rows)

    def places(self, answer: tuple[int, int] | None) -> list[tuple[int, int]]:
        """Where the first and the last token of an answer, given by its characters, stand in each row."""
        found = self._tokens(*answer) if answer else None
        return [
            (found[0] + row.shift, found[1] + row.shift)
            if found and found[0] in row.tokens and found[1] in row.tokens
            else (row.null, row.null)
            for row in self.rows
        ]

    def answers(
        self,
        starts: Sequence[NDArray[Any]],
        ends: Sequence[NDArray[Any]],
        *,
        num_best: int = 20,
        max_tokens: int = 30,
    ) -> Answers:
        """The best of all answers of at most `max_tokens`, by the scores of the tokens of each row."""
        real = np.array([start < end for start, end in self.offsets], np.bool_)
        spans, scores, nulls = [], [], []
        for row, start, end in zip(self.rows, starts, ends, strict=True):
            first, length = np.mgrid[row.own.start : row.own.stop, :max_tokens].reshape(2, -1)
            span = np.stack([first, first + length])[:, first + length < row.tokens.stop]
            span = span[:, real[span].all(0)]
            spans.append(span)
            scores.append(np.asarray(start, np.float64)[span[0] + row.shift] + np.asarray(end)[span[1] + row.shift])
            nulls.append(float(start[row.null]) + float(end[row.null]))
        span, score = np.concatenate(spans, 1), np.concatenate(scores)
        best: dict[tuple[int, int], float] = {}
        for number in np.argsort(-score, kind="stable"):
            if len(best) == num_best:
                break
            first, last = span[:, number]
            # Several tokens may be of one character.
            best.setdefault((self.offsets[first][0], self.offsets[last][1]), float(score[number]))
        return Answers(
            best=[
                Answer(text=self.passage[start:end], start=start, end=end, score=score)
                for (start, end), score in best.items()
            ],
            null=min(nulls),
        )

    def _tokens(self, start: int, end: int) -> tuple[int, int] | None:
        """The tokens that hold some characters as closely as they can."""
        touched = [n for n, (first, last) in enumerate(self.offsets) if max(first, start) < min(last, end)]
        if not touched:
            return None
        first = min(touched, key=lambda n: (self.offsets[n][0] > start, abs(self.offsets[n][0] - start)))
        last = min(reversed(touched), key=lambda n: (self.offsets[n][1] < end, abs(self.offsets[n][1] - end)))
        return first, max(first, last)


def _share(spans: Sequence[range], num_tokens: int) -> list[range]:
    """Give each token to the span in which it has the most neighbours on its poorer side, rather to a longer span."""
    most, owners = np.full(num_tokens, -1.0), np.zeros(num_tokens, np.int64)
    for number, span in enumerate(spans):
        part, places = slice(span.start, span.stop), np.arange(len(span))
        context = np.minimum(places, places[::-1]) + 0.01 * len(span)
        owners[part][context > most[part]] = number
        most[part] = np.maximum(most[part], context)
    # The later a token, the later its owner.
    bounds = np.searchsorted(owners, np.arange(len(spans) + 1)).tolist()
    return [range(start, end) for start, end in itertools.pairwise(bounds)]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters of a token without white space, and with accents that a tokenizer drops."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    while start < end < len(text) and unicodedata.category(text[end]) == "Mn":
        end += 1
    return start, end
