"""Parts of a batch learnt from side by side, each on cores of its own.

The operations of a small model are too short to be shared between cores: two threads that meet after each of them are
hardly quicker than one. Here the model stands there several times, with the same weights and gradients of its own each
time, and the threads meet once a step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from polyseme.layers.dropout import own_chance
from polyseme.models.base import Encoder
from polyseme.objectives.base import Together
from polyseme.tensors import Batch

_MOST = 4
_MOST_WEIGHTS = 20_000_000  # larger models keep several cores busy as they are (measured)

Found = TypeVar("Found")


def fitting_number(encoder: Encoder, objective: Together, num_rows: int) -> int:
    """How many replicas serve a model best on this machine."""
    large = sum(weight.numel() for weight in encoder.parameters()) > _MOST_WEIGHTS
    # What keeps statistics of a batch has to see all of it.
    if large or encoder.device.type == "cuda" or any(True for _ in objective.buffers()):
        return 1
    return max(1, min(torch.get_num_threads(), _MOST, num_rows))


class Replicas:
    """A model, and others with the same weights; enter it before use."""

    def __init__(self, encoder: Encoder, objective: Together, number: int) -> None:
        self.models = [(encoder, objective), *(_sharing(encoder, objective) for _ in range(number - 1))]
        self.num_frozen = 0
        self._stages = [stages_of(encoder) for encoder, _ in self.models]
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._all_threads = torch.get_num_threads()
        self._threads_each = max(1, self._all_threads // len(self.models))
        if len(self.models) > 1:
            self._threads = ThreadPoolExecutor(
                len(self.models) - 1, "replica", initializer=torch.set_num_threads, initargs=(self._threads_each,)
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._threads:
            self._threads.shutdown()
        self.freeze(0)

    def freeze(self, number: int) -> None:
        """Keep so many stages of all models, counted from the bottom, from learning."""
        if number == self.num_frozen:
            return
        self.num_frozen = number
        for stages in self._stages:
            for place, weights in enumerate(stages):
                for weight in weights:
                    weight.requires_grad_(place >= number)

    def add_up(self, batch: Batch, part: Callable[[Encoder, Together, Batch], Found]) -> list[Found]:
        """What `part` gives for each share of the rows, in order; the first model is left with all the gradients."""
        if self._threads is None:
            return [part(*self.models[0], batch)]
        shares = list(batch.split(-(-len(batch.ids) // len(self.models))))
        seed = torch.initial_seed()

        def work(number: int) -> Found:
            with own_chance(seed + number):
                return part(*self.models[number], shares[number])

        torch.set_num_threads(self._threads_each)
        try:
            others = [self._threads.submit(work, number) for number in range(1, len(shares))]
            found = [work(0), *(other.result() for other in others)]
        finally:
            torch.set_num_threads(self._all_threads)
        for model in self.models[1 : len(shares)]:
            # In the order of the models, so that the sum is the same every time.
            pairs = [(w.grad, o.grad) for w, o in zip(_weights(self.models[0]), _weights(model), strict=True)]
            both = [(mine, other) for mine, other in pairs if mine is not None and other is not None]
            torch._foreach_add_([mine for mine, _ in both], [other for _, other in both])
        return found

    def forget_gradients(self) -> None:
        """Drop the gradients of all models."""
        for model in self.models:
            for weight in _weights(model):
                weight.grad = None


def stages_of(encoder: Encoder) -> list[list[nn.Parameter]]:
    """The weights that learn of each stage, from bottom to top; where there are none, there is no stage."""
    stages = [[weight for weight in stage.parameters() if weight.requires_grad] for stage in encoder.stages()]
    return [weights for weights in stages if weights]


def _weights(model: tuple[nn.Module, nn.Module]) -> list[Tensor]:
    return [weight for module in model for weight in module.parameters()]


def _sharing(encoder: Encoder, objective: Together) -> tuple[Encoder, Together]:
    """A copy of a model whose weights are the same memory."""
    replica = copy.deepcopy((encoder, objective))
    for original, copied in zip(_weights((encoder, objective)), _weights(replica), strict=True):
        copied.data = original.data
    return replica
