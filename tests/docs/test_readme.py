"""The README's tours, run as they are printed."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / file).read_text(encoding="utf-8"), flags=re.M | re.S)


# One process for a whole tour: most of the time of a command is that of its imports.
GUIDE = """
import json, sys
from polyseme.cli import run
commands, programs = json.load(sys.stdin)
for words in commands:
    print("$", *words, file=sys.stderr)
    code = run(words[1:])
    if code:
        sys.exit(code)
for program in programs:
    exec(program, {})
"""


@pytest.mark.slow
@pytest.mark.parametrize("file", ["README.md", "README.zh.md"])
def test_the_tour_runs(file, tmp_path):
    commands = [shlex.split(line) for block in blocks(file, "sh") for line in block.splitlines() if line.strip()]
    assert len(commands) >= 8 and all(words[0] == "polyseme" for words in commands)
    # Shorter budgets and a smaller corpus than in the text; one budget stays in seconds.
    instead = {"20s": "20steps", "docstrings": "town/en.train.txt"}
    first = next(words for words in commands if "20s" in words)
    short = [
        [{**instead, "20s": "2s"}.get(w, w) if words is first else instead.get(w, w) for w in words]
        for words in commands
    ]
    done = subprocess.run(
        [sys.executable, "-c", GUIDE],
        input=json.dumps([short, blocks(file, "python")]),
        cwd=tmp_path,
        env={**os.environ, "POLYSEME_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_links_are_valid():
    for file in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{file.name} points to {target}"


def test_the_makefile_lists_its_targets():
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "check", "bench"):
        assert f"make {target}" in done.stdout
