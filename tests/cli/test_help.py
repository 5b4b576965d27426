"""Every command has help with an example, which imports nothing heavy."""

import subprocess
import sys

import pytest

COMMANDS = [
    [],
    ["pretrain"],
    ["adapt"],
    ["finetune"],
    ["predict"],
    ["fill"],
    ["generate"],
    ["ask"],
    ["translate"],
    ["score"],
    ["embed"],
    ["search"],
    ["neighbours"],
    ["analogy"],
    ["attention"],
    ["senses"],
    ["probe"],
    ["evaluate"],
    ["serve"],
    ["compare"],
    ["import"],
    ["export"],
    ["info"],
    ["doctor"],
    ["sample"],
    ["tokenizer"],
    ["tokenizer", "train"],
    ["data"],
    ["data", "show"],
    ["data", "check"],
]
GROUPS = ["tokenizer", "data"]  # their commands have the examples


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(polyseme, command, flag):
    ended = polyseme(*command, flag)
    assert ended.code == 0 and ended.err == ""
    assert ended.out.startswith(f"Usage: {' '.join(['polyseme', *command])}")
    if " ".join(command) not in GROUPS:
        examples = [line.strip().removeprefix("Try: ") for line in ended.out.splitlines()]
        assert any(
            line.startswith(f"polyseme {' '.join(command)}".strip() + " ") or line == f"polyseme {' '.join(command)}"
            for line in examples
        )
    assert not any(len(line) > 120 for line in ended.out.splitlines())


def test_every_command_is_tested(polyseme):
    from polyseme.cli import app

    names = [module.__name__.rpartition(".")[2].rstrip("_") for module in app.COMMANDS]
    assert {*names, *GROUPS} == {command[0] for command in COMMANDS if command}
    out = polyseme("--help").out
    assert all(f"\n  {name} " in out for name in [*names, *GROUPS])


@pytest.mark.parametrize("command", [[], ["tokenizer"], ["data"]], ids=" ".join)
def test_help_without_arguments_is_an_error(polyseme, command):
    """Help, but not success: a script that forgot its arguments should notice."""
    ended = polyseme(*command)
    assert ended.code == 2 and "Usage: polyseme" in ended.out and ended.err == ""


@pytest.mark.parametrize(
    "command",
    [
        ["pretrain"],
        ["adapt"],
        ["finetune"],
        ["predict"],
        ["fill"],
        ["info"],
        ["sample"],
        ["embed"],
        ["analogy"],
        ["attention"],
        ["senses"],
        ["probe"],
        ["evaluate"],
        ["serve"],
        ["compare"],
        ["tokenizer", "train"],
    ],
    ids=" ".join,
)
def test_missing_arguments(polyseme, command):
    ended = polyseme(*command)
    assert ended.code == 2 and ended.out == ""
    assert ended.err.startswith("polyseme: Missing ") and ended.err.endswith(
        f"; see polyseme {' '.join(command)} --help\n"
    )
    assert ended.err.count("\n") == 1


def test_examples_in_the_help_are_valid_options(polyseme):
    """Every option of every example is one that the command has."""
    for command in COMMANDS[1:]:
        out = polyseme(*command, "--help").out
        known = {word.strip(",[]") for line in out.splitlines() for word in line.split() if word.startswith("--")}
        for line in out.splitlines():
            if line.strip().startswith("polyseme "):
                assert {word for word in line.split() if word.startswith("--")} <= known, line


@pytest.mark.parametrize("group", [[], ["data"], ["tokenizer"]], ids=["all", "data", "tokenizer"])
def test_summaries_fit_into_80_columns(polyseme, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    out = polyseme(*group, "--help").out
    summaries = out.partition("Commands:\n")[2].splitlines()
    assert summaries and not [line for line in summaries if line.endswith(("...", "…"))]


HEAVY = ("torch", "numpy", "tokenizers", "transformers", "scipy", "numba", "safetensors", "rich", "huggingface_hub")


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from polyseme.cli import run
for command in {COMMANDS!r}:
    assert run([*command, "--help"]) == 0
print("imported:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []" and done.stderr == ""


def test_script_and_module():
    module = subprocess.run([sys.executable, "-m", "polyseme", "--help"], capture_output=True, text=True)
    script = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'polyseme'; from polyseme.__main__ import main; main()",
            "--help",
        ],
        capture_output=True,
        text=True,
    )
    assert module.returncode == script.returncode == 0
    assert module.stdout.splitlines()[-1] == script.stdout.splitlines()[-1]
