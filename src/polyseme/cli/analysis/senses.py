"""polyseme senses"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import check_output, print_json, print_table, report, round_float, suggest, write_output
from polyseme.cli.options import Columns, Json, load_model, parse_columns
from polyseme.cli.progress import spinner
from polyseme.system.formatting import shortest_names

if TYPE_CHECKING:
    from polyseme.analysis.senses import OccurrenceSample, Senses


def senses(
    model: Annotated[list[str], typer.Argument(help="Model directories, or files of word vectors.")],
    word: Annotated[str, typer.Option(help="Word; several forms separated by commas: bank,banks.")],
    texts: Annotated[
        str, typer.Option(help="Lines of text, a table with text and label, a folder, or the sample town.")
    ],
    against: Annotated[
        str | None, typer.Option(help="Other texts; their senses are predicted from the nearest occurrence in --texts.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Page (.html) to write.")] = None,
    columns: Columns = None,
    case: Annotated[str, typer.Option(help="any: case-insensitive; exact: case-sensitive.")] = "any",
    max_occurrences: Annotated[
        int, typer.Option(min=0, help="Maximum number of occurrences, sampled at random; 0: all.")
    ] = 500,
    num_neighbours: Annotated[int, typer.Option(min=1, help="Nearest occurrences listed on the page.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    json: Json = False,
) -> None:
    """Show how the contextual vectors of a word separate its senses.

    Compares layers, and several models side by side.

    Each occurrence of the word has a vector in each layer; a static model has one vector for all. The page projects
    them to two dimensions. For texts with senses (columns label or sense; index, or start and end,
    locate the word) it reports nearest-neighbour accuracy, balanced over senses, and the silhouette.

    \b
    Examples:
      polyseme senses runs/skipgram runs/bert --word bank --texts town --out bank.html
      polyseme senses runs/elmo --word bank,banks --texts lines.txt
      polyseme senses runs/bert --word apple --texts apple.train.tsv --against apple.test.tsv --max-occurrences 0 --json
    """
    check_output(out, ".html", ".htm")
    from polyseme.analysis.senses import SensesConfig, analyse_senses, find_occurrences
    from polyseme.analysis.senses_page import senses_page

    values = {"case": case, "max_occurrences": max_occurrences, "num_neighbours": num_neighbours, "seed": seed}
    config = SensesConfig.parse(values, group="senses")
    loaded = [load_model(path) for path in model]
    with spinner("searching for the word"):
        found = find_occurrences(word, texts, config, against=against, columns=parse_columns(columns))
    results = []
    for name, path, opened in zip(shortest_names([*map(Path, model)]), model, loaded, strict=True):
        with spinner(f"encoding with {path}"):
            results.append(analyse_senses(opened, found, config, name=name))
    if out is not None:
        write_output(out, senses_page(results))
    _describe(found, results)
    _print(results, json=json)
    if out is not None:
        report(f"Saved {out}; open it in a browser.")
        suggest("evaluate {} --suite senses --data FOLDER", model[-1])
    else:
        suggest("senses" + " {}" * len(model) + " --word {} --texts {} --out senses.html", *model, word, texts)


def _describe(found: "OccurrenceSample", results: "list[Senses]") -> None:
    count = len(results[0].occurrences)
    of_all = f" of {found.total:,}, sampled at random" if count < found.total else ""
    by_sense = ", ".join(f"{sense} {number:,}" for sense, number in results[0].senses.items())
    report(f"{found.word}: {count:,} occurrence{'s' * (count > 1)}{of_all}{f'; {by_sense}' if by_sense else ''}")
    if len(results[0].senses) == 1:
        report("all occurrences have the same sense, so there is nothing to separate")


def _print(results: "list[Senses]", *, json: bool) -> None:
    if json:
        for result in results:
            about = {"model": result.name, "family": result.family, "static": result.static, "word": result.word}
            about |= {"tokens": result.tokens, "occurrences": len(result.occurrences), "senses": result.senses}
            for number, layer in enumerate(result.layers):
                metrics = {key: round_float(value) for key, value in layer.metrics.items()}
                explained = [round(fraction, 6) for fraction in layer.explained]
                print_json({**about, "layer": number, **metrics, "explained": explained})
        return
    shown: tuple[str, ...] = ("self_similarity", "random_similarity", "centroid_distance")
    shown = ("accuracy", "error", "silhouette", *shown) if len(results[0].senses) > 1 else shown
    rows = [
        [
            result.name,
            "static" if result.static else str(number),
            *(_cell(key, layer.metrics[key]) for key in shown),
            f"{sum(layer.explained):.0%}",
        ]
        for result in results
        for number, layer in enumerate(result.layers)
    ]
    titles = {"accuracy": "1-NN", "error": "s.e."}
    header = [titles.get(key, key.replace("_", " ")) for key in shown]
    print_table(rows, header=["model", "layer", *header, "explained variance"])


def _cell(key: str, value: float | None) -> str:
    if key == "error":
        return "" if value is None else f"± {value:z.3f}"
    return "–" if value is None else f"{value:z.3f}"
