"""Checkpoints of the transformers library whose weights are pickled."""

import shutil
from pathlib import Path

from polyseme.conversion.formats import Importer, ImportOptions
from polyseme.conversion.pickle_sandbox import unpickle
from polyseme.system.regular_files import check_regular
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS

_PICKLED = "pytorch_model.bin"


def _convert(source: Path, target: Path, options: ImportOptions) -> None:
    unpickle(source / _PICKLED, target / WEIGHTS)
    shutil.copyfile(check_regular(source / CONFIG), target / CONFIG)


IMPORTER = Importer(
    description="weights in a pickle, which can execute code when it is loaded",
    detect=lambda source, options: (
        options.read_pickle and (source / _PICKLED).exists() and not (source / WEIGHTS).exists()
    ),
    convert=_convert,
    flags=" --pickle",
)
