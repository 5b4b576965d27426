"""RoBERTa: a BERT that is asked for masked tokens alone, of rows that run over document ends (Liu et al., 2019).

Set apart from BERT in three ways: positions are counted from 2, all tokens are of one segment, and nothing
is learnt about whole rows, so that a row's first vector stands for it as it is.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from polyseme.models.bert import Bert, BertConfig
from polyseme.models.names import Rename, task_classes, task_heads
from polyseme.tensors import Encoded


class RobertaConfig(BertConfig):
    """The sizes of a RoBERTa; the defaults are those of the paper's BASE."""

    vocab_size: int = Field(50265, ge=1)
    num_segments: int = Field(1, ge=1)
    activation: Literal["gelu"] = "gelu"  # its head in transformers knows no other
    epsilon: float = Field(1e-5, gt=0)


class Roberta(Bert):
    """See the top of this file."""

    Config = RobertaConfig
    pools = False
    first_position = 2  # fairseq keeps two rows for padding, whose id is 1

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.pooler = nn.Identity()  # nothing that is asked would train one
        nn.init.zeros_(self.segments.weight)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.first()

    foreign = dataclasses.replace(
        Bert.foreign,
        model_type="roberta",
        architectures={**task_classes("Roberta"), "masked": "RobertaForMaskedLM"},
        prefix="roberta.",
        larger={"max_length": first_position},
        absent={"max_length": 510, "num_segments": 2, "epsilon": 1e-12},
        required={**Bert.foreign.required, "pad_token_id": 1},  # from which it counts positions
        heads=(
            Rename("masked.dense.{p}", "lm_head.dense.{p}"),
            Rename("masked.norm.{p}", "lm_head.layer_norm.{p}"),
            Rename("masked.bias", "lm_head.bias"),
            *task_heads(text="classifier.out_proj", dense="classifier.dense"),
            Rename("choice.head.dense.{p}", "roberta.pooler.dense.{p}"),
        ),
        ignored=r".*position_ids|(roberta\.)?pooler\.dense\.(weight|bias)|lm_head\.decoder\.(weight|bias)",
        fresh=(),
    )
