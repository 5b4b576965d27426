"""Words predicted from either side."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import ConfigError
from polyseme.models.elmo import Elmo, ElmoConfig
from polyseme.objectives import Source, build_objective
from polyseme.objectives.both_ways import AdaptiveSoftmax, BothWaysConfig, Sentences, Softmax
from polyseme.tensors import IGNORED
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

START, END, FIRST = 0, 1, 3
SPECIALS = Specials(start=START, separator=END, unknown=2, end=END)


def store_of(documents: list[list[int]]) -> Store:
    """A store from the lengths of sentences; a word is its own position, and the last of a document is its end."""
    lengths = [length for document in documents for length in document]
    tokens = np.arange(FIRST, FIRST + sum(lengths))
    firsts = np.cumsum([0, *(len(document) for document in documents)])
    sentences = np.cumsum([0, *lengths])
    tokens[sentences[firsts[1:]] - 1] = END
    return Store(
        tokens=tokens.astype(np.uint32),
        sentences=sentences,
        documents=firsts,
        num_characters=sum(lengths),
        num_words=sum(lengths),
        unknown=0,
        fingerprint="",
    )


def objective_of(vocab_size: int, **settings):
    sizes = {"width": 4, "cell_width": 5, "filters": ((1, 4),), "num_highways": 0, "num_layers": 1}
    encoder = Elmo(ElmoConfig(vocab_size=vocab_size, **sizes))
    return encoder, build_objective(BothWaysConfig(**settings), encoder, SPECIALS)


corpora = st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=4), min_size=1, max_size=5)


@given(corpora)
def test_every_sentence_has_a_beginning_and_an_end(documents):
    store = store_of(documents)
    text = Sentences(store, START, END)
    expected = []
    for first, last in zip(store.sentences, store.sentences[1:], strict=False):
        sentence = store.tokens[first:last].tolist()
        expected += [START, *sentence, *([] if sentence[-1] == END else [END])]
    assert text.read(np.arange(text.num_tokens)).tolist() == expected
    assert text.read(np.array([-1, text.num_tokens])).tolist() == [expected[-1], expected[0]]


@given(corpora, st.integers(1, 9), st.integers(1, 4), st.integers(0, 20), st.integers(0, 3))
def test_each_direction_goes_on_where_it_ended(documents, length, num_rows, step, seed):
    store = store_of(documents)
    text = Sentences(store, START, END)
    whole = text.read(np.arange(text.num_tokens)).tolist() * 2
    _, objective = objective_of(FIRST + store.num_tokens)
    source = Source(store, length, num_rows)
    here, after = (objective.batch(source, seed=seed, step=s) for s in (step, step + 1))
    assert here.continues
    last, first = after.labels["forwards"][:, -1:], after.labels["backwards"][:, -1:]
    rows = torch.cat([here.ids, after.ids, last.where(last >= 0, START)], 1)
    mirrored = torch.cat([here.mirrored, after.mirrored, first.where(first >= 0, END)], 1)
    for row, mirror in zip(rows.tolist(), mirrored.tolist(), strict=True):
        assert _inside(row, whole) and _inside(mirror[::-1], whole)
    for name, ids, ignored in (("forwards", here.ids, START), ("backwards", here.mirrored, END)):
        labels = here.labels[name][:, :-1]
        assert torch.equal(labels == IGNORED, ids[:, 1:] == ignored)
        assert torch.equal(labels[labels != IGNORED], ids[:, 1:][labels != IGNORED])


def _inside(part: list[int], whole: list[int]) -> bool:
    whole = whole * (2 + len(part) // len(whole))
    return any(whole[start : start + len(part)] == part for start in range(len(whole) - len(part) + 1))


def test_what_is_asked_is_what_is_counted():
    store = store_of([[4, 3], [5]])
    _, objective = objective_of(FIRST + store.num_tokens)
    forwards = objective.parts[0]
    source = Source(store, 1, 1)
    asked = [objective.batch(source, seed=0, step=step).counts["forwards"] for step in range(16)]  # 12 and 4 marks
    assert Sentences(store, START, END).num_tokens == 16 and sum(asked) == forwards.num_asked(store) == 13
    figures = objective.figures({"forwards": np.log(8), "backwards": np.log(4)}, source)
    assert figures == pytest.approx(
        {"forwards_perplexity": 8, "backwards_perplexity": 4, "bits_per_character": 2.5 * 13 / 12}
    )


def test_the_softmax_fits_the_vocabulary():
    def kind(vocab_size):
        with torch.device("meta"):
            _, objective = objective_of(vocab_size)
        part = objective.parts[0]
        return type(part.softmax), part.num_drawn > 0

    assert kind(8_000) == (Softmax, False)
    assert kind(50_000) == (Softmax, True)
    assert kind(800_000) == (AdaptiveSoftmax, False)


def test_both_directions_share_the_output_layer():
    _, objective = objective_of(50)
    assert set(objective.state_dict()) == {"forwards.softmax.weight", "forwards.softmax.bias"}
    assert objective.weights == {"forwards": 0.5, "backwards": 0.5}


def test_drawn_words_hold_the_true_ones_and_are_as_likely_as_said():
    store = store_of([[50] * 4] * 5)
    _, objective = objective_of(FIRST + store.num_tokens, softmax="sampled", drawn=40)
    source = Source(store, 4, 2)
    met = np.zeros(FIRST + store.num_tokens)
    for step in range(400):
        batch = objective.batch(source, seed=0, step=step)
        words, chances = batch.drawn
        labels = torch.cat([batch.labels[name].flatten() for name in objective.names])
        targets = labels[labels != IGNORED]
        assert bool(torch.isin(targets, words).all()) and torch.equal(words, words.unique())
        assert bool((chances > 0).all() and (chances <= 1).all())
        met[words] += 1
        if step == 0:
            first = batch
    assert torch.equal(objective.batch(source, seed=0, step=0).drawn[0], first.drawn[0])
    words, chances = first.drawn
    # The true ones, which are as rare as all others here, hardly change how often the first words are met.
    often = words[words < 8]
    shares = np.log1p(1 / (often.numpy() + 1)) / np.log(len(met) + 1)
    num_targets = sum(first.counts.values())
    np.testing.assert_allclose(chances[: len(often)], 1 - (1 - shares) ** (40 + num_targets), rtol=1e-5)
    np.testing.assert_allclose(met[often] / 400, 1 - (1 - shares) ** 40, atol=0.06)


def test_if_all_words_are_drawn_the_loss_is_that_of_the_full_softmax():
    torch.manual_seed(0)
    softmax, hidden, targets = Softmax(30, 4), torch.randn(6, 4), torch.tensor([3, 4, 5, 3, 29, 0])
    whole = softmax.loss(hidden, targets, None)
    torch.testing.assert_close(softmax.loss(hidden, targets, (torch.arange(30), torch.ones(30))), whole)
    torch.testing.assert_close(softmax.nats(hidden, targets)[0].sum(), whole)


def test_an_adaptive_softmax_is_a_softmax():
    torch.manual_seed(0)
    softmax, hidden = AdaptiveSoftmax(40, 8), torch.randn(5, 8)
    logits = softmax.logits(hidden)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(5))
    targets = torch.tensor([0, 1, 5, 20, 39])
    nats, right = softmax.nats(hidden, targets)
    torch.testing.assert_close(nats, -logits[range(5), targets])
    torch.testing.assert_close(softmax.loss(hidden, targets, None), nats.sum())
    assert torch.equal(right, logits.argmax(-1) == targets)


@pytest.mark.parametrize("softmax", ["full", "sampled", "adaptive"])
def test_every_softmax_learns(softmax):
    torch.manual_seed(0)
    store = store_of([[7, 9, 4], [10]])
    encoder, objective = objective_of(FIRST + store.num_tokens, softmax=softmax, drawn=8)
    batch = objective.batch(Source(store, 8, 4), seed=0, step=0)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=0.02)
    costs = []
    for _ in range(30):
        optimizer.zero_grad()
        cost = sum(objective(encoder, batch).losses.values())
        cost.backward()
        optimizer.step()
        costs.append(cost.item())
    objective.eval()
    measured = objective(encoder, dataclasses.replace(batch, drawn=None))
    assert costs[-1] < 0.85 * costs[0]
    assert sum(measured.losses.values()).item() / (batch.counts["forwards"] * 2) < np.log(FIRST + store.num_tokens)
    assert set(measured.correct) == {"forwards", "backwards"}


def test_a_tokenizer_without_marks_is_refused():
    with pytest.raises(ConfigError, match="needs tokens for start, end"):
        build_objective(BothWaysConfig(), objective_of(20)[0], Specials(end=0))
