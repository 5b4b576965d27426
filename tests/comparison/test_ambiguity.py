"""Which words are ambiguous, on a town where the truth is known."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.comparison.ambiguity import divide, find_ambiguous, look_at_places
from polyseme.comparison.derived import Lexicon
from polyseme.comparison.measuring import ambiguous_words
from polyseme.inside.nearness import unit
from polyseme.inside.occurrences import Occurrence
from polyseme.text.town import Town, write

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
}
PLANTED |= {"apple"}  # a fruit, and a company that sells telephones


def test_groups_of_two_kinds():
    chance = np.random.default_rng(0)
    kinds = np.repeat([0, 1], 20)
    vectors = unit(np.eye(2)[kinds] + 0.1 * chance.standard_normal((40, 2)))
    found = divide(vectors.astype(np.float32))
    assert (found == kinds).all() or (found == 1 - kinds).all()
    assert set(divide(np.ones((5, 3), np.float32)).tolist()) <= {0, 1}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    text = place / "text.txt"
    text.write_text("\n\n".join(Town(0).documents(60, "en")))
    tiny = ["model.vocab_size=400", "model.width=32", "data.length=32", "plan.batch_tokens=256", "plan.threads=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        settings = {"corpus": text, "size": "tiny", "budget": "30steps", "settings": tiny}
        return {family: ps.pretrain(family, out=place / family, **settings) for family in ("bert", "gpt2")}


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_word_is_not_seen_where_it_is_looked_for(models, family):
    """The vector of its place is the same whatever word stands there; its probability is not."""
    texts = ["The old {} stood by the river.", "{} is here."]
    places = [
        Occurrence(text=text.format(word), start=text.index("{"), end=text.index("{") + len(word))
        for text in texts
        for word in ("the", "and")  # of as many pieces
    ]
    vectors, probabilities = look_at_places(models[family], places)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-3)
    assert ((probabilities > 0) & (probabilities < 1)).all() and probabilities[0] != probabilities[1]


@pytest.mark.slow
def test_the_planted_words_are_found_and_come_first_where_a_set_names_them(tmp_path):
    text = tmp_path / "text.txt"
    documents = list(Town(0).documents(2000, "en"))
    text.write_text("\n\n".join(documents))
    told = {"size": "tiny", "budget": "1200steps", "settings": ["plan.threads=1"]}
    model = ps.pretrain("bert", corpus=text, out=tmp_path / "bert", **told)
    lexicon = Lexicon.of(documents, most_characters=10**9)
    found = [one.word for one in find_ambiguous(model, lexicon, 2, seed=0, most=10)]
    # One word in fourteen of those that are looked at is planted.
    assert len({*found[:4]} & PLANTED) >= 3 and len({*found} & PLANTED) >= 6, found
    (tmp_path / "sample").mkdir()
    write(tmp_path / "sample", languages=["en"], num_documents=20, num_rows=400)
    known = ambiguous_words([tmp_path / "sample" / "senses"])
    assert known == PLANTED - {"apple"}
    told = find_ambiguous(model, lexicon, 2, seed=0, most=20, known=known)
    assert {one.word for one in told[:14]} == known and [one.known for one in told] == [True] * 14 + [False] * 6
