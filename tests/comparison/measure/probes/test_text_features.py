"""Vectors of texts, pairs and words from the layers of a model."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.probes.text_features import TextEncoder, mean_pooling
from polyseme.datasets.task_schemas import ClassifyExample, PairExample, TagExample

SOURCE = {"file": "x", "row": 1}
TEXTS = ["the old bank by the river", "the quagga slept", "the bat, the zebra", "?"]


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    folder, models = tmp_path_factory.mktemp("models"), {}
    settings = {"svd": ["model.width=8"], "onehot": [], "bert": ["model.width=16", "training.batch_tokens=64"]}
    for family, some in settings.items():
        options = {"out": folder / family, "size": "tiny", "settings": ["training.threads=1", *some]}
        budget = {"budget": "2steps"} if family == "bert" else {}
        models[family] = ps.pretrain(family, corpus=corpus_file, **budget, **options)
    return models


def dataset_of(kind, examples):
    return LabelledDataset(name="x", kind=kind, splits={"train": examples, "dev": examples, "test": examples})


def classified(texts=TEXTS):
    return [ClassifyExample(text=text, label="a", **SOURCE) for text in texts]


def test_contextual_layers_are_means_of_their_tokens(models):
    encoder = TextEncoder.of(models["bert"], dataset_of("classify", classified()))
    layers = encoder.encode(classified())
    assert len(layers) == len(models["bert"].encoder.widths)
    for number, layer in enumerate(layers):
        np.testing.assert_allclose(layer, models["bert"].embed(TEXTS, layer=number), rtol=1e-4, atol=1e-5)


def test_static_layers_are_means_of_their_tokens(models):
    (mean,) = TextEncoder.of(models["svd"], dataset_of("classify", classified())).encode(classified())
    np.testing.assert_allclose(mean, models["svd"].embed(TEXTS), rtol=1e-4, atol=1e-5)


def test_onehot_vectors_have_a_dimension_for_each_word_of_the_training_texts(models):
    model = models["onehot"]
    assert model.tokenizer.encode("quagga").ids == model.tokenizer.encode("zebra").ids  # both are OOV
    encoder = TextEncoder.of(model, dataset_of("classify", classified()))
    (counts,) = encoder.encode(classified(["quagga", "zebra", "the quagga", "unicorn"]))
    rows = counts.toarray()
    assert rows[:3].sum(1) == pytest.approx([1, 1, 1])
    assert rows[0] @ rows[1] == 0 and rows[0] @ rows[2] == pytest.approx(0.5)
    assert rows[3].sum() == 0  # not a word of the training texts


@pytest.mark.parametrize("family", ["svd", "onehot"])
def test_pairs_are_compared(models, family):
    examples = [PairExample(text_a="the old bank", text_b="the river", label="a", **SOURCE)]
    encoder = TextEncoder.of(models[family], dataset_of("pair", examples))
    singles = TextEncoder(model=models[family], inputs="text", words=encoder.words)
    u, v = (dense(layer) for text in examples[0].texts for layer in singles.encode(classified([text])))
    found = dense(encoder.encode(examples)[0])
    np.testing.assert_allclose(found, np.concatenate([u, v, abs(u - v), u * v], axis=1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("family", ["svd", "onehot", "bert"])
def test_words_have_a_row_each(models, family):
    examples = [TagExample(words=("the", "bank"), tags=("O", "B-X"), **SOURCE) for _ in range(3)]
    layers = TextEncoder.of(models[family], dataset_of("tag", examples)).encode(examples)
    assert all(layer.shape[0] == 6 for layer in layers)
    first = dense(layers[0])
    np.testing.assert_allclose(first[0], first[2], atol=1e-6)
    assert abs(first[0] - first[1]).max() > 0


def dense(layer):
    return layer if isinstance(layer, np.ndarray) else layer.toarray()


def test_words_are_means_of_their_pieces():
    layer = np.arange(10, dtype=np.float32).reshape(5, 2)
    words = mean_pooling(np.array([0, 2, 2, 5]), np.array([1, 2, 5, 5]), 5) @ layer
    assert words.dtype == np.float32 and np.array_equal(words, [layer[0], [0, 0], layer[2:5].mean(0), [0, 0]])
