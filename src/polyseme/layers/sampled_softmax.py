"""Output layers for large vocabularies: full, sampled and adaptive softmax."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.arrays import Ids
from polyseme.batch import SampledCandidates
from polyseme.layers.linear_cross_entropy import linear_cross_entropy, token_nll


class Softmax(nn.Module):
    """Linear output layer, trained with the full softmax or with a sampled one (Jean et al., 2015)."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, width))
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        nn.init.normal_(self.weight, std=width**-0.5)

    def loss(self, hidden: Tensor, targets: Tensor, candidates: SampledCandidates | None) -> Tensor:
        """Summed cross entropy over all classes, or over sampled ones with logits corrected by log expected counts."""
        if candidates is None:
            return linear_cross_entropy(hidden, self.weight, self.bias, targets)
        ids, expected_counts = candidates
        weight, bias = F.embedding(ids, self.weight), self.bias[ids] - expected_counts.log()
        return linear_cross_entropy(hidden, weight, bias, torch.searchsorted(ids, targets))

    def token_nll(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood of each target, and whether it is the most probable class."""
        return token_nll(hidden, self.weight, self.bias, targets)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of all classes."""
        return F.linear(hidden, self.weight, self.bias)


class AdaptiveSoftmax(nn.AdaptiveLogSoftmaxWithLoss):
    """Adaptive softmax: frequent words, then clusters of rarer ones in fewer dimensions (Grave et al., 2017)."""

    def __init__(self, vocab_size: int, width: int) -> None:
        cutoffs = sorted({max(1, vocab_size // 16), max(1, vocab_size // 4)})
        divisor = min(4, math.isqrt(width))  # leaves at least one dimension for the last cluster
        super().__init__(width, vocab_size, cutoffs, div_value=divisor, head_bias=True)

    def loss(self, hidden: Tensor, targets: Tensor, candidates: SampledCandidates | None) -> Tensor:
        """Summed cross entropy."""
        log_probabilities: Tensor = self(hidden, targets).output
        return -log_probabilities.sum()

    def token_nll(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood of each target, and whether it is the most probable class."""
        return -self(hidden, targets).output, self.predict(hidden) == targets

    def logits(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of all classes."""
        return self.log_prob(hidden.reshape(-1, hidden.shape[-1])).view(*hidden.shape[:-1], -1)


def sample_candidates(targets: Ids, vocab_size: int, num_samples: int, rng: np.random.Generator) -> SampledCandidates:
    """Sample words from a log-uniform (Zipfian) distribution over ids, and add the targets of the batch."""
    ranks = np.exp(rng.random(num_samples) * np.log(vocab_size + 1)).astype(np.int64)
    ids = np.unique(np.concatenate([(ranks - 1).clip(max=vocab_size - 1), targets]))
    probabilities = np.log1p(1 / (ids + 1)) / np.log(vocab_size + 1)
    # The targets of other positions are sampled as well, by the text itself, about as often.
    expected_counts = -np.expm1((num_samples + len(targets)) * np.log1p(-probabilities))
    return SampledCandidates(torch.from_numpy(ids), torch.from_numpy(expected_counts).float())
