"""Built-in corpora and labelled datasets, generated locally so that every command runs without a download."""

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from polyseme.config import suggest_name
from polyseme.corpora.corpus import split_language_prefix
from polyseme.errors import ConfigError, DataError
from polyseme.system.atomic_io import atomic_folder
from polyseme.system.cache import load_or_build
from polyseme.system.io_errors import writable


@dataclass(frozen=True)
class Sample:
    """A built-in dataset; the same sources and seed give the same files."""

    description: str
    write: Callable[[Path, int], None]  # (folder, seed)
    sources: Callable[[], list[str]]


class SampleText(NamedTuple):
    """The training and validation text of a sample."""

    train: list[Path]
    dev: list[Path]


def write_sample(name: str, folder: Path, *, seed: int = 0) -> None:
    """Write a sample into a new or empty folder."""
    sample = _find(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not an empty folder; choose a new one")
    with writable(folder, "choose another folder"), atomic_folder(folder) as beside:
        sample.write(beside, seed)


def sample_folder(name: str, *, seed: int = 0) -> Path:
    """The folder of a sample in the cache, written on first use."""
    sample = _find(name)
    key = hashlib.sha256("\n".join([*sample.sources(), f"seed {seed}"]).encode()).hexdigest()[:12]
    return load_or_build(
        "samples",
        f"{name}-{key}",
        load=lambda folder: folder.resolve(strict=True),
        build=lambda folder: sample.write(folder, seed),
    )


def sample_text(name: str) -> SampleText:
    """The text files of a sample, for use as a corpus."""
    folder = sample_folder(name)
    return SampleText(train=sorted(folder.glob("*train.txt")), dev=sorted(folder.glob("*dev.txt")))


def is_sample(path: str | Path) -> bool:
    """Whether a path is the name of a sample, and nothing else has this name."""
    return str(path) in SAMPLES and not Path(path).exists()


def absolute_path(path: str) -> str:
    """A path as an absolute one, with its language prefix; empty ones and names of samples stay as they are."""
    language, path = split_language_prefix(path)
    full = path if not path or is_sample(path) else str(Path(path).absolute())
    return f"{language}={full}" if language else full


def _find(name: str) -> Sample:
    if name not in SAMPLES:
        raise ConfigError(f"unknown sample {name!r}{suggest_name(name, SAMPLES)}")
    return SAMPLES[name]


def _write_docstrings(folder: Path, seed: int) -> None:
    from polyseme.datasets.docstrings import document_id, documents

    with (
        (folder / "train.txt").open("w", encoding="utf-8") as train,
        (folder / "dev.txt").open("w", encoding="utf-8") as dev,
        (folder / "modules.tsv").open("w", encoding="utf-8") as modules,
    ):
        for name, text in documents():
            (train if zlib.crc32(name.encode()) % 25 else dev).write(f"{text}\n\n")
            modules.write(f"{document_id(text)}\t{name}\n")


def _docstring_sources() -> list[str]:
    from polyseme.datasets.docstrings import source_versions

    return [*source_versions(), *_source_hashes("docstrings.py")]


def _write_town(folder: Path, seed: int, languages: Sequence[Literal["en", "zh"]] = ("en", "zh")) -> None:
    from polyseme.datasets.town.writers import write_town

    write_town(folder, seed, languages=languages)


def _source_hashes(pattern: str) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(__file__).parent.glob(pattern))]


_town_sources = partial(_source_hashes, "town/*.*")

SAMPLES: dict[str, Sample] = {
    "docstrings": Sample(
        "real English: the docstrings of Python and of the installed packages", _write_docstrings, _docstring_sources
    ),
    "town": Sample(
        "a synthetic town in English and Chinese, with labelled data for every task", _write_town, _town_sources
    ),
    "town-en": Sample("the town in English only", partial(_write_town, languages=("en",)), _town_sources),
    "town-zh": Sample("the town in Chinese only", partial(_write_town, languages=("zh",)), _town_sources),
}
