"""ELMo's scalar mix: a trained weighted sum of all layers (Peters et al., 2018, equation 1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """γ Σ_j s_j h_j with s = softmax(w), initially the mean of the layers."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, num_layers))  # w; a matrix, because weight decay skips vectors
        self.scale = nn.Parameter(torch.ones(1))  # γ

    @property
    def layer_weights(self) -> Tensor:
        """s, the softmax-normalized weight of each layer, (layers,)."""
        return self.weight[0].softmax(-1)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Mix layers of equal width, each (B, T, D)."""
        return torch.einsum("l,lbtd->btd", self.layer_weights * self.scale, torch.stack(list(layers)))

    def penalty(self) -> Tensor:
        """Sum of squared weights, the regularizer that keeps the mix close to the mean (times λ)."""
        return self.weight.square().sum()
