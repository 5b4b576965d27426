"""The order of packages, each of which imports only those before it, and forbidden calls."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import polyseme

ROOT = Path(polyseme.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
LINE = [
    "errors",
    "config",
    "arrays",
    "system",
    "rendering",
    "corpora",
    "tokenization",
    "datasets",
    "step_schedule",
    "batch",
    "layers",
    "models",
    "objectives",
    "learner",
    "static_embeddings",
    "baselines",
    "families",
    "tasks",
    "training",
    "inference",
    "conversion",
    "analysis",
    "evaluation",
    "pretrained",
    "loading",
    "api",
    "comparison",
    "server",
    "cli",
]
TOP = {"__init__", "__main__"}  # may import everything


def part_of(path):
    """The package of a module."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree, path):
    """Every module that a module imports, also inside functions."""
    package = ["polyseme", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base == "polyseme":
                yield from (f"polyseme.{alias.name}" for alias in node.names)
            else:
                yield base


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_import_only_earlier_ones(path):
    part = part_of(path)
    if part in TOP:
        return
    assert part in LINE, f"add {part} to LINE"
    for name in imported(ast.parse(path.read_text(encoding="utf-8")), path):
        if name.split(".")[0] != "polyseme":
            continue
        other = [*name.split("."), ""][1]
        assert other in LINE, f"{path.name} imports {name}"
        assert LINE.index(other) <= LINE.index(part), f"{part} comes before {other} and may not import it"


def test_every_package_exists():
    assert {part_of(path) for path in MODULES} == {*LINE, *TOP}


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_forbidden_calls_and_imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for name in imported(tree, path):
        assert name.split(".")[0] not in {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "yaml", "tarfile"}
    for name, call in calls(tree):
        if name == "torch.load" and path == ROOT / "conversion" / "pickle_sandbox.py":  # in a limited subprocess
            assert "weights_only=True" in ast.unparse(call)
            continue
        assert name not in {
            "eval",
            "exec",
            "compile",
            "__import__",
            "torch.load",
            "torch.save",
            "os.system",
            "os.popen",
        }, name
        assert not name.endswith((".extractall", "yaml.load", "np.loads", "pickle.load", "pickle.loads")), name
        for keyword in call.keywords:
            value = keyword.value
            on = isinstance(value, ast.Constant) and value.value is True
            assert not (keyword.arg in ("shell", "allow_pickle", "trust_remote_code") and on), (
                f"{name} with {keyword.arg}"
            )
        if name == "print":
            assert part_of(path) == "cli", "only the command line prints"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and part_of(path) != "cli":
            assert ast.unparse(node) not in {"sys.stdout", "sys.stderr", "sys.exit"} or part_of(path) == "__main__"


def test_importing_the_package_is_cheap():
    heavy = ("torch", "numpy", "tokenizers", "pydantic")
    code = f"import sys, polyseme; print([name for name in {heavy} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]" and not output.stderr


def test_public_names():
    assert sorted(polyseme.__all__) == [
        "Batch",
        "CheckpointError",
        "ConfigError",
        "DataError",
        "PolysemeError",
        "Pretrained",
        "TrainingError",
        "adapt",
        "compare",
        "estimate_pretraining",
        "finetune",
        "load",
        "pretrain",
    ]
    for name in polyseme.__all__:
        assert getattr(polyseme, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        polyseme.lode  # noqa: B018


def test_exit_codes_of_errors():
    for name in polyseme.__all__:
        if name.endswith("Error"):
            error = getattr(polyseme, name)
            assert issubclass(error, polyseme.PolysemeError)
            assert error.exit_code == (1 if name == "TrainingError" else 2)
