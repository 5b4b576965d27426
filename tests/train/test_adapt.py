"""Going on from a model on other text: its weights, its vocabulary, its plan, and a run like any other."""

import json
import logging
import random
import shutil

import pytest
import torch

import polyseme as ps
from polyseme import CheckpointError, ConfigError
from polyseme.making import open_base
from polyseme.text.extension import extend
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe
from polyseme.train.run import CHECKPOINTS, LOCK, read_history
from polyseme.weights import read_tensors

TINY = ["model.vocab_size=400", "model.width=32", "model.max_length=48", "data.length=32", "plan.batch_tokens=256"]
TINY += ["plan.threads=1"]
NEW = ["hepatitis", "nephritis", "arrhythmia", "pneumonia", "Cardiology"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Text that the models have never seen, to learn from and to measure on."""
    folder, chance = tmp_path_factory.mktemp("clinic"), random.Random(0)
    for name, number in (("train", 200), ("dev", 30)):
        lines = [f"Patient {n} in {chance.choice(NEW)}: the {chance.choice(NEW)} was acute." for n in range(4 * number)]
        documents = ["\n".join(lines[4 * n : 4 * n + 4]) for n in range(number)]
        (folder / f"{name}.txt").write_text("\n\n".join(documents))
    return folder


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    """A masked and a causal model of the little documents."""
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        for family in ("bert", "gpt2"):
            ps.pretrain(family, corpus=corpus_file, out=place / family, size="tiny", budget="20steps", settings=TINY)
    return place


def begin(model, clinic, out, *settings, num_words=0, **plan):
    base = open_base(model)
    data = {"corpus": [str(clinic / "train.txt")], "dev": [str(clinic / "dev.txt")]}
    recipe = base.plan(settings, data=data, plan={"budget": "6steps", **plan})
    return base, Pretraining.start(recipe, out, base=base, num_words=num_words)


def to_the_end(training):
    for _ in training.steps():
        pass
    return training.finish()


# --- what it begins with


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_begins_as_the_model(models, clinic, tmp_path, family):
    """Every weight as it was; rows of new words are the mean of those of their pieces, biases too."""
    base, training = begin(models / family, clinic, tmp_path / "out", num_words=3)
    training.run.close()
    before = {**base.encoder.state_dict(), **base.heads.state_dict()}
    after = read_tensors(tmp_path / "out" / CHECKPOINTS / "0000000" / "weights.safetensors")
    assert before.keys() == after.keys()
    old = base.tokenizer
    size = base.encoder.config.vocab_size
    grown = [name for name in before if before[name].shape != after[name].shape]
    assert grown == (["tokens.weight", "masked.bias"] if family == "bert" else ["tokens.weight"])
    for name in before:
        assert after[name][: len(before[name])].equal(before[name])
    for name in grown:
        assert len(after[name]) == size + 3
        for number in range(old.vocab_size, old.vocab_size + 3):
            pieces = old.encode_ids([training.tokenizer.decode([number])])[0].tolist()
            assert len(pieces) > 1
            torch.testing.assert_close(after[name][number], before[name][pieces].mean(0))
    assert training.recipe.model.vocab_size == training.encoder.config.vocab_size == size + 3


def test_the_plan_is_gentler(models, clinic, tmp_path):
    base, training = begin(models / "bert", clinic, tmp_path / "out")
    training.run.close()
    before, after = base.recipe.plan, training.recipe.plan
    assert after.rate == pytest.approx(before.rate / 3) and after.warmup > 0 and after.schedule == "linear"
    assert (after.start, after.short_rows, after.base) == ("paper", 0.0, str(models / "bert"))
    assert training.recipe.objective == base.recipe.objective and training.recipe.data.length == 32
    again = open_base(to_the_end(Pretraining.resume(tmp_path / "out")))
    assert again.plan(data={}, plan={}).plan.rate == after.rate  # gentle enough already


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.width=64", "model.width: the model has 32 and keeps it"),
        ("tokenizer.kind=bpe", "tokenizer.kind: the model has 'wordpiece' and keeps it"),
        ("data.length=49", "data.length = 49 is more than model.max_length = 48"),
        ("plan.ratee=1", "did you mean plan.rate"),
    ],
)
def test_what_cannot_be_changed(models, setting, message):
    with pytest.raises(ConfigError, match=message):
        open_base(models / "bert").plan([setting], data={}, plan={})
    assert open_base(models / "bert").plan(["model.dropout=0.1"], data={}, plan={}).model.dropout == 0.1


def test_only_adapt_goes_on_from_a_model(models, clinic, tmp_path):
    recipe = Recipe.preset("bert", "tiny", [f"plan.base={models / 'bert'}"], data={"corpus": [str(clinic)]})
    with pytest.raises(ConfigError, match="say polyseme adapt MODEL"):
        Pretraining.start(recipe, tmp_path / "out")


# --- what comes of it


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns_the_new_text(models, clinic, tmp_path, family):
    model = ps.adapt(
        models / family,
        corpus=clinic / "train.txt",
        dev=clinic / "dev.txt",
        out=tmp_path / "out",
        budget="40steps",
        vocabulary=3,
        settings=["plan.evaluate_every=1"],
    )
    loss = {"bert": "masked", "gpt2": "next_token"}[family]
    losses = [row["dev"][loss] for row in read_history(model.folder)]
    assert losses[-1] < losses[0] - 0.3
    card = (model.folder / "README.md").read_text()
    assert f"Adapted by Polyseme from `{family}` (`{models / family}`)" in card
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(model.folder)
    text = "The nephritis of patient 9 was arrhythmia; he saw the bank."
    assert theirs(text, add_special_tokens=False)["input_ids"] == model.tokenizer.encode(text, specials=False).ids
    _, notes = transformers.AutoModel.from_pretrained(model.folder, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["mismatched_keys"]


def test_a_model_of_transformers(models, clinic, tmp_path, caplog):
    """Whatever heads it lacks start afresh, and are named."""
    transformers = pytest.importorskip("transformers")
    transformers.AutoModelForMaskedLM.from_pretrained(models / "bert").save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(models / "bert").save_pretrained(tmp_path / "theirs")
    with caplog.at_level(logging.WARNING):
        base, training = begin(tmp_path / "theirs", clinic, tmp_path / "out", "data.length=32", threads=1)
    assert "theirs has no head for next: started afresh" in caplog.text
    assert base.recipe is None and base.heads.names == ("masked",)
    assert training.objective.names == ("next", "masked")
    assert training.objective.masked.bias.equal(base.heads.masked.bias)
    published = Recipe.preset("bert", "base", recipe="paper")
    assert training.recipe.objective == published.objective
    assert training.recipe.plan.rate == pytest.approx(published.plan.rate * (4096 / published.plan.batch_tokens) ** 0.5)
    training.run.close()


def test_a_model_without_a_tokenizer(models, tmp_path):
    shutil.copytree(models / "gpt2", tmp_path / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "mute" / name).unlink()
    with pytest.raises(CheckpointError, match="tokenizer"):
        open_base(tmp_path / "mute")


# --- a run like any other


@pytest.mark.parametrize("stop", [0, 3])
def test_it_goes_on_exactly_without_the_model(models, clinic, tmp_path, stop):
    """Broken off before the first step or later, and the model it went on from has gone."""
    shutil.copytree(models / "bert", tmp_path / "base")
    _, whole = begin(tmp_path / "base", clinic, tmp_path / "whole", num_words=3)
    _, broken = begin(tmp_path / "base", clinic, tmp_path / "broken", num_words=3)
    shutil.rmtree(tmp_path / "base")
    to_the_end(whole)
    if stop:
        next(progress for progress in broken.steps() if progress.step.number == stop)
        broken.pause()
    broken.run.close()
    resumed = Pretraining.resume(tmp_path / "broken")
    assert resumed.resumed_at == stop
    to_the_end(resumed)
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def test_without_a_checkpoint_it_cannot_go_on(models, clinic, tmp_path):
    _, training = begin(models / "gpt2", clinic, tmp_path / "out")
    training.run.close()
    shutil.rmtree(tmp_path / "out" / CHECKPOINTS)
    with pytest.raises(CheckpointError, match="no checkpoint that can be read; start anew elsewhere"):
        Pretraining.resume(tmp_path / "out")


def test_what_an_early_kill_left_is_not_gone_on_from(models, clinic, tmp_path):
    """Killed after the first checkpoint and before the recipe: another start begins afresh."""
    _, training = begin(models / "gpt2", clinic, tmp_path / "out")
    training.run.close()
    (tmp_path / "out" / "recipe.toml").unlink()
    (tmp_path / "out" / "history.jsonl").unlink(missing_ok=True)
    assert (tmp_path / "out" / LOCK).exists()
    _, training = begin(models / "bert", clinic, tmp_path / "out")
    training.run.close()
    weights = read_tensors(tmp_path / "out" / CHECKPOINTS / "0000000" / "weights.safetensors")
    assert "masked.bias" in weights


# --- new words


def documents_of(clinic):
    return (clinic / "train.txt").read_text().split("\n\n")


@pytest.mark.parametrize(
    ("kind", "specials"), [("wordpiece", "bert"), ("byte-bpe", "gpt2"), ("byte-bpe", "roberta"), ("unigram", "bert")]
)
def test_new_words_and_nothing_else(documents, clinic, tmp_path, kind, specials):
    config = TokenizerConfig(kind=kind, specials=specials, lowercase=kind != "byte-bpe")
    old = Tokenizer.train(config, documents, vocab_size=400)
    new, pieces = extend(old, documents_of(clinic), 4)
    again, _ = extend(old, documents_of(clinic), 4)
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


def test_the_words_that_save_most_come_first(documents):
    old = Tokenizer.train(TokenizerConfig(), documents, vocab_size=400)
    texts = ["hepatitis " * 5 + "nephritis " * 9 + "rare river 2024"]
    _, pieces = extend(old, texts, 10)
    new, first = extend(old, texts, 1)
    assert len(pieces) == 2  # not the rare one, nor the number, nor what is whole already
    assert new.token(next(iter(first))) == "nephritis"
    longer = new.encode("nephritist", specials=False).tokens
    assert longer == ["nephritis", "##t"]  # as the longest match has it


@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_kinds_that_cannot_be_extended(documents, kind):
    old = Tokenizer.train(TokenizerConfig(kind=kind), documents, vocab_size=400)
    with pytest.raises(ConfigError, match=f"this {kind} vocabulary cannot be extended, only wordpiece"):
        extend(old, documents, 5)


def test_special_tokens_behind_the_vocabulary_keep_their_ids(documents, clinic):
    """A token that somebody added later has the next id, which new words must not take."""
    old = Tokenizer.train(TokenizerConfig(), documents, vocab_size=400)
    state = json.loads(old.backend.to_str())
    added = type(old.backend).from_str(json.dumps(state))
    added.add_tokens(["[NOTE]"])
    old, last = Tokenizer(added, old.config, old.specials), old.vocab_size
    new, pieces = extend(old, documents_of(clinic), 2)
    assert new.id("[NOTE]") == old.id("[NOTE]") == last and list(pieces) == [last + 1, last + 2]
    assert new.encode("hepatitis [NOTE]", specials=False).ids.count(last) == 1
