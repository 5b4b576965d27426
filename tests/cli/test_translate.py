"""Translation on the command line: a Transformer, and a CoVe on word vectors."""

import json
import shutil
import sys

import pytest
import torch

import polyseme as ps
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

GERMAN = {"a": "ein", "man": "Mann", "dog": "Hund", "cat": "Kater", "sees": "sieht", "the": "den", "red": "roten"}
GERMAN |= {"old": "alten", "big": "großen"}
TINY = [
    "--size",
    "tiny",
    "--set",
    "training.threads=1",
    "--set",
    "training.batch_tokens=512",
    "--set",
    "model.dropout=0.0",
]
SMALL = [*TINY, "--set", "model.vocab_size=300", "--set", "data.sequence_length=32", "--budget", "60steps"]


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """Pairs, word for word, in a table and in two files; and vectors of words."""
    folder = tmp_path_factory.mktemp("translate")
    nouns, signs = ["man", "dog", "cat"], ["", "red ", "old ", "big old "]
    english = [f"a {a}{m} sees the {b}{n}" for a in signs for b in signs for m in nouns for n in nouns]
    german = [" ".join(GERMAN[word] for word in line.split()) for line in english]
    (folder / "en.txt").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "de.txt").write_text("\n".join(german) + "\n", encoding="utf-8")
    rows = "".join(f"{source}\t{target}\n" for source, target in zip(english, german, strict=True))
    (folder / "pairs.tsv").write_text("source\ttarget\n" + rows, encoding="utf-8")
    rng = torch.Generator().manual_seed(0)
    words = [*GERMAN, "bank"]
    numbers = torch.randn(len(words), 12, generator=rng).tolist()
    lines = [f"{word} " + " ".join(f"{x:.4f}" for x in row) for word, row in zip(words, numbers, strict=True)]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def models(desk):
    """A Transformer from a table and a CoVe from two files, sixty steps each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(desk / "cache"))
        common = {"size": "tiny", "budget": "60steps"}
        settings = [SMALL[place + 1] for place, word in enumerate(SMALL) if word == "--set"]
        ps.pretrain("transformer", corpus=desk / "pairs.tsv", out=desk / "transformer", settings=settings, **common)
        settings.append(f"model.vectors={desk / 'vectors.txt'}")
        files = {"corpus": desk / "en.txt", "target": desk / "de.txt"}
        ps.pretrain("cove", **files, out=desk / "cove", settings=[*settings, "tokenizer.min_count=1"], **common)
    return desk


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_translate(polyseme, models, family):
    texts = ["a man sees the red dog", "a old dog sees the man"]
    ended = polyseme("translate", models / family, *texts)
    assert ended.code == 0 and ended.err.startswith("next: ")
    lines = ended.out.splitlines()
    assert lines == ps.load(models / family).translate(texts)
    assert all(set(line.split()) <= set(GERMAN.values()) for line in lines)
    assert lines[0].startswith("ein ")
    rows = polyseme("translate", models / family, "--json", "--beam-size", "2", stdin="\n".join(texts)).out.splitlines()
    assert [json.loads(row)["text"] for row in rows] == texts
    assert json.loads(rows[0]).keys() == {"text", "translation"}


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_cross_attention_is_printed(polyseme, models, family):
    ended = polyseme("translate", models / family, "a man sees the dog", "--attention")
    first, header, *rows = ended.out.splitlines()
    assert ended.code == 0 and first.startswith("ein")
    assert len(header.split("\t")) == len(rows[0].split("\t"))
    row = json.loads(polyseme("translate", models / family, "a man sees the dog", "--attention", "--json").out)
    assert len(row["attention"]) == len(row["target"]) == len(rows)
    assert all(sum(weights) == pytest.approx(1, abs=0.01) for weights in row["attention"])
    assert row["translation"] == first


def test_dry_run(polyseme, desk):
    files = ["--corpus", desk / "en.txt", "--target", desk / "de.txt", "--dev", desk / "en.txt"]
    ended = polyseme(
        "pretrain", "cove", *files, "--dev-target", desk / "de.txt", *TINY, "--budget", "1s", "--dry-run", "--out", "x"
    )
    assert ended.code == 0 and "steps" in ended.out


def test_training_pairs_are_shown(polyseme, models):
    ended = polyseme("data", "show", models / "transformer", "--rows", "2", "--json")
    for line in ended.out.splitlines():
        row = json.loads(line)
        words = [GERMAN[word] for word in row["text"].split()]
        assert row["translation"] == " ".join(words)
    assert ", translation: ein " in polyseme("data", "show", models / "transformer").out


def test_translation_models_are_not_exported_to_onnx(polyseme, models, tmp_path):
    ended = polyseme("export", models / "cove", "--to", "onnx", "--out", tmp_path / "graph")
    assert ended.code == 2 and "bidirectional encoders" in ended.err


def test_cove_concatenates_its_word_vectors(models):
    model = ps.load(models / "cove")
    assert model.encoder.widths == (12, 64, 76)
    words = ps.load(models / "vectors.txt")
    for text in ("bank", "Bank", "nothing"):  # known without a translation; in lower case only; not at all
        (encoding,) = model.encode([text])
        expected = words.embed([text.lower()])[0] if text == "bank" else torch.zeros(12).numpy()
        assert encoding.layers[-1][0, :12] == pytest.approx(expected, abs=1e-6)
    assert model.tokenizer.id("bank") >= model.encoder.config.target_size > model.tokenizer.id("ein")


def test_cove_does_not_need_the_file_of_its_word_vectors(desk, tmp_path):
    """An interrupted run resumes without the file of vectors, and the model needs nothing else."""
    vectors = shutil.copy(desk / "vectors.txt", tmp_path / "v.txt")
    settings = [
        "training.threads=1",
        "model.vocab_size=300",
        "data.sequence_length=32",
        "training.batch_tokens=512",
        "training.steps=6",
    ]
    settings += [f"model.vectors={vectors}", "tokenizer.min_count=1", "training.budget=6steps", "training.save_every=2"]
    from polyseme.api import open_recipe_embeddings

    recipe = Recipe.preset("cove", "tiny", settings, data={"corpus": [str(desk / "pairs.tsv")]})
    whole = PretrainingSession.start(recipe, tmp_path / "whole", vectors=open_recipe_embeddings(recipe))
    list(whole.steps())
    whole.finish()
    broken = PretrainingSession.start(recipe, tmp_path / "broken", vectors=open_recipe_embeddings(recipe))
    steps = broken.steps()
    for _ in range(3):
        next(steps)
    steps.close()
    broken.run.close()
    (tmp_path / "v.txt").unlink()
    again = PretrainingSession.resume(tmp_path / "broken")
    assert again.resumed_at == 2
    list(again.steps())
    again.finish()
    for name, weight in whole.learner.weights.items():
        assert torch.equal(again.learner.weights[name], weight), name


def test_bleu(polyseme, models, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    ended = polyseme("evaluate", models / "transformer", "--suite", "translation", "--data", models / "pairs.tsv")
    assert ended.code == 2 and "pip install sacrebleu" in ended.err
    monkeypatch.undo()
    pytest.importorskip("sacrebleu")
    ended = polyseme(
        "evaluate", models / "transformer", "--suite", "translation", "--data", models / "pairs.tsv", "--json"
    )
    row = json.loads(ended.out)
    assert row["metric"] == "bleu" and row["items"] == 144 and 0 <= row["value"] <= 100


MISTAKES = {
    "no vectors": (
        ["pretrain", "cove", "--corpus", "pairs.tsv"],
        "model.vectors: cove needs pretrained word embeddings",
    ),
    "no translations": (["pretrain", "transformer", "--corpus", "en.txt"], "pass an aligned file with --target"),
    "no corpus": (["pretrain", "transformer"], "no text to train on"),
    "uneven": (["pretrain", "transformer", "--corpus", "en.txt", "--target", "vectors.txt"], "has more lines than"),
    "another family": (
        ["pretrain", "bert", "--corpus", "en.txt", "--target", "de.txt"],
        "bert is not a translation model",
    ),
    "no such vectors": (
        ["pretrain", "cove", "--corpus", "pairs.tsv", "--set", "model.vectors=vectros.txt"],
        "vectros.txt does not exist; did you mean vectors.txt?",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_errors(polyseme, desk, tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(desk)
    arguments, phrase = MISTAKES[mistake]
    ended = polyseme(*arguments, *SMALL, "--out", tmp_path / "out")
    assert ended.code == 2 and phrase in ended.err and ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_capabilities(polyseme, models, bert):
    for arguments, phrase in [
        (["generate", models / "transformer", "x"], "cannot generate; use a model with a causal"),
        (["score", models / "cove", "x"], "cannot score"),
        (["fill", models / "cove", "x [MASK]"], "cannot fill"),
        (["translate", bert, "x"], "cannot translate; use a model with a translation head"),
        (["evaluate", bert, "--suite", "translation", "--data", models / "pairs.tsv"], "cannot translate"),
    ]:
        ended = polyseme(*arguments)
        assert ended.code == 2 and phrase in ended.err and ended.err.count("\n") == 1


def test_published_cove_weights_are_imported(polyseme, desk, tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    lstm = torch.nn.LSTM(12, 5, num_layers=2, bidirectional=True, batch_first=True)
    torch.save(lstm.state_dict(), tmp_path / "MT-LSTM.pth")
    save_file({f"rnn.{name}": weight for name, weight in lstm.state_dict().items()}, tmp_path / "a.safetensors")
    ended = polyseme("import", tmp_path / "MT-LSTM.pth", "--vectors", desk / "vectors.txt", "--out", tmp_path / "no")
    assert ended.code == 2 and "add --pickle" in ended.err
    for name, options in (("MT-LSTM.pth", ["--pickle"]), ("a.safetensors", [])):
        out = tmp_path / name[0]
        ended = polyseme("import", tmp_path / name, "--vectors", desk / "vectors.txt", *options, "--out", out)
        assert ended.code == 0, ended.err
        model = ps.load(out)
        (encoding,) = model.encode(["a man nothing bank"])
        words = torch.from_numpy(encoding.layers[0])[None]
        assert words[0, 2].abs().sum() == 0 and words[0, 3].abs().sum() > 0
        torch.testing.assert_close(torch.from_numpy(encoding.layers[-1][:, 12:])[None], lstm(words)[0].detach())
    assert "cannot translate" in polyseme("translate", out, "a man").err
