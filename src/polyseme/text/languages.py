"""Text in several languages, each named before its path: `en=PATH`.

The small ones are drawn more often than they occur, in proportion to their share of the text to the power of an
exponent, for the vocabulary as for the rows, as in multilingual BERT (Devlin et al., 2018, the released models).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ConfigError
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import draw_sample

_NAMED = re.compile(r"([a-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)=(.+)", re.DOTALL)


def split_name(path: str) -> tuple[str, str]:
    """The language that a path is given for, and the path alone; a plain path is of no language in particular."""
    named = _NAMED.fullmatch(path)
    return (named[1], named[2]) if named and not Path(path).exists() else ("", path)


def by_language(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths of each language."""
    languages: dict[str, list[str]] = {}
    for name, path in map(split_name, paths):
        languages.setdefault(name, []).append(path)
    if "" in languages and len(languages) > 1:
        raise ConfigError(f"{languages[''][0]} is of no language; say en={languages[''][0]}, or name none at all")
    return languages


def shares(sizes: Sequence[int], exponent: float) -> NDArray[np.float64]:
    """How much is drawn of each language, all together 1."""
    raised = np.power(np.array(sizes, np.float64), exponent)
    return np.asarray(raised / raised.sum())


class Languages(Corpus):
    """The languages of a corpus, read one after the other."""

    def __init__(self, parts: Mapping[str, Corpus]) -> None:
        self.names = list(parts)
        self.files = [file for part in parts.values() for file in part.files]
        self._parts = list(parts.values())

    @property
    def parts(self) -> list[Corpus]:
        return self._parts

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """How far the parts were read, on disk."""
        return sum(part.bytes_read for part in self.parts)

    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(part.fingerprint() for part in self.parts).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        for part in self.parts:
            yield from part

    def drawn(self, exponent: float, num_bytes: int) -> Iterator[str]:
        """Documents and pieces of them, of about `num_bytes` at most: of small languages several times the same."""
        sizes = [sum(len(document.encode()) for document in part) for part in self.parts]
        wanted = shares(sizes, exponent)
        # As much as makes use of all text, if there is room for it.
        total = min(num_bytes, max(size / share for size, share in zip(sizes, wanted, strict=True)))
        for part, size, share in zip(self.parts, sizes, wanted, strict=True):
            copies, rest = divmod(round(total * share), size)
            for _ in range(copies):
                yield from part
            if rest:
                yield from draw_sample(part, rest)
