"""Multilingual corpora: paths, and the sampling of languages for vocabularies and training sequences."""

import dataclasses
import random
from collections import Counter

import numpy as np
import pytest

import polyseme as ps
from polyseme import ConfigError
from polyseme.corpora.corpus import (
    Corpus,
    MultilingualCorpus,
    group_by_language,
    sampling_probabilities,
    split_language_prefix,
)
from polyseme.datasets.builtin import SampleText
from polyseme.datasets.token_store import TokenStore, build_or_load_store
from polyseme.datasets.town.generator import Town
from polyseme.models.bert import Bert, BertConfig
from polyseme.objectives.next_sentence import NextSentence
from polyseme.objectives.sources import TokenSource
from polyseme.system.safetensors_io import read_tensors
from polyseme.tokenization.config import SpecialTokens, TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.data_pipeline import open_corpora, train_tokenizer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history

SMALL = [
    "model.vocab_size=900",
    "model.width=32",
    "data.sequence_length=32",
    "training.batch_tokens=512",
    "training.threads=1",
]
GERMAN = [
    "Die alte Bank am Fluss leiht jedem Bauern Geld, der schwimmen kann.",
    "Auf der Bank im Park sitzt der Bäcker und isst sein Brot.",
    "Das Schloss auf dem Berg ist alt, und das Schloss an seiner Tür ist neu.",
    "Der Ton der Flöte war hell, und der Krug aus Ton zerbrach.",
    "Am Montag kam der Frühling spät, und die Mühle stand still.",
    "Die Lehrerin liest den Kindern jeden Morgen eine Geschichte vor.",
]


def a_store(*sizes):
    """A store of languages of the given sizes in tokens; the token id is the index of its language."""
    tokens = np.repeat(np.arange(len(sizes)), sizes).astype(np.uint16)
    return TokenStore(
        tokens=tokens,
        sentences=np.array([0, len(tokens)]),
        documents=np.array([0, 1]),
        num_characters=len(tokens),
        num_words=len(tokens),
        num_unknown=0,
        fingerprint="",
        language_starts=np.cumsum([0, *sizes[:-1]]).tolist(),
    )


# --- names


def test_language_prefix_of_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en=x.txt").write_text("a file with a strange name")
    assert split_language_prefix("en=text/a.txt") == ("en", "text/a.txt")
    assert split_language_prefix("zh-Hant=a=b.txt") == ("zh-Hant", "a=b.txt")
    for plain in ("text/a.txt", "/data/en=1/a.txt", "en=x.txt", "year=1999/a.txt", "=a.txt", "en="):
        assert split_language_prefix(plain) == ("", plain)
    assert group_by_language(["en=a", "zh=b", "en=c"]) == {"en": ["a", "c"], "zh": ["b"]}
    assert group_by_language(["a", "b"]) == {"": ["a", "b"]}
    with pytest.raises(ConfigError, match="b has no language; write it as en=b"):
        group_by_language(["en=a", "b"])


# --- rows


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0])
def test_sequences_are_sampled_by_language(exponent):
    sizes = [400_000, 20_000, 2_000]
    source = TokenSource(a_store(*sizes), 20, 37, language_sampling=exponent)
    wanted = np.array([size**exponent for size in sizes]) / sum(size**exponent for size in sizes)
    np.testing.assert_allclose(sampling_probabilities(sizes, exponent), wanted)
    num_epoch = sum(sizes) // 20
    steps = range(-(-2 * num_epoch // source.num_rows))  # two epochs
    starts = np.concatenate([source.sequence_starts(20, seed=1, step=step) for step in steps])[: 2 * num_epoch]
    drawn = np.bincount(source.read(starts), minlength=3)
    np.testing.assert_allclose(drawn, 2 * num_epoch * wanted, atol=4)
    # Inside an epoch, differences are random: chi-square with 2 degrees of freedom, p = 0.001.
    part = np.bincount(source.read(starts[1000:9000]), minlength=3)
    assert ((part - 8000 * wanted) ** 2 / (8000 * wanted)).sum() < 13.8


def test_all_sequences_of_a_language_are_sampled_equally():
    sizes = [4_000, 400]
    source = TokenSource(a_store(*sizes), 20, 220, language_sampling=0.7)  # a batch is an epoch
    for epoch in range(3):
        visits = Counter(source.sequence_starts(20, seed=0, step=epoch).tolist())
        large = [number for start, number in visits.items() if start < 4_000]
        small = [number for start, number in visits.items() if start >= 4_000]
        assert set(large) == {1} and len(small) == 20
        assert max(small) - min(small) <= 1 and sum(small) == round(220 * sampling_probabilities(sizes, 0.7)[1])
    as_is = TokenSource(a_store(*sizes), 20, 220, language_sampling=1.0)
    assert len(set(as_is.sequence_starts(20, seed=0, step=0).tolist())) == 220


def test_sequences_depend_on_seed_and_step_only():
    source = TokenSource(a_store(5_000, 300), 20, 8, language_sampling=0.7)
    forwards = [source.sequence_starts(20, seed=3, step=step).tolist() for step in range(60)]
    backwards = [source.sequence_starts(20, seed=3, step=step).tolist() for step in reversed(range(60))]
    assert forwards == backwards[::-1]
    assert forwards != [source.sequence_starts(20, seed=4, step=step).tolist() for step in range(60)]


# --- the vocabulary


def write_languages(folder, **sizes):
    """A file per language of about the given size, without common words."""
    for language, size in sizes.items():
        rng = random.Random(language)
        words = [language + "".join(rng.choices("abcdefgh", k=6)) for _ in range(200)]
        documents, written = [], 0
        while written < size:
            documents.append(" ".join(rng.choices(words, k=20)))
            written += len(documents[-1])
        (folder / f"{language}.txt").write_text("\n\n".join(documents))
    return MultilingualCorpus({language: Corpus(folder / f"{language}.txt") for language in sizes})


@pytest.mark.parametrize("num_bytes", [10_000_000, 100_000])
def test_vocabulary_sample_is_drawn_by_language(tmp_path, num_bytes):
    sizes = {"aa": 300_000, "bb": 30_000, "cc": 3_000}
    corpus = write_languages(tmp_path, **sizes)
    drawn: Counter[str] = Counter()
    for text in corpus.resampled(0.7, num_bytes):
        drawn[text.split()[0][:2]] += len(text)
    total = sum(drawn.values())
    np.testing.assert_allclose(
        [drawn[name] / total for name in sizes], sampling_probabilities(list(sizes.values()), 0.7), rtol=0.1, atol=0.01
    )
    assert total <= 1.05 * num_bytes
    if num_bytes > 1_000_000:  # there was room for all text
        assert drawn["aa"] >= sizes["aa"]


def test_small_language_gets_more_of_the_vocabulary(tmp_path):
    corpus = write_languages(tmp_path, aa=100_000, bb=2_000)
    found = {}
    for sampling in (0.5, 1.0):
        recipe = Recipe.preset("bert", "tiny", ["model.vocab_size=300", f"data.language_sampling={sampling}"])
        tokenizer = train_tokenizer(recipe, corpus)
        found[sampling] = sum(token.startswith("bb") for token in tokenizer.backend.get_vocab())
    assert found[0.5] > 2 * found[1.0]


def test_store_has_language_boundaries(tmp_path):
    corpus = write_languages(tmp_path, aa=5_000, bb=2_000)
    tokenizer = Tokenizer.train(TokenizerConfig(), corpus, vocab_size=300)
    parts = [build_or_load_store(part, tokenizer) for part in corpus.languages]
    store = build_or_load_store(corpus, tokenizer)
    assert list(store.language_starts) == [0, parts[0].num_tokens]
    assert np.array_equal(store.tokens, np.concatenate([part.tokens for part in parts]))
    assert list(build_or_load_store(corpus, tokenizer).language_starts) == list(store.language_starts)  # from the cache
    assert corpus.bytes_read == corpus.num_bytes


# --- a training


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three corpora, of much English, some Chinese and little German."""
    folder = tmp_path_factory.mktemp("three")
    town, rng = Town(0), random.Random(0)
    for split, number in (("train", 160), ("dev", 20)):
        german = [" ".join(rng.choices(GERMAN, k=6)) for _ in range(number // 5)]
        texts = {"en": town.documents(number, "en", split=split), "zh": town.documents(number // 3, "zh", split=split)}
        for language, documents in {**texts, "de": german}.items():
            (folder / f"{language}.{split}.txt").write_text("\n\n".join(documents))
    return folder


def corpora(folder, kind):
    return {language: folder / f"{language}.{kind}.txt" for language in ("en", "zh", "de")}


def test_multilingual_model_and_its_adaptation(three, tmp_path):
    model = ps.pretrain(
        "bert",
        corpus=corpora(three, "train"),
        dev=corpora(three, "dev"),
        out=tmp_path / "three",
        size="tiny",
        budget="40steps",
        settings=SMALL,
    )
    assert model.recipe.data.language_sampling == 0.7 and model.recipe.data.corpus[2] == f"de={three / 'de.train.txt'}"

    # Sequences of each language, as sampled by the run.
    session = PretrainingSession.resume(tmp_path / "three")
    store = session.source.store
    session.run.close()
    sizes = np.diff([*store.language_starts, store.num_tokens])
    places = np.concatenate([session.source.sequence_starts(30, seed=0, step=step) for step in range(200)])
    drawn = np.bincount(np.searchsorted(store.language_starts, places, side="right") - 1, minlength=3)
    wanted = len(places) * sampling_probabilities(sizes.tolist(), 0.7)
    assert sizes[0] > 2 * sizes[1] > 4 * sizes[2]
    assert ((drawn - wanted) ** 2 / wanted).sum() < 13.8

    dev = read_history(model.folder)[-1]["dev"]
    assert {"masked_lm", "masked_lm_en", "masked_lm_zh", "masked_lm_de"} <= dev.keys()
    assert min(dev["masked_lm_en"], dev["masked_lm_zh"], dev["masked_lm_de"]) < dev["masked_lm"]
    assert "masked-token loss (nats/token), zh" in (model.folder / "README.md").read_text()

    rng = random.Random(1)
    for name in ("train", "dev"):
        lines = [clinic(rng) for _ in range(300 if name == "train" else 40)]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(lines))
    adapted = ps.adapt(
        model.folder,
        corpus=tmp_path / "train.txt",
        dev=tmp_path / "dev.txt",
        out=tmp_path / "clinic",
        budget="50steps",
        new_words=8,
        settings=["training.evaluate_every=1"],
    )
    losses = [row["dev"]["masked_lm"] for row in read_history(adapted.folder)]
    assert losses[-1] < losses[0] - 0.5
    before, after = (each.tokenizer.backend.get_vocab() for each in (model, adapted))
    assert before.items() < after.items() and len(after) == len(before) + 8


def clinic(rng):
    organs, signs = ["liver", "kidney", "heart", "lung"], ["hepatitis", "nephritis", "arrhythmia", "pneumonia"]
    return " ".join(
        f"The patient with {rng.choice(signs)} was examined, and the {rng.choice(organs)} was palpated."
        for _ in range(4)
    )


def test_resume_is_exact(three, tmp_path):
    def recipe():
        data = {"corpus": [f"{language}={path}" for language, path in corpora(three, "train").items()]}
        return Recipe.preset("gpt2", "tiny", [*SMALL, "training.budget=6steps"], data=data)

    whole = PretrainingSession.start(recipe(), tmp_path / "whole")
    for _ in whole.steps():
        pass
    whole.finish()
    broken = PretrainingSession.start(recipe(), tmp_path / "broken")
    for progress in broken.steps():
        if progress.step.number == 3:
            broken.pause()
            break
    resumed = PretrainingSession.resume(tmp_path / "broken")
    assert resumed.resumed_at == 3
    for _ in resumed.steps():
        pass
    resumed.finish()
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(one[name].equal(other[name]) for name in one)


def test_built_in_sample_as_one_language(three, monkeypatch):
    text = SampleText(train=[three / "en.train.txt"], dev=[three / "en.dev.txt"])
    monkeypatch.setattr("polyseme.training.data_pipeline.sample_text", lambda name: text)
    data = {"corpus": ["en=town-en", f"de={three / 'de.train.txt'}"]}
    corpus, dev = open_corpora(Recipe.preset("bert", "tiny", data=data))
    assert isinstance(corpus, MultilingualCorpus) and corpus.language_names == ["en", "de"]
    assert dev is not None and dev.files == [three / "en.dev.txt"]


def test_negative_pairs_are_of_one_language():
    """Otherwise a model would only have to distinguish languages."""
    tokens = np.repeat([10, 20], [4_000, 1_000]).astype(np.uint16)
    store = dataclasses.replace(
        a_store(4_000, 1_000), tokens=tokens, sentences=np.arange(0, 5_001, 10), documents=np.arange(0, 501, 5)
    )
    objective = NextSentence(Bert(BertConfig(vocab_size=30, width=8, num_heads=1)), SpecialTokens(start=1, separator=2))
    batch = objective.batch(TokenSource(store, 43, 400, language_sampling=0.7), seed=0, step=0)
    elsewhere = batch.labels["next_sentence"] == 1
    assert 100 < elsewhere.sum() < 300
    text = [set(row.tolist()) - {1, 2} for row in batch.ids[elsewhere]]
    mixed = sum(len(languages) > 1 for languages in text)
    assert mixed < 10, "only where a language ends in the middle of a row"
    assert 20 in set().union(*text)
