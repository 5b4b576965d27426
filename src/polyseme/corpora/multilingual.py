"""Corpora in several languages, each path prefixed with its language: `en=PATH`.

Low-resource languages are upsampled, both for the vocabulary and for training sequences: languages are sampled in
proportion to their share of the text raised to an exponent, as in multilingual BERT (Devlin et al., 2018, the released
models).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from polyseme.arrays import Doubles
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sampling import draw_sample
from polyseme.errors import ConfigError

_PREFIXED = re.compile(r"([a-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)=(.+)", re.DOTALL)


def split_language_prefix(path: str) -> tuple[str, str]:
    """The language of a path and the path itself; the language is empty without a prefix."""
    match = _PREFIXED.fullmatch(path)
    return (match[1], match[2]) if match and not Path(path).exists() else ("", path)


def group_by_language(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths of each language."""
    languages: dict[str, list[str]] = {}
    for language, path in map(split_language_prefix, paths):
        languages.setdefault(language, []).append(path)
    if "" in languages and len(languages) > 1:
        path = languages[""][0]
        raise ConfigError(f"{path} has no language; write it as en={path}, or name no language at all")
    return languages


def sampling_probabilities(sizes: Sequence[int], exponent: float) -> Doubles:
    """The probability of each language, given the size of its text."""
    weights = np.power(np.array(sizes, np.float64), exponent)
    return np.asarray(weights / weights.sum())


class MultilingualCorpus(Corpus):
    """One corpus per language, read one after the other."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        self.language_names = list(corpora)
        self.files = [file for corpus in corpora.values() for file in corpus.files]
        self.languages = list(corpora.values())

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """Bytes read so far, on disk."""
        return sum(corpus.bytes_read for corpus in self.languages)

    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(corpus.fingerprint() for corpus in self.languages).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        for corpus in self.languages:
            yield from corpus

    def resampled(self, exponent: float, num_bytes: int) -> Iterator[str]:
        """Documents and parts of them, about `num_bytes` at most; documents of small languages are repeated."""
        sizes = [sum(len(document.encode()) for document in corpus) for corpus in self.languages]
        probabilities = sampling_probabilities(sizes, exponent)
        # Enough to use all text, if that fits.
        total = min(num_bytes, max(size / share for size, share in zip(sizes, probabilities, strict=True)))
        for corpus, size, share in zip(self.languages, sizes, probabilities, strict=True):
            copies, rest = divmod(round(total * share), size)
            for _ in range(copies):
                yield from corpus
            if rest:
                yield from draw_sample(corpus, rest)
