"""Token sources, and the batches of the causal, masked and sentence-pair objectives."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.batch import IGNORED
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import ConfigError
from polyseme.models.bert import Bert, BertConfig
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.masked_lm import MaskedLm, MaskedLmConfig
from polyseme.objectives.next_sentence import FOLLOWS, NextSentence
from polyseme.objectives.sentence_order import IN_ORDER, SentenceOrder
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens

SPECIALS = SpecialTokens(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
FIRST = 5  # the smallest word id


def store_of(documents: list[list[int]]) -> TokenStore:
    """A store of sentences of these lengths; every token is its own position, so that sequences can be traced."""
    lengths = [length for document in documents for length in document]
    num_tokens = sum(lengths)
    return TokenStore(
        tokens=np.arange(FIRST, FIRST + num_tokens, dtype=np.uint32),
        sentences=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        documents=np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64),
        num_characters=num_tokens,
        num_words=num_tokens,
        num_unknown=0,
        fingerprint="",
    )


def encoder_of(store: TokenStore, **sizes: int) -> Bert:
    sizes |= {"width": 8, "num_layers": 1, "num_heads": 1, "max_length": 64}
    return Bert(BertConfig(vocab_size=FIRST + store.num_tokens, **sizes))


corpora = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), min_size=1, max_size=8)


@settings(max_examples=60)
@given(corpora, st.integers(4, 24), st.integers(1, 5), st.integers(0, 30), st.integers(0, 3))
def test_causal_lm_labels_are_the_next_tokens(documents, length, num_rows, step, seed):
    store = store_of(documents)
    batch = CausalLm().batch(TokenSource(store, length, num_rows), seed=seed, step=step)
    assert batch.ids.shape == (num_rows, length) and bool(batch.mask.all())
    positions = batch.ids.numpy() - FIRST
    assert np.array_equal(batch.labels["causal_lm"].numpy() - FIRST, (positions + 1) % store.num_tokens)
    assert np.array_equal(positions[:, 1:], (positions[:, :-1] + 1) % store.num_tokens)


def test_an_epoch_visits_every_cut_once():
    store = store_of([[7, 9, 4], [40], [20, 20]])
    length = 10
    steps = store.num_tokens // length // 2
    source = TokenSource(store, length, 2)
    seen = [CausalLm().batch(source, seed=5, step=step).ids.flatten().tolist() for step in range(steps)]
    tokens = [token for row in seen for token in row]
    assert len(tokens) == len(set(tokens)) == steps * 2 * length
    later = CausalLm().batch(source, seed=5, step=steps).ids.flatten().tolist()
    assert sorted(later) != sorted(seen[0])


@settings(max_examples=80)
@given(corpora, st.integers(12, 40), st.integers(1, 6), st.integers(0, 50))
def test_next_sentence_labels_match_the_text(documents, length, num_rows, step):
    store = store_of(documents)
    objective = NextSentence(encoder_of(store), SPECIALS)
    batch = objective.batch(TokenSource(store, length, num_rows), seed=1, step=step)
    starts = set(store.sentences[:-1].tolist())
    document_starts = set(store.sentences[store.documents].tolist())
    columns = (batch.ids, batch.segments, batch.labels["next_sentence"])
    for ids, segments, label in zip(*(column.tolist() for column in columns), strict=True):
        assert len(ids) == length and ids[0] == 2 and ids[-1] == 3
        middle = segments.index(1) - 1
        assert ids[middle] == 3 and segments == [0] * (middle + 1) + [1] * (length - middle - 1)
        first = [id - FIRST for id in ids[1:middle]]
        second = [id - FIRST for id in ids[middle + 1 : -1]]
        assert first and second
        for part in (first, second):
            assert part == [(part[0] + n) % store.num_tokens for n in range(len(part))]
        assert first[0] in starts
        follows = second[0] == (first[-1] + 1) % store.num_tokens
        if label == FOLLOWS:
            assert follows and second[0] not in document_starts | {store.num_tokens}
        elif store.num_documents > 1:
            assert second[0] in starts
            bounds = store.sentences[store.documents]
            owners = np.searchsorted(bounds, [first[0], second[0]], side="right")
            assert owners[0] != owners[1]


@settings(max_examples=40)
@given(corpora, st.integers(12, 40), st.integers(1, 6), st.integers(0, 50), st.sampled_from([1, 2]))
def test_sentence_order_labels_match_the_text(documents, length, num_rows, step, num_segments):
    store = store_of(documents)
    num_between = 3 - num_segments  # without segments there is a second separator
    objective = SentenceOrder(encoder_of(store, num_segments=num_segments), SPECIALS)
    batch = objective.batch(TokenSource(store, length, num_rows), seed=1, step=step)
    assert (batch.segments is None) == (num_segments == 1)
    starts = set(store.sentences[:-1].tolist())
    document_ends = set(store.sentences[store.documents].tolist())
    for ids, label in zip(batch.ids.tolist(), batch.labels["sentence_order"].tolist(), strict=True):
        middle = ids.index(3)
        assert ids[0] == 2 and ids[-1] == 3 and ids[middle : middle + num_between] == [3] * num_between
        first = [id - FIRST for id in ids[1:middle]]
        second = [id - FIRST for id in ids[middle + num_between : -1]]
        assert len(first) + len(second) == length - 2 - num_between and first and second
        for part in (first, second):
            assert part == [(part[0] + n) % store.num_tokens for n in range(len(part))]
        earlier, later = (first, second) if label == IN_ORDER else (second, first)
        skipped = range(earlier[-1] + 1, later[0])  # the rest of a sentence
        adjacent = later[0] in {earlier[-1] + 1, *starts} and not starts.intersection(skipped)
        if label == IN_ORDER:
            assert adjacent and second[0] not in document_ends
        else:
            cut = min(start for start in (*starts, store.num_tokens) if start > first[-1])
            assert adjacent or cut in document_ends


def test_part_ends_do_not_reveal_the_order():
    sizes = np.random.default_rng(0)
    store = store_of([sizes.integers(4, 20, size=60).tolist() for _ in range(10)])
    objective, source = SentenceOrder(encoder_of(store), SPECIALS), TokenSource(store, 48, 100)
    complete: dict[int, list[bool]] = {0: [], 1: []}
    for step in range(30):
        batch = objective.batch(source, seed=0, step=step)
        for ids, label in zip(batch.ids.tolist(), batch.labels["sentence_order"].tolist(), strict=True):
            complete[label].append(ids[ids.index(3) - 1] - FIRST + 1 in store.sentences)
    in_order, swapped = np.mean(complete[0]), np.mean(complete[1])
    assert abs(in_order - swapped) < 0.05, "a full stop before the separator must not be enough"


@pytest.mark.parametrize("objective", [NextSentence, SentenceOrder])
def test_sentence_pair_labels_are_balanced(objective):
    store = store_of([[5] * 40 for _ in range(10)])
    objective = objective(encoder_of(store), SPECIALS)
    labels = np.concatenate(
        [
            objective.batch(TokenSource(store, 32, 50), seed=0, step=step).labels[objective.name].numpy()
            for step in range(20)
        ]
    )
    assert 0.4 < (labels == 0).mean() < 0.55
    assert set(labels.tolist()) == {0, 1}


def test_masking_selects_15_percent_and_replaces_80_10_10():
    store = store_of([[10] * 50 for _ in range(20)])
    objective = MaskedLm(MaskedLmConfig(pairs="none"), encoder_of(store), SPECIALS)
    inputs, targets = [], []
    for step in range(40):
        source = TokenSource(store, 40, 16)
        plain = objective.draw_batch(source, seed=0, step=step)
        batch = objective.add_targets(plain, source, seed=0, step=step)
        labels = batch.labels["masked_lm"]
        masked = labels != IGNORED
        assert masked.sum(1).tolist() == [6] * 16, "exactly 15 % of every row"
        assert bool((plain.ids[masked] == labels[masked]).all()), "targets are the original tokens"
        assert bool((batch.ids[~masked] == plain.ids[~masked]).all()), "other tokens are unchanged"
        assert not bool(masked[:, 0].any() | masked[:, -1].any()), "special tokens are never masked"
        inputs.append(batch.ids[masked])
        targets.append(labels[masked])
    inputs, targets = np.concatenate(inputs), np.concatenate(targets)
    assert (inputs == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs == targets).mean() == pytest.approx(0.1, abs=0.02)
    assert ((inputs != 4) & (inputs != targets)).mean() == pytest.approx(0.1, abs=0.02)
    assert inputs.min() >= 4, "no other special token is inserted"


def test_validation_masking_ignores_the_training_probability():
    store = store_of([[10] * 50 for _ in range(20)])
    objective = MaskedLm(MaskedLmConfig(pairs="none", mask_probability=0.5), encoder_of(store), SPECIALS)
    counts = {
        validation: objective.batch(TokenSource(store, 40, 16, validation=validation), seed=0, step=0).counts[
            "masked_lm"
        ]
        for validation in (False, True)
    }
    assert counts == {False: 16 * 20, True: 16 * 6}


@given(st.integers(8, 512), st.integers(1, 64), st.sampled_from([1, 2, 4]))
def test_shorter_sequences_keep_the_tokens_per_batch(length, num_rows, divisor):
    source = TokenSource(store_of([[10]]), length, num_rows)
    short = source.with_shorter_sequences(divisor)
    assert 8 <= short.length <= length and short.length >= length // divisor
    assert 0 <= length * num_rows - short.length * short.num_rows < short.length


@settings(max_examples=50)
@given(st.integers(8, 40), st.floats(0.02, 0.9), st.integers(0, 10))
def test_special_tokens_alone_have_no_targets(length, probability, step):
    store = dataclasses.replace(store_of([[60]]), tokens=np.full(60, 3, dtype=np.uint16))
    objective = MaskedLm(MaskedLmConfig(mask_probability=probability, pairs="none"), encoder_of(store), SPECIALS)
    batch = objective.batch(TokenSource(store, length, 2), seed=0, step=step)
    assert batch.counts == {"masked_lm": 0}
    assert set(batch.ids.flatten().tolist()) == {2, 3}


def test_a_tokenizer_without_a_mask_token_is_rejected():
    store = store_of([[20]])
    with pytest.raises(ConfigError, match="start, separator, mask"):
        MaskedLm(MaskedLmConfig(), encoder_of(store), SpecialTokens(end=0))
