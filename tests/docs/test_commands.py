"""Commands and options in the documentation exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from polyseme.cli.app import build

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# Options of lm_eval and of benchmarks/*.py.
OTHERS = {"--model_args", "--include_path", "--long", "--parallel", "--rounds", "--page", "--models", "--adapt"}


def options(command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def find_command(words: list[str]):
    """The command of a line, or a word that is not one."""
    command = typer.main.get_command(build())
    for word in words:
        if not hasattr(command, "commands"):
            break
        if word not in command.commands:
            return word
        command = command.commands[word]
    return command


def command_lines(text: str) -> Iterator[str]:
    """Every `polyseme …` on a line of a code block, or in inline code."""
    text = re.sub(r"\\\n\s*", "", text)
    yield from re.findall(r"^(?:\$ | {4})?(?:echo .*\| )?(polyseme [^`\n]*)$", text, flags=re.M)
    yield from re.findall(r"`(polyseme [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.S))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page):
    text = page.read_text(encoding="utf-8")
    found = list(command_lines(text))
    for line in found:
        words = shlex.split(line, comments=True)
        command = find_command(words[1:])
        assert not isinstance(command, str) or command in ("…", "..."), f"{line}: no command {command!r}"
        if not isinstance(command, str):
            unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options(command)
            assert not unknown, f"{line}: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_the_text_exist(page):
    group = typer.main.get_command(build())
    commands = [
        one for command in group.commands.values() for one in getattr(command, "commands", {"": command}).values()
    ]
    known = set().union(*map(options, commands)) | OTHERS
    text = page.read_text(encoding="utf-8")
    named = {
        name for code in re.findall(r"`([^`\n]*)`", text) for name in re.findall(r"(?<![\w-])--[a-z][a-z_-]*", code)
    }
    assert named <= known, sorted(named - known)
