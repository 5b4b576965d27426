"""Directories of other programs as ones that can be loaded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.errors import CheckpointError
from polyseme.interchange.openai import SHAPES, convert_openai
from polyseme.interchange.pickled import PICKLED, unpickle
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.text.published import MERGES, VOCABULARIES

TOKENIZER_FILES = ("tokenizer.json", *VOCABULARIES)
"""Of which one is there where a directory has a tokenizer."""

_COPIED = (*TOKENIZER_FILES, *MERGES, "tokenizer_config.json", "special_tokens_map.json")


def check_loadable(folder: Path) -> None:
    """Refuse what has to be imported first."""
    if (folder / WEIGHTS).exists():
        return
    if (folder / SHAPES).exists():
        raise CheckpointError(f"{folder} is OpenAI's GPT as published; say polyseme import {folder} --out DIR first")
    if (folder / PICKLED).exists():
        raise CheckpointError(
            f"{folder} has its weights in a pickle, which could do anything when it is read; "
            f"say polyseme import {folder} --pickle --out DIR first"
        )


@contextmanager
def loadable(source: Path, *, pickle: bool = False) -> Iterator[Path]:
    """A directory that can be loaded: the one that is given, or one made of it for as long as it is needed."""
    published, pickled = (source / SHAPES).exists(), pickle and (source / PICKLED).exists()
    if (source / WEIGHTS).exists() or not (published or pickled):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="polyseme-") as scratch:
        folder = Path(scratch)
        try:
            if published:
                convert_openai(source, folder)
            else:
                unpickle(source / PICKLED, folder / WEIGHTS)
                shutil.copyfile(source / CONFIG, folder / CONFIG)
            for name in _COPIED:
                if (source / name).is_file():
                    shutil.copyfile(source / name, folder / name)
        except OSError as error:
            raise CheckpointError(f"{error.filename} cannot be read ({error.strerror}); check the path") from None
        yield folder
