"""The suites by name, and what they may be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from polyseme.config import Config, nearest
from polyseme.errors import ConfigError
from polyseme.evaluate.figures import Figure
from polyseme.evaluate.senses import score_senses
from polyseme.evaluate.translation import score_translations
from polyseme.evaluate.word_sets import read_sets, score_words
from polyseme.inside.neighbours import Space
from polyseme.inside.senses import Model as Reads


class SuiteConfig(Config):
    """What suites may be told; each heeds what concerns it."""

    method: Literal["3cosadd", "3cosmul"] = "3cosadd"  # how analogies are completed
    most: int = Field(0, ge=0)  # items of each set, drawn by the seed; 0: all
    shots: int = Field(0, ge=0)  # prompts: examples that come before a question
    seed: int = Field(0, ge=0)


class Model(Reads, Protocol):
    """What suites ask: some verbs of `Pretrained`, which stands below in the line of packages."""

    @property
    def space(self) -> Space: ...

    def translate(self, texts: Sequence[str]) -> list[str]: ...


def _words(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    return score_words(model.space, read_sets(data), method=told.method)


def _translate(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    model.translate([])  # which says at once if it cannot
    return [score_translations(data, model.translate)]


def _senses(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    return score_senses(model, data, most=told.most, seed=told.seed)


SUITES: dict[str, Callable[[Model, Path, SuiteConfig], list[Figure]]] = {
    "words": _words,
    "senses": _senses,
    "translate": _translate,
}


def run_suite(model: Model, data: Path, suite: str, told: SuiteConfig) -> list[Figure]:
    """What a suite finds of a model on some data."""
    if suite not in SUITES:
        raise ConfigError(f"{suite!r} is no suite{nearest(suite, SUITES)}")
    return SUITES[suite](model, data, told)
