"""From a directory or a file to a model: ours, one of the transformers library, or word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch

from polyseme.config import nearest
from polyseme.errors import CheckpointError, ConfigError
from polyseme.interchange.directories import TOKENIZER_FILES, check_loadable
from polyseme.interchange.word_vectors import Words, read_vectors
from polyseme.layers.linear import quantize
from polyseme.models.directory import (
    WEIGHTS,
    ModelFiles,
    changed_files,
    open_model,
    read_json,
    weightless,
)
from polyseme.models.vectors import Vectors, VectorsConfig
from polyseme.objectives import OBJECTIVES, Together, build_objective
from polyseme.pretrained import Pretrained
from polyseme.tasks import Tuning, build_tuning
from polyseme.text.tokenizer import Specials, Tokenizer
from polyseme.train.finetuning import LABELS, SCORES
from polyseme.train.recipe import RECIPE, Recipe, read_preset
from polyseme.train.run import read_history
from polyseme.train.tuning_recipe import TuningRecipe, read_recipe, read_tasks

_WEIGHTS = ("float32", "int8")
_NO_TEXT = Specials(pad=0, unknown=0, start=0, separator=0, mask=0, end=0)  # heads can be read without a tokenizer


class VectorFile(Pretrained):
    """A file of word vectors, which become an encoder when it is first asked for: a million take a second to copy."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Look through a file."""
        given = read_vectors(path)
        model = cls.__new__(cls)
        tokenizer = Words(given.words)
        vars(model).update(
            folder=path, family=given.family, objective=Together({}), tokenizer=tokenizer, recipe=None, given=given
        )
        return model

    def __getattr__(self, name: str) -> Any:
        if name != "encoder":
            raise AttributeError(f"a model has no attribute {name!r}")
        given = vars(self)["given"]
        with weightless():
            encoder = Vectors(VectorsConfig(vocab_size=len(given.words), width=given.width))
        encoder.load_state_dict({"tokens.weight": torch.from_numpy(given.read())}, assign=True)
        return vars(self).setdefault(name, encoder.eval())


def load(path: str | Path, *, weights: str = "float32") -> Pretrained:
    """Open a model directory, ours or one of the transformers library, or a file of word vectors.

    `hf:name` takes a directory from the hub.
    With `weights` "int8" the matrices are kept in bytes: a quarter of the memory, and three times the speed of writing.
    """
    if weights not in _WEIGHTS:
        raise ConfigError(f"{weights!r} is no way to keep weights; say {' or '.join(_WEIGHTS)}")
    folder = _fetch(str(path)[3:]) if str(path).startswith("hf:") else Path(path)
    if not folder.exists():
        siblings = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        hint = nearest(folder.name, siblings).split("; there are")[0]
        raise CheckpointError(f"{folder} does not exist{hint or '; give the directory of a model or run'}")
    model = VectorFile.open(folder) if folder.is_file() else _open_directory(folder)
    if weights == "int8":
        if model.encoder.reads_letters:
            raise ConfigError(f"the weights of an {model.family} cannot be kept in bytes; load it with float32 weights")
        quantize(model.encoder)
    return model


def _open_directory(folder: Path) -> Pretrained:
    recipe = read_recipe(folder) if (folder / RECIPE).exists() else None
    if recipe and not (folder / WEIGHTS).exists():
        verb = "finetune" if isinstance(recipe, TuningRecipe) else "adapt" if recipe.plan.base else "pretrain"
        raise CheckpointError(f"{folder} holds a run that has not ended; go on with it by polyseme {verb} --resume")
    check_loadable(folder)
    files = open_model(folder, family=recipe.family if recipe else None)
    tokenizer = Tokenizer.load(folder) if any((folder / name).exists() for name in TOKENIZER_FILES) else None
    if tokenizer and max(tokenizer.backend.get_vocab().values()) >= files.encoder.config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has more tokens than the model, which has {files.encoder.config.vocab_size:,}; "
            "the files do not belong together"
        )
    with weightless():
        heads = _heads(folder, recipe, files, tokenizer.specials if tokenizer else _NO_TEXT)
    encoder, found = files.load(heads)
    whole = {
        name: part
        for name, part in zip(heads.names, heads.parts, strict=True)
        if all(f"{name}.{weight}" in found for weight in part.state_dict())
    }
    objective = heads.eval() if isinstance(heads, Tuning) else Together(whole).eval()
    return Pretrained(
        folder=folder,
        family=files.family,
        encoder=encoder.eval(),
        objective=objective,
        tokenizer=tokenizer,
        recipe=recipe,
    )


def _heads(folder: Path, recipe: Recipe | TuningRecipe | None, files: ModelFiles, specials: Specials) -> Together:
    if isinstance(recipe, TuningRecipe):
        return build_tuning(read_tasks(read_json(folder / LABELS)), recipe.tuning, files.encoder)
    settings = recipe.objective if recipe else _published_objective(files.family)
    return build_objective(settings, files.encoder, specials)


def _published_objective(family: str) -> Any:
    settings = read_preset(family, "base")["objective"]
    return OBJECTIVES[settings["kind"]][0].parse(settings, group="objective")


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [
        "config.json",
        "model.safetensors",
        "tokenizer*.json",
        "vocab.*",
        "merges.txt",
        "spiece.model",
        "special_tokens_map.json",
    ]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # whatever the network and the hub come up with
        raise CheckpointError(
            f"{name} cannot be had from the hub ({type(error).__name__}); give a local directory"
        ) from error


def describe(folder: Path) -> dict[str, Any]:
    """What a model or run directory says of itself, read without its weights; or a file of word vectors."""
    if folder.is_file():
        model = load(folder)
        return {
            "folder": str(folder),
            "family": model.family,
            "state": "whole",
            "context": model.encoder.context,
            "parameters": sum(weight.numel() for weight in model.encoder.parameters()),
            "model": model.encoder.config.model_dump(),
        }
    recipe = read_recipe(folder) if (folder / RECIPE).exists() else None
    if recipe and not (folder / WEIGHTS).exists():
        return {"folder": str(folder), "family": recipe.family, "state": "unfinished", "recipe": recipe.dump()}
    files = open_model(folder, family=recipe.family if recipe else None)
    facts: dict[str, Any] = {
        "folder": str(folder),
        "family": files.family,
        "state": "whole",
        "context": files.encoder.context,
        "parameters": sum(weight.numel() for weight in files.encoder.parameters()),
        "tensors": len(files.shapes),
        "model": files.encoder.config.model_dump(),
        "transformers": files.encoder.foreign.model_type if files.encoder.foreign else None,
        "changed": changed_files(folder),
    }
    rows = read_history(folder)
    if recipe:
        facts |= {"budget": recipe.plan.budget, "tokenizer": recipe.tokenizer.model_dump()}
    if isinstance(recipe, Recipe):
        facts |= {"corpus": recipe.data.corpus, "objective": recipe.objective.model_dump()}
    if isinstance(recipe, TuningRecipe):
        facts |= {"train": recipe.data.train, "base": recipe.plan.base, "tuning": recipe.tuning.model_dump()}
        facts["tasks"] = read_json(folder / LABELS)
    if rows:
        facts |= {"steps": rows[-1]["step"], "tokens": rows[-1]["tokens"], "seconds": rows[-1]["seconds"]}
        facts["dev"] = next((row["dev"] for row in reversed(rows) if "dev" in row), None)
    if isinstance(recipe, TuningRecipe):
        kept = read_json(folder / SCORES)
        facts |= {"dev": kept["dev"], "layers": kept.get("layers")}
    return facts
