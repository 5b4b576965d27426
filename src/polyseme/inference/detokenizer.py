"""Streaming detokenization: whole characters only, and nothing that may be the beginning of a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from polyseme.tokenization.tokenizer import Tokenizer

_MAX_WINDOW = 48  # tokens that are decoded again with each new one, at most
_MIN_WINDOW = 8  # preceding tokens that may change how a new one is decoded


@dataclass(kw_only=True)
class TextPiece:
    """The text that a generated token adds."""

    text: str
    logprobs: Any = None  # whatever the caller attaches to the token
    start: int = 0  # offset of its first character in the generated text


class Detokenizer:
    """The text of tokens that arrive one by one."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stops: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.stops = stops
        self.stopped = False  # whether a stop string was reached
        self._ids = list(prompt[-1:])  # with some tokenizers, it decides whether a space comes first
        self._decoded = tokenizer.decode(self._ids)
        self._pending = ""  # decoded text that has not been released
        self._released = 0  # characters
        self._held: list[TextPiece] = []

    def preview(self, id: int) -> str:
        """The text that a token would add."""
        return self.tokenizer.decode([*self._ids, id])[len(self._decoded) :]

    def add(self, id: int, logprobs: Any = None) -> list[TextPiece]:
        """Append a token and return the pieces that can be shown."""
        self._ids.append(id)
        decoded = self.tokenizer.decode(self._ids)
        piece = TextPiece(text="", logprobs=logprobs, start=self._released + len(self._pending))
        self._held.append(piece)
        if decoded.endswith("\ufffd"):  # bytes of a character that is not complete yet
            return []
        piece.text, self._decoded = decoded[len(self._decoded) :], decoded
        self._pending += piece.text
        if len(self._ids) > _MAX_WINDOW:
            self._ids = self._ids[-_MIN_WINDOW:]
            self._decoded = self.tokenizer.decode(self._ids)
        cuts = [self._pending.find(stop) for stop in self.stops if stop in self._pending]
        if cuts:
            self.stopped = True
            return self._release(min(cuts), last=True)
        held_back = max((_overlap(self._pending, stop) for stop in self.stops), default=0)
        return self._release(len(self._pending) - held_back)

    def flush(self) -> list[TextPiece]:
        """Return what was held back, at the end of the generation."""
        rest = self.tokenizer.decode(self._ids)[len(self._decoded) :]
        if rest and self._held:
            self._held[-1].text += rest
            self._pending += rest
        return self._release(len(self._pending), last=True)

    def _release(self, length: int, *, last: bool = False) -> list[TextPiece]:
        """The pieces of the first `length` pending characters; the last one may be cut."""
        until = self._released + length
        released: list[TextPiece] = []
        while self._held and self._held[0].start + len(self._held[0].text) <= until:
            released.append(self._held.pop(0))
        if last and self._held and self._held[0].start < until:
            piece = self._held.pop(0)
            released.append(replace(piece, text=piece.text[: until - piece.start]))
        length = sum(len(piece.text) for piece in released)
        self._pending = self._pending[length:]
        self._released += length
        return released


def _overlap(text: str, stop: str) -> int:
    """Length of the longest suffix of `text` that is a proper prefix of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
