"""Drafts: a text as the numbers of its stretches, kept while its words are counted.

When the words have tokens a store is made of it, and the text need not be read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from polyseme.text.stretches import Cutter, Table
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import Numbers


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The stretches of a passage."""

    rows: Numbers  # the number of each
    lengths: Numbers  # stretches of each sentence
    counts: Numbers  # sentences of each document
    num_characters: int
    num_words: int


class Draft:
    """A whole text, or nothing: what is too long to keep, or cannot be cut into stretches, is read again."""

    MOST = 1 << 26  # stretches, of four bytes each
    MOST_NAMES = 1 << 22  # different ones, mostly

    def __init__(self) -> None:
        self.kept = True
        self.cutter: Cutter | None = None  # how the text was cut, once all of it is
        self.names: list[str] = []  # the stretches by their numbers
        self.sheets: list[Sheet] = []
        self._num_stretches = 0

    def add(self, sheet: Sheet | None) -> None:
        """Keep a passage; one that cannot be kept ends the draft."""
        self._num_stretches += len(sheet.rows) if sheet else 0
        self.kept &= sheet is not None and self._num_stretches <= self.MOST and len(self.names) <= self.MOST_NAMES
        if self.kept and sheet:
            self.sheets.append(sheet)
        else:
            self.sheets.clear()
            self.names.clear()

    def suits(self, tokenizer: Tokenizer) -> bool:
        """Whether this is the text as a tokenizer cuts it."""
        return self.kept and self.cutter is not None and self.cutter.same(Cutter.of(tokenizer))

    def encode(self, tokenizer: Tokenizer) -> Iterator[tuple[Sheet, Numbers, Numbers]]:
        """Each passage with its tokens, and how many of them each sentence has."""
        table = Table.of(tokenizer)
        assert table is not None
        table.learn(self.names)
        for sheet in self.sheets:
            yield sheet, *table.spread(sheet.rows, sheet.lengths)
