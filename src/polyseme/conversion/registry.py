"""Import and export formats: a new one is a file and a line in `IMPORTERS` or `EXPORTERS`."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from polyseme.config import suggest_name
from polyseme.conversion import (
    arpa,
    cove_mtlstm,
    elmo_hdf5,
    fastai,
    fasttext_bin,
    onnx_export,
    openai_gpt,
    transformers_pickle,
    word_vector_files,
)
from polyseme.conversion.formats import Exporter, Importer, ImportOptions, Parity
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.model import LoadedModel
from polyseme.system.atomic_io import atomic_folder, check_new_folder
from polyseme.system.io_errors import readable, writable
from polyseme.system.regular_files import check_regular
from polyseme.tokenization.vocabulary_files import MERGES_FILES, VOCABULARY_FILES
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings

IMPORTERS: tuple[Importer, ...] = (  # the first that detects its format converts it
    cove_mtlstm.IMPORTER,
    fastai.IMPORTER,
    openai_gpt.IMPORTER,
    elmo_hdf5.IMPORTER,
    transformers_pickle.IMPORTER,
    arpa.IMPORTER,
)

EXPORTERS: dict[str, Exporter] = {
    **onnx_export.EXPORTERS,
    **word_vector_files.EXPORTERS,
    "arpa": arpa.EXPORTER,
    "bilm": elmo_hdf5.EXPORTER,
    "fastai": fastai.EXPORTER,
    "fasttext": fasttext_bin.EXPORTER,
    "mtlstm": cove_mtlstm.EXPORTER,
}

TOKENIZER_FILES = ("tokenizer.json", *VOCABULARY_FILES)
"""One of these is in a directory that has a tokenizer."""

_COPIED = (*TOKENIZER_FILES, *MERGES_FILES, "tokenizer_config.json", "special_tokens_map.json")


def check_loadable(folder: Path) -> None:
    """Raise an error if a directory has to be imported first."""
    importer = _find_importer(folder, ImportOptions(read_pickle=True))
    if importer:
        raise CheckpointError(
            f"{folder} contains {importer.description}; convert it with "
            f"polyseme import {folder}{importer.flags} --out DIR"
        )


@contextmanager
def as_model_directory(
    source: Path, *, read_pickle: bool = False, embeddings: PretrainedEmbeddings | None = None
) -> Iterator[Path]:
    """A directory that `load` opens: the source itself, or a temporary conversion of it.

    With `embeddings`, the source is a file with the weights of a CoVe that was trained on these input vectors.
    """
    options = ImportOptions(read_pickle=read_pickle, embeddings=embeddings)
    importer = _find_importer(source, options)
    if importer is None:
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="polyseme-") as scratch:
        folder = Path(scratch)
        with readable(source, kind=CheckpointError):
            importer.convert(source, folder, options)
            for name in _COPIED:
                if (source / name).is_file():
                    shutil.copyfile(check_regular(source / name), folder / name)
        yield folder


def _find_importer(source: Path, options: ImportOptions) -> Importer | None:
    return next((importer for importer in IMPORTERS if importer.detect(source, options)), None)


def find_exporter(format: str) -> Exporter:
    """The exporter of a format."""
    if format not in EXPORTERS:
        raise ConfigError(f"{format!r} is not an export format{suggest_name(format, EXPORTERS)}")
    return EXPORTERS[format]


def export_model(
    model: LoadedModel, path: Path, format: str, *, texts: Sequence[str] | None = None
) -> tuple[Path, Parity | None]:
    """Write a model in an export format; return the main file and, for graphs, the parity on `texts`."""
    exporter = find_exporter(format)
    exporter.check_packages()
    if exporter.family not in (None, model.family):
        raise ConfigError(f"the export format {format} is for {exporter.family} models, and this one is {model.family}")
    if not exporter.single_file:
        check_new_folder(path)
    elif path.exists():
        raise ConfigError(f"{path} already exists; choose another --out")
    with writable(path, "choose another --out", CheckpointError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if exporter.single_file:
            return exporter.write(model, path, texts)
        with atomic_folder(path) as folder:
            file, parity = exporter.write(model, folder, texts)
    return path / file.name, parity
