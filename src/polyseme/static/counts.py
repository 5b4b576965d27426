"""How often words stand near each other, counted in memory that does not grow with the text.

The text is read in stretches. All places of a word in a stretch are brought together, so that its neighbours add up in
one row, which stays at hand for the processor: nothing is sorted and nothing looked up. Rows go to the disk as soon
as they are whole, and those of several stretches are added up in the end. The order of threads changes nothing.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyseme.errors import DataError
from polyseme.files import cache_folder, whole_folder
from polyseme.kernels import compiled, in_order
from polyseme.machine import num_cores
from polyseme.objectives.vectors import WindowConfig
from polyseme.text.store import Store

Integers = NDArray[np.integer[Any]]

_FORMAT = 1
_STRETCH = 1 << 24  # tokens that are counted at once
_BLOCK = 1 << 21  # pairs that a thread holds
_GAP = -1  # over which no window reaches
_NAMES = {"starts": np.int64, "columns": np.int32, "values": np.float32}


def bounds_of(store: Store, within: str) -> Integers:
    """Where sentences or documents begin, and the end of the text."""
    return store.sentences if within == "sentence" else store.sentences[store.documents]


def near_pairs(store: Store, config: WindowConfig, kept: NDArray[np.bool_]) -> csr_array:
    """The pairs of a store, from the cache or counted now and kept there; words that are not `kept` are passed over."""
    digest = hashlib.sha256(f"{_FORMAT} {store.fingerprint} {config.within} {config.symmetric}".encode())
    digest.update(config.weights.tobytes())
    digest.update(kept.tobytes())
    folder = cache_folder() / "pairs" / digest.hexdigest()
    if folder.is_dir():
        try:
            return open_pairs(folder)
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
    bounds = bounds_of(store, config.within)
    return count_pairs(store.tokens, bounds, folder, kept=kept, weights=config.weights, symmetric=config.symmetric)


def open_pairs(folder: Path) -> csr_array:
    """Map counts that were made before, (V, V): how much of word j stands near word i."""
    starts, columns, values = (
        np.memmap(folder / name, dtype, mode="r") if (folder / name).stat().st_size else np.zeros(0, dtype)
        for name, dtype in _NAMES.items()
    )
    if len(columns) < 1 << 31:
        starts = starts.astype(np.int32)  # else the columns would be copied, to be of the same type
    return csr_array((values, columns, starts), shape=(len(starts) - 1,) * 2)


def count_pairs(
    tokens: Integers,
    bounds: Integers,
    folder: Path,
    *,
    kept: NDArray[np.bool_],
    weights: NDArray[np.float64],
    symmetric: bool = True,
    num_threads: int = 0,
    stretch: int = _STRETCH,
    block: int = _BLOCK,
) -> csr_array:
    """Count into `folder`, which is whole or not there at all.

    Words that are not `kept` (V,) are as if they were not there. A window ends at `bounds`; what stands d places away
    counts `weights[d - 1]`.
    """
    num_threads = num_threads or num_cores()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as beside:
            runs: list[Path] = []
            for text in _stretches(tokens, bounds, kept, len(weights), stretch):
                runs.append(beside / str(len(runs)))
                tasks = _counting(text, len(kept), weights, symmetric, block)
                _write(runs[-1], in_order(tasks, num_threads))
            if len(runs) > 1:
                _write(beside, in_order(_adding(runs, block), num_threads))
            else:
                for name in _NAMES:
                    (runs[0] / name).rename(beside / name)
            for run in runs:
                shutil.rmtree(run)
    except OSError as error:
        if not folder.is_dir():  # else another process was quicker
            raise DataError(f"{folder}: {error.strerror}; make room or set POLYSEME_CACHE to another disk") from None
    return open_pairs(folder)


def _stretches(
    tokens: Integers, bounds: Integers, kept: NDArray[np.bool_], window: int, length: int
) -> Iterator[NDArray[np.int32]]:
    """Pieces of the text with gaps at the bounds, each with a window around the words that are counted in it."""
    margin = np.full(window, _GAP, np.int32)
    before = margin
    for begin in range(0, max(1, len(tokens)), length):
        piece = tokens[begin : begin + length]
        first, last = np.searchsorted(bounds, [begin, begin + len(piece)])
        text = np.empty(len(before) + len(piece) + last - first + window, np.int32)
        text[: len(before)] = before
        end = _gather(piece, bounds[first:last] - begin, kept, text, len(before))
        if begin + length >= len(tokens):
            text[end : end + window] = margin
            end += window
        before = text[max(0, end - 2 * window) : end].copy()
        yield text[:end]


Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # their lengths, columns and values


def _counting(
    text: NDArray[np.int32], vocab_size: int, weights: NDArray[np.float64], symmetric: bool, block: int
) -> Iterator[Callable[[], Rows]]:
    starts, places = _collect(text, len(weights), vocab_size)
    most = np.minimum(np.diff(starts) * len(weights) * (1 + symmetric), vocab_size)
    for first, last in _blocks(most, block):
        room = int(most[first:last].sum())
        yield partial(_count, text, starts[first : last + 1], places, weights, symmetric, vocab_size, room)


def _adding(runs: list[Path], block: int) -> Iterator[Callable[[], Rows]]:
    starts = np.stack([np.fromfile(run / "starts", np.int64) for run in runs])
    most = np.diff(starts).sum(0)
    for first, last in _blocks(most, block):
        yield partial(_add_files, runs, starts[:, first : last + 1], len(most))


def _add_files(runs: list[Path], starts: NDArray[np.int64], vocab_size: int) -> Rows:
    parts = [
        [
            np.fromfile(run / name, _NAMES[name], int(part[-1] - part[0]), offset=int(part[0]) * 4)
            for run, part in zip(runs, starts, strict=True)
        ]
        for name in ("columns", "values")
    ]
    lengths = starts[:, -1] - starts[:, 0]
    moved = starts - starts[:, :1] + (np.cumsum(lengths) - lengths)[:, None]
    return _add(moved, np.concatenate(parts[0]), np.concatenate(parts[1]), vocab_size)


def _blocks(sizes: Integers, block: int) -> Iterable[tuple[int, int]]:
    """Cut rows into ranges of about `block` pairs."""
    numbers = np.cumsum(sizes) // block
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return pairwise([0, *cuts.tolist(), len(sizes)])


def _write(folder: Path, blocks: Iterable[Rows]) -> None:
    folder.mkdir(exist_ok=True)
    all_lengths = [np.zeros(1, np.int64)]
    with (folder / "columns").open("wb") as columns_file, (folder / "values").open("wb") as values_file:
        for lengths, columns, values in blocks:
            all_lengths.append(lengths)
            columns_file.write(columns.data)
            values_file.write(values.data)
    (folder / "starts").write_bytes(np.cumsum(np.concatenate(all_lengths)).tobytes())


@compiled
def _gather(piece: Integers, cuts: Integers, kept: NDArray[np.bool_], text: NDArray[np.int32], end: int) -> int:
    """Write the words that are kept, with gaps at the cuts, from `text[end]` on."""
    cut = 0
    for place in range(len(piece)):
        if cut < len(cuts) and cuts[cut] == place:
            text[end] = _GAP
            end += 1
            while cut < len(cuts) and cuts[cut] == place:
                cut += 1
        if kept[piece[place]]:
            text[end] = piece[place]
            end += 1
    return end


@compiled
def _collect(text: NDArray[np.int32], window: int, vocab_size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The places of each word, word after word, and where those of each begin."""
    starts = np.zeros(vocab_size + 1, np.int64)
    for place in range(window, len(text) - window):
        if text[place] != _GAP:
            starts[text[place] + 1] += 1
    starts = np.cumsum(starts)
    following = starts[:-1].copy()
    places = np.empty(starts[-1], np.int32)
    for place in range(window, len(text) - window):
        if text[place] != _GAP:
            places[following[text[place]]] = place
            following[text[place]] += 1
    return starts, places


@compiled
def _count(
    text: NDArray[np.int32],
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    weights: NDArray[np.float64],
    symmetric: bool,
    vocab_size: int,
    room: int,
) -> Rows:
    """The rows of some words that follow each other."""
    sums = np.zeros(vocab_size)
    lengths = np.empty(len(starts) - 1, np.int64)
    columns, values = np.empty(room, np.int32), np.empty(room, np.float32)
    size = 0
    for row in range(len(lengths)):
        begin = size
        for place in places[starts[row] : starts[row + 1]]:
            for direction in (-1, 1):
                for distance in range(1, len(weights) + 1):
                    word = text[place + direction * distance]
                    if word == _GAP:
                        break
                    if sums[word] == 0:
                        columns[size] = word
                        size += 1
                    sums[word] += weights[distance - 1]
                if not symmetric:
                    break
        _take(sums, columns[begin:size], values[begin:size])
        lengths[row] = size - begin
    return lengths, columns[:size].copy(), values[:size].copy()


@compiled
def _add(starts: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32], vocab_size: int) -> Rows:
    """The sums of the rows of several runs; those of run k begin at `starts[k]`."""
    sums = np.zeros(vocab_size)
    lengths = np.empty(starts.shape[1] - 1, np.int64)
    joined, totals = np.empty_like(columns), np.empty_like(values)
    size = 0
    for row in range(len(lengths)):
        begin = size
        for run in range(len(starts)):
            for pair in range(starts[run, row], starts[run, row + 1]):
                if sums[columns[pair]] == 0:
                    joined[size] = columns[pair]
                    size += 1
                sums[columns[pair]] += values[pair]
        _take(sums, joined[begin:size], totals[begin:size])
        lengths[row] = size - begin
    return lengths, joined[:size].copy(), totals[:size].copy()


@compiled
def _take(sums: NDArray[np.float64], columns: NDArray[np.int32], values: NDArray[np.float32]) -> None:
    """Move sums out, leaving zeros."""
    for place in range(len(columns)):
        values[place] = sums[columns[place]]
        sums[columns[place]] = 0
