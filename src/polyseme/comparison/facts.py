"""What there is to say of a comparison and of its models before they are asked anything."""

from __future__ import annotations

import datetime
import math
import os
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from polyseme.comparison.labelled import Task
from polyseme.comparison.measuring import Questions, disk_bytes, embedding_seconds, scale_of
from polyseme.comparison.results import Row
from polyseme.comparison.settings import ComparisonConfig
from polyseme.comparison.splitting import Split, count_sides, open_text, position
from polyseme.errors import PolysemeError
from polyseme.evaluate.likelihood import case_of
from polyseme.machine import available_memory, num_cores, processor
from polyseme.pretrained import Pretrained
from polyseme.scoring import spell_unknown
from polyseme.text.languages import split_name
from polyseme.train.recipe import Recipe
from polyseme.train.run import read_history

_SOME = 200_000  # characters by which the tokens of a text are estimated


def comparison_row(
    settings: ComparisonConfig, split: Split | None, questions: Questions, tasks: Sequence[Task], command: str
) -> Row:
    """The row of the whole."""
    sides = count_sides(split) if split else {}
    counts = {
        what: {side: getattr(found, what) for side, found in sides.items()}
        for what in ("documents", "characters", "words")
    }
    return {
        "row": "comparison",
        "corpus": " ".join(_called(path) for path in settings.corpus),
        **{what: found for what, found in counts.items() if found},
        "budget": settings.budget if settings.families else None,
        "processor_seconds": settings.processor_seconds if settings.families else None,
        "cores": settings.cores,
        "seeds": settings.seeds,
        "families": list(settings.names),
        "scored_characters": questions.num_characters,
        "scored_sha256": questions.sha256,
        "machine": {"processor": processor(), "threads": num_cores(), "memory_bytes": _memory()},
        "versions": {
            "polyseme": version("polyseme"),
            "torch": version("torch"),
            "python": platform.python_version(),
        },
        "date": datetime.date.today().isoformat(),
        "command": command,
        "tasks": [task.describe() for task in tasks],
    }


def family_row(name: str, model: Pretrained, folder: Path, questions: Questions, *, cores: int) -> Row:
    """The row of a model, with what its history tells where we trained it."""
    row: Row = {
        "row": "family",
        "family": name,
        "kind": model.family,
        "context": model.encoder.context,
        "parameters": sum(weight.numel() for weight in model.encoder.parameters()),
        "disk_bytes": disk_bytes(folder),
        "embedding_seconds": embedding_seconds(model, questions.sentences, threads=cores),
    }
    rows = read_history(folder) if folder.is_dir() else []
    if rows and isinstance(model.recipe, Recipe):
        last = rows[-1]
        row |= {
            "steps": last["step"],
            "tokens": last["tokens"],
            "tokens_per_second": round(last["tokens"] / max(1e-9, last["seconds"])),
            "processor_seconds": last.get("processor_seconds"),
            "seconds": last["seconds"],
            "ends": "by itself" if model.recipe.objective.whole_text else "budget",
        }
    return row


def count_tokens(model: Pretrained, split: Split) -> int:
    """About how long the text to learn from is in the tokens of a model."""
    assert model.tokenizer is not None
    characters, tokens, whole = 0, 0, 0
    for _, document in split.documents("train"):
        if characters < _SOME:
            tokens += len(model.tokenizer.encode(document, specials=False).ids)
            characters += len(document)
        whole += len(document)
    return round(tokens / max(1, characters) * whole)


def curve(name: str, model: Pretrained, folder: Path, split: Split) -> list[Row]:
    """The row of what looks at the dev text found on the way, in bits a character, if there were any.

    As on the test text, words that a vocabulary lacks are spelt. A masked model is asked there for 15 of 100 tokens at
    a time: a scale of its own, though in the same unit.
    """
    scale = scale_of(model)
    looks = [row for row in read_history(folder) if row.get("dev")]
    if scale is None or not looks or model.tokenizer is None:
        return []
    texts = [document for _, document in split.documents("dev")]
    bit = math.log(2) * max(1, sum(map(len, texts)))  # nats of the whole that make one for each character
    tokens = sum(len(ids) for ids in model.tokenizer.encode_ids(texts))
    spelling = spell_unknown(model.tokenizer, texts) / bit
    points = []
    for row in looks:
        dev = row["dev"]
        bits = dev["masked"] * tokens / bit if scale == "masked" else dev.get("bits_per_character")
        if bits is not None:
            point = {"processor_seconds": row.get("processor_seconds", row["seconds"]), "tokens": row["tokens"]}
            points.append({**point, "bits_per_character": bits + spelling, "scale": scale})
    return [{"row": "curve", "family": name, "name": f"dev text{case_of(model.tokenizer)}", "points": points}]


def overlap(model: Pretrained, settings: ComparisonConfig) -> float | None:
    """The share of the documents that a model has learnt from, as far as its recipe tells."""
    if not isinstance(model.recipe, Recipe) or model.recipe.objective.uses_pairs:
        return None
    try:
        learnt = open_text(model.recipe.data.corpus, model.recipe.data.column)
        known = {position(document) for corpus in learnt.values() for document in corpus}
    except PolysemeError:
        return None
    texts = open_text(settings.corpus, settings.column)
    here = [position(document) in known for corpus in texts.values() for document in corpus]
    return sum(here) / max(1, len(here))


def command_of(settings: ComparisonConfig, out: Path) -> str:
    """The command line of some settings, without those that are as they would be anyway."""
    usual = ComparisonConfig(corpus=settings.corpus, families=settings.families, cores=settings.cores)
    options = [*settings.models, *(part for path in settings.corpus for part in ("--corpus", path))]
    if settings.families:
        options += ["--families", ",".join(settings.families), "--budget", settings.budget]
    for name in ("column", "size", "params", "recipe", "tasks", "seeds", "seed", "parallel"):
        if getattr(settings, name) != getattr(usual, name):
            options += [f"--{name}", str(getattr(settings, name))]
    if settings.labels != usual.labels:
        options += ["--labels", ",".join(str(number or "all") for number in settings.labels)]
    return shlex.join(["polyseme", "compare", *options, "--out", str(out)])


def _called(path: str) -> str:
    language, alone = split_name(path)
    return f"{language}={Path(alone).name}" if language else Path(alone).name


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return available_memory()
