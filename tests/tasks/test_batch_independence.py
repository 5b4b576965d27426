"""Predictions do not depend on the other examples of a batch."""

import dataclasses
import math

import pytest
from tests.tasks.synthetic_examples import DIFFERENT, KINDS, examples, tuned

METHODS = [("bert", "mix"), ("gpt2", "frozen"), ("elmo", "mix"), ("ulmfit", "gradual"), ("elmo", "gradual")]


def numbers_of(answer):
    """All numbers of a prediction, in order."""
    if isinstance(answer, bool | str) or answer is None:
        return []
    if isinstance(answer, int | float):
        return [float(answer)]
    if dataclasses.is_dataclass(answer):
        answer = [getattr(answer, field.name) for field in dataclasses.fields(answer)]
    parts = answer.values() if isinstance(answer, dict) else answer
    return [number for part in parts for number in numbers_of(part) if math.isfinite(number)]


def check(model, kind):
    targets = [example for seed in range(2) for example in examples(kind, 6, seed=seed)]
    together = model.predict(targets, num_rows=5)
    for example, answer in zip(targets, together, strict=True):
        (alone,) = model.predict([example])
        assert numbers_of(alone) == pytest.approx(numbers_of(answer), abs=1e-5)
        assert numbers_of(alone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", DIFFERENT)
def test_alone_or_in_a_batch(family, kind):
    check(tuned(family, kind), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "method"), METHODS)
def test_alone_or_in_a_batch_with_other_methods(family, method, kind):
    check(tuned(family, kind, method=method), kind)


def test_alone_or_in_a_batch_with_cross_view_training():
    check(tuned("skipgram", "tag", method="cvt"), "tag")
