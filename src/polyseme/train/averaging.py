"""The mean of the weights from the moment on at which they only circle around the best (Merity et al., 2017).

Plain steps at a high rate do not come to rest. Once the dev loss is above the lowest of all but the last few looks,
the mean of the weights of all later steps is kept beside them, and is what is measured and used; the weights themselves
move on as before. Polyak and Juditsky (1992) show that this is as good as any course of the rate. Where a plan says so,
the mean is that of a few points of the last steps instead (Vaswani et al., 2017, section 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from polyseme.learning import Tensors


class Averaging:
    """Watches the dev loss and takes means."""

    def __init__(self, weights: Mapping[str, Tensor], patience: int) -> None:
        self.weights = weights
        self.patience = patience
        self.looks: list[float] = []  # dev losses so far
        self.means: Tensors = {}  # nothing before the switch
        self.number = 0  # of steps that they are of

    def look(self, dev_loss: float) -> None:
        """Take note of a dev loss, and switch if it has not improved."""
        if not math.isfinite(dev_loss):
            return
        before = self.looks[: -self.patience]  # which leaves out as many
        if not self.means and before and dev_loss > min(before):
            self.take()
        self.looks.append(dev_loss)

    def step(self) -> None:
        """Take the weights of one more step into the mean, after the switch."""
        if self.means:
            self.take()

    @torch.no_grad()
    def take(self) -> None:
        """Take the weights as they stand into the mean, or begin one with them."""
        self.number += 1
        if self.number == 1:
            self.means = {name: weight.detach().clone() for name, weight in self.weights.items()}
        else:
            torch._foreach_lerp_(list(self.means.values()), list(self.weights.values()), 1 / self.number)

    @torch.no_grad()
    def settle(self) -> None:
        """Put the means in the place of the weights."""
        for name, mean in self.means.items():
            self.weights[name].copy_(mean)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """The same for a while."""
        kept = {name: self.weights[name].detach().clone() for name in self.means}
        self.settle()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in kept.items():
                    self.weights[name].copy_(weight)

    def state(self) -> Tensors:
        """All that a resumed run needs."""
        if not self.looks and not self.means:
            return {}
        counted = {"looks": torch.tensor(self.looks, dtype=torch.float64), "number": torch.tensor(self.number)}
        return {**counted, **{f"mean.{name}": mean for name, mean in self.means.items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Stand where that state was taken."""
        means = {name.removeprefix("mean."): mean for name, mean in state.items() if name.startswith("mean.")}
        self.looks = state["looks"].tolist() if state else []
        self.number = int(state["number"]) if state else 0
        self.means = {name: means[name].clone() for name in self.weights if means}
