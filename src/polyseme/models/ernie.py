"""ERNIE: a BERT for Chinese that masks whole words, phrases and entities (Sun et al., 2019).

What is unusual is the objective. The architecture differs from BERT's in its activation (ReLU), in one more position
and in a vocabulary of little more than the Chinese characters.
"""

import dataclasses

from pydantic import Field

from polyseme.layers.transformer_block import Activation
from polyseme.models.bert import Bert, BertConfig


class ErnieConfig(BertConfig):
    """Sizes of an ERNIE; the defaults are those of the released ERNIE 1.0."""

    vocab_size: int = Field(18000, ge=1)
    max_length: int = Field(513, ge=1)
    activation: Activation = "relu"
    epsilon: float = Field(1e-5, gt=0)


class Ernie(Bert):
    """ERNIE encoder."""

    Config = ErnieConfig

    hf_mapping = dataclasses.replace(
        Bert.hf_mapping,
        model_type="ernie",
        class_prefix="Ernie",
        architectures={"next_sentence": "ErnieForPreTraining", "masked_lm": "ErnieForMaskedLM"},
        prefix="ernie.",
        defaults={"vocab_size": 30522, "max_length": 512, "activation": "gelu", "epsilon": 1e-12},
        required={**Bert.hf_mapping.required, "use_task_id": False},  # which ERNIE 2.0 and 3.0 use
    )
