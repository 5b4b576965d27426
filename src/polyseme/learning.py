"""What learns, one step at a time: the run drives it and knows nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from polyseme.course import Course
from polyseme.objectives import Source

Tensors = dict[str, Tensor]
Values = dict[str, float | int]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step did."""

    number: int  # steps done so far, this one included
    tokens: int  # read so far
    seconds: float  # of learning so far
    processor_seconds: float = 0.0  # of all cores together, what the start took included
    rate: float
    losses: Mapping[str, float]  # nats an item, by name
    skipped: bool = False  # the gradient was not finite and the weights stayed


@dataclass(frozen=True, kw_only=True)
class LearnerState:
    """All that a resumed run needs: groups of tensors, and plain numbers."""

    tensors: dict[str, Tensors] = field(default_factory=dict)
    values: Values = field(default_factory=dict)


class Learner(Protocol):
    """Anything that learns in steps."""

    done: int
    processor_seconds: float

    @property
    def total(self) -> int:
        """Steps of the whole, as far as that is decided."""

    def follow(self, course: Course) -> None:
        """Go on by a course that has been decided further."""

    def steps(self) -> Iterator[Step]:
        """Learn, one step at a time, from wherever it stands."""

    def evaluate(self, source: Source, *, num_batches: int) -> dict[str, float]:
        """Figures on the first batches of a text, the same ones every time."""

    def look(self, dev_loss: float) -> None:
        """Take note of the loss on the dev text."""

    def settle(self) -> None:
        """Leave the model as it is going to be used; learning has ended."""

    def files(self, token: Callable[[int], str]) -> dict[str, str]:
        """What the model directory should hold besides the model, by name, given what the tokens are called."""

    def state(self) -> LearnerState:
        """All that a resumed run needs."""

    def restore(self, state: LearnerState) -> None:
        """Stand where that state was taken."""
