"""Bidirectional language modelling, with full, sampled and adaptive softmax."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyseme.batch import IGNORED
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import ConfigError
from polyseme.families import build_objective
from polyseme.layers.sampled_softmax import AdaptiveSoftmax, SampledCandidates, Softmax
from polyseme.models.elmo import Elmo, ElmoConfig
from polyseme.objectives.bidirectional_lm import BidirectionalLmConfig, DelimitedSentences
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens

START, END, FIRST = 0, 1, 3
SPECIALS = SpecialTokens(start=START, separator=END, unknown=2, end=END)


def store_of(documents: list[list[int]]) -> TokenStore:
    """A store of sentences of these lengths; a word is its own position, and documents end with an end token."""
    lengths = [length for document in documents for length in document]
    tokens = np.arange(FIRST, FIRST + sum(lengths))
    firsts = np.cumsum([0, *(len(document) for document in documents)])
    sentences = np.cumsum([0, *lengths])
    tokens[sentences[firsts[1:]] - 1] = END
    return TokenStore(
        tokens=tokens.astype(np.uint32),
        sentences=sentences,
        documents=firsts,
        num_characters=sum(lengths),
        num_words=sum(lengths),
        num_unknown=0,
        fingerprint="",
    )


def objective_of(vocab_size: int, **settings):
    sizes = {"width": 4, "cell_width": 5, "filters": ((1, 4),), "num_highways": 0, "num_layers": 1}
    encoder = Elmo(ElmoConfig(vocab_size=vocab_size, **sizes))
    return encoder, build_objective(BidirectionalLmConfig(**settings), encoder, SPECIALS)


corpora = st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=4), min_size=1, max_size=5)


@given(corpora)
def test_every_sentence_has_a_start_and_an_end_token(documents):
    store = store_of(documents)
    text = DelimitedSentences(store, START, END)
    expected = []
    for first, last in zip(store.sentences, store.sentences[1:], strict=False):
        sentence = store.tokens[first:last].tolist()
        expected += [START, *sentence, *([] if sentence[-1] == END else [END])]
    assert text.read(np.arange(text.num_tokens)).tolist() == expected
    assert text.read(np.array([-1, text.num_tokens])).tolist() == [expected[-1], expected[0]]


@given(corpora, st.integers(1, 9), st.integers(1, 4), st.integers(0, 20), st.integers(0, 3))
def test_each_direction_continues_the_previous_batch(documents, length, num_rows, step, seed):
    store = store_of(documents)
    text = DelimitedSentences(store, START, END)
    whole = text.read(np.arange(text.num_tokens)).tolist() * 2
    _, objective = objective_of(FIRST + store.num_tokens)
    source = TokenSource(store, length, num_rows)
    here, after = (objective.batch(source, seed=seed, step=s) for s in (step, step + 1))
    assert here.continues
    last, first = after.labels["forward"][:, -1:], after.labels["backward"][:, -1:]
    rows = torch.cat([here.ids, after.ids, last.where(last >= 0, START)], 1)
    backward = torch.cat([here.backward_ids, after.backward_ids, first.where(first >= 0, END)], 1)
    for row, reverse in zip(rows.tolist(), backward.tolist(), strict=True):
        assert _inside(row, whole) and _inside(reverse[::-1], whole)
    for name, ids, ignored in (("forward", here.ids, START), ("backward", here.backward_ids, END)):
        labels = here.labels[name][:, :-1]
        assert torch.equal(labels == IGNORED, ids[:, 1:] == ignored)
        assert torch.equal(labels[labels != IGNORED], ids[:, 1:][labels != IGNORED])


def _inside(part: list[int], whole: list[int]) -> bool:
    whole = whole * (2 + len(part) // len(whole))
    return any(whole[start : start + len(part)] == part for start in range(len(whole) - len(part) + 1))


def test_number_of_predictions():
    store = store_of([[4, 3], [5]])
    _, objective = objective_of(FIRST + store.num_tokens)
    forward = objective.parts[0]
    source = TokenSource(store, 1, 1)
    counts = [objective.batch(source, seed=0, step=step).counts["forward"] for step in range(16)]  # 12 tokens, 4 added
    assert (
        DelimitedSentences(store, START, END).num_tokens == 16 and sum(counts) == forward.num_predictions(store) == 13
    )
    metrics = objective.metrics({"forward": np.log(8), "backward": np.log(4)}, source)
    assert metrics == pytest.approx(
        {"forward_perplexity": 8, "backward_perplexity": 4, "bits_per_character": 2.5 * 13 / 12}
    )


def test_auto_softmax_depends_on_the_vocabulary_size():
    def kind(vocab_size):
        with torch.device("meta"):
            _, objective = objective_of(vocab_size)
        part = objective.parts[0]
        return type(part.softmax), part.num_sampled > 0

    assert kind(8_000) == (Softmax, False)
    assert kind(50_000) == (Softmax, True)
    assert kind(800_000) == (AdaptiveSoftmax, False)


def test_both_directions_share_the_output_layer():
    _, objective = objective_of(50)
    assert set(objective.state_dict()) == {"bidirectional_lm.softmax.weight", "bidirectional_lm.softmax.bias"}
    assert objective.weights["forward"] == objective.weights["backward"] == 0.5


def test_candidates_contain_the_targets_and_have_their_expected_counts():
    store = store_of([[50] * 4] * 5)
    _, objective = objective_of(FIRST + store.num_tokens, softmax="sampled", num_sampled=40)
    source = TokenSource(store, 4, 2)
    seen = np.zeros(FIRST + store.num_tokens)
    for step in range(400):
        batch = objective.batch(source, seed=0, step=step)
        ids, expected = batch.sampled_candidates
        labels = torch.cat([batch.labels[name].flatten() for name in ("forward", "backward")])
        targets = labels[labels != IGNORED]
        assert bool(torch.isin(targets, ids).all()) and torch.equal(ids, ids.unique())
        assert bool((expected > 0).all() and (expected <= 1).all())
        seen[ids] += 1
        if step == 0:
            first = batch
    assert torch.equal(objective.batch(source, seed=0, step=0).sampled_candidates[0], first.sampled_candidates[0])
    ids, expected = first.sampled_candidates
    # Targets are uniformly distributed here and hardly change how often frequent words are sampled.
    frequent = ids[ids < 8]
    probabilities = np.log1p(1 / (frequent.numpy() + 1)) / np.log(len(seen) + 1)
    num_targets = sum(first.counts.values())
    np.testing.assert_allclose(expected[: len(frequent)], 1 - (1 - probabilities) ** (40 + num_targets), rtol=1e-5)
    np.testing.assert_allclose(seen[frequent] / 400, 1 - (1 - probabilities) ** 40, atol=0.06)


def test_sampling_all_words_equals_the_full_softmax():
    torch.manual_seed(0)
    softmax, hidden, targets = Softmax(30, 4), torch.randn(6, 4), torch.tensor([3, 4, 5, 3, 29, 0])
    whole = softmax.loss(hidden, targets, None)
    torch.testing.assert_close(
        softmax.loss(hidden, targets, SampledCandidates(torch.arange(30), torch.ones(30))), whole
    )
    torch.testing.assert_close(softmax.token_nll(hidden, targets)[0].sum(), whole)


def test_adaptive_softmax_is_normalized():
    torch.manual_seed(0)
    softmax, hidden = AdaptiveSoftmax(40, 8), torch.randn(5, 8)
    logits = softmax.logits(hidden)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(5))
    targets = torch.tensor([0, 1, 5, 20, 39])
    nll, correct = softmax.token_nll(hidden, targets)
    torch.testing.assert_close(nll, -logits[range(5), targets])
    torch.testing.assert_close(softmax.loss(hidden, targets, None), nll.sum())
    assert torch.equal(correct, logits.argmax(-1) == targets)


@pytest.mark.parametrize("softmax", ["full", "sampled", "adaptive"])
def test_training_reduces_the_loss_with_every_softmax(softmax):
    torch.manual_seed(0)
    store = store_of([[7, 9, 4], [10]])
    encoder, objective = objective_of(FIRST + store.num_tokens, softmax=softmax, num_sampled=8)
    batch = objective.batch(TokenSource(store, 8, 4), seed=0, step=0)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=0.02)
    history = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = sum(objective(encoder, batch).losses.values())
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    objective.eval()
    output = objective(encoder, dataclasses.replace(batch, sampled_candidates=None))
    assert history[-1] < 0.85 * history[0]
    assert sum(output.losses.values()).item() / (batch.counts["forward"] * 2) < np.log(FIRST + store.num_tokens)
    assert set(output.correct) == {"forward", "backward"}


def test_a_tokenizer_without_sentence_markers_is_rejected():
    with pytest.raises(ConfigError, match="tokens for start, end"):
        build_objective(BidirectionalLmConfig(), objective_of(20)[0], SpecialTokens(end=0))
