"""The options of a command that resumes a run: all but the budget must be those that the run was started with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyseme.errors import ConfigError
from polyseme.training.data_pipeline import absolute_paths, list_paths
from polyseme.training.optimization.budget import Budget
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe
from polyseme.training.recipes.recipe import TEXTS, DataConfig, SavedRecipe

_BUDGET = "training.budget"


def changed_budget(
    kind: type[SavedRecipe], folder: Path, given: Mapping[str, Any], *, base_model: str = "", family: str | None = None
) -> str:
    """Compare a command that resumes a run with the recipe of the run, and return its budget if it is another one.

    Args:
        kind: The kind of recipe.
        folder: The directory of the run.
        given: The options that were given.
        base_model: The name of the base model, if there is one.
        family: The family, for `pretrain`.

    Raises:
        ConfigError: The run was started by another command, or another option differs.
    """
    recipe = kind.load(folder)
    if recipe.training.base_model != base_model or family not in (None, recipe.family):
        command = f"{recipe.started_by} {recipe.training.base_model or recipe.family}"
        raise ConfigError(
            f"{folder} is a run of polyseme {command}; resume it with that command, or choose another --out"
        )
    if isinstance(recipe, FineTuningRecipe):
        options = _finetuning_options(recipe, given)
    else:
        options = _pretraining_options(given)
    budget, settings = options.pop("budget", None), options.pop("settings", ())
    in_run = recipe.options()
    for name, value in options.items():
        if name in in_run and value != in_run[name]:
            raise _differs(folder, f"--{name.replace('_', '-')} ", in_run[name], value)
    texts, before = _by_name(settings), _by_name(recipe.command.settings)
    budget = texts.pop(_BUDGET, budget)
    # A setting can be rewritten when a run starts: the vocabulary may be smaller, a path becomes absolute.
    others = {name: text for name, text in texts.items() if text != before.get(name)}
    changed = recipe.with_settings([setting for setting in settings if _name(setting) in others])
    for name, text in others.items():
        was = _value(recipe, name)
        if was != _value(changed, name):
            raise _differs(folder, f"--set {name}=", before.get(name, was), text)
    return budget if budget and Budget.parse(budget) != Budget.parse(recipe.training.budget) else ""


def _pretraining_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `pretrain` or `adapt`, as the recipe of a run has them."""
    texts = {name: list_paths(given[name]) for name in TEXTS if name in given}
    paths = absolute_paths(DataConfig.parse(texts, group="data"))
    options = {**given, **{name: paths[name] for name in texts}}
    if options.get("size") == "auto":  # chosen when the run started
        del options["size"]
    return options


def _finetuning_options(recipe: FineTuningRecipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `finetune`, as the recipe of a run has them."""
    tasks, options = list(recipe.tasks), dict(given)
    for name in {"train", "dev"} & options.keys():
        files = options[name]
        if not isinstance(files, Mapping):  # of the only task
            files = {tasks[0] if len(tasks) == 1 else "": files}
        options[name] = {task: str(Path(file).absolute()) for task, file in files.items()}
    if isinstance(options.get("task"), str):
        options["task"] = dict.fromkeys(tasks, options["task"])
    if "unlabelled" in options:
        options["unlabelled"] = str(Path(options["unlabelled"]).absolute())
    if "columns" in options:
        options["column"] = dict(options.pop("columns"))
    return options


def _by_name(settings: Sequence[str]) -> dict[str, str]:
    return {_name(setting): setting.partition("=")[2].strip() for setting in settings}


def _name(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _value(recipe: SavedRecipe, name: str) -> Any:
    group, _, setting = name.partition(".")
    values = recipe.dump()
    return [task.get(setting) for task in values["tasks"].values()] if group == "task" else values[group][setting]


def _differs(folder: Path, option: str, was: Any, now: Any) -> ConfigError:
    name = option.rstrip("= ")
    before = f"with {option}{_text(was)}, not {_text(now)}" if _text(was) else f"without {name}"
    return ConfigError(f"{folder} was started {before}; omit {name} to resume it, or choose another --out")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name}={one}" for name, one in value.items()]
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = "" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
