"""Text kept as pre-token indices while its words are counted.

Once the words have ids, a token store is made of it without reading the text again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from polyseme.arrays import Integers
from polyseme.tokenization.fast_encoder.boundaries import PretokenBoundaries
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenCache
from polyseme.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class PretokenizedBatch:
    """The pre-tokens of a batch of documents."""

    rows: Integers  # the index of each pre-token
    lengths: Integers  # pre-tokens of each sentence
    counts: Integers  # sentences of each document
    num_characters: int
    num_words: int


class PretokenizedText:
    """A whole text, or nothing if it is too long for memory or cannot be split into pre-tokens."""

    MAX_LENGTH = 1 << 26  # pre-tokens, of four bytes each
    MAX_PRETOKENS = 1 << 22  # almost all of them distinct

    def __init__(self) -> None:
        self.complete = True
        self.boundaries: PretokenBoundaries | None = None  # set when the whole text is here
        self.pretokens: list[str] = []  # by their index
        self.batches: list[PretokenizedBatch] = []
        self._length = 0

    def add(self, batch: PretokenizedBatch | None) -> None:
        """Add a batch; drop everything if it is None or does not fit."""
        self._length += len(batch.rows) if batch else 0
        fits = self._length <= self.MAX_LENGTH and len(self.pretokens) <= self.MAX_PRETOKENS
        self.complete &= batch is not None and fits
        if self.complete and batch:
            self.batches.append(batch)
        else:
            self.batches.clear()
            self.pretokens.clear()

    def matches(self, tokenizer: Tokenizer) -> bool:
        """Whether the whole text is here, split as a tokenizer splits it."""
        boundaries = self.boundaries
        return self.complete and boundaries is not None and boundaries.same_as(PretokenBoundaries.of(tokenizer))

    def encode(self, tokenizer: Tokenizer) -> Iterator[tuple[PretokenizedBatch, Integers, Integers]]:
        """Encode the batches; yield each with its tokens and the number of tokens of each sentence."""
        cache = PretokenCache.of(tokenizer)
        assert cache is not None
        cache.fill(self.pretokens)
        for batch in self.batches:
            yield batch, *cache.gather(batch.rows, batch.lengths)
