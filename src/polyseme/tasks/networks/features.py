"""Inputs of a task head: the top layer of an encoder, or a network of the task's own on its layers."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from polyseme.batch import Encoded
from polyseme.layers.dropout import Dropout
from polyseme.layers.scalar_mix import ScalarMix
from polyseme.models.base import Encoder


class Features(nn.Module):
    """Vectors of tokens, and pooled vectors of sequences."""

    width: int  # of token vectors
    pooled_width: int

    def forward(self, encoded: Encoded) -> Tensor:
        """Compute token vectors, (B, T, width)."""
        raise NotImplementedError

    def pool_rows(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        """Pool each sequence into one vector, (B, pooled width)."""
        raise NotImplementedError

    def penalty(self) -> Tensor | float:
        """Regularization term per target."""
        return 0.0

    def layer_weights(self) -> list[float]:
        """Normalized weights of the layers, if they are trained."""
        return []


class TopLayer(Features):
    """The top layer, and the pooling of the family.

    Families that pool to one token's state, or to a mean, add maximum and mean (Howard and Ruder, 2018).
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.width = encoder.widths[-1]
        self.pooled_width = self.width * (3 if encoder.input_format == "bi_encoder" else 1)

    def forward(self, encoded: Encoded) -> Tensor:
        return encoded.layers[-1]

    def pool_rows(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        pooled = encoder.pool(encoded)
        if encoder.input_format == "bi_encoder":
            return torch.cat([pooled, max_mean_pool(tokens, encoded.mask)], -1)
        return pooled


class BiLstm(Features):
    """A bidirectional LSTM on the top layer."""

    def __init__(self, input_width: int, width: int, dropout: float) -> None:
        super().__init__()
        self.width, self.pooled_width = 2 * width, 4 * width
        self.lstm = bidirectional_lstm(input_width, width)
        self.drop = Dropout(dropout)

    def inputs(self, encoded: Encoded) -> Tensor:
        """Inputs of the LSTM, (B, T, input width)."""
        return encoded.layers[-1]

    def forward(self, encoded: Encoded) -> Tensor:
        return run_bidirectional_lstm(self.lstm, self.drop(self.inputs(encoded)), encoded.mask)

    def pool_rows(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        return max_mean_pool(tokens, encoded.mask)


class ScalarMixLstm(BiLstm):
    """A bidirectional LSTM on layer 0 and a scalar mix of all layers: [x; ELMo] (Peters et al., 2018, section 3.3)."""

    def __init__(self, encoder: Encoder, width: int, dropout: float, penalty: float) -> None:
        super().__init__(encoder.widths[0] + encoder.widths[-1], width, dropout)
        self.mix = ScalarMix(len(encoder.widths))
        self.strength = penalty
        # Layers of other widths are projected to that of the top layer.
        top = encoder.widths[-1]
        self.fit = nn.ModuleList(nn.Identity() if wide == top else nn.Linear(wide, top) for wide in encoder.widths)

    def inputs(self, encoded: Encoded) -> Tensor:
        layers = [fit(layer) for fit, layer in zip(self.fit, encoded.layers, strict=True)]
        return torch.cat([encoded.layers[0], self.mix(layers)], -1)

    def penalty(self) -> Tensor | float:
        return self.strength * self.mix.penalty()

    def layer_weights(self) -> list[float]:
        return self.mix.layer_weights.tolist()


def bidirectional_lstm(input_width: int, width: int) -> nn.LSTM:
    """Build a bidirectional LSTM."""
    return nn.LSTM(input_width, width, batch_first=True, bidirectional=True)


def run_bidirectional_lstm(lstm: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """Run a bidirectional LSTM over padded sequences, (B, T, 2 D); padding gets zeros."""
    # Packed, so that the backward direction starts at the last token of a sequence.
    packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def max_mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Maximum and mean of the real tokens, (B, 2 D)."""
    maximum = tokens.masked_fill(~mask[..., None], float("-inf")).amax(1)
    return torch.cat([maximum, mean_pool(tokens, mask)], -1)


def mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean of the real tokens, (B, D)."""
    real = mask[..., None]
    return (tokens * real).sum(1) / real.sum(1)
