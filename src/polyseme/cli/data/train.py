"""polyseme tokenizer train"""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import report, suggest
from polyseme.cli.options import TextColumn
from polyseme.cli.progress import reading_bar
from polyseme.errors import CheckpointError
from polyseme.system.atomic_io import check_new_folder
from polyseme.system.io_errors import writable


def train(
    out: Annotated[Path, typer.Option(help="Directory to write, new or empty.")],
    corpus: Annotated[list[str], typer.Option(help="Text: file, folder or pattern. Repeatable.")],
    kind: Annotated[str, typer.Option(help="word, char, wordpiece, bpe, byte-bpe or unigram.")] = "wordpiece",
    vocab_size: Annotated[int, typer.Option(min=1, help="Maximum vocabulary size.")] = 8192,
    specials: Annotated[
        str, typer.Option(help="Style of the special tokens: bert, gpt2, roberta, gpt, elmo or plain.")
    ] = "bert",
    lowercase: Annotated[bool, typer.Option(help="Lowercase, and strip accents.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Minimum count of a token.")] = 2,
    column: TextColumn = "text",
) -> None:
    """Train a tokenizer on a corpus.

    \b
    Example:
      polyseme tokenizer train --corpus text/ --kind byte-bpe --specials gpt2 --vocab-size 16000 --out bpe
    """
    from polyseme.corpora.corpus import Corpus
    from polyseme.tokenization.config import TokenizerConfig
    from polyseme.tokenization.tokenizer import Tokenizer

    check_new_folder(out)
    values: dict[str, Any] = {"kind": kind, "specials": specials, "lowercase": lowercase, "min_count": min_count}
    config = TokenizerConfig.parse(values, group="tokenizer")
    text = Corpus(*corpus, column=column)
    with reading_bar("reading the corpus", text):
        trained = Tokenizer.train(config, text, vocab_size=vocab_size)
    with writable(out, "choose another --out", CheckpointError):
        out.mkdir(parents=True, exist_ok=True)
        trained.save(out)
    report(f"Saved {out}: {trained.vocab_size:,} tokens.")
    suggest("pretrain bert --corpus {} --out runs/bert", corpus[0])
