"""The AWD-LSTM language modelling objective."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch

from polyseme.datasets.token_store import TokenStore
from polyseme.families import build_objective
from polyseme.models.ulmfit import Ulmfit, UlmfitConfig
from polyseme.objectives.awd_lm import AwdLmConfig, random_span
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens

VOCAB, LENGTH, ROWS = 40, 20, 4
REGULARIZATION = {"activation_regularization": 2.0, "temporal_regularization": 1.0}
NONE = dict.fromkeys(REGULARIZATION, 0.0)


@pytest.fixture(scope="module")
def source():
    tokens = np.random.default_rng(0).integers(0, VOCAB, 5000).astype(np.uint16)
    store = TokenStore(
        tokens=tokens,
        sentences=np.array([0, 5000]),
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        num_unknown=0,
        fingerprint="",
    )
    return TokenSource(store, LENGTH, ROWS)


def build(direction="forward", **settings):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "width": 6, "inner_width": 9, "max_length": 16}
    encoder = Ulmfit(UlmfitConfig(**sizes, direction=direction))
    return encoder, build_objective(AwdLmConfig(**settings), encoder, SpecialTokens())


def test_random_lengths_follow_the_paper():
    lengths = np.array([random_span(70, seed=3, step=step)[1] for step in range(20_000)])
    assert lengths.min() >= 5
    halved = lengths < 52  # between the two modes
    assert halved.mean() == pytest.approx(0.05, abs=0.006)
    for part, mean in [(lengths[~halved], 70), (lengths[halved], 35)]:
        assert part.mean() == pytest.approx(mean - 0.5, abs=0.5), "whole tokens, rounded down"
        assert part.std() == pytest.approx(5, abs=0.4)
    assert min(random_span(6, seed=0, step=step)[1] for step in range(500)) == 5


def test_spans_are_contiguous_and_depend_on_seed_and_step_only():
    spans = [random_span(70, seed=0, step=step) for step in (*range(1020, 1030), *range(3))]
    for (num_read, length), (after, _) in pairwise(spans[:10]):
        assert after == num_read + length
    assert spans[10][0] == 0
    assert [random_span(70, seed=0, step=step) for step in (1025, 2)] == [spans[5], spans[12]]
    assert spans[10:] != [random_span(70, seed=1, step=step) for step in range(3)]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_batches_continue_the_previous_one(direction, source):
    _, objective = build(direction)
    batches = [objective.batch(source, seed=0, step=step) for step in range(6)]
    for batch in batches:
        assert batch.continues
        assert batch.length_ratio == batch.ids.shape[1] / LENGTH
    assert len({batch.ids.shape[1] for batch in batches}) > 3
    if direction == "backward":
        batches.reverse()
    ids = torch.cat([batch.ids for batch in batches], 1)  # in text order
    labels = torch.cat([batch.labels["causal_lm"] for batch in batches], 1)
    ahead, behind = (ids, labels) if direction == "forward" else (labels, ids)
    assert torch.equal(ahead[:, 1:], behind[:, :-1])
    text = source.store.tokens.tolist() * 2  # circular
    for row in ids.tolist():
        assert any(text[start : start + len(row)] == row for start in range(len(text) // 2))


def test_validation_and_fixed_lengths(source):
    _, objective = build()
    validation = dataclasses.replace(source, validation=True)
    assert {objective.batch(validation, seed=0, step=step).ids.shape for step in range(8)} == {(ROWS, LENGTH)}
    _, fixed = build(lengths="fixed")
    assert fixed.batch(source, seed=0, step=3).ids.shape == (ROWS, LENGTH)
    assert fixed.batch(source, seed=0, step=3).length_ratio == 1


def test_regularization_adds_gradient_but_no_loss(source):
    (encoder, objective), (_, plain) = build(**REGULARIZATION), build(**NONE)
    batch = objective.batch(source, seed=0, step=0)
    weights = list(encoder.parameters())

    def run(of):
        torch.manual_seed(7)
        loss = of(encoder, batch).losses["causal_lm"] / batch.counts["causal_lm"]
        return loss, torch.autograd.grad(loss, weights)

    loss, gradients = run(objective)
    plain_loss, plain_gradients = run(plain)
    assert loss.item() == plain_loss.item()
    torch.manual_seed(7)
    top = encoder(batch).layers[-1]
    dropped = encoder.drop_output(top)
    penalty = 2 * dropped.pow(2).mean() + (top[:, 1:] - top[:, :-1]).pow(2).mean()
    added = torch.autograd.grad(penalty, weights, materialize_grads=True)
    for found, before, more in zip(gradients, plain_gradients, added, strict=True):
        torch.testing.assert_close(found, before + more, atol=1e-6, rtol=1e-4)
    assert max(more.abs().max() for more in added) > 1e-4


def test_output_dropout_follows_the_mode_of_the_encoder(source):
    encoder, objective = build()
    batch = objective.batch(source, seed=0, step=0)
    encoder.eval()
    first, second = (objective.train()(encoder, batch).losses["causal_lm"].item() for _ in range(2))
    assert first == second, "the mode of the encoder decides"
    encoder.train()
    first, second = (objective(encoder, batch).losses["causal_lm"].item() for _ in range(2))
    assert first != second
