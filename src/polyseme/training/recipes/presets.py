"""The shipped presets: one TOML file per family in `polyseme/presets`."""

import functools
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from polyseme.config import suggest_name
from polyseme.errors import ConfigError


def read_preset(family: str, size: str, recipe: str = "fast") -> dict[str, Any]:
    """Read the unvalidated preset of a family, a size and a recipe (`paper` or `fast`).

    The file of a family has settings that always apply, then those of each recipe, then those of each size. The
    settings that a size has for one recipe take precedence over all others.
    """
    values = _read_family(family)
    for name in ("display_name", "adapt"):
        values.pop(name, None)
    recipes, sizes = values.pop("recipes"), values.pop("sizes")
    if size not in sizes:
        raise ConfigError(f"{size!r} is not a size{suggest_name(size, sizes)}")
    if recipe not in recipes:
        raise ConfigError(f"{recipe!r} is not a recipe{suggest_name(recipe, recipes)}")
    sized = dict(sizes[size])
    specific = {name: sized.pop(name, {}) for name in recipes}[recipe]
    for part in (recipes[recipe], sized, specific):
        for group, settings in part.items():
            values[group] = {**values.get(group, {}), **settings}
    return {"family": family, **values}


def adaptation_defaults(family: str) -> dict[str, Any]:
    """Training settings that the paper of a family gives for continued pretraining, if it gives any."""
    return dict(_read_family(family).get("adapt", {}).get("training", {}))


def _read_family(family: str) -> dict[str, Any]:
    families = preset_families()
    if family not in families:
        raise ConfigError(f"{family!r} is not a family{suggest_name(family, families)}")
    return tomllib.loads((_presets() / f"{family}.toml").read_text(encoding="utf-8"))


@functools.cache
def display_name(family: str) -> str | None:
    """The name of a family as papers write it; None if it is not a family."""
    return str(_read_family(family)["display_name"]) if family in preset_families() else None


def preset_families() -> list[str]:
    """All families: each has a preset. Unlike the table of their classes, this does not import torch."""
    return sorted(Path(file.name).stem for file in _presets().iterdir())


def _presets() -> Any:
    return resources.files("polyseme") / "presets"
