"""RoBERTa: a BERT trained as a masked language model only, on sequences across documents (Liu et al., 2019).

What is unusual: positions start at 2; there is one segment; and without a sentence-pair objective it has no pooler, so
that the first token's vector represents the sequence and classifiers add a dense layer of their own.
"""

import dataclasses
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import Encoded
from polyseme.errors import ConfigError
from polyseme.models.bert import Bert, BertConfig
from polyseme.models.hf_mapping import TASK_LAYERS, WeightRule
from polyseme.tokenization.config import TokenizerConfig


class RobertaConfig(BertConfig):
    """Sizes of a RoBERTa; the defaults are RoBERTa-base."""

    vocab_size: int = Field(50265, ge=1)
    num_segments: int = Field(1, ge=1)
    activation: Literal["gelu"] = "gelu"  # the only one that the head in transformers supports
    epsilon: float = Field(1e-5, gt=0)


class Roberta(Bert):
    """RoBERTa encoder."""

    Config = RobertaConfig
    classifier = "dense"
    first_position = 2  # fairseq reserves those up to the padding id, 1

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.pooler = nn.Identity()  # no objective would train one
        nn.init.zeros_(self.segments.weight)

    @classmethod
    def validate_tokenizer(cls, config: TokenizerConfig) -> None:
        if config.specials != "roberta":
            raise ConfigError("tokenizer.specials: RoBERTa counts positions from the id of <pad>; set it to roberta")

    def pool(self, encoded: Encoded) -> Tensor:
        return encoded.first()

    hf_mapping = dataclasses.replace(
        Bert.hf_mapping,
        model_type="roberta",
        class_prefix="Roberta",
        task_layers={
            **TASK_LAYERS,
            "SequenceClassification": {"dense": "classifier.dense", "output": "classifier.out_proj"},
            "MultipleChoice": {"dense": "roberta.pooler.dense", "output": "classifier"},
        },
        architectures={"masked_lm": "RobertaForMaskedLM"},
        prefix="roberta.",
        offsets={"max_length": first_position},
        defaults={"max_length": 510, "num_segments": 2, "epsilon": 1e-12},
        required={**Bert.hf_mapping.required, "pad_token_id": 1},  # transformers counts positions from it
        head_weights=(
            WeightRule("masked_lm.dense.{p}", "lm_head.dense.{p}"),
            WeightRule("masked_lm.norm.{p}", "lm_head.layer_norm.{p}"),
            WeightRule("masked_lm.bias", "lm_head.bias"),
        ),
        ignored_weights=r".*position_ids|(roberta\.)?pooler\.dense\.(weight|bias)|lm_head\.decoder\.(weight|bias)",
        optional_weights=(),
    )
