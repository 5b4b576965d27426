r"""N-gram models in the ARPA format, which SRILM, KenLM and most speech recognizers read.

A section for each length has lines of log10 p(w | h), the n-gram h w, and the log10 backoff weight of h w as a context.
That of an n-gram that is not listed is the backoff weight of h times p(w | h'), where h' is h without its first word.
Interpolated models have this form as well, with frequency(h w) + backoff(h) p(w | h') as p(w | h).

The end of a document is one token here, which is predicted and begins the context of the next document. In the format
it is `</s>` where it is predicted, and `<s>` at the beginning of an n-gram; OOV words are `<unk>`. An export has the
tokenizer beside the file, so that the import of its folder scores any text alike. A file alone is imported with a
tokenizer of words and punctuation.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import models

from polyseme.arrays import AnyFloats, Doubles, Floats, Ids, Integers
from polyseme.baselines.ngram import Ngram, NgramConfig, NgramLm
from polyseme.conversion.formats import Exporter, Importer, ImportOptions, Parity
from polyseme.errors import CheckpointError, DataError
from polyseme.inference.model import LoadedModel
from polyseme.objectives.joint import JointObjective
from polyseme.system.regular_files import check_regular
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.storage.model_dir import WEIGHTS, write_model

if TYPE_CHECKING:
    from polyseme.baselines.ngram_trie import InterpolatedNgrams

START, END, UNKNOWN = "<s>", "</s>", "<unk>"

_FILE = "model.arpa"
_CHUNK = 1 << 18  # lines that are in memory at once
_LOG_ZERO = -99.0  # as the format writes the logarithm of 0
_MIN_PROBABILITY = 1e-30


def _write(model: LoadedModel, folder: Path, texts: Sequence[str] | None) -> tuple[Path, Parity | None]:
    """Write the file, and the tokenizer beside it."""
    tokenizer, head = model.require_tokenizer(), model.language_model.head
    assert isinstance(head, NgramLm)
    tokenizer.save(folder)
    with (folder / _FILE).open("w", encoding="utf-8") as file:
        file.writelines(_lines(head, _token_names(tokenizer)))
    return folder / _FILE, None


def _token_names(tokenizer: Tokenizer) -> list[str]:
    """The name of each id in the format."""
    names = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    specials = tokenizer.specials
    for id, name in ((specials.unknown, UNKNOWN), (specials.end, END)):
        if id is not None:
            names[id] = name
    invalid = next((name for name in names if name.split() != [name]), None)
    if invalid is not None:
        raise DataError(f"the token {invalid!r:.60} contains white space, which the ARPA format does not allow")
    if len(set(names)) < len(names):
        raise DataError(f"the vocabulary has tokens named {UNKNOWN} or {END} for other purposes; rename them")
    return names


def _lines(head: NgramLm, names: Sequence[str]) -> Iterator[str]:
    """The lines of a file."""
    trie, tokens, end = head.ngrams.trie, np.array(names, object), head.end
    start_lines = []
    if end is not None and START not in names:
        start_lines = [f"{_LOG_ZERO:g}\t{START}\t{_log10(head.ngrams.backoffs[[1 + end]])[0]:.9g}\n"]
    yield "\\data\\\n"
    for length, count in enumerate([trie.vocab_size + len(start_lines), *trie.num_ngrams], 1):
        yield f"ngram {length}={count}\n"
    ngrams = np.zeros((1, 0), np.int32)  # of the length before
    for length in range(1, trie.order + 1):
        yield f"\n\\{length}-grams:\n"
        before, start, stop = trie.level_starts[length - 1 : length + 2]
        parents = np.repeat(np.arange(start - before), np.diff(trie.first[before : start + 1]))
        ngrams = np.column_stack([ngrams[parents], trie.words[start:stop]])
        for first in range(0, len(ngrams), _CHUNK):
            part = ngrams[first : first + _CHUNK]
            yield from _format(head, tokens, part, start + first + np.arange(len(part)))
        yield from start_lines if length == 1 else ()
    yield "\n\\end\\\n"


def _format(head: NgramLm, tokens: NDArray[np.object_], ngrams: Integers, nodes: Ids) -> Iterator[str]:
    """The lines of n-grams (N, length), whose nodes are given."""
    trie, end, length = head.ngrams.trie, head.end, ngrams.shape[1]
    contexts = np.full((len(ngrams), trie.order - 1), -1, np.int64)
    contexts[:, trie.order - length :] = ngrams[:, :-1]
    logs = _log10(head.ngrams.probabilities(contexts, ngrams[:, -1].astype(np.int64))).tolist()
    words = tokens[ngrams]
    if length > 1 and end is not None:
        words[ngrams[:, 0] == end, 0] = START
    texts = map(" ".join, words.tolist())
    if length == trie.order:
        yield from (f"{log:.9g}\t{text}\n" for log, text in zip(logs, texts, strict=True))
        return
    weights = _log10(head.ngrams.backoffs[nodes])
    if length == 1 and end is not None:  # of the two names of this token, the start of a document is a context
        weights[words[:, 0] == START] = _log10(head.ngrams.backoffs[[1 + end]])
        weights[ngrams[:, 0] == end] = 0
    triples = zip(logs, texts, weights.tolist(), strict=True)
    yield from (f"{log:.9g}\t{text}\t{weight:.9g}\n" for log, text, weight in triples)


def _log10(values: AnyFloats) -> Doubles:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log10(values, dtype=np.float64), _LOG_ZERO)


class _Section:
    """The n-grams of one length, in the order of the file."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.words = array("i")  # numbered in the order of the 1-grams, `length` for each
        self.logs = array("d")  # of p(w | h)
        self.weights = array("d")  # logarithms of backoff weights

    def add(self, fields: list[str], numbers: dict[str, int]) -> None:
        """Add the fields of a line."""
        if self.length == 1 and numbers.setdefault(fields[1], len(numbers)) < len(self.logs):
            raise ValueError("a word is listed twice")
        self.words.extend([numbers[word] for word in fields[1 : self.length + 1]])
        self.logs.append(float(fields[0]))
        self.weights.append(float(fields[self.length + 1]) if len(fields) > self.length + 1 else 0.0)

    @property
    def probabilities(self) -> Doubles:
        """The probability of the last word after the others."""
        return np.maximum(10.0 ** np.array(self.logs), _MIN_PROBABILITY)

    @property
    def backoffs(self) -> Floats:
        """The weights as contexts."""
        return (10.0 ** np.array(self.weights)).astype(np.float32)


def _convert(source: Path, target: Path, options: ImportOptions) -> None:
    """Write a model directory; its tokenizer is the one beside the file, or has the words of the file."""
    file = _find_file(source)
    assert file is not None
    words, sections = _read(file)
    tokenizer = _open_tokenizer(source, file, words)
    names = _token_names(tokenizer)
    if set(words) - {START} != set(names) - {START}:
        raise CheckpointError(f"{file} has other words than the tokenizer beside it; use the files of one model")
    config = NgramConfig.parse({"vocab_size": len(names), "order": len(sections)}, group="model")
    ngrams = _build(file, sections, words, names)
    encoder = Ngram(config.replace(num_ngrams=ngrams.trie.num_ngrams))
    head = NgramLm(Ngram(config), tokenizer.specials)
    head.ngrams = ngrams
    tokenizer.save(target, max_length=config.max_length)
    write_model(target, family="ngram", encoder=encoder, heads=JointObjective({"causal_lm": head}), extra={})


def _find_file(source: Path) -> Path | None:
    """The file in a source: itself, or the only one in a folder."""
    if source.is_dir():
        files = list(source.glob("*.arpa"))
        return files[0] if len(files) == 1 and not (source / WEIGHTS).exists() else None
    return source if source.suffix == ".arpa" and source.is_file() else None


def _read(file: Path) -> tuple[list[str], list[_Section]]:
    """Read the words and the sections of a file."""
    numbers: dict[str, int] = {}
    sections: list[_Section] = []
    with check_regular(file).open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            try:
                if line.startswith("\\end\\") and sections:
                    return list(numbers), sections
                if line.startswith(f"\\{len(sections) + 1}-grams:"):
                    sections.append(_Section(len(sections) + 1))
                elif fields and sections:
                    sections[-1].add(fields, numbers)
            except (ValueError, KeyError, IndexError):
                raise CheckpointError(
                    f"{file}, line {number}: expected a logarithm and an n-gram of {len(sections)} words, all of which "
                    "are among the 1-grams; write the file again"
                ) from None
    raise CheckpointError(f"{file} is not in the ARPA format, or truncated; write it again")


def _open_tokenizer(source: Path, file: Path, words: Sequence[str]) -> Tokenizer:
    if (source / "tokenizer.json").exists():
        return Tokenizer.load(source)
    missing = {START, END, UNKNOWN}.difference(words)
    if missing:
        raise CheckpointError(f"{file} has no {min(missing)}; train it with sentence ends and an open vocabulary")
    config = TokenizerConfig(kind="word", specials="plain", lowercase=all(word == word.lower() for word in words))
    return Tokenizer.build(models.WordLevel({word: id for id, word in enumerate(words)}, unk_token=UNKNOWN), config)


def _build(file: Path, sections: Sequence[_Section], words: Sequence[str], names: Sequence[str]) -> InterpolatedNgrams:
    """Build the trie level by level, with p(w | h) - backoff(h) p(w | h') as the frequency of h w."""
    from polyseme.baselines.ngram_trie import InterpolatedNgrams, NgramTrie

    ids = {name: id for id, name in enumerate(names)}
    in_ngrams = np.array([ids[END if word == START else word] for word in words])
    vocab_size, unigrams = len(names), sections[0]
    trie = NgramTrie(
        words=np.arange(-1, vocab_size, dtype=np.int32).clip(0),
        first=np.array([1, 1 + vocab_size], np.int32),
        level_starts=(0, 1, 1 + vocab_size),
    )
    frequencies = np.zeros(1 + vocab_size, np.float32)
    backoffs = np.ones(1 + vocab_size, np.float32)
    backoffs[0] = 0  # unigrams are not interpolated
    for word, id, probability, backoff in zip(words, in_ngrams, unigrams.probabilities, unigrams.backoffs, strict=True):
        if word in ids:
            frequencies[1 + ids[word]] = probability
        if word != END:  # the weight of this token is that of its other name
            backoffs[1 + id] = backoff
    probabilities = frequencies.astype(np.float64)  # of the last word of each node
    for section in sections[1:]:
        ngrams = in_ngrams[np.array(section.words)].reshape(-1, section.length)
        parents, suffixes = trie.find(ngrams[:, :-1]), trie.find(ngrams[:, 1:])
        missing = np.flatnonzero((parents == 0) | (suffixes == 0))
        if len(missing):
            ngram = " ".join(names[id] for id in ngrams[missing[0]])
            raise CheckpointError(f"{file} has {ngram:.60}, but not all parts of it; write it again without pruning")
        order = np.lexsort((ngrams[:, -1], parents))
        trie = trie.extended(parents[order], ngrams[order, -1])
        lower = (backoffs[parents].astype(np.float64) * probabilities[suffixes])[order]
        new = (section.probabilities[order] - lower).astype(np.float32)
        frequencies, probabilities = np.concatenate([frequencies, new]), np.concatenate([probabilities, lower + new])
        if section is not sections[-1]:
            backoffs = np.concatenate([backoffs, section.backoffs[order]])
    return InterpolatedNgrams(trie=trie, frequencies=frequencies, backoffs=backoffs)


IMPORTER = Importer(
    description="an n-gram model in the ARPA format",
    detect=lambda source, options: _find_file(source) is not None,
    convert=_convert,
)
EXPORTER = Exporter(write=_write, family="ngram")
