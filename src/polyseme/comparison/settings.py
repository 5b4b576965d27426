"""What a comparison is told, with every default written out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import tomli_w
from pydantic import Field

from polyseme.config import Config, nearest
from polyseme.errors import CheckpointError, ConfigError
from polyseme.files import write_file
from polyseme.train.plan import SIZES, Budget, BudgetText
from polyseme.train.recipe import preset_names

SETTINGS = "comparison.toml"

_USUAL_SECONDS = 60.0  # of a processor, by which measuring is bounded where the budget is no time
_NEEDS = {
    "cove": "translations and vectors of words",
    "transformer": "translations",
}


class ComparisonConfig(Config):
    """The settings of a comparison."""

    corpus: tuple[str, ...] = Field(min_length=1)  # files, folders or patterns, as en=PATH of one language; or a sample
    column: str = "text"  # of jsonl, csv, tsv and parquet
    families: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # directories that are there already, instead of families
    budget: BudgetText = "5m"  # of all cores together, for each family
    size: str = "auto"  # tiny, small, medium or base; auto: by the rule of sizing.py
    params: str = ""  # or the size nearest to so many parameters, such as 2M
    recipe: str = "fast"
    tasks: str = ""  # a file that lists labelled sets, or a folder of them
    labels: tuple[int, ...] = (100, 300, 1000, 0)  # examples that tasks are learnt from; 0: all
    seeds: int = Field(1, ge=1, le=100)  # times that tasks are learnt
    seed: int = Field(0, ge=0, lt=2**32)
    cores: int = Field(1, ge=1, le=1024)  # that a budget of time is multiplied by
    parallel: int = Field(1, ge=1, le=64)  # families that are trained side by side, with the cores divided
    fingerprint: str = ""  # of the text; written when the comparison starts

    @property
    def processor_seconds(self) -> float | None:
        """What each family may use; nothing where the budget is no time."""
        budget = Budget.parse(self.budget)
        return budget.amount * self.cores if budget.unit == "seconds" else None

    @property
    def threads(self) -> int:
        """Of a training."""
        return max(1, self.cores // self.parallel)

    @property
    def names(self) -> tuple[str, ...]:
        """What the rows are called: the families, or the directories of models."""
        if not self.models:
            return self.families
        names: list[str] = []
        for path in self.models:
            name = Path(path).name
            names.append(name if name not in names else f"{name}-{len(names) + 1}")
        return tuple(names)

    def check(self) -> None:
        """Refuse what makes no sense before anything is read."""
        if bool(self.models) == bool(self.families):
            raise ConfigError(
                "there is nothing to compare; say --families skipgram,bert,gpt2, or name model directories"
            )
        known = preset_names()
        for family in self.families:
            if family not in known:
                raise ConfigError(f"{family!r:.60} is not a family{nearest(family, known)}")
            if family in _NEEDS:
                raise ConfigError(
                    f"{family} learns from {_NEEDS[family]}, which no plain corpus has; train it by polyseme pretrain "
                    f"{family}, and compare its directory with others"
                )
        for family in self.families:
            if self.families.count(family) > 1:
                raise ConfigError(f"{family} is named twice; name each family once")
        if self.size not in ("auto", *SIZES):
            raise ConfigError(f"{self.size!r:.60} is not a size{nearest(self.size, ('auto', *SIZES))}")
        if self.params and self.size != "auto":
            raise ConfigError("--size and --params do not go together; leave one away")
        self.num_parameters  # noqa: B018

    @property
    def num_parameters(self) -> int:
        """How many each family should have, or 0 where nobody says so."""
        if not self.params:
            return 0
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kMG]?)", self.params.strip())
        if not found or not float(found[1]):
            raise ConfigError(f"--params {self.params!r:.30}: say a number such as 500k or 2M")
        return round(float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]])

    def save(self, folder: Path) -> None:
        """Write them out in full."""
        write_file(folder / SETTINGS, tomli_w.dumps(self.model_dump()))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What a comparison left in its folder."""
        try:
            values = tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{folder / SETTINGS} cannot be read ({error}); choose another --out") from None
        return cls.parse(values, group="comparison")

    def refuse_other(self, began: ComparisonConfig, folder: Path) -> None:
        """Go on with a comparison only as it began."""
        for name in type(self).model_fields:
            before, now = getattr(began, name), getattr(self, name)
            if before == now:
                continue
            if name == "fingerprint":
                raise CheckpointError(f"{folder} compares on other text than --corpus holds now; choose another --out")
            raise CheckpointError(
                f"{folder} holds a comparison with {name} = {_said(before)}, not {_said(now)}; "
                "give the same command to go on, or choose another --out"
            )


def _said(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much is measured, which grows with the budget, so that measuring stays a part of it."""

    dev_characters: int  # of the looks on the way
    scored_characters: int
    num_pairs: int  # of sentences whose words are swapped
    num_pseudo_words: int
    examples: dict[str, int]  # of the sides of a labelled set
    tuning_seconds: float  # of a processor, for all fine-tunings of a family

    @classmethod
    def of(cls, settings: ComparisonConfig) -> Self:
        seconds = settings.processor_seconds or _USUAL_SECONDS

        def growing(a_second: float, least: int, most: int) -> int:
            return max(least, min(most, round(a_second * seconds)))

        return cls(
            dev_characters=growing(500, 50_000, 400_000),
            scored_characters=growing(150, 10_000, 200_000),
            num_pairs=growing(1, 100, 500),
            num_pseudo_words=growing(1 / 10, 5, 20),
            examples={
                "train": growing(20, 1000, 10_000),
                "dev": growing(1, 100, 500),
                "test": growing(3, 300, 2000),
            },
            tuning_seconds=seconds / 2,
        )
