"""How text becomes rows, pairs and masks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.errors import ConfigError
from polyseme.models.bert import Bert, BertConfig
from polyseme.objectives import Source
from polyseme.objectives.masked import MaskedConfig, MaskedTokens
from polyseme.objectives.next_sentence import FOLLOWS, NextSentence
from polyseme.objectives.next_token import NextToken
from polyseme.objectives.sentence_order import IN_ORDER, SentenceOrder
from polyseme.tensors import IGNORED
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

SPECIALS = Specials(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
FIRST = 5  # the smallest id that is a word


def store_of(documents: list[list[int]]) -> Store:
    """A store from the lengths of sentences; every token is its own position, so that rows can be traced."""
    lengths = [length for document in documents for length in document]
    num_tokens = sum(lengths)
    return Store(
        tokens=np.arange(FIRST, FIRST + num_tokens, dtype=np.uint32),
        sentences=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        documents=np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64),
        num_characters=num_tokens,
        num_words=num_tokens,
        unknown=0,
        fingerprint="",
    )


def encoder_of(store: Store, **sizes: int) -> Bert:
    sizes |= {"width": 8, "num_layers": 1, "num_heads": 1, "max_length": 64}
    return Bert(BertConfig(vocab_size=FIRST + store.num_tokens, **sizes))


corpora = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), min_size=1, max_size=8)


@settings(max_examples=60)
@given(corpora, st.integers(4, 24), st.integers(1, 5), st.integers(0, 30), st.integers(0, 3))
def test_next_tokens_are_the_next_tokens(documents, length, num_rows, step, seed):
    store = store_of(documents)
    batch = NextToken().batch(Source(store, length, num_rows), seed=seed, step=step)
    assert batch.ids.shape == (num_rows, length) and bool(batch.mask.all())
    places = batch.ids.numpy() - FIRST
    assert np.array_equal(batch.labels["next_token"].numpy() - FIRST, (places + 1) % store.num_tokens)
    assert np.array_equal(places[:, 1:], (places[:, :-1] + 1) % store.num_tokens)


def test_an_epoch_reads_every_cut_once():
    store = store_of([[7, 9, 4], [40], [20, 20]])
    length = 10
    steps = store.num_tokens // length // 2
    source = Source(store, length, 2)
    seen = [NextToken().batch(source, seed=5, step=step).ids.flatten().tolist() for step in range(steps)]
    tokens = [token for row in seen for token in row]
    assert len(tokens) == len(set(tokens)) == steps * 2 * length
    later = NextToken().batch(source, seed=5, step=steps).ids.flatten().tolist()
    assert sorted(later) != sorted(seen[0])


@settings(max_examples=80)
@given(corpora, st.integers(12, 40), st.integers(1, 6), st.integers(0, 50))
def test_pairs_are_what_their_label_says(documents, length, num_rows, step):
    store = store_of(documents)
    objective = NextSentence(encoder_of(store), SPECIALS)
    batch = objective.batch(Source(store, length, num_rows), seed=1, step=step)
    starts = set(store.sentences[:-1].tolist())
    document_starts = set(store.sentences[store.documents].tolist())
    columns = (batch.ids, batch.segments, batch.labels["next"])
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
def test_swapped_pairs_are_labelled_so(documents, length, num_rows, step, num_segments):
    store = store_of(documents)
    num_between = 3 - num_segments  # a second separator where there are no segments
    objective = SentenceOrder(encoder_of(store, num_segments=num_segments), SPECIALS)
    batch = objective.batch(Source(store, length, num_rows), seed=1, step=step)
    assert (batch.segments is None) == (num_segments == 1)
    starts = set(store.sentences[:-1].tolist())
    document_ends = set(store.sentences[store.documents].tolist())
    for ids, label in zip(batch.ids.tolist(), batch.labels["order"].tolist(), strict=True):
        middle = ids.index(3)
        assert ids[0] == 2 and ids[-1] == 3 and ids[middle : middle + num_between] == [3] * num_between
        first = [id - FIRST for id in ids[1:middle]]
        second = [id - FIRST for id in ids[middle + num_between : -1]]
        assert len(first) + len(second) == length - 2 - num_between and first and second
        for part in (first, second):
            assert part == [(part[0] + n) % store.num_tokens for n in range(len(part))]
        earlier, later = (first, second) if label == IN_ORDER else (second, first)
        skipped = range(earlier[-1] + 1, later[0])  # the rest of a sentence
        together = later[0] in {earlier[-1] + 1, *starts} and not starts.intersection(skipped)
        if label == IN_ORDER:
            assert together and second[0] not in document_ends
        else:
            cut = min(start for start in (*starts, store.num_tokens) if start > first[-1])
            assert together or cut in document_ends


def test_how_the_parts_end_does_not_give_their_order_away():
    sizes = np.random.default_rng(0)
    store = store_of([sizes.integers(4, 20, size=60).tolist() for _ in range(10)])
    objective, source = SentenceOrder(encoder_of(store), SPECIALS), Source(store, 48, 100)
    whole: dict[int, list[bool]] = {0: [], 1: []}
    for step in range(30):
        batch = objective.batch(source, seed=0, step=step)
        for ids, label in zip(batch.ids.tolist(), batch.labels["order"].tolist(), strict=True):
            whole[label].append(ids[ids.index(3) - 1] - FIRST + 1 in store.sentences)
    in_order, swapped = np.mean(whole[0]), np.mean(whole[1])
    assert abs(in_order - swapped) < 0.05, "else a full stop before the separator would be enough"


@pytest.mark.parametrize("objective", [NextSentence, SentenceOrder])
def test_half_of_the_pairs_are_as_written(objective):
    store = store_of([[5] * 40 for _ in range(10)])
    objective = objective(encoder_of(store), SPECIALS)
    labels = np.concatenate(
        [objective.batch(Source(store, 32, 50), seed=0, step=step).labels[objective.name].numpy() for step in range(20)]
    )
    assert 0.4 < (labels == 0).mean() < 0.55
    assert set(labels.tolist()) == {0, 1}


def test_masks_are_fifteen_percent_and_80_10_10():
    store = store_of([[10] * 50 for _ in range(20)])
    objective = MaskedTokens(MaskedConfig(pairs="none"), encoder_of(store), SPECIALS)
    shown, asked, rows = [], [], 0
    for step in range(40):
        source = Source(store, 40, 16)
        plain = objective.draw(source, seed=0, step=step)
        batch = objective.label(plain, source, seed=0, step=step)
        labels = batch.labels["masked"]
        chosen = labels != IGNORED
        assert chosen.sum(1).tolist() == [6] * 16, "exactly 15 % of every row"
        assert bool((plain.ids[chosen] == labels[chosen]).all()), "what is asked for stood there"
        assert bool((batch.ids[~chosen] == plain.ids[~chosen]).all()), "nothing else is touched"
        assert not bool(chosen[:, 0].any() | chosen[:, -1].any()), "special tokens are never asked for"
        shown.append(batch.ids[chosen])
        asked.append(labels[chosen])
        rows += 16
    shown, asked = np.concatenate(shown), np.concatenate(asked)
    assert (shown == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == asked).mean() == pytest.approx(0.1, abs=0.02)
    assert ((shown != 4) & (shown != asked)).mean() == pytest.approx(0.1, abs=0.02)
    assert shown.min() >= 4, "no other special token is put in"


def test_dev_text_is_asked_alike_whatever_is_trained_with():
    store = store_of([[10] * 50 for _ in range(20)])
    objective = MaskedTokens(MaskedConfig(pairs="none", rate=0.5), encoder_of(store), SPECIALS)
    asked = {
        measuring: objective.batch(Source(store, 40, 16, measuring=measuring), seed=0, step=0).counts["masked"]
        for measuring in (False, True)
    }
    assert asked == {False: 16 * 20, True: 16 * 6}


@given(st.integers(8, 512), st.integers(1, 64), st.sampled_from([1, 2, 4]))
def test_shorter_rows_are_as_many_tokens(length, num_rows, divisor):
    source = Source(store_of([[10]]), length, num_rows)
    short = source.shortened(divisor)
    assert 8 <= short.length <= length and short.length >= length // divisor
    assert 0 <= length * num_rows - short.length * short.num_rows < short.length


@settings(max_examples=50)
@given(st.integers(8, 40), st.floats(0.02, 0.9), st.integers(0, 10))
def test_rows_of_special_tokens_alone_are_not_asked_about(length, rate, step):
    store = dataclasses.replace(store_of([[60]]), tokens=np.full(60, 3, dtype=np.uint16))
    objective = MaskedTokens(MaskedConfig(rate=rate, pairs="none"), encoder_of(store), SPECIALS)
    batch = objective.batch(Source(store, length, 2), seed=0, step=step)
    assert batch.counts == {"masked": 0}
    assert set(batch.ids.flatten().tolist()) == {2, 3}


def test_a_tokenizer_without_mask_is_refused():
    store = store_of([[20]])
    with pytest.raises(ConfigError, match="tokens for start, separator, mask"):
        MaskedTokens(MaskedConfig(), encoder_of(store), Specials(end=0))
