"""How far a run is at a step, where its number of steps may be fitted to a time on the way."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

NUM_PARTS = 10


@dataclass(frozen=True, kw_only=True)
class Course:
    """The steps of a run: all alike, or each tenth of the way as many as are marked.

    Rates, lengths of rows and what is asked go by the place of a step, which is known before it is known how many steps
    follow. So a run can be fitted to a time while it goes on, and be repeated by its marks.
    """

    steps: int  # of the whole way, as it was foreseen
    marks: tuple[int, ...] = ()  # steps after which each tenth of the way is over, as far as they are decided

    @property
    def is_decided(self) -> bool:
        """Whether it is known how many steps there are."""
        return len(self.marks) in (0, NUM_PARTS)

    @property
    def total(self) -> int:
        """Steps of the whole; before they are decided, as many as it looks now."""
        if not self.marks:
            return self.steps
        begin, end = (0, *self.marks)[-2:]
        return end + (NUM_PARTS - len(self.marks)) * (end - begin)

    def place(self, step: float) -> float:
        """Where a step stands, counted as if it were one of `steps` that are alike."""
        if not self.marks:
            return step
        part = min(bisect_right(self.marks, step), len(self.marks) - 1)
        begin, end = (0, *self.marks)[part : part + 2]
        return self.steps * (part + (step - begin) / (end - begin)) / NUM_PARTS

    def begun(self) -> Course:
        """With a first tenth as long as was foreseen; others are decided when those before them are over."""
        return replace(self, marks=(-(-self.steps // NUM_PARTS),))

    def fitted(self, *, step: float, left: float) -> Course:
        """With another tenth, of as many steps as fit in its share of the seconds left, if one takes `step` of them."""
        share = left / (NUM_PARTS - len(self.marks))
        length = round(share / step) if step > 0 else self.marks[0]  # a clock that stands still tells nothing
        return replace(self, marks=(*self.marks, self.marks[-1] + max(1, length)))


NO_COURSE = Course(steps=0)
"""Of rows that belong to no run."""
