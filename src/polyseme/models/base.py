"""Base class of the model families: an encoder maps token sequences to all of its layers."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from polyseme.batch import Batch, Encoded, State
from polyseme.config import Config
from polyseme.layers.attention import AttentionContext, AttentionMask
from polyseme.layers.kv_cache import AnyKVCache
from polyseme.models.hf_mapping import HfMapping
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

Context = Literal["none", "left", "right", "both"]
InputFormat = Literal["cross_encoder", "delimited", "bi_encoder"]
Classifier = Literal["linear", "dense", "biattentive"]

_MAX_SIZE, _MAX_LAYERS = 100_000_000, 1_000  # more are a mistake, or a damaged file


class ModelConfig(Config):
    """Sizes that every family has."""

    vocab_size: int = Field(8192, ge=1)  # also the size that the tokenizer is trained to
    max_length: int = Field(512, ge=1)  # tokens per sequence

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        for name, value in self:
            limit = _MAX_LAYERS if name == "num_layers" else _MAX_SIZE
            if isinstance(value, int) and value > limit:
                raise ValueError(f"{name} is more than {limit:,}; use a smaller number")
        return self


class Encoder(nn.Module):
    """A model family."""

    Config: ClassVar[type[ModelConfig]]
    context: Context  # which other tokens the vector of a token may depend on
    input_format: InputFormat = "bi_encoder"  # two texts as one sequence, with delimiter tokens, or separately
    unlimited_length: ClassVar[bool] = False  # no weight limits the sequence length; `max_length` is a default only
    has_vectors: ClassVar[bool] = True  # its layers are representations, which texts can be compared by
    uses_characters: ClassVar[bool] = False  # reads the characters of words, so that none is out of vocabulary
    classifier: ClassVar[Classifier] = "linear"  # head of text-level tasks when all weights are fine-tuned
    hf_mapping: ClassVar[HfMapping | None] = None  # names in transformers, where the family exists there

    config: Any
    widths: tuple[int, ...]  # of each layer
    tokens: nn.Embedding  # layer 0; output layers may share its weight

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        weight = next(self.parameters(), None)
        return self.tokens.weight.device if weight is None else weight.device  # None: all are quantized

    @classmethod
    def validate_tokenizer(cls, config: TokenizerConfig) -> None:
        """Raise a ConfigError if the family cannot be trained with such a tokenizer."""

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Store the characters of all tokens, in families that use them."""

    def oov_characters(self, words: Sequence[str]) -> Tensor | None:
        """Character ids (N, C) or vectors (N, D) of out-of-vocabulary words, in families that read characters."""
        return None

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        """Encode token sequences, continuing from `state` where the family can."""
        raise NotImplementedError

    def pool(self, encoded: Encoded) -> Tensor:
        """Pool each sequence into one vector, (B, pooled width): of the token that depends on all, or the mean."""
        if self.context == "left":
            return encoded.last()
        return encoded.first() if self.context == "right" else encoded.mean()

    def layer_groups(self) -> list[nn.Module]:
        """Modules from bottom to top, for gradual unfreezing and layer-wise learning rates."""
        raise NotImplementedError

    def new_state(self, num_rows: int, max_length: int) -> State | None:
        """Create an empty state for sequences of up to `max_length` tokens; None if the family cannot continue."""
        return None


def encode_blocks(
    x: Tensor, blocks: Iterable[nn.Module], batch: Batch, *, causal: bool = False, cache: AnyKVCache | None = None
) -> Encoded:
    """Apply Transformer layers to the embeddings `x` (B, T, D) of a batch."""
    # Rows of one cache have equal lengths, so that a cached past has no padding.
    context = AttentionContext(None if cache else attention_mask(batch), causal, cache)
    layers = [x]
    for number, block in enumerate(blocks):
        layers.append(block(layers[-1], context, number))
    if cache:
        cache.advance(batch.ids.shape[1])
    return Encoded(layers=tuple(layers), mask=batch.mask, state=cache, packed_lengths=batch.packed_lengths)


def encode_padded(encoder: Encoder, batch: Batch) -> Encoded:
    """Encode packed sequences as padded ones, for families that read one token after another."""
    assert batch.packed_lengths is not None
    ids = pad_sequence(list(torch.split(batch.ids[0], list(batch.packed_lengths))), batch_first=True)
    lengths = torch.tensor(batch.packed_lengths, device=ids.device)
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    encoded = encoder(dataclasses.replace(batch, ids=ids, mask=mask, packed_lengths=None))
    layers = tuple(layer[mask][None] for layer in encoded.layers)
    return Encoded(layers=layers, mask=batch.mask, packed_lengths=batch.packed_lengths)


def reversed_positions(mask: Tensor) -> Tensor:
    """Position of each token when sequences are reversed and padding stays, (B, T); its own inverse."""
    positions, lengths = torch.arange(mask.shape[1], device=mask.device), mask.sum(1, keepdim=True)
    return torch.where(positions < lengths, lengths - 1 - positions, positions)


def attention_mask(batch: Batch) -> AttentionMask:
    """Attention mask of a batch: packed lengths, real tokens (B, 1, 1, T), or None without padding."""
    if batch.packed_lengths is not None:
        return batch.packed_lengths
    if not torch.compiler.is_compiling() and bool(batch.mask.all()):  # an exported graph supports padding
        return None
    return batch.mask[:, None, None, :]


def position_embeddings(positions: nn.Embedding, batch: Batch, *, start: int = 0) -> Tensor:
    """Position embeddings (T, D), where the first token of a sequence has position `start`."""
    if batch.packed_lengths is None:
        return positions.weight[start : start + batch.ids.shape[1]]
    return torch.cat([positions.weight[start : start + length] for length in batch.packed_lengths])
