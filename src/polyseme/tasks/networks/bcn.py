"""Biattentive classification network of CoVe (McCann et al., 2017).

Each word of a text attends to the words of the other text, and a second LSTM reads all words together with what they
attended to. A single text attends to itself.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.batch import Encoded
from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder
from polyseme.tasks.networks.features import Features, bidirectional_lstm, max_mean_pool, run_bidirectional_lstm


class BiattentiveNetwork(Features):
    """Words of one text or two in the context of the other."""

    def __init__(self, encoder: Encoder, width: int, dropout: float, *, num_texts: int) -> None:
        super().__init__()
        self.width = 2 * width
        self.pooled_width = 4 * self.width * num_texts
        self.dense = nn.Linear(encoder.widths[-1], self.width)
        self.lstm = bidirectional_lstm(self.width, width)
        self.integrate = nn.ModuleList(bidirectional_lstm(3 * self.width, width) for _ in range(num_texts))
        # v of the paper; its d is the same for all words, and softmax is invariant to it.
        self.weigh = nn.ModuleList(nn.Linear(self.width, 1, bias=False) for _ in range(num_texts))
        self.drop = Dropout(dropout)

    def forward(self, encoded: Encoded) -> Tensor:
        words = F.relu(self.dense(self.drop(encoded.layers[-1])))
        return run_bidirectional_lstm(self.lstm, self.drop(words), encoded.mask)

    def pool_rows(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        return self.compare(tokens, encoded.mask, 1)[:, 0]

    def compare(self, words: Tensor, mask: Tensor, rows_per_example: int) -> Tensor:
        """Compare the first text of each example to each of the others, or to itself, (examples, others, D)."""
        texts = torch.arange(len(words), device=words.device).view(-1, rows_per_example)
        others = texts[:, min(1, rows_per_example - 1) :]
        pair = texts[:, :1].expand_as(others).flatten(), others.flatten()
        pooled = []
        # For a text that attends to itself, one direction is enough.
        for (rows, other_rows), integrate, weigh in zip((pair, pair[::-1]), self.integrate, self.weigh, strict=False):
            x, real = words[rows], mask[rows]
            attended = attend(x, words[other_rows], mask[other_rows])
            x = torch.cat([x, x - attended, x * attended], -1)
            x = run_bidirectional_lstm(integrate, self.drop(x), real)
            pooled.append(_pool(x, real, weigh(x)))
        return torch.cat(pooled, -1).view(*others.shape, -1)


def attend(x: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """Attention of the words of x to the real words of y: softmax(X Y') Y, (B, T, D)."""
    affinity = (x @ y.mT).masked_fill(~real[:, None], float("-inf"))
    return affinity.softmax(-1) @ y


def _pool(words: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """Maximum, mean, minimum, and self-attentive mean with weights (B, T, 1), of the real words, (B, 4 D)."""
    padding = ~mask[..., None]
    minimum = words.masked_fill(padding, float("inf")).amin(1)
    weighted = (words * weights.masked_fill(padding, float("-inf")).softmax(1)).sum(1)
    return torch.cat([max_mean_pool(words, mask), minimum, weighted], -1)
