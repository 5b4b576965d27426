"""Co-occurrence counting in memory that does not grow with the corpus.

The corpus is read in chunks. All positions of a word in a chunk are collected first, so that its neighbours are summed
in one dense row that stays in the processor's cache; nothing is sorted or hashed. Finished rows are written to disk,
and the counts of several chunks are merged at the end. The result does not depend on the number of threads.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyseme.arrays import Doubles, Flags, Floats, Ids, Integers
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import DataError
from polyseme.static_embeddings.config import WindowConfig
from polyseme.system.cache import load_or_build
from polyseme.system.hardware import num_cores
from polyseme.system.jit import jit
from polyseme.system.threads import ordered_map

_FORMAT = 1
_CHUNK = 1 << 24  # tokens counted at once
_BLOCK = 1 << 21  # pairs per task of a thread
_GAP = -1  # marks a boundary that windows do not cross
_FILES = {"starts": np.int64, "columns": np.int32, "values": np.float32}

Ids32 = NDArray[np.int32]
Rows = tuple[Ids, Ids32, Floats]  # row lengths, columns, values


def window_bounds(store: TokenStore, within: str) -> Integers:
    """Where sentences or documents begin, and the end of the corpus."""
    return store.sentences if within == "sentence" else store.sentences[store.documents]


def cooccurrence_counts(store: TokenStore, config: WindowConfig, include: Flags) -> csr_array:
    """The counts of a store, computed once and cached; words outside `include` (V,) are skipped."""
    digest = hashlib.sha256(f"{_FORMAT} {store.fingerprint} {config.within} {config.symmetric}".encode())
    digest.update(config.weights.tobytes())
    digest.update(include.tobytes())

    def build(folder: Path) -> None:
        bounds = window_bounds(store, config.within)
        count_cooccurrences(
            store.tokens, bounds, folder, include=include, weights=config.weights, symmetric=config.symmetric
        )

    return load_or_build("pairs", digest.hexdigest(), load=open_counts, build=build)


def require_cooccurrences(counts: csr_array) -> csr_array:
    """The counts, or an error if all are zero."""
    if not counts.nnz:
        raise DataError("no two words of the corpus co-occur within a window; use more text or a larger window")
    return counts


def open_counts(folder: Path) -> csr_array:
    """Memory-map counts, (V, V): how often word j occurs in the window of word i."""
    starts, columns, values = (
        np.memmap(folder / name, dtype, mode="r") if (folder / name).stat().st_size else np.zeros(0, dtype)
        for name, dtype in _FILES.items()
    )
    if len(columns) < 1 << 31:
        starts = starts.astype(np.int32)  # otherwise scipy copies the columns to give both the same type
    return csr_array((values, columns, starts), shape=(len(starts) - 1,) * 2)


def count_cooccurrences(
    tokens: Integers,
    bounds: Integers,
    folder: Path,
    *,
    include: Flags,
    weights: Doubles,
    symmetric: bool = True,
    num_threads: int = 0,
    chunk: int = _CHUNK,
    block: int = _BLOCK,
) -> csr_array:
    """Write counts to a folder and memory-map them.

    Words outside `include` (V,) are removed before windows are formed. Windows do not cross `bounds`. A word at
    distance d counts `weights[d - 1]`.
    """
    num_threads = num_threads or num_cores()
    parts: list[Path] = []
    for text in _chunks(tokens, bounds, include, len(weights), chunk):
        parts.append(folder / str(len(parts)))
        _write(parts[-1], ordered_map(_count_tasks(text, len(include), weights, symmetric, block), num_threads))
    if len(parts) > 1:
        _write(folder, ordered_map(_merge_tasks(parts, block), num_threads))
    else:
        for name in _FILES:
            (parts[0] / name).rename(folder / name)
    for part in parts:
        shutil.rmtree(part)
    return open_counts(folder)


def _chunks(tokens: Integers, bounds: Integers, include: Flags, window: int, length: int) -> Iterator[Ids32]:
    """Chunks of the corpus with gaps at the bounds, padded with one window of context on both ends."""
    padding = np.full(window, _GAP, np.int32)
    context = padding
    for begin in range(0, max(1, len(tokens)), length):
        chunk = tokens[begin : begin + length]
        first, last = np.searchsorted(bounds, [begin, begin + len(chunk)])
        text = np.empty(len(context) + len(chunk) + last - first + window, np.int32)
        text[: len(context)] = context
        end = _copy_with_gaps(chunk, bounds[first:last] - begin, include, text, len(context))
        if begin + length >= len(tokens):
            text[end : end + window] = padding
            end += window
        context = text[max(0, end - 2 * window) : end].copy()
        yield text[:end]


def _count_tasks(
    text: Ids32, vocab_size: int, weights: Doubles, symmetric: bool, block: int
) -> Iterator[Callable[[], Rows]]:
    starts, positions = _positions_by_word(text, len(weights), vocab_size)
    max_lengths = np.minimum(np.diff(starts) * len(weights) * (1 + symmetric), vocab_size)
    for first, last in _blocks(max_lengths, block):
        capacity = int(max_lengths[first:last].sum())
        yield partial(_count_rows, text, starts[first : last + 1], positions, weights, symmetric, vocab_size, capacity)


def _merge_tasks(parts: list[Path], block: int) -> Iterator[Callable[[], Rows]]:
    starts = np.stack([np.fromfile(part / "starts", np.int64) for part in parts])
    max_lengths = np.diff(starts).sum(0)
    for first, last in _blocks(max_lengths, block):
        yield partial(_merge_files, parts, starts[:, first : last + 1], len(max_lengths))


def _merge_files(parts: list[Path], starts: Ids, vocab_size: int) -> Rows:
    lengths = starts[:, -1] - starts[:, 0]
    spans = list(zip(parts, starts[:, 0].tolist(), lengths.tolist(), strict=True))
    columns, values = (
        np.concatenate(
            [np.fromfile(part / name, _FILES[name], count, offset=4 * first) for part, first, count in spans]
        )
        for name in ("columns", "values")
    )
    shifted = starts - starts[:, :1] + (np.cumsum(lengths) - lengths)[:, None]
    return _merge_rows(shifted, columns, values, vocab_size)


def _blocks(sizes: Integers, block: int) -> Iterable[tuple[int, int]]:
    """Split rows into ranges of about `block` pairs."""
    numbers = np.cumsum(sizes) // block
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return pairwise([0, *cuts.tolist(), len(sizes)])


def _write(folder: Path, blocks: Iterable[Rows]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    all_lengths = [np.zeros(1, np.int64)]
    with (folder / "columns").open("wb") as columns_file, (folder / "values").open("wb") as values_file:
        for lengths, columns, values in blocks:
            all_lengths.append(lengths)
            columns_file.write(columns.data)
            values_file.write(values.data)
    (folder / "starts").write_bytes(np.cumsum(np.concatenate(all_lengths)).tobytes())


@jit
def _copy_with_gaps(chunk: Integers, cuts: Integers, include: Flags, text: Ids32, end: int) -> int:
    """Copy included words to `text` from index `end` on, with gaps at the cuts; return the new end."""
    cut = 0
    for position in range(len(chunk)):
        if cut < len(cuts) and cuts[cut] == position:
            text[end] = _GAP
            end += 1
            while cut < len(cuts) and cuts[cut] == position:
                cut += 1
        if include[chunk[position]]:
            text[end] = chunk[position]
            end += 1
    return end


@jit
def _positions_by_word(text: Ids32, window: int, vocab_size: int) -> tuple[Ids, Ids32]:
    """The positions of word w are at `starts[w]:starts[w + 1]`; a counting sort."""
    starts = np.zeros(vocab_size + 1, np.int64)
    for position in range(window, len(text) - window):
        if text[position] != _GAP:
            starts[text[position] + 1] += 1
    starts = np.cumsum(starts)
    next_index = starts[:-1].copy()
    positions = np.empty(starts[-1], np.int32)
    for position in range(window, len(text) - window):
        if text[position] != _GAP:
            positions[next_index[text[position]]] = position
            next_index[text[position]] += 1
    return starts, positions


@jit
def _count_rows(
    text: Ids32, starts: Ids, positions: Ids32, weights: Doubles, symmetric: bool, vocab_size: int, capacity: int
) -> Rows:
    """Count the rows of consecutive words."""
    sums = np.zeros(vocab_size)
    lengths = np.empty(len(starts) - 1, np.int64)
    columns, values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
    size = 0
    for row in range(len(lengths)):
        begin = size
        for position in positions[starts[row] : starts[row + 1]]:
            for direction in (-1, 1):
                for distance in range(1, len(weights) + 1):
                    word = text[position + direction * distance]
                    if word == _GAP:
                        break
                    if sums[word] == 0:
                        columns[size] = word
                        size += 1
                    sums[word] += weights[distance - 1]
                if not symmetric:
                    break
        _move_sums(sums, columns[begin:size], values[begin:size])
        lengths[row] = size - begin
    return lengths, columns[:size].copy(), values[:size].copy()


@jit
def _merge_rows(starts: Ids, columns: Ids32, values: Floats, vocab_size: int) -> Rows:
    """Sum the rows of several parts; those of part k begin at `starts[k]`."""
    sums = np.zeros(vocab_size)
    lengths = np.empty(starts.shape[1] - 1, np.int64)
    merged_columns, merged_values = np.empty_like(columns), np.empty_like(values)
    size = 0
    for row in range(len(lengths)):
        begin = size
        for part in range(len(starts)):
            for pair in range(starts[part, row], starts[part, row + 1]):
                if sums[columns[pair]] == 0:
                    merged_columns[size] = columns[pair]
                    size += 1
                sums[columns[pair]] += values[pair]
        _move_sums(sums, merged_columns[begin:size], merged_values[begin:size])
        lengths[row] = size - begin
    return lengths, merged_columns[:size].copy(), merged_values[:size].copy()


@jit
def _move_sums(sums: Doubles, columns: Ids32, values: Floats) -> None:
    """Move sums to `values` and reset them."""
    for index in range(len(columns)):
        values[index] = sums[columns[index]]
        sums[columns[index]] = 0
