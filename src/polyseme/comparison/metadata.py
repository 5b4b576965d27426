"""Rows about a comparison and its families: data, settings, costs and learning curves."""

import datetime
import math
import os
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from polyseme.comparison.config import ComparisonConfig
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.intrinsic import disk_bytes, embedding_seconds
from polyseme.comparison.measure.items import EvaluationItems
from polyseme.comparison.rows import Row
from polyseme.corpora.corpus import split_language_prefix
from polyseme.datasets.splits import SplitCorpus, count_splits, hash_fraction, open_by_language
from polyseme.errors import PolysemeError
from polyseme.evaluation.perplexity import case_suffix
from polyseme.inference.capabilities import likelihood_scale
from polyseme.inference.scores import oov_spelling_nats
from polyseme.pretrained import Pretrained
from polyseme.system.hardware import num_cores, processor_name
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history, tokens_per_second

_SAMPLE_CHARACTERS = 200_000  # to estimate the number of tokens of a text


def comparison_row(
    settings: ComparisonConfig,
    split: SplitCorpus | None,
    items: EvaluationItems,
    datasets: Sequence[LabelledDataset],
    out: Path,
) -> Row:
    """The row that describes the comparison."""
    sizes = count_splits(split) if split else {}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    units = ("documents", "characters", "words") if sizes else ()
    return {
        "row": "comparison",
        "corpus": " ".join(_file_name(path) for path in settings.corpus),
        **{unit: {name: getattr(size, unit) for name, size in sizes.items()} for unit in units},
        "budget": settings.budget if settings.families else None,
        "processor_seconds": settings.processor_seconds if settings.families else None,
        "cores": settings.cores,
        "trainings": settings.trainings if settings.families else None,
        "seeds": settings.seeds,
        "families": list(settings.names),
        "scored_characters": items.num_characters,
        "scored_sha256": items.sha256,
        "machine": {"processor": processor_name(), "threads": num_cores(), "memory_bytes": memory},
        "versions": {"polyseme": version("polyseme"), "torch": version("torch"), "python": platform.python_version()},
        "date": datetime.date.today().isoformat(),
        "command": _build_command(settings, out),
        "tasks": [dataset.describe() for dataset in datasets],
    }


def family_row(model: Pretrained, folder: Path, items: EvaluationItems, *, cores: int) -> Row:
    """The row that describes a model and, if there is a history, its training."""
    parameters = sum(weight.numel() for weight in model.encoder.parameters())
    row: Row = {
        "row": "family",
        "model_family": model.family,
        "context": model.encoder.context,
        "parameters": parameters if model.encoder.has_vectors else None,  # n-grams are not parameters
        "disk_bytes": disk_bytes(folder),
        "embedding_seconds": embedding_seconds(model, items.sentences, threads=cores),
    }
    history = read_history(folder) if folder.is_dir() else []
    if history and isinstance(model.recipe, Recipe):
        last = history[-1]
        row |= {
            "steps": last["step"],
            "tokens": last["tokens"],
            "tokens_per_second": tokens_per_second(last["tokens"], last["seconds"]) or None,
            "processor_seconds": last.get("processor_seconds"),
            "seconds": last["seconds"],
            "stopped_by": "completion" if model.recipe.objective.full_batch else "budget",
        }
    return row


def count_tokens(model: Pretrained, split: SplitCorpus) -> int:
    """An estimate of the training text's length in tokens of a model."""
    assert model.tokenizer is not None
    sampled, tokens, total = 0, 0, 0
    for _, document in split.documents("train"):
        if sampled < _SAMPLE_CHARACTERS:
            tokens += len(model.tokenizer.encode(document, specials=False).ids)
            sampled += len(document)
        total += len(document)
    return round(tokens / max(1, sampled) * total)


def learning_curve_rows(model: Pretrained, folder: Path, split: SplitCorpus) -> list[Row]:
    """The dev losses of a training run as bits per character, if there are any.

    As on the test text, the cost of spelling OOV words is included. For a masked language model, it is the loss with
    15 % of the tokens masked at a time: not the pseudo-likelihood of the test text, though in the same unit.
    """
    scale = likelihood_scale(model.objective)
    validations = [row for row in read_history(folder) if row.get("dev")]
    if scale is None or not validations or model.tokenizer is None:
        return []
    texts = [document for _, document in split.documents("dev")]
    nats_per_bit = math.log(2) * max(1, sum(map(len, texts)))  # one bit per character, for the whole text
    tokens = sum(len(ids) for ids in model.tokenizer.encode_ids(texts))
    spelling = oov_spelling_nats(model.tokenizer, texts) / nats_per_bit
    points = []
    for row in validations:
        dev = row["dev"]
        bits = dev["masked_lm"] * tokens / nats_per_bit if scale == "masked" else dev.get("bits_per_character")
        if bits is not None:
            point = {"processor_seconds": row.get("processor_seconds", row["seconds"]), "tokens": row["tokens"]}
            points.append({**point, "bits_per_character": bits + spelling, "scale": scale})
    text = f"dev text{case_suffix(model.tokenizer)}"
    return [{"row": "learning_curve", "name": text, "points": points}]


def training_overlap(model: Pretrained, settings: ComparisonConfig) -> float | None:
    """The share of the evaluated documents that a model was trained on, if its recipe and its corpus are available."""
    if not isinstance(model.recipe, Recipe) or model.recipe.objective.uses_parallel_text:
        return None
    try:
        corpora = open_by_language(model.recipe.data.corpus, model.recipe.data.column)
        seen = {hash_fraction(document) for corpus in corpora.values() for document in corpus}
    except PolysemeError:
        return None
    evaluated = open_by_language(settings.corpus, settings.column)
    in_training = [hash_fraction(document) in seen for corpus in evaluated.values() for document in corpus]
    return sum(in_training) / max(1, len(in_training))


def _build_command(settings: ComparisonConfig, out: Path) -> str:
    """The command line of a comparison, without options at their defaults."""
    defaults = ComparisonConfig(corpus=settings.corpus, families=settings.families, cores=settings.cores)
    options = [*settings.models, *(part for path in settings.corpus for part in ("--corpus", path))]
    if settings.families:
        options += ["--families", ",".join(settings.families), "--budget", settings.budget]
    for name in ("column", "size", "params", "recipe", "tasks", "trainings", "seeds", "seed", "parallel"):
        if getattr(settings, name) != getattr(defaults, name):
            options += [f"--{name}", str(getattr(settings, name))]
    if settings.finetune_budget:
        options += ["--finetune-budget", settings.finetune_budget]
    if settings.labels != defaults.labels:
        options += ["--labels", ",".join(str(number or "all") for number in settings.labels)]
    return shlex.join(["polyseme", "compare", *options, "--out", str(out)])


def _file_name(path: str) -> str:
    language, name = split_language_prefix(path)
    return f"{language}={Path(name).name}" if language else Path(name).name
