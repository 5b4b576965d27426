"""The README's tours, run as they are printed."""

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


@pytest.mark.slow
@pytest.mark.parametrize("file", ["README.md", "README.zh.md"])
def test_the_tour_runs(file, tmp_path):
    environment = {**os.environ, "POLYSEME_CACHE": str(tmp_path / "cache")}
    tours = [line for block in blocks(file, "sh") for line in block.splitlines() if line.strip()]
    assert len(tours) >= 8
    for line in tours:
        words = shlex.split(line)
        assert words[0] == "polyseme"
        # The budgets and the larger sample are for a reader's eyes; a test needs only a part.
        words = [{"20s": "2s", "docstrings": "town/en.train.txt"}.get(word, word) for word in words]
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    for block in blocks(file, "python"):
        done = subprocess.run(
            [sys.executable, "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_links_lead_somewhere():
    for file in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{file.name} points to {target}"


def test_the_makefile_says_what_there_is():
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "check", "bench"):
        assert f"make {target}" in done.stdout
