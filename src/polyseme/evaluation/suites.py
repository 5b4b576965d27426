"""The evaluation suites by name, and their options."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from polyseme.config import Config, suggest_name
from polyseme.errors import ConfigError
from polyseme.evaluation.bleu import score_translations
from polyseme.evaluation.minimal_pairs import read_pairs, score_pairs
from polyseme.evaluation.perplexity import read_documents, score_documents
from polyseme.evaluation.prompting.few_shot import score_prompts
from polyseme.evaluation.results import MetricResult
from polyseme.evaluation.retrieval import evaluate_retrieval, read_retrieval_sets
from polyseme.evaluation.word_senses import score_senses
from polyseme.evaluation.word_similarity import read_sets, score_words
from polyseme.inference.model import LoadedModel


class SuiteConfig(Config):
    """Options of all suites; each suite uses those that concern it."""

    method: Literal["3cosadd", "3cosmul"] = "3cosadd"  # how analogies are solved
    most: int = Field(0, ge=0)  # items sampled from each test set; 0: all
    shots: int = Field(0, ge=0)  # prompts: solved examples before each question
    examples: str = ""  # prompts: file with the solved examples; default: the evaluated file
    language: Literal["auto", "en", "zh"] = "auto"  # prompts: language of the templates; auto: detected
    split: Literal["train", "dev", "test"] = "test"  # retrieval: whose queries are evaluated
    seed: int = Field(0, ge=0)


def _translation(model: LoadedModel, data: Path, config: SuiteConfig) -> list[MetricResult]:
    model.translate([])  # fails early for a model that cannot translate
    return [score_translations(data, model.translate)]


def _likelihood(model: LoadedModel, data: Path, config: SuiteConfig) -> list[MetricResult]:
    model.score([])
    batches = read_documents(data, most=config.most, seed=config.seed)
    scores = [score for documents in batches for score in model.score(documents)]
    return score_documents(data.stem, scores, model.tokenizer)


def _minimal_pairs(model: LoadedModel, data: Path, config: SuiteConfig) -> list[MetricResult]:
    model.score([])
    return score_pairs(data.stem, read_pairs(data), model.score, most=config.most, seed=config.seed)


def _prompts(model: LoadedModel, data: Path, config: SuiteConfig) -> list[MetricResult]:
    options = config.model_dump(include={"shots", "examples", "most", "seed", "language"})
    return score_prompts(model, data, **options)


def _retrieval(model: LoadedModel, data: Path, config: SuiteConfig) -> list[MetricResult]:
    sets = read_retrieval_sets(data, split=config.split, most=config.most, seed=config.seed)
    return [result for one in sets for result in evaluate_retrieval(model.embed, one)]


SUITES: dict[str, Callable[[LoadedModel, Path, SuiteConfig], list[MetricResult]]] = {
    "likelihood": _likelihood,
    "words": lambda model, data, config: score_words(model.space, read_sets(data), method=config.method),
    "senses": lambda model, data, config: score_senses(model, data, most=config.most, seed=config.seed),
    "minimal-pairs": _minimal_pairs,
    "retrieval": _retrieval,
    "prompts": _prompts,
    "translation": _translation,
}


def run_suite(model: LoadedModel, data: Path, suite: str, config: SuiteConfig) -> list[MetricResult]:
    """Evaluate a model with a suite."""
    if suite not in SUITES:
        raise ConfigError(f"unknown suite {suite!r}{suggest_name(suite, SUITES)}")
    return SUITES[suite](model, data, config)
