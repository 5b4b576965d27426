"""Contextual vectors of texts of any length: every layer of every token, or one pooled vector per text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polyseme.arrays import Floats, Ids
from polyseme.batch import split_packed
from polyseme.config import suggest_name
from polyseme.errors import ConfigError
from polyseme.inference.batching import Window, encode_packed, tokenize_window_ids, tokenize_windows
from polyseme.models.base import Encoder
from polyseme.tokenization.tokenizer import Tokenizer

Pool = Literal["mean", "first", "last", "max"]

# From tokens (1, T, D) to windows, and from windows to texts, given the first window of each; means are sums until
# the end.
_POOLS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[..., Floats]]] = {
    "mean": (lambda tokens: tokens.sum(1), np.add.reduceat),
    "first": (lambda tokens: tokens[:, 0], lambda windows, firsts: windows[firsts]),
    "last": (lambda tokens: tokens[:, -1], lambda windows, firsts: windows[np.append(firsts[1:], len(windows)) - 1]),
    "max": (lambda tokens: tokens.amax(1), np.maximum.reduceat),
}


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The tokens of a text, their character offsets, and their vectors in every layer."""

    tokens: list[str]
    offsets: list[tuple[int, int]]  # (0, 0) or empty for special tokens
    layers: list[Floats]  # each (T, D)


def encode_texts(encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """Every layer of every token of texts, in consecutive windows where they are longer than the model."""
    windows = tokenize_windows(tokenizer, texts, encoder.config.max_length)
    layers: dict[int, list[Floats]] = {}
    for group, encoded in encode_packed(encoder, *_window_ids(encoder, tokenizer, texts, windows)):
        ends = np.cumsum([len(windows[index].ids) for index in group])[:-1]
        parts = [np.split(layer[0].cpu().numpy(), ends) for layer in encoded.layers]
        layers |= {index: of_window for index, *of_window in zip(group, *parts, strict=True)}
    by_text = [list(indices) for _, indices in groupby(range(len(windows)), lambda index: windows[index].text)]
    return [
        Encoding(
            tokens=[token for index in indices for token in windows[index].tokens],
            offsets=[offset for index in indices for offset in windows[index].offsets],
            layers=[np.concatenate(parts) for parts in zip(*(layers[index] for index in indices), strict=True)],
        )
        for indices in by_text
    ]


def embed_texts(
    encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str], *, pool: Pool, layer: int
) -> tuple[Floats, list[int]]:
    """One vector per text, pooled over the tokens of all its windows, and the number of tokens of each text."""
    num_layers, limit = len(encoder.widths), encoder.config.max_length
    if not -num_layers <= layer < num_layers:
        raise ConfigError(f"layer {layer} does not exist; choose 0 (the embedding) to {num_layers - 1}")
    if pool not in _POOLS:
        raise ConfigError(f"{pool!r} is not a pooling method{suggest_name(pool, _POOLS)}")
    characters = None
    if encoder.uses_characters:
        windows = tokenize_windows(tokenizer, texts, limit)
        rows, characters = _window_ids(encoder, tokenizer, texts, windows)
        counts = np.bincount([window.text for window in windows], minlength=len(texts)).tolist()
    else:
        rows, counts = tokenize_window_ids(tokenizer, texts, limit)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    firsts = np.cumsum([0, *counts])[:-1]  # window of each text
    pool_window, pool_text = _POOLS[pool]
    vectors = np.empty((len(rows), encoder.widths[layer]), dtype=np.float32)
    for group, encoded in encode_packed(encoder, rows, characters):
        pooled = [pool_window(run) for run in split_packed(encoded.layers[layer][0], lengths[group].tolist())]
        vectors[group] = torch.cat(pooled).cpu().numpy()
    vectors, totals = pool_text(vectors, firsts), np.add.reduceat(lengths, firsts)
    if pool == "mean":
        vectors /= totals[:, None]
    return vectors, totals.tolist()


def _window_ids(
    encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str], windows: Sequence[Window]
) -> tuple[list[Ids], Tensor | None]:
    """The ids of windows; if the encoder reads characters, each OOV word has its own id from V on, with characters."""
    rows = [np.array(window.ids, dtype=np.int64) for window in windows]
    if not encoder.uses_characters:
        return rows, None
    words: dict[str, int] = {}
    for row, window in zip(rows, windows, strict=True):
        for position in np.flatnonzero(row == tokenizer.specials.unknown):
            begin, end = window.offsets[position]
            word = tokenizer.normalize(texts[window.text][begin:end])
            row[position] = words.setdefault(word, encoder.config.vocab_size + len(words))
    return rows, encoder.oov_characters(list(words))
