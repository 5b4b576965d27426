"""Sentence-pair classification."""

import pytest
import torch
from tests.tasks.synthetic_examples import DIFFERENT, check_learning, examples, tuned


@pytest.mark.parametrize("family", DIFFERENT)
def test_every_family_learns(family):
    check_learning(family, "pair")


def test_bi_encoder_compares_vectors():
    model = tuned("skipgram", "pair")
    batch = model.task.batch(model.read(examples("pair")[:3]), seed=0, step=0)
    encoded = model.encoder.eval()(batch)
    task = model.task.eval()
    left, right = task.features.pool_rows(model.encoder, encoded, task.features(encoded)).view(3, 2, -1).unbind(1)
    expected = task.head(torch.cat([left, right, (left - right).abs(), left * right], -1))
    torch.testing.assert_close(task.scores(model.encoder, encoded, batch), expected)
