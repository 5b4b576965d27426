"""polyseme search"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import format_cell, print_json, print_table, read_texts, suggest
from polyseme.cli.options import Json, load_model
from polyseme.cli.progress import spinner

_BM25 = "bm25"


def search(
    model: Annotated[str, typer.Argument(help="Model directory, file of word vectors, or hf:NAME; or bm25.")],
    corpus: Annotated[str, typer.Option(help="Text: file, folder, pattern, or a built-in sample (docstrings, town).")],
    query: Annotated[list[str] | None, typer.Argument(help="Queries; by default the lines of standard input.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of passages for each query.")] = 10,
    documents: Annotated[bool, typer.Option("--documents", help="Search whole documents, not passages.")] = False,
    json: Json = False,
) -> None:
    """Search a corpus for the passages that fit a query best.

    Ranks passages of about a paragraph by the cosine similarity of their vectors with that of the query; vectors are
    computed once per model and corpus. bm25 ranks by the words in common instead.

    \b
    Examples:
      polyseme search runs/skipgram --corpus text/ 'how rivers change their course' --top 3
      polyseme search bm25 --corpus text/ 'how rivers change their course' --json
    """
    queries = read_texts(query, None)
    from polyseme.evaluation.passages import read_passages, search_bm25

    by_terms = model == _BM25 and not Path(model).exists()
    loaded = None if by_terms else load_model(model)
    with spinner(f"searching {corpus}"):
        if loaded is None:
            found = search_bm25(queries, read_passages(corpus, whole_documents=documents), top=top)
        else:
            found = loaded.search(queries, corpus, top=top, whole_documents=documents)
    if json:
        for text, results in zip(queries, found, strict=True):
            rows = [{"text": result.text, "score": round(result.score, 6)} for result in results]
            print_json({"query": text, "results": rows})
    else:
        cells = [
            [text if rank == 1 else "", str(rank), format_cell(result.score), " ".join(result.text.split())]
            for text, results in zip(queries, found, strict=True)
            for rank, result in enumerate(results, start=1)
        ]
        print_table(cells, header=["query", "rank", "score", "passage"])
    if loaded is None:
        suggest("compare --corpus {} --out report", corpus)
    else:
        suggest("evaluate {} --suite retrieval --data {}", model, corpus)
