"""The Transformer: attention and nothing else, from a sentence to its translation (Vaswani et al., 2017).

Set apart from the encoders and decoders that were cut out of it in three ways: it has both, and its decoder looks at
the top of the encoder in every layer; positions are sines and cosines that nobody has to learn; and one matrix is the
embedding of both sides and the output layer.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.attention import Cache, SelfAttention
from polyseme.layers.blocks import Activation, BlockConfig, FeedForward, PostNormBlock
from polyseme.layers.dropout import Dropout
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder, ModelConfig, visible
from polyseme.models.decoder import Decoded, Decoder, Translator, Writing
from polyseme.tensors import Batch, Encoded, State


class TransformerConfig(ModelConfig, BlockConfig):
    """The sizes of a Transformer; the defaults are those of the paper's base model."""

    vocab_size: int = Field(37_000, ge=1)
    max_length: int = Field(512, ge=1)
    width: int = Field(512, ge=2, multiple_of=2)
    num_layers: int = Field(6, ge=1)  # of the encoder, and as many of the decoder
    num_heads: int = Field(8, ge=1)
    inner_width: int = Field(2048, ge=1)
    activation: Activation = "relu"


class Transformer(Translator):
    """See the top of this file."""

    Config = TransformerConfig
    context = "both"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(PostNormBlock(config) for _ in range(config.num_layers))
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5)
        initialize(self.blocks)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        lengths = batch.lengths or (batch.ids.shape[1],)
        places = torch.cat([torch.arange(length, device=batch.ids.device) for length in lengths])
        x = self.embed(batch.ids, places)
        allowed = visible(batch)
        layers = [x]
        for block in self.blocks:
            x = block(x, allowed=allowed)
            layers.append(x)
        return Encoded(layers=tuple(layers), mask=batch.mask, lengths=batch.lengths)

    def embed(self, ids: Tensor, places: Tensor) -> Tensor:
        """Layer 0 of tokens that stand at these places of their rows (T,), on either side, (B, T, D)."""
        x = self.tokens(ids) * math.sqrt(self.config.width) + sinusoids(places, self.config.width)
        return self.drop(x)  # type: ignore[no-any-return]

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.mean()

    def stages(self) -> list[nn.Module]:
        return [self.tokens, *self.blocks]

    def decoder(self) -> Decoder:
        return TransformerDecoder(self.config)


def sinusoids(places: Tensor, width: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d)), and the cosine of the same at 2i + 1, (T, D)."""
    rates = 10_000 ** (-torch.arange(0, width, 2, device=places.device) / width)
    angles = places[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def initialize(module: nn.Module) -> None:
    """Uniform weights by Glorot and Bengio (2010) and zero biases, as in the paper's program."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


class CrossAttention(nn.Module):
    """Attention of one sequence to another, from which keys and values come."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.drop = Dropout(dropout)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.output = Linear(width, width)
        self.maps: list[Tensor] | None = None  # filled while `recording`

    def remember(self, x: Tensor) -> Tensor:
        """The keys and values of what is looked at, (2, B, H, S, D/H)."""
        return self.key_value(x).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, remembered: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mix each token with what it looks at, and say how much it looks where, (B, H, T, S)."""
        key, value = remembered.unbind(0)
        query = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, D/H)
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        weights = scores.softmax(-1)
        if self.maps is not None:
            self.maps.append(weights.detach())
        mixed = (self.drop(weights) @ value).transpose(1, 2).flatten(2)
        return self.output(mixed), weights


class DecoderBlock(nn.Module):
    """A step more than in the encoder: between the two it looks at what was read."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.num_heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.cross_attention = CrossAttention(config.width, config.num_heads, config.dropout)
        self.cross_attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.drop = Dropout(config.dropout)

    def forward(self, x: Tensor, seen: Seen, layer: int) -> tuple[Tensor, Tensor]:
        attended = self.attention(x, causal=True, cache=seen.cache, layer=layer)
        x = self.attention_norm(x + self.drop(attended))
        attended, weights = self.cross_attention(x, seen.remembered[layer], seen.allowed)
        x = self.cross_attention_norm(x + self.drop(attended))
        return self.feed_forward_norm(x + self.drop(self.feed_forward(x))), weights


class Seen(Writing):
    """Keys and values of the source in each layer, and those of what was written, where it comes token by token."""

    def __init__(self, remembered: list[Tensor], allowed: Tensor | None, cache: Cache | None) -> None:
        self.remembered = remembered
        self.allowed = allowed  # (B, 1, 1, S)
        self.cache = cache

    def select(self, rows: Tensor) -> None:
        self.remembered = [layer[:, rows] for layer in self.remembered]
        self.allowed = None if self.allowed is None else self.allowed[rows]
        if self.cache:
            self.cache.select(rows)


class TransformerDecoder(Decoder):
    """Reads what was written from left to right, and all of the source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_layers))
        initialize(self.blocks)

    def begin(self, encoded: Encoded, max_length: int = 0) -> Seen:
        config, top = self.config, encoded.layers[-1]
        remembered = [block.cross_attention.remember(top) for block in self.blocks]  # type: ignore[operator, union-attr]
        allowed = None if bool(encoded.mask.all()) else encoded.mask[:, None, None, :]
        shape = (config.num_layers, len(top), config.num_heads, max_length, config.width // config.num_heads)
        return Seen(remembered, allowed, Cache(shape, top.device) if max_length else None)

    def forward(self, encoder: Encoder, ids: Tensor, writing: Writing) -> Decoded:
        assert isinstance(encoder, Transformer) and isinstance(writing, Seen)
        start = writing.cache.length if writing.cache else 0
        x = encoder.embed(ids, torch.arange(start, start + ids.shape[1], device=ids.device))
        for number, block in enumerate(self.blocks):
            x, weights = block(x, writing, number)
        if writing.cache:
            writing.cache.length += ids.shape[1]
        return Decoded(hidden=x, attention=weights.mean(1))  # of the heads of the top layer

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return encoder.tokens.weight, None
