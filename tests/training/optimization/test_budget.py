"""Budgets in short forms and in words."""

import pytest

from polyseme.errors import ConfigError
from polyseme.training.optimization.budget import Budget


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("90s", 90, "seconds"),
        ("90 seconds", 90, "seconds"),
        ("45 sec", 45, "seconds"),
        ("10m", 600, "seconds"),
        ("10 min", 600, "seconds"),
        ("2 minutes", 120, "seconds"),
        ("1 minute", 60, "seconds"),
        ("1 hour", 3600, "seconds"),
        ("1.5 hours", 5400, "seconds"),
        ("2hrs", 7200, "seconds"),
        ("3epochs", 3, "epochs"),
        ("3 epochs", 3, "epochs"),
        ("500 steps", 500, "steps"),
        (" 1 step ", 1, "steps"),
        ("2k steps", 2000, "steps"),
        ("2M tokens", 2e6, "tokens"),
    ],
)
def test_spellings(text, amount, unit):
    assert Budget.parse(text) == Budget(amount, unit)


@pytest.mark.parametrize(
    "text", ["", "3", "10M", "0 minutes", "-1 epochs", "m", "5 parsecs", "1 minuteses", "2 k", "1h30", "epochs"]
)
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(ConfigError, match="is not a budget; use 90s, 10m"):
        Budget.parse(text)
