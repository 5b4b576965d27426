"""Maps steps to training progress when the number of steps is adapted to a time budget."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Self

NUM_MILESTONES = 10


@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """The steps of a run: evenly spaced, or with a milestone at each tenth of the run.

    Learning rates, sequence lengths and masking depend on the scaled step, which is known before the number of later
    steps is. So the number of steps can be adapted to a time budget during the run, and a run can be repeated from its
    milestones.
    """

    steps: int  # of the whole run, as planned
    milestones: tuple[int, ...] = ()  # steps at which each tenth of the run ends, as far as decided

    @property
    def is_decided(self) -> bool:
        """Whether the total number of steps is final."""
        return len(self.milestones) in (0, NUM_MILESTONES)

    @property
    def total_steps(self) -> int:
        """Total number of steps; an extrapolation until it is decided."""
        if not self.milestones:
            return self.steps
        begin, end = (0, *self.milestones)[-2:]
        return end + (NUM_MILESTONES - len(self.milestones)) * (end - begin)

    def scaled_step(self, step: float) -> float:
        """Scale a step to the planned number of `steps`, which are evenly spaced."""
        if not self.milestones:
            return step
        part = min(bisect_right(self.milestones, step), len(self.milestones) - 1)
        begin, end = (0, *self.milestones)[part : part + 2]
        return self.steps * (part + (step - begin) / (end - begin)) / NUM_MILESTONES

    def with_first_milestone(self) -> Self:
        """Set the first milestone as planned; each later one is set when the one before is reached."""
        return replace(self, milestones=(-(-self.steps // NUM_MILESTONES),))

    def with_next_milestone(self, *, step: float, left: float) -> Self:
        """Set the next milestone by the seconds that are left and the seconds that a step takes."""
        available = left / (NUM_MILESTONES - len(self.milestones))
        length = round(available / step) if step > 0 else self.milestones[0]  # without a clock, as planned
        return replace(self, milestones=(*self.milestones, self.milestones[-1] + max(1, length)))


NO_SCHEDULE = StepSchedule(steps=0)
"""The schedule of sequences that belong to no run."""
