"""Training objectives: how text becomes batches, and the loss of a batch."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from polyseme.batch import IGNORED, Batch, Encoded, LossOutput, State
from polyseme.config import Config
from polyseme.errors import ConfigError
from polyseme.layers.linear_cross_entropy import linear_cross_entropy, token_nll
from polyseme.models.base import Encoder
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens


class ObjectiveConfig(Config):
    """Properties that every objective has."""

    by_gradient: ClassVar[bool] = True  # trained by gradient descent; otherwise by a compiled trainer
    full_batch: ClassVar[bool] = False  # each step uses the whole corpus
    single_step: ClassVar[bool] = False  # training is complete after one step, whatever the budget
    uses_parallel_text: ClassVar[bool] = False  # the corpus consists of sentence pairs
    deterministic_threads: ClassVar[bool] = True  # several threads give the same result in every run

    @property
    def can_be_extended(self) -> bool:
        """Whether a run can continue with a longer budget."""
        return True

    @property
    def uses_units(self) -> bool:
        """Whether the token store needs masking units."""
        return False

    @property
    def uses_dialogues(self) -> bool:
        """Whether the corpus consists of dialogues."""
        return False


def required_ids(specials: SpecialTokens, *roles: str) -> list[int]:
    """Ids of special tokens that an objective needs."""
    ids = [getattr(specials, role) for role in roles]
    if None in ids:
        names = ", ".join(roles)
        raise ConfigError(f"this objective needs special tokens for {names}; set tokenizer.specials=bert")
    return ids


class Objective(nn.Module):
    """Draws batches, adds the targets, and computes the loss."""

    label_names: ClassVar[tuple[str, ...]] = ()  # of sequence-level labels

    def batch(self, source: Any, *, seed: int, step: int) -> Batch:
        """The batch of a step, a pure function of its arguments."""
        return self.add_targets(self.draw_batch(source, seed=seed, step=step), source, seed=seed, step=step)

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        """Draw the sequences of a step."""
        raise NotImplementedError

    def add_targets(self, batch: Batch, source: TokenSource, *, seed: int, step: int) -> Batch:
        """Add the targets of this objective to sequences that another one has drawn."""
        return batch

    def forward(self, encoder: Encoder, batch: Batch, state: State | None = None) -> LossOutput:
        """Encode a batch and compute its loss."""
        encoded = encoder(batch, state)
        return dataclasses.replace(self.loss(encoder, encoded, batch), state=encoded.state)

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        """Compute the summed loss of each loss term."""
        raise NotImplementedError

    def token_loss(self, name: str, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> LossOutput:
        """Summed cross entropy of targets (N,) given hidden states (N, D); in evaluation, also the correct ones."""
        if self.training:
            return LossOutput(losses={name: linear_cross_entropy(hidden, weight, bias, targets)})
        nll, correct = token_nll(hidden, weight, bias, targets)
        return LossOutput(losses={name: nll.sum()}, correct={name: correct.sum()})

    def metrics(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        """Further metrics that follow from the mean losses on a validation source."""
        return {}


def select_targets(hidden: Tensor, batch: Batch, name: str) -> tuple[Tensor, Tensor]:
    """Hidden states (N, D) and labels (N,) of the positions with a target."""
    hidden, labels = hidden.flatten(0, 1), batch.labels[name].flatten()
    if batch.counts[name] == len(labels):
        return hidden, labels
    positions = (labels != IGNORED).nonzero().squeeze(1)
    return hidden[positions], labels[positions]
