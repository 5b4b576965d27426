"""Text classification."""

import pytest
import torch
from tests.tasks.synthetic_examples import SOME, check_learning, examples, tuned

from polyseme.tasks.classification import balanced_class_weights


@pytest.mark.parametrize("family", SOME)
def test_every_input_format_learns(family):
    check_learning(family, "classify")


def test_label_has_the_highest_probability():
    model = tuned("bert", "classify", labels=("other", "colour", "animal"))
    for answer in model.predict(examples("classify")):
        assert list(answer.probabilities) == ["other", "colour", "animal"]
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.probabilities[answer.label] == max(answer.probabilities.values())


def test_class_weights():
    rows = [row for row in examples("classify") if row.label == "colour"][:9]
    rows += [row for row in examples("classify") if row.label == "animal"][:3]
    weights = balanced_class_weights(("animal", "colour", "none"), rows)
    assert weights == pytest.approx((12 / 9, 12 / 27, 4))
    plain, weighed = tuned("bert", "classify"), tuned("bert", "classify", weights=(2.0, 0.5))
    batch = plain.task.batch(plain.read(rows), seed=0, step=0)
    scores = torch.randn(len(batch.ids), 2)
    labels = batch.labels["classify"]
    each = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    expected = (each * torch.tensor([2.0, 0.5])[labels]).sum()
    torch.testing.assert_close(weighed.task.compare(scores, labels)[0], expected)
    torch.testing.assert_close(plain.task.compare(scores, labels)[0], each.sum())
