"""Training budgets (`10m`, `500steps`, `2Mtokens`, `3epochs`) and the model size that fits one."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator

from polyseme.errors import ConfigError

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_PATTERN = re.compile(
    r"(\d{1,15}(?:\.\d{1,9})?)\s*"
    r"(?:(s|m|h)|(s)ec(?:ond)?s?|(m)in(?:ute)?s?|(h)(?:our|r)s?|([kMG]?)\s*(step|token|epoch)s?)"
)
_MULTIPLIERS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Budget:
    """How long to train: an amount of seconds, steps, tokens or epochs."""

    amount: float
    unit: Literal["seconds", "steps", "tokens", "epochs"]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `90s`, `10m`, `2h`, `500steps`, `2Mtokens` or `3epochs`, or the words: `10 min`, `3 epochs`."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None or float(match[1]) == 0:
            raise ConfigError(f"{text!r:.60} is not a budget; use 90s, 10m, 2h, 500steps, 2Mtokens or 3epochs")
        amount, *seconds, multiplier, counted = match.groups()
        unit = next(filter(None, seconds), None)
        if unit:
            return cls(float(amount) * _SECONDS[unit], "seconds")
        units: dict[str, Literal["steps", "tokens", "epochs"]] = {"step": "steps", "token": "tokens", "epoch": "epochs"}
        return cls(float(amount) * _MULTIPLIERS[multiplier], units[counted])

    def steps(self, *, tokens_per_step: float, tokens_per_epoch: int) -> int | None:
        """Convert to a number of steps; None for a time, which has to be measured."""
        if self.unit == "seconds":
            return None
        per_step = {"steps": 1.0, "tokens": tokens_per_step, "epochs": tokens_per_step / max(1, tokens_per_epoch)}
        return max(1, round(self.amount / per_step[self.unit]))


def _validate(text: str) -> str:
    try:
        Budget.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


BudgetText = Annotated[str, AfterValidator(_validate)]
"""A budget as written by a user, such as 10m or 3epochs."""

SIZES = ("tiny", "small", "medium", "base")
_MIN_MINUTES = {"small": 1, "medium": 60, "base": 48 * 60}  # on two cores
_MIN_BYTES = {"small": 500e3, "medium": 20e6, "base": 1e9}  # of text


def choose_size(budget: str | None, *, num_bytes: int, cores: int) -> str:
    """Choose the largest model size that the time and the text allow to outperform the next smaller one.

    Minutes are those of two cores; more cores count in proportion. That `small` fits budgets of minutes was measured
    (docs/decisions/0006); where `medium` and `base` begin is an estimate. A budget in steps, tokens or epochs leaves
    the choice to the amount of text.
    """
    parsed = Budget.parse(budget or "10m")
    minutes = parsed.amount / 60 * cores / 2 if parsed.unit == "seconds" else math.inf
    sizes = [size for size in _MIN_MINUTES if minutes >= _MIN_MINUTES[size] and num_bytes >= _MIN_BYTES[size]]
    return sizes[-1] if sizes else SIZES[0]
