"""The layers of a frozen encoder at the tokens that spans cover, read once and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from polyseme.errors import ConfigError
from polyseme.files import size
from polyseme.inside.encoding import Encoding, Model
from polyseme.machine import available_memory
from polyseme.models.base import Encoder
from polyseme.models.vectors import OneHot
from polyseme.text.edges import Sentence, Span

_BLOCK_BYTES = 1 << 28  # of layers that are held in full before what is wanted of them is kept
_USUAL = 32  # tokens of a text, as a guess
_LARGEST = 60_000  # half a float holds no more
_PART = 4096  # tokens that are taken as whole floats at once


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where spans are among the tokens that are kept, each a run of them, (targets, spans)."""

    first: Tensor
    length: Tensor  # 0 where the tokenizer passes all of a span over

    def __len__(self) -> int:
        return len(self.first)


class Kept:
    """Every layer at some tokens, in half floats; what is one-hot as numbers of types."""

    def __init__(self, layers: list[Tensor], widths: Sequence[int]) -> None:
        self.layers = layers  # each (N, D), or (N,)
        self.widths = tuple(widths)

    def take(self, places: Tensor, num_layers: int) -> list[Tensor]:
        """The lowest layers at some tokens, each (N, D)."""
        return [
            F.one_hot(taken.long(), width).float() if taken.dim() == 1 else taken.float()
            for taken, width in zip((layer[places] for layer in self.layers[:num_layers]), self.widths, strict=False)
        ]


def pieces(offsets: Sequence[tuple[int, int]], spans: Sequence[Span]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first token of each span of characters and the one behind the last; both are the same where there is none.

    Tokens that are empty, as special ones are, belong to no span unless a row ends inside it.
    """
    starts, ends = np.array(offsets, np.int64).reshape(-1, 2).T
    begin, end = np.array(spans, np.int64).reshape(-1, 2).T
    first = np.searchsorted(ends, begin, side="right")
    return first, np.maximum(first, np.searchsorted(starts, end, side="left"))


def keep_layers(model: Model, sentences: Sequence[Sentence], num_train: int) -> tuple[Kept, list[dict[str, Places]]]:
    """Read sentences, of which the first are to learn from; what is kept, and for each sentence the places by kind.

    Layers are brought to mean 0 and deviation 1 over the tokens to learn from, each as a whole (Peters et al., 2018,
    section 3.2), so that a layer of large numbers is worth no more by them.
    """
    encoder = model.encoder
    blocks: list[list[NDArray[Any]]] = [[] for _ in encoder.widths]
    places: list[dict[str, Places]] = []
    num_tokens = train_tokens = num_read = 0
    per_block = max(1, min(256, _BLOCK_BYTES // (4 * _USUAL * sum(encoder.widths))))
    for start in range(0, len(sentences), per_block):
        block = sentences[start : start + per_block]
        for sentence, encoding in zip(block, model.encode([sentence.text for sentence in block]), strict=True):
            found, wanted = _find(encoding, sentence.targets, num_tokens)
            places.append(found)
            for layer, kept in zip(encoding.layers, blocks, strict=True):
                kept.append(_small(encoder, layer[wanted]))
            num_tokens += len(wanted)
            num_read += 1
            if num_read == num_train:
                train_tokens = num_tokens
        if start == 0:
            _check_room(blocks, num_read, len(sentences))
    if isinstance(encoder, OneHot):
        types, numbers = np.unique(np.concatenate(blocks[0]), return_inverse=True)
        return Kept([torch.from_numpy(numbers)], [max(1, len(types))]), places
    return Kept([_even(block, train_tokens) for block in blocks], encoder.widths), places


def _find(
    encoding: Encoding, targets: Mapping[str, Sequence[Any]], done: int
) -> tuple[dict[str, Places], NDArray[np.int64]]:
    """The places of targets behind those of `done` tokens, and which tokens of the text are wanted for them."""
    found = {
        kind: pieces(encoding.offsets, [span for target in asked for span in target.spans])
        for kind, asked in targets.items()
    }
    edges = np.zeros(len(encoding.offsets) + 1, np.int64)  # spans that begin, less those that end
    for first, behind in found.values():
        np.add.at(edges, first, 1)
        np.add.at(edges, behind, -1)
    wanted = np.cumsum(edges)[:-1] > 0
    number = np.cumsum(wanted, dtype=np.int64) - wanted + done  # of each token among those kept
    number = np.append(number, done)
    places = {}
    for kind, (first, behind) in found.items():
        shape = (len(targets[kind]), -1) if targets[kind] else (0, 1)
        lengths = behind - first
        starts = np.where(lengths > 0, number[first], 0)
        places[kind] = Places(
            first=torch.from_numpy(starts.reshape(shape)), length=torch.from_numpy(lengths.reshape(shape))
        )
    return places, np.flatnonzero(wanted)


def _small(encoder: Encoder, layer: NDArray[np.float32]) -> NDArray[Any]:
    if isinstance(encoder, OneHot):
        ids: NDArray[np.int64] = layer.argmax(1)
        return ids
    return layer.clip(-_LARGEST, _LARGEST).astype(np.float16)


def _even(blocks: list[NDArray[np.float16]], num_train: int) -> Tensor:
    """A layer at all tokens, brought to mean 0 and deviation 1 over the first of them."""
    layer = torch.from_numpy(np.concatenate(blocks))
    blocks.clear()
    if num_train:
        learnt, number = torch.split(layer[:num_train], _PART), num_train * layer.shape[1]
        mean = torch.stack([part.double().sum() for part in learnt]).sum() / number
        variance = torch.stack([(part.double() - mean).square().sum() for part in learnt]).sum() / number
        for part in torch.split(layer, _PART):
            part.copy_((part.float() - mean) * torch.rsqrt(variance + 1e-12))
    return layer


def _check_room(blocks: Sequence[Sequence[NDArray[Any]]], num_read: int, num_sentences: int) -> None:
    """Refuse before reading on what memory cannot hold, twice over while a layer is put together."""
    needed = sum(part.nbytes for block in blocks for part in block) / num_read * num_sentences
    room = available_memory() / 2
    if needed > room:
        fit = max(1, int(num_sentences * room / needed))
        raise ConfigError(
            f"the layers of {num_sentences:,} sentences take {size(needed)}; say --most {max(2, fit // 2)}"
        )


def join(places: Sequence[Mapping[str, Places]], kind: str) -> Places:
    """The places of all targets of a kind."""
    found = [of_kind for sentence in places if len(of_kind := sentence[kind])]
    return Places(first=torch.cat([each.first for each in found]), length=torch.cat([each.length for each in found]))


def batches(places: Places, order: Iterator[int] | Sequence[int], *, most: int, most_tokens: int) -> Iterator[Tensor]:
    """Targets in an order, so many at once, or fewer where their spans are long."""
    lengths = places.length.sum(1).tolist()
    batch: list[int] = []
    room = most_tokens
    for number in order:
        if batch and (len(batch) == most or lengths[number] > room):
            yield torch.tensor(batch)
            batch, room = [], most_tokens
        batch.append(number)
        room -= lengths[number]
    if batch:
        yield torch.tensor(batch)


def tokens_of(places: Places, batch: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens of a batch of targets, all of the first spans and then all of the second, and the lengths (B, S)."""
    first, length = places.first[batch], places.length[batch]
    starts, lengths = first.T.reshape(-1), length.T.reshape(-1)
    before = lengths.cumsum(0) - lengths  # tokens of the spans before each
    return torch.arange(int(lengths.sum())) + (starts - before).repeat_interleave(lengths), length
