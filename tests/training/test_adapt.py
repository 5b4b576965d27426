"""Continued pretraining: weights, vocabulary, default settings, and resuming."""

import json
import logging
import random
import shutil

import pytest
import torch

import polyseme as ps
from polyseme import CheckpointError, ConfigError
from polyseme.api import open_base_model
from polyseme.system.safetensors_io import read_tensors
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.vocabulary_extension import extend_vocabulary
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history
from polyseme.training.storage.run_dir import CHECKPOINTS, LOCK

TINY = [
    "model.vocab_size=400",
    "model.width=32",
    "model.max_length=48",
    "data.sequence_length=32",
    "training.batch_tokens=256",
]
TINY += ["training.threads=1"]
NEW = ["hepatitis", "nephritis", "arrhythmia", "pneumonia", "Cardiology"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Text of another domain, train and dev."""
    folder, rng = tmp_path_factory.mktemp("clinic"), random.Random(0)
    for name, number in (("train", 200), ("dev", 30)):
        lines = [f"Patient {n} in {rng.choice(NEW)}: the {rng.choice(NEW)} was acute." for n in range(4 * number)]
        documents = ["\n".join(lines[4 * n : 4 * n + 4]) for n in range(number)]
        (folder / f"{name}.txt").write_text("\n\n".join(documents))
    return folder


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    """A masked and a causal model of the small documents."""
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        for family in ("bert", "gpt2"):
            ps.pretrain(family, corpus=corpus_file, out=place / family, size="tiny", budget="20steps", settings=TINY)
    return place


def begin(model, clinic, out, *settings, num_words=0, **training):
    base = open_base_model(model)
    data = {"corpus": [str(clinic / "train.txt")], "dev": [str(clinic / "dev.txt")]}
    recipe = base.adaptation_recipe(settings, data=data, training={"budget": "6steps", **training})
    return base, PretrainingSession.start(recipe, out, base=base, num_words=num_words)


def finish(session):
    for _ in session.steps():
        pass
    return session.finish()


# --- what it begins with


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_initial_weights_are_those_of_the_base_model(models, clinic, tmp_path, family):
    """Rows and biases of added words are the means of those of their pieces."""
    base, session = begin(models / family, clinic, tmp_path / "out", num_words=3)
    session.run.close()
    before = {**base.encoder.state_dict(), **base.heads.state_dict()}
    after = read_tensors(tmp_path / "out" / CHECKPOINTS / "0000000" / "weights.safetensors")
    assert before.keys() == after.keys()
    old = base.tokenizer
    size = base.encoder.config.vocab_size
    grown = [name for name in before if before[name].shape != after[name].shape]
    assert grown == (["tokens.weight", "masked_lm.bias"] if family == "bert" else ["tokens.weight"])
    for name in before:
        assert after[name][: len(before[name])].equal(before[name])
    for name in grown:
        assert len(after[name]) == size + 3
        for number in range(old.vocab_size, old.vocab_size + 3):
            pieces = old.encode_ids([session.tokenizer.decode([number])])[0].tolist()
            assert len(pieces) > 1
            torch.testing.assert_close(after[name][number], before[name][pieces].mean(0))
    assert session.recipe.model.vocab_size == session.encoder.config.vocab_size == size + 3


def test_default_settings(models, clinic, tmp_path):
    base, session = begin(models / "bert", clinic, tmp_path / "out")
    session.run.close()
    before, after = base.recipe.training, session.recipe.training
    assert after.learning_rate == pytest.approx(before.learning_rate / 3)
    assert after.warmup_fraction > 0 and after.lr_schedule == "linear"
    assert (after.initialization, after.short_sequence_fraction, after.base_model) == (
        "paper",
        0.0,
        str(models / "bert"),
    )
    assert session.recipe.objective == base.recipe.objective and session.recipe.data.sequence_length == 32
    again = open_base_model(finish(PretrainingSession.resume(tmp_path / "out")))
    assert (
        again.adaptation_recipe(data={}, training={}).training.learning_rate == after.learning_rate
    )  # reduced already


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.width=64", "model.width: the base model has 32"),
        ("tokenizer.kind=bpe", "tokenizer.kind: the base model has 'wordpiece'"),
        ("data.sequence_length=49", "data.sequence_length = 49 is more than model.max_length = 48"),
        ("training.learning_ratee=1", "did you mean training.learning_rate"),
    ],
)
def test_settings_that_cannot_be_changed(models, setting, message):
    with pytest.raises(ConfigError, match=message):
        open_base_model(models / "bert").adaptation_recipe([setting], data={}, training={})
    assert (
        open_base_model(models / "bert").adaptation_recipe(["model.dropout=0.1"], data={}, training={}).model.dropout
        == 0.1
    )


def test_pretrain_does_not_accept_a_base_model(models, clinic, tmp_path):
    recipe = Recipe.preset("bert", "tiny", [f"training.base_model={models / 'bert'}"], data={"corpus": [str(clinic)]})
    with pytest.raises(ConfigError, match="use polyseme adapt MODEL"):
        PretrainingSession.start(recipe, tmp_path / "out")


# --- what comes of it


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_loss_on_the_new_text_falls(models, clinic, tmp_path, family):
    model = ps.adapt(
        models / family,
        corpus=clinic / "train.txt",
        dev=clinic / "dev.txt",
        out=tmp_path / "out",
        budget="40steps",
        new_words=3,
        settings=["training.evaluate_every=1"],
    )
    loss = {"bert": "masked_lm", "gpt2": "causal_lm"}[family]
    losses = [row["dev"][loss] for row in read_history(model.folder)]
    assert losses[-1] < losses[0] - 0.3
    card = (model.folder / "README.md").read_text()
    assert f"Adapted with Polyseme from `{family}` (`{models / family}`)" in card
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(model.folder)
    text = "The nephritis of patient 9 was arrhythmia; he saw the bank."
    assert theirs(text, add_special_tokens=False)["input_ids"] == model.tokenizer.encode(text, specials=False).ids
    _, notes = transformers.AutoModel.from_pretrained(model.folder, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["mismatched_keys"]


def test_transformers_checkpoint(models, clinic, tmp_path, caplog):
    """Heads that it lacks are initialized randomly, with a warning."""
    transformers = pytest.importorskip("transformers")
    transformers.AutoModelForMaskedLM.from_pretrained(models / "bert").save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(models / "bert").save_pretrained(tmp_path / "theirs")
    with caplog.at_level(logging.WARNING):
        base, session = begin(tmp_path / "theirs", clinic, tmp_path / "out", "data.sequence_length=32", threads=1)
    assert "theirs has no head for next_sentence" in caplog.text
    assert base.recipe is None and base.heads.names == ("masked_lm",)
    assert session.objective.names == ("next_sentence", "masked_lm")
    assert session.objective.masked_lm.bias.equal(base.heads.masked_lm.bias)
    published = Recipe.preset("bert", "base", recipe="paper")
    assert session.recipe.objective == published.objective
    assert session.recipe.training.learning_rate == pytest.approx(
        published.training.learning_rate * (4096 / published.training.batch_tokens) ** 0.5
    )
    session.run.close()


def test_a_model_without_a_tokenizer(models, tmp_path):
    shutil.copytree(models / "gpt2", tmp_path / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "mute" / name).unlink()
    with pytest.raises(CheckpointError, match="tokenizer"):
        open_base_model(tmp_path / "mute")


# --- a run like any other


@pytest.mark.parametrize("stop", [0, 3])
def test_resume_is_exact_without_the_base_model(models, clinic, tmp_path, stop):
    """Interrupted before the first step or later, and the base model deleted."""
    shutil.copytree(models / "bert", tmp_path / "base")
    _, whole = begin(tmp_path / "base", clinic, tmp_path / "whole", num_words=3)
    _, broken = begin(tmp_path / "base", clinic, tmp_path / "broken", num_words=3)
    shutil.rmtree(tmp_path / "base")
    finish(whole)
    if stop:
        next(progress for progress in broken.steps() if progress.step.number == stop)
        broken.pause()
    broken.run.close()
    resumed = PretrainingSession.resume(tmp_path / "broken")
    assert resumed.resumed_at == stop
    finish(resumed)
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def test_resume_needs_a_checkpoint(models, clinic, tmp_path):
    _, session = begin(models / "gpt2", clinic, tmp_path / "out")
    session.run.close()
    shutil.rmtree(tmp_path / "out" / CHECKPOINTS)
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        PretrainingSession.resume(tmp_path / "out")


def test_start_after_an_early_kill(models, clinic, tmp_path):
    """Killed after the first checkpoint and before the recipe: another start begins a new run."""
    _, session = begin(models / "gpt2", clinic, tmp_path / "out")
    session.run.close()
    (tmp_path / "out" / "recipe.toml").unlink()
    (tmp_path / "out" / "history.jsonl").unlink(missing_ok=True)
    assert (tmp_path / "out" / LOCK).exists()
    _, session = begin(models / "bert", clinic, tmp_path / "out")
    session.run.close()
    weights = read_tensors(tmp_path / "out" / CHECKPOINTS / "0000000" / "weights.safetensors")
    assert "masked_lm.bias" in weights


# --- new words


def documents_of(clinic):
    return (clinic / "train.txt").read_text().split("\n\n")


@pytest.mark.parametrize(
    ("kind", "specials"), [("wordpiece", "bert"), ("byte-bpe", "gpt2"), ("byte-bpe", "roberta"), ("unigram", "bert")]
)
def test_only_new_words_are_added(documents, clinic, tmp_path, kind, specials):
    config = TokenizerConfig(kind=kind, specials=specials, lowercase=kind != "byte-bpe")
    old = Tokenizer.train(config, documents, vocab_size=400)
    new, pieces = extend_vocabulary(old, documents_of(clinic), 4)
    again, _ = extend_vocabulary(old, documents_of(clinic), 4)
    assert new.fingerprint == again.fingerprint != old.fingerprint
    assert list(pieces) == list(range(old.vocab_size, old.vocab_size + 4)) and new.specials == old.specials
    assert old.backend.get_vocab().items() < new.backend.get_vocab().items()

    text = "Acute? " + ", ".join(f"a case of {new.decode([number]).strip()}" for number in pieces)
    ids = new.encode(text, specials=False).ids
    spaced = [number for number in pieces if kind != "byte-bpe" or new.token(number).startswith("Ġ")]
    assert len(spaced) > 1 and set(spaced) <= set(ids)  # in running text
    assert new.decode(ids) == old.decode(old.encode(text, specials=False).ids)
    found = set()
    for some in [*documents, *documents_of(clinic)[:20], text]:
        ids, before = new.encode(some).ids, old.encode(some).ids
        assert [piece for number in ids for piece in pieces.get(number, [number])] == before
        assert new.encode_ids([some])[0].tolist() == new.encode(some, specials=False).ids
        found |= set(ids)
    assert set(pieces) <= found

    new.save(tmp_path)
    assert Tokenizer.load(tmp_path).fingerprint == new.fingerprint
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(text)["input_ids"] == new.encode(text).ids


def test_words_that_save_most_tokens_come_first(documents):
    old = Tokenizer.train(TokenizerConfig(), documents, vocab_size=400)
    texts = ["hepatitis " * 5 + "nephritis " * 9 + "rare river 2024"]
    _, pieces = extend_vocabulary(old, texts, 10)
    new, first = extend_vocabulary(old, texts, 1)
    assert len(pieces) == 2  # not the rare one, nor the number, nor what is whole already
    assert new.token(next(iter(first))) == "nephritis"
    longer = new.encode("nephritist", specials=False).tokens
    assert longer == ["nephritis", "##t"]  # as the longest match has it


@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_kinds_that_cannot_be_extended(documents, kind):
    old = Tokenizer.train(TokenizerConfig(kind=kind), documents, vocab_size=400)
    with pytest.raises(ConfigError, match=f"this {kind} vocabulary cannot be extended, only wordpiece"):
        extend_vocabulary(old, documents, 5)


def test_special_tokens_after_the_vocabulary_keep_their_ids(documents, clinic):
    """A token added to the tokenizer has the next id, which added words must not take."""
    old = Tokenizer.train(TokenizerConfig(), documents, vocab_size=400)
    state = json.loads(old.backend.to_str())
    added = type(old.backend).from_str(json.dumps(state))
    added.add_tokens(["[NOTE]"])
    old, last = Tokenizer(added, old.config, old.specials), old.vocab_size
    new, pieces = extend_vocabulary(old, documents_of(clinic), 2)
    assert new.id("[NOTE]") == old.id("[NOTE]") == last and list(pieces) == [last + 1, last + 2]
    assert new.encode("hepatitis [NOTE]", specials=False).ids.count(last) == 1
