"""Counts, durations, sizes, enumerations and names of paths for people."""

from collections.abc import Sequence
from pathlib import Path


def format_count(count: float) -> str:
    """A count with two or three significant digits: 812, 35k, 2.1M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{suffix}" if count < 9.95 * size else f"{count / size:.0f}{suffix}"
    return f"{count:.0f}"


def format_number_of(count: int, noun: str) -> str:
    """A number of things: 1 step, 1,200 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_duration(seconds: float) -> str:
    """A duration in milliseconds, seconds, minutes or hours."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    if seconds < 5970:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def format_clock(seconds: float) -> str:
    """A duration as a clock shows it: 3:05, 1:02:03."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_bytes(num_bytes: float) -> str:
    """A number of bytes with its unit: 41 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if num_bytes >= 10 or unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"


def enumerate_words(words: Sequence[str], conjunction: str = "and") -> str:
    """An enumeration: a; a and b; a, b and c."""
    return f" {conjunction} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shortest_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as distinguish it from the others."""
    parts = [(path.resolve() if path.name in ("", "..") else path.absolute()).parts for path in paths]

    def is_ambiguous(path: tuple[str, ...], length: int) -> bool:
        return any(other != path and other[-length:] == path[-length:] for other in parts)

    lengths = [next(n for n in range(1, len(path) + 1) if not is_ambiguous(path, n)) for path in parts]
    return ["/".join(path[-length:]).lstrip("/") for path, length in zip(parts, lengths, strict=True)]
