"""polyseme finetune"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import format_metrics, print_table, report, suggest
from polyseme.cli.options import Columns, Model, Resume, RunFolder, Settings, given, parse_columns, parse_named
from polyseme.cli.training.session import describe_resumption, run_session
from polyseme.system.formatting import format_count, format_number_of

if TYPE_CHECKING:
    from polyseme.training.finetuning import FineTuningScores, FineTuningSession
    from polyseme.training.tfidf import TfidfSession


def finetune(
    context: typer.Context,
    model: Model,
    out: RunFolder,
    train: Annotated[
        list[str] | None, typer.Option(help="Labelled training file; NAME=FILE, repeated, for several tasks.")
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Validation file; NAME=FILE for several tasks.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Kind of task, such as classify, pair or tag; by default inferred from the file. NAME=TASK if several."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="What is trained: full; frozen (head only); mix (scalar mix of frozen layers); gradual (unfreezing); "
            "cvt (cross-view training)."
        ),
    ] = "full",
    unlabelled: Annotated[
        Path | None, typer.Option(help="Unlabelled sentences for cvt; by default what --labels leaves over.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="3epochs, 90s, 10m or 500steps; by default until the dev score converges, within 3 to 30 epochs."
        ),
    ] = None,
    labels: Annotated[
        str, typer.Option(help="Number of training examples; several, as in 100,1000,all, train a learning curve.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs with different seeds, for mean and deviation.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed; the first of --seeds.")] = 0,
    columns: Columns = None,
    settings: Settings = None,
    resume: Resume = False,
) -> int:
    """Fine-tune a model for a task, or for several at once.

    \b
    Examples:
      polyseme finetune runs/bert --train train.tsv --dev dev.tsv --out runs/bert-reviews
      polyseme finetune tfidf --train train.tsv --dev dev.tsv --out runs/tfidf-reviews
      polyseme finetune runs/elmo --task tag --train ner.conll --dev dev.conll --method mix --out runs/elmo-ner
      polyseme finetune runs/ulmfit --train train.tsv --dev dev.tsv --method gradual --seeds 3 --out runs/reviews
      polyseme finetune runs/bert --train train.tsv --dev dev.tsv --labels 100,300,1000,all --out runs/curve
      polyseme finetune runs/bert --train names=names.conll --train topics=topics.tsv --out runs/both
    """
    from polyseme.api import open_finetuning, plan_finetuning_runs
    from polyseme.training.sweep import summarize

    runs = plan_finetuning_runs(out, labels=labels, seeds=seeds, seed=seed)
    named = {"train": parse_named(train), "dev": parse_named(dev), "task": parse_named(task)}
    parsed: dict[str, Any] = {name: values.get("", values) for name, values in named.items()}
    parsed["columns"] = parse_columns(columns)
    for session in open_finetuning(runs=runs, **given(context, **parsed)):
        _describe(session)
        code = run_session(session, "finetune", model)
        if code:
            if len(runs) > 1:
                report("or resume it and the runs that remain: the whole command with --resume")
            return code
        _conclude(session)
    if len(runs) > 1:
        rows = [
            [str(one.num_labels or "all"), one.name.replace("_", " "), f"{one.mean:.4f}", f"{one.deviation:.4f}"]
            for one in summarize(out, runs)
        ]
        print_table(rows, header=["labels", "metric", "mean", "deviation"])
    suggest("predict {} FILE", runs[-1].folder)
    return 0


def _describe(session: "FineTuningSession | TfidfSession") -> None:
    """Print the number of examples, and the size of the model and of the training."""
    from polyseme.training.tfidf import TfidfSession

    if isinstance(session, TfidfSession):
        number = format_number_of(len(session.labelled.train[session.name]), "example")
        report(f"{session.folder}: {number} of {session.name}; a linear model on TF-IDF features")
        return
    recipe = session.recipe
    if session.resumed_at:
        report(f"{session.folder}: {describe_resumption(session)}")
        return
    parameters = sum(weight.numel() for part in (session.encoder, session.objective) for weight in part.parameters())
    sets = ", ".join(
        f"{format_number_of(len(examples), 'example')} of {name}" for name, examples in session.labelled.train.items()
    )
    report(
        f"{session.folder}: {sets}; {recipe.family} with {format_count(parameters)} parameters, "
        f"{'at most ' if session.labelled.dev and recipe.finetuning.patience else ''}"
        f"{format_number_of(session.total_steps, 'step')} of {format_number_of(recipe.data.batch_size, 'example')} "
        f"({recipe.training.budget})"
    )


def _conclude(session: "FineTuningSession | TfidfSession") -> None:
    """Print the scores of the best checkpoint, and the weights of a scalar mix."""
    from polyseme.training.finetuning import FineTuningScores

    scores = FineTuningScores.read(session.folder)
    report(f"Saved {session.folder}.")
    if scores.dev:
        report(f"best checkpoint: step {scores.step:,}, dev {format_metrics(scores.dev)}{_convergence(scores)}")
    for name, weights in scores.layers.items():
        report(f"scalar mix of {name}, from layer 0 upwards: {', '.join(map(str, weights))}")


def _convergence(scores: "FineTuningScores") -> str:
    if scores.converged is None:
        return ""
    if scores.converged:
        return "; converged"
    return "; not converged: the dev score still improved; train longer with a longer --budget and --resume"
