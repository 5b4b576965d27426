"""BERT: a Transformer that reads both directions at once (Devlin et al., 2018).

Set apart from GPT in three ways: every token may attend to every other, a segment
embedding tells the sentences of a pair apart, and embeddings are normalised at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.blocks import BlockConfig, PostNormBlock
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder, ModelConfig, placed, visible
from polyseme.models.names import Foreign, Rename, task_classes, task_heads
from polyseme.tensors import Batch, Encoded, State


class BertConfig(ModelConfig, BlockConfig):
    """The sizes of a BERT; the defaults are those of the paper's BASE."""

    vocab_size: int = Field(30522, ge=1)
    max_length: int = Field(512, ge=1)
    num_segments: int = Field(2, ge=1)  # sentence A, sentence B
    epsilon: float = Field(1e-12, gt=0)


class Bert(Encoder):
    """See the top of this file."""

    Config = BertConfig
    context = "both"
    layout = "framed"
    pools = True
    first_position: ClassVar[int] = 0  # of a row, in the table of positions

    def __init__(
        self, config: BertConfig, *, embedding_width: int | None = None, num_blocks: int | None = None
    ) -> None:
        super().__init__()
        width = embedding_width or config.width
        self.config = config
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
        x = self.embed(batch)
        allowed = visible(batch)
        layers = [x]
        for block in self.order():
            x = block(x, allowed=allowed)
            layers.append(x)
        return Encoded(layers=tuple(layers), mask=batch.mask, lengths=batch.lengths)

    def embed(self, batch: Batch) -> Tensor:
        """Layer 0, (B, T, D)."""
        x = self.tokens(batch.ids) + placed(self.positions, batch, start=self.first_position)
        if batch.segments is None or self.config.num_segments == 1:
            x = x + self.segments.weight[0]
        else:
            x = x + self.segments(batch.segments)
        return self.drop(self.norm(x))  # type: ignore[no-any-return]

    def order(self) -> Iterable[nn.Module]:
        """The blocks as they follow each other."""
        return self.blocks

    def summarize(self, encoded: Encoded) -> Tensor:
        # The paper pools the first token through a dense layer trained by next-sentence prediction.
        return torch.tanh(self.pooler(encoded.first()))

    def stages(self) -> list[nn.Module]:
        embedding = nn.ModuleList([self.tokens, self.positions, self.segments, self.norm])
        return [embedding, *self.blocks, self.pooler]

    foreign: ClassVar[Foreign] = Foreign(
        model_type="bert",
        architectures={**task_classes("Bert"), "next": "BertForPreTraining", "masked": "BertForMaskedLM"},
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
        words={"activation": {"gelu_tanh": "gelu_new"}},
        required={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
        trunk=(
            Rename("tokens.weight", "embeddings.word_embeddings.weight"),
            Rename("positions.weight", "embeddings.position_embeddings.weight"),
            Rename("segments.weight", "embeddings.token_type_embeddings.weight"),
            Rename("norm.{p}", "embeddings.LayerNorm.{p}"),
            Rename(
                "blocks.{n}.attention.query_key_value.{p}",
                tuple(f"encoder.layer.{{n}}.attention.self.{part}.{{p}}" for part in ("query", "key", "value")),
            ),
            Rename("blocks.{n}.attention.output.{p}", "encoder.layer.{n}.attention.output.dense.{p}"),
            Rename("blocks.{n}.attention_norm.{p}", "encoder.layer.{n}.attention.output.LayerNorm.{p}"),
            Rename("blocks.{n}.feed_forward.inner.{p}", "encoder.layer.{n}.intermediate.dense.{p}"),
            Rename("blocks.{n}.feed_forward.outer.{p}", "encoder.layer.{n}.output.dense.{p}"),
            Rename("blocks.{n}.feed_forward_norm.{p}", "encoder.layer.{n}.output.LayerNorm.{p}"),
            Rename("pooler.{p}", "pooler.dense.{p}"),
        ),
        heads=(
            Rename("masked.dense.{p}", "cls.predictions.transform.dense.{p}"),
            Rename("masked.norm.{p}", "cls.predictions.transform.LayerNorm.{p}"),
            Rename("masked.bias", "cls.predictions.bias"),
            Rename("next.output.{p}", "cls.seq_relationship.{p}"),
            *task_heads(),
        ),
        ignored=r".*position_ids|cls\.predictions\.decoder\.(weight|bias)",
        fresh=("pooler.weight", "pooler.bias"),  # models of masked tokens alone have none
    )


def initialize(module: nn.Module) -> None:
    """Small normal weights, zero biases, as the paper's code."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
