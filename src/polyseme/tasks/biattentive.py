"""Texts that are read against each other, word by word: the biattentive classification network.

Each word looks for what the other text has of its kind, and a second network reads all words beside what they found
(McCann et al., 2017). A single text is read against itself.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout
from polyseme.models.base import Encoder
from polyseme.tasks.features import Features, both_ways, pool, read_both_ways
from polyseme.tensors import Encoded

_NUM_CHANNELS = 4


class Biattentive(Features):
    """The words of one text or two beside those of the other."""

    def __init__(self, encoder: Encoder, width: int, dropout: float, *, num_texts: int) -> None:
        super().__init__()
        self.width = 2 * width
        self.summary_width = 4 * self.width * num_texts
        self.dense = nn.Linear(encoder.widths[-1], self.width)
        self.lstm = both_ways(self.width, width)
        self.integrate = nn.ModuleList(both_ways(3 * self.width, width) for _ in range(num_texts))
        # v of the paper; its d is the same for all words, so that the softmax does not see it.
        self.weigh = nn.ModuleList(nn.Linear(self.width, 1, bias=False) for _ in range(num_texts))
        self.drop = Dropout(dropout)

    def forward(self, encoded: Encoded) -> Tensor:
        words = F.relu(self.dense(self.drop(encoded.layers[-1])))
        return read_both_ways(self.lstm, self.drop(words), encoded.mask)

    def summarize(self, encoder: Encoder, encoded: Encoded, tokens: Tensor) -> Tensor:
        return self.compare(tokens, encoded.mask, 1)[:, 0]

    def compare(self, words: Tensor, mask: Tensor, group: int) -> Tensor:
        """Of each group of texts, the first beside each of the others or itself, (groups, others, summary width)."""
        texts = torch.arange(len(words), device=words.device).view(-1, group)
        others = texts[:, min(1, group - 1) :]
        pair = texts[:, :1].expand_as(others).flatten(), others.flatten()
        summaries = []
        # Of a text that is read against itself, one side is enough.
        for (mine, theirs), integrate, weigh in zip((pair, pair[::-1]), self.integrate, self.weigh, strict=False):
            x, real = words[mine], mask[mine]
            found = attend(x, words[theirs], mask[theirs])
            x = read_both_ways(integrate, self.drop(torch.cat([x, x - found, x * found], -1)), real)
            summaries.append(_pool(x, real, weigh(x)))
        return torch.cat(summaries, -1).view(*others.shape, -1)


def attend(x: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """What each word of x finds in the real ones of y: softmax(X Y') Y, (B, T, D)."""
    affinity = (x @ y.mT).masked_fill(~real[:, None], float("-inf"))
    return affinity.softmax(-1) @ y


def _pool(words: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """The largest, the mean, the least, and the mean by learnt weights (B, T, 1), of the real words, (B, 4 D)."""
    padding = ~mask[..., None]
    least = words.masked_fill(padding, float("inf")).amin(1)
    weighed = (words * weights.masked_fill(padding, float("-inf")).softmax(1)).sum(1)
    return torch.cat([pool(words, mask), least, weighed], -1)


class Maxout(nn.Module):
    """Three layers, each the largest of four linear maps (Goodfellow et al., 2013).

    The paper also norms what each layer reads by the batch. That is left out: with 64 examples, in batches of 16 of one
    length, what was learnt then did not hold for others.
    """

    def __init__(self, width: int, num_scores: int, *, dropout: float) -> None:
        super().__init__()
        widths = [width, max(1, width // 8), max(1, width // 16), num_scores]  # the narrowest that the paper tried
        self.layers = nn.ModuleList(nn.Linear(a, _NUM_CHANNELS * b) for a, b in pairwise(widths))
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(self.drop(x)).unflatten(-1, (-1, _NUM_CHANNELS)).amax(-1)
        return x
