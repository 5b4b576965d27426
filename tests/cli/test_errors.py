"""A user's mistake is one line on stderr that ends with what to do, exit code 2, and nothing half-written."""

import fcntl
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.storage.manifest import rewrite_file, write_manifest
from polyseme.training.storage.run_dir import LOCK, SAVED_TOKENIZER

TINY = ["--size", "tiny", "--budget", "2steps", "--set", "training.threads=1"]
SMALL = [*TINY, "--set", "model.vocab_size=400", "--set", "model.width=32", "--set", "data.sequence_length=32"]


@pytest.fixture
def desk(tmp_path, corpus_file, monkeypatch):
    """A folder with invalid files of every kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    shutil.copy(corpus_file, "corpus.txt")
    rng = random.Random(0)
    Path("empty.txt").write_text("")
    Path("blank.txt").write_text("  \n\n\t\n" * 100)
    Path("folder").mkdir()
    Path("word.txt").write_text("word")
    Path("short.txt").write_text("some words, but by far too few of them to train on: " + "abcdefghijklmnopqrstuvwxyz")
    Path("gbk.txt").write_bytes(("他在苹果公司上班，每天早上吃一个苹果。" * 50).encode("gbk"))
    Path("random.txt").write_bytes(rng.randbytes(20_000))
    Path("bad.jsonl").write_text('{"text": "good"}\n{"text": "cut sh')
    Path("other.jsonl").write_text('{"body": "good"}\n')
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("years of work")
    Path("file").write_text("not a folder")
    Path("vectors.txt").write_text("bank 1 2\nriver 3 4\nnew york 5 6\n")
    Path("short.bin").write_bytes(b"2 3\nbank \x00\x00\x80\x3f\x00")
    Path("pairs.tsv").write_text("word_a\tword_b\tscore\nbank\triver\n")
    return tmp_path


def snapshot(folder):
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if "cache" not in path.parts[-4:]
    }


def mistaken(ended, phrase):
    assert ended.code == 2, ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    lines = ended.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("polyseme: ")
    assert phrase in lines[0]
    assert len(lines[0]) < 500


def pretrain(*arguments, family="bert"):
    return ["pretrain", family, *SMALL, "--out", "out", *arguments]


CORPUS = ["--corpus", "corpus.txt"]
BEFORE_TRAINING = {
    # the text
    "no corpus": (pretrain(), "give --corpus a path"),
    "a missing file": (pretrain("--corpus", "corpsu.txt"), "corpsu.txt: no such file; did you mean corpus.txt?"),
    "a missing folder": (pretrain("--corpus", "no/such/place.txt"), "no such file; check the path"),
    "a pattern for nothing": (pretrain("--corpus", "*.csv"), "no readable files in this pattern"),
    "a missing dev file": (pretrain(*CORPUS, "--dev", "corpsu.txt"), "did you mean corpus.txt?"),
    "an empty corpus": (pretrain("--corpus", "empty.txt"), " no text"),
    "a blank corpus": (pretrain("--corpus", "blank.txt"), " no text"),
    "an empty folder": (pretrain("--corpus", "folder"), "no readable files in this folder; give .txt"),
    "one word": (pretrain("--corpus", "word.txt"), "too few for sequences"),
    "one word for a gpt2": (pretrain("--corpus", "word.txt", family="gpt2"), "more text"),
    "too few words": (pretrain("--corpus", "short.txt", "--set", "tokenizer.min_count=1"), "more text"),
    "GBK": (pretrain("--corpus", "gbk.txt"), "iconv -f gb18030 -t utf-8"),
    "random bytes": (pretrain("--corpus", "random.txt"), "random.txt is not UTF-8"),
    "broken JSON": (pretrain("--corpus", "bad.jsonl"), "bad.jsonl, line 2: not JSON"),
    "no such column": (pretrain("--corpus", "other.jsonl", "--column", "bodi"), "no column 'bodi'; did you mean body?"),
    "a text without a language": (pretrain(*CORPUS, "--corpus", "en=corpus.txt"), "corpus.txt has no language"),
    "a missing language": (pretrain("--corpus", "en=corpus.txt", "--corpus", "zh=zh.txt"), "zh.txt: no such file"),
    "an empty language": (
        pretrain("--corpus", "en=corpus.txt", "--corpus", "zh=empty.txt"),
        " no text",
    ),
    # settings
    "language sampling above 1": (
        pretrain(*CORPUS, "--set", "data.language_sampling=1.5"),
        "data.language_sampling: should be less than or equal to 1",
    ),
    "a base model": (pretrain(*CORPUS, "--set", "training.base_model=bert"), "polyseme adapt MODEL"),
    "an unknown family": (pretrain(*CORPUS, family="brt"), "'brt' is not a family; did you mean bert?"),
    "a family like none": (
        pretrain(*CORPUS, family="xyz"),
        "choose one of albert, bert, cbow, cove, elmo, ernie, fasttext, glove",
    ),
    "an unknown size": (pretrain(*CORPUS, "--size", "smal"), "did you mean small?"),
    "an unknown setting": (
        pretrain(*CORPUS, "--set", "training.learning_ratee=1"),
        "unknown setting training.learning_ratee; did you mean training.learning_rate?",
    ),
    "an unknown group": (
        pretrain(*CORPUS, "--set", "plam.rate=1"),
        "plam: no such group of settings; choose one of data, model",
    ),
    "no group": (pretrain(*CORPUS, "--set", "rate=1"), "write group.setting=value"),
    "no value": (pretrain(*CORPUS, "--set", "training.learning_rate"), "write group.setting=value"),
    "a setting of the family": (pretrain(*CORPUS, "--set", "family.name=bert"), "write group.setting=value"),
    "a bad value": (
        pretrain(*CORPUS, "--set", "training.learning_rate=fast"),
        "training.learning_rate: should be a valid number",
    ),
    "a negative value": (
        pretrain(*CORPUS, "--set", "training.learning_rate=-1"),
        "training.learning_rate: should be greater than 0",
    ),
    "infinity": (
        pretrain(*CORPUS, "--set", "training.learning_rate=inf"),
        "training.learning_rate: should be a finite number",
    ),
    "not a number": (pretrain(*CORPUS, "--set", "training.weight_decay=nan"), "training.weight_decay: should be"),
    "a list": (pretrain(*CORPUS, "--set", "objective.kind=[]"), "objective.kind: [] is not an objective"),
    "a bad word": (
        pretrain(*CORPUS, "--set", "training.lr_schedule=cosinus"),
        "training.lr_schedule: should be 'constant', 'linear'",
    ),
    "heads that do not fit": (pretrain(*CORPUS, "--set", "model.num_heads=7"), "not divisible by num_heads = 7"),
    "rows that are too long": (
        pretrain(*CORPUS, "--set", "data.sequence_length=500"),
        "data.sequence_length = 500 is more than model.max_length",
    ),
    "a small vocabulary": (
        pretrain(*CORPUS, "--set", "model.vocab_size=5"),
        "model.vocab_size: wordpiece needs at least",
    ),
    "no mask": (pretrain(*CORPUS, "--set", "tokenizer.specials=gpt2"), "tokenizer.specials: 'gpt2' has no mask"),
    "another objective": (
        pretrain(*CORPUS, "--set", "objective.kind=masked_lm", family="gpt2"),
        "causal_lm",
    ),
    "a terabyte": (pretrain(*CORPUS, "--set", "model.width=1000000"), "are free; choose a smaller --size"),
    "a terabyte of words": (
        pretrain(*CORPUS, "--set", "model.vocab_size=90000000"),
        "are free; choose a smaller --size",
    ),
    "an overflowing width": (pretrain(*CORPUS, "--set", "model.width=2000000000000000000"), "width is more than"),
    "a bad budget": (pretrain(*CORPUS, "--budget", "ten minutes"), "is not a budget; use 90s, 10m, 2h"),
    "no budget": (pretrain(*CORPUS, "--budget", "0s"), "is not a budget; use 90s, 10m, 2h"),
    "a bad seed": (pretrain(*CORPUS, "--seed", "-1"), "training.seed: should be greater than or equal to 0"),
    "a seed that is a word": (pretrain(*CORPUS, "--seed", "x"), "Invalid value for '--seed'"),
    "an unknown option": (pretrain(*CORPUS, "--bugdet", "9s"), "No such option: --bugdet"),
    "an unknown command": (["pretrian", "bert"], "No such command 'pretrian'"),
    "dry and resumed": (pretrain(*CORPUS, "--dry-run", "--resume"), "exclude each other"),
    # where to write
    "a full folder": (
        ["pretrain", "bert", *SMALL, *CORPUS, "--out", "full"],
        "full is not empty; choose another --out",
    ),
    "a file": (["pretrain", "bert", *SMALL, *CORPUS, "--out", "file"], "file is a file; choose another --out"),
    "inside a file": (["pretrain", "bert", *SMALL, *CORPUS, "--out", "file/run"], "file is not writable"),
    "an unwritable place": (
        ["pretrain", "bert", *SMALL, *CORPUS, "--out", "/proc/polyseme"],
        "/proc/polyseme cannot be",
    ),
    "no run to resume, no text": (pretrain("--resume"), "give --corpus a path"),
    # other commands
    "an unknown sample": (["sample", "twon", "--out", "out"], "town"),
    "a tokenizer of no text": (["tokenizer", "train", "--corpus", "empty.txt", "--out", "out"], " no text"),
    "a tokenizer of no kind": (
        ["tokenizer", "train", *CORPUS, "--kind", "wrd", "--out", "out"],
        "tokenizer.kind: should be",
    ),
    "a tokenizer in a full folder": (["tokenizer", "train", *CORPUS, "--out", "full"], "full is not empty"),
    "info of nothing": (["info", "nothing"], "nothing is not a folder; give the directory of a model or run"),
    "info of a folder": (["info", "full"], "full has no config.json; give the directory of a model or run"),
    "a model that is not there": (
        ["fill", "nothing", "The [MASK]."],
        "nothing does not exist",
    ),
    "a model that is a file": (
        ["score", "file", "text"],
        "file contains no word vectors",
    ),
    "a model that is a folder": (["embed", "full", "text"], "full has no config.json"),
    "adapt what is not there": (["adapt", "nothing", *CORPUS, "--out", "out"], "nothing does not exist"),
    # word vectors
    "vectors that are cut short": (
        ["neighbours", "short.bin", "bank"],
        "short.bin does not contain 2 vectors of 3 dimensions",
    ),
    "import vectors that are cut short": (["import", "short.bin", "--out", "out"], "it may be truncated"),
    "import an empty file": (["import", "empty.txt", "--out", "out"], "empty.txt is empty"),
    "import into a full folder": (["import", "vectors.txt", "--out", "full"], "full is not empty"),
    "import from a pickle of no folder": (
        ["import", "empty.txt", "--pickle", "--out", "out"],
        "empty.txt is empty; download or export it again",
    ),
    "info of no vectors": (["info", "file"], "file contains no word vectors"),
    "an unknown word": (
        ["neighbours", "vectors.txt", "bnak"],
        "'bnak' is not in the vocabulary; did you mean",
    ),
    "a word like none": (
        ["neighbours", "vectors.txt", "银行"],
        "'银行' is not in the vocabulary; choose another",
    ),
    "no word": (["neighbours", "vectors.txt"], "standard input contains no text"),
    "no neighbours": (["neighbours", "vectors.txt", "bank", "--top", "0"], "Invalid value for '--top'"),
    "an analogy of two words": (["analogy", "vectors.txt", "bank", "river"], "Missing argument 'third'"),
    "an analogy of an unknown word": (["analogy", "vectors.txt", "bank", "rivr", "bank"], "did you mean river?"),
    "an analogy by no method": (
        ["analogy", "vectors.txt", "bank", "river", "bank", "--method", "3cosdiv"],
        "'3cosdiv' is not an analogy method; did you mean 3cos",
    ),
    "evaluate on nothing": (["evaluate", "vectors.txt"], "Missing option '--data'"),
    "evaluate on a missing set": (["evaluate", "vectors.txt", "--data", "set.tsv"], "set.tsv cannot be read"),
    "evaluate on an empty folder": (["evaluate", "vectors.txt", "--data", "folder"], "folder has no word sets"),
    "evaluate on an empty set": (["evaluate", "vectors.txt", "--data", "empty.txt"], "empty.txt has no words"),
    "evaluate on a broken set": (
        ["evaluate", "vectors.txt", "--data", "pairs.tsv"],
        "pairs.tsv, line 2: a pair has two words",
    ),
    "evaluate by no suite": (
        ["evaluate", "vectors.txt", "--suite", "wrods", "--data", "pairs.tsv"],
        "unknown suite 'wrods'; did you mean words?",
    ),
    "vectors as a graph": (["export", "vectors.txt", "--out", "out"], "supports bidirectional encoders"),
    "vectors over a file": (["export", "vectors.txt", "--to", "glove", "--out", "file"], "file already exists"),
    "vectors inside a file": (
        ["export", "vectors.txt", "--to", "glove", "--out", "file/vectors"],
        "file/vectors cannot be written",
    ),
    "a space in word2vec": (
        ["export", "vectors.txt", "--to", "word2vec", "--out", "out"],
        "'new york' contains a space",
    ),
}


@pytest.mark.parametrize("name", BEFORE_TRAINING)
def test_user_errors_without_a_model(desk, polyseme, name):
    arguments, phrase = BEFORE_TRAINING[name]
    before = snapshot(desk)
    mistaken(polyseme(*arguments), phrase)
    assert snapshot(desk) == before, "something was written"


@pytest.mark.parametrize(
    ("byte", "phrase"), [(b"x", "line.txt, line 1: is not text"), (b"\0", "line.txt is not UTF-8")]
)
def test_a_line_of_a_hundred_megabytes(desk, polyseme, byte, phrase):
    """Without a line break: the error comes after the first megabyte, and the rest is not read."""
    with Path("line.txt").open("wb") as file:
        for _ in range(2):
            file.write(byte * 1_000_000)
        file.truncate(100_000_000)
    mistaken(polyseme(*pretrain("--corpus", "line.txt")), phrase)
    assert not Path("out").exists()


def test_output_directory_in_use(desk, polyseme):
    Path("out").mkdir()
    with Path("out", LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("4711")
        file.flush()
        mistaken(polyseme(*pretrain(*CORPUS)), "out is in use by process 4711; wait for it or choose another --out")
    assert [path.name for path in Path("out").iterdir()] == [LOCK]


@pytest.fixture
def unfinished(desk, trained):
    """An unfinished run."""
    shutil.copytree(trained / "bert", "unfinished")
    Path("unfinished/model.safetensors").unlink()
    write_manifest(Path("unfinished"), [*SAVED_TOKENIZER, RECIPE])
    return Path("unfinished")


def test_unfinished_runs(unfinished, polyseme):
    mistaken(
        polyseme("fill", "unfinished", "The [MASK]."), "is an unfinished run; resume it with polyseme pretrain --resume"
    )
    mistaken(
        polyseme("pretrain", "bert", *SMALL, *CORPUS, "--out", "unfinished"),
        "continue it with --resume",
    )
    mistaken(
        polyseme("pretrain", "gpt2", "--out", "unfinished", "--resume"),
        "is a run of polyseme pretrain bert",
    )
    with (unfinished / LOCK).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "is in use by process")
    recipe = (unfinished / "recipe.toml").read_text()
    (unfinished / "recipe.toml").write_text(recipe.replace("[training]", "[plam]"))
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "plam: no such group of settings")
    (unfinished / "recipe.toml").write_text("[[[")
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "recipe.toml is damaged")


def test_corpus_changed_during_a_run(unfinished, polyseme):
    recipe = (unfinished / "recipe.toml").read_text()
    corpus = next(line.strip(' ",') for line in recipe.splitlines() if line.strip().endswith('corpus.txt",'))
    rewrite_file(unfinished, RECIPE, recipe.replace(corpus, str(Path("corpus.txt").absolute())))
    with Path("corpus.txt").open("a") as file:
        file.write("one more sentence.")
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "has changed since the run started")
    Path("corpus.txt").unlink()
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "corpus.txt: no such file")


WITH_A_MODEL = {
    "no mask token": (["fill", "bert", "no mask here"], "has no [MASK]; write it in place of each token to predict"),
    "fill on a gpt2": (["fill", "gpt2", "The [MASK]."], "cannot fill; use a model with a masked language model head"),
    "an unknown weight type": (
        ["generate", "gpt2", "The", "--weights", "int4"],
        "'int4' is not a weight type",
    ),
    "generate on a bert": (
        ["generate", "bert", "The"],
        "cannot generate; use a model with a causal language model head",
    ),
    "generate with top-p 0": (
        ["generate", "gpt2", "The", "--top-p", "0"],
        "generate.top_p: should be greater than 0",
    ),
    "generate with no number": (["generate", "gpt2", "The", "--temperature", "nan"], "temperature"),
    "generate with a large seed": (
        ["generate", "gpt2", "The", "--seed", "9" * 30],
        "generate.seed: should be less than",
    ),
    "generate until nothing": (["generate", "gpt2", "The", "--stop", ""], "generate.stop"),
    "generate nothing": (["generate", "gpt2", "The", "--max-tokens", "0"], "Invalid value for '--max-tokens'"),
    "a layer too high": (
        ["embed", "bert", "text", "--layer", "3"],
        "layer 3 does not exist; choose 0 (the embedding) to 2",
    ),
    "a layer too low": (["embed", "bert", "text", "--layer", "-4"], "layer -4 does not exist"),
    "an unknown pool": (["embed", "bert", "text", "--pool", "avg"], "'avg' is not a pooling method"),
    "no array": (["embed", "bert", "text", "--out", "vectors.txt"], "vectors.txt has the wrong extension"),
    "an array nowhere": (
        ["embed", "bert", "text", "--out", "no/such/place.npy"],
        "no/such/place.npy cannot be written",
    ),
    "a file that is not there": (["score", "bert", "--file", "nothing.txt"], "nothing.txt cannot be read"),
    "a file that is a folder": (["score", "bert", "--file", "full"], "full cannot be read"),
    "an empty file": (["score", "bert", "--file", "empty.txt"], "empty.txt contains no text; write one text per line"),
    "no text": (["score", "bert"], "standard input contains no text"),
    "no candidates": (["fill", "bert", "[MASK]", "--top", "0"], "Invalid value for '--top'"),
    "adapt to no text": (["adapt", "bert", "--out", "out"], "give --corpus a path"),
    "adapt to a missing file": (
        ["adapt", "bert", "--corpus", "corpsu.txt", "--out", "out"],
        "did you mean corpus.txt?",
    ),
    "adapt into a full folder": (
        ["adapt", "bert", *CORPUS, "--out", "full"],
        "full is not empty; choose another --out",
    ),
    "adapt to another size": (
        ["adapt", "bert", *CORPUS, "--out", "out", "--set", "model.width=64"],
        "model.width: the base model has 32",
    ),
    "adapt with long rows": (
        ["adapt", "gpt2", *CORPUS, "--out", "out", "--set", "data.sequence_length=500"],
        "data.sequence_length = 500 is more than model.max_length = 48",
    ),
    "adapt with fewer words": (
        ["adapt", "bert", *CORPUS, "--out", "out", "--new-words", "-1"],
        "Invalid value for '--new-words'",
    ),
    "resume the adaptation of another run": (
        ["adapt", "gpt2", "--out", "bert", "--resume"],
        "bert is a run of polyseme pretrain bert",
    ),
    "a word of several pieces": (["neighbours", "bert", "banking"], "'banking' is several tokens"),
    "a format like none": (
        ["export", "bert", "--to", "gensim", "--out", "out"],
        "'gensim' is not an export format",
    ),
    "fill on word vectors": (
        ["fill", "vectors.txt", "The [MASK]."],
        "cannot fill; use a model with a masked language model head",
    ),
    "a name nearly right": (["score", "bart", "text"], "bart does not exist; did you mean bert?"),
}


@pytest.mark.parametrize("name", WITH_A_MODEL)
def test_user_errors_with_a_model(desk, trained, polyseme, name):
    for family in ("bert", "gpt2"):
        Path(family).symlink_to(trained / family)
    arguments, phrase = WITH_A_MODEL[name]
    before = snapshot(desk)
    mistaken(polyseme(*arguments), phrase)
    assert snapshot(desk) == before


def test_no_text_at_a_terminal(desk, bert, polyseme, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    from polyseme.cli import run
    from polyseme.cli.console import read_texts
    from polyseme.errors import ConfigError

    for nobody in (Terminal(), None):
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(ConfigError, match="pass it as an argument, with --file"):
            read_texts(None, None)
        assert run(["score", str(bert)]) == 2


def test_truncated_weights(desk, trained, polyseme):
    shutil.copytree(trained / "bert", "cut")
    file = Path("cut/model.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    mistaken(polyseme("fill", "cut", "The [MASK]."), "model.safetensors is truncated (")
    mistaken(polyseme("info", "cut"), "model.safetensors is truncated (")
    file.write_bytes(b"")
    mistaken(polyseme("score", "cut", "text"), "model.safetensors is truncated (")
    Path("cut/manifest.json").unlink()
    mistaken(polyseme("score", "cut", "text"), "is not a safetensors file")


def test_arguments_that_are_not_utf8(desk, bert, polyseme):
    """The shell passes them as lone surrogates."""
    ended = polyseme("score", bert, "caf\udce9", "--json")
    assert ended.code == 0 and "caf\ufffd" in ended.out
    mistaken(polyseme(*pretrain("--corpus", "caf\udce9.txt")), "not UTF-8")


# --- through real processes


def process(*arguments, **options):
    command = [sys.executable, "-m", "polyseme", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_user_error_in_a_subprocess(desk):
    ended = process(*pretrain("--corpus", "corpsu.txt"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "polyseme: corpsu.txt: no such file; did you mean corpus.txt?\n"
    assert not Path("out").exists()


def test_user_error_with_a_model_in_a_subprocess(desk, gpt2):
    """Nothing is shown before the mistake, and the library's warnings do not add to it."""
    ended = process("generate", gpt2, "The", "--top-p", "7", stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1 and ended.stderr.startswith("polyseme: generate.top_p: should be less than")


def test_full_disk(desk, gpt2):
    """Standard output on a full device."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "polyseme", "info", str(gpt2)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert "Traceback" not in ended.stderr and "polyseme: " in ended.stderr
    assert "No space left on device" in ended.stderr and ended.returncode == 2


def test_broken_pipe(desk, gpt2):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "polyseme", "info", str(gpt2)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert ended.returncode in (1, 141) and ended.stderr == ""  # the command parser's way to end, or ours
