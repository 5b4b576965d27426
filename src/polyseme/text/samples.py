"""Built-in text and labelled sets, so that every command runs with no data at hand."""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.files import cache_folder, whole_folder


@dataclass(frozen=True)
class Sample:
    """What a sample is, how it is written, and what it is made from: the same sources and seed give the same files."""

    about: str
    write: Callable[[Path, int], None]
    sources: Callable[[], list[str]]


@dataclass(frozen=True)
class SampleText:
    """The files of a sample to learn from, and those to measure on."""

    train: list[Path]
    dev: list[Path]


def write_sample(name: str, folder: Path, *, seed: int = 0) -> None:
    """Write a sample into a folder that is new or empty."""
    chosen = _find(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not an empty folder; give a new one")
    try:
        with whole_folder(folder) as beside:
            chosen.write(beside, seed)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error.strerror}); choose another folder") from None


def sample(name: str, *, seed: int = 0) -> Path:
    """The folder of a sample in the cache, written now if it is not there yet."""
    sources = [*_find(name).sources(), f"seed {seed}"]
    key = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:12]
    folder = cache_folder() / "samples" / f"{name}-{key}"
    if not folder.is_dir():
        try:
            write_sample(name, folder, seed=seed)
        except DataError:
            if not folder.is_dir():  # otherwise another process was quicker, and wrote the same
                raise
    return folder


def sample_text(name: str, *, seed: int = 0) -> SampleText:
    """The text of a sample, for use as a corpus."""
    folder = sample(name, seed=seed)
    return SampleText(train=sorted(folder.glob("*train.txt")), dev=sorted(folder.glob("*dev.txt")))


def _find(name: str) -> Sample:
    if name not in SAMPLES:
        raise ConfigError(f"{name}: no such sample{nearest(name, SAMPLES)}")
    return SAMPLES[name]


def _write_docstrings(folder: Path, seed: int) -> None:
    from polyseme.text.docstrings import digest, documents

    with (
        (folder / "train.txt").open("w", encoding="utf-8") as train,
        (folder / "dev.txt").open("w", encoding="utf-8") as dev,
        (folder / "modules.tsv").open("w", encoding="utf-8") as modules,
    ):
        for name, text in documents():
            (train if zlib.crc32(name.encode()) % 25 else dev).write(f"{text}\n\n")
            modules.write(f"{digest(text)}\t{name}\n")


def _docstring_sources() -> list[str]:
    from polyseme.text.docstrings import versions

    return [*versions(), *_own_code("docstrings*.py")]


def _write_town(folder: Path, seed: int, languages: tuple[str, ...] = ("en", "zh")) -> None:
    from polyseme.text.town import write
    from polyseme.text.town.words import LANGUAGES

    write(folder, seed, languages=[language for language in LANGUAGES if language in languages])


def _own_code(pattern: str) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(__file__).parent.glob(pattern))]


_town_sources = partial(_own_code, "town/*.py")

SAMPLES: dict[str, Sample] = {
    "docstrings": Sample(
        "real English: the docstrings of Python and of this machine's packages", _write_docstrings, _docstring_sources
    ),
    "town": Sample(
        "a made-up town in English and Chinese, with labelled sets of every form", _write_town, _town_sources
    ),
    "town-en": Sample("the town in English only", partial(_write_town, languages=("en",)), _town_sources),
    "town-zh": Sample("the town in Chinese only", partial(_write_town, languages=("zh",)), _town_sources),
}
