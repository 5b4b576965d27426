"""Recurrent state, carried from the rows of one step to those of the next."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from polyseme.models.base import Encoder, ModelConfig
from polyseme.objectives import Source, Together
from polyseme.objectives.next_token import NextToken
from polyseme.tensors import Batch, Encoded, Recurrent
from polyseme.text.store import Store
from polyseme.train.learner import GradientLearner, evaluate
from polyseme.train.plan import PlanConfig
from polyseme.train.replicas import Replicas

WIDTH, VOCAB, LENGTH, ROWS = 6, 50, 8, 4


class Reader(Encoder):
    """The least that carries a state."""

    Config = ModelConfig
    context = "left"

    def __init__(self) -> None:
        super().__init__()
        self.config = ModelConfig(vocab_size=VOCAB)
        self.widths = (WIDTH, WIDTH)
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, batch, state=None):
        state = state or Recurrent(batch.carried)
        x = self.tokens(batch.ids)
        before = [state.carried[name].transpose(0, 1).contiguous() for name in ("hidden", "cell")]
        top, (hidden, cell) = self.layer(x, tuple(before))
        after = Recurrent({"hidden": hidden.transpose(0, 1), "cell": cell.transpose(0, 1)}, state.length + x.shape[1])
        return Encoded(layers=(x, top), mask=batch.mask, state=after)

    def begin(self, num_rows, max_length):
        return Recurrent({name: torch.zeros(num_rows, 1, WIDTH) for name in ("hidden", "cell")})

    def stages(self):
        return [self.tokens, self.layer]


class Stream(NextToken):
    def draw(self, source, *, seed, step):
        rows = torch.from_numpy(source.read(source.streams(step * source.length, source.length + 1, seed=seed)))
        batch = Batch.of(rows[:, :-1].contiguous(), continues=True)
        return batch.labelled("next_token", rows[:, 1:].contiguous())


def source_of(num_tokens: int = 997, rows: int = ROWS) -> Source:
    tokens = np.random.default_rng(0).integers(0, VOCAB, num_tokens).astype(np.uint16)
    ends = np.array([0, num_tokens])
    store = Store(
        tokens=tokens,
        sentences=ends,
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        unknown=0,
        fingerprint="",
    )
    return Source(store, LENGTH, rows)


def learner_of(*, replicas: int = 1, **plan) -> GradientLearner:
    torch.manual_seed(0)
    encoder, objective = Reader(), Together({"next_token": Stream()})
    learner = GradientLearner(encoder, objective, source_of(), PlanConfig(steps=12, threads=1, **plan))
    learner.replicas = Replicas(encoder, objective, replicas)
    return learner


def run(learner: GradientLearner, until: int) -> GradientLearner:
    steps = learner.steps()
    while learner.done < until:
        next(steps)
    steps.close()
    return learner


@given(st.integers(1, 300), st.integers(1, 7), st.integers(1, 9), st.integers(0, 50), st.integers(0, 3))
def test_rows_go_on_where_they_ended(num_tokens, rows, length, step, seed):
    source = source_of(num_tokens, rows)
    here, after = (source.streams(s * length, length, seed=seed) for s in (step, step + 1))
    assert here.shape == (rows, length)
    together = np.concatenate([here, after], 1)
    assert np.array_equal(together[:, 1:], (together[:, :-1] + 1) % num_tokens)


def test_rows_read_the_whole_text_once():
    source = source_of(num_tokens=960)
    read = np.concatenate([source.streams(step * LENGTH, LENGTH, seed=1).flatten() for step in range(960 // 8 // ROWS)])
    assert sorted(read.tolist()) == list(range(960))
    assert source.streams(0, 1, seed=1).tolist() != source.streams(0, 1, seed=2).tolist()


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("micro_tokens", [LENGTH, 3 * LENGTH, 100 * LENGTH])
def test_the_state_is_that_of_reading_at_once(replicas, micro_tokens):
    learner = learner_of(replicas=replicas, rate=1e-30, decay=0.0, micro_tokens=micro_tokens)
    run(learner, 3)
    ids = torch.from_numpy(learner.source.read(learner.source.streams(0, 3 * LENGTH, seed=0)))
    whole = learner.encoder(Batch.of(ids), learner.encoder.begin(ROWS, 3 * LENGTH)).state
    for name, tensor in learner.carried.items():
        torch.testing.assert_close(tensor, whole.carried[name])
        assert not tensor.requires_grad and tensor.abs().max() > 0


@pytest.mark.parametrize("at", [1, 5, 11])
def test_resume_is_bit_exact(at):
    whole = run(learner_of(), 12)
    resumed = learner_of()
    resumed.restore(copy.deepcopy(run(learner_of(), at).state()))
    run(resumed, 12)
    for group in ("weights", "carried"):
        for name, tensor in whole.state().tensors[group].items():
            assert torch.equal(tensor, resumed.state().tensors[group][name]), name


def test_what_is_carried_matters():
    cold = learner_of()
    state = copy.deepcopy(run(learner_of(), 5).state())
    cold.restore(state)
    cold.carried = {}
    warm = learner_of()
    warm.restore(state)
    assert run(cold, 6)._gradient(_batch(cold, 6)) != run(warm, 6)._gradient(_batch(warm, 6))


def test_memory_that_runs_out_does_not_move_the_state(monkeypatch):
    plain = run(learner_of(), 2)
    short = learner_of(micro_tokens=LENGTH * 2)
    run(short, 1)
    forward, calls = Stream.cost, []

    def fail_once(*arguments):
        calls.append(1)
        if len(calls) == 2:  # after the state of the first rows has been put away
            raise MemoryError
        return forward(*arguments)

    monkeypatch.setattr(Stream, "cost", fail_once)
    run(short, 2)
    assert len(calls) > 3
    for name, tensor in plain.carried.items():
        torch.testing.assert_close(short.carried[name], tensor)


def test_a_step_that_is_skipped_is_not_gone_on_from():
    learner = run(learner_of(), 2)
    with torch.no_grad():
        learner.encoder.tokens.weight.fill_(torch.nan)
    run(learner, 3)
    assert not learner.carried


def test_other_rows_start_afresh():
    learner = run(learner_of(), 2)
    learner.source = source_of(rows=ROWS + 1)
    learner._gradient(_batch(learner, 0))
    assert all(len(tensor) == ROWS + 1 for tensor in learner.carried.values())


def test_evaluation_carries_too():
    learner = learner_of()
    ids = torch.from_numpy(learner.source.read(learner.source.streams(0, 3 * LENGTH + 1, seed=0)))
    batch = Batch.of(ids[:, :-1]).labelled("next_token", ids[:, 1:])
    learner.encoder.eval(), learner.objective.eval()
    with torch.inference_mode():
        whole = learner.objective(learner.encoder, batch, learner.encoder.begin(ROWS, 3 * LENGTH)).losses["next_token"]
    found = evaluate(learner.encoder, learner.objective, learner.source, num_batches=3)["next_token"]
    assert found == pytest.approx(whole.item() / (ROWS * 3 * LENGTH), rel=1e-6)


def _batch(learner: GradientLearner, step: int) -> Batch:
    return learner.objective.batch(learner.source, seed=0, step=step)
