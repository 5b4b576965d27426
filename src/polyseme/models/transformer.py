"""The Transformer: an encoder–decoder for machine translation built from attention alone (Vaswani et al., 2017).

What is unusual, compared with its descendants: it has both an encoder and a decoder, with cross-attention in every
decoder layer; positions are fixed sinusoids; and one matrix serves as source embedding, target embedding and output
layer.
"""

import math
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.attention import AttentionContext, SelfAttention, explicit_attention
from polyseme.layers.dropout import Dropout
from polyseme.layers.kv_cache import KVCache
from polyseme.layers.linear import Linear
from polyseme.layers.transformer_block import Activation, BlockConfig, FeedForward, PostNormBlock
from polyseme.models.base import Encoder, ModelConfig, encode_blocks
from polyseme.models.seq2seq import Decoder, DecoderOutput, DecoderState, Seq2SeqEncoder


class TransformerConfig(ModelConfig, BlockConfig):
    """Sizes of a Transformer; the defaults are those of the paper's base model."""

    vocab_size: int = Field(37_000, ge=1)
    width: int = Field(512, ge=2, multiple_of=2)
    num_layers: int = Field(6, ge=1)  # of the encoder and of the decoder
    num_heads: int = Field(8, ge=1)
    inner_width: int = Field(2048, ge=1)
    activation: Activation = "relu"


class Transformer(Seq2SeqEncoder):
    """Transformer encoder."""

    Config = TransformerConfig
    context = "both"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(PostNormBlock(config) for _ in range(config.num_layers))
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5)
        initialize(self.blocks)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        lengths = batch.packed_lengths or (batch.ids.shape[1],)
        positions = torch.cat([torch.arange(length, device=batch.ids.device) for length in lengths])
        return encode_blocks(self.embed(batch.ids, positions), self.blocks, batch)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed source or target tokens (B, T) at `positions` (T,), (B, T, D)."""
        x = self.tokens(ids) * math.sqrt(self.config.width) + sinusoids(positions, self.config.width)
        return self.drop(x)  # type: ignore[no-any-return]

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens, *self.blocks]

    def new_decoder(self) -> Decoder:
        return TransformerDecoder(self.config)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i / d)) and PE(pos, 2i + 1) = cos(pos / 10000^(2i / d)), (T, D)."""
    frequencies = 10_000 ** (-torch.arange(0, width, 2, device=positions.device) / width)
    angles = positions[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def initialize(module: nn.Module) -> None:
    """Initialize weights as Glorot and Bengio (2010) and biases with zeros, as in the authors' code (tensor2tensor)."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


class CrossAttention(nn.Module):
    """Attention from the target to the source."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.drop = Dropout(dropout)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.output = Linear(width, width)
        self.recorded: list[Tensor] | None = None  # attention weights, inside `record_attention`

    def keys_values(self, x: Tensor) -> Tensor:
        """Compute the keys and values of the source, (2, B, H, S, D/H)."""
        return self.key_value(x).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend to the keys and values `source`; return the output (B, T, D) and the weights (B, H, T, S)."""
        key, value = source.unbind(0)
        query = self.query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, D/H)
        mixed, weights = explicit_attention(query, key, value, mask, self.drop, self.recorded)
        return self.output(mixed.transpose(1, 2).flatten(2)), weights


@dataclass(eq=False)
class TransformerState(DecoderState):
    """Keys and values of the source in each layer, and a cache of those of the target when decoding token by token."""

    source: list[Tensor]
    mask: Tensor | None  # (B, 1, 1, S)
    cache: KVCache | None

    def select(self, rows: Tensor) -> None:
        self.source = [layer[:, rows] for layer in self.source]
        self.mask = None if self.mask is None else self.mask[rows]
        if self.cache:
            self.cache.select(rows)


class DecoderBlock(nn.Module):
    """Decoder layer: causal self-attention, cross-attention and a feed-forward network, post-norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.num_heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.cross_attention = CrossAttention(config.width, config.num_heads, config.dropout)
        self.cross_attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.drop = Dropout(config.dropout)

    def forward(self, x: Tensor, state: TransformerState, layer: int) -> tuple[Tensor, Tensor]:
        attended = self.attention(x, AttentionContext(causal=True, cache=state.cache), layer)
        x = self.attention_norm(x + self.drop(attended))
        attended, weights = self.cross_attention(x, state.source[layer], state.mask)
        x = self.cross_attention_norm(x + self.drop(attended))
        return self.feed_forward_norm(x + self.drop(self.feed_forward(x))), weights


class TransformerDecoder(Decoder):
    """Transformer decoder."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_layers))
        initialize(self.blocks)

    def new_state(self, encoded: Encoded, max_length: int = 0) -> TransformerState:
        config, top = self.config, encoded.layers[-1]
        source = [block.cross_attention.keys_values(top) for block in self.blocks]  # type: ignore[operator, union-attr]
        mask = None if bool(encoded.mask.all()) else encoded.mask[:, None, None, :]
        shape = (config.num_layers, len(top), config.num_heads, max_length, config.width // config.num_heads)
        return TransformerState(source, mask, KVCache(shape, top.device) if max_length else None)

    def forward(self, encoder: Encoder, ids: Tensor, state: DecoderState) -> DecoderOutput:
        assert isinstance(encoder, Transformer) and isinstance(state, TransformerState)
        start = state.cache.length if state.cache else 0
        x = encoder.embed(ids, torch.arange(start, start + ids.shape[1], device=ids.device))
        for number, block in enumerate(self.blocks):
            x, weights = block(x, state, number)
        if state.cache:
            state.cache.advance(ids.shape[1])
        return DecoderOutput(hidden=x, attention=weights.mean(1))  # over the heads of the top layer

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return encoder.tokens.weight, None
