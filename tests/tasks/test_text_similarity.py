"""Semantic text similarity."""

import dataclasses

import pytest
import torch
from tests.tasks.synthetic_examples import SOME, check_learning, examples, tuned


@pytest.mark.parametrize("family", SOME)
def test_every_input_format_learns(family):
    check_learning(family, "similarity")


def reversed_pair(example):
    return dataclasses.replace(example, text_a=example.text_b, text_b=example.text_a)


@pytest.mark.parametrize(("family", "same"), [("gpt", True), ("gpt2", True), ("bert", False)])
def test_order_does_not_matter_for_delimited_inputs(family, same):
    model = tuned(family, "similarity")
    rows = examples("similarity")[:8]
    orders = rows, [*map(reversed_pair, rows)]
    scores = [torch.tensor([answer.score for answer in model.predict(order)]) for order in orders]
    assert torch.allclose(*scores, atol=1e-5) is same


def test_both_orders_are_summed():
    model = tuned("gpt", "similarity")
    batch = model.task.batch(model.read(examples("similarity")[:3]), seed=0, step=0)
    assert batch.rows_per_example == 2 and len(batch.ids) == 6 and batch.counts["similarity"] == 3
    encoded = model.encoder.eval()(batch)
    last = encoded.layers[-1][torch.arange(6), batch.mask.sum(1) - 1]
    scores = model.task.eval().scores(model.encoder, encoded, batch)
    torch.testing.assert_close(scores, model.task.head(last[0::2] + last[1::2]))


def test_scores_are_on_the_scale_of_the_examples():
    model = tuned("skipgram", "similarity", mean=50.0, deviation=20.0)
    torch.nn.init.zeros_(model.task.head.output.weight)
    torch.nn.init.constant_(model.task.head.output.bias, 0.5)
    assert [answer.score for answer in model.predict(examples("similarity")[:2])] == pytest.approx([60, 60])
    assert model.task.target(dataclasses.replace(examples("similarity")[0], score=90.0)) == 2
