"""polyseme data phrases"""

import re
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import print_table, report, suggest
from polyseme.cli.options import TextColumn
from polyseme.cli.progress import reading_bar
from polyseme.errors import ConfigError
from polyseme.system.atomic_io import atomic_file
from polyseme.system.io_errors import writable

_BLANK_LINES = re.compile(r"\n\s*\n")


def phrases(
    corpus: Annotated[list[str], typer.Argument(help="Text: files, folders or patterns.")],
    out: Annotated[Path, typer.Option(help="Text file (.txt) to write; must not exist.")],
    min_count: Annotated[int, typer.Option(min=1, help="Minimum count of words and phrases.")] = 5,
    threshold: Annotated[
        list[float], typer.Option(min=0, help="Minimum score; a second value runs a second pass for longer phrases.")
    ] = [100.0],  # noqa: B006
    column: TextColumn = "text",
    top: Annotated[int, typer.Option(min=0, help="Number of phrases to print.")] = 20,
) -> None:
    """Join collocations into single tokens, such as new_york.

    Collocations are detected by their counts (Mikolov et al., 2013), and the text is written with them joined.

    \b
    Example:
      polyseme data phrases text/ --out joined.txt --threshold 100 --threshold 50
    """
    if out.exists():
        raise ConfigError(f"{out} exists; choose another --out")
    from polyseme.corpora.corpus import Corpus
    from polyseme.static_embeddings.phrases import Phrases

    text = Corpus(*corpus, column=column)
    with reading_bar("detecting phrases", text):
        found = Phrases.detect(text, min_count=min_count, thresholds=threshold)
    with writable(out, "choose another --out"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with (
            reading_bar("writing", text),
            atomic_file(out) as partial,
            partial.open("w", encoding="utf-8", newline="\n") as file,
        ):
            for document in text:
                joined = "".join(map(found.merge, text.split_document(document)))
                file.write(_BLANK_LINES.sub("\n", joined.strip()) + "\n\n")
    ranked = found.ranked()
    rows = [[phrase.name, f"{phrase.score:.0f}", f"{phrase.count:,}"] for phrase in ranked[:top]]
    print_table(rows, header=["phrase", "score", "count"])
    report(f"Saved {out}: {len(ranked):,} phrases, joined {sum(phrase.count for phrase in ranked):,} times.")
    suggest("pretrain skipgram --corpus {} --out runs/phrases", out)
