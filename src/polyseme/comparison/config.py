"""Settings of a comparison, and how much is evaluated."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import tomli_w
from pydantic import Field

from polyseme.config import Config, suggest_name
from polyseme.errors import CheckpointError, ConfigError
from polyseme.system.atomic_io import write_file
from polyseme.training.optimization.budget import SIZES, Budget, BudgetText
from polyseme.training.recipes.presets import preset_families
from polyseme.training.recipes.recipe import Recipe

SETTINGS = "comparison.toml"

_BASELINES = ("tfidf", "bm25")  # families in the results that are not models

_DEFAULT_SECONDS = 60.0  # of processor time, assumed by the evaluation if the budget is not a time


@dataclass(frozen=True)
class TrainingRun:
    """A training of a family, or an existing model."""

    family: str
    training: int = 0

    @property
    def name(self) -> str:
        """The name of its model directory."""
        return f"{self.family}-{self.training + 1}" if self.training else self.family


class ComparisonConfig(Config):
    """The settings of a comparison."""

    corpus: tuple[str, ...] = Field(min_length=1)  # files, folders, patterns or samples; en=PATH sets a language
    column: str = "text"  # of jsonl, csv, tsv and parquet files
    families: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # existing model directories, instead of families
    budget: BudgetText = "5m"  # per family; a time is multiplied by the number of cores
    finetune_budget: BudgetText | Literal[""] = ""  # a time per family, for all tasks; by default until convergence
    size: str = "auto"  # tiny, small, medium or base; auto: see train/model_size.py
    params: str = ""  # or the size closest to this number of parameters, such as 2M
    recipe: str = "fast"
    tasks: str = ""  # a TOML file that lists labelled datasets, or a folder of them
    labels: tuple[int, ...] = (100, 300, 1000, 0)  # numbers of labelled examples; 0: all
    trainings: int = Field(1, ge=1, le=100)  # of each family, with different seeds
    seeds: int = Field(1, ge=1, le=100)  # label samples of each task
    seed: int = Field(0, ge=0, lt=2**31)
    cores: int = Field(1, ge=1, le=1024)
    parallel: int = Field(1, ge=1, le=64)  # families trained in parallel, which share the cores
    fingerprint: str = ""  # of the text; set when the comparison starts

    @property
    def processor_seconds(self) -> float | None:
        """The processor time of each family; none if the budget is not a time."""
        budget = Budget.parse(self.budget)
        return budget.amount * self.cores if budget.unit == "seconds" else None

    @property
    def finetuning_seconds(self) -> float | None:
        """The processor time for all fine-tuning of a family; None: until convergence."""
        return Budget.parse(self.finetune_budget).amount * self.cores if self.finetune_budget else None

    @property
    def threads(self) -> int:
        """Threads of each training job."""
        return max(1, self.cores // self.parallel)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of families in the results: families, or model directories."""
        if not self.models:
            return self.families
        names: list[str] = []
        for path in self.models:
            name = Path(path).name
            names.append(name if name not in (*names, *_BASELINES) else f"{name}-{len(names) + 1}")
        return tuple(names)

    @property
    def runs(self) -> tuple[TrainingRun, ...]:
        """All trainings: the first of each family, then the second of each unless it is only counting."""
        first = tuple(TrainingRun(name) for name in self.names)
        if self.trainings == 1:
            return first
        random = [name for name in self.names if not Recipe.preset(name, SIZES[0]).objective.single_step]
        return (*first, *(TrainingRun(name, training) for training in range(1, self.trainings) for name in random))

    def check(self) -> None:
        """Raise an error for settings that cannot work, before anything is read."""
        if bool(self.models) == bool(self.families):
            raise ConfigError("nothing to compare; pass --families skipgram,bert,gpt2, or model directories")
        known = preset_families()
        for family in self.families:
            if family not in known:
                raise ConfigError(f"{family!r:.60} is not a family{suggest_name(family, known)}")
            if Recipe.preset(family, SIZES[0]).objective.uses_parallel_text:
                raise ConfigError(
                    f"{family} is trained on parallel text, not on a plain corpus; train it with polyseme pretrain "
                    f"{family}, and compare the model directory"
                )
            if self.families.count(family) > 1:
                raise ConfigError(f"{family} is listed twice; list each family once")
        if self.size not in ("auto", *SIZES):
            raise ConfigError(f"{self.size!r:.60} is not a size{suggest_name(self.size, ('auto', *SIZES))}")
        if self.finetune_budget and Budget.parse(self.finetune_budget).unit != "seconds":
            raise ConfigError(f"--finetune-budget {self.finetune_budget} is not a time; write it like 90s or 10m")
        if self.params and self.size != "auto":
            raise ConfigError("--size and --params exclude each other; remove one")
        if self.models and self.trainings > 1:
            raise ConfigError("--trainings is for families, and models are not trained; remove it")
        self.num_parameters  # noqa: B018

    @property
    def num_parameters(self) -> int:
        """The requested number of parameters; 0 if there is none."""
        if not self.params:
            return 0
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kMG]?)", self.params.strip())
        if not match or not float(match[1]):
            raise ConfigError(f"--params {self.params!r:.30} is not a number; write it like 500k or 2M")
        return round(float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]])

    def save(self, folder: Path) -> None:
        """Write all settings to the folder of the comparison."""
        write_file(folder / SETTINGS, tomli_w.dumps(self.model_dump()))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the settings from the folder of a comparison."""
        try:
            values = tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{folder / SETTINGS} cannot be read ({error}); choose another --out") from None
        return cls.parse(values, group="comparison")

    def check_unchanged(self, started: Self, folder: Path) -> None:
        """Raise an error if a comparison was started with other settings."""
        for name in type(self).model_fields:
            before, now = getattr(started, name), getattr(self, name)
            if before == now:
                continue
            if name == "fingerprint":
                raise CheckpointError(
                    f"{folder} holds a comparison on a different version of --corpus; choose another --out"
                )
            raise CheckpointError(
                f"{folder} holds a comparison with {name} = {_format(before)}, not {_format(now)}; repeat the same "
                "command to resume it, or choose another --out"
            )


def _format(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


@dataclass(frozen=True, kw_only=True)
class EvaluationBudget:
    """How much is evaluated. It grows with the training budget, so that evaluation does not dominate the time."""

    dev_characters: int
    scored_characters: int  # for likelihoods
    num_word_order_pairs: int
    num_pseudo_words: int
    num_queries: int  # of each retrieval dataset
    num_searched: int  # documents of a derived retrieval dataset
    examples: dict[str, int]  # by split of a labelled dataset
    finetuning_seconds: float | None  # of processor time, for all fine-tuning of a family; None: until convergence

    @classmethod
    def of(cls, settings: ComparisonConfig) -> Self:
        """The evaluation that fits a training budget."""
        seconds = settings.processor_seconds or _DEFAULT_SECONDS

        def scaled(per_second: float, least: int, most: int) -> int:
            return max(least, min(most, round(per_second * seconds)))

        return cls(
            dev_characters=scaled(500, 50_000, 400_000),
            scored_characters=scaled(150, 10_000, 200_000),
            num_word_order_pairs=scaled(1, 100, 500),
            num_pseudo_words=scaled(1 / 10, 5, 20),
            num_queries=scaled(1, 100, 300),
            num_searched=scaled(5, 300, 2000),
            examples={"train": scaled(20, 1000, 10_000), "dev": scaled(1, 100, 500), "test": scaled(3, 300, 2000)},
            finetuning_seconds=settings.finetuning_seconds,
        )
