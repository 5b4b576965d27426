"""Settings of a fine-tuning and of its tasks."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, field_validator

from polyseme.config import Config
from polyseme.datasets.labelled_files import find_labels
from polyseme.datasets.records import Example

Method = Literal["full", "frozen", "mix", "gradual", "cvt"]

# Methods of other tools that train few weights or all, and the closest one here.
_METHODS_OF_OTHER_TOOLS = {
    **dict.fromkeys(("lora", "qlora", "adapter", "adapters", "peft", "prefix", "prompt", "bitfit"), "frozen or mix"),
    **dict.fromkeys(("linear", "linear-probe", "probe", "head", "feature", "features", "freeze"), "frozen"),
    **dict.fromkeys(("all", "finetune", "fine-tune", "standard"), "full"),
    **dict.fromkeys(("scalar-mix", "elmo", "weighted"), "mix"),
    **dict.fromkeys(("ulmfit", "unfreezing", "gradual-unfreezing"), "gradual"),
    "cross-view": "cvt",
}


class FineTuningConfig(Config):
    """How a model is fine-tuned, whatever the task."""

    # Which weights are trained: all; only a network above the frozen top layer (frozen) or above a scalar mix of all
    # frozen layers (mix); all, unfrozen from the top downwards (gradual); or those of layer 0 and a network above it,
    # by cross-view training, which also uses unlabelled sentences (cvt).
    method: Method = "full"
    dropout: float = Field(0.1, ge=0, lt=1)  # on the inputs of the task head
    width: int = Field(200, ge=1)  # of the task's LSTMs, per direction
    penalty: float = Field(0.001, ge=0)  # mix: L2 penalty on the deviation of the layer weights from their mean
    chunk: int = Field(70, ge=0)  # gradual: tokens per chunk of backpropagation through time; 0: all
    consistency: float = Field(1.0, ge=0)  # cvt: weight of the loss on unlabelled sentences
    language_model: float = Field(0.5, ge=0)  # weight of an auxiliary language-model loss, for delimited inputs (GPT)
    # Two texts: as one sequence where the family can, or encoded separately (Reimers and Gurevych, 2019).
    text_pairs: Literal["cross_encoder", "bi_encoder"] = "cross_encoder"
    initialization: Literal["pretrained", "random"] = "pretrained"  # random: the same network without pretraining
    # Where training starts: with the head at the solution of a linear probe (Kumar et al., 2022), or at random.
    head_initialization: Literal["probe", "random"] = "probe"
    linear_path: bool = False  # add a linear function of the mean vectors of all layers to the scores of the head
    patience: int = Field(4, ge=0)  # early stopping: validations without improvement; 0: never

    @field_validator("method", mode="before")
    @classmethod
    def _not_of_another_tool(cls, method: Any) -> Any:
        if isinstance(method, str) and (ours := _METHODS_OF_OTHER_TOOLS.get(method.lower().replace("_", "-"))):
            raise ValueError(f"this method is not available; the closest is {ours}")
        return method


class TaskConfig(Config):
    """Settings of one task."""

    kind: str

    @classmethod
    def infer_config(cls, examples: Sequence[Any]) -> dict[str, Any]:
        """Infer settings, such as the labels, from training examples."""
        return {}

    @property
    def hf_settings(self) -> dict[str, Any]:
        """Settings of the task in the config.json of transformers."""
        return {}

    def calibrated(self, scores: Mapping[str, float]) -> Self:
        """Return the settings with those that were tuned on the dev set, given its scores."""
        return self


class LabelsConfig(TaskConfig):
    """The labels of a classification or sequence-labelling task."""

    labels: tuple[str, ...] = Field(min_length=2)

    @classmethod
    def infer_config(cls, examples: Sequence[Example]) -> dict[str, Any]:
        return {"labels": find_labels(examples)}

    @property
    def hf_settings(self) -> dict[str, Any]:
        return hf_labels(self.labels)


def hf_labels(labels: Sequence[str]) -> dict[str, Any]:
    """Label names in the config.json of transformers."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
