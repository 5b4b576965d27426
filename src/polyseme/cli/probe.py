"""polyseme probe"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.check import columns_of
from polyseme.cli.console import counting, say, suggest, table, working, write_json
from polyseme.errors import ConfigError

if TYPE_CHECKING:
    from polyseme.inside.layer_worth import Probed


def probe(
    model: Annotated[
        list[str], typer.Argument(help="Directories of models, or files of word vectors; NAME=MODEL to name one.")
    ],
    data: Annotated[
        list[str], typer.Option(help="Labelled file to learn from; NAME=FILE for each of several.", show_default=False)
    ],
    dev: Annotated[
        list[str] | None, typer.Option(help="File to measure on; else a tenth is held out. NAME=FILE of several.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="pos, dependencies, tag, classify or edges; else the file tells. NAME=TASK of several files."
        ),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=review; of tags by number: tag=4.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Sentences to learn from, and to measure on, drawn by seed.")] = 2000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes that a probe learns for.")] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="Learn so many times, and say mean and deviation.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same figures.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for probe.html, probe.svg and probe.json; or a page, as FILE.html.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a task and model.")] = False,
) -> None:
    """Show which layers of a frozen model a task reads.

    A probe learns what each layer is worth to part of speech, dependencies (CoNLL-U), or whatever a file has labels
    for: words (CoNLL), whole texts (columns text and label), or spans, in lines of JSON: {"text": "Ann met Bo",
    "targets": [{"span1": [0, 1], "span2": [2, 3], "label": "met"}]}. Beside the weights it says what each layer adds
    to those below it.

    \b
    Examples:
      polyseme probe runs/bert --data train.conllu --dev dev.conllu --out charts
      polyseme probe runs/bert runs/elmo --task pos --data train.conllu --seeds 3 --out layers.html
      polyseme probe runs/bert --data names=ner.conll --data topics=topics.tsv --json
    """
    files, held, kinds = _named(data, "--data"), _named(dev or [], "--dev"), _kinds(task or [])
    columns, names = columns_of(column or []), _models(model)
    if out is not None and out.suffix != ".html" and out.is_file():
        raise ConfigError(f"{out} is a file; give --out a folder, or a page such as layers.html")
    for option, given in (("--dev", held), ("--task", {name: "" for name in kinds if name})):
        wrong = next((name for name in given if name not in files), None)
        if wrong is not None:
            raise ConfigError(f"{option} {wrong or given[wrong]:.60}: no --data has that name; say NAME=… for both")
    from polyseme.inside.asked import read_asked
    from polyseme.inside.probe import ProbeConfig, probe_layers
    from polyseme.inside.probe_charts import write_probes
    from polyseme.opening import load

    config = ProbeConfig(most=most, epochs=epochs, seeds=seeds, seed=seed)
    with working("reading the files"):
        asked = [
            read_asked(
                file,
                held.get(name),
                kinds.get(name) or kinds.get("", []),
                columns=columns,
                name=name,
                most=most,
                seed=seed,
            )
            for name, file in files.items()
        ]
    found: list[Probed] = []
    for name, loaded in {name: load(path) for name, path in names.items()}.items():  # a mistake shows at once
        for each in asked:
            steps = probe_layers(loaded, each, config, name=name)
            with working(f"{name}: reading layers"):
                start = next(steps)
            with counting(f"{name}, {' and '.join(each.names.values())}: probes", start.total) as count:
                for step in steps:
                    count(step.done)
                    found += [step.found] if step.found else []
    if json:
        for probed in found:
            write_json(probed.describe())
    else:
        _print(found)
    for name in dict.fromkeys(probed.model for probed in found if probed.num_layers == 1):
        say(f"{name} has one layer, so there is nothing to weigh; its score is that of the layer")
    if out is not None:
        page, sheet, figures = write_probes(found, out)
        say(f"{page}, {sheet.name} and {figures.name} are written")
    if not json and seeds > 1 and out is not None:
        suggest(f"polyseme finetune {shlex.quote(names.popitem()[1])} --train FILE --out DIR")
    elif not json:
        options = [*_options("--data", data), *_options("--dev", dev), *_options("--task", task)]
        options += ["--seeds", str(max(3, seeds)), "--out", str(out or "charts")]
        suggest(shlex.join(["polyseme", "probe", *model, *options]))


def _print(found: "Sequence[Probed]") -> None:
    """How good probes are, then what they say of layers, then each layer; all at once is too wide for a terminal."""
    from polyseme.inside.probe_charts import FIGURES, LAYERS, by_layer, figures

    scores = [[probed.task, *figures(probed)[:5], probed.measure, f"{probed.num_items:,}"] for probed in found]
    table(scores, header=["task", *FIGURES[:5], "measure", "items"])
    several = [probed for probed in found if probed.num_layers > 1]
    if several:
        worth = [[probed.task, probed.model, *figures(probed)[5:]] for probed in several]
        table(worth, header=["task", "model", *FIGURES[5:]])
        table([[probed.task, *row] for probed in several for row in by_layer(probed)], header=["task", *LAYERS])


def _named(given: Sequence[str], option: str) -> dict[str, str]:
    """Files by name; a single one needs none."""
    named = {}
    for text in given:
        name, file = _cut(text)
        if len(given) > 1 and not name:
            raise ConfigError(f"{option} {text:.60}: with several, say NAME={text:.30}")
        if name in named:
            raise ConfigError(f"{option} {text:.60}: the same name is given twice; choose another")
        named[name] = file
    return named


def _kinds(given: Sequence[str]) -> dict[str, list[str]]:
    """What is asked, by the name of the file; without a name, of all that have none of their own."""
    kinds: dict[str, list[str]] = {}
    for text in given:
        name, kind = _cut(text)
        kinds.setdefault(name, []).append(kind)
    return kinds


def _models(given: Sequence[str]) -> dict[str, str]:
    """Models by name: the one that is given, or that of their directory, or all of their path."""
    pairs = [_cut(text) for text in given]
    last = [name or Path(path).name or path for name, path in pairs]
    named = {
        path if not name and last.count(short) > 1 else short: path
        for (name, path), short in zip(pairs, last, strict=True)
    }
    if len(named) < len(given):
        raise ConfigError("two models have the same name; say NAME=MODEL")
    return named


def _cut(text: str) -> tuple[str, str]:
    if not Path(text).exists() and (match := re.fullmatch(r"([\w.-]+)=(.+)", text)):
        return match[1], match[2]
    return "", text


def _options(option: str, given: Sequence[str] | None) -> list[str]:
    return [word for text in given or () for word in (option, text)]
