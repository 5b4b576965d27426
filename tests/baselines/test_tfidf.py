"""TF-IDF features and the linear model on them, beside a pipeline of scikit-learn."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from polyseme.baselines.linear_model import LinearModel
from polyseme.baselines.tfidf import NUM_OVERLAPS, Tfidf, TfidfConfig, find_terms
from polyseme.errors import DataError

TEXTS = [
    "The bank lent the money.",
    "A bat slept in the barn!",
    "the river bank was steep",
    "他在苹果公司上班",
    "河边的银行昨天关门了, the bank",
    "She lit a match.",
]
LABELS = [0, 1, 1, 2, 0, 2]


@dataclass(frozen=True)
class Analyzer:
    """The terms of the first documented rule, written independently."""

    words: int
    characters: int

    def __call__(self, text):
        terms, words, run = [], [], ""
        for token in f"{text.lower()} ":
            if "\u4e00" <= token <= "\u9fff":
                run += token
                continue
            terms += [run[i : i + n] for n in range(1, self.characters + 1) for i in range(len(run) - n + 1)]
            run = ""
        words = "".join(
            one if one.isalnum() and not "\u4e00" <= one <= "\u9fff" else " " for one in text.lower()
        ).split()
        terms += [" ".join(words[i : i + n]) for n in range(1, self.words + 1) for i in range(len(words) - n + 1)]
        return terms


@pytest.mark.parametrize("num_classes", [2, 3])
def test_equals_a_pipeline_of_scikit_learn(num_classes):
    config = TfidfConfig(subword_ngrams=0)
    labels = [label % num_classes for label in LABELS]
    vectorizer = TfidfVectorizer(analyzer=Analyzer(2, 3), sublinear_tf=True)
    pipeline = make_pipeline(vectorizer, LogisticRegression(C=10, max_iter=1000, tol=1e-6)).fit(TEXTS, labels)
    tfidf = Tfidf.fit(config, TEXTS)
    ours = LinearModel.fit_classes(tfidf.vectors(TEXTS), labels, inverse_regularization=10)
    unseen = [*TEXTS, "the barn of the bank", "银行公司", "", "?!", "unknownword"]
    expected, found = pipeline.predict_proba(unseen), ours.probabilities(tfidf.vectors(unseen), num_classes)
    assert np.abs(found - expected).max() < 1e-6
    assert tfidf.terms == pipeline[0].get_feature_names_out().tolist()


def test_ridge_regression_equals_that_of_scikit_learn():
    scores = [0.5, 1.0, 2.5, 3.0, 4.0, 4.5]
    rows = Tfidf.fit(TfidfConfig(), TEXTS).vectors(TEXTS)
    ours = LinearModel.fit_scores(rows, scores, inverse_regularization=4).scores(rows)[:, 0]
    assert np.abs(ours - Ridge(alpha=0.25).fit(rows, scores).predict(rows)).max() < 1e-6


def test_terms_are_words_their_parts_and_chinese_characters():
    config = TfidfConfig(word_ngrams=2, subword_ngrams=4, character_ngrams=2)
    assert sorted(find_terms("A cat, 苹果派", config)) == sorted(
        ["a", "cat", "a cat", "#<a>", "#<ca", "#cat", "#at>", "#<cat", "#cat>", "苹", "果", "派", "苹果", "果派"]
    )
    assert list(find_terms("?! …", config)) == []


def test_pairs_are_compared_term_by_term():
    config = TfidfConfig(word_ngrams=1, subword_ngrams=0)
    tfidf = Tfidf.fit(config, ["cat dog", "cat bird"])
    row = tfidf.compare(["cat dog"], ["cat bird"]).toarray()[0]
    common, only_first, only_second = (dict(zip(tfidf.terms, row[n * 3 :], strict=False)) for n in range(3))
    assert common["cat"] > 0 and common["dog"] == common["bird"] == 0
    assert only_first["dog"] > 0 and only_first["cat"] == only_first["bird"] == 0
    assert only_second["bird"] > 0 and only_second["cat"] == only_second["dog"] == 0
    cosine, *overlap = row[-NUM_OVERLAPS:]
    assert overlap == [0.5, 0.5, pytest.approx(1 / 3), 0]
    assert cosine == pytest.approx(float((tfidf.vectors(["cat dog"]) @ tfidf.vectors(["cat bird"]).T).toarray()[0, 0]))


def test_symmetric_features_do_not_depend_on_the_order():
    tfidf, first, second = Tfidf.fit(TfidfConfig(), TEXTS), TEXTS[:3], TEXTS[3:]

    def difference(symmetric):
        one, other = (
            tfidf.compare(*pair, symmetric=symmetric).toarray() for pair in ((first, second), (second, first))
        )
        return np.abs(one - other).max()

    assert difference(symmetric=True) < 1e-12 and difference(symmetric=False) > 0.1


def test_classes_without_training_examples_have_no_probability():
    rows = Tfidf.fit(TfidfConfig(), TEXTS).vectors(TEXTS)
    model = LinearModel.fit_classes(rows, [0, 3, 3, 0, 3, 3], inverse_regularization=1)
    assert np.array_equal(model.probabilities(rows, 5)[:, [1, 2, 4]], np.zeros((6, 3)))
    only = LinearModel.fit_classes(rows, [2] * 6, inverse_regularization=1)
    assert np.array_equal(only.probabilities(rows, 3), [[0, 0, 1]] * 6)


def test_texts_without_words_are_an_error():
    with pytest.raises(DataError, match="no words"):
        Tfidf.fit(TfidfConfig(), ["?", "!"])
