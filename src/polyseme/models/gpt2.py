"""GPT-2: a Transformer that reads left to right and predicts the next token (Radford et al., 2019).

Set apart from GPT by norms *before* each step and one more at the end, and by starting the
weights that add to the residual sum smaller, the more layers there are.
"""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.attention import Cache
from polyseme.layers.blocks import Activation, BlockConfig, PreNormBlock
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder, ModelConfig, placed, visible
from polyseme.models.names import Foreign, Rename
from polyseme.tensors import Batch, Encoded, State


class Gpt2Config(ModelConfig, BlockConfig):
    """The sizes of a GPT-2; the defaults are those of the smallest published one."""

    vocab_size: int = Field(50257, ge=1)
    max_length: int = Field(1024, ge=1)
    activation: Activation = "gelu_tanh"


class Gpt2(Encoder):
    """See the top of this file."""

    Config = Gpt2Config
    context = "left"

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.max_length, config.width)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(PreNormBlock(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self._initialize()

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        cache = state if isinstance(state, Cache) else None
        start = cache.length if cache else 0
        x = self.drop(self.tokens(batch.ids) + placed(self.positions, batch, start=start))  # (B, T, D)

        # A cached past has no padding: rows that are read together go on together.
        allowed = None if cache else visible(batch)
        layers = [x]
        for number, block in enumerate(self.blocks):
            x = block(x, allowed=allowed, cache=cache, layer=number)
            layers.append(x)
        layers[-1] = self.norm(x)  # what the output head reads
        if cache:
            cache.length += batch.ids.shape[1]
        return Encoded(layers=tuple(layers), mask=batch.mask, state=cache, lengths=batch.lengths)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.last()  # it alone has seen the whole row

    def stages(self) -> list[nn.Module]:
        return [nn.ModuleList([self.tokens, self.positions]), *self.blocks, self.norm]

    def begin(self, num_rows: int, max_length: int) -> Cache:
        config = self.config
        shape = (config.num_layers, num_rows, config.num_heads, max_length, config.width // config.num_heads)
        return Cache(shape, self.tokens.weight.device)

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for name, weight in self.blocks.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.outer.weight")):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * self.config.num_layers))
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.01)

    foreign = Foreign(
        model_type="gpt2",
        architectures={"next_token": "GPT2LMHeadModel"},
        prefix="transformer.",
        settings={
            "vocab_size": "vocab_size",
            "max_length": "n_positions",
            "width": "n_embd",
            "num_layers": "n_layer",
            "num_heads": "n_head",
            "inner_width": "n_inner",
            "dropout": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            "activation": "activation_function",
            "epsilon": "layer_norm_epsilon",
        },
        words={"activation": {"gelu_tanh": "gelu_new"}},
        required={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
            "tie_word_embeddings": True,
        },
        trunk=(
            Rename("tokens.weight", "wte.weight"),
            Rename("positions.weight", "wpe.weight"),
            Rename("blocks.{n}.attention_norm.{p}", "h.{n}.ln_1.{p}"),
            Rename("blocks.{n}.attention.query_key_value.{p}", "h.{n}.attn.c_attn.{p}", transposed=True),
            Rename("blocks.{n}.attention.output.{p}", "h.{n}.attn.c_proj.{p}", transposed=True),
            Rename("blocks.{n}.feed_forward_norm.{p}", "h.{n}.ln_2.{p}"),
            Rename("blocks.{n}.feed_forward.inner.{p}", "h.{n}.mlp.c_fc.{p}", transposed=True),
            Rename("blocks.{n}.feed_forward.outer.{p}", "h.{n}.mlp.c_proj.{p}", transposed=True),
            Rename("norm.{p}", "ln_f.{p}"),
        ),
        ignored=r"(transformer\.)?(lm_head\.weight|h\.\d+\.attn\.(bias|masked_bias))",
    )
