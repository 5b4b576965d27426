"""ERNIE: a BERT for Chinese that is asked for whole words, phrases and entities (Sun et al., 2019).

What is unusual lies in its objective; the model differs from BERT in its activation, in one more position,
and in a vocabulary of little more than the characters of Chinese.
"""

from __future__ import annotations

import dataclasses

from pydantic import Field

from polyseme.layers.blocks import Activation
from polyseme.models.bert import Bert, BertConfig
from polyseme.models.names import task_classes


class ErnieConfig(BertConfig):
    """The sizes of an ERNIE; the defaults are those of the released 1.0."""

    vocab_size: int = Field(18000, ge=1)
    max_length: int = Field(513, ge=1)
    activation: Activation = "relu"
    epsilon: float = Field(1e-5, gt=0)


class Ernie(Bert):
    """See the top of this file."""

    Config = ErnieConfig

    foreign = dataclasses.replace(
        Bert.foreign,
        model_type="ernie",
        architectures={**task_classes("Ernie"), "next": "ErnieForPreTraining", "masked": "ErnieForMaskedLM"},
        prefix="ernie.",
        absent={"vocab_size": 30522, "max_length": 512, "activation": "gelu", "epsilon": 1e-12},
        required={**Bert.foreign.required, "use_task_id": False},  # of its successors, 2.0 and 3.0
    )
