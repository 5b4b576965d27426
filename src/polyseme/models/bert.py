"""BERT: a bidirectional Transformer encoder pretrained as a masked language model (Devlin et al., 2018).

What is unusual, compared with GPT: every token attends to every other; a segment embedding marks the two texts of a
pair; a layer norm follows the sum of the embeddings; and a tanh layer, the pooler, maps the first token to a vector of
the sequence.
"""

from collections.abc import Iterable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, State
from polyseme.layers.dropout import Dropout
from polyseme.layers.transformer_block import BlockConfig, PostNormBlock
from polyseme.models.base import Encoder, ModelConfig, encode_blocks, position_embeddings
from polyseme.models.hf_mapping import HfMapping, WeightRule


class BertConfig(ModelConfig, BlockConfig):
    """Sizes of a BERT; the defaults are BERT-base."""

    vocab_size: int = Field(30522, ge=1)
    num_segments: int = Field(2, ge=1)  # text A, text B
    epsilon: float = Field(1e-12, gt=0)


class Bert(Encoder):
    """BERT encoder."""

    Config = BertConfig
    context = "both"
    input_format = "cross_encoder"
    first_position: ClassVar[int] = 0  # of a sequence, in the position table

    def __init__(self, config: BertConfig, *, embedding_width: int = 0, num_blocks: int = 0) -> None:
        super().__init__(config)
        width = embedding_width or config.width
        self.widths = (config.width,) * (config.num_layers + 1)
        self.tokens = nn.Embedding(config.vocab_size, width)
        self.positions = nn.Embedding(self.first_position + config.max_length, width)
        self.segments = nn.Embedding(config.num_segments, width)
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        self.drop = Dropout(config.dropout)
        self.blocks = nn.ModuleList(PostNormBlock(config) for _ in range(num_blocks or config.num_layers))
        self.pooler: nn.Module = nn.Linear(config.width, config.width)
        self.apply(initialize)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        return encode_blocks(self.embed(batch), self.block_sequence(), batch)

    def embed(self, batch: Batch) -> Tensor:
        """Compute layer 0, (B, T, D)."""
        x = self.tokens(batch.ids) + position_embeddings(self.positions, batch, start=self.first_position)
        if batch.segments is None or self.config.num_segments == 1:
            x = x + self.segments.weight[0]
        else:
            x = x + self.segments(batch.segments)
        return self.drop(self.norm(x))  # type: ignore[no-any-return]

    def block_sequence(self) -> Iterable[nn.Module]:
        """Blocks in the order of their application."""
        return self.blocks

    def pool(self, encoded: Encoded) -> Tensor:
        return torch.tanh(self.pooler(encoded.first()))

    def layer_groups(self) -> list[nn.Module]:
        embedding = nn.ModuleList([self.tokens, self.positions, self.segments, self.norm])
        return [embedding, *self.blocks, self.pooler]

    hf_mapping: ClassVar[HfMapping] = HfMapping(
        model_type="bert",
        class_prefix="Bert",
        architectures={"next_sentence": "BertForPreTraining", "masked_lm": "BertForMaskedLM"},
        prefix="bert.",
        settings={
            "vocab_size": "vocab_size",
            "max_length": "max_position_embeddings",
            "width": "hidden_size",
            "num_layers": "num_hidden_layers",
            "num_heads": "num_attention_heads",
            "inner_width": "intermediate_size",
            "num_segments": "type_vocab_size",
            "dropout": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
            "activation": "hidden_act",
            "epsilon": "layer_norm_eps",
        },
        value_names={"activation": {"gelu_tanh": "gelu_new"}},
        required={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
        encoder_weights=(
            WeightRule("tokens.weight", "embeddings.word_embeddings.weight"),
            WeightRule("positions.weight", "embeddings.position_embeddings.weight"),
            WeightRule("segments.weight", "embeddings.token_type_embeddings.weight"),
            WeightRule("norm.{p}", "embeddings.LayerNorm.{p}"),
            WeightRule("blocks.{n}.attention.query_key_value.{p}", "encoder.layer.{n}.attention.self.{qkv}.{p}"),
            WeightRule("blocks.{n}.attention.output.{p}", "encoder.layer.{n}.attention.output.dense.{p}"),
            WeightRule("blocks.{n}.attention_norm.{p}", "encoder.layer.{n}.attention.output.LayerNorm.{p}"),
            WeightRule("blocks.{n}.feed_forward.inner.{p}", "encoder.layer.{n}.intermediate.dense.{p}"),
            WeightRule("blocks.{n}.feed_forward.outer.{p}", "encoder.layer.{n}.output.dense.{p}"),
            WeightRule("blocks.{n}.feed_forward_norm.{p}", "encoder.layer.{n}.output.LayerNorm.{p}"),
            WeightRule("pooler.{p}", "pooler.dense.{p}"),
        ),
        head_weights=(
            WeightRule("masked_lm.dense.{p}", "cls.predictions.transform.dense.{p}"),
            WeightRule("masked_lm.norm.{p}", "cls.predictions.transform.LayerNorm.{p}"),
            WeightRule("masked_lm.bias", "cls.predictions.bias"),
            WeightRule("next_sentence.output.{p}", "cls.seq_relationship.{p}"),
        ),
        ignored_weights=r".*position_ids|cls\.predictions\.decoder\.(weight|bias)",
        optional_weights=("pooler.weight", "pooler.bias"),  # trained by next-sentence prediction only
    )


def initialize(module: nn.Module) -> None:
    """Initialize weights from a truncated normal distribution and biases with zeros, as the authors' code."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
