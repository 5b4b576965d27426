"""Cached layer activations of a frozen encoder at the tokens of labelled spans."""

from collections.abc import Mapping, Sequence
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
) -> tuple[ActivationCache, list[dict[str, Tensor]]]:
    """Encode sentences, of which the first are for training; return the cache, and the spans of each sentence by kind.

    Spans (targets, spans per target, 2) are runs of cached tokens: the first one, and the length, which is 0 if the
    tokenizer drops all characters of a span.

    Each layer is standardized to mean 0 and standard deviation 1 over all training tokens and dimensions, as layer
    normalization before a scalar mix does (Peters et al., 2018, section 3.2).
    """
    encoder = model.encoder
    one_hot = encoder.tokens.embedding_dim == 0  # computed from the ids, without stored vectors
    layers: list[list[NDArray[Any]]] = [[] for _ in encoder.widths]
    spans: list[dict[str, Tensor]] = []
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
) -> tuple[dict[str, Tensor], Ids]:
    """The spans of a sentence behind `offset` cached tokens, and the indices of its tokens to cache."""
    bounds = {
        kind: spans_to_tokens(encoding.offsets, [span for target in of_kind for span in target.spans])
        for kind, of_kind in targets.items()
    }
    runs = [np.arange(*span) for of_kind in bounds.values() for span in zip(*of_kind, strict=True)]
    selected = np.unique(np.concatenate([np.arange(0), *runs]))
    spans = {}
    for kind, (first, end) in bounds.items():
        starts = np.where(end > first, offset + np.searchsorted(selected, first), 0)
        shape = (len(targets[kind]), -1, 2) if targets[kind] else (0, 1, 2)
        spans[kind] = torch.from_numpy(np.stack([starts, end - first], axis=-1).reshape(shape))
    return spans, selected


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


def token_indices(spans: Tensor) -> Tensor:
    """The tokens of the spans (B, S, 2) of a batch of targets, all first spans before all second ones."""
    starts, lengths = spans[..., 0].T.flatten(), spans[..., 1].T.flatten()
    preceding = lengths.cumsum(0) - lengths  # tokens of the spans before each
    return torch.arange(int(lengths.sum())) + (starts - preceding).repeat_interleave(lengths)
