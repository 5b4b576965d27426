"""polyseme probe"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import print_json, print_table, report, suggest
from polyseme.cli.options import Columns, Json, load_model, parse_columns, parse_named, split_name
from polyseme.cli.progress import counting_bar, spinner
from polyseme.errors import ConfigError
from polyseme.system.formatting import shortest_names

if TYPE_CHECKING:
    from polyseme.analysis.probing import ProbeResult


def probe(
    model: Annotated[
        list[str], typer.Argument(help="Model directories, or files of word vectors; NAME=MODEL sets a name.")
    ],
    data: Annotated[
        list[str], typer.Option(help="Labelled training file; NAME=FILE, repeated, for several.", show_default=False)
    ],
    dev: Annotated[
        list[str] | None, typer.Option(help="Dev file; by default a tenth is held out. NAME=FILE for several.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="pos, dependencies, tag, classify or edges; by default inferred from the file. NAME=TASK for several "
            "files."
        ),
    ] = None,
    columns: Columns = None,
    max_sentences: Annotated[int, typer.Option(min=1, help="Maximum number of training and dev sentences.")] = 2000,
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of a probe.")] = 4,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of runs with different seeds, for mean and standard deviation.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the first of --seeds.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for probe.html, probe.svg and probe.json; or a page, as FILE.html.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure what each layer of a model encodes, by edge probing.

    Probes are trained on the frozen layers, for part-of-speech tags and dependencies (CoNLL-U), or for the labels of a
    file: of words (CoNLL), of whole texts (columns text and label), or of spans, in JSON lines: {"text": "Ann met Bo",
    "targets": [{"span1": [0, 1], "span2": [2, 3], "label": "met"}]}. Reports the weight of each layer, and its gain
    over the layers below.

    \b
    Examples:
      polyseme probe runs/bert --data train.conllu --dev dev.conllu --out charts
      polyseme probe runs/bert runs/elmo --task pos --data train.conllu --seeds 3 --out layers.html
      polyseme probe runs/bert --data names=ner.conll --data topics=topics.tsv --json
    """
    files, dev_files, fields = parse_named(data), parse_named(dev), parse_columns(columns)
    kinds: dict[str, list[str]] = {}  # by name of the file; without one, for files that have none of their own
    for name, kind in map(split_name, task or []):
        kinds.setdefault(name, []).append(kind)
    pairs = [split_name(text) for text in model]
    short_names = shortest_names([Path(path) for _, path in pairs])
    names = {name or short: path for (name, path), short in zip(pairs, short_names, strict=True)}
    if len(names) < len(model):
        raise ConfigError("two models have the same name; use NAME=MODEL")
    if out is not None and out.suffix != ".html" and out.is_file():
        raise ConfigError(f"{out} is a file; give --out a folder, or a page such as layers.html")
    for option, named in (("--dev", dev_files), ("--task", dict.fromkeys(filter(None, kinds), ""))):
        wrong = next((name for name in named if name not in files), None)
        if wrong is not None:
            raise ConfigError(f"{option} {wrong or named[wrong]:.60}: no --data has this name; use NAME=… for both")
    from polyseme.analysis.probe_data import read_probe_dataset
    from polyseme.analysis.probe_page import write_probe_files
    from polyseme.analysis.probing import ProbeConfig, probe_layers

    config = ProbeConfig(max_sentences=max_sentences, epochs=epochs, seeds=seeds, seed=seed)
    with spinner("reading the files"):
        datasets = [
            read_probe_dataset(
                file,
                dev_files.get(name),
                kinds.get(name) or kinds.get("", []),
                columns=fields,
                name=name,
                max_sentences=max_sentences,
                seed=seed,
            )
            for name, file in files.items()
        ]
    results: list[ProbeResult] = []
    models = {name: load_model(path) for name, path in names.items()}  # all load before any is probed
    for name, loaded in models.items():
        for dataset in datasets:
            steps = probe_layers(loaded, dataset, config, name=name)
            with spinner(f"{name}: encoding"):
                first = next(steps)
            description = f"{name}, {' and '.join(dataset.task_names.values())}: probes"
            with counting_bar(description, first.total_probes) as update:
                for step in steps:
                    update(step.probes_done)
                    results += [step.result] if step.result else []
    if json:
        for result in results:
            print_json(result.describe())
    else:
        _print(results)
    for name in dict.fromkeys(result.model for result in results if result.num_layers == 1):
        report(f"{name} has one layer, so the scalar mix has nothing to weigh; its score is that of the layer")
    if out is not None:
        page, sheet, metrics = write_probe_files(results, out)
        report(f"Saved {page}, {sheet.name} and {metrics.name}.")
    if seeds > 1 and out is not None:
        suggest("finetune {} --train FILE --out DIR", names.popitem()[1])
    else:
        words = list(model)
        for option, values in (("--data", data), ("--dev", dev), ("--task", task)):
            words += [word for value in values or () for word in (option, value)]
        suggest("probe" + " {}" * len(words) + " --seeds {} --out {}", *words, max(3, seeds), out or "charts")


def _print(results: "Sequence[ProbeResult]") -> None:
    """Three tables, as one would be too wide for a terminal: scores of probes, summaries of layers, each layer."""
    from polyseme.analysis.probe_page import LAYER_COLUMNS, METRIC_COLUMNS, layer_rows, metric_row

    scores = [[result.task, *metric_row(result)[:5], result.metric, f"{result.num_dev:,}"] for result in results]
    print_table(scores, header=["task", *METRIC_COLUMNS[:5], "metric", "dev items"])
    several = [result for result in results if result.num_layers > 1]
    if several:
        summaries = [[result.task, result.model, *metric_row(result)[5:]] for result in several]
        print_table(summaries, header=["task", "model", *METRIC_COLUMNS[5:]])
        layers = [[result.task, *row] for result in several for row in layer_rows(result)]
        print_table(layers, header=["task", *LAYER_COLUMNS])
