"""Predict the next word from the last few (Bengio et al., 2003); the output layer is a matrix and a bias of its own."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from polyseme.models.base import Encoder
from polyseme.objectives.base import ObjectiveConfig
from polyseme.objectives.next_token import NextToken


class NextWordConfig(ObjectiveConfig):
    """Nothing to choose."""

    kind: Literal["next_word"] = "next_word"


class NextWord(NextToken):
    """U, and W where words are joined to the output directly, side by side; and b."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(encoder.config.vocab_size, encoder.widths[-1]))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return self.weight, self.bias
