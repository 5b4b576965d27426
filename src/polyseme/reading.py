"""Texts of any length into batches that fit a model: cut in windows, grouped by length, padded little or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tensors import Batch, Encoded
from polyseme.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096
"""Tokens that go through a model at once while it is used; more is not faster on a CPU."""


@dataclass(frozen=True)
class Row:
    """A stretch of a text that fits the model, special tokens included."""

    text: int  # which text it is of
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # in the text's characters; special tokens are empty


def read(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[Row]:
    """Cut texts into rows of at most `limit` tokens, each with the special tokens that the model expects."""
    before, after = tokenizer.frame
    room = limit - len(before) - len(after)
    names = {id: tokenizer.token(id) for id in before + after}
    rows = []
    for number, tokens in enumerate(tokenizer.encode_batch(texts, specials=False)):
        for start in range(0, max(1, len(tokens.ids)), room):
            part = slice(start, start + room)
            ids = [*before, *tokens.ids[part], *after]
            if not ids:  # an empty text still has to be something
                ids = [tokenizer.specials.end or 0]
                rows.append(Row(number, ids, [tokenizer.token(ids[0])], [(0, 0)]))
                continue
            around = [names[id] for id in before], [names[id] for id in after]
            first = tokens.offsets[start][0] if tokens.ids else 0
            last = tokens.offsets[part][-1][1] if tokens.ids else 0
            offsets = [*[(first, first)] * len(before), *tokens.offsets[part], *[(last, last)] * len(after)]
            rows.append(Row(number, ids, [*around[0], *tokens.tokens[part], *around[1]], offsets))
    return rows


def read_ids(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> tuple[list[NDArray[np.int64]], list[int]]:
    """The ids of the same rows alone, which is quicker, and the number of rows of each text."""
    before, after = (np.array(ids, dtype=np.int64) for ids in tokenizer.frame)
    room = limit - len(before) - len(after)
    nothing = np.array([] if len(before) + len(after) else [tokenizer.specials.end or 0], dtype=np.uint32)
    rows, counts = [], []
    for ids in tokenizer.encode_ids(texts):
        parts = [ids[start : start + room] for start in range(0, len(ids), room)] or [nothing]
        rows += [np.concatenate([before, part, after], dtype=np.int64) for part in parts]
        counts.append(len(parts))
    return rows, counts


def packs(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Groups of rows that together have so many tokens, the longest first, so that too little memory shows at once."""
    group: list[int] = []
    room = batch_tokens
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if group and lengths[number] > room:
            yield group
            group, room = [], batch_tokens
        group.append(number)
        room -= lengths[number]
    if group:
        yield group


def name_unknown(
    tokenizer: Tokenizer, texts: Sequence[str], rows: Sequence[Row], first: int
) -> tuple[list[NDArray[np.int64]], list[str]]:
    """The ids of rows with ids from `first` on for words that the vocabulary lacks, and these words."""
    words: dict[str, int] = {}
    named = []
    for row in rows:
        ids = np.array(row.ids, dtype=np.int64)
        for place in np.flatnonzero(ids == tokenizer.specials.unknown):
            begin, end = row.offsets[place]
            word = tokenizer.normalize(texts[row.text][begin:end])
            ids[place] = words.setdefault(word, first + len(words))
        named.append(ids)
    return named, list(words)


def packed(rows: Sequence[NDArray[np.int64]], device: torch.device, letters: Tensor | None = None) -> Batch:
    """Rows of different lengths one after another, without padding."""
    ids = torch.from_numpy(np.concatenate(rows))[None]
    return Batch.of(ids, lengths=tuple(map(len, rows)), letters=letters).to(device)


def encode_packs(
    encoder: Encoder, rows: Sequence[NDArray[np.int64]], letters: Tensor | None = None
) -> Iterator[tuple[list[int], Encoded]]:
    """Which rows were read together, and their layers, in which they lie one after another."""
    for group in packs([len(row) for row in rows]):
        with torch.inference_mode():
            encoded = encoder(packed([rows[number] for number in group], encoder.device, letters))
        yield group, encoded


def by_length(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Groups of rows of similar length, the longest first, so that too little memory shows at once."""
    group: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if group and (len(group) + 1) * lengths[group[0]] > batch_tokens:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> Batch:
    """Rows of different lengths as one batch; what stands in the padding is never seen."""
    length = max(map(len, rows))
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    mask = torch.zeros((len(rows), length), dtype=torch.bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = True
    return Batch(ids=ids, mask=mask).to(device)
