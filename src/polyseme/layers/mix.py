"""All layers of an encoder as one, by weights that a task learns (Peters et al., 2018, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class LayerMix(nn.Module):
    """γ Σ s_j h_j with s = softmax(w): the mean of the layers at first; several mixes see one run of the encoder.

    With `normed`, each layer is first brought to mean 0 and variance 1 over all real tokens of the batch.
    """

    def __init__(self, num_layers: int, *, num_mixes: int = 1, normed: bool = False) -> None:
        super().__init__()
        self.normed = normed
        self.weight = nn.Parameter(torch.zeros(num_mixes, num_layers))
        self.scale = nn.Parameter(torch.ones(num_mixes))

    @property
    def shares(self) -> Tensor:
        """What each layer is worth to each mix, (mixes, layers)."""
        return self.weight.softmax(-1)

    def forward(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """The mixes (mixes, B, T, D) of layers of one width, each (B, T, D)."""
        if self.normed:
            layers = [_norm(layer, mask) for layer in layers]
        return torch.einsum("ml,lbtd->mbtd", self.shares * self.scale[:, None], torch.stack(list(layers)))

    def penalty(self) -> Tensor:
        """The squares of the weights: what keeps the mixes near the mean, times λ."""
        return self.weight.square().sum()


def _norm(layer: Tensor, mask: Tensor) -> Tensor:
    real = layer[mask]
    variance, mean = torch.var_mean(real, correction=0)
    return (layer - mean) * torch.rsqrt(variance + 1e-12)
