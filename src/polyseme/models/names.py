"""How a family's settings and weights are called elsewhere: one table per family, read in both directions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from polyseme.errors import ConfigError


@dataclass(frozen=True)
class Rename:
    """A weight of ours and its name there; several names are parts that we keep stacked.

    `{n}` stands for a layer's number and `{p}` for weight or bias. A transposed weight is stored [in, out] there.
    """

    ours: str
    theirs: str | tuple[str, ...]
    transposed: bool = False

    def match(self, name: str) -> dict[str, str] | None:
        found = _pattern(self.ours).fullmatch(name)
        return found.groupdict() if found else None

    def makes(self, name: str) -> bool:
        """Whether this is what a weight is called there."""
        return any(_pattern(part).fullmatch(name) for part in self._theirs)

    def parts(self, blanks: Mapping[str, str]) -> list[str]:
        return [name.format(**blanks) for name in self._theirs]

    def turn(self, tensor: Tensor) -> Tensor:
        return tensor.T if self.transposed and tensor.dim() == 2 else tensor

    @property
    def _theirs(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\{n\}", r"(?P<n>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)"))


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A family as the transformers library has it."""

    model_type: str
    architectures: Mapping[str, str]  # its class by the head that a model was trained with, the fullest first
    prefix: str  # what its models with a head put before the names of the trunk
    settings: Mapping[str, str | tuple[str, ...]]  # ours to theirs; the first is read, all are written
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # values that are called otherwise, by setting
    larger: Mapping[str, int] = field(default_factory=dict)  # what is added to numbers there, by setting
    absent: Mapping[str, Any] = field(default_factory=dict)  # ours, where theirs is left out and means another value
    required: Mapping[str, Any]  # theirs, with the only value that we know how to compute
    trunk: tuple[Rename, ...]
    heads: tuple[Rename, ...] = ()
    ignored: str = r"$^"  # names there that hold nothing of their own: buffers, tied copies
    fresh: tuple[str, ...] = ()  # weights of ours that a checkpoint may lack

    def naming(self, heads: nn.Module | None) -> Foreign:
        """The same for a model with these heads; there it has one task at most, so several keep the names they have."""
        several = sum(name in (*_OF_TEXTS, *_CLASSES) for name, _ in heads.named_children()) > 1 if heads else False
        return replace(self, heads=(), architectures={}) if several else self

    def settings_to(self, ours: Mapping[str, Any], heads: Iterable[str]) -> dict[str, Any]:
        """Our settings as its config.json has them."""
        classes = [architecture for head, architecture in self.architectures.items() if head in heads]
        config: dict[str, Any] = {"model_type": self.model_type, "architectures": classes[:1], **self.required}
        for name, theirs in self.settings.items():
            value = self.words.get(name, {}).get(ours[name], ours[name])
            value = value + self.larger[name] if name in self.larger else value
            config.update(dict.fromkeys((theirs,) if isinstance(theirs, str) else theirs, value))
        return config

    def settings_from(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Our settings, read from its config.json; what is absent there is what it means there."""
        for name, value in self.required.items():
            if config.get(name, value) != value:
                raise ConfigError(f"config.json: {name} = {config[name]!r} is not supported, only {value!r}")
        ours = dict(self.absent)
        for name, theirs in self.settings.items():
            value = config.get(theirs if isinstance(theirs, str) else theirs[0])
            if isinstance(value, str):
                back = {there: here for here, there in self.words.get(name, {}).items()}
                value = back.get(value, value)
            elif isinstance(value, int) and name in self.larger:
                value -= self.larger[name]
            if value is not None:
                ours[name] = value
        return ours

    def weights_to(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our weights under its names."""
        weights = {}
        for name, tensor in ours.items():
            rule, names = self._find(name)
            for part, piece in zip(names, tensor.chunk(len(names)), strict=True):
                weights[part] = rule.turn(piece).contiguous()
        return weights

    def weights_from(
        self, ours: Iterable[str], theirs: Mapping[str, str], get: Callable[[str], Tensor]
    ) -> dict[str, Tensor]:
        """The weights that we call `ours`; `theirs` gives the name in the file of each name in full."""
        weights = {}
        for name in ours:
            rule, names = self._find(name)
            if all(part in theirs for part in names):
                pieces = [rule.turn(get(theirs[part])) for part in names]
                weights[name] = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return weights

    def names_of(self, ours: str) -> list[str]:
        """What a weight of ours is called there, in full."""
        return self._find(ours)[1]

    def full_name(self, name: str) -> str:
        """A name from a file of today or of long ago, with or without the prefix, as it is written in full today."""
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        return self.prefix + name if any(rule.makes(name) for rule in self.trunk) else name

    def _find(self, ours: str) -> tuple[Rename, list[str]]:
        for rule in self.trunk:
            blanks = rule.match(ours)
            if blanks is not None:
                return rule, [self.prefix + part for part in rule.parts(blanks)]
        for rule in self.heads:
            blanks = rule.match(ours)
            if blanks is not None:
                return rule, rule.parts(blanks)
        return Rename(ours, ours), [ours]  # a head that only we have


_CLASSES = {
    "classify": "ForSequenceClassification",
    "tag": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
_OF_TEXTS = ("classify", "pair", "similarity")  # which are one there


def task_classes(family: str, *tasks: str) -> dict[str, str]:
    """The classes of a family for the tasks that it has there, or for all."""
    classes = {task: family + ending for task, ending in _CLASSES.items() if task in (tasks or _CLASSES)}
    return {**dict.fromkeys(_OF_TEXTS, classes["classify"]), **classes}


def task_heads(*, text: str = "classifier", dense: str = "") -> tuple[Rename, ...]:
    """What the output of each task is called; for those of texts, and a layer below it, this differs by family."""
    outputs = {**dict.fromkeys(_OF_TEXTS, text), "tag": "classifier", "choice": "classifier", "span": "qa_outputs"}
    rules = [Rename(f"{task}.head.output.{{p}}", f"{theirs}.{{p}}") for task, theirs in outputs.items()]
    rules += [Rename(f"{task}.head.dense.{{p}}", f"{dense}.{{p}}") for task in _OF_TEXTS if dense]
    return tuple(rules)
