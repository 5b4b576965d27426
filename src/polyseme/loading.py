"""Loading of models: directories of Polyseme and transformers, and files of word vectors."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self

from polyseme.config import did_you_mean
from polyseme.conversion.fasttext_bin import FastTextFile, is_fasttext, read_fasttext
from polyseme.conversion.registry import TOKENIZER_FILES, check_loadable
from polyseme.conversion.word_vector_files import WordListTokenizer, WordVectors, read_word_vectors
from polyseme.datasets.labelled_files import parse_examples
from polyseme.datasets.records import Example
from polyseme.errors import CheckpointError, ConfigError
from polyseme.families import build_objective
from polyseme.inference.capabilities import Capability
from polyseme.layers.linear import quantize
from polyseme.models.base import Encoder
from polyseme.objectives.joint import JointObjective
from polyseme.pretrained import Pretrained
from polyseme.static_embeddings.encoder import StaticEmbedding
from polyseme.system.hardware import keep_freed_memory
from polyseme.tasks import TASKS, FineTuningObjective, build_finetuning_objective
from polyseme.tasks.tfidf import FAMILY as TFIDF
from polyseme.tasks.tfidf import TfidfTask
from polyseme.tokenization.config import SpecialTokens
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.finetuning import FineTuningScores, read_labels
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe, read_recipe
from polyseme.training.recipes.presets import read_preset
from polyseme.training.recipes.recipe import RECIPE, Recipe, parse_objective
from polyseme.training.storage.history import read_history
from polyseme.training.storage.manifest import find_changes, verify_directory
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, ModelFiles, meta_device, open_model, read_record
from polyseme.training.storage.tfidf_dir import TfidfModelConfig, is_tfidf, read_tfidf

_WEIGHT_TYPES = ("float32", "int8")
# Stands in for a missing tokenizer, so that the heads load all the same.
_NO_TOKENIZER = SpecialTokens(pad=0, unknown=0, start=0, separator=0, mask=0, end=0)


class WordVectorModel(Pretrained):
    """A model from a file of word vectors; the encoder is built on first use: it copies the vectors."""

    vectors: WordVectors | FastTextFile

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the words of a file, and where their vectors are."""
        vectors: WordVectors | FastTextFile = read_fasttext(path) if is_fasttext(path) else read_word_vectors(path)
        model = cls.__new__(cls)
        fields = {"folder": path, "family": vectors.family, "objective": JointObjective({}), "recipe": None}
        vars(model).update(fields, tokenizer=WordListTokenizer(vectors.words), vectors=vectors)
        return model

    @cached_property
    def encoder(self) -> StaticEmbedding:
        return self.vectors.build_encoder()


class TfidfModel(Pretrained):
    """The TF-IDF baseline, fitted to a task: it predicts, and has neither encoder nor tokenizer."""

    capabilities = frozenset[Capability](("predict",))
    task: TfidfTask

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read a model directory."""
        model = cls.__new__(cls)
        fields = {"folder": folder, "family": TFIDF, "objective": JointObjective({}), "tokenizer": None, "recipe": None}
        vars(model).update(fields, task=read_tfidf(folder))
        return model

    @property
    def encoder(self) -> NoReturn:
        raise ConfigError(f"{self.folder} is a {TFIDF} model, which can only predict; use a pretrained model")

    def require_tokenizer(self) -> Tokenizer:
        return self.encoder  # an error

    @property
    def tasks(self) -> dict[str, Any]:
        return {self.task.name: self.task}

    def example_type(self, task: str | None = None) -> type[Example]:
        self._find_task(task)
        return TASKS[self.task.config.kind].Example

    def predict(self, rows: Sequence[Any], *, task: str | None = None) -> list[Any]:
        return self.task.predict(parse_examples(self.example_type(task), rows))


def load(path: str | Path, *, weights: str = "float32", verify: bool = True) -> Pretrained:
    """Load a model.

    Args:
        path: A model directory of Polyseme or transformers, a file of word vectors (word2vec, GloVe, fastText), or
            "hf:NAME" for a model of the Hugging Face Hub.
        weights: "float32"; or "int8" for quantized matrices, which take a quarter of the memory and generate text three
            times as fast.
        verify: Whether to compare the checksums of the files with the manifest of the directory, not only their sizes.
            A checksum is computed once per file.

    Returns:
        The model with all its verbs.

    Example:
        >>> import polyseme as ps
        >>> model = ps.load("runs/bert")
        >>> vectors = model.embed(["a sentence", "another one"])
    """
    keep_freed_memory()
    if weights not in _WEIGHT_TYPES:
        raise ConfigError(f"{weights!r} is not a weight type; choose {' or '.join(_WEIGHT_TYPES)}")
    folder = _fetch(str(path)[3:]) if str(path).startswith("hf:") else Path(path)
    if not folder.exists():
        siblings = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        hint = did_you_mean(folder.name, siblings)
        raise CheckpointError(f"{folder} does not exist{hint or '; check the path'}")
    model = WordVectorModel.open(folder) if folder.is_file() else _open_directory(folder, verify)
    if weights == "int8":
        if model.encoder.uses_characters or not model.encoder.has_vectors:
            raise ConfigError(f"{model.family} models cannot be quantized to int8; load with float32 weights")
        quantize(model.encoder)
    return model


def _open_directory(folder: Path, verify: bool) -> Pretrained:
    verify_directory(folder, hashes=verify)
    if is_tfidf(folder):
        return TfidfModel.open(folder)
    recipe = read_recipe(folder) if (folder / RECIPE).exists() else None
    if recipe and not (folder / WEIGHTS).exists():
        raise CheckpointError(f"{folder} is an unfinished run; resume it with polyseme {recipe.started_by} --resume")
    check_loadable(folder)
    files = open_model(folder, family=recipe.family if recipe else None)
    tokenizer = Tokenizer.load(folder) if any((folder / name).exists() for name in TOKENIZER_FILES) else None
    if tokenizer and max(tokenizer.backend.get_vocab().values()) >= files.encoder.config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has more tokens than the {files.encoder.config.vocab_size:,} rows of the "
            "embedding; restore the tokenizer files of this model"
        )
    with meta_device():
        heads = _heads(folder, recipe, files, tokenizer.specials if tokenizer else _NO_TOKENIZER)
    encoder, found = files.load(heads)
    complete = {
        name: part
        for name, part in zip(heads.names, heads.parts, strict=True)
        if all(f"{name}.{weight}" in found for weight in part.state_dict())
    }
    objective = heads.eval() if isinstance(heads, FineTuningObjective) else JointObjective(complete).eval()
    return Pretrained(
        folder=folder,
        family=files.family,
        encoder=encoder.eval(),
        objective=objective,
        tokenizer=tokenizer,
        recipe=recipe,
    )


def _heads(
    folder: Path, recipe: Recipe | FineTuningRecipe | None, files: ModelFiles, specials: SpecialTokens
) -> JointObjective:
    if isinstance(recipe, FineTuningRecipe):
        return build_finetuning_objective(read_labels(folder, recipe), recipe.finetuning, files.encoder)
    if recipe:
        return build_objective(recipe.objective, files.encoder, specials)
    config = parse_objective(read_preset(files.family, "base")["objective"])
    return build_objective(config, files.encoder, specials)


def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = "config.json model.safetensors tokenizer*.json vocab.* merges.txt spiece.model special_tokens_map.json"
    try:
        return Path(snapshot_download(name, allow_patterns=patterns.split()))
    except Exception as error:  # the network and the hub raise many kinds
        raise CheckpointError(
            f"cannot download {name} from the Hugging Face Hub ({type(error).__name__}); pass a local directory"
        ) from error


def describe(folder: Path, *, verify: bool = True) -> dict[str, Any]:
    """Describe a model directory, a run directory or a file of word vectors without loading weights.

    With `verify`, a directory whose files differ from its manifest is an error; `changed` lists them otherwise.
    """
    if folder.is_file():
        model = load(folder)
        return _describe_encoder(folder, model.family, model.encoder)
    if verify:
        verify_directory(folder)
    if is_tfidf(folder):
        return _describe_tfidf(folder)
    recipe = read_recipe(folder) if (folder / RECIPE).exists() else None
    if recipe and not (folder / WEIGHTS).exists():
        return {"folder": str(folder), "family": recipe.family, "state": "unfinished", "recipe": recipe.dump()}
    files = open_model(folder, family=recipe.family if recipe else None)
    facts = _describe_encoder(folder, files.family, files.encoder) | {
        "tensors": len(files.shapes),
        "transformers": files.encoder.hf_mapping.model_type if files.encoder.hf_mapping else None,
        "changed": list(find_changes(folder)),
    }
    if recipe:
        facts |= {"budget": recipe.training.budget, "tokenizer": recipe.tokenizer.model_dump()}
    if isinstance(recipe, Recipe):
        facts |= {"corpus": recipe.data.corpus, "objective": recipe.objective.model_dump()}
    if isinstance(recipe, FineTuningRecipe):
        facts |= {"train": recipe.data.train, "base": recipe.training.base_model}
        facts |= {
            "finetuning": recipe.finetuning.model_dump(),
            "tasks": {name: task.model_dump(mode="json") for name, task in read_labels(folder, recipe).items()},
        }
    if rows := read_history(folder):
        last, dev = rows[-1], next((row["dev"] for row in reversed(rows) if "dev" in row), None)
        facts |= {"steps": last["step"], "tokens": last["tokens"], "seconds": last["seconds"], "dev": dev}
    if isinstance(recipe, FineTuningRecipe):
        scores = FineTuningScores.read(folder)
        facts |= {"dev": scores.dev, "layers": scores.layers}
    return facts


def _describe_tfidf(folder: Path) -> dict[str, Any]:
    config, task = read_record(TfidfModelConfig, folder / CONFIG), read_tfidf(folder)
    return {
        "folder": str(folder),
        "family": TFIDF,
        "state": "finished",
        "context": "none",
        "parameters": task.model.weights.size + task.model.biases.size,
        "terms": len(task.features.terms),
        "changed": list(find_changes(folder)),
        "features": config.features.model_dump(),
        "inverse_regularization": config.inverse_regularization,
        "train": config.data.train,
        "tasks": {task.name: task.config.model_dump(mode="json")},
        "dev": FineTuningScores.read(folder).dev,
    }


def _describe_encoder(path: Path, family: str, encoder: Encoder) -> dict[str, Any]:
    return {
        "folder": str(path),
        "family": family,
        "state": "finished",
        "context": encoder.context,
        "parameters": sum(weight.numel() for weight in encoder.parameters()),
        "model": encoder.config.model_dump(),
    }
