"""GPT: a decoder-only Transformer pretrained as a causal language model (Radford et al., 2018).

What is unusual, compared with BERT: attention is causal; no layer norm follows the embeddings; and the output layer is
the token embedding itself, without a head of its own.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.dropout import Dropout
from polyseme.layers.kv_cache import KVCache, RaggedKVCache
from polyseme.layers.transformer_block import BlockConfig, PostNormBlock, PreNormBlock
from polyseme.models.base import Encoder, ModelConfig, encode_blocks, position_embeddings
from polyseme.models.hf_mapping import HfMapping, WeightRule


class GptConfig(ModelConfig, BlockConfig):
    """Sizes of a GPT; the defaults are those of the paper."""

    vocab_size: int = Field(40478, ge=1)
    activation: Literal["gelu_tanh", "relu"] = "gelu_tanh"

    @model_validator(mode="after")
    def _check_inner_width(self) -> Self:
        if self.inner_width != 4 * self.width:  # OpenAIGPTConfig has no such setting
            raise ValueError(f"inner_width = {self.inner_width} is not 4 · width = {4 * self.width}; remove it")
        return self


BLOCK_WEIGHTS = (
    WeightRule("blocks.{n}.attention.query_key_value.{p}", "h.{n}.attn.c_attn.{p}", transposed=True),
    WeightRule("blocks.{n}.attention.output.{p}", "h.{n}.attn.c_proj.{p}", transposed=True),
    WeightRule("blocks.{n}.attention_norm.{p}", "h.{n}.ln_1.{p}"),
    WeightRule("blocks.{n}.feed_forward.inner.{p}", "h.{n}.mlp.c_fc.{p}", transposed=True),
    WeightRule("blocks.{n}.feed_forward.outer.{p}", "h.{n}.mlp.c_proj.{p}", transposed=True),
    WeightRule("blocks.{n}.feed_forward_norm.{p}", "h.{n}.ln_2.{p}"),
)
"""Of GPT and GPT-2 in transformers."""


class Gpt(Encoder):
    """GPT decoder."""

    Config: ClassVar[type[ModelConfig]] = GptConfig
    Block: ClassVar[type[PostNormBlock | PreNormBlock]] = PostNormBlock
    context = "left"
    input_format = "delimited"

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(self.config.vocab_size, config.width)
        self.positions = nn.Embedding(self.config.max_length, config.width)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(self.Block(config) for _ in range(config.num_layers))
        self.initialize()

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        cache = state if isinstance(state, KVCache | RaggedKVCache) else None
        if isinstance(cache, RaggedKVCache):
            positions = self.positions.weight[cache.lengths][:, None]
        else:
            positions = position_embeddings(self.positions, batch, start=cache.length if cache else 0)
        x = self.drop(self.tokens(batch.ids) + positions)  # (B, T, D)
        return encode_blocks(x, self.blocks, batch, causal=True, cache=cache)

    def layer_groups(self) -> list[nn.Module]:
        return [nn.ModuleList([self.tokens, self.positions]), *self.blocks]

    def new_state(self, num_rows: int, max_length: int) -> KVCache:
        config = self.config
        shape = (config.num_layers, num_rows, config.num_heads, max_length, config.width // config.num_heads)
        return KVCache(shape, self.tokens.weight.device)

    def initialize(self) -> None:
        """Initialize weights from a normal distribution and biases with zeros."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    hf_mapping: ClassVar[HfMapping] = HfMapping(
        model_type="openai-gpt",
        class_prefix="OpenAIGPT",
        task_layers={"SequenceClassification": {"output": "score"}},
        architectures={"causal_lm": "OpenAIGPTLMHeadModel"},
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
        value_names={"activation": {"gelu_tanh": "gelu"}},  # OpenAIGPTModel computes the tanh form under this name
        required={"tie_word_embeddings": True},
        encoder_weights=(
            WeightRule("tokens.weight", "tokens_embed.weight"),
            WeightRule("positions.weight", "positions_embed.weight"),
            *BLOCK_WEIGHTS,
        ),
        ignored_weights=r"lm_head\.weight|(transformer\.)?(position_ids|h\.\d+\.attn\.bias)",
    )
