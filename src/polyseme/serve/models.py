"""The models that are served: opened once, named by their directories, each with what it can do.

A directory that cannot be opened is told of and does not keep the others from working; it is looked at again now and
then, so that a run which ends while it is served becomes a model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from polyseme.errors import ConfigError, PolysemeError
from polyseme.layers.attention import SelfAttention
from polyseme.layers.linear import Int8Matrix
from polyseme.models.directory import WEIGHTS
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.objectives.translation import Translation
from polyseme.opening import load
from polyseme.pretrained import Pretrained
from polyseme.serve.errors import CallError
from polyseme.serve.schema import Facts, ModelEntry
from polyseme.train.recipe import RECIPE
from polyseme.train.run import HISTORY
from polyseme.train.tuning_recipe import TuningRecipe

logger = logging.getLogger(__name__)

_AGAIN = 5.0  # seconds after which directories are looked at again
_TASK_CALLS = {
    "classify": "classify",
    "pair": "pair",
    "similarity": "similarity",
    "tag": "tag",
    "span": "answer",
    "choice": "choose",
}


@dataclass(kw_only=True)
class Served:
    """A directory that is to be served, and its model once it is opened."""

    name: str
    folder: Path
    opened: Pretrained | None = None
    problem: str = ""  # why it is not served, or what has become of its directory
    since: float = field(default_factory=time.time)
    seen: tuple[int, ...] = ()  # what its weights looked like when they were last tried

    @property
    def model(self) -> Pretrained:
        """Once it is opened."""
        assert self.opened is not None
        return self.opened

    @property
    def is_run(self) -> bool:
        """Whether there is something to see of how it learns."""
        return has(self.folder, HISTORY) or has(self.folder, RECIPE)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each task."""
        recipe = self.model.recipe
        return {name: config.kind for name, config in recipe.tasks.items()} if isinstance(recipe, TuningRecipe) else {}

    @cached_property
    def can(self) -> list[str]:
        """The calls that it answers."""
        model = self.model
        if model.tokenizer is None:
            return []
        parts = model.objective.parts
        causal = any(isinstance(part, NextToken) for part in parts)
        masked = any(isinstance(part, MaskedTokens) for part in parts)
        translates = any(isinstance(part, Translation) for part in parts)
        writes = causal and model.encoder.context != "right"
        looks = translates or any(isinstance(module, SelfAttention) for module in model.encoder.modules())
        calls = {
            "embeddings": True,
            "similarity": True,
            "completions": writes,
            "fill": masked,
            "score": causal or masked,
            "translate": translates,
            "choose": writes,
            "neighbours": True,
            "analogy": True,
            "attention": looks,
            "senses": True,
        }
        tasks = [_TASK_CALLS[kind] for kind in self.kinds.values()]
        return list(dict.fromkeys([*(call for call, able in calls.items() if able), *tasks]))

    @cached_property
    def entry(self) -> ModelEntry:
        """As /v1/models has it."""
        model = self.model
        labels = {name: list(getattr(task, "labels", ())) for name, task in model.tasks.items()}
        facts = Facts(
            family=model.family,
            context=model.encoder.context,
            parameters=_num_weights(model),
            layers=len(model.encoder.widths),
            max_length=model.encoder.config.max_length,
            can=self.can,
            tasks=self.kinds,
            labels={name: names for name, names in labels.items() if names},
            directory=str(self.folder),
        )
        return ModelEntry(id=self.name, object="model", created=int(self.since), owned_by="polyseme", polyseme=facts)

    def require(self, call: str) -> None:
        """Refuse what the model cannot do, and say what it can."""
        if call not in self.can:
            can = ", ".join(self.can) or "nothing, since it has no tokenizer files"
            raise CallError(
                422, "unsupported", f"{self.name} is a {self.model.family} and cannot do {call}; it can: {can}"
            )

    def task(self, given: str | None, kind: str) -> str:
        """The name of its task of a kind."""
        names = [name for name, other in self.kinds.items() if other == kind]
        if given is None and len(names) == 1:
            return names[0]
        if given in names:
            return given
        if not names:
            tasks = ", ".join(f"{name} ({kind})" for name, kind in self.kinds.items())
            raise CallError(
                422, "unsupported", f"{self.name} was not fine-tuned to {kind}; its tasks: {tasks or 'none'}"
            )
        raise CallError(422, "task", f"name one of the tasks of {self.name}: {', '.join(names)}", param="task")

    def open(self, weights: str = "float32") -> bool:
        """Try to open it."""
        self.seen = self.look()
        try:
            model = _load(self.folder, weights)
        except PolysemeError as error:
            self.problem = " ".join(str(error).split())
            return False
        except OSError as error:
            self.problem = f"{self.folder} cannot be read ({error.strerror}); check the path and its permissions"
            return False
        except Exception as error:  # whatever a directory that is being written comes up with
            logger.debug("%s cannot be opened", self.folder, exc_info=error)
            self.problem = f"{self.folder} cannot be opened ({type(error).__name__}); look at its files"
            return False
        for weight in [*model.encoder.parameters(), *model.objective.parameters()]:
            weight.data = weight.data.clone()  # a file may be overwritten while its pages are in use
        self.opened, self.problem = model, ""
        return True

    def look(self) -> tuple[int, ...]:
        """What its weights look like from outside; nothing where there are none."""
        try:
            file = self.folder / WEIGHTS if self.folder.is_dir() else self.folder
            state = file.stat()
        except OSError:
            return ()
        return state.st_size, state.st_mtime_ns, state.st_ino


class Models:
    """All that are served."""

    def __init__(self, folders: Sequence[Path], *, weights: str = "float32") -> None:
        self.weights = weights
        self.all = [Served(name=name, folder=folder) for name, folder in _named(folders).items()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="directories", daemon=True)

    def open(self) -> None:
        """Open each."""
        for served in self.all:
            served.open(self.weights)

    def start(self) -> None:
        """Look at the directories from time to time."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    @property
    def open_ones(self) -> list[Served]:
        """Those that are opened."""
        return [served for served in self.all if served.opened is not None]

    def find(self, name: str | None, call: str) -> Served:
        """The model of a request, which can do what is asked."""
        if name is None and len(self.open_ones) != 1:
            raise CallError(422, "model", f"name a model: {_names(self.open_ones)}", param="model")
        found = self.open_ones[0] if name is None else self.named(name)
        found.require(call)
        return found

    def named(self, name: str) -> Served:
        """The model of a name."""
        found = next((served for served in self.all if served.name == name), None)
        if found is not None and found.opened is not None:
            return found
        if found is not None:
            raise CallError(404, "model_not_ready", f"this model is not served: {found.problem}", param="model")
        raise CallError(404, "model_not_found", f"no such model; there are {_names(self.open_ones)}", param="model")

    def check(self) -> None:
        """Try again what could not be opened and has changed; note what has gone."""
        for served in self.all:
            look = served.look()
            if served.opened is None:
                if look != served.seen or not look:
                    served.open(self.weights)
            elif not look:
                served.problem = f"{served.folder} has gone; the model is served from memory"
            elif look != served.seen:
                served.problem = f"{served.folder} has changed; start again to serve what it is now"
            else:
                served.problem = ""

    def _watch(self) -> None:
        while not self._over.wait(_AGAIN):
            self.check()


def has(folder: Path, name: str) -> bool:
    """Whether a folder has a file; of a path that cannot be, nothing."""
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
        return load(folder)  # a family whose weights cannot be kept in bytes


def _num_weights(model: Pretrained) -> int:
    modules: list[Any] = [*model.encoder.modules()]
    in_bytes = [one.weight.values for one in modules if isinstance(getattr(one, "weight", None), Int8Matrix)]
    return sum(weight.numel() for weight in [*model.encoder.parameters(), *in_bytes])


def _names(models: Sequence[Served]) -> str:
    return ", ".join(served.name for served in models) or "none"


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by their names, with as much of the path as it takes to tell them apart."""
    unique = list(dict.fromkeys(folder.absolute() for folder in folders))
    names: dict[str, Path] = {}
    for folder in unique:
        parts = folder.resolve().parts if folder.name in ("", "..") else folder.parts
        number = 1
        while number < len(parts) and any(
            other != folder and other.parts[-number:] == parts[-number:] for other in unique
        ):
            number += 1
        names["/".join(parts[-number:]).lstrip("/")] = folder
    return names
