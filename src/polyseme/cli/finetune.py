"""polyseme finetune"""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.check import columns_of
from polyseme.cli.console import count, figures, say, suggest, table
from polyseme.cli.pretrain import follow
from polyseme.errors import ConfigError

if TYPE_CHECKING:
    from polyseme.train.finetuning import Finetuning


def finetune(
    model: Annotated[str, typer.Argument(help="Directory of a model, ours or of transformers; a file of vectors.")],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    train: Annotated[
        list[str] | None, typer.Option(help="Labelled file to learn from; NAME=FILE for each of several tasks.")
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Labelled file to measure on, never learnt from.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="classify, pair, similarity, choice, tag or span; else the file tells. NAME=KIND of several."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Which weights move: full, frozen, mix (of layers), gradual (ULMFiT) or cvt.")
    ] = "full",
    unlabelled: Annotated[Path | None, typer.Option(help="More sentences, for cvt; else those without labels.")] = None,
    budget: Annotated[str | None, typer.Option(help="3epochs, 90s, 10m, 500steps; the fewer labels, the more.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Learn from so many examples; several, as in 100,1000,all, give a curve.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Train so many times, and say mean and deviation.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=review; of tags by number: tag=4.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any setting: --set plan.rate=3e-4. May be repeated.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")] = False,
) -> int:
    """Fine-tune a model for a task, or for several at once.

    \b
    Examples:
      polyseme finetune runs/bert --train train.tsv --dev dev.tsv --out runs/bert-reviews
      polyseme finetune runs/elmo --task tag --train ner.conll --dev dev.conll --method mix --out runs/elmo-ner
      polyseme finetune runs/ulmfit --train train.tsv --dev dev.tsv --method gradual --seeds 3 --out runs/reviews
      polyseme finetune runs/bert --train train.tsv --dev dev.tsv --labels 100,300,1000,all --out runs/curve
      polyseme finetune runs/bert --train names=names.conll --train topics=topics.tsv --out runs/both
    """
    from polyseme.making import name_tasks, open_base
    from polyseme.train.finetuning import Finetuning
    from polyseme.train.recipe import RECIPE
    from polyseme.train.trials import plan_trials, read_labels, summarize
    from polyseme.train.tuning_recipe import plan_tuning

    trials = plan_trials(out, read_labels(labels or "all"), range(seed, seed + seeds))
    base = None
    for trial in trials:
        if resume and trial.done:
            continue
        if resume and (trial.folder / RECIPE).exists():
            training = Finetuning.resume(trial.folder)
            say(f"{trial.folder}: going on from step {training.resumed_at:,} of {training.total:,}")
        else:
            if not train:
                raise ConfigError("there is nothing to learn from; give --train a labelled file")
            base = base or open_base(model)
            columns = columns_of(column or [])
            data: dict[str, Any] = {"unlabelled": str(unlabelled or ""), "columns": columns}
            data["num_labels"] = trial.num_labels
            kinds, data["train"], data["dev"] = name_tasks(by_name(task), by_name(train), by_name(dev), columns)
            plan = {"seed": trial.seed} | ({"budget": budget} if budget else {})
            values = plan_tuning(base, kinds, settings or [], data=data, tuning={"method": method}, plan=plan)
            training = Finetuning.start(values, trial.folder, base)
            introduce(training)
        code = follow(training, f"finetune {shlex.quote(model)}")
        if code:
            if len(trials) > 1:
                say("or, with this and all that are not done yet, by the whole command with --resume")
            return code
        conclude(training)
    if len(trials) > 1:
        rows = [
            [
                str(found.num_labels or "all"),
                found.name.replace("_", " "),
                f"{found.mean:.4f}",
                f"{found.deviation:.4f}",
            ]
            for found in summarize(out, trials)
        ]
        table(rows, header=["labels", "figure", "mean", "deviation"])
    suggest(f"polyseme predict {shlex.quote(str(trials[-1].folder))} FILE")
    return 0


def introduce(training: "Finetuning") -> None:
    """Say what is learnt from, what learns, and for how long."""
    recipe = training.recipe
    parameters = sum(weight.numel() for part in (training.encoder, training.tuning) for weight in part.parameters())
    sets = ", ".join(f"{len(examples):,} examples of {name}" for name, examples in training.sets.train.items())
    say(
        f"{training.folder}: {sets}; {recipe.family} with {count(parameters)} parameters, {training.total:,} steps of "
        f"{recipe.data.num_rows} examples ({recipe.plan.budget})"
    )


def conclude(training: "Finetuning") -> None:
    """Say how good a run has become."""
    from polyseme.models.directory import read_json
    from polyseme.train.finetuning import SCORES

    found = read_json(training.folder / SCORES)
    if found["dev"]:
        say(f"{training.folder} keeps the weights of step {found['step']:,}: dev {figures(found['dev'])}")
    for name, shares in found["layers"].items():
        say(f"what each layer is worth to {name}, from layer 0 upwards: {', '.join(map(str, shares))}")


def by_name(given: list[str] | None) -> Any:
    """Options that may be NAME=VALUE: the only one as it is, or all by name."""
    if not given:
        return None
    if len(given) == 1 and not re.match(r"[\w-]+=", given[0]):
        return given[0]
    named = dict(text.partition("=")[::2] for text in given)
    for text in given:
        if not re.match(r"[\w-]+=.", text):
            raise ConfigError(f"{text:.60}: with several, say NAME={text:.30}")
    if len(named) < len(given):
        raise ConfigError(f"{given[-1]:.60}: the same name is given twice; choose another")
    return named
