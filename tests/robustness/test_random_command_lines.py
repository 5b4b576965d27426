"""Five hundred random command lines: no traceback, and a documented exit code."""

import random
import shutil
from pathlib import Path

import pytest

JUNK = [
    "",
    " ",
    "-",
    "--",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "9" * 40,
    "9" * 5000,
    "x" * 300,
    "x" * 5000,
    "..",
    "/",
    "~",
    "*",
    "[",
    "a=b",
    "=",
    "%s",
    "{}",
    "'",
    '"',
    "\n",
    "\x1b[31m",
    "银行",
    "🙂",
    "\udcff",
    "\u202e",
    "None",
    "true",
    "/dev/null",
    "/proc/self/mem",
    "/etc/passwd/x",
    "hf:",
    "hf:no/such model",
    "http://localhost:1/x",
]
GROUPS = ["model", "tokenizer", "objective", "data", "training", "family", "", "modle"]
NAMES = [
    "width",
    "num_layers",
    "num_heads",
    "vocab_size",
    "max_length",
    "dropout",
    "kind",
    "specials",
    "min_count",
    "rate",
]
NAMES += [
    "pairs",
    "corpus",
    "length",
    "budget",
    "steps",
    "seed",
    "batch_tokens",
    "schedule",
    "warmup",
    "clip",
    "threads",
    "x",
]
VALUES = [
    "1",
    "-1",
    "0",
    "0.5",
    "1e30",
    "nan",
    "inf",
    "[]",
    "{}",
    "[[1]]",
    "true",
    '"a"',
    "bert",
    "gpt2",
    "'",
    "9" * 30,
    "\n",
    "",
]
VALUES += ["1979-05-27", "[" * 2000, "\udcff", "masked_lm", "causal_lm", "12:00:00", "0x10", "1_000", "银行"]
OPTIONS = {
    "pretrain": [
        "--corpus",
        "--dev",
        "--out",
        "--size",
        "--budget",
        "--seed",
        "--set",
        "--column",
        "--resume",
        "--dry-run",
    ],
    "adapt": ["--corpus", "--dev", "--out", "--budget", "--new-words", "--seed", "--set", "--column", "--resume"],
    "fill": ["--file", "--top", "--json"],
    "generate": [
        "--file",
        "--max-tokens",
        "--temperature",
        "--top-k",
        "--top-p",
        "--repetition-penalty",
        "--seed",
        "--stop",
        "--weights",
        "--json",
    ],
    "score": ["--file", "--weights", "--json"],
    "embed": ["--file", "--pool", "--layer", "--out"],
    "neighbours": ["--top", "--json"],
    "analogy": ["--method", "--top", "--json"],
    "attention": ["--out", "--pair", "--words", "--json"],
    "evaluate": ["--suite", "--data", "--method", "--most", "--shots", "--examples", "--language", "--seed", "--json"],
    "ask": ["--task", "--file", "--passage", "--choice", "--shots", "--most", "--language", "--max-tokens", "--json"],
    "info": ["--json"],
    "sample": ["--out", "--seed"],
    "tokenizer": [
        "--corpus",
        "--kind",
        "--vocab-size",
        "--specials",
        "--lowercase",
        "--min-count",
        "--column",
        "--out",
    ],
}
FLAGS = {"--json", "--resume", "--dry-run", "--lowercase", "--pair", "--words"}
ALL = sorted(
    {option for options in OPTIONS.values() for option in options}
    | {"--help", "-h", "--version", "-x", "--no-lowercase"}
)


class Grammar:
    """Samples command lines, mostly well-formed with invalid values, and without text to train on."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def line(self):
        draw = self.rng
        command = draw.choice([*OPTIONS, *OPTIONS, "nonsense", "", "doctorr"])
        words = [command]
        if command == "tokenizer" and draw.random() < 0.9:
            words.append("train")
        if command == "pretrain":
            words.append(draw.choice(["bert", "gpt2", "bret", self.junk()]))
        elif command == "sample":
            words.append(draw.choice(["twon", self.junk()]))  # a real name would write a real sample
        elif command not in ("tokenizer", "nonsense"):
            words.append(draw.choice(["bert", "gpt2", "vectors.bin", "cut", "folder", "nothing", self.junk()]))
        if command in ("pretrain", "adapt") and draw.random() < 0.8:
            words += ["--out", draw.choice(["out", "folder", "file", "bert", self.junk()])]
        for _ in range(draw.randrange(5)):
            option = draw.choice(OPTIONS.get(command, ALL) if draw.random() < 0.95 else ALL)
            words.append(option)
            if option not in FLAGS or draw.random() < 0.02:
                words.append(self.value(option))
        if command in ("neighbours", "analogy"):
            words += [draw.choice(["bank", "the", "river", self.junk()]) for _ in range(draw.randrange(5))]
        if command in ("fill", "generate", "ask", "score", "embed", "attention"):
            words += [draw.choice(["The [MASK] is here.", "some text", self.junk()]) for _ in range(draw.randrange(3))]
        if draw.random() < 0.05:
            draw.shuffle(words)
        return words

    def junk(self):
        return self.rng.choice(JUNK)

    def value(self, option):
        draw = self.rng
        if draw.random() < 0.3:
            return self.junk()
        if option == "--set":
            return f"{draw.choice(GROUPS)}.{draw.choice(NAMES)}={draw.choice(VALUES)}"
        known = {
            "--corpus": ["word.txt", "empty.txt", "random.bin", "folder", "nothing.txt", "*.txt"],
            "--dev": ["word.txt", "empty.txt", "random.bin"],
            "--out": ["out", "folder", "file", "file/out", "out.npy", "out.html", "bert"],
            "--file": ["word.txt", "random.bin", "empty.txt", "folder"],
            "--passage": ["word.txt", "random.bin", "empty.txt", "folder"],
            "--task": ["answer", "summarise", "translate", "choose", "x"],
            "--size": ["tiny", "tiny", "smal", "auto"],
            "--budget": ["1steps", "3s", "0s", "1.5epochs", "1Gtokens", "5 parsecs"],
            "--kind": ["word", "char", "wordpiece", "bpe", "byte-bpe", "unigram", "x"],
            "--specials": ["bert", "gpt2", "roberta", "gpt", "plain", "x"],
            "--suite": ["words", "likelihood", "minimal-pairs", "prompts", "wrods"],
            "--data": ["pairs.tsv", "word.txt", "random.bin", "folder", "."],
            "--method": ["3cosadd", "3cosmul", "x"],
            "--pool": ["mean", "first", "last", "max", "median"],
        }
        numbers = ["0", "1", "-1", "3", "0.5", "1e-30", "1e30", "2", "100000000000", "-0.0"]
        return draw.choice(known.get(option, numbers))


@pytest.fixture
def workspace(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    for family in ("bert", "gpt2"):
        shutil.copytree(trained / family, family, ignore=shutil.ignore_patterns("checkpoints"))
    shutil.copytree("bert", "cut")
    weights = Path("cut/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-9])
    Path("word.txt").write_text("one word here")
    Path("empty.txt").write_text("")
    Path("random.bin").write_bytes(random.Random(0).randbytes(3000))
    Path("vectors.bin").write_bytes(b"2 1\nbank 1234\nriver abcd")
    Path("pairs.tsv").write_text("word_a\tword_b\tscore\nbank\triver\t1\nthe\tbank\t2\n")
    Path("folder").mkdir()
    Path("file").write_text("x")
    return tmp_path


def test_random_command_lines(workspace, polyseme, monkeypatch):
    monkeypatch.setattr("polyseme.training.resources._MEASURED_SECONDS", 0.0)
    grammar = Grammar(0)
    codes = []
    for _ in range(500):
        line = grammar.line()
        stdin = grammar.rng.choice([b"", b"a line\n", b"\xff\xfe\x00", "行\r\nThe [MASK].".encode()])
        try:
            ended = polyseme(*line, stdin=stdin)
        except BaseException as error:
            raise AssertionError(f"{line!r} raised {error!r}") from error
        assert ended.code in (0, 1, 2, 130), line
        assert "Traceback" not in ended.err, line
        if ended.code == 2 and ended.err:
            assert ended.err.startswith(("polyseme: ", "resuming")) and ended.err.count("\n") <= 2, (line, ended.err)
        codes.append(ended.code)
    assert codes.count(0) > 20 and codes.count(2) > 200, "some lines make sense and most do not"
    assert (workspace / "file").read_text() == "x" and (workspace / "word.txt").read_text() == "one word here"


SETTINGS = [(group, name, value) for group in GROUPS for name in NAMES for value in VALUES]


def test_random_settings(workspace, polyseme, corpus_file):
    """Any setting with any value is rejected in one line or gives a recipe; no text is read."""
    rng = random.Random(1)
    for _ in range(400):
        group, name, value = rng.choice(SETTINGS)
        ended = polyseme(
            "pretrain",
            rng.choice(["bert", "gpt2"]),
            "--out",
            "out",
            "--size",
            "tiny",
            "--set",
            f"{group}.{name}={value}",
        )
        assert ended.code == 2 and ended.err.count("\n") == 1, (group, name, value, ended.err)


def test_dry_runs_of_random_sizes(workspace, polyseme, corpus_file, monkeypatch):
    """A valid recipe is measured, and nothing is written."""
    monkeypatch.setattr("polyseme.training.resources._MEASURED_SECONDS", 0.0)
    rng = random.Random(2)
    for _ in range(6):
        sizes = [
            f"model.width={rng.choice([16, 32])}",
            f"model.num_layers={rng.choice([1, 2])}",
            "training.threads=1",
        ]
        sizes += [
            f"data.sequence_length={rng.choice([8, 16, 33])}",
            "training.batch_tokens=128",
            f"model.vocab_size={rng.choice([300, 500])}",
        ]
        sets = [word for size in sizes for word in ("--set", size)]
        budget = rng.choice(["3steps", "10m", "1000000h", "2epochs", "5Gtokens", "0.001s"])
        ended = polyseme(
            "pretrain", rng.choice(["bert", "gpt2"]), "--corpus", corpus_file, "--out", "out", "--size", "tiny",
            *sets, "--budget", budget, "--dry-run",
        )  # fmt: skip
        assert ended.code == 0 and ended.err.startswith("nothing was written") and ended.err.count("\n") == 1
        assert [line.split()[0] for line in ended.out.splitlines()] == ["parameters", "memory", "steps", "time"]
        assert not Path("out").exists()
