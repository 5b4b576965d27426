"""Weight averaging: NT-ASGD (Merity et al., 2017) and checkpoint averaging (Vaswani et al., 2017, section 6.1).

NT-ASGD: SGD at a high constant learning rate does not converge. Once the validation loss is above the minimum of all
but the last few validations, the mean of the weights of all later steps is kept beside them, evaluated and finally
used; SGD itself continues unchanged. Polyak and Juditsky (1992) show that this is as good as any learning rate
schedule. Checkpoint averaging takes the mean of a few checkpoints near the end.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from polyseme.learner import Tensors


class WeightAveraging:
    """Running mean of weights, which is triggered by the validation loss or started by the caller."""

    def __init__(self, weights: Mapping[str, Tensor], patience: int) -> None:
        self.weights = weights
        self.patience = patience
        self.dev_losses: list[float] = []
        self.means: Tensors = {}  # empty before averaging starts
        self.number = 0  # of averaged steps

    def on_validation_loss(self, dev_loss: float) -> None:
        """Start averaging if the loss did not improve on the minimum before the last `patience` validations."""
        if math.isfinite(dev_loss):
            if not self.means and dev_loss > min(self.dev_losses[: -self.patience], default=math.inf):
                self.add()
            self.dev_losses.append(dev_loss)

    @torch.no_grad()
    def add(self) -> None:
        """Add the current weights to the mean."""
        self.number += 1
        if self.number == 1:
            self.means = {name: weight.detach().clone() for name, weight in self.weights.items()}
        else:
            torch._foreach_lerp_(list(self.means.values()), list(self.weights.values()), 1 / self.number)

    @torch.no_grad()
    def finalize(self) -> None:
        """Replace the weights by their mean, if there is one."""
        for name, mean in self.means.items():
            self.weights[name].copy_(mean)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Replace the weights by their mean inside a `with` block."""
        current = {name: self.weights[name].detach().clone() for name in self.means}
        self.finalize()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in current.items():
                    self.weights[name].copy_(weight)

    def state(self) -> Tensors:
        """Return everything that a checkpoint needs."""
        if not self.dev_losses and not self.means:
            return {}
        losses = torch.tensor(self.dev_losses, dtype=torch.float64)
        means = {f"mean.{name}": mean for name, mean in self.means.items()}
        return {"dev_losses": losses, "number": torch.tensor(self.number), **means}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the state of a checkpoint."""
        means = {name.removeprefix("mean."): mean for name, mean in state.items() if name.startswith("mean.")}
        self.dev_losses = state["dev_losses"].tolist() if state else []
        self.number = int(state["number"]) if state else 0
        self.means = {name: means[name].clone() for name in self.weights if means}
