"""polyseme tokenizer"""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import reading, say, suggest
from polyseme.errors import CheckpointError

tokenizer = typer.Typer(help="Train and look at tokenizers.", no_args_is_help=True, rich_markup_mode=None)


@tokenizer.callback()
def group() -> None:
    """Train and look at tokenizers."""


@tokenizer.command()
def train(
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    corpus: Annotated[list[str], typer.Option(help="Text: file, folder or pattern. May be given several times.")],
    kind: Annotated[str, typer.Option(help="word, char, wordpiece, bpe, byte-bpe or unigram.")] = "wordpiece",
    vocab_size: Annotated[int, typer.Option(min=1, help="Tokens at most.")] = 8192,
    specials: Annotated[str, typer.Option(help="Whose special tokens: bert, gpt2, roberta, gpt or plain.")] = "bert",
    lowercase: Annotated[bool, typer.Option(help="Drop capitals and accents.")] = True,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out what is rarer.")] = 2,
    column: Annotated[str, typer.Option(help="Where the text is in jsonl, csv, tsv and parquet.")] = "text",
) -> None:
    """Learn a vocabulary from text.

    \b
    Example:
      polyseme tokenizer train --corpus text/ --kind byte-bpe --specials gpt2 --vocab-size 16000 --out bpe
    """
    from polyseme.text.corpus import Corpus
    from polyseme.text.tokenizer import Tokenizer
    from polyseme.text.vocabulary import TokenizerConfig

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CheckpointError(f"{out} is not empty; choose another --out")
    values: dict[str, Any] = {"kind": kind, "specials": specials, "lowercase": lowercase, "min_count": min_count}
    config = TokenizerConfig.parse(values, group="tokenizer")
    text = Corpus(*corpus, column=column)
    with reading("reading the text", text):
        trained = Tokenizer.train(config, text, vocab_size=vocab_size)
    try:
        out.mkdir(parents=True, exist_ok=True)
        trained.save(out)
    except OSError as error:
        raise CheckpointError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
    say(f"{out}: {trained.vocab_size:,} tokens")
    suggest(f"polyseme pretrain bert --corpus {shlex.quote(corpus[0])} --out runs/bert")
