"""A recipe: everything that a training was told, with every default written out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, field_validator

from polyseme.config import Config, nearest
from polyseme.errors import CheckpointError, ConfigError
from polyseme.files import write_file
from polyseme.models import FAMILIES
from polyseme.models.base import ModelConfig
from polyseme.objectives import OBJECTIVES
from polyseme.text.units import UnitsConfig
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.plan import PlanConfig

RECIPE = "recipe.toml"


class DataConfig(UnitsConfig):
    """What is read."""

    corpus: tuple[str, ...] = ()  # files, folders or patterns, as en=PATH of one language; or a built-in sample
    dev: tuple[str, ...] = ()  # text that is never learnt from
    target: tuple[str, ...] = ()  # translations of the corpus, line by line, where it is plain text
    dev_target: tuple[str, ...] = ()  # the same of the dev text
    column: str = "text"  # of jsonl, csv, tsv and parquet; of parallel text two, such as en,de; source,target if not
    length: int = Field(128, ge=8)  # tokens a row
    start: Literal["none", "null"] = "none"  # null: rows of a gpt or gpt2 begin with a token that means nothing
    sampling: float = Field(0.7, ge=0, le=1)  # languages are drawn by their share of the text to this power; 1: as is
    fingerprint: str = ""  # of the text and the tokenizer; written when the training starts

    @field_validator("corpus", "dev", "target", "dev_target", "lexicon", "entities")
    @classmethod
    def _writable(cls, paths: Any) -> Any:
        if any("\ud800" <= character <= "\udfff" for path in paths for character in path):
            raise ValueError("the path is not UTF-8, so the recipe could not name it; rename the file")
        return paths


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Settings in groups, as they lie in the directory of a run."""

    family: str
    model: ModelConfig
    tokenizer: TokenizerConfig
    data: Any  # with a fingerprint of what is read
    plan: PlanConfig

    not_ours: ClassVar[tuple[str, str]]  # a group that only another command writes, and that command

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Check them; the first thing wrong is named as `group.setting`."""
        raise NotImplementedError

    @classmethod
    def build(cls, values: Mapping[str, Any], overrides: Iterable[str]) -> Self:
        """Check plain values, with `group.setting=value` overrides on top."""
        return cls.parse(overridden(values, overrides))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What a run left in its directory."""
        values = read_values(folder)
        group, command = cls.not_ours
        if group in values:
            raise CheckpointError(f"{folder} holds a run of polyseme {command}; use that command, or another folder")
        return cls.parse(values)

    def save(self, folder: Path) -> None:
        """Write them out in full."""
        write_file(folder / RECIPE, tomli_w.dumps(self.dump()))

    def dump(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def digest(self) -> str:
        """A short name for exactly these settings, but for those that are decided on the way."""
        values = self.dump()
        values["plan"].pop("marks")
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Recipe(Saved):
    """The settings of a training from text."""

    not_ours = ("tasks", "finetune")

    objective: Any
    data: DataConfig

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Check a recipe; the first thing wrong is named as `group.setting`."""
        family, parts = groups_of(values, "model", "tokenizer", "objective", "data", "plan")
        kind, usual = parts["objective"].get("kind", ""), read_preset(family, "base")["objective"]["kind"]
        if not isinstance(kind, str) or kind not in OBJECTIVES:
            raise ConfigError(f"objective.kind: {kind!r:.60} is not an objective{nearest(str(kind), OBJECTIVES)}")
        recipe = cls(
            family=family,
            model=FAMILIES[family].Config.parse(parts["model"], group="model"),
            tokenizer=TokenizerConfig.parse(parts["tokenizer"], group="tokenizer"),
            objective=OBJECTIVES[kind][0].parse(parts["objective"], group="objective"),
            data=DataConfig.parse(parts["data"], group="data"),
            plan=PlanConfig.parse(parts["plan"], group="plan"),
        )
        if kind != usual:
            raise ConfigError(f"objective.kind: a {family} learns by {usual!r}, not by {kind!r}; leave it as it is")
        if kind == "masked" and recipe.tokenizer.specials not in ("bert", "roberta"):
            raise ConfigError(
                f"tokenizer.specials: {recipe.tokenizer.specials!r} has no mask; say bert or roberta for a {family}"
            )
        if family == "roberta" and recipe.tokenizer.specials != "roberta":
            raise ConfigError("tokenizer.specials: a roberta counts its positions from the id of <pad>; say roberta")
        if recipe.data.start != "none" and kind != "next_token":
            raise ConfigError(f"data.start: rows of a {family} begin as they do; leave it away, or train a gpt or gpt2")
        if recipe.data.length > recipe.model.max_length:
            lengths = f"data.length = {recipe.data.length} is more than model.max_length = {recipe.model.max_length}"
            raise ConfigError(f"{lengths}; change one")
        return recipe

    @classmethod
    def preset(
        cls, family: str, size: str, overrides: Iterable[str] = (), *, recipe: str = "fast", **changes: Any
    ) -> Self:
        """The recipe that is shipped for a family and size, with `group.setting=value` overrides on top."""
        values = read_preset(family, size, recipe)
        for group, settings in changes.items():
            values[group] = {**values.get(group, {}), **settings}
        return cls.build(values, overrides)


def read_values(folder: Path) -> dict[str, Any]:
    """The settings that a run left in its directory, unchecked."""
    path = folder / RECIPE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {RECIPE}; it is not the directory of a run") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); put it back as the run wrote it") from None


def read_preset(family: str, size: str, recipe: str = "fast") -> dict[str, Any]:
    """The preset of a family, size and way of training, unchecked.

    The file of a family has what always holds, then what each way of training and each size adds; what a size says
    of one way of training counts most.
    """
    values = _read_family(family)
    values.pop("adapting", None)
    recipes, sizes = values.pop("recipes"), values.pop("sizes")
    if size not in sizes:
        raise ConfigError(f"{size!r} is not a size{nearest(size, sizes)}")
    if recipe not in recipes:
        raise ConfigError(f"{recipe!r} is not a recipe{nearest(recipe, recipes)}")
    sized = dict(sizes[size])
    own = {name: sized.pop(name, {}) for name in recipes}[recipe]
    for part in (recipes[recipe], sized, own):
        for group, settings in part.items():
            values[group] = {**values.get(group, {}), **settings}
    return {"family": family, **values}


def read_adapting(family: str) -> dict[str, Any]:
    """What a family says of its plan where it goes on from a model."""
    plan: dict[str, Any] = _read_family(family).get("adapting", {}).get("plan", {})
    return plan


def _read_family(family: str) -> dict[str, Any]:
    families = preset_names()
    if family not in families:
        raise ConfigError(f"{family!r} is not a family{nearest(family, families)}")
    file = resources.files("polyseme") / "presets" / f"{family}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def preset_names() -> list[str]:
    """The families that presets are shipped for."""
    return sorted(Path(file.name).stem for file in (resources.files("polyseme") / "presets").iterdir())


def groups_of(values: Mapping[str, Any], *groups: str) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """The family that settings are for, and their groups."""
    for name in values:
        if name not in ["family", *groups]:
            raise ConfigError(f"{name}: no such group of settings{nearest(name, groups)}")
    family = values.get("family", "")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ConfigError(f"{family!r:.60} is not a family{nearest(str(family), FAMILIES)}")
    parts = {name: values.get(name, {}) for name in groups}
    for name, part in parts.items():
        if not isinstance(part, Mapping):
            raise ConfigError(f"{name} is a group of settings; say {name}.setting = value")
    return family, parts


def _plain(settings: Any) -> Any:
    if isinstance(settings, Mapping):
        return {name: _plain(value) for name, value in settings.items()}
    return settings.model_dump() if isinstance(settings, Config) else settings


def overridden(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Plain values with `group.setting=value` overrides on top."""
    values = dict(values)
    for override in overrides:
        _override(values, override)
    return values


def _override(values: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    group, dot, setting = name.strip().partition(".")
    if not (equals and dot and setting and isinstance(values.get(group, {}), Mapping)):
        raise ConfigError(f"--set {override:.60}: say group.setting=value, such as --set plan.rate=3e-4")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()  # a bare word
    values[group] = {**values.get(group, {}), setting: value}
