"""Causal language modelling: predict each token from those before it (Radford et al., 2018, 2019).

The feedforward n-gram model of Bengio et al. (2003) differs in its output layer, which is not tied to the embeddings.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.batch import IGNORED, Batch, Encoded, LossOutput
from polyseme.datasets.token_store import TokenStore
from polyseme.layers.linear import linear
from polyseme.layers.linear_cross_entropy import token_nll
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, ObjectiveConfig, select_targets
from polyseme.objectives.sources import TokenSource


class CausalLmConfig(ObjectiveConfig):
    """Settings of a causal language model: none."""

    kind: Literal["causal_lm"] = "causal_lm"


class FeedforwardLmConfig(ObjectiveConfig):
    """Settings of a feedforward language model: none."""

    kind: Literal["feedforward_lm"] = "feedforward_lm"


class CausalLm(Objective):
    """Causal language model with tied embeddings, on sequences that cross document boundaries."""

    name: ClassVar[str] = "causal_lm"

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        num_tokens = source.length - len(source.prefix_ids)
        starts = source.sequence_starts(num_tokens, seed=seed, step=step)
        rows = torch.from_numpy(source.read(starts[:, None] + np.arange(num_tokens + 1)))  # (B, T + 1)
        ids, labels = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        if source.prefix_ids:
            prefix = torch.tensor(source.prefix_ids).expand(len(ids), -1)
            ids, labels = torch.cat([prefix, ids], 1), torch.cat([torch.full_like(prefix, IGNORED), labels], 1)
        return Batch.of(ids).with_labels("causal_lm", labels)

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        hidden, targets = select_targets(self.hidden_states(encoded), batch, self.name)
        return self.token_loss(self.name, hidden, *self.output(encoder), targets)

    def hidden_states(self, encoded: Encoded) -> Tensor:
        """Inputs of the output layer, (B, T, D)."""
        return encoded.layers[-1]

    def token_nll(self, encoder: Encoder, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood of each target, and whether it is the most probable token."""
        return token_nll(hidden, *self.output(encoder), targets)

    def metrics(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        bits = means[self.name] / math.log(2) * self.num_predictions(source.store)
        return {"bits_per_character": bits / max(1, source.store.num_characters)}

    def num_predictions(self, store: TokenStore) -> int:
        """Tokens that are predicted in one pass over a text."""
        return store.num_tokens

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the output layer."""
        return encoder.tokens.weight, None

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Logits of the next token, (…, V)."""
        return linear(hidden, *self.output(encoder))


class FeedforwardLm(CausalLm):
    """Causal language model with an output layer of its own: U, with direct connections [U; W], and b."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(encoder.config.vocab_size, encoder.widths[-1]))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return self.weight, self.bias
