"""polyseme senses"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.check import columns_of
from polyseme.cli.console import say, suggest, table, working, write_json
from polyseme.errors import ConfigError, DataError

if TYPE_CHECKING:
    from polyseme.inside.senses import Found, Senses


def senses(
    model: Annotated[list[str], typer.Argument(help="Directories of models, or files of word vectors.")],
    word: Annotated[str, typer.Option(help="The word; several forms of it between commas: bank,banks.")],
    texts: Annotated[
        str, typer.Option(help="Lines of text, a table with text and label, a folder, or a sample: town.")
    ],
    against: Annotated[
        str | None, typer.Option(help="Other texts, whose senses are told by the nearest of --texts; else each by all.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Page to write, such as bank.html.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=sentence, label=sense_id, index=place.")
    ] = None,
    case: Annotated[str, typer.Option(help="any: capitals make no difference; exact.")] = "any",
    most: Annotated[
        int, typer.Option(min=0, help="So many occurrences of each side, drawn by the seed; 0: all.")
    ] = 500,
    near: Annotated[int, typer.Option(min=1, help="Nearest occurrences that the page lists.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a layer.")] = False,
) -> None:
    """Show how the senses of a word separate, layer by layer, in one or several models.

    Every occurrence of the word has a vector in every layer; a static model has one for all. The page maps them side
    by side. Where the texts come with senses (columns label or sense; index, or start and end, say where the word is),
    it says how far the nearest occurrence has the same one, balanced over senses, and how well they fall apart.

    \b
    Examples:
      polyseme senses runs/skipgram runs/bert --word bank --texts town --out bank.html
      polyseme senses runs/elmo --word bank,banks --texts lines.txt
      polyseme senses runs/bert --word apple --texts apple.train.tsv --against apple.test.tsv --most 0 --json
    """
    if out is not None and out.suffix not in (".html", ".htm"):
        raise ConfigError(f"{out} should end in .html; it becomes a page")
    if out is not None and not out.absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written ({out.parent} is no folder); choose another --out")
    from polyseme.inside.senses import SensesConfig, find_occurrences, look_at
    from polyseme.inside.senses_page import draw_senses
    from polyseme.opening import load

    told = SensesConfig.parse({"case": case, "most": most, "near": near, "seed": seed}, group="senses")
    loaded = [load(path) for path in model]
    with working("looking for the word"):
        found = find_occurrences(word, texts, told, against=against, columns=columns_of(column or []))
    looks = []
    for name, path, opened in zip(names_of(model), model, loaded, strict=True):
        with working(f"reading with {path}"):
            looks.append(look_at(opened, found, told, name=name))
    if out is not None:
        from polyseme.files import write_file

        try:
            write_file(out, draw_senses(looks))
        except OSError as error:
            raise DataError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
    _introduce(found, looks)
    _report(looks, json=json)
    if out is not None:
        say(f"{out}: open it in a browser")
        suggest(f"polyseme evaluate {shlex.quote(model[-1])} --suite senses --data FOLDER")
    else:
        given = " ".join(map(shlex.quote, [*model, "--word", word, "--texts", texts]))
        suggest(f"polyseme senses {given} --out senses.html")


def names_of(paths: list[str]) -> list[str]:
    """What to call models: the last parts of their paths, as many as tell them apart."""
    parts = [Path(path).absolute().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(set(paths)):
            return names
    return paths


def _introduce(found: "Found", looks: "list[Senses]") -> None:
    drawn = len(looks[0].occurrences)
    of_all = f" of {found.total:,}, drawn by the seed" if drawn < found.total else ""
    given = ", ".join(f"{sense} {count:,}" for sense, count in looks[0].senses.items())
    say(f"{found.word}: {drawn:,} occurrence{'s' * (drawn > 1)}{of_all}{f'; {given}' if given else ''}")
    if len(looks[0].senses) == 1:
        say("they are all of one sense, so there is nothing to tell apart")


def _report(looks: "list[Senses]", *, json: bool) -> None:
    if json:
        for look in looks:
            about = {"model": look.name, "family": look.family, "static": look.static, "word": look.word}
            about |= {"spelling": look.spelling, "occurrences": len(look.occurrences), "senses": look.senses}
            for number, layer in enumerate(look.layers):
                figures = {key: None if value is None else round(value, 6) for key, value in layer.figures.items()}
                shares = [round(share, 6) for share in layer.explained]
                write_json({**about, "layer": number, **figures, "explained": shares})
        return
    shown: tuple[str, ...] = ("self_similarity", "other_words", "spread")
    shown = ("accuracy", "error", "silhouette", *shown) if len(looks[0].senses) > 1 else shown
    rows = [
        [
            look.name,
            "static" if look.static else str(number),
            *(_cell(key, layer.figures[key]) for key in shown),
            f"{sum(layer.explained):.0%}",
        ]
        for look in looks
        for number, layer in enumerate(look.layers)
    ]
    header = [{"accuracy": "1-NN"}.get(key, key.replace("_", " ")) for key in shown]
    table(rows, header=["model", "layer", *header, "variance shown"])


def _cell(key: str, value: float | None) -> str:
    if key == "error":
        return "" if value is None else f"± {value:z.3f}"
    return "–" if value is None else f"{value:z.3f}"
