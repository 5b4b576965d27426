"""Cached layer activations of a frozen encoder at the tokens of labelled spans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from polyseme.arrays import Ids
from polyseme.datasets.edge_probing import ProbingSentence, Span
from polyseme.errors import ConfigError
from polyseme.inference.encoding import Encoding
from polyseme.inference.model import LoadedModel
from polyseme.system.formatting import format_bytes
from polyseme.system.hardware import available_memory

_BLOCK_BYTES = 1 << 28  # of complete layers held before the tokens of spans are selected
_TYPICAL_TOKENS = 32  # of a sentence
_MAX_HALF = 60_000  # close to the largest float16
_CHUNK = 4096  # tokens standardized at once


@dataclass(frozen=True, kw_only=True)
class SpanIndex:
    """The position of spans in an `ActivationCache`, each a run of tokens; both are (targets, spans per target)."""

    first: Tensor
    length: Tensor  # 0 if the tokenizer drops all characters of a span

    def __len__(self) -> int:
        return len(self.first)


class ActivationCache:
    """Every layer at some tokens, in float16; one-hot layers as type ids."""

    def __init__(self, layers: list[Tensor], widths: Sequence[int]) -> None:
        self.layers = layers  # each (N, D), or (N,)
        self.widths = tuple(widths)

    def gather(self, tokens: Tensor, num_layers: int) -> list[Tensor]:
        """The lowest layers at some tokens, each (N, D)."""
        rows = (layer[tokens] for layer in self.layers[:num_layers])
        return [
            F.one_hot(row.long(), width).float() if row.dim() == 1 else row.float()
            for row, width in zip(rows, self.widths, strict=False)
        ]


def spans_to_tokens(offsets: Sequence[tuple[int, int]], spans: Sequence[Span]) -> tuple[Ids, Ids]:
    """The first token of each character span and the end; equal if it has no token.

    Special tokens have empty offsets and belong to no span, unless a window ends within it.
    """
    starts, ends = np.array(offsets, np.int64).reshape(-1, 2).T
    span_starts, span_ends = np.array(spans, np.int64).reshape(-1, 2).T
    first = np.searchsorted(ends, span_starts, side="right")
    return first, np.maximum(first, np.searchsorted(starts, span_ends, side="left"))


def cache_layers(
    model: LoadedModel, sentences: Sequence[ProbingSentence], num_train: int
) -> tuple[ActivationCache, list[dict[str, SpanIndex]]]:
    """Encode sentences, of which the first are for training; return the cache, and the spans of each sentence by kind.

    Each layer is standardized to mean 0 and standard deviation 1 over all training tokens and dimensions, as layer
    normalization before a scalar mix does (Peters et al., 2018, section 3.2).
    """
    encoder = model.encoder
    one_hot = encoder.tokens.embedding_dim == 0  # computed from the ids, without stored vectors
    layers: list[list[NDArray[Any]]] = [[] for _ in encoder.widths]
    spans: list[dict[str, SpanIndex]] = []
    num_tokens = train_tokens = 0
    per_block = max(1, min(256, _BLOCK_BYTES // (4 * _TYPICAL_TOKENS * sum(encoder.widths))))
    for start in range(0, len(sentences), per_block):
        block = sentences[start : start + per_block]
        for sentence, encoding in zip(block, model.encode([sentence.text for sentence in block]), strict=True):
            of_sentence, selected = _index_spans(encoding, sentence.targets, num_tokens)
            spans.append(of_sentence)
            for layer, parts in zip(encoding.layers, layers, strict=True):
                vectors = layer[selected]
                parts.append(vectors.argmax(1) if one_hot else vectors.clip(-_MAX_HALF, _MAX_HALF).astype(np.float16))
            num_tokens += len(selected)
            if len(spans) == num_train:
                train_tokens = num_tokens
        if start == 0:
            _check_memory(layers, len(spans), len(sentences))
    if one_hot:
        types, type_ids = np.unique(np.concatenate(layers[0]), return_inverse=True)
        return ActivationCache([torch.from_numpy(type_ids)], [max(1, len(types))]), spans
    return ActivationCache([_standardize(parts, train_tokens) for parts in layers], encoder.widths), spans


def _index_spans(
    encoding: Encoding, targets: Mapping[str, Sequence[Any]], offset: int
) -> tuple[dict[str, SpanIndex], Ids]:
    """The spans of a sentence behind `offset` cached tokens, and the indices of its tokens to cache."""
    bounds = {
        kind: spans_to_tokens(encoding.offsets, [span for target in of_kind for span in target.spans])
        for kind, of_kind in targets.items()
    }
    edges = np.zeros(len(encoding.offsets) + 1, np.int64)  # +1 where a span starts, -1 where it ends
    for first, end in bounds.values():
        np.add.at(edges, first, 1)
        np.add.at(edges, end, -1)
    selected = np.cumsum(edges)[:-1] > 0
    cached_index = np.append(np.cumsum(selected, dtype=np.int64) - selected + offset, offset)
    spans = {}
    for kind, (first, end) in bounds.items():
        shape = (len(targets[kind]), -1) if targets[kind] else (0, 1)
        lengths = end - first
        starts = np.where(lengths > 0, cached_index[first], 0)
        spans[kind] = SpanIndex(
            first=torch.from_numpy(starts.reshape(shape)), length=torch.from_numpy(lengths.reshape(shape))
        )
    return spans, np.flatnonzero(selected)


def _standardize(parts: list[NDArray[np.float16]], num_train: int) -> Tensor:
    """Concatenate a layer and standardize it by the statistics of the first `num_train` tokens."""
    layer = torch.from_numpy(np.concatenate(parts))
    parts.clear()
    if num_train:
        train, count = torch.split(layer[:num_train], _CHUNK), num_train * layer.shape[1]
        mean = torch.stack([part.double().sum() for part in train]).sum() / count
        variance = torch.stack([(part.double() - mean).square().sum() for part in train]).sum() / count
        for part in torch.split(layer, _CHUNK):
            part.copy_((part.float() - mean) * torch.rsqrt(variance + 1e-12))
    return layer


def _check_memory(layers: Sequence[Sequence[NDArray[Any]]], num_encoded: int, num_sentences: int) -> None:
    """Raise an error after the first block if memory will not suffice; concatenating a layer doubles its size."""
    needed = sum(part.nbytes for parts in layers for part in parts) / num_encoded * num_sentences
    free = available_memory() / 2
    if needed > free:
        num_fitting = max(1, int(num_sentences * free / needed))
        raise ConfigError(
            f"the layers of {num_sentences:,} sentences need {format_bytes(needed)} of memory; "
            f"set max_sentences to {max(2, num_fitting // 2)}"
        )


def join_spans(spans: Sequence[Mapping[str, SpanIndex]], kind: str) -> SpanIndex:
    """The spans of all targets of a kind."""
    parts = [of_kind for sentence in spans if len(of_kind := sentence[kind])]
    return SpanIndex(first=torch.cat([part.first for part in parts]), length=torch.cat([part.length for part in parts]))


def token_indices(spans: SpanIndex, batch: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The tokens of a batch of targets, all first spans before all second ones, and the lengths (B, S)."""
    first, length = spans.first[batch], spans.length[batch]
    starts, lengths = first.T.reshape(-1), length.T.reshape(-1)
    preceding = lengths.cumsum(0) - lengths  # tokens of the spans before each
    return torch.arange(int(lengths.sum())) + (starts - preceding).repeat_interleave(lengths), length
