"""Probabilities of the compiled n-gram model, against numbers worked by hand and a reference implementation."""

import numpy as np
import pytest
from tests.baselines.ngram_reference import ReferenceNgrams

from polyseme.baselines.kneser_ney import estimate_discounts, smooth
from polyseme.baselines.ngram_counts import count_ngrams

END = 0


def model_of(documents, *, vocab_size, order):
    tokens = np.array([id for document in documents for id in (*document, END)])
    return smooth(count_ngrams(tokens, vocab_size=vocab_size, order=order, end=END))


def contexts_of(stream, order):
    """The last order - 1 ids before each position, -1 where there are none."""
    padded = [*[-1] * (order - 1), *stream]
    return np.array([padded[position : position + order - 1] for position in range(len(stream))])


def random_documents(seed, *, vocab_size, num_documents=40):
    """Documents of random words, of which few are frequent; the last id never occurs."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, num_documents)
    return [list(1 + rng.geometric(0.25, length).clip(max=vocab_size - 2) - 1) for length in lengths]


def test_worked_by_hand():
    """The documents "a b", "a b" and "a c", by bigrams.

    Two bigrams occur once, two twice and one three times: Y = 2 / (2 + 2 · 2) = 1/3, so D1 = 1 - 2/3 · 2/2 = 1/3,
    D2 = 2 - 3/3 · 1/2 = 3/2 and D3 = 3. Of the continuation counts 1, 1, 1 (a, b, c) and 2 (end) none is 3, so the
    unigrams have the discounts 1/2, 1 and 3/2.
    """
    a, b, c = 1, 2, 3
    model = model_of([[a, b], [a, b], [a, c]], vocab_size=4, order=2)

    unigrams = [0.2 + 0.5 / 4, 0.1 + 0.5 / 4, 0.1 + 0.5 / 4, 0.1 + 0.5 / 4]
    after_a = [11 / 18 * p for p in unigrams]
    after_a[b] += 1 / 6
    after_a[c] += 2 / 9
    expected = {
        -1: unigrams,
        a: after_a,
        b: [0.25 + 0.75 * 0.325, *[0.75 * 0.225] * 3],
        c: [2 / 3 + 0.325 / 3, *[0.225 / 3] * 3],
        END: unigrams,  # the only word after it has lost its whole count
    }
    assert expected[a] == pytest.approx([0.198611, 0.1375, 0.304167, 0.359722], abs=1e-6)
    for context, distribution in expected.items():
        np.testing.assert_allclose(model.distributions(np.array([[context]]))[0], distribution, rtol=1e-6)


def test_discounts():
    # Chen and Goodman (1999), equation 17, with counts of counts whose Y is 1/2.
    np.testing.assert_allclose(estimate_discounts(np.array([100, 50, 30, 20])), [0, 0.5, 1.1, 5 / 3])
    for too_few in ([0, 0, 0, 0], [10, 0, 0, 0], [10, 5, 0, 3], [10, 5, 100, 9]):
        np.testing.assert_allclose(estimate_discounts(np.array(too_few)), [0, 0.5, 1, 1.5])


@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equal_to_the_reference(order, seed):
    vocab_size = 9
    documents = random_documents(seed, vocab_size=vocab_size)
    model = model_of(documents, vocab_size=vocab_size, order=order)
    reference = ReferenceNgrams(documents, vocab_size=vocab_size, order=order, end=END)
    assert model.trie.num_ngrams == tuple(
        sum(len(ngram) == length for ngram in reference.counts) for length in range(2, order + 1)
    )

    other = random_documents(seed + 100, vocab_size=vocab_size + 1)  # also crosses the ends of documents
    stream = np.array([id for document in [*documents[:8], *other] for id in (END, *document)])
    contexts = contexts_of(stream, order)
    expected = [
        reference.probability(tuple(id for id in context if id >= 0), word)
        for context, word in zip(contexts.tolist(), stream.tolist(), strict=True)
    ]
    np.testing.assert_allclose(model.probabilities(contexts, stream), expected, rtol=1e-6)
    shuffled = np.random.default_rng(seed).permutation(len(stream))  # so that no context continues the one before
    np.testing.assert_allclose(
        model.probabilities(contexts[shuffled], stream[shuffled]), np.array(expected)[shuffled], rtol=1e-6
    )

    distributions = model.distributions(contexts)
    np.testing.assert_allclose(distributions.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(distributions[np.arange(len(stream)), stream], expected, rtol=1e-6)
    assert model.most_probable(contexts).tolist() == distributions.argmax(1).tolist()


def test_text_without_document_ends():
    tokens = np.array([1, 2, 1, 3, 1, 2])
    model = smooth(count_ngrams(tokens, vocab_size=4, order=3, end=None))
    np.testing.assert_allclose(model.distributions(contexts_of(tokens, 3)).sum(1), 1, rtol=1e-6)
    assert model.most_probable(np.array([[-1, 1]])).tolist() == [2]


def test_damaged_indices_are_noticed():
    trie = model_of(random_documents(0, vocab_size=9), vocab_size=9, order=3).trie
    assert trie.is_consistent()
    for array, value in ((trie.words, 9), (trie.words, -1), (trie.first, 1 << 30), (trie.first, -1)):
        place = len(array) // 2
        array[place], before = value, array[place].item()
        assert not trie.is_consistent()
        array[place] = before
    assert trie.is_consistent()
