"""A user's mistake is one line on standard error that says what to do, exit code 2, and nothing half-written."""

import fcntl
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.train.run import LOCK

TINY = ["--size", "tiny", "--budget", "2steps", "--set", "plan.threads=1"]
SMALL = [*TINY, "--set", "model.vocab_size=400", "--set", "model.width=32", "--set", "data.length=32"]


@pytest.fixture
def desk(tmp_path, corpus_file, monkeypatch):
    """A folder to be wrong in: text of all sorts, and where output may go."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    shutil.copy(corpus_file, "corpus.txt")
    chance = random.Random(0)
    Path("empty.txt").write_text("")
    Path("blank.txt").write_text("  \n\n\t\n" * 100)
    Path("folder").mkdir()
    Path("word.txt").write_text("word")
    Path("short.txt").write_text(
        "some words, but by far too few of them to learn from: " + "abcdefghijklmnopqrstuvwxyz"
    )
    Path("gbk.txt").write_bytes(("他在苹果公司上班，每天早上吃一个苹果。" * 50).encode("gbk"))
    Path("random.txt").write_bytes(chance.randbytes(20_000))
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
    "no corpus": (pretrain(), "give --corpus a path, or a sample"),
    "a missing file": (pretrain("--corpus", "corpsu.txt"), "corpsu.txt: no such file; did you mean corpus.txt?"),
    "a missing folder": (pretrain("--corpus", "no/such/place.txt"), "no such file; check the path"),
    "a pattern for nothing": (pretrain("--corpus", "*.csv"), "no readable files in this pattern"),
    "a missing dev file": (pretrain(*CORPUS, "--dev", "corpsu.txt"), "did you mean corpus.txt?"),
    "an empty corpus": (pretrain("--corpus", "empty.txt"), "empty.txt holds no text"),
    "a blank corpus": (pretrain("--corpus", "blank.txt"), "blank.txt holds no text"),
    "an empty folder": (pretrain("--corpus", "folder"), "no readable files in this folder; give .txt"),
    "one word": (pretrain("--corpus", "word.txt"), "give more text"),
    "one word for a gpt2": (pretrain("--corpus", "word.txt", family="gpt2"), "give more text"),
    "too few words": (pretrain("--corpus", "short.txt", "--set", "tokenizer.min_count=1"), "give more text"),
    "GBK": (pretrain("--corpus", "gbk.txt"), "iconv -f gb18030 -t utf-8"),
    "random bytes": (pretrain("--corpus", "random.txt"), "random.txt is not UTF-8"),
    "broken JSON": (pretrain("--corpus", "bad.jsonl"), "bad.jsonl, line 2: not JSON"),
    "no such column": (pretrain("--corpus", "other.jsonl", "--column", "bodi"), "no column 'bodi'; did you mean body?"),
    "a text of no language": (pretrain(*CORPUS, "--corpus", "en=corpus.txt"), "corpus.txt is of no language; say en="),
    "a missing language": (pretrain("--corpus", "en=corpus.txt", "--corpus", "zh=zh.txt"), "zh.txt: no such file"),
    "an empty language": (pretrain("--corpus", "en=corpus.txt", "--corpus", "zh=empty.txt"), "empty.txt holds no text"),
    # settings
    "languages drawn beyond their share": (
        pretrain(*CORPUS, "--set", "data.sampling=1.5"),
        "data.sampling: should be less than or equal to 1",
    ),
    "a model to go on from": (pretrain(*CORPUS, "--set", "plan.base=bert"), "say polyseme adapt MODEL"),
    "an unknown family": (pretrain(*CORPUS, family="brt"), "'brt' is not a family; did you mean bert?"),
    "a family like none": (
        pretrain(*CORPUS, family="xyz"),
        "there are albert, bert, cbow, cove, elmo, ernie, glove",
    ),
    "an unknown size": (pretrain(*CORPUS, "--size", "smal"), "did you mean small?"),
    "an unknown setting": (
        pretrain(*CORPUS, "--set", "plan.ratee=1"),
        "plan.ratee: no such setting; did you mean plan.rate?",
    ),
    "an unknown group": (
        pretrain(*CORPUS, "--set", "plam.rate=1"),
        "plam: no such group of settings; did you mean plan?",
    ),
    "no group": (pretrain(*CORPUS, "--set", "rate=1"), "say group.setting=value"),
    "no value": (pretrain(*CORPUS, "--set", "plan.rate"), "say group.setting=value"),
    "a setting of the family": (pretrain(*CORPUS, "--set", "family.name=bert"), "say group.setting=value"),
    "a bad value": (pretrain(*CORPUS, "--set", "plan.rate=fast"), "plan.rate: should be a valid number"),
    "a negative value": (pretrain(*CORPUS, "--set", "plan.rate=-1"), "plan.rate: should be greater than 0"),
    "infinity": (pretrain(*CORPUS, "--set", "plan.rate=inf"), "plan.rate: should be a finite number"),
    "not a number": (pretrain(*CORPUS, "--set", "plan.decay=nan"), "plan.decay: should be"),
    "a list": (pretrain(*CORPUS, "--set", "objective.kind=[]"), "objective.kind: [] is not an objective"),
    "a bad word": (
        pretrain(*CORPUS, "--set", "plan.schedule=cosinus"),
        "plan.schedule: should be 'constant', 'linear'",
    ),
    "heads that do not fit": (pretrain(*CORPUS, "--set", "model.num_heads=7"), "cannot be shared by num_heads = 7"),
    "rows that are too long": (
        pretrain(*CORPUS, "--set", "data.length=500"),
        "data.length = 500 is more than model.max_length",
    ),
    "a small vocabulary": (
        pretrain(*CORPUS, "--set", "model.vocab_size=5"),
        "model.vocab_size: wordpiece needs at least",
    ),
    "no mask": (pretrain(*CORPUS, "--set", "tokenizer.specials=gpt2"), "tokenizer.specials: 'gpt2' has no mask"),
    "another objective": (
        pretrain(*CORPUS, "--set", "objective.kind=masked", family="gpt2"),
        "a gpt2 learns by 'next_token'",
    ),
    "a terabyte": (pretrain(*CORPUS, "--set", "model.width=1000000"), "are free; choose a smaller --size"),
    "a terabyte of words": (
        pretrain(*CORPUS, "--set", "model.vocab_size=10000000000"),
        "are free; choose a smaller --size",
    ),
    "beyond all measure": (pretrain(*CORPUS, "--set", "model.width=2000000000000000000"), "make model.width"),
    "a bad budget": (pretrain(*CORPUS, "--budget", "ten minutes"), "is no budget; say 90s, 10m, 2h"),
    "no budget": (pretrain(*CORPUS, "--budget", "0s"), "is no budget; say 90s, 10m, 2h"),
    "a bad seed": (pretrain(*CORPUS, "--seed", "-1"), "plan.seed: should be greater than or equal to 0"),
    "a seed that is a word": (pretrain(*CORPUS, "--seed", "x"), "Invalid value for '--seed'"),
    "an unknown option": (pretrain(*CORPUS, "--bugdet", "9s"), "No such option: --bugdet"),
    "an unknown command": (["pretrian", "bert"], "No such command 'pretrian'"),
    "dry and resumed": (pretrain(*CORPUS, "--dry-run", "--resume"), "do not go together"),
    # where to write
    "a full folder": (
        ["pretrain", "bert", *SMALL, *CORPUS, "--out", "full"],
        "full is not empty; choose another --out",
    ),
    "a file": (["pretrain", "bert", *SMALL, *CORPUS, "--out", "file"], "file is a file; choose another --out"),
    "inside a file": (["pretrain", "bert", *SMALL, *CORPUS, "--out", "file/run"], "file is no folder to write in"),
    "an unwritable place": (
        ["pretrain", "bert", *SMALL, *CORPUS, "--out", "/proc/polyseme"],
        "/proc/polyseme cannot be made",
    ),
    "no run to resume, no text": (pretrain("--resume"), "give --corpus a path"),
    # other commands
    "an unknown sample": (["sample", "twon", "--out", "out"], "town"),
    "a tokenizer of no text": (["tokenizer", "train", "--corpus", "empty.txt", "--out", "out"], "holds no text"),
    "a tokenizer of no kind": (
        ["tokenizer", "train", *CORPUS, "--kind", "wrd", "--out", "out"],
        "tokenizer.kind: should be",
    ),
    "a tokenizer in a full folder": (["tokenizer", "train", *CORPUS, "--out", "full"], "full is not empty"),
    "info of nothing": (["info", "nothing"], "nothing is not a folder; give the directory of a model or run"),
    "info of a folder": (["info", "full"], "full has no config.json; give the directory of a model or run"),
    "a model that is not there": (
        ["fill", "nothing", "The [MASK]."],
        "nothing does not exist; give the directory of a model",
    ),
    "a model that is a file": (
        ["score", "file", "text"],
        "file holds no word vectors; give a model, or a file of word2v",
    ),
    "a model that is a folder": (["embed", "full", "text"], "full has no config.json"),
    "adapt what is not there": (["adapt", "nothing", *CORPUS, "--out", "out"], "nothing does not exist"),
    # word vectors
    "vectors that are cut short": (
        ["neighbours", "short.bin", "bank"],
        "short.bin does not hold 2 words with 3 numbers",
    ),
    "import vectors that are cut short": (["import", "short.bin", "--out", "out"], "it may be cut short"),
    "import an empty file": (["import", "empty.txt", "--out", "out"], "empty.txt is empty"),
    "import into a full folder": (["import", "vectors.txt", "--out", "full"], "full is not empty"),
    "import from a pickle of no folder": (
        ["import", "empty.txt", "--pickle", "--out", "out"],
        "empty.txt is empty; download or export it again",
    ),
    "info of no vectors": (["info", "file"], "file holds no word vectors"),
    "an unknown word": (
        ["neighbours", "vectors.txt", "bnak"],
        "'bnak' is not among the words of the model; did you mean",
    ),
    "a word like none": (
        ["neighbours", "vectors.txt", "银行"],
        "'银行' is not among the words of the model; give another",
    ),
    "no word": (["neighbours", "vectors.txt"], "standard input holds no text"),
    "no neighbours": (["neighbours", "vectors.txt", "bank", "--top", "0"], "Invalid value for '--top'"),
    "an analogy of two words": (["analogy", "vectors.txt", "bank", "river"], "Missing argument 'third'"),
    "an analogy of an unknown word": (["analogy", "vectors.txt", "bank", "rivr", "bank"], "did you mean river?"),
    "an analogy by no method": (
        ["analogy", "vectors.txt", "bank", "river", "bank", "--method", "3cosdiv"],
        "'3cosdiv' is no way to complete an analogy; did you mean 3cos",
    ),
    "evaluate on nothing": (["evaluate", "vectors.txt"], "Missing option '--data'"),
    "evaluate on a missing set": (["evaluate", "vectors.txt", "--data", "set.tsv"], "set.tsv cannot be read"),
    "evaluate on an empty folder": (["evaluate", "vectors.txt", "--data", "folder"], "folder holds no sets of words"),
    "evaluate on an empty set": (["evaluate", "vectors.txt", "--data", "empty.txt"], "empty.txt holds no words"),
    "evaluate on a broken set": (
        ["evaluate", "vectors.txt", "--data", "pairs.tsv"],
        "pairs.tsv, line 2: a pair is two",
    ),
    "evaluate by no suite": (
        ["evaluate", "vectors.txt", "--suite", "wrods", "--data", "pairs.tsv"],
        "'wrods' is no suite; did you mean words?",
    ),
    "vectors as a graph": (["export", "vectors.txt", "--out", "out"], "reads both directions, such as a bert"),
    "vectors over a file": (["export", "vectors.txt", "--to", "glove", "--out", "file"], "file is there already"),
    "vectors inside a file": (
        ["export", "vectors.txt", "--to", "glove", "--out", "file/vectors"],
        "file/vectors cannot be written",
    ),
    "a space in word2vec": (
        ["export", "vectors.txt", "--to", "word2vec", "--out", "out"],
        "'new york' has a space in it, which word2vec cannot hold; choose glove",
    ),
}


@pytest.mark.parametrize("name", BEFORE_TRAINING)
def test_mistakes_before_there_is_a_model(desk, polyseme, name):
    arguments, phrase = BEFORE_TRAINING[name]
    before = snapshot(desk)
    mistaken(polyseme(*arguments), phrase)
    assert snapshot(desk) == before, "something was written"


@pytest.mark.parametrize(
    ("letter", "phrase"), [(b"x", "line.txt, line 1: is not text"), (b"\0", "line.txt is not UTF-8")]
)
def test_a_line_of_a_hundred_megabytes(desk, polyseme, letter, phrase):
    """Without a break, and of letters or of nothing: said at the first million, and not read to its end."""
    with Path("line.txt").open("wb") as file:
        for _ in range(2):
            file.write(letter * 1_000_000)
        file.truncate(100_000_000)
    mistaken(polyseme(*pretrain("--corpus", "line.txt")), phrase)
    assert not Path("out").exists()


def test_an_output_in_use(desk, polyseme):
    Path("out").mkdir()
    with Path("out", LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("4711")
        file.flush()
        mistaken(polyseme(*pretrain(*CORPUS)), "out is in use by process 4711; wait for it or choose another --out")
    assert [path.name for path in Path("out").iterdir()] == [LOCK]


@pytest.fixture
def unfinished(desk, trained):
    """A run that has not come to its end."""
    shutil.copytree(trained / "bert", "unfinished")
    Path("unfinished/model.safetensors").unlink()
    return Path("unfinished")


def test_runs_that_have_not_ended(unfinished, polyseme):
    mistaken(
        polyseme("fill", "unfinished", "The [MASK]."), "has not ended; go on with it by polyseme pretrain --resume"
    )
    mistaken(
        polyseme("pretrain", "bert", *SMALL, *CORPUS, "--out", "unfinished"),
        "holds a run already; go on with it by --resume",
    )
    mistaken(
        polyseme("pretrain", "gpt2", "--out", "unfinished", "--resume"),
        "holds a bert, not a gpt2; say pretrain bert --resume",
    )
    with (unfinished / LOCK).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "is in use by process")
    recipe = (unfinished / "recipe.toml").read_text()
    (unfinished / "recipe.toml").write_text(recipe.replace("[plan]", "[plam]"))
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "did you mean plan?")
    (unfinished / "recipe.toml").write_text("[[[")
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "recipe.toml cannot be read")


def test_text_that_changed_under_a_run(unfinished, polyseme):
    recipe = (unfinished / "recipe.toml").read_text()
    corpus = next(line.strip(' ",') for line in recipe.splitlines() if line.strip().endswith('corpus.txt",'))
    (unfinished / "recipe.toml").write_text(recipe.replace(corpus, str(Path("corpus.txt").absolute())))
    with Path("corpus.txt").open("a") as file:
        file.write("one more sentence.")
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "has changed since it began")
    Path("corpus.txt").unlink()
    mistaken(polyseme("pretrain", "bert", "--out", "unfinished", "--resume"), "corpus.txt: no such file")


WITH_A_MODEL = {
    "no blank": (["fill", "bert", "no blank here"], "write [MASK] where the word is missing"),
    "fill on a gpt2": (["fill", "gpt2", "The [MASK]."], "cannot fill blanks: that needs a masked model"),
    "weights of no kind": (
        ["generate", "gpt2", "The", "--weights", "int4"],
        "'int4' is no way to keep weights; say float32 or int8",
    ),
    "generate on a bert": (["generate", "bert", "The"], "cannot generate: that needs a left-to-right model"),
    "generate with half a share": (
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
        "there is no layer 3; the layers are 0 (the embedding) to 2",
    ),
    "a layer too low": (["embed", "bert", "text", "--layer", "-4"], "there is no layer -4"),
    "an unknown pool": (["embed", "bert", "text", "--pool", "avg"], "'avg' is no way to pool; say mean, first, last"),
    "no array": (["embed", "bert", "text", "--out", "vectors.txt"], "vectors.txt should end in .npy"),
    "an array nowhere": (
        ["embed", "bert", "text", "--out", "no/such/place.npy"],
        "no/such/place.npy cannot be written",
    ),
    "a file that is not there": (["score", "bert", "--file", "nothing.txt"], "nothing.txt cannot be read"),
    "a file that is a folder": (["score", "bert", "--file", "full"], "full cannot be read"),
    "an empty file": (["score", "bert", "--file", "empty.txt"], "empty.txt holds no text; write one text a line"),
    "no text": (["score", "bert"], "standard input holds no text"),
    "no guesses": (["fill", "bert", "[MASK]", "--top", "0"], "Invalid value for '--top'"),
    "adapt to no text": (["adapt", "bert", "--out", "out"], "give --corpus a path, or a sample"),
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
        "model.width: the model has 32 and keeps it",
    ),
    "adapt with long rows": (
        ["adapt", "gpt2", *CORPUS, "--out", "out", "--set", "data.length=500"],
        "data.length = 500 is more than model.max_length = 48",
    ),
    "adapt with fewer words": (
        ["adapt", "bert", *CORPUS, "--out", "out", "--vocabulary", "-1"],
        "Invalid value for '--vocabulary'",
    ),
    "go on adapting another run": (
        ["adapt", "gpt2", "--out", "bert", "--resume"],
        "bert goes on from no model, not from gpt2; say pretrain bert --resume",
    ),
    "a word of several pieces": (["neighbours", "bert", "banking"], "'banking' is not one token but "),
    "a format like none": (
        ["export", "bert", "--to", "gensim", "--out", "out"],
        "'gensim' is nothing to export to; say",
    ),
    "fill on word vectors": (["fill", "vectors.txt", "The [MASK]."], "cannot fill blanks: that needs a masked model"),
    "a name nearly right": (["score", "bart", "text"], "bart does not exist; did you mean bert?"),
}


@pytest.mark.parametrize("name", WITH_A_MODEL)
def test_mistakes_with_a_model(desk, trained, polyseme, name):
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
    from polyseme.cli.console import texts
    from polyseme.errors import ConfigError

    for nobody in (Terminal(), None):
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(ConfigError, match="give it as an argument, by --file, or on standard input"):
            texts(None, None)
        assert run(["score", str(bert)]) == 2


def test_weights_that_were_cut_short(desk, trained, polyseme):
    shutil.copytree(trained / "bert", "cut")
    file = Path("cut/model.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    mistaken(polyseme("fill", "cut", "The [MASK]."), "model.safetensors is cut short (")
    mistaken(polyseme("info", "cut"), "model.safetensors is cut short (")
    file.write_bytes(b"")
    mistaken(polyseme("score", "cut", "text"), "is not a safetensors file")


def test_bytes_in_an_argument_that_are_no_text(desk, bert, polyseme):
    """The shell hands them over as lone surrogates."""
    ended = polyseme("score", bert, "caf\udce9", "--json")
    assert ended.code == 0 and "caf\ufffd" in ended.out
    mistaken(polyseme(*pretrain("--corpus", "caf\udce9.txt")), "not UTF-8")


# --- through real processes


def process(*arguments, **options):
    command = [sys.executable, "-m", "polyseme", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_a_mistake_in_a_real_process(desk):
    ended = process(*pretrain("--corpus", "corpsu.txt"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "polyseme: corpsu.txt: no such file; did you mean corpus.txt?\n"
    assert not Path("out").exists()


def test_a_mistake_with_a_model_in_a_real_process(desk, gpt2):
    """Nothing is shown before the mistake, and the library's warnings do not add to it."""
    ended = process("generate", gpt2, "The", "--top-p", "7", stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1 and ended.stderr.startswith("polyseme: generate.top_p: should be less than")


def test_a_disk_that_is_full(desk, gpt2):
    """Standard output on a device that takes nothing."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "polyseme", "info", str(gpt2)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert "Traceback" not in ended.stderr and "polyseme: " in ended.stderr
    assert "No space left on device" in ended.stderr and ended.returncode == 1


def test_a_reader_who_leaves(desk, gpt2):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "polyseme", "info", str(gpt2)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert ended.returncode in (1, 141) and ended.stderr == ""  # the command parser's way to end, or ours
