"""Real processes in odd environments: no traceback, and an exit code that fits.

Standard streams that are closed, full or read only in part; no home folder or one that cannot be written; terminals
without features and locales without UTF-8; folders with spaces, newlines and emoji in their names. A sample runs in
every test run, five hundred with `make soak`.
"""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

STREAMS = {  # appended to the command by the shell
    "empty stdin": "</dev/null",
    "closed stdin": "<&-",
    "binary stdin": "< random.bin",
    "folder as stdin": "< folder",
    "closed stdout": ">&-",
    "closed stderr": "2>&-",
    "closed streams": "<&- >&- 2>&-",
    "full stdout": ">/dev/full",
    "full stderr": "2>/dev/full",
    "first line": "| head -1",
    "reader gone": "| true",
    "one file": ">out.txt 2>&1",
}
ENVIRONMENTS = {  # None: the variable is unset
    "as it is": {},
    "LANG=C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "no HOME": {"HOME": None, "POLYSEME_CACHE": None},
    "HOME that cannot be written": {"HOME": "/proc/nothing", "POLYSEME_CACHE": None},
    "HOME that is a file": {"HOME": "{place}/file", "POLYSEME_CACHE": None},
    "cache that cannot be written": {"POLYSEME_CACHE": "/proc/nothing"},
    "cache that is a file": {"POLYSEME_CACHE": "{place}/file"},
    "no TMPDIR": {"TMPDIR": "{place}/nothing"},
    "TERM=dumb": {"TERM": "dumb"},
    "NO_COLOR": {"NO_COLOR": "1", "FORCE_COLOR": "1"},
    "narrow": {"COLUMNS": "1", "LINES": "1"},
    "no PATH": {"PATH": ""},
    "no USER": {"USER": None, "LOGNAME": None, "SHELL": None},
    "threads": {"OMP_NUM_THREADS": "x", "POLYSEME_THREADS": "x"},
}
FOLDERS = (
    "a folder",
    "two\nlines",
    "🙂 银行",
    "-dash",
    "quote'\"s",
    "$HOME",
    "%s{}",
    "trailing ",
    "tab\tname",
    "[x]*?",
)
COMMANDS = (
    ["--help"],
    ["--version"],
    [],
    ["nonsense"],
    ["pretrain", "--help"],
    ["info", "{bert}"],
    ["info", "{bert}", "--json"],
    ["info", "missing"],
    ["fill", "{bert}", "The [MASK] 银行 is here."],
    ["fill", "{bert}"],
    ["generate", "{gpt2}", "The old", "--max-tokens", "3"],
    ["generate", "{gpt2}", "--max-tokens", "3", "--json"],
    ["score", "{gpt2}", "--file", "text.txt"],
    ["embed", "{bert}", "the bank", "--out", "vectors.npy"],
    ["neighbours", "{bert}", "bank"],
    ["attention", "{bert}", "the old bank", "--out", "page.html"],
    ["sample", "town", "--out", "town"],
    ["tokenizer", "train", "--corpus", "text.txt", "--vocab-size", "300", "--out", "tokenizer"],
    ["pretrain", "bert", "--corpus", "text.txt", "--size", "tiny", "--budget", "2steps", "--out", "run"],
    ["pretrain", "svd", "--corpus", "text.txt", "--size", "tiny", "--out", "run"],
    ["pretrain", "bert", "--corpus", "missing.txt", "--out", "run"],
    ["data", "check", "table.tsv"],
    ["data", "show", "{bert}"],
    ["import", "text.txt", "--out", "imported"],
    ["compare", "--corpus", "text.txt", "--families", "onehot", "--budget", "2s", "--out", "report", "--labels", "9"],
)


@pytest.fixture(scope="module")
def run_case(trained, corpus_file, tmp_path_factory):
    """A function that runs the case of a number in a folder of its own."""
    root = tmp_path_factory.mktemp("environments")

    def run(number):
        rng = random.Random(number)
        command = rng.choice(COMMANDS)
        streams, environment = rng.choice(list(STREAMS)), rng.choice(list(ENVIRONMENTS))
        place = root / str(number) / rng.choice(FOLDERS)
        (place / "folder").mkdir(parents=True)
        (place / "file").write_text("a file")
        (place / "random.bin").write_bytes(rng.randbytes(500))
        (place / "table.tsv").write_text("text\tlabel\nthe bank\ta\nthe river\tb\n")
        shutil.copy(corpus_file, place / "text.txt")
        variables = {**os.environ, "POLYSEME_CACHE": str(root / "cache")}
        for name, value in ENVIRONMENTS[environment].items():
            variables.pop(name, None)
            if value is not None:
                variables[name] = value.format(place=place)
        words = [word.format(bert=trained / "bert", gpt2=trained / "gpt2") for word in command]
        shell = ["/bin/bash", "-c", f'set -o pipefail; "$@" {STREAMS[streams]}', "_"]
        ended = subprocess.run(
            [*shell, sys.executable, "-m", "polyseme", *words],
            cwd=place, env=variables, capture_output=True, stdin=subprocess.DEVNULL, timeout=600,
        )  # fmt: skip
        printed = (ended.stdout + ended.stderr).decode(errors="replace")
        if (place / "out.txt").exists():
            printed += (place / "out.txt").read_text(errors="replace")
        return f"{number}: {' '.join(command)}; {streams}; {environment}; {place.name!r}", ended.returncode, printed

    return run


def check(results, print_metric):
    codes = Counter()
    for case, code, printed in results:
        assert "Traceback" not in printed and "Exception ignored" not in printed, f"{case}\n{printed}"
        assert code in (0, 1, 2, 127, 141), f"{case}: {code}\n{printed}"
        assert code != 127 or "no PATH" in case, f"{case}\n{printed}"
        assert (place := printed.count("polyseme: ")) < 4, f"{case}: {place} messages\n{printed}"
        codes[code] += 1
    print_metric("odd environments", f"exit codes {dict(codes)}")


@pytest.mark.slow
def test_odd_environments(run_case, print_metric):
    with ThreadPoolExecutor(2) as pool:
        check(pool.map(run_case, range(12)), print_metric)


@pytest.mark.soak
def test_five_hundred_odd_environments(run_case, print_metric):
    with ThreadPoolExecutor(2) as pool:
        check(pool.map(run_case, range(500)), print_metric)
