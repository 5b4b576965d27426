"""Feedforward n-gram language modelling: predict each word from the n - 1 before it (Bengio et al., 2003)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from polyseme.models.base import Encoder
from polyseme.objectives.base import ObjectiveConfig
from polyseme.objectives.causal_lm import CausalLm


class FeedforwardLmConfig(ObjectiveConfig):
    """Settings of a feedforward language model: none."""

    kind: Literal["feedforward_lm"] = "feedforward_lm"


class FeedforwardLm(CausalLm):
    """Causal language model with an output layer of its own: U, with direct connections [U; W], and b."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(encoder.config.vocab_size, encoder.widths[-1]))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return self.weight, self.bias
