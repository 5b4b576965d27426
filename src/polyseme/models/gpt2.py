"""GPT-2: a Transformer that reads left to right and predicts the next token (Radford et al., 2019).

Set apart from GPT by norms *before* each step and one more at the end, and by starting the
weights that add to the residual sum smaller, the more layers there are.
"""

from __future__ import annotations

import dataclasses
import math

from pydantic import Field
from torch import nn

from polyseme.layers.blocks import Activation, BlockConfig, PreNormBlock
from polyseme.models.base import ModelConfig
from polyseme.models.gpt import Gpt
from polyseme.models.names import Foreign, Rename, task_classes, task_heads
from polyseme.tensors import Batch, Encoded, State


class Gpt2Config(ModelConfig, BlockConfig):
    """The sizes of a GPT-2; the defaults are those of the smallest published one."""

    vocab_size: int = Field(50257, ge=1)
    max_length: int = Field(1024, ge=1)
    activation: Activation = "gelu_tanh"


class Gpt2(Gpt):
    """See the top of this file."""

    Config = Gpt2Config
    Block = PreNormBlock

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__(config)
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        encoded = super().forward(batch, state)
        *below, top = encoded.layers
        return dataclasses.replace(encoded, layers=(*below, self.norm(top)))  # what the output head reads

    def stages(self) -> list[nn.Module]:
        return [*super().stages(), self.norm]

    def initialize(self) -> None:
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
        architectures={**task_classes("GPT2", "classify", "tag", "span"), "next_token": "GPT2LMHeadModel"},
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
        heads=task_heads(text="score"),
        ignored=r"(transformer\.)?(lm_head\.weight|h\.\d+\.attn\.(bias|masked_bias))",
    )
