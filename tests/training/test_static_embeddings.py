"""Static embeddings from text to a model directory, and unsuitable texts."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.families import FAMILIES
from polyseme.loading import describe
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

STATIC = [name for name, family in FAMILIES.items() if family.context == "none"]
SETTINGS = ["training.threads=1", "training.batch_tokens=1024", "model.vocab_size=400"]


def recipe_of(family, corpus, *settings, budget="8steps"):
    given = {"data": {"corpus": [str(corpus)], "dev": [str(corpus)]}, "training": {"budget": budget}}
    return Recipe.preset(family, "tiny", [*SETTINGS, *settings], **given)


def train(session, num_steps=None):
    steps = session.steps()
    for number, _ in enumerate(steps, 1):
        if number == num_steps:
            break
    steps.close()


@pytest.mark.parametrize("family", STATIC)
def test_resumed_run_equals_an_uninterrupted_one(family, corpus_file, tmp_path):
    recipe = recipe_of(family, corpus_file)
    whole = PretrainingSession.start(recipe, tmp_path / "whole")
    train(whole)
    broken = PretrainingSession.start(recipe, tmp_path / "broken")
    train(broken, num_steps=max(1, broken.total_steps // 2))
    assert broken.pause()
    resumed = PretrainingSession.resume(tmp_path / "broken")
    assert resumed.resumed_at == max(1, resumed.total_steps // 2)
    train(resumed)
    folders = [session.finish() for session in (whole, resumed)]
    first, second = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == second
    model = ps.load(folders[0])
    assert (model.family, model.encoder.context) == (family, "none")
    vectors = model.embed(["the old bank", "the old bank and something", "蝶蝶"])
    assert vectors.shape == (3, *model.encoder.widths) and np.isfinite(vectors).all()
    facts = describe(folders[0])
    assert (facts["state"], facts["transformers"], facts["steps"]) == ("finished", None, resumed.total_steps)


def test_dry_run(corpus_file):
    session, throughput = PretrainingSession.dry_run(recipe_of("skipgram", corpus_file, budget="3epochs"))
    assert session.total_steps > 1 and throughput.step > 0


@pytest.mark.parametrize("family", ["skipgram", "cbow", "nnlm"])
def test_vocabulary_without_frequent_words(family, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("every word here stands alone and never comes again", encoding="utf-8")
    with pytest.raises(ps.DataError, match=r"only 0 distinct tokens; .*tokenizer\.min_count"):
        PretrainingSession.start(recipe_of(family, text), tmp_path / "run")
    text.write_text("dog " * 1000, encoding="utf-8")
    with pytest.raises(ps.DataError, match="only 1 distinct tokens"):
        PretrainingSession.start(recipe_of(family, text), tmp_path / "run")


@pytest.mark.parametrize("family", ["skipgram", "cbow"])
def test_learning_rate_of_ten(family, corpus_file, tmp_path):
    session = PretrainingSession.start(recipe_of(family, corpus_file, "training.learning_rate=10"), tmp_path / "run")
    try:
        train(session)
    except ps.TrainingError as error:
        assert "training.learning_rate below 10" in str(error)
    else:
        assert np.isfinite(ps.load(session.finish()).embed(["the old bank"])).all()


def test_static_embeddings_cannot_be_adapted(corpus_file, tmp_path):
    session = PretrainingSession.start(recipe_of("cbow", corpus_file, budget="1steps"), tmp_path / "run")
    train(session)
    folder = session.finish()
    with pytest.raises(ps.ConfigError, match="cbow embeddings cannot be adapted"):
        ps.adapt(folder, corpus=corpus_file, out=tmp_path / "out")


CHINESE = "使用语言模型来预测下一个词的概率。IBM公司的语言模型。"


@pytest.mark.parametrize(("kind", "expected"), [("word", "使用|语言|模型"), ("char", "使|用|语|言|模|型")])
def test_chinese_by_word_or_by_character(kind, expected, tmp_path):
    pytest.importorskip("rjieba")
    config = TokenizerConfig(kind=kind, specials="plain", min_count=1, segmenter="auto")
    tokenizer = Tokenizer.train(config, [CHINESE] * 3, vocab_size=100)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.config.segmenter == ("rjieba" if kind == "word" else "none")
    for each in (tokenizer, loaded):
        tokens = each.encode(CHINESE)
        assert "|".join(tokens.tokens).startswith(expected)
        assert [CHINESE[start:end].lower() for start, end in tokens.offsets] == tokens.tokens
        assert tokens == each.encode_batch([CHINESE])[0]
        assert each.encode_ids([CHINESE])[0].tolist() == tokens.ids
    if kind == "word":
        assert "ibm" in tokens.tokens and "公司" in tokens.tokens
