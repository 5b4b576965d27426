"""Directories of other programs as ones that can be loaded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from polyseme.errors import CheckpointError
from polyseme.interchange.cove import convert_cove, export_cove
from polyseme.interchange.elmo import convert_elmo, export_elmo, find_published
from polyseme.interchange.fastai import convert_fastai, export_fastai, find_weights
from polyseme.interchange.openai import SHAPES, convert_openai
from polyseme.interchange.pickled import PICKLED, unpickle
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.text.published import MERGES, VOCABULARIES
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.given import GivenVectors

EXPORTS: dict[str, tuple[str, Callable[[Any, nn.Module, Path, Tokenizer], Path]]] = {
    "bilm": ("elmo", export_elmo),
    "fastai": ("ulmfit", export_fastai),
    "mtlstm": ("cove", export_cove),
}
"""What writes the weights of a family as its authors' program has them."""

TOKENIZER_FILES = ("tokenizer.json", *VOCABULARIES)
"""Of which one is there where a directory has a tokenizer."""

_COPIED = (*TOKENIZER_FILES, *MERGES, "tokenizer_config.json", "special_tokens_map.json")


def check_loadable(folder: Path) -> None:
    """Refuse what has to be imported first."""
    if find_weights(folder):
        raise CheckpointError(f"{folder} has no {CONFIG}; if fastai saved it, say polyseme import {folder} --out DIR")
    if (folder / WEIGHTS).exists():
        return
    if (folder / SHAPES).exists():
        raise CheckpointError(f"{folder} is OpenAI's GPT as published; say polyseme import {folder} --out DIR first")
    if find_published(folder):
        raise CheckpointError(f"{folder} is ELMo as published; say polyseme import {folder} --out DIR first")
    if (folder / PICKLED).exists():
        raise CheckpointError(
            f"{folder} has its weights in a pickle, which could do anything when it is read; "
            f"say polyseme import {folder} --pickle --out DIR first"
        )


@contextmanager
def loadable(source: Path, *, pickle: bool = False, vectors: GivenVectors | None = None) -> Iterator[Path]:
    """A directory that can be loaded: the one that is given, or one made of it for as long as it is needed.

    With `vectors`, the source is a file with the weights of a CoVe that reads words by these.
    """
    published, pickled = (source / SHAPES).exists(), pickle and (source / PICKLED).exists()
    bare, elmo = find_weights(source), find_published(source)
    if not (bare or vectors) and ((source / WEIGHTS).exists() or not (published or pickled or elmo)):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="polyseme-") as scratch:
        folder = Path(scratch)
        try:
            if vectors:
                convert_cove(source, vectors, folder, pickle=pickle)
            elif bare:
                convert_fastai(bare, folder, pickle=pickle)
            elif published:
                convert_openai(source, folder)
            elif elmo:
                convert_elmo(source, folder)
            else:
                unpickle(source / PICKLED, folder / WEIGHTS)
                shutil.copyfile(source / CONFIG, folder / CONFIG)
            for name in _COPIED:
                if (source / name).is_file():
                    shutil.copyfile(source / name, folder / name)
        except OSError as error:
            raise CheckpointError(f"{error.filename} cannot be read ({error.strerror}); check the path") from None
        yield folder
