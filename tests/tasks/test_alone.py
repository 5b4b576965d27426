"""An answer does not depend on what else is asked at the same time."""

import dataclasses
import math

import pytest
from made_up import DIFFERENT, KINDS, examples, tuned

METHODS = [("bert", "mix"), ("gpt2", "frozen"), ("elmo", "mix"), ("ulmfit", "gradual"), ("elmo", "gradual")]


def numbers_of(answer):
    """Every number of an answer, in order."""
    if isinstance(answer, bool | str) or answer is None:
        return []
    if isinstance(answer, int | float):
        return [float(answer)]
    if dataclasses.is_dataclass(answer):
        answer = [getattr(answer, field.name) for field in dataclasses.fields(answer)]
    parts = answer.values() if isinstance(answer, dict) else answer
    return [number for part in parts for number in numbers_of(part) if math.isfinite(number)]


def check(model, kind):
    asked = [example for seed in range(2) for example in examples(kind, 6, seed=seed)]
    together = model.predict(asked, num_rows=5)
    for example, answer in zip(asked, together, strict=True):
        (alone,) = model.predict([example])
        assert numbers_of(alone) == pytest.approx(numbers_of(answer), abs=1e-5)
        assert numbers_of(alone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", DIFFERENT)
def test_alone_or_together(family, kind):
    check(tuned(family, kind), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "method"), METHODS)
def test_alone_or_together_by_other_methods(family, method, kind):
    check(tuned(family, kind, method=method), kind)


def test_alone_or_together_with_views():
    check(tuned("skipgram", "tag", method="cvt"), "tag")
