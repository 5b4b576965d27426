"""Seeded corruptions of the files of a directory: single fields of JSON, JSON Lines and TOML, and bytes of any file."""

import copy
import json
import random
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

HUGE_NUMBERS = (2**31, 2**63, 10**30, 10**400, 1e308)
OTHER_TYPES = (None, True, 3, 0.5, "text", [], [1], {}, {"a": 1})
LONE_SURROGATE = "a\ud800b"


@dataclass(frozen=True)
class Corruption:
    """One change of one file; `apply` writes it and `restore` undoes it."""

    path: Path
    description: str
    original: bytes = field(repr=False)
    corrupted: bytes | None = field(repr=False)  # None: the file is deleted

    def apply(self) -> None:
        """Write the corrupted file."""
        if self.corrupted is None:
            self.path.unlink()
        else:
            self.path.write_bytes(self.corrupted)

    def restore(self) -> None:
        """Write the original file."""
        self.path.write_bytes(self.original)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the corruption for the duration of a block."""
        self.apply()
        try:
            yield
        finally:
            self.restore()


def corruptions(folder: Path, seed: int, count: int) -> Iterator[Corruption]:
    """Yield corruptions of all files of a folder in turn, typed ones for the formats that have fields."""
    rng = random.Random(seed)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    order: list[Path] = []
    for _ in range(count):
        if not order:
            order = rng.sample(paths, len(paths))
        path = order.pop()
        yield corrupt_file(path, rng, name=path.relative_to(folder).as_posix())


def corrupt_file(path: Path, rng: random.Random, *, name: str) -> Corruption:
    """One random corruption of a file."""
    original = path.read_bytes()
    corrupt_field = FORMATS.get(path.suffix)
    while True:
        if corrupt_field and original.strip() and rng.random() < 0.8:
            what, corrupted = corrupt_field(original, rng)
        else:
            what, corrupted = corrupt_bytes(original, rng)
        if corrupted != original:
            return Corruption(path, f"{name}: {what}", original, corrupted)


def corrupt_bytes(original: bytes, rng: random.Random) -> tuple[str, bytes | None]:
    """Flip a bit, truncate, zero a run, duplicate a block, append bytes, or delete the file."""
    size = len(original)
    start = rng.randrange(size) if size else 0
    end = min(size, start + rng.choice([1, 8, 64, 512]))
    kind = rng.choice(["flip", "truncate", "zero", "duplicate", "append", "delete"])
    if kind == "delete":
        return "deleted", None
    if kind == "flip" and size:
        bit = rng.randrange(8)
        return f"bit {bit} of byte {start} flipped", replace(original, start, bytes([original[start] ^ 1 << bit]))
    if kind == "truncate":
        return f"truncated to {start} of {size} bytes", original[:start]
    if kind == "zero":
        return f"bytes {start} to {end} zeroed", replace(original, start, bytes(end - start))
    if kind == "duplicate":
        return f"bytes {start} to {end} duplicated", original[:end] + original[start:]
    tail = rng.choice([b"\0", b"\n", b"{}", b"x" * 100, original])
    return f"{len(tail)} bytes appended", original + tail


def replace(original: bytes, start: int, new: bytes) -> bytes:
    """Bytes with some replaced."""
    return original[:start] + new + original[start + len(new) :]


def corrupt_json(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Corrupt one field of a JSON file."""
    what, value = corrupt_value(json.loads(original), rng)
    return what, json.dumps(value, indent=2).encode()


def corrupt_json_lines(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Corrupt one field of one line of a JSON Lines file."""
    lines = original.splitlines()
    number = rng.randrange(len(lines))
    what, value = corrupt_value(json.loads(lines[number]), rng)
    lines[number] = json.dumps(value).encode()
    return f"line {number + 1}, {what}", b"\n".join(lines) + b"\n"


def corrupt_toml(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Corrupt one field of a TOML file; TOML has no null, and its top level is a table."""
    values = tomllib.loads(original.decode())
    while True:
        what, changed = corrupt_value(copy.deepcopy(values), rng)
        if isinstance(changed, dict):
            try:
                return what, tomli_w.dumps(changed).encode("utf-8", "surrogatepass")
            except (TypeError, ValueError):
                continue


FORMATS: dict[str, Callable[[bytes, random.Random], tuple[str, bytes]]] = {
    ".json": corrupt_json,
    ".jsonl": corrupt_json_lines,
    ".toml": corrupt_toml,
}


def corrupt_value(root: Any, rng: random.Random) -> tuple[str, Any]:
    """Corrupt one field of nested lists and mappings, found by a random descent; return what changed and the root."""
    path: list[str | int] = []
    parent, value = None, root
    while isinstance(value, dict | list) and value and (not path or rng.random() < 0.7):
        if not path and rng.random() < 0.03:
            break  # the top level itself
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        parent, value = value, value[key]
        path.append(key)
    place = ".".join(map(str, path))[:100] or "top level"
    what, changed = rng.choice(changes(value, rng))
    if parent is None:
        return f"{place}: {what}", changed
    if rng.random() < 0.1:
        del parent[path[-1]]
        return f"{place}: missing", root
    parent[path[-1]] = changed
    return f"{place}: {what}", root


def changes(value: Any, rng: random.Random) -> list[tuple[str, Any]]:
    """The ways to corrupt a value, with their descriptions."""
    other = rng.choice([one for one in OTHER_TYPES if type(one) is not type(value)])
    found: list[tuple[str, Any]] = [(f"{other!r} instead of {type(value).__name__}", other)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        huge = rng.choice(HUGE_NUMBERS)
        found += [
            (f"huge number of {len(str(huge))} characters", huge),
            ("negative", -abs(value) - 1),
            ("NaN", float("nan")),
            ("infinite", float("inf")),
            ("another number", value + 1),
            ("fraction", value + 0.5),
        ]
    elif isinstance(value, str):
        found += [
            ("empty", ""),
            ("lone surrogate", LONE_SURROGATE),
            ("longer", value + "x"),
            ("very long", "x" * 100_000),
            ("a path out of the directory", "../../../etc/passwd"),
        ]
    elif isinstance(value, list):
        found += [
            ("empty", []),
            ("longer", [*value, *value[-1:], *value[:1]]),
            ("shorter", value[:-1]),
            ("reversed", value[::-1]),
        ]
    elif isinstance(value, dict):
        found += [
            ("empty", {}),
            ("extra key", {**value, "unknown_key": other}),
            ("extra key of a lone surrogate", {**value, LONE_SURROGATE: 1}),
        ]
    elif isinstance(value, bool):
        found += [("negated", not value)]
    return found
