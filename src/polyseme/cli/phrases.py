"""polyseme data phrases"""

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import reading, say, suggest, table
from polyseme.errors import ConfigError, DataError

_BLANK_LINES = re.compile(r"\n\s*\n")


def phrases(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders or patterns.")],
    out: Annotated[Path, typer.Option(help="File to write; a .txt that is not there yet.")],
    min_count: Annotated[int, typer.Option(min=1, help="Words and phrases must be met more often.")] = 5,
    threshold: Annotated[
        list[float], typer.Option(min=0, help="Score that a phrase must pass; a second one finds longer phrases.")
    ] = [100.0],  # noqa: B006
    column: Annotated[str, typer.Option(help="Where the text is in jsonl, csv, tsv and parquet.")] = "text",
    top: Annotated[int, typer.Option(min=0, help="How many phrases to show.")] = 20,
) -> None:
    """Write text with its phrases joined, as new_york: words that stand together more often than chance has it.

    \b
    Example:
      polyseme data phrases text/ --out joined.txt --threshold 100 --threshold 50
    """
    if out.exists():
        raise ConfigError(f"{out} is there already; choose another --out")
    from polyseme.static.phrases import Phrases
    from polyseme.text.corpus import Corpus

    text = Corpus(*corpus, column=column)
    with reading("looking for phrases", text):
        found = Phrases.find(text, min_count=min_count, thresholds=threshold)
    beside = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with reading("writing the text", text), beside.open("w", encoding="utf-8", newline="\n") as file:
            for document in text:
                joined = "".join(map(found.join, text.split(document)))
                file.write(_BLANK_LINES.sub("\n", joined.strip()) + "\n\n")
        beside.rename(out)
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
    finally:
        beside.unlink(missing_ok=True)
    best = found.best()
    rows = [[phrase.name, f"{phrase.score:.0f}", f"{phrase.count:,}"] for phrase in best[:top]]
    table(rows, header=["phrase", "score", "times"])
    say(f"{out}: {len(best):,} phrases, joined {sum(phrase.count for phrase in best):,} times")
    suggest(f"polyseme pretrain skipgram --corpus {shlex.quote(str(out))} --out runs/phrases")
