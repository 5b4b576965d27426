"""GPT: the Transformer's decoder alone, reading left to right to predict the next token (Radford et al., 2018).

Set apart from BERT in three ways: a token attends to itself and to what came before it, embeddings enter the
first layer as they are, and the output layer is the embedding itself, without a head of its own.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.layers.attention import Cache, Caches
from polyseme.layers.blocks import BlockConfig, PostNormBlock, PreNormBlock
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder, ModelConfig, placed, visible
from polyseme.models.names import Foreign, Rename, task_classes, task_heads
from polyseme.tensors import Batch, Encoded, State


class GptConfig(ModelConfig, BlockConfig):
    """The sizes of a GPT; the defaults are those of the paper."""

    vocab_size: int = Field(40478, ge=1)
    max_length: int = Field(512, ge=1)
    activation: Literal["gelu_tanh", "relu"] = "gelu_tanh"

    @model_validator(mode="after")
    def _no_other_inner_width(self) -> GptConfig:
        if self.inner_width != 4 * self.width:  # no file of a GPT could say so
            raise ValueError(f"inner_width = {self.inner_width} is not four times width = {self.width}; leave it away")
        return self


class Gpt(Encoder):
    """See the top of this file."""

    Config: ClassVar[type[ModelConfig]] = GptConfig
    Block: ClassVar[type[PostNormBlock | PreNormBlock]] = PostNormBlock
    context = "left"
    layout = "marked"

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(self.config.vocab_size, config.width)
        self.positions = nn.Embedding(self.config.max_length, config.width)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(self.Block(config) for _ in range(config.num_layers))
        self.initialize()

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        cache = state if isinstance(state, Cache | Caches) else None
        if isinstance(cache, Caches):
            places = self.positions.weight[cache.lengths][:, None]
        else:
            places = placed(self.positions, batch, start=cache.length if cache else 0)
        x = self.drop(self.tokens(batch.ids) + places)  # (B, T, D)

        # A cached past has no padding: rows that are read together go on together.
        allowed = None if cache else visible(batch)
        layers = [x]
        for number, block in enumerate(self.blocks):
            x = block(x, allowed=allowed, causal=True, cache=cache, layer=number)
            layers.append(x)
        if cache:
            cache.advance(batch.ids.shape[1])
        return Encoded(layers=tuple(layers), mask=batch.mask, state=cache, lengths=batch.lengths)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.last()  # it alone has seen the whole row

    def stages(self) -> list[nn.Module]:
        return [nn.ModuleList([self.tokens, self.positions]), *self.blocks]

    def begin(self, num_rows: int, max_length: int) -> Cache:
        config = self.config
        shape = (config.num_layers, num_rows, config.num_heads, max_length, config.width // config.num_heads)
        return Cache(shape, self.tokens.weight.device)

    def initialize(self) -> None:
        """Small normal weights, zero biases."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    foreign = Foreign(
        model_type="openai-gpt",
        architectures={**task_classes("OpenAIGPT", "classify"), "next_token": "OpenAIGPTLMHeadModel"},
        prefix="transformer.",
        settings={
            "vocab_size": "vocab_size",
            "max_length": "n_positions",
            "width": "n_embd",
            "num_layers": "n_layer",
            "num_heads": "n_head",
            "dropout": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            "activation": "afn",
            "epsilon": "layer_norm_epsilon",
        },
        words={"activation": {"gelu_tanh": "gelu"}},  # which is the other form everywhere else
        required={"tie_word_embeddings": True},
        trunk=(
            Rename("tokens.weight", "tokens_embed.weight"),
            Rename("positions.weight", "positions_embed.weight"),
            Rename("blocks.{n}.attention.query_key_value.{p}", "h.{n}.attn.c_attn.{p}", transposed=True),
            Rename("blocks.{n}.attention.output.{p}", "h.{n}.attn.c_proj.{p}", transposed=True),
            Rename("blocks.{n}.attention_norm.{p}", "h.{n}.ln_1.{p}"),
            Rename("blocks.{n}.feed_forward.inner.{p}", "h.{n}.mlp.c_fc.{p}", transposed=True),
            Rename("blocks.{n}.feed_forward.outer.{p}", "h.{n}.mlp.c_proj.{p}", transposed=True),
            Rename("blocks.{n}.feed_forward_norm.{p}", "h.{n}.ln_2.{p}"),
        ),
        heads=task_heads(text="score"),
        ignored=r"lm_head\.weight|(transformer\.)?(position_ids|h\.\d+\.attn\.bias)",
    )
