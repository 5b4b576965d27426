"""Continued pretraining: the base model and the default settings.

After a warm-up, the learning rate is a third of the highest rate of pretraining, and falls linearly; sequences have
their full length from the start. Gururangan et al. (2020) adapt RoBERTa like this, with a little less than its own
learning rate, for one epoch. For models from elsewhere, whose recipe is unknown, the published learning rate is scaled
by the square root of the batch size, which is much smaller here. A family whose paper has settings for this stage has
them in its preset.

The gain on the new text costs some quality on the old. In 80 steps of a tiny BERT from docstrings to tales of a town,
its own learning rate changed the loss in nats per masked token from 5.62 to 3.85 on the tales and from 4.78 to 6.12 on
docstrings; a third of it to 4.41 and 5.44; a tenth of it to 4.98 and 5.05.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.joint import JointObjective
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.vocabulary_extension import extend_vocabulary
from polyseme.training.recipes.presets import adaptation_defaults, read_preset
from polyseme.training.recipes.recipe import Recipe, SavedRecipe

logger = logging.getLogger(__name__)

_LEARNING_RATE_FACTOR = 1 / 3
_BATCH_TOKENS = 4096  # for models without a recipe


@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """A model to continue training from."""

    name: str
    family: str
    encoder: Encoder
    heads: JointObjective  # those that the model has
    tokenizer: Tokenizer
    recipe: SavedRecipe | None  # of its training, if known
    pieces: Mapping[int, Sequence[int]] = field(default_factory=dict)  # old ids that each added id replaces

    def adaptation_recipe(
        self,
        overrides: Iterable[str] = (),
        *,
        data: Mapping[str, Any],
        training: Mapping[str, Any],
        new_words: int = 0,
    ) -> Recipe:
        """Build the recipe of continued pretraining, from that of the model.

        Args:
            overrides: `group.setting=value`, which take precedence.
            data: Settings of the group `data`.
            training: Settings of the group `training`.
            new_words: Maximum number of words to add to the vocabulary.
        """
        if self.encoder.context == "none":  # only the vectors are saved, without the state of their training
            raise ConfigError(
                f"{self.family} embeddings cannot be adapted; pretrain new ones on the old and the new text"
            )
        if not self.encoder.has_vectors:
            raise ConfigError(f"{self.family} models cannot be adapted; pretrain a new one on the old and the new text")
        if self.recipe and not isinstance(self.recipe, Recipe):
            original = self.recipe.training.base_model
            raise ConfigError(
                f"{self.name} is fine-tuned; adapt its base model {original} instead, then fine-tune that"
            )
        overrides = tuple(overrides)
        values = self.recipe.dump() if self.recipe else read_preset(self.family, "base", "paper")
        previous, config = values["training"], self.encoder.config
        defaults = {
            "budget": "10m",
            "steps": 0,
            "extended_at": 0,
            "evaluate_batches": 0,
            "base_model": self.name,
            "initialization": "paper",
            "lr_schedule": "linear",
            "warmup_fraction": 0.06,
            "short_sequence_fraction": 0.0,
        }
        if self.recipe is None:
            scale = math.sqrt(_BATCH_TOKENS / previous["batch_tokens"])
            defaults |= {"batch_tokens": _BATCH_TOKENS, "learning_rate": previous["learning_rate"] * scale}
        elif not previous["base_model"]:  # an adapted model has been trained with the lower rate already
            defaults["learning_rate"] = previous["learning_rate"] * _LEARNING_RATE_FACTOR
        defaults |= adaptation_defaults(self.family)
        first_token = "null" if self.tokenizer.null_prefix else "none"
        recipe = Recipe.build(
            {
                **values,
                "family": self.family,
                "model": config.model_dump(),
                "tokenizer": self.tokenizer.config.model_dump(),
                "data": {
                    **values["data"],
                    "sequence_length": min(values["data"]["sequence_length"], config.max_length),
                    "fingerprint": "",
                    "first_token": first_token,
                    "target": [],
                    "dev_target": [],
                    **data,
                },
                "training": {**previous, **defaults, **training},
                "command": {"settings": overrides, "new_words": new_words},
            },
            overrides,
        )
        fixed = {
            "model": config.model_dump(exclude={"dropout"}),
            "tokenizer": self.tokenizer.config.model_dump(),
            "data": {"first_token": first_token},
        }
        for group, settings in fixed.items():
            for name, value in settings.items():
                if getattr(getattr(recipe, group), name) != value:
                    raise ConfigError(f"{group}.{name}: the base model has {value!r}; remove this setting")
        return recipe

    def extended(self, texts: Iterable[str], num_words: int) -> Self:
        """Add up to `num_words` words of some texts to the vocabulary."""
        if not num_words:
            return self
        tokenizer, pieces = extend_vocabulary(self.tokenizer, texts, num_words)
        if len(pieces) < num_words:
            logger.warning("the text has only %d words that can be added to the vocabulary", len(pieces))
        return dataclasses.replace(self, tokenizer=tokenizer, pieces=pieces)

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding; some models have more than their tokenizer has tokens."""
        return int(self.encoder.config.vocab_size) + len(self.pieces)

    @torch.no_grad()
    def load_into(self, encoder: Encoder, objective: JointObjective) -> None:
        """Copy the weights into a model of the same size, but for added words; warn of heads without weights."""
        weights = {**self.encoder.state_dict(), **self.heads.state_dict()}
        for name, weight in {**encoder.state_dict(), **objective.state_dict()}.items():
            if name in weights:
                self._copy(weights[name], weight)
        new_heads = [
            name for name, head in objective.named_children() if name not in self.heads.names and len(head.state_dict())
        ]
        if new_heads:
            logger.warning("%s has no head for %s: initialized randomly", self.name, ", ".join(new_heads))

    def _copy(self, old: Tensor, new: Tensor) -> None:
        """Copy a weight; the rows of added words are the means of the rows of their pieces."""
        new[: len(old)] = old
        if len(new) > len(old):
            for id, pieces in self.pieces.items():
                new[id] = old[list(pieces)].mean(0)
