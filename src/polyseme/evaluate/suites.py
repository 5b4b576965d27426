"""The suites by name, and what they may be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from polyseme.config import Config, nearest
from polyseme.errors import ConfigError
from polyseme.evaluate.figures import Figure
from polyseme.evaluate.likelihood import read_documents, score_documents
from polyseme.evaluate.minimal_pairs import read_pairs, score_pairs
from polyseme.evaluate.prompts import Writer, score_prompts
from polyseme.evaluate.senses import score_senses
from polyseme.evaluate.translation import score_translations
from polyseme.evaluate.word_sets import read_sets, score_words
from polyseme.inside.encoding import Model as Reads
from polyseme.inside.neighbours import Space


class SuiteConfig(Config):
    """What suites may be told; each heeds what concerns it."""

    method: Literal["3cosadd", "3cosmul"] = "3cosadd"  # how analogies are completed
    most: int = Field(0, ge=0)  # items of each set, drawn by the seed; 0: all
    shots: int = Field(0, ge=0)  # prompts: examples that come before a question
    examples: str = ""  # prompts: the file that they are drawn from; else the same as the questions
    language: Literal["auto", "en", "zh"] = "auto"  # prompts: of the words around a question; auto: as the file
    seed: int = Field(0, ge=0)


class Model(Reads, Writer, Protocol):
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


def _likelihood(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    model.score([])
    batches = read_documents(data, most=told.most, seed=told.seed)
    scores = [score for documents in batches for score in model.score(documents)]
    return score_documents(data.stem, scores, model.tokenizer)


def _minimal_pairs(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    model.score([])
    return score_pairs(data.stem, read_pairs(data), model.score, most=told.most, seed=told.seed)


def _prompts(model: Model, data: Path, told: SuiteConfig) -> list[Figure]:
    settings = told.model_dump(include={"shots", "examples", "most", "seed", "language"})
    return score_prompts(model, data, **settings)


SUITES: dict[str, Callable[[Model, Path, SuiteConfig], list[Figure]]] = {
    "likelihood": _likelihood,
    "words": _words,
    "senses": _senses,
    "minimal-pairs": _minimal_pairs,
    "prompts": _prompts,
    "translate": _translate,
}


def run_suite(model: Model, data: Path, suite: str, told: SuiteConfig) -> list[Figure]:
    """What a suite finds of a model on some data."""
    if suite not in SUITES:
        raise ConfigError(f"{suite!r} is no suite{nearest(suite, SUITES)}")
    return SUITES[suite](model, data, told)
