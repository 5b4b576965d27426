"""Batches of examples: a pure function of seed and step, of about the same length."""

import numpy as np
import pytest
from tests.tasks.synthetic_examples import examples, tuned


@pytest.mark.parametrize("kind", ["classify", "choice"])
def test_an_epoch_has_every_example_once(kind):
    model, rows = tuned("bert", kind), examples(kind)
    source = model.read(rows, num_rows=7)
    num_batches = len(source.batches)
    for epoch in range(2):
        drawn = [source.batches.draw(seed=1, step=epoch * num_batches + place) for place in range(num_batches)]
        assert sorted(np.concatenate(drawn).tolist()) == list(range(len(rows)))
        assert all(1 <= len(numbers) <= 7 for numbers in drawn)
    assert max(map(len, drawn)) - min(map(len, drawn)) <= (1 if kind == "classify" else 7)


def test_batches_are_a_function_of_seed_and_step():
    model, rows = tuned("bert", "classify"), examples("classify")
    first, second = model.read(rows, num_rows=7), model.read(rows, num_rows=7)
    same = [model.task.batch(source, seed=1, step=9) for source in (first, second)]
    assert same[0].ids.equal(same[1].ids) and same[0].labels["classify"].equal(same[1].labels["classify"])
    steps = ((2, 9), (1, 10), (1, 9 + len(first.batches)))
    others = [model.task.batch(first, seed=seed, step=step) for seed, step in steps]
    assert all(not np.array_equal(other.ids, same[0].ids) for other in others)


def test_rows_of_a_batch_have_about_the_same_length():
    model, rows = tuned("skipgram", "classify"), examples("classify", 64)
    source = model.read(rows, num_rows=16)
    lengths = [len(item.rows[0].ids) for item in source.instances]
    padded = sum(model.task.batch(source, seed=0, step=step).ids.numel() for step in range(len(source.batches)))
    assert sum(lengths) <= padded < 1.2 * sum(lengths) and max(lengths) * len(rows) > 1.2 * padded


def test_labels_are_at_the_first_row_of_an_example():
    model = tuned("skipgram", "pair")
    batch = model.task.batch(model.read(examples("pair"), num_rows=4), seed=0, step=0)
    assert (
        batch.rows_per_example == 2
        and (batch.labels["pair"][1::2] == -100).all()
        and (batch.labels["pair"][0::2] >= 0).all()
    )
    assert batch.counts["pair"] == len(batch.ids) // 2
