"""Going on from a model that is there already, on other text.

The plan is gentler than that of the model: after a warm-up its rate comes to a third of the highest that the model has
known, and falls in a straight line from there; rows have their full length from the start. Gururangan et al. (2020)
go on with RoBERTa so, at a little less than its own rate and for one pass over the text. For models of others, whose
plan is not known, the published rate is scaled by the square root of the batch, which is much smaller here. A family
whose paper has a plan of its own for this says so in its preset.

What is gained on the new text is lost on the old. In 80 steps of a tiny BERT from docstrings to tales of a town, its
own rate brought 5.62 nats a masked token to 3.85 on the tales and 4.78 to 6.12 on docstrings; a third of it to 4.41
and to 5.44; a tenth to 4.98 and to 5.05.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives import Together
from polyseme.text.extension import extend
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe, Saved, read_adapting, read_preset

logger = logging.getLogger(__name__)

_GENTLER = 1 / 3
_BATCH_TOKENS = 4096  # where the model comes without a plan


@dataclass(frozen=True, kw_only=True)
class Base:
    """The model that a training goes on from."""

    name: str
    family: str
    encoder: Encoder
    heads: Together  # those that it has
    tokenizer: Tokenizer
    recipe: Saved | None  # of its own training, if we know it
    pieces: Mapping[int, Sequence[int]] = field(default_factory=dict)  # the old ids that each new id stands for

    def plan(self, overrides: Iterable[str] = (), *, data: Mapping[str, Any], plan: Mapping[str, Any]) -> Recipe:
        """What the training is told: how the model learnt, more gently, with `overrides` on top."""
        if self.encoder.context == "none":  # what it was learnt with is not kept, only the vectors
            raise ConfigError(f"a {self.family} cannot be gone on from; pretrain one on the old and the new text")
        if self.recipe and not isinstance(self.recipe, Recipe):
            before = self.recipe.plan.base
            raise ConfigError(f"{self.name} is fine-tuned; adapt the model it came from, {before}, and then fine-tune")
        values = self.recipe.dump() if self.recipe else read_preset(self.family, "base", "paper")
        read, before, sizes = values["data"], values["plan"], self.encoder.config
        gentle = {"budget": "10m", "steps": 0, "evaluate_batches": 0, "base": self.name, "start": "paper"}
        gentle |= {"schedule": "linear", "warmup": 0.06, "short_rows": 0.0}
        if self.recipe is None:
            gentle["batch_tokens"] = _BATCH_TOKENS
            gentle["rate"] = before["rate"] * math.sqrt(_BATCH_TOKENS / before["batch_tokens"])
        elif not before["base"]:  # one that was adapted before has a gentle rate already
            gentle["rate"] = before["rate"] * _GENTLER
        gentle |= read_adapting(self.family)
        start = "null" if self.tokenizer.null else "none"
        recipe = Recipe.build(
            {
                **values,
                "family": self.family,
                "model": sizes.model_dump(),
                "tokenizer": self.tokenizer.config.model_dump(),
                "data": {
                    **read,
                    "length": min(read["length"], sizes.max_length),
                    "fingerprint": "",
                    "start": start,
                    "target": [],
                    "dev_target": [],
                    **data,
                },
                "plan": {**before, **gentle, **plan},
            },
            overrides,
        )
        for group, given, own in [
            ("model", recipe.model, sizes),
            ("tokenizer", recipe.tokenizer, self.tokenizer.config),
        ]:
            for name, value in own.model_dump(exclude={"dropout"}).items():
                if getattr(given, name) != value:
                    raise ConfigError(f"{group}.{name}: the model has {value!r} and keeps it; leave this setting away")
        if recipe.data.start != start:
            raise ConfigError(f"data.start: the model has {start!r} and keeps it; leave this setting away")
        return recipe

    def extended(self, texts: Iterable[str], num_words: int) -> Base:
        """The same model with new words of some texts in its vocabulary."""
        if not num_words:
            return self
        tokenizer, pieces = extend(self.tokenizer, texts, num_words)
        if len(pieces) < num_words:
            logger.warning("only %d words of the text are in pieces; these are new in the vocabulary", len(pieces))
        return dataclasses.replace(self, tokenizer=tokenizer, pieces=pieces)

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding; some models have more than their tokenizer has tokens."""
        return int(self.encoder.config.vocab_size) + len(self.pieces)

    @torch.no_grad()
    def fill(self, encoder: Encoder, objective: Together) -> None:
        """Put the weights into a model of the same sizes, but for new words; say which heads start afresh."""
        weights = {**self.encoder.state_dict(), **self.heads.state_dict()}
        for name, weight in {**encoder.state_dict(), **objective.state_dict()}.items():
            if name in weights:
                self._copy(weights[name], weight)
        fresh = [
            name for name, head in objective.named_children() if name not in self.heads.names and len(head.state_dict())
        ]
        if fresh:
            logger.warning("%s has no head for %s: started afresh", self.name, ", ".join(fresh))

    def _copy(self, old: Tensor, new: Tensor) -> None:
        """Copy a weight; where it has grown, rows of new words start as the mean of the rows of their pieces."""
        new[: len(old)] = old
        if len(new) > len(old):
            for number, pieces in self.pieces.items():
                new[number] = old[list(pieces)].mean(0)
