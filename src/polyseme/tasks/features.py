"""What a task reads of an encoder: its top, or all of its layers under a network of the task's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from polyseme.layers.dropout import Dropout
from polyseme.layers.mix import LayerMix
from polyseme.models.base import Encoder
from polyseme.tensors import Encoded


class Features(nn.Module):
    """Vectors of the tokens of a row, and one of the whole row."""

    width: int  # of a token
    summary_width: int

    def forward(self, encoded: Encoded) -> Tensor:
        """The vectors of tokens, (B, T, width)."""
        raise NotImplementedError

    def summarize(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        """The vectors of rows, (B, summary width), given those of their tokens."""
        raise NotImplementedError

    def penalty(self) -> Tensor | float:
        """What is added to the mean cost."""
        return 0.0

    def worth(self) -> list[float]:
        """What each layer has turned out to be worth, if that is learnt; together they are worth 1."""
        return []


class Top(Features):
    """The top layer as it is, and what the family holds for a summary.

    Where that is the state of one token, or a mean, it is joined by the largest and the mean (Howard and Ruder, 2018).
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.width = encoder.widths[-1]
        self.summary_width = self.width * (3 if encoder.layout == "apart" else 1)

    def forward(self, encoded: Encoded) -> Tensor:
        return encoded.layers[-1]

    def summarize(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        summary = encoder.summarize(encoded)
        return torch.cat([summary, pool(tokens, encoded.mask)], -1) if encoder.layout == "apart" else summary


class Recurrent(Features):
    """An LSTM from each end over the top layer."""

    def __init__(self, encoder: Encoder, width: int, dropout: float) -> None:
        super().__init__()
        self.width, self.summary_width = 2 * width, 4 * width
        self.lstm = both_ways(self.input_width(encoder), width)
        self.drop = Dropout(dropout)

    def input_width(self, encoder: Encoder) -> int:
        """How wide that is which the network reads."""
        return encoder.widths[-1]

    def read(self, encoded: Encoded) -> Tensor:
        """What the network reads, (B, T, input width)."""
        return encoded.layers[-1]

    def forward(self, encoded: Encoded) -> Tensor:
        return read_both_ways(self.lstm, self.drop(self.read(encoded)), encoded.mask)

    def summarize(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        return pool(tokens, encoded.mask)


class Mixed(Recurrent):
    """The same over layer 0 beside a mix of all layers: [x; ELMo] (Peters et al., 2018, section 3.3)."""

    def __init__(self, encoder: Encoder, width: int, dropout: float, penalty: float) -> None:
        super().__init__(encoder, width, dropout)
        self.mix = LayerMix(len(encoder.widths))
        self.strictness = penalty
        # Layers of other widths than the top are brought to it.
        top = encoder.widths[-1]
        self.fit = nn.ModuleList(nn.Identity() if wide == top else nn.Linear(wide, top) for wide in encoder.widths)

    def input_width(self, encoder: Encoder) -> int:
        return encoder.widths[0] + encoder.widths[-1]

    def read(self, encoded: Encoded) -> Tensor:
        layers = [fit(layer) for fit, layer in zip(self.fit, encoded.layers, strict=True)]
        return torch.cat([encoded.layers[0], self.mix(layers, encoded.mask)[0]], -1)

    def penalty(self) -> Tensor | float:
        return self.strictness * self.mix.penalty()

    def worth(self) -> list[float]:
        return self.mix.shares[0].tolist()


def both_ways(input_width: int, width: int) -> nn.LSTM:
    """An LSTM from each end."""
    return nn.LSTM(input_width, width, batch_first=True, bidirectional=True)


def read_both_ways(lstm: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """What it makes of rows, (B, T, 2 D), and zeros of padding."""
    # Packed, so that the way back begins at the last token of a row.
    packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """The largest and the mean of the real tokens, (B, 2 D)."""
    real = mask[..., None]
    mean = (tokens * real).sum(1) / real.sum(1)
    return torch.cat([tokens.masked_fill(~real, float("-inf")).amax(1), mean], -1)
