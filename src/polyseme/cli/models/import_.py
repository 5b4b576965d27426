"""polyseme import"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import report, suggest
from polyseme.cli.options import load_model
from polyseme.cli.progress import spinner
from polyseme.cli.training.session import report_saved
from polyseme.errors import CheckpointError
from polyseme.system.io_errors import writable


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="Directory: GPT or ELMo as published, fastai, transformers. File: word2vec, GloVe, fastText or ARPA."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to write, new or empty.")],
    vectors: Annotated[
        str | None, typer.Option(help="Run or file with the word vectors that a CoVe was trained on.")
    ] = None,
    pickle: Annotated[
        bool, typer.Option("--pickle", help="Also read pickled weights (.bin, .pth), in a sandboxed process.")
    ] = False,
) -> None:
    """Convert a model from another program to a model directory.

    \b
    Examples:
      polyseme import finetune-transformer-lm/model --out models/gpt
      polyseme import old-bert --pickle --out models/bert
      polyseme import vectors.bin --out models/vectors
      polyseme import MT-LSTM.pth --vectors glove.840B.300d.txt --pickle --out models/cove
    """
    from polyseme.api import open_embeddings
    from polyseme.conversion.registry import as_model_directory
    from polyseme.system.atomic_io import atomic_folder, check_new_folder

    check_new_folder(out)
    embeddings = open_embeddings(vectors) if vectors else None
    with spinner("reading"), as_model_directory(path, read_pickle=pickle, embeddings=embeddings) as folder:
        model = load_model(folder)
        with writable(out, "choose another --out", CheckpointError):
            out.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(out) as beside:
                model.save(beside)
    report_saved(out, model.encoder)
    if model.tokenizer is None:
        report("the model has no tokenizer files, so it cannot read text; add them to the directory")
    suggest("info {}", out)
