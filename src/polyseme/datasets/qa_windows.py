"""Extractive question answering over long passages: sliding windows, positions of answers, decoding of spans.

An input sequence holds the question and a window of the passage; windows overlap. As in BERT's released code (Devlin et
al., 2018), an answer is scored in the window that gives its first token the most context, and the target of windows
without the answer is the null position.
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
from polyseme.tokenization.templates import Template
from polyseme.tokenization.tokenizer import Tokens


@dataclass(frozen=True, kw_only=True)
class PredictedAnswer:
    """A span of the passage."""

    text: str
    start: int
    end: int
    score: float  # start score of its first token plus end score of its last


@dataclass(frozen=True, kw_only=True)
class PredictedAnswers:
    """The candidate answers of a question."""

    best: list[PredictedAnswer]  # distinct, in descending order of score
    null_score: float  # of the question being unanswerable

    @property
    def margin(self) -> float:
        """The score of the best answer minus that of no answer."""
        return self.best[0].score - self.null_score if self.best else -math.inf

    def choose(self, threshold: float = -math.inf) -> PredictedAnswer | None:
        """The best answer, or None if its margin does not exceed the threshold."""
        return self.best[0] if self.margin > threshold else None


@dataclass(frozen=True, kw_only=True)
class PassageWindow:
    """An input sequence: the question and a window of the passage."""

    ids: list[int]
    segments: list[int]
    passage_tokens: range  # indices of its tokens in the passage
    scored_tokens: range  # those with more context here than in any other window; these ranges partition the passage
    passage_start: int  # position of its first passage token
    null_position: int  # target of windows without an answer

    @property
    def shift(self) -> int:
        """Position in the sequence minus index in the passage."""
        return self.passage_start - self.passage_tokens.start


@dataclass(frozen=True, kw_only=True)
class PassageWindows:
    """All windows of a question and its passage."""

    passage: str
    offsets: list[tuple[int, int]]  # start and end of each passage token, equal for white space
    windows: list[PassageWindow]

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
        null_position: int = 0,
    ) -> Self:
        """Cut a passage into windows of at most `max_length` tokens, each `stride` passage tokens after the one before.

        Question and passage are tokenized without special tokens, which the template adds. Long questions are truncated
        so that at least half of each window is left to the passage. A negative `null_position` counts from the end.
        """
        free = max_length - template.num_specials
        if free < 1:
            raise ConfigError(f"max_length: {max_length} tokens leave no room for a passage; give more")
        question_ids = question.ids[: min(longest_question, free // 2)]
        room = free - len(question_ids)
        num_tokens, step = len(tokens.ids), min(stride, room)
        before, between, after = template.added
        head = [*before, *((id, template.segments[0]) for id in question_ids), *between]
        spans = [
            range(start, min(start + room, num_tokens)) for start in range(0, max(num_tokens - room, 0) + step, step)
        ]
        windows = []
        for span, scored in zip(spans, _assign_tokens(spans, num_tokens), strict=True):
            row = [*head, *((tokens.ids[index], template.segments[1]) for index in span), *after]
            windows.append(
                PassageWindow(
                    ids=[id for id, _ in row],
                    segments=[segment for _, segment in row],
                    passage_tokens=span,
                    scored_tokens=scored,
                    passage_start=len(head),
                    null_position=null_position if null_position >= 0 else len(row) + null_position,
                )
            )
        offsets = [_trim(passage, start, end) for start, end in tokens.offsets]
        return cls(passage=passage, offsets=offsets, windows=windows)

    def target_positions(self, answer: tuple[int, int] | None) -> list[tuple[int, int]]:
        """The positions of the first and last token of an answer, given by its characters, in each window."""
        found = self._token_span(*answer) if answer else None
        return [
            (found[0] + window.shift, found[1] + window.shift)
            if found and found[0] in window.passage_tokens and found[1] in window.passage_tokens
            else (window.null_position, window.null_position)
            for window in self.windows
        ]

    def decode(
        self, starts: Sequence[NDArray[Any]], ends: Sequence[NDArray[Any]], *, num_best: int = 20, max_tokens: int = 30
    ) -> PredictedAnswers:
        """The best spans of at most `max_tokens` tokens, given the start and end scores of each window."""
        visible = np.array([start < end for start, end in self.offsets], np.bool_)
        spans, scores, null_scores = [], [], []
        for window, start, end in zip(self.windows, starts, ends, strict=True):
            scored = window.scored_tokens
            first, length = np.mgrid[scored.start : scored.stop, :max_tokens].reshape(2, -1)
            span = np.stack([first, first + length])[:, first + length < window.passage_tokens.stop]
            span = span[:, visible[span].all(0)]
            positions = span + window.shift
            spans.append(span)
            scores.append(np.asarray(start, np.float64)[positions[0]] + np.asarray(end)[positions[1]])
            null_scores.append(float(start[window.null_position]) + float(end[window.null_position]))
        span, score = np.concatenate(spans, 1), np.concatenate(scores)
        best: dict[tuple[int, int], float] = {}
        for index in np.argsort(-score, kind="stable"):
            if len(best) == num_best:
                break
            first, last = span[:, index]
            # Several tokens may share a character, so spans of characters can repeat.
            best.setdefault((self.offsets[first][0], self.offsets[last][1]), float(score[index]))
        return PredictedAnswers(
            best=[
                PredictedAnswer(text=self.passage[start:end], start=start, end=end, score=score)
                for (start, end), score in best.items()
            ],
            null_score=min(null_scores),
        )

    def _token_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The tokens whose boundaries are closest to a span of characters."""
        touched = [n for n, (first, last) in enumerate(self.offsets) if max(first, start) < min(last, end)]
        if not touched:
            return None
        first = min(touched, key=lambda n: (self.offsets[n][0] > start, abs(self.offsets[n][0] - start)))
        last = min(reversed(touched), key=lambda n: (self.offsets[n][1] < end, abs(self.offsets[n][1] - end)))
        return first, max(first, last)


def _assign_tokens(spans: Sequence[range], num_tokens: int) -> list[range]:
    """Assign each token to the span with the most context on its shorter side; ties go to the longer span."""
    best, owners = np.full(num_tokens, -1.0), np.zeros(num_tokens, np.int64)
    for number, span in enumerate(spans):
        part, positions = slice(span.start, span.stop), np.arange(len(span))
        context = np.minimum(positions, positions[::-1]) + 0.01 * len(span)
        owners[part][context > best[part]] = number
        best[part] = np.maximum(best[part], context)
    # Owners increase with the index of the token.
    bounds = np.searchsorted(owners, np.arange(len(spans) + 1)).tolist()
    return [range(start, end) for start, end in itertools.pairwise(bounds)]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The span of a token without white space, extended by combining accents that the tokenizer drops."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    while start < end < len(text) and unicodedata.category(text[end]) == "Mn":
        end += 1
    return start, end
