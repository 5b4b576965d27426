"""Data parallelism across threads: replicas of a model share its weights, and their gradients are summed.

The operations of a small model are too short to be split between cores: two threads that synchronize after each of them
are hardly faster than one. Replicas have gradients of their own and synchronize once per step.
"""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from polyseme.batch import Batch
from polyseme.layers.dropout import thread_rng
from polyseme.models.base import Encoder
from polyseme.objectives.joint import JointObjective
from polyseme.system.hardware import is_large_model

_MAX_REPLICAS = 4

Result = TypeVar("Result")


def num_replicas(encoder: Encoder, objective: JointObjective, num_rows: int) -> int:
    """Choose the number of replicas of a model for this machine."""
    large = is_large_model(sum(weight.numel() for weight in encoder.parameters()))
    # Batch normalization needs the whole batch.
    if large or encoder.device.type == "cuda" or any(True for _ in objective.buffers()):
        return 1
    return max(1, min(torch.get_num_threads(), _MAX_REPLICAS, num_rows))


class ThreadReplicas:
    """A model and its replicas, which have the same weights; a context manager that owns their threads."""

    def __init__(self, encoder: Encoder, objective: JointObjective, number: int) -> None:
        self.models = [(encoder, objective), *(_replicate(encoder, objective) for _ in range(number - 1))]
        self.num_frozen = 0
        self._layer_groups = [layer_group_weights(encoder) for encoder, _ in self.models]
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._all_threads = torch.get_num_threads()
        self._threads_each = max(1, self._all_threads // len(self.models))
        if len(self.models) > 1:
            self._threads = ThreadPoolExecutor(
                len(self.models) - 1, "replica", initializer=torch.set_num_threads, initargs=(self._threads_each,)
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._threads:
            self._threads.shutdown()
        self.freeze(0)

    def freeze(self, number: int) -> None:
        """Freeze layer groups of all replicas, counted from the bottom."""
        if number == self.num_frozen:
            return
        self.num_frozen = number
        for groups in self._layer_groups:
            for index, weights in enumerate(groups):
                for weight in weights:
                    weight.requires_grad_(index >= number)

    def accumulate(self, batch: Batch, part: Callable[[Encoder, JointObjective, Batch], Result]) -> list[Result]:
        """Call `part` with each replica and its part of the rows; the first replica gets the sum of all gradients."""
        if self._threads is None:
            return [part(*self.models[0], batch)]
        parts = list(batch.split(-(-len(batch.ids) // len(self.models))))
        seed = torch.initial_seed()

        def work(number: int) -> Result:
            with thread_rng(seed + number):
                return part(*self.models[number], parts[number])

        torch.set_num_threads(self._threads_each)
        try:
            others = [self._threads.submit(work, number) for number in range(1, len(parts))]
            results = [work(0), *(other.result() for other in others)]
        finally:
            torch.set_num_threads(self._all_threads)
        for model in self.models[1 : len(parts)]:
            # In the order of the replicas, so that the sum is reproducible.
            pairs = [(w.grad, o.grad) for w, o in zip(_weights(self.models[0]), _weights(model), strict=True)]
            both = [(first, other) for first, other in pairs if first is not None and other is not None]
            torch._foreach_add_([first for first, _ in both], [other for _, other in both])
        return results

    def clear_gradients(self) -> None:
        """Delete the gradients of all replicas."""
        for model in self.models:
            for weight in _weights(model):
                weight.grad = None


def layer_group_weights(encoder: Encoder) -> list[list[nn.Parameter]]:
    """Trainable weights of each layer group, from bottom to top, without empty groups."""
    groups = [[weight for weight in group.parameters() if weight.requires_grad] for group in encoder.layer_groups()]
    return [weights for weights in groups if weights]


def _weights(model: tuple[nn.Module, nn.Module]) -> list[Tensor]:
    return [weight for module in model for weight in module.parameters()]


def _replicate(encoder: Encoder, objective: JointObjective) -> tuple[Encoder, JointObjective]:
    """Copy a model, but share its weights."""
    replica = copy.deepcopy((encoder, objective))
    for original, copied in zip(_weights((encoder, objective)), _weights(replica), strict=True):
        copied.data = original.data
    return replica
