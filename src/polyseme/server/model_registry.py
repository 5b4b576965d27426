"""The served models: loaded once, named by their directories.

A directory that cannot be loaded is reported and does not affect the others. Directories are checked again every few
seconds, so that a run which ends while it is served becomes a model.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from polyseme.errors import ConfigError, PolysemeError
from polyseme.layers.linear import Int8Matrix
from polyseme.loading import load
from polyseme.pretrained import Pretrained
from polyseme.server.errors import ApiError
from polyseme.server.schemas.resources import ModelEntry, ModelInfo
from polyseme.system.formatting import shortest_names
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import read_regular
from polyseme.tasks import TASKS
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe
from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.model_dir import WEIGHTS
from polyseme.training.storage.run_dir import LOCK

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 5.0  # between checks of the directories
_MAX_LOCK_BYTES = 20
_TRAINING = "it is being trained, and is served when the training ends"
_ABSOLUTE_PATH = re.compile(r"(?<![\w.~/-])/(?:[^\s/;:,()'\"]+/)+")  # the folders before a file name
# Endpoints by the capability of the model that they need, in the order in which they are listed.
_ENDPOINTS = {
    "embeddings": "embed",
    "similarity": "embed",
    "completions": "generate",
    "fill": "fill",
    "score": "score",
    "translate": "translate",
    "choose": "generate",
    "neighbours": "neighbours",
    "analogy": "neighbours",
    "attention": "attention",
    "senses": "senses",
}


@dataclass(kw_only=True)
class ServedModel:
    """A directory, and its model once it is loaded."""

    name: str
    folder: Path
    loaded: Pretrained | None = None
    problem: str = ""  # why it is not loaded, or what has happened to its directory
    created: float = field(default_factory=time.time)
    version: tuple[int, ...] = ()  # of the weights when loading was last tried

    @property
    def model(self) -> Pretrained:
        assert self.loaded is not None
        return self.loaded

    @property
    def directory(self) -> str:
        """Its directory as clients see it: relative to the working directory, or only the name."""
        try:
            return str(self.folder.relative_to(Path.cwd()))
        except (ValueError, OSError):  # elsewhere, or the working directory was deleted
            return self.name

    @property
    def public_problem(self) -> str:
        """Its problem without absolute paths."""
        return _ABSOLUTE_PATH.sub("", self.problem.replace(str(self.folder), self.directory))

    @property
    def is_run(self) -> bool:
        return has_file(self.folder, HISTORY) or has_file(self.folder, RECIPE)

    @cached_property
    def task_kinds(self) -> dict[str, str]:
        """The kind of each fine-tuned task."""
        recipe = self.model.recipe
        return {name: one.kind for name, one in recipe.tasks.items()} if isinstance(recipe, FineTuningRecipe) else {}

    @cached_property
    def endpoints(self) -> list[str]:
        """The endpoints that it supports."""
        capabilities = self.model.capabilities
        if not capabilities:
            return []
        general = [endpoint for endpoint, needed in _ENDPOINTS.items() if needed in capabilities]
        tasks = filter(None, (TASKS[kind].endpoint for kind in self.task_kinds.values()))
        return list(dict.fromkeys([*general, *tasks]))

    @cached_property
    def entry(self) -> ModelEntry:
        """Its entry in /v1/models."""
        model = self.model
        labels = {name: list(getattr(task, "labels", ())) for name, task in model.tasks.items()}
        info = ModelInfo(
            family=model.family,
            context=model.encoder.context,
            parameters=_num_parameters(model),
            layers=len(model.encoder.widths) - 1,
            max_length=model.encoder.config.max_length,
            endpoints=self.endpoints,
            tasks=self.task_kinds,
            labels={name: names for name, names in labels.items() if names},
            directory=self.directory,
        )
        return ModelEntry(id=self.name, object="model", created=int(self.created), owned_by="polyseme", polyseme=info)

    def require(self, endpoint: str) -> None:
        """Raise an error that lists the supported endpoints if this one is not among them."""
        if endpoint not in self.endpoints:
            supported = ", ".join(self.endpoints) or "none, because it has no tokenizer files"
            message = f"{self.name} ({self.model.family}) does not support {endpoint}; use: {supported}"
            raise ApiError(422, "unsupported", message)

    def find_task(self, name: str | None, kind: str) -> str:
        """The name of its task of a kind; without a name, the only one."""
        names = [other for other, other_kind in self.task_kinds.items() if other_kind == kind]
        if name in names or (name is None and len(names) == 1):
            return name or names[0]
        if not names:
            tasks = ", ".join(f"{other} ({other_kind})" for other, other_kind in self.task_kinds.items())
            raise ApiError(422, "unsupported", f"{self.name} has no {kind} task; its tasks: {tasks or 'none'}")
        raise ApiError(422, "task_required", f"give a task of {self.name}: {', '.join(names)}", param="task")

    def load(self, weights: str) -> None:
        """Try to load the model; if that fails, `problem` is the reason."""
        self.version = self.weights_version()
        try:
            with readable(self.folder):
                model = _load(self.folder, weights)
            for weight in [*model.encoder.parameters(), *model.objective.parameters()]:
                weight.data = weight.data.clone()  # the file may be overwritten while its pages are mapped
            self.loaded, self.problem = model, ""
        except PolysemeError as error:
            self.problem = _TRAINING if is_training(self.folder) else " ".join(str(error).split())
        except Exception as error:  # a directory that is being written can fail in any way
            logger.debug("cannot load %s", self.folder, exc_info=error)
            self.problem = f"cannot load {self.folder} ({type(error).__name__}); check its files"

    def weights_version(self) -> tuple[int, ...]:
        """Size, time and inode of the weights; empty if there are none."""
        try:
            file = self.folder / WEIGHTS if self.folder.is_dir() else self.folder
            stat = file.stat()
        except OSError:
            return ()
        return stat.st_size, stat.st_mtime_ns, stat.st_ino


class ModelRegistry:
    """All served directories."""

    def __init__(self, folders: Sequence[Path], *, weights: str = "float32") -> None:
        self.weights = weights
        folders = list(dict.fromkeys(folder.absolute() for folder in folders))
        names = dict(zip(shortest_names(folders), folders, strict=True))
        self.models = [ServedModel(name=name, folder=folder) for name, folder in names.items()]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="directories", daemon=True)

    def start(self) -> None:
        """Start the thread that checks the directories."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking the directories."""
        self._stopped.set()

    @property
    def loaded(self) -> list[ServedModel]:
        """The models that can be used."""
        return [served for served in self.models if served.loaded is not None]

    def find(self, name: str | None, endpoint: str) -> ServedModel:
        """The model of a request, if it supports the endpoint; without a name, the only model."""
        if name is None and len(self.loaded) != 1:
            raise ApiError(422, "model_required", f"give a model: {_list_names(self.loaded)}", param="model")
        found = self.loaded[0] if name is None else self.get(name)
        found.require(endpoint)
        return found

    def get(self, name: str) -> ServedModel:
        """The loaded model of this name."""
        found = next((served for served in self.models if served.name == name), None)
        if found is None:
            names = _list_names(self.loaded)
            raise ApiError(404, "model_not_found", f"unknown model; choose from {names}", param="model")
        if found.loaded is None:
            raise ApiError(404, "model_not_ready", f"the model is not loaded: {found.public_problem}", param="model")
        return found

    def refresh(self) -> None:
        """Load new directories and those that have changed since loading failed; note changes of loaded ones."""
        for served in self.models:
            version = served.weights_version()
            if served.loaded is None:
                if version != served.version or not version:
                    served.load(self.weights)
            elif not version:
                served.problem = f"{served.folder} was deleted; the model is served from memory"
            elif version != served.version:
                served.problem = f"{served.folder} has changed; restart the server to load it again"
            else:
                served.problem = ""

    def _watch(self) -> None:
        while not self._stopped.wait(_CHECK_SECONDS):
            self.refresh()


def is_training(folder: Path) -> bool:
    """Whether a live process owns an unfinished run; the lock itself is not tried, to stay out of its way."""
    try:
        owner = int(read_regular(folder / LOCK, limit=_MAX_LOCK_BYTES))
        if owner <= 0 or (folder / WEIGHTS).exists():
            return False
        os.kill(owner, 0)
    except PermissionError:
        return True  # a process of another user
    except (OSError, ValueError, OverflowError):
        return False
    return True


def has_file(folder: Path, name: str) -> bool:
    """Whether a folder has a file; False for an invalid path."""
    try:
        return (folder / name).is_file()
    except OSError:
        return False


def _load(folder: Path, weights: str) -> Pretrained:
    try:
        return load(folder, weights=weights)
    except ConfigError:
        if weights == "float32":
            raise
        return load(folder)  # a family whose weights cannot be quantized


def _num_parameters(model: Pretrained) -> int:
    modules: list[Any] = [*model.encoder.modules()]
    quantized = [one.weight.values for one in modules if isinstance(getattr(one, "weight", None), Int8Matrix)]
    return sum(weight.numel() for weight in [*model.encoder.parameters(), *quantized])


def _list_names(models: Sequence[ServedModel]) -> str:
    return ", ".join(served.name for served in models) or "none"
