"""What a fine-tuning is told, with every default written out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from polyseme.config import Config
from polyseme.errors import ConfigError, PolysemeError
from polyseme.models import FAMILIES
from polyseme.tasks import TaskConfig, TuningConfig, read_task
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.adapting import Base
from polyseme.train.plan import PlanConfig
from polyseme.train.recipe import Recipe, Saved, groups_of, overridden, read_values

_FEW, _MANY = 3, 30  # epochs
_ENOUGH = 24_000  # examples read, with repetitions, before more stop to help

# Adam's rates, by what learns: networks that start from nothing bear more than weights that know something.
_PLANS: dict[str, dict[str, Any]] = {
    "full": {"schedule": "linear", "warmup": 0.1, "beta2": 0.999, "decay": 0.01},
    "frozen": {"rate": 5e-3, "schedule": "linear", "warmup": 0.1, "beta2": 0.999, "decay": 0.01},
    "mix": {"rate": 5e-3, "schedule": "linear", "warmup": 0.1, "beta2": 0.999, "decay": 0.01},
    # Howard and Ruder, 2018.
    "gradual": {"rate": 4e-3, "schedule": "slanted", "warmup": 0.1, "layer_divisor": 2.6, "beta1": 0.7, "beta2": 0.99},
    "cvt": {"rate": 5e-3, "schedule": "linear", "warmup": 0.1, "beta2": 0.999, "decay": 0.01},
}

# Of networks that start from nothing; gradual: of Howard and Ruder, 2018.
_DROPOUTS = {"frozen": 0.3, "mix": 0.3, "gradual": 0.4, "cvt": 0.5}


_OF_SENTENCES = "modules.json"  # what sentence-transformers leaves beside a model
_GROWN = 1e9  # tokens read


class LabelledConfig(Config):
    """What is read."""

    train: dict[str, str] = Field(min_length=1)  # the file of each task
    dev: dict[str, str] = Field(default_factory=dict)  # examples that are never learnt from
    unlabelled: str = ""  # a file of more examples, whose labels do not matter
    columns: dict[str, str] = Field(default_factory=dict)  # where things are that the files call otherwise
    length: int = Field(128, ge=8)  # tokens a row at most
    num_rows: int = Field(32, ge=1)  # examples a batch
    num_labels: int = Field(0, ge=0)  # examples of each task that are learnt from, drawn by the seed; 0: all
    fingerprint: str = ""  # of the files; written when the training starts


@dataclass(frozen=True, kw_only=True)
class TuningRecipe(Saved):
    """The settings of a training for tasks."""

    not_ours = ("objective", "pretrain or adapt")

    tuning: TuningConfig
    tasks: Mapping[str, TaskConfig]  # by name
    data: LabelledConfig

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        family, parts = groups_of(values, "model", "tokenizer", "tuning", "tasks", "data", "plan")
        return cls(
            family=family,
            model=FAMILIES[family].Config.parse(parts["model"], group="model"),
            tokenizer=TokenizerConfig.parse(parts["tokenizer"], group="tokenizer"),
            tuning=TuningConfig.parse(parts["tuning"], group="tuning"),
            tasks=read_tasks(parts["tasks"]),
            data=LabelledConfig.parse(parts["data"], group="data"),
            plan=PlanConfig.parse(parts["plan"], group="plan"),
        )


def read_recipe(folder: Path) -> Recipe | TuningRecipe:
    """What the run in a directory was told, whichever kind it was."""
    values = read_values(folder)
    return TuningRecipe.parse(values) if "tasks" in values else Recipe.parse(values)


def read_tasks(tasks: Mapping[str, Any]) -> dict[str, TaskConfig]:
    """The settings of tasks by name."""
    for name, settings in tasks.items():
        if not isinstance(settings, Mapping):
            raise ConfigError(f"tasks.{name} is a group of settings; say tasks.{name}.setting = value")
    return {name: read_task(group=f"tasks.{name}", **{"kind": "", **settings}) for name, settings in tasks.items()}


def plan_tuning(
    base: Base,
    kinds: Mapping[str, str],
    overrides: Iterable[str] = (),
    *,
    data: Mapping[str, Any],
    tuning: Mapping[str, Any],
    plan: Mapping[str, Any],
) -> dict[str, Any]:
    """What a fine-tuning is told before its files were read; `task.setting` is said of all tasks."""
    values = overridden({"data": data, "tuning": tuning, "plan": plan}, overrides)
    for name in ("objective", "tokenizer"):
        if name in values:
            raise ConfigError(f"{name}: the model has learnt by it and keeps it; leave this setting away")
    for name in ("processor_seconds", "marks"):
        if name in values["plan"]:
            raise ConfigError(f"plan.{name}: only pretraining is fitted to a time on the way; leave it away")
    method = TuningConfig.parse(values["tuning"], group="tuning").method
    if _compares_better(base, set(kinds.values())):
        values["tuning"] = {"texts": "apart", **values["tuning"]}
    values["tuning"] = {**({"dropout": _DROPOUTS[method]} if method in _DROPOUTS else {}), **values["tuning"]}
    sizes = base.encoder.config.model_dump()
    if method in ("full", "gradual") and "dropout" in sizes and base.encoder.layout != "apart":
        # Few examples are seen often; but of two that are compared, what is dropped of each would be a difference.
        sizes["dropout"] = 0.0 if values["tuning"].get("texts") == "apart" else 0.1
    given, tasks = values.get("model", {}), values.pop("task", {})
    for name, value in given.items():
        if name not in sizes or not (name == "dropout" or name.endswith("_dropout")):
            raise ConfigError(f"model.{name}: the model is as large as it is; only its dropout can be changed")
        sizes[name] = value
    return {
        **values,
        "family": base.family,
        "model": sizes,
        "tokenizer": base.tokenizer.config.model_dump(),
        "tasks": {name: {"kind": kind, **tasks} for name, kind in kinds.items()},
        "plan": {"base": base.name, "rate": _rate(base), **_PLANS[method], **values["plan"]},
    }


def _compares_better(base: Base, kinds: set[str]) -> bool:
    """Whether a family that can read two texts in one row had better read them apart and be helped to compare them.

    Holding one text against another within a row is learnt late. A BERT of fifteen minutes came to Spearman's
    correlation of 0.75 on SICK apart, and of 0.29 together. Those whose vectors of sentences are made to be compared
    do better apart too (MiniLM: 0.84 and 0.83), but need not for other tasks.
    """
    if base.encoder.layout == "apart" or not kinds <= {"pair", "similarity", "choice"}:
        return False
    return tokens_read(base.recipe) < _GROWN or (kinds == {"similarity"} and (Path(base.name) / _OF_SENTENCES).exists())


def tokens_read(recipe: Saved | None) -> float:
    """About how much a model has read, with the one that it came from; of models of others nobody knows."""
    found = 0.0
    while recipe is not None:
        if isinstance(recipe, Recipe):
            found += recipe.plan.course.total * recipe.plan.batch_tokens
        if not recipe.plan.base:
            return found
        try:
            recipe = read_recipe(Path(recipe.plan.base))
        except PolysemeError:  # it has gone, or is none of ours
            break
    return math.inf


def epochs_for(num_examples: int) -> int:
    """Passes over so many examples: the fewer there are, the more."""
    return min(_MANY, max(_FEW, round(_ENOUGH / max(1, num_examples))))


def _rate(base: Base) -> float:
    """For all weights: 5e-5 at the width of BERT base (Devlin et al., 2018), and more for narrower models.

    That is half of the highest rate that it had known, which is also best for the small ones of ours: a BERT of fifteen
    minutes came to F1 0.52 of snips at 3e-4, 0.61 at its half, 1e-3. Those that read texts apart have large heads of
    their own, which start from nothing; vectors without context have LSTMs above them, which bear as much as where the
    vectors stay (`frozen`): Chinese names in 900 steps by an SVD came to F1 0.18 at 1e-3, 0.41 at 5e-3 (one seed).
    """
    if base.encoder.context == "none":
        return float(_PLANS["frozen"]["rate"])
    if base.encoder.layout == "apart":
        return 1e-3
    return max(5e-5 * 768 / base.encoder.widths[-1], base.recipe.plan.rate / 2 if base.recipe else 0.0)
