"""Language modelling with activation regularization and random BPTT lengths, as for AWD-LSTM (Merity et al., 2017)."""

import dataclasses
import functools
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.arrays import Ids
from polyseme.batch import Batch, Encoded, LossOutput
from polyseme.models.base import Encoder
from polyseme.objectives.base import ObjectiveConfig
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.sources import TokenSource, rng

_BLOCK_STEPS = 1024  # lengths are drawn in blocks
_MIN_LENGTH, _LENGTH_DEVIATION = 5, 5  # tokens
_HALVED_FRACTION = 0.05  # of the steps have about half the length


class AwdLmConfig(ObjectiveConfig):
    """Regularization of the top layer and length of the sequences."""

    kind: Literal["awd_lm"] = "awd_lm"
    activation_regularization: float = Field(2.0, ge=0)  # α of AR, on the squared activations
    temporal_regularization: float = Field(1.0, ge=0)  # β of TAR, on the squared differences of successive steps
    lengths: Literal["random", "fixed"] = "random"  # random: around data.sequence_length, another one in each step


class AwdLm(CausalLm):
    """Causal language model with tied embeddings and a bias; a right-to-left model reads the text backwards."""

    def __init__(self, config: AwdLmConfig, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.backward = encoder.context == "right"
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        num_read, length = step * source.length, source.length
        if self.config.lengths == "random" and not source.validation:
            num_read, length = random_span(source.length, seed=seed, step=step)
        positions = source.stream_positions(num_read, length + 1, seed=seed)
        rows = source.read(-1 - positions if self.backward else positions)  # in reading order, (B, T + 1)
        ids, labels = torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])
        if self.backward:
            ids, labels = ids.flip(1), labels.flip(1)
        batch = Batch.of(ids.contiguous(), continues=True, length_ratio=length / source.length)
        return batch.with_labels("causal_lm", labels.contiguous())

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return encoder.tokens.weight, self.bias

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        if not self.training:
            return super().loss(encoder, encoded, batch)
        top = encoded.layers[-1]  # (B, T, D)
        dropped = encoder.get_submodule("drop_output")(top)
        output = super().loss(encoder, dataclasses.replace(encoded, layers=(*encoded.layers[:-1], dropped)), batch)
        # As sums; division by the number of tokens makes them the means of the paper.
        length, width = top.shape[1:]
        activation = dropped.square().sum() / width
        temporal = top.diff(dim=1).square().sum() / width * length / max(1, length - 1)
        config = self.config
        penalty = config.activation_regularization * activation + config.temporal_regularization * temporal
        # The penalty contributes its gradient; the reported loss remains the cross entropy.
        return LossOutput(losses={"causal_lm": output.losses["causal_lm"] + (penalty - penalty.detach())})


def random_span(length: int, *, seed: int, step: int) -> tuple[int, int]:
    """Tokens that each row has read before a step, and tokens that it reads in the step."""
    block, index = divmod(step, _BLOCK_STEPS)
    before = sum(int(_random_lengths(length, seed, number).sum()) for number in range(block))
    lengths = _random_lengths(length, seed, block)
    return before + int(lengths[:index].sum()), int(lengths[index])


@functools.lru_cache(maxsize=4096)
def _random_lengths(length: int, seed: int, block: int) -> Ids:
    generator = rng(seed, "lengths", block)
    means = np.where(generator.random(_BLOCK_STEPS) < _HALVED_FRACTION, length / 2, length)
    return np.maximum(_MIN_LENGTH, generator.normal(means, _LENGTH_DEVIATION).astype(np.int64))
