"""The interface between a training session and whatever it trains."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from polyseme.objectives.sources import TokenSource
from polyseme.step_schedule import StepSchedule

Tensors = dict[str, Tensor]
Values = dict[str, float | int]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Result of a training step."""

    number: int  # of steps so far, with this one
    tokens: int  # so far
    seconds: float  # of training so far
    processor_seconds: float = 0.0  # CPU time of all cores so far, with building the model
    learning_rate: float
    losses: Mapping[str, float]  # nats per target, by loss term
    skipped: bool = False  # the gradient was not finite and the weights are unchanged


@dataclass(frozen=True, kw_only=True)
class LearnerState:
    """The contents of a checkpoint: groups of tensors, and numbers."""

    tensors: dict[str, Tensors] = field(default_factory=dict)
    values: Values = field(default_factory=dict)


class Learner(Protocol):
    """A model that is trained in steps."""

    steps_done: int
    processor_seconds: float

    def update_schedule(self, schedule: StepSchedule) -> None:
        """Continue with a schedule that has more milestones."""

    def steps(self) -> Generator[Step, None, None]:
        """Train, one step per iteration, from the current step on."""

    def evaluate(self, source: TokenSource, *, num_batches: int) -> dict[str, float]:
        """Compute metrics on the first batches of a text, which are always the same."""

    def on_validation_loss(self, dev_loss: float) -> None:
        """Note the loss of a validation."""

    def finalize(self) -> None:
        """Finalize the weights after the last step, for example with averaged ones."""

    def extra_files(self, token: Callable[[int], str]) -> dict[str, str]:
        """Files to write to the model directory beside the model, by name; `token` maps an id to its token."""

    def state(self) -> LearnerState:
        """Return everything that a checkpoint needs."""

    def restore(self, state: LearnerState) -> None:
        """Load the state of a checkpoint."""
