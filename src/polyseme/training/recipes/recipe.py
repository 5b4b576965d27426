"""A recipe: all settings of a training run, with every default written out."""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, field_validator

from polyseme.config import Config, suggest_name
from polyseme.errors import CheckpointError, ConfigError
from polyseme.families import FAMILIES, OBJECTIVES
from polyseme.models.base import ModelConfig
from polyseme.system.atomic_io import write_file
from polyseme.system.regular_files import read_regular
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.masking_units import MaskingUnitsConfig
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.presets import read_preset
from polyseme.training.recipes.settings_of_other_tools import SETTINGS_OF_OTHER_TOOLS

RECIPE = "recipe.toml"
TEXTS = ("corpus", "dev", "target", "dev_target")
"""Settings of `DataConfig` that are paths of texts."""

_MAX_BYTES = 1_000_000


def _require_utf8(texts: Any) -> Any:
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise ValueError("the path is not UTF-8 and cannot be written to the recipe; rename the file")
    return texts


class DataConfig(MaskingUnitsConfig):
    """Text to train and validate on."""

    corpus: tuple[str, ...] = ()  # files, folders or patterns, `en=PATH` per language; or a built-in sample
    dev: tuple[str, ...] = ()  # validation text
    target: tuple[str, ...] = ()  # translations of the corpus, line by line, if it is plain text
    dev_target: tuple[str, ...] = ()  # translations of the validation text
    column: str = "text"  # of jsonl, csv, tsv and parquet; two for parallel text, such as en,de (source,target)
    sequence_length: int = Field(128, ge=8)  # tokens
    first_token: Literal["none", "null"] = "none"  # null: sequences of a gpt or gpt2 start with a null token
    language_sampling: float = Field(0.7, ge=0, le=1)  # exponent of each language's share of the text; 1: as is
    fingerprint: str = ""  # of the text and the tokenizer; written when the run starts

    _utf8 = field_validator(*TEXTS, "lexicon", "entities")(_require_utf8)


class CommandConfig(Config):
    """Options of the command that started a run, as far as they do not follow from the other settings."""

    size: str = ""  # preset of the sizes
    recipe: str = ""  # paper or fast
    new_words: int = Field(0, ge=0)  # words to add to the vocabulary of the base model, at most
    settings: tuple[str, ...] = ()  # --set

    _utf8 = field_validator("settings")(_require_utf8)


@dataclass(frozen=True, kw_only=True)
class SavedRecipe:
    """Groups of settings as saved in `recipe.toml` of a run directory."""

    family: str
    model: ModelConfig
    tokenizer: TokenizerConfig
    data: Any
    training: TrainingConfig
    command: CommandConfig = dataclasses.field(default_factory=CommandConfig)

    other_command: ClassVar[tuple[str, str]]  # a group that only recipes of another command have, and that command

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Validate plain values; the first error is reported as `group.setting`."""
        raise NotImplementedError

    @classmethod
    def build(cls, values: Mapping[str, Any], overrides: Iterable[str]) -> Self:
        """Validate plain values with `group.setting=value` overrides."""
        return cls.parse(apply_overrides(values, overrides))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the recipe of a run directory."""
        values = read_recipe_values(folder)
        group, command = cls.other_command
        if group in values:
            raise CheckpointError(f"{folder} is a run of polyseme {command}; use that command, or another folder")
        try:
            return cls.parse(values)
        except ConfigError as error:
            raise CheckpointError(f"{folder / RECIPE}: {error}; restore the file that the run wrote") from None

    def save(self, folder: Path) -> None:
        """Write `recipe.toml`, including all defaults."""
        write_file(folder / RECIPE, self.to_toml())

    def to_toml(self) -> str:
        """The content of `recipe.toml`."""
        return tomli_w.dumps(self.dump())

    def dump(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @property
    def started_by(self) -> str:
        """The command that starts this run."""
        return "adapt" if self.training.base_model else "pretrain"

    def options(self) -> dict[str, Any]:
        """The options of a command that starts this run, as far as known, but for `--budget` and `--set`."""
        raise NotImplementedError

    def with_settings(self, overrides: Iterable[str]) -> Self:
        """A validated copy with `group.setting=value` overrides."""
        return self.parse(apply_overrides(self.dump(), overrides))

    def digest(self) -> str:
        """Short hash of all settings but those that are decided during the run, and how they were given."""
        values = self.dump()
        del values["command"], values["training"]["milestones"], values["training"]["extended_at"]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Recipe(SavedRecipe):
    """Settings of a pretraining run."""

    other_command = ("tasks", "finetune")

    objective: Any
    data: DataConfig

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Validate a recipe; the first error is reported as `group.setting`."""
        recipe = cls(**parse_recipe(values, objective=parse_objective, data=DataConfig.parse))
        family, kind = recipe.family, recipe.objective.kind
        expected = read_preset(family, "base")["objective"]["kind"]
        if kind != expected:
            raise ConfigError(
                f"objective.kind: {family} is trained with {expected!r}, not {kind!r}; remove the setting"
            )
        if kind == "masked_lm" and recipe.tokenizer.specials not in ("bert", "roberta"):
            raise ConfigError(
                f"tokenizer.specials: {recipe.tokenizer.specials!r} has no mask token; use bert or roberta for {family}"
            )
        FAMILIES[family].validate_tokenizer(recipe.tokenizer)
        if recipe.data.first_token != "none" and kind != "causal_lm":
            raise ConfigError(f"data.first_token: not available for {family}; remove it, or train a gpt or gpt2")
        if recipe.data.sequence_length > recipe.model.max_length:
            raise ConfigError(
                f"data.sequence_length = {recipe.data.sequence_length} is more than model.max_length = "
                f"{recipe.model.max_length}; change one of them"
            )
        return recipe

    @classmethod
    def preset(
        cls, family: str, size: str, overrides: Iterable[str] = (), *, recipe: str = "fast", **changes: Any
    ) -> Self:
        """Build the preset of a family and size, with changes by group and `group.setting=value` overrides."""
        values = read_preset(family, size, recipe)
        for group, settings in changes.items():
            values[group] = {**values.get(group, {}), **settings}
        overrides = tuple(overrides)
        values["command"] = {"size": size, "recipe": recipe, "settings": overrides}
        return cls.build(values, overrides)

    def options(self) -> dict[str, Any]:
        stages = getattr(self.objective, "stages", ())
        return {
            **{name: getattr(self.data, name) for name in (*TEXTS, "column")},
            **{name: value for name in ("size", "recipe") if (value := getattr(self.command, name))},
            "new_words": self.command.new_words,
            "masking": "in stages" if stages else getattr(self.objective, "masking", None),
            "seed": self.training.seed,
        }


def read_recipe_values(folder: Path) -> dict[str, Any]:
    """Read `recipe.toml` of a run directory without validation."""
    path = folder / RECIPE
    try:
        return tomllib.loads(read_regular(path, limit=_MAX_BYTES).decode())
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {RECIPE}; give the directory of a run") from None
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read ({error.strerror}); restore the file that the run wrote"
        ) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error!s:.100}); restore the file that the run wrote") from None


def parse_recipe(values: Mapping[str, Any], **parsers: Callable[..., Any]) -> dict[str, Any]:
    """Validate the family, the groups of settings that all recipes have, and other groups by their parsers."""
    names = ("model", "tokenizer", *parsers, "training")
    for name in values:
        if name not in ("family", "command", *names):
            raise ConfigError(f"{name}: no such group of settings{suggest_name(name, names)}")
    family = values.get("family", "")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ConfigError(f"{family!r:.60} is not a family{suggest_name(str(family), FAMILIES)}")
    groups = {name: values.get(name, {}) for name in (*names, "command")}
    for name, settings in groups.items():
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{name} is a group of settings; write {name}.setting = value")
    parsers |= {"model": FAMILIES[family].Config.parse, "tokenizer": TokenizerConfig.parse}
    parsers |= {"training": TrainingConfig.parse, "command": CommandConfig.parse}
    return {"family": family, **{name: parsers[name](settings, group=name) for name, settings in groups.items()}}


def parse_objective(values: Mapping[str, Any], *, group: str = "objective") -> Any:
    """Validate the settings of an objective of any kind."""
    kind = values.get("kind", "")
    if not isinstance(kind, str) or kind not in OBJECTIVES:
        raise ConfigError(f"{group}.kind: {kind!r:.60} is not an objective{suggest_name(str(kind), OBJECTIVES)}")
    return OBJECTIVES[kind][0].parse(values, group=group)


def _plain(settings: Any) -> Any:
    if isinstance(settings, Mapping):
        return {name: _plain(value) for name, value in settings.items()}
    return settings.model_dump() if isinstance(settings, Config) else settings


def apply_overrides(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Apply `group.setting=value` overrides to plain values."""
    values = dict(values)
    for override in overrides:
        name, equals, text = override.partition("=")
        group, dot, setting = name.strip().partition(".")
        if equals and (ours := SETTINGS_OF_OTHER_TOOLS.get(name.strip()) or SETTINGS_OF_OTHER_TOOLS.get(setting)):
            raise ConfigError(f"unknown setting {name.strip()}; the setting is called {ours}")
        if group == "command":
            raise ConfigError(f"{name.strip()} is not a setting; give --size, --recipe or --new-words")
        if not (equals and dot and setting and isinstance(values.get(group, {}), Mapping)):
            raise ConfigError(
                f"--set {override:.60}: write group.setting=value, such as --set training.learning_rate=3e-4"
            )
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            value = text.strip()  # a bare word
        values[group] = {**values.get(group, {}), setting: value}
    return values
