"""Multiple choice."""

import dataclasses

import pytest
from tests.tasks.synthetic_examples import DIFFERENT, check_learning, examples, tuned


@pytest.mark.parametrize("family", DIFFERENT)
def test_every_family_learns(family):
    check_learning(family, "choice")


@pytest.mark.parametrize("family", ["bert", "gpt", "skipgram"])
def test_batches_have_the_same_number_of_choices(family):
    model, rows = tuned(family, "choice"), examples("choice")
    source = model.read(rows, num_rows=7)
    seen = []
    for step in range(len(source.batches)):
        batch = model.task.batch(source, seed=3, step=step)
        assert (
            len(batch.ids) % batch.rows_per_example == 0
            and batch.counts["choice"] == len(batch.ids) // batch.rows_per_example <= 7
        )
        seen.append(batch.rows_per_example - (family == "skipgram"))  # the text before the choices has a row of its own
    assert set(seen) == {len(row.choices) for row in rows}


@pytest.mark.parametrize("family", ["bert", "skipgram"])
def test_order_of_choices_does_not_matter(family):
    model, rows = tuned(family, "choice"), examples("choice")[:6]
    turned = [dataclasses.replace(row, choices=row.choices[::-1]) for row in rows]
    for one, other, row in zip(model.predict(rows), model.predict(turned), rows, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities[::-1], abs=1e-5)
        assert len(one.probabilities) == len(row.choices)
