"""Two-way mapping of a family's settings and weights to the transformers library: one table per family."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from polyseme.errors import ConfigError

TASK_LAYERS = {
    "SequenceClassification": {"output": "classifier"},
    "TokenClassification": {"output": "classifier"},
    "QuestionAnswering": {"output": "qa_outputs"},
    "MultipleChoice": {"output": "classifier"},
}
"""Task classes of most families in transformers, without their prefix, and their layers by the names here."""


@dataclass(frozen=True)
class WeightRule:
    """Name of a weight here and in transformers.

    `{n}` stands for a layer number and `{p}` for weight or bias; `{qkv}` for query, key and value, which are three
    weights there and stacked into one here. A transposed weight is stored [in, out] there.
    """

    ours: str
    theirs: str
    transposed: bool = False

    def their_names(self, ours: str) -> list[str]:
        """Names in transformers of the weight `ours`; none if it is not a weight of this rule."""
        match = _pattern(self.ours).fullmatch(ours)
        parts = ("query", "key", "value") if "{qkv}" in self.theirs else ("",)
        return [self.theirs.format(**match.groupdict(), qkv=part) for part in parts] if match else []

    def transpose(self, tensor: Tensor) -> Tensor:
        """Convert between the two layouts."""
        return tensor.T if self.transposed and tensor.dim() == 2 else tensor


_PLACEHOLDERS = {"n": r"(?P<n>\d+)", "p": "(?P<p>weight|bias)", "qkv": "(?:query|key|value)"}


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w+)\\}", lambda placeholder: _PLACEHOLDERS[placeholder[1]], re.escape(name)))


@dataclass(frozen=True, kw_only=True)
class HfMapping:
    """A family in the transformers library."""

    model_type: str
    class_prefix: str  # of the classes with a task head
    task_layers: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: TASK_LAYERS)
    architectures: Mapping[str, str]  # class by pretraining head; of several heads the first one listed decides
    prefix: str  # of encoder weights in models with a head
    settings: Mapping[str, str | tuple[str, ...]]  # ours to theirs; the first is read, all are written
    value_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # values named differently, by setting
    offsets: Mapping[str, int] = field(default_factory=dict)  # theirs minus ours, by setting
    defaults: Mapping[str, Any] = field(default_factory=dict)  # ours, where theirs is absent and its default differs
    required: Mapping[str, Any]  # theirs, with the only supported value
    encoder_weights: tuple[WeightRule, ...]
    head_weights: tuple[WeightRule, ...] = ()
    ignored_weights: str = r"$^"  # theirs that need not be read: buffers and tied copies
    optional_weights: tuple[str, ...] = ()  # ours that a checkpoint may lack; they are initialized

    def for_heads(self, heads: nn.Module | None) -> Self:
        """The mapping for a model with these heads; classes there have one task, so several keep the names here."""
        children = heads.named_children() if heads is not None else ()
        tasks = [(name, hf_class) for name, head in children if (hf_class := getattr(head, "hf_class", ""))]
        if len(tasks) != 1:
            return replace(self, head_weights=(), architectures={}) if tasks else self
        ((name, hf_class),) = tasks
        layers = self.task_layers.get(hf_class, {})
        rules = [WeightRule(f"{name}.head.{ours}.{{p}}", f"{theirs}.{{p}}") for ours, theirs in layers.items()]
        classes = {name: f"{self.class_prefix}For{hf_class}"} if layers else {}
        architectures = {**classes, **self.architectures}
        return replace(self, architectures=architectures, head_weights=(*self.head_weights, *rules))

    def settings_to(self, ours: Mapping[str, Any], heads: Iterable[str]) -> dict[str, Any]:
        """Convert settings to those of config.json."""
        classes = [architecture for head, architecture in self.architectures.items() if head in heads]
        config: dict[str, Any] = {"model_type": self.model_type, "architectures": classes[:1], **self.required}
        for name, theirs in self.settings.items():
            value = self.value_names.get(name, {}).get(ours[name], ours[name])
            value = value + self.offsets[name] if name in self.offsets else value
            config.update(dict.fromkeys((theirs,) if isinstance(theirs, str) else theirs, value))
        return config

    def settings_from(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Convert settings from those of config.json; absent ones have the default that they have in transformers."""
        for name, value in self.required.items():
            if config.get(name, value) != value:
                raise ConfigError(
                    f"config.json: {name} = {config[name]!r} is not supported; use a checkpoint with {name} = {value!r}"
                )
        ours = dict(self.defaults)
        for name, theirs in self.settings.items():
            value = config.get(theirs if isinstance(theirs, str) else theirs[0])
            if isinstance(value, str):
                back = {their_value: our_value for our_value, their_value in self.value_names.get(name, {}).items()}
                value = back.get(value, value)
            elif isinstance(value, int) and name in self.offsets:
                value -= self.offsets[name]
            if value is not None:
                ours[name] = value
        return ours

    def weights_to(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rename, split and transpose weights for transformers."""
        weights = {}
        for name, tensor in ours.items():
            rule, names = self._find(name)
            for part, piece in zip(names, tensor.chunk(len(names)), strict=True):
                weights[part] = rule.transpose(piece).contiguous()
        return weights

    def weights_from(
        self, ours: Iterable[str], theirs: Mapping[str, str], get: Callable[[str], Tensor]
    ) -> dict[str, Tensor]:
        """Read the weights named `ours` with `get`; `theirs` maps each full name to its name in the file."""
        weights = {}
        for name in ours:
            rule, names = self._find(name)
            if all(part in theirs for part in names):
                pieces = [rule.transpose(get(theirs[part])) for part in names]
                weights[name] = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return weights

    def names_of(self, ours: str) -> list[str]:
        """Full names in transformers of a weight here."""
        return self._find(ours)[1]

    def full_name(self, name: str) -> str:
        """Add the prefix to a name if it lacks it, and replace the names of TensorFlow checkpoints."""
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        return (
            self.prefix + name if any(_pattern(rule.theirs).fullmatch(name) for rule in self.encoder_weights) else name
        )

    def _find(self, ours: str) -> tuple[WeightRule, list[str]]:
        for prefix, rules in ((self.prefix, self.encoder_weights), ("", self.head_weights)):
            for rule in rules:
                if names := rule.their_names(ours):
                    return rule, [prefix + name for name in names]
        return WeightRule(ours, ours), [ours]  # a head that transformers does not have
