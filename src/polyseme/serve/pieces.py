"""From tokens to text while they are written: whole characters only, and nothing of a text at which to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from polyseme.text.tokenizer import Tokenizer

_LONG = 48  # tokens that are spelt again for each new one, at most
_CONTEXT = 8  # tokens before a new one that may change how it is spelt


@dataclass(kw_only=True)
class Piece:
    """A token that was written, as the part of the text that came with it."""

    text: str
    told: Any = None  # what else is to be said of it
    start: int = 0  # its first character in all that was written


@dataclass
class Pieces:
    """The text of tokens that come one by one."""

    tokenizer: Tokenizer
    before: Sequence[int]  # the last of the prompt: with some tokenizers only this says whether a space comes first
    stops: Sequence[str] = ()
    stopped: bool = False
    _ids: list[int] = field(init=False)
    _spelt: str = field(init=False)
    _open: str = ""  # text that is not given out yet
    _length: int = 0  # characters that were given out
    _held: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = list(self.before[-1:])
        self._spelt = self.tokenizer.decode(self._ids)

    def spell(self, id: int) -> str:
        """What a token would add."""
        return self.tokenizer.decode([*self._ids, id])[len(self._spelt) :]

    def add(self, id: int, told: Any = None) -> list[Piece]:
        """Take a token, and give out what is safe to show."""
        self._ids.append(id)
        whole = self.tokenizer.decode(self._ids)
        if whole.endswith("\ufffd"):  # a character of several bytes, of which some are still to come
            self._held.append(Piece(text="", told=told, start=self._length + len(self._open)))
            return []
        text, self._spelt = whole[len(self._spelt) :], whole
        self._held.append(Piece(text=text, told=told, start=self._length + len(self._open)))
        self._open += text
        if len(self._ids) > _LONG:
            self._ids = self._ids[-_CONTEXT:]
            self._spelt = self.tokenizer.decode(self._ids)
        cuts = [self._open.find(stop) for stop in self.stops if stop in self._open]
        if cuts:
            self.stopped = True
            return self._give(min(cuts), last=True)
        held_back = max((_overlap(self._open, stop) for stop in self.stops), default=0)
        return self._give(len(self._open) - held_back)

    def end(self) -> list[Piece]:
        """What was held back, when nothing comes any more."""
        rest = self.tokenizer.decode(self._ids)[len(self._spelt) :]
        if rest and self._held:
            self._held[-1].text += rest
            self._open += rest
        return self._give(len(self._open), last=True)

    def _give(self, number: int, *, last: bool = False) -> list[Piece]:
        """The tokens that make up the first `number` characters; the last one of all may be cut."""
        until = self._length + number
        given: list[Piece] = []
        while self._held and self._held[0].start + len(self._held[0].text) <= until:
            given.append(self._held.pop(0))
        if last and self._held and self._held[0].start < until:
            piece = self._held.pop(0)
            given.append(Piece(text=piece.text[: until - piece.start], told=piece.told, start=piece.start))
        number = sum(len(piece.text) for piece in given)
        self._open = self._open[number:]
        self._length += number
        return given


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
