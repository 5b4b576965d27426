"""Recurrent state that is passed from one step to the next."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from polyseme.batch import Batch, Encoded, RecurrentState
from polyseme.datasets.token_store import TokenStore
from polyseme.models.base import Encoder, ModelConfig
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.training.optimization.gradient_learner import GradientLearner, evaluate
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.optimization.thread_parallel import ThreadReplicas

WIDTH, VOCAB, LENGTH, ROWS = 6, 50, 8, 4


class Reader(Encoder):
    """A minimal encoder with a recurrent state."""

    Config = ModelConfig
    context = "left"

    def __init__(self) -> None:
        super().__init__(ModelConfig(vocab_size=VOCAB))
        self.widths = (WIDTH, WIDTH)
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.layer = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, batch, state=None):
        state = state or RecurrentState(batch.initial_state)
        x = self.tokens(batch.ids)
        before = [state.recurrent_state[name].transpose(0, 1).contiguous() for name in ("hidden", "cell")]
        top, (hidden, cell) = self.layer(x, tuple(before))
        after = RecurrentState(
            {"hidden": hidden.transpose(0, 1), "cell": cell.transpose(0, 1)}, state.length + x.shape[1]
        )
        return Encoded(layers=(x, top), mask=batch.mask, state=after)

    def new_state(self, num_rows, max_length):
        return RecurrentState({name: torch.zeros(num_rows, 1, WIDTH) for name in ("hidden", "cell")})

    def layer_groups(self):
        return [self.tokens, self.layer]


class Stream(CausalLm):
    def draw_batch(self, source, *, seed, step):
        rows = torch.from_numpy(
            source.read(source.stream_positions(step * source.length, source.length + 1, seed=seed))
        )
        batch = Batch.of(rows[:, :-1].contiguous(), continues=True)
        return batch.with_labels("causal_lm", rows[:, 1:].contiguous())


def source_of(num_tokens: int = 997, rows: int = ROWS) -> TokenSource:
    tokens = np.random.default_rng(0).integers(0, VOCAB, num_tokens).astype(np.uint16)
    ends = np.array([0, num_tokens])
    store = TokenStore(
        tokens=tokens,
        sentences=ends,
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        num_unknown=0,
        fingerprint="",
    )
    return TokenSource(store, LENGTH, rows)


def learner_of(*, replicas: int = 1, **training) -> GradientLearner:
    torch.manual_seed(0)
    encoder, objective = Reader(), JointObjective({"causal_lm": Stream()})
    learner = GradientLearner(encoder, objective, source_of(), TrainingConfig(steps=12, threads=1, **training))
    learner.replicas = ThreadReplicas(encoder, objective, replicas)
    return learner


def run(learner: GradientLearner, until: int) -> GradientLearner:
    steps = learner.steps()
    while learner.steps_done < until:
        next(steps)
    steps.close()
    return learner


@given(st.integers(1, 300), st.integers(1, 7), st.integers(1, 9), st.integers(0, 50), st.integers(0, 3))
def test_rows_continue_those_of_the_step_before(num_tokens, rows, length, step, seed):
    source = source_of(num_tokens, rows)
    here, after = (source.stream_positions(s * length, length, seed=seed) for s in (step, step + 1))
    assert here.shape == (rows, length)
    together = np.concatenate([here, after], 1)
    assert np.array_equal(together[:, 1:], (together[:, :-1] + 1) % num_tokens)


def test_rows_read_the_whole_text_once():
    source = source_of(num_tokens=960)
    read = np.concatenate(
        [source.stream_positions(step * LENGTH, LENGTH, seed=1).flatten() for step in range(960 // 8 // ROWS)]
    )
    assert sorted(read.tolist()) == list(range(960))
    assert source.stream_positions(0, 1, seed=1).tolist() != source.stream_positions(0, 1, seed=2).tolist()


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("micro_batch_tokens", [LENGTH, 3 * LENGTH, 100 * LENGTH])
def test_state_equals_that_of_one_long_sequence(replicas, micro_batch_tokens):
    learner = learner_of(
        replicas=replicas, learning_rate=1e-30, weight_decay=0.0, micro_batch_tokens=micro_batch_tokens
    )
    run(learner, 3)
    ids = torch.from_numpy(learner.source.read(learner.source.stream_positions(0, 3 * LENGTH, seed=0)))
    whole = learner.encoder(Batch.of(ids), learner.encoder.new_state(ROWS, 3 * LENGTH)).state
    for name, tensor in learner.recurrent_state.items():
        torch.testing.assert_close(tensor, whole.recurrent_state[name])
        assert not tensor.requires_grad and tensor.abs().max() > 0


@pytest.mark.parametrize("at", [1, 5, 11])
def test_resume_is_bit_exact(at):
    whole = run(learner_of(), 12)
    resumed = learner_of()
    resumed.restore(copy.deepcopy(run(learner_of(), at).state()))
    run(resumed, 12)
    for group in ("weights", "recurrent_state"):
        for name, tensor in whole.state().tensors[group].items():
            assert torch.equal(tensor, resumed.state().tensors[group][name]), name


def test_recurrent_state_affects_losses():
    cold = learner_of()
    state = copy.deepcopy(run(learner_of(), 5).state())
    cold.restore(state)
    cold.recurrent_state = {}
    warm = learner_of()
    warm.restore(state)
    assert run(cold, 6)._accumulate_gradient(_batch(cold, 6)) != run(warm, 6)._accumulate_gradient(_batch(warm, 6))


def test_out_of_memory_does_not_advance_the_state(monkeypatch):
    plain = run(learner_of(), 2)
    short = learner_of(micro_batch_tokens=LENGTH * 2)
    run(short, 1)
    forward, calls = Stream.loss, []

    def fail_once(*arguments):
        calls.append(1)
        if len(calls) == 2:  # after the state of the first rows has been put away
            raise MemoryError
        return forward(*arguments)

    monkeypatch.setattr(Stream, "loss", fail_once)
    run(short, 2)
    assert len(calls) > 3
    for name, tensor in plain.recurrent_state.items():
        torch.testing.assert_close(short.recurrent_state[name], tensor)


def test_skipped_step_resets_the_state():
    learner = run(learner_of(), 2)
    with torch.no_grad():
        learner.encoder.tokens.weight.fill_(torch.nan)
    run(learner, 3)
    assert not learner.recurrent_state


def test_another_number_of_rows_resets_the_state():
    learner = run(learner_of(), 2)
    learner.source = source_of(rows=ROWS + 1)
    learner._accumulate_gradient(_batch(learner, 0))
    assert all(len(tensor) == ROWS + 1 for tensor in learner.recurrent_state.values())


def test_evaluation_passes_state_too():
    learner = learner_of()
    ids = torch.from_numpy(learner.source.read(learner.source.stream_positions(0, 3 * LENGTH + 1, seed=0)))
    batch = Batch.of(ids[:, :-1]).with_labels("causal_lm", ids[:, 1:])
    learner.encoder.eval(), learner.objective.eval()
    with torch.inference_mode():
        whole = learner.objective(learner.encoder, batch, learner.encoder.new_state(ROWS, 3 * LENGTH)).losses[
            "causal_lm"
        ]
    found = evaluate(learner.encoder, learner.objective, learner.source, num_batches=3)["causal_lm"]
    assert found == pytest.approx(whole.item() / (ROWS * 3 * LENGTH), rel=1e-6)


def _batch(learner: GradientLearner, step: int) -> Batch:
    return learner.objective.batch(learner.source, seed=0, step=step)
