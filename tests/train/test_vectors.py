"""Families without context, from text to a model directory, and what is wrong with some texts."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.models import FAMILIES
from polyseme.opening import describe
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe

STATIC = [name for name, family in FAMILIES.items() if family.context == "none"]
SETTINGS = ["plan.threads=1", "plan.batch_tokens=1024", "model.vocab_size=400"]


def recipe_of(family, corpus, *settings, budget="8steps"):
    given = {"data": {"corpus": [str(corpus)], "dev": [str(corpus)]}, "plan": {"budget": budget}}
    return Recipe.preset(family, "tiny", [*SETTINGS, *settings], **given)


def learn(training, num_steps=None):
    steps = training.steps()
    for number, _ in enumerate(steps, 1):
        if number == num_steps:
            break
    steps.close()


@pytest.mark.parametrize("family", STATIC)
def test_a_broken_run_ends_as_an_unbroken_one(family, corpus_file, tmp_path):
    recipe = recipe_of(family, corpus_file)
    whole = Pretraining.start(recipe, tmp_path / "whole")
    learn(whole)
    broken = Pretraining.start(recipe, tmp_path / "broken")
    learn(broken, num_steps=max(1, broken.total // 2))
    assert broken.pause()
    resumed = Pretraining.resume(tmp_path / "broken")
    assert resumed.resumed_at == max(1, resumed.total // 2)
    learn(resumed)
    folders = [training.finish() for training in (whole, resumed)]
    first, second = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == second
    model = ps.load(folders[0])
    assert (model.family, model.encoder.context) == (family, "none")
    vectors = model.embed(["the old bank", "the old bank and something", "蝶蝶"])
    assert vectors.shape == (3, *model.encoder.widths) and np.isfinite(vectors).all()
    facts = describe(folders[0])
    assert (facts["state"], facts["transformers"], facts["steps"]) == ("whole", None, resumed.total)


def test_what_it_costs_is_said_beforehand(corpus_file):
    training, pace = Pretraining.dry(recipe_of("skipgram", corpus_file, budget="3epochs"))
    assert training.total > 1 and pace.step > 0


@pytest.mark.parametrize("family", ["skipgram", "cbow", "nnlm"])
def test_words_that_are_too_rare_for_a_vocabulary(family, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("every word here stands alone and never comes again", encoding="utf-8")
    with pytest.raises(ps.DataError, match=r"only 0 different tokens; give more text or a lower tokenizer\.min_count"):
        Pretraining.start(recipe_of(family, text), tmp_path / "run")
    text.write_text("dog " * 1000, encoding="utf-8")
    with pytest.raises(ps.DataError, match="only 1 different tokens"):
        Pretraining.start(recipe_of(family, text), tmp_path / "run")


@pytest.mark.parametrize("family", ["skipgram", "cbow"])
def test_a_rate_of_ten(family, corpus_file, tmp_path):
    training = Pretraining.start(recipe_of(family, corpus_file, "plan.rate=10"), tmp_path / "run")
    try:
        learn(training)
    except ps.TrainingError as error:
        assert "try a lower plan.rate than 10" in str(error)
    else:
        assert np.isfinite(ps.load(training.finish()).embed(["the old bank"])).all()


def test_it_cannot_be_adapted(corpus_file, tmp_path):
    training = Pretraining.start(recipe_of("cbow", corpus_file, budget="1steps"), tmp_path / "run")
    learn(training)
    folder = training.finish()
    with pytest.raises(ps.ConfigError, match="a cbow cannot be gone on from"):
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
