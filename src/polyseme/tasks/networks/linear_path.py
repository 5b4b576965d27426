"""Linear function of all layers of an encoder, beside the network of a task: the skip connection of its head."""

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.batch import Encoded
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder
from polyseme.tasks.networks.features import mean_pool

_MAX_LAYERS = 6  # evenly spaced ones of a deeper encoder


class LinearPath(nn.Module):
    """Scores of a text from the mean of its tokens, of two texts from [u; v; |u - v|; u v], or of each token.

    Inputs are standardized by constants of the training set, so that one learning rate fits all columns.
    """

    def __init__(self, inputs: str, encoder: Encoder, num_scores: int, dropout: float) -> None:
        super().__init__()
        self.inputs = inputs  # text, pair or words
        number = len(encoder.widths)
        self.layers = np.linspace(0, number - 1, min(number, _MAX_LAYERS)).round().astype(int).tolist()
        width = sum(encoder.widths[layer] for layer in self.layers) * (4 if inputs == "pair" else 1)
        self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(width), requires_grad=False)
        self.drop = Dropout(dropout)
        self.output = nn.Linear(width, num_scores)

    def forward(self, encoded: Encoded) -> Tensor:
        """Compute scores, (instances, scores) or (B, T, scores)."""
        tokens = torch.cat([encoded.layers[layer] for layer in self.layers], -1)
        return self.output(self.drop((self._vectors(tokens, encoded.mask) - self.mean) / self.deviation))  # type: ignore[no-any-return]

    def _vectors(self, tokens: Tensor, mask: Tensor) -> Tensor:
        if self.inputs == "words":
            return tokens
        rows = mean_pool(tokens, mask)
        return rows if self.inputs == "text" else compare_vectors(rows[0::2], rows[1::2])


def compare_vectors(left: Tensor, right: Tensor) -> Tensor:
    """[u; v; |u - v|; u v] of two vectors (Mou et al., 2016; Conneau et al., 2017), (…, 4 D)."""
    return torch.cat([left.expand_as(right), right, (left - right).abs(), left * right], -1)
