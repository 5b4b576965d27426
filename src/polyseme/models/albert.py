"""ALBERT: a BERT with few weights, because all of its layers are one (Lan et al., 2019).

Set apart from BERT in three ways: words, positions and segments have short vectors that one more matrix
maps to the width of the layers, the same block is applied again and again, and pairs are asked for their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.blocks import Activation
from polyseme.layers.linear import Linear
from polyseme.models.bert import Bert, BertConfig, initialize
from polyseme.models.names import Foreign, Rename, task_classes, task_heads
from polyseme.tensors import Batch

_BLOCK = "encoder.albert_layer_groups.0.albert_layers.0"


class AlbertConfig(BertConfig):
    """The sizes of an ALBERT; the defaults are those of the paper's base."""

    vocab_size: int = Field(30000, ge=1)
    embedding_width: int = Field(128, ge=1)  # of words, positions and segments
    activation: Activation = "gelu_tanh"


class Albert(Bert):
    """See the top of this file."""

    Config = AlbertConfig

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config, embedding_width=config.embedding_width, num_blocks=1)
        self.widen = Linear(config.embedding_width, config.width)
        self.widen.apply(initialize)

    def embed(self, batch: Batch) -> Tensor:
        return self.widen(super().embed(batch))  # type: ignore[no-any-return]

    def order(self) -> Iterable[nn.Module]:
        return repeat(self.blocks[0], self.config.num_layers)

    def stages(self) -> list[nn.Module]:
        embedding, *above = super().stages()
        return [nn.ModuleList([embedding, self.widen]), *above]

    foreign = Foreign(
        model_type="albert",
        architectures={**task_classes("Albert"), "order": "AlbertForPreTraining", "masked": "AlbertForMaskedLM"},
        prefix="albert.",
        settings={**Bert.foreign.settings, "embedding_width": "embedding_size"},
        words=Bert.foreign.words,
        required={"num_hidden_groups": 1, "inner_group_num": 1},
        absent={"width": 4096, "num_heads": 64, "inner_width": 16384, "dropout": 0.0},
        trunk=(
            Rename("tokens.weight", "embeddings.word_embeddings.weight"),
            Rename("positions.weight", "embeddings.position_embeddings.weight"),
            Rename("segments.weight", "embeddings.token_type_embeddings.weight"),
            Rename("norm.{p}", "embeddings.LayerNorm.{p}"),
            Rename("widen.{p}", "encoder.embedding_hidden_mapping_in.{p}"),
            Rename(
                "blocks.0.attention.query_key_value.{p}",
                tuple(f"{_BLOCK}.attention.{part}.{{p}}" for part in ("query", "key", "value")),
            ),
            Rename("blocks.0.attention.output.{p}", f"{_BLOCK}.attention.dense.{{p}}"),
            Rename("blocks.0.attention_norm.{p}", f"{_BLOCK}.attention.LayerNorm.{{p}}"),
            Rename("blocks.0.feed_forward.inner.{p}", f"{_BLOCK}.ffn.{{p}}"),
            Rename("blocks.0.feed_forward.outer.{p}", f"{_BLOCK}.ffn_output.{{p}}"),
            Rename("blocks.0.feed_forward_norm.{p}", f"{_BLOCK}.full_layer_layer_norm.{{p}}"),
            Rename("pooler.{p}", "pooler.{p}"),
        ),
        heads=(
            Rename("masked.dense.{p}", "predictions.dense.{p}"),
            Rename("masked.norm.{p}", "predictions.LayerNorm.{p}"),
            Rename("masked.bias", "predictions.bias"),
            Rename("order.output.{p}", "sop_classifier.classifier.{p}"),
            *task_heads(),
        ),
        ignored=r".*position_ids|predictions\.decoder\.(weight|bias)",
        fresh=Bert.foreign.fresh,
    )
