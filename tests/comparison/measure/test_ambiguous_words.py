"""Detection of ambiguous words in generated text with planted ambiguity."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.analysis.occurrences import Occurrence
from polyseme.analysis.vector_geometry import normalize
from polyseme.comparison.measure.ambiguous_words import encode_contexts, find_ambiguous_words, two_means
from polyseme.comparison.measure.corpus_items import WordIndex
from polyseme.comparison.measure.intrinsic import annotated_words
from polyseme.datasets.town.generator import Town
from polyseme.datasets.town.writers import write_town

PLANTED = {
    "bank",
    "spring",
    "light",
    "letter",
    "trunk",
    "ring",
    "palm",
    "note",
    "nail",
    "mouse",
    "match",
    "crane",
    "bat",
    "bark",
    "apple",  # a fruit, and a maker of telephones
}
TINY = ["model.vocab_size=400", "model.width=32", "data.sequence_length=32", "training.batch_tokens=256"]


def test_two_means():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    vectors = normalize(np.eye(2)[labels] + 0.1 * rng.standard_normal((40, 2)))
    clusters = two_means(vectors.astype(np.float32))
    assert (clusters == labels).all() or (clusters == 1 - labels).all()
    assert set(two_means(np.ones((5, 3), np.float32)).tolist()) <= {0, 1}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    text = folder / "text.txt"
    text.write_text("\n\n".join(Town(0).documents(60, "en")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(folder / "cache"))
        options = {"corpus": text, "size": "tiny", "budget": "30steps", "settings": [*TINY, "training.threads=1"]}
        return {family: ps.pretrain(family, out=folder / family, **options) for family in ("bert", "gpt2")}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_context_vectors_do_not_depend_on_the_word_itself(models, family):
    texts = ["The old {} stood by the river.", "{} is here."]
    occurrences = [
        Occurrence(text=text.format(word), start=text.index("{"), end=text.index("{") + len(word))
        for text in texts
        for word in ("the", "and")  # with the same number of pieces
    ]
    vectors, probabilities = encode_contexts(models[family], occurrences)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-3)
    assert ((probabilities > 0) & (probabilities < 1)).all() and probabilities[0] != probabilities[1]


@pytest.mark.slow
def test_planted_words_are_found_and_annotated_ones_come_first(tmp_path):
    text = tmp_path / "text.txt"
    documents = list(Town(0).documents(2000, "en"))
    text.write_text("\n\n".join(documents))
    options = {"size": "tiny", "budget": "1200steps", "settings": ["training.threads=1"]}
    model = ps.pretrain("bert", corpus=text, out=tmp_path / "bert", **options)
    index = WordIndex.of(documents, most_characters=10**9)
    words = [one.word for one in find_ambiguous_words(model, index, 2, seed=0, most=10)]
    # One in fourteen candidates is planted.
    assert len({*words[:4]} & PLANTED) >= 3 and len({*words} & PLANTED) >= 6, words
    (tmp_path / "sample").mkdir()
    write_town(tmp_path / "sample", languages=["en"], num_documents=20, num_rows=400)
    annotated = annotated_words([tmp_path / "sample" / "senses"])
    assert annotated == PLANTED - {"apple"}
    words = find_ambiguous_words(model, index, 2, seed=0, most=20, annotated=annotated)
    assert {one.word for one in words[:14]} == annotated
    assert [one.annotated for one in words] == [True] * 14 + [False] * 6
