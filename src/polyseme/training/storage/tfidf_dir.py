"""A directory of the TF-IDF baseline: config.json, model.safetensors, vocabulary.txt and labels.json."""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from polyseme.baselines.linear_model import LinearModel
from polyseme.baselines.tfidf import Tfidf, TfidfConfig
from polyseme.config import Config
from polyseme.errors import CheckpointError, ConfigError
from polyseme.system.atomic_io import atomic_file, write_file
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import read_regular
from polyseme.system.safetensors_io import read_tensors, write_tensors
from polyseme.tasks.config import LabelsConfig, TaskConfig
from polyseme.tasks.tfidf import TfidfTask, num_features, require_kind
from polyseme.training.finetuning import LABELS
from polyseme.training.recipes.finetune_recipe import LabelledDataConfig, parse_tasks
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, read_json, read_record

VOCABULARY = "vocabulary.txt"

_MODEL_TYPE: Literal["polyseme-tfidf"] = "polyseme-tfidf"
_MAX_VOCABULARY = 4_000_000_000  # bytes


class TfidfModelConfig(Config):
    """The config.json of a model."""

    model_type: Literal["polyseme-tfidf"] = _MODEL_TYPE
    features: TfidfConfig
    data: LabelledDataConfig
    seed: int = 0  # of the sample of training examples
    inverse_regularization: float = Field(0.0, ge=0)  # that was chosen; 0 before the model is fitted


def is_tfidf(folder: Path) -> bool:
    """Whether a directory holds a TF-IDF model."""
    return (folder / CONFIG).exists() and read_json(folder / CONFIG).get("model_type") == _MODEL_TYPE


def write_tfidf(folder: Path, task: TfidfTask, config: TfidfModelConfig) -> None:
    """Write a fitted task and its config."""
    folder.mkdir(parents=True, exist_ok=True)
    model = task.model
    arrays = {"weights": model.weights, "biases": model.biases, "classes": model.classes, "idf": task.features.idf}
    with atomic_file(folder / WEIGHTS) as partial:
        write_tensors(partial, {name: torch.from_numpy(array) for name, array in arrays.items()})
    write_file(folder / VOCABULARY, "".join(f"{term}\n" for term in task.features.terms))
    labels = {task.name: task.config.model_dump()}
    write_file(folder / LABELS, json.dumps(labels, indent=2, ensure_ascii=False) + "\n")
    write_file(folder / CONFIG, json.dumps(config.model_dump(), indent=2, ensure_ascii=False) + "\n")


def read_tfidf(folder: Path) -> TfidfTask:
    """Read a fitted task."""
    config = read_record(TfidfModelConfig, folder / CONFIG)
    name, task_config = _read_task(folder)
    with readable(folder / VOCABULARY, kind=CheckpointError):
        content = read_regular(folder / VOCABULARY, limit=_MAX_VOCABULARY)
    terms = content.decode("utf-8", errors="replace").split("\n")[:-1]
    arrays = {name: tensor.numpy() for name, tensor in read_tensors(folder / WEIGHTS).items()}
    if not _fit(arrays, terms, task_config):
        raise CheckpointError(f"{folder}: {WEIGHTS}, {VOCABULARY} and {LABELS} are not of one model; restore them")
    return TfidfTask(
        name=name,
        config=task_config,
        features=Tfidf(config.features, terms, arrays["idf"]),
        model=LinearModel(weights=arrays["weights"], biases=arrays["biases"], classes=arrays["classes"]),
        inverse_regularization=config.inverse_regularization,
    )


def _read_task(folder: Path) -> tuple[str, TaskConfig]:
    try:
        ((name, config),) = parse_tasks(read_json(folder / LABELS)).items()
        require_kind(config.kind)
    except (ConfigError, ValueError) as error:  # ValueError: several tasks, or none
        raise CheckpointError(f"{folder}: {LABELS}: {error}; restore the file that the run wrote") from None
    return name, config


def _fit(arrays: dict[str, Any], terms: list[str], config: TaskConfig) -> bool:
    """Whether the arrays have the shapes that the vocabulary and the labels imply, and finite values."""
    if arrays.keys() != {"weights", "biases", "classes", "idf"} or len(set(terms)) != len(terms):
        return False
    weights, biases, classes = (arrays[name] for name in ("weights", "biases", "classes"))
    num_labels = len(config.labels) if isinstance(config, LabelsConfig) else 2
    num_scores = len(classes) if len(classes) > 2 else 1
    return (
        arrays["idf"].shape == (len(terms),)
        and weights.shape == (num_scores, num_features(config.kind, len(terms)))
        and biases.shape == (num_scores,)
        and classes.ndim == 1
        and (config.kind == "similarity") == (not len(classes))
        and set(classes.tolist()) <= set(range(num_labels))
        and all(np.isfinite(array).all() for array in arrays.values())
    )
