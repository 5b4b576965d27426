"""Recipes of fine-tuning runs, and their default settings."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from polyseme.config import Config
from polyseme.errors import ConfigError, PolysemeError
from polyseme.tasks import FineTuningConfig, TaskConfig, task_spec
from polyseme.training.base_model import BaseModel
from polyseme.training.recipes.recipe import Recipe, SavedRecipe, apply_overrides, parse_recipe, read_recipe_values

_MIN_EPOCHS, _MAX_EPOCHS = 3, 30
_ENOUGH_EXAMPLES = 24_000  # with repetitions; more hardly help

# Optimizer settings by method: networks that start from random weights tolerate higher rates than pretrained ones.
_LINEAR = {"lr_schedule": "linear", "warmup_fraction": 0.1, "beta2": 0.999, "weight_decay": 0.01}
_SLANTED = {"lr_schedule": "slanted", "warmup_fraction": 0.1, "layer_lr_divisor": 2.6, "beta1": 0.7, "beta2": 0.99}
_FROZEN_LEARNING_RATE = 5e-3
_TRAINING: dict[str, dict[str, Any]] = {
    "full": _LINEAR,
    **{method: {"learning_rate": _FROZEN_LEARNING_RATE, **_LINEAR} for method in ("frozen", "mix", "cvt")},
    "gradual": {"learning_rate": 4e-3, **_SLANTED},  # Howard and Ruder, 2018
}

# Of networks that start from random weights; gradual: Howard and Ruder, 2018.
_DROPOUT = {"frozen": 0.3, "mix": 0.3, "gradual": 0.4, "cvt": 0.5}

_SENTENCE_TRANSFORMER = "modules.json"  # a file that sentence-transformers writes
_WELL_TRAINED = 1e9  # tokens


class LabelledDataConfig(Config):
    """Labelled data to train and validate on."""

    train: dict[str, str] = Field(min_length=1)  # training file of each task
    dev: dict[str, str] = Field(default_factory=dict)  # dev file of each task
    unlabelled: str = ""  # file of further examples, whose labels are not used
    columns: dict[str, str] = Field(default_factory=dict)  # column of the files for each field with another name
    sequence_length: int = Field(128, ge=8)  # tokens, at most
    batch_size: int = Field(32, ge=1)  # examples
    num_labels: int = Field(0, ge=0)  # training examples per task, sampled by the seed; 0: all
    fingerprint: str = ""  # of the files; written when the run starts


@dataclass(frozen=True, kw_only=True)
class FineTuningRecipe(SavedRecipe):
    """Settings of a fine-tuning run."""

    other_command = ("objective", "pretrain or adapt")
    started_by = "finetune"

    finetuning: FineTuningConfig
    tasks: Mapping[str, TaskConfig]  # by name
    data: LabelledDataConfig

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            **parse_recipe(values, finetuning=FineTuningConfig.parse, data=LabelledDataConfig.parse, tasks=parse_tasks)
        )

    def options(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.data, name) for name in ("train", "dev", "unlabelled")},
            "column": self.data.columns,
            "labels": self.data.num_labels or "all",
            "task": {name: task.kind for name, task in self.tasks.items()},
            "method": self.finetuning.method,
            "seed": self.training.seed,
        }

    def with_settings(self, overrides: Iterable[str]) -> Self:
        values = apply_overrides(self.dump(), overrides)
        of_all_tasks = values.pop("task", {})
        tasks = {name: {**task, **of_all_tasks} for name, task in values["tasks"].items()}
        return self.parse({**values, "tasks": tasks})


def read_recipe(folder: Path) -> Recipe | FineTuningRecipe:
    """Load the recipe of a run of either kind."""
    return FineTuningRecipe.load(folder) if "tasks" in read_recipe_values(folder) else Recipe.load(folder)


def parse_tasks(tasks: Mapping[str, Any], *, group: str = "tasks") -> dict[str, TaskConfig]:
    """Validate the settings of tasks by name."""
    configs = {}
    for name, settings in tasks.items():
        of_task = f"{group}.{name}"
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{of_task} is a group of settings; write {of_task}.setting = value")
        configs[name] = task_spec(settings.get("kind", ""), group=of_task).Config.parse(settings, group=of_task)
    return configs


def plan_finetuning(
    base: BaseModel,
    kinds: Mapping[str, str],
    overrides: Iterable[str] = (),
    *,
    data: Mapping[str, Any],
    finetuning: Mapping[str, Any],
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """Choose the settings of a fine-tuning run, but for those inferred from its data.

    Args:
        base: The model to fine-tune.
        kinds: Kinds of tasks by name.
        overrides: `group.setting=value`; `task.setting=value` applies to all tasks.
        data: Settings of the group `data`.
        finetuning: Settings of the group `finetuning`.
        training: Settings of the group `training`.
    """
    if not base.encoder.has_vectors:
        raise ConfigError(f"{base.name} is an {base.family} model, which has no vectors; fine-tune another family")
    overrides = tuple(overrides)
    values = apply_overrides({"data": data, "finetuning": finetuning, "training": training}, overrides)
    for name in ("objective", "tokenizer"):
        if name in values:
            raise ConfigError(f"{name}: fine-tuning keeps that of the base model; remove this setting")
    for name in ("processor_seconds", "milestones"):
        if name in values["training"]:
            raise ConfigError(f"training.{name}: only pretraining adapts its steps to a time; remove this setting")
    method = FineTuningConfig.parse(values["finetuning"], group="finetuning").method
    if _prefers_bi_encoder(base, kinds.values()):
        values["finetuning"] = {"text_pairs": "bi_encoder", **values["finetuning"]}
    values["finetuning"] = {**_start(base, kinds, method, values["finetuning"]), **values["finetuning"]}
    values["finetuning"] = {**({"dropout": _DROPOUT[method]} if method in _DROPOUT else {}), **values["finetuning"]}
    sizes = base.encoder.config.model_dump()
    if method in ("full", "gradual") and "dropout" in sizes and base.encoder.input_format != "bi_encoder":
        # A small training set is repeated often; but in a bi-encoder, dropout makes equal texts different.
        sizes["dropout"] = 0.0 if values["finetuning"].get("text_pairs") == "bi_encoder" else 0.1
    changes, tasks = values.get("model", {}), values.pop("task", {})
    for name, value in changes.items():
        if name not in sizes or not (name == "dropout" or name.endswith("_dropout")):
            raise ConfigError(f"model.{name}: the size of the model is fixed; only its dropout can be changed")
        sizes[name] = value
    defaults = {"base_model": base.name, "learning_rate": _learning_rate(base), **_TRAINING[method]}
    return {
        **values,
        "family": base.family,
        "model": sizes,
        "tokenizer": base.tokenizer.config.model_dump(),
        "tasks": {name: {"kind": kind, **tasks} for name, kind in kinds.items()},
        "training": {**defaults, **values["training"]},
        "command": {"settings": overrides},
    }


def _prefers_bi_encoder(base: BaseModel, kinds: Collection[str]) -> bool:
    """Whether a family that could be a cross-encoder compares texts better as a bi-encoder.

    Relating two texts within one sequence takes long pretraining. A BERT of fifteen minutes reached a Spearman
    correlation on SICK of 0.75 as a bi-encoder and of 0.29 as a cross-encoder. Sentence embedding models are better
    bi-encoders for similarity too (MiniLM: 0.84 and 0.83), but not necessarily for other tasks.
    """
    if base.encoder.input_format == "bi_encoder" or not all(task_spec(kind).compares_texts for kind in kinds):
        return False
    if tokens_read(base.recipe) < _WELL_TRAINED:
        return True
    return {*kinds} == {"similarity"} and (Path(base.name) / _SENTENCE_TRANSFORMER).exists()


def _start(base: BaseModel, kinds: Collection[str], method: str, finetuning: Mapping[str, Any]) -> dict[str, Any]:
    """Where training starts: at a linear path beside the head, unless transformers has a class for the head alone.

    Such a head starts at random: after a minute of pretraining, the pooled vector of BERT is a poor input of a probe.
    With 100 examples of 20 word senses, its dev accuracy was 0.51 from a probe of that vector, 0.57 from random weights
    and 0.55 from a linear path.
    """
    if method == "cvt" or finetuning.get("linear_path"):
        return {}
    exportable = base.encoder.hf_mapping is not None and len(kinds) == 1 and method in ("full", "gradual")
    if exportable and finetuning.get("text_pairs") != "bi_encoder":
        return {"head_initialization": "random"}
    return {"linear_path": True}


def tokens_read(recipe: SavedRecipe | None) -> float:
    """About how many tokens a model and its base models were trained on; infinite for models from elsewhere."""
    tokens = 0.0
    while recipe is not None:
        if isinstance(recipe, Recipe):
            tokens += recipe.training.step_schedule.total_steps * recipe.training.batch_tokens
        if not recipe.training.base_model:
            return tokens
        try:
            recipe = read_recipe(Path(recipe.training.base_model))
        except PolysemeError:  # deleted, or not a run of ours
            break
    return math.inf


def epochs_for(num_examples: int) -> int:
    """Default number of epochs: the fewer examples, the more."""
    return min(_MAX_EPOCHS, max(_MIN_EPOCHS, round(_ENOUGH_EXAMPLES / max(1, num_examples))))


def _learning_rate(base: BaseModel) -> float:
    """Default learning rate when all weights are trained.

    5e-5 at the width of BERT base (Devlin et al., 2018), more for narrower models: half of the highest rate of
    pretraining, which is also best for small models. A BERT of fifteen minutes reached F1 0.52 on SNIPS at 3e-4 and
    0.61 at half of its rate, 1e-3. Bi-encoders have large heads with random weights. Static embeddings have LSTMs above
    them, which tolerate the rate of `frozen`: on Chinese names, in 900 steps, SVD vectors reached F1 0.18 at 1e-3 and
    0.41 at 5e-3 (one seed).
    """
    if base.encoder.context == "none":
        return _FROZEN_LEARNING_RATE
    if base.encoder.input_format == "bi_encoder":
        return 1e-3
    return max(5e-5 * 768 / base.encoder.widths[-1], base.recipe.training.learning_rate / 2 if base.recipe else 0.0)
