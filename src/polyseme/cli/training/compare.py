"""polyseme compare"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import print_json, report, suggest
from polyseme.cli.options import CORPUS_HELP, Json, RecipeKind, TextColumn
from polyseme.cli.progress import ComparisonBar


def compare(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; new, or started by the same command.")],
    corpus: Annotated[list[str], typer.Option("--corpus", "--data", help=CORPUS_HELP)],
    models: Annotated[
        list[str] | None, typer.Argument(help="Model directories to compare as they are, without training.")
    ] = None,
    families: Annotated[
        str,
        typer.Option(
            help="Families to train, such as skipgram,elmo,bert,gpt2; by default six of different kinds. An n-gram "
            "model is added."
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(help="Budget per family: 5m (on two cores, ten minutes of processor time), 500steps or 3epochs."),
    ] = "5m",
    finetune_budget: Annotated[
        str, typer.Option(help="Budget per family for fine-tuning on all tasks, such as 5m; by default to convergence.")
    ] = "",
    size: Annotated[str, typer.Option(help="tiny, small, medium or base; auto: by budget and corpus.")] = "auto",
    params: Annotated[
        str, typer.Option(help="Number of parameters, such as 2M; the closest size is used instead of --size.")
    ] = "",
    tasks: Annotated[
        str,
        typer.Option(
            help="Labelled datasets: a folder, or a TOML file that lists them; the built-in samples have their own."
        ),
    ] = "",
    labels: Annotated[str, typer.Option(help="Numbers of training examples for the tasks.")] = "100,300,1000,all",
    trainings: Annotated[
        int, typer.Option(min=1, help="Trainings of each family with different seeds, whose variance is then tested.")
    ] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Samples of labels for each task.")] = 1,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed and budget give the same metrics on a machine.")
    ] = 0,
    recipe: RecipeKind = "fast",
    column: TextColumn = "text",
    parallel: Annotated[
        int, typer.Option(min=1, help="Number of families to train at the same time; they share the cores.")
    ] = 1,
    json: Json = False,
) -> int:
    """Train families on equal budgets and recommend one per use.

    Baselines always take part: an n-gram model, TF-IDF with a linear model, and BM25. A family is recommended over them
    only if it is significantly better.

    The corpus is split by document into train, dev and test; every metric is measured on text that no family was
    trained on. Repeating the command resumes an interrupted comparison. A TOML file of tasks lists datasets as [name]
    with task, train, dev, test and columns; a folder has a folder per dataset with train, dev and test files, and
    folders called words, minimal_pairs and senses. docs/comparing.md documents what is measured, and how.

    \b
    Examples:
      polyseme compare --corpus docstrings --families onehot,svd,skipgram,elmo,bert,gpt2 --budget 20s --out runs/demo
      polyseme compare --corpus text/ --families skipgram,bert,gpt2 --budget 5m --tasks tasks.toml --out report
      polyseme compare --corpus en=en.txt --corpus zh=zh.txt --families mbert,ulmfit --budget 10m --out report
      polyseme compare runs/bert runs/gpt2 --data test.txt --out report
    """
    from polyseme.comparison.compare import open_comparison
    from polyseme.comparison.report.results_view import load_results

    options = {name: value for name, value in context.params.items() if name not in ("models", "json")}
    comparison = open_comparison(*(models or ()), **options)
    try:
        with ComparisonBar() as bar:
            for progress in comparison.run():
                bar.update(progress)
    except KeyboardInterrupt:
        report(f"stopped; run the same command to resume {out}")
        raise
    if json:
        from polyseme.comparison.results import read_rows

        for row in read_rows(out):
            if row["row"] != "done":
                print_json(row)
    else:
        print(comparison.report)
    report(f"the report is {comparison.report}")
    folders = models or [str(out)]
    suggest("serve" + " {}" * len(folders), *folders)
    failures = load_results(out).of["failure"]
    for row in failures:
        report(f"{row['family']}, {row['stage']}, failed: {row['message']}")
    if failures:
        report("run the same command again to repeat what failed")
    return 1 if failures else 0
