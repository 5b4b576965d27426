import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch

from polyseme.models.ulmfit import Ulmfit, UlmfitConfig
from polyseme.objectives import Source, build_objective
from polyseme.objectives.regularized import RegularizedConfig, drawn_span
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

VOCAB, LENGTH, ROWS = 40, 20, 4


@pytest.fixture(scope="module")
def source():
    tokens = np.random.default_rng(0).integers(0, VOCAB, 5000).astype(np.uint16)
    store = Store(
        tokens=tokens,
        sentences=np.array([0, 5000]),
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        unknown=0,
        fingerprint="",
    )
    return Source(store, LENGTH, ROWS)


def build(direction="forward", **settings):
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "width": 6, "inner_width": 9, "max_length": 16}
    encoder = Ulmfit(UlmfitConfig(**sizes, direction=direction))
    return encoder, build_objective(RegularizedConfig(**settings), encoder, Specials())


def test_lengths_are_distributed_as_in_the_paper():
    lengths = np.array([drawn_span(70, seed=3, step=step)[1] for step in range(20_000)])
    assert lengths.min() >= 5
    halved = lengths < 52  # between the two humps
    assert halved.mean() == pytest.approx(0.05, abs=0.006)
    for part, mean in [(lengths[~halved], 70), (lengths[halved], 35)]:
        assert part.mean() == pytest.approx(mean - 0.5, abs=0.5), "whole tokens, rounded down"
        assert part.std() == pytest.approx(5, abs=0.4)
    assert min(drawn_span(6, seed=0, step=step)[1] for step in range(500)) == 5


def test_spans_follow_each_other_and_depend_on_seed_and_step_alone():
    spans = [drawn_span(70, seed=0, step=step) for step in (*range(1020, 1030), *range(3))]
    for (read, length), (after, _) in pairwise(spans[:10]):
        assert after == read + length
    assert spans[10][0] == 0
    assert [drawn_span(70, seed=0, step=step) for step in (1025, 2)] == [spans[5], spans[12]]
    assert spans[10:] != [drawn_span(70, seed=1, step=step) for step in range(3)]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_rows_go_on_where_those_before_ended(direction, source):
    _, objective = build(direction)
    batches = [objective.batch(source, seed=0, step=step) for step in range(6)]
    for batch in batches:
        assert batch.continues
        assert batch.stretch == batch.ids.shape[1] / LENGTH
    assert len({batch.ids.shape[1] for batch in batches}) > 3
    if direction == "backward":
        batches.reverse()
    ids = torch.cat([batch.ids for batch in batches], 1)  # as they stand in the text
    labels = torch.cat([batch.labels["next_token"] for batch in batches], 1)
    ahead, behind = (ids, labels) if direction == "forward" else (labels, ids)
    assert torch.equal(ahead[:, 1:], behind[:, :-1])
    text = source.store.tokens.tolist() * 2  # whose end runs on into its beginning
    for row in ids.tolist():
        assert any(text[place : place + len(row)] == row for place in range(len(text) // 2))


def test_the_dev_text_is_read_in_rows_of_one_length(source):
    _, objective = build()
    measured = dataclasses.replace(source, measuring=True)
    assert {objective.batch(measured, seed=0, step=step).ids.shape for step in range(8)} == {(ROWS, LENGTH)}
    _, fixed = build(lengths="fixed")
    assert fixed.batch(source, seed=0, step=3).ids.shape == (ROWS, LENGTH)
    assert fixed.batch(source, seed=0, step=3).stretch == 1


def test_penalties_are_minimised_and_not_reported(source):
    (encoder, objective), (_, plain) = build(small=2.0, slow=1.0), build(small=0.0, slow=0.0)
    batch = objective.batch(source, seed=0, step=0)
    weights = list(encoder.parameters())

    def run(of):
        torch.manual_seed(7)
        loss = of(encoder, batch).losses["next_token"] / batch.counts["next_token"]
        return loss, torch.autograd.grad(loss, weights)

    loss, gradients = run(objective)
    nats, plain_gradients = run(plain)
    assert loss.item() == nats.item()
    torch.manual_seed(7)
    top = encoder(batch).layers[-1]
    dropped = encoder.drop_output(top)
    penalty = 2 * dropped.pow(2).mean() + (top[:, 1:] - top[:, :-1]).pow(2).mean()
    added = torch.autograd.grad(penalty, weights, materialize_grads=True)
    for found, before, more in zip(gradients, plain_gradients, added, strict=True):
        torch.testing.assert_close(found, before + more, atol=1e-6, rtol=1e-4)
    assert max(more.abs().max() for more in added) > 1e-4


def test_the_output_is_dropped_only_while_learning(source):
    encoder, objective = build()
    batch = objective.batch(source, seed=0, step=0)
    encoder.eval()
    first, second = (objective.train()(encoder, batch).losses["next_token"].item() for _ in range(2))
    assert first == second, "the encoder says when"
    encoder.train()
    first, second = (objective(encoder, batch).losses["next_token"].item() for _ in range(2))
    assert first != second
