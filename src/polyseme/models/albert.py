"""ALBERT: a BERT with few parameters (Lan et al., 2019).

What is unusual: all layers share the weights of one block; embeddings are factorized, a narrow table followed by a
projection to the hidden width; and sentence-order prediction replaces next-sentence prediction.
"""

from collections.abc import Iterable
from itertools import repeat

from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Batch
from polyseme.layers.linear import Linear
from polyseme.layers.transformer_block import Activation
from polyseme.models.bert import Bert, BertConfig, initialize
from polyseme.models.hf_mapping import HfMapping, WeightRule

_BLOCK = "encoder.albert_layer_groups.0.albert_layers.0"


class AlbertConfig(BertConfig):
    """Sizes of an ALBERT; the defaults are ALBERT-base."""

    vocab_size: int = Field(30000, ge=1)
    embedding_width: int = Field(128, ge=1)  # of tokens, positions and segments
    activation: Activation = "gelu_tanh"


class Albert(Bert):
    """ALBERT encoder."""

    Config = AlbertConfig

    def __init__(self, config: AlbertConfig) -> None:
        super().__init__(config, embedding_width=config.embedding_width, num_blocks=1)
        self.widen = Linear(config.embedding_width, config.width)
        self.widen.apply(initialize)

    def embed(self, batch: Batch) -> Tensor:
        return self.widen(super().embed(batch))  # type: ignore[no-any-return]

    def block_sequence(self) -> Iterable[nn.Module]:
        return repeat(self.blocks[0], self.config.num_layers)

    def layer_groups(self) -> list[nn.Module]:
        embedding, *above = super().layer_groups()
        return [nn.ModuleList([embedding, self.widen]), *above]

    hf_mapping = HfMapping(
        model_type="albert",
        class_prefix="Albert",
        architectures={"sentence_order": "AlbertForPreTraining", "masked_lm": "AlbertForMaskedLM"},
        prefix="albert.",
        settings={**Bert.hf_mapping.settings, "embedding_width": "embedding_size"},
        value_names=Bert.hf_mapping.value_names,
        required={"num_hidden_groups": 1, "inner_group_num": 1},
        defaults={"width": 4096, "num_heads": 64, "inner_width": 16384, "dropout": 0.0},
        encoder_weights=(
            *(rule for rule in Bert.hf_mapping.encoder_weights if rule.theirs.startswith("embeddings.")),
            WeightRule("widen.{p}", "encoder.embedding_hidden_mapping_in.{p}"),
            WeightRule("blocks.0.attention.query_key_value.{p}", f"{_BLOCK}.attention.{{qkv}}.{{p}}"),
            WeightRule("blocks.0.attention.output.{p}", f"{_BLOCK}.attention.dense.{{p}}"),
            WeightRule("blocks.0.attention_norm.{p}", f"{_BLOCK}.attention.LayerNorm.{{p}}"),
            WeightRule("blocks.0.feed_forward.inner.{p}", f"{_BLOCK}.ffn.{{p}}"),
            WeightRule("blocks.0.feed_forward.outer.{p}", f"{_BLOCK}.ffn_output.{{p}}"),
            WeightRule("blocks.0.feed_forward_norm.{p}", f"{_BLOCK}.full_layer_layer_norm.{{p}}"),
            WeightRule("pooler.{p}", "pooler.{p}"),
        ),
        head_weights=(
            WeightRule("masked_lm.dense.{p}", "predictions.dense.{p}"),
            WeightRule("masked_lm.norm.{p}", "predictions.LayerNorm.{p}"),
            WeightRule("masked_lm.bias", "predictions.bias"),
            WeightRule("sentence_order.output.{p}", "sop_classifier.classifier.{p}"),
        ),
        ignored_weights=r".*position_ids|predictions\.decoder\.(weight|bias)",
        optional_weights=Bert.hf_mapping.optional_weights,
    )
