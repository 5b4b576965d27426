"""polyseme import"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import say, suggest, working
from polyseme.errors import CheckpointError


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="Directory: GPT or ELMo as published, or one of transformers. File: word2vec, GloVe or fastText."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    vectors: Annotated[
        str | None, typer.Option(help="Run or file of the word vectors that the weights of a CoVe are for.")
    ] = None,
    pickle: Annotated[
        bool,
        typer.Option("--pickle", help="Read weights in a pickle too (.bin, .pth), in a process that may do little."),
    ] = False,
) -> None:
    """Make a model directory of the files of another program.

    \b
    Examples:
      polyseme import finetune-transformer-lm/model --out models/gpt
      polyseme import old-bert --pickle --out models/bert
      polyseme import vectors.bin --out models/vectors
      polyseme import MT-LSTM.pth --vectors glove.840B.300d.txt --pickle --out models/cove
    """
    from polyseme.files import whole_folder
    from polyseme.interchange.directories import loadable
    from polyseme.making import open_vectors
    from polyseme.opening import load
    from polyseme.train.run import check_unused

    check_unused(out)
    given = open_vectors(vectors) if vectors else None
    with working("reading"), loadable(path, pickle=pickle, vectors=given) as folder:
        model = load(folder)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with whole_folder(out) as beside:
                model.save(beside)
        except OSError as error:
            raise CheckpointError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
    opened = "; transformers opens it too" if model.encoder.foreign else ""
    say(f"{out} is a {model.family} now{opened}")
    if model.tokenizer is None:
        say("it has no tokenizer, which would be needed to read text")
    suggest(f"polyseme info {shlex.quote(str(out))}")
