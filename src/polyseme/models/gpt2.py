"""GPT-2: a causal language model with pre-norm layers (Radford et al., 2019).

What is unusual, compared with GPT: the layer norms come before each sublayer, with a final one at the top, and the
weights that write to the residual stream are initialized smaller, by 1/√(2 · num_layers).
"""

import dataclasses
import math

from pydantic import Field
from torch import nn

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.transformer_block import Activation, BlockConfig, PreNormBlock
from polyseme.models.base import ModelConfig
from polyseme.models.gpt import BLOCK_WEIGHTS, Gpt
from polyseme.models.hf_mapping import WeightRule


class Gpt2Config(ModelConfig, BlockConfig):
    """Sizes of a GPT-2; the defaults are those of the smallest released model."""

    vocab_size: int = Field(50257, ge=1)
    max_length: int = Field(1024, ge=1)
    activation: Activation = "gelu_tanh"


class Gpt2(Gpt):
    """GPT-2 decoder."""

    Config = Gpt2Config
    Block = PreNormBlock

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__(config)
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        encoded = super().forward(batch, state)
        *below, top = encoded.layers
        return dataclasses.replace(encoded, layers=(*below, self.norm(top)))  # input of the output layer

    def layer_groups(self) -> list[nn.Module]:
        return [*super().layer_groups(), self.norm]

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

    hf_mapping = dataclasses.replace(
        Gpt.hf_mapping,
        model_type="gpt2",
        class_prefix="GPT2",
        task_layers={
            "SequenceClassification": {"output": "score"},
            "TokenClassification": {"output": "classifier"},
            "QuestionAnswering": {"output": "qa_outputs"},
        },
        architectures={"causal_lm": "GPT2LMHeadModel"},
        settings={**Gpt.hf_mapping.settings, "inner_width": "n_inner", "activation": "activation_function"},
        value_names={"activation": {"gelu_tanh": "gelu_new"}},
        required={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
            "tie_word_embeddings": True,
        },
        encoder_weights=(
            WeightRule("tokens.weight", "wte.weight"),
            WeightRule("positions.weight", "wpe.weight"),
            *BLOCK_WEIGHTS,
            WeightRule("norm.{p}", "ln_f.{p}"),
        ),
        ignored_weights=r"(transformer\.)?(lm_head\.weight|h\.\d+\.attn\.(bias|masked_bias))",
    )
