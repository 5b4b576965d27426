"""Batches for inference: texts are cut into windows that fit the model, then packed or padded with similar lengths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polyseme.arrays import Ids
from polyseme.batch import Batch, Encoded
from polyseme.models.base import Encoder
from polyseme.tokenization.tokenizer import Tokenizer

BATCH_TOKENS = 4096
"""Tokens of a batch at inference; larger batches are not faster on a CPU."""


@dataclass(frozen=True)
class Window:
    """A span of a text that fits the model, with its special tokens."""

    text: int  # index of the text
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # characters of the text; empty spans for special tokens


def tokenize_windows(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> list[Window]:
    """Tokenize texts into consecutive windows of at most `max_length` tokens, each with its special tokens."""
    before, after = tokenizer.special_template
    names = [[tokenizer.token(id) for id in ids] for ids in (before, after)]
    size = max_length - len(before) - len(after)
    windows = []
    for text, tokens in enumerate(tokenizer.encode_batch(texts, specials=False)):
        for start in range(0, max(1, len(tokens.ids)), size):
            part = slice(start, start + size)
            ids = [*before, *tokens.ids[part], *after]
            if not ids:  # an empty text still needs a token
                end = tokenizer.specials.end or 0
                windows.append(Window(text, [end], [tokenizer.token(end)], [(0, 0)]))
                continue
            spans = tokens.offsets[part]
            first, last = (spans[0][0], spans[-1][1]) if spans else (0, 0)
            offsets = [*[(first, first)] * len(before), *spans, *[(last, last)] * len(after)]
            windows.append(Window(text, ids, [*names[0], *tokens.tokens[part], *names[1]], offsets))
    return windows


def tokenize_window_ids(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> tuple[list[Ids], list[int]]:
    """The ids of `tokenize_windows` without tokens and offsets, which is faster, and the number of windows per text."""
    before, after = (np.array(ids, dtype=np.int64) for ids in tokenizer.special_template)
    size = max_length - len(before) - len(after)
    empty = np.array([] if len(before) + len(after) else [tokenizer.specials.end or 0], dtype=np.uint32)
    windows, counts = [], []
    for ids in tokenizer.encode_ids(texts):
        parts = [ids[start : start + size] for start in range(0, len(ids), size)] or [empty]
        windows += [np.concatenate([before, part, after], dtype=np.int64) for part in parts]
        counts.append(len(parts))
    return windows, counts


def pack(
    lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS, *, order: Sequence[int] = (), batch_size: int = 0
) -> Iterator[list[int]]:
    """Group sequences with up to `batch_tokens` tokens in total, and up to `batch_size` of them (0: any number).

    Without an order, the longest come first, to show early if memory runs out.
    """
    group: list[int] = []
    room = batch_tokens
    for index in order or sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and (lengths[index] > room or len(group) == batch_size):
            yield group
            group, room = [], batch_tokens
        group.append(index)
        room -= lengths[index]
    if group:
        yield group


def packed_batch(rows: Sequence[Ids], device: torch.device, oov_characters: Tensor | None = None) -> Batch:
    """Concatenate sequences of different lengths without padding."""
    ids = torch.from_numpy(np.concatenate(rows))[None]
    return Batch.of(ids, packed_lengths=tuple(map(len, rows)), oov_characters=oov_characters).to(device)


def encode_packed(
    encoder: Encoder, rows: Sequence[Ids], oov_characters: Tensor | None = None
) -> Iterator[tuple[list[int], Encoded]]:
    """Encode sequences in packed batches; yields the indices of a batch and its layers, in which they are adjacent."""
    for group in pack([len(row) for row in rows]):
        with torch.inference_mode():
            encoded = encoder(packed_batch([rows[index] for index in group], encoder.device, oov_characters))
        yield group, encoded


def bucket_by_length(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Group sequences of similar length for padded batches, the longest first."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and (len(group) + 1) * lengths[group[0]] > batch_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def padded_batch(rows: Sequence[Sequence[int]], device: torch.device) -> Batch:
    """Pad sequences to the same length; padding is masked."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True)
    mask = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
    return Batch(ids=ids, mask=mask).to(device)
