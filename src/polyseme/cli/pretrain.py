"""polyseme pretrain"""

import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import TrainingLine, count, duration, reading, say, suggest, working
from polyseme.errors import ConfigError

if TYPE_CHECKING:
    from polyseme.train.finetuning import Finetuning
    from polyseme.train.pretraining import Pretraining
    from polyseme.train.recipe import Recipe

# What to try with a model, by what it was asked; with the others, neighbours.
_VERBS = {
    "masked": "fill {} 'The [MASK] is here.'",
    "translation": "translate {} 'The man is here.'",
    **dict.fromkeys(("next_token", "next_word", "regularized", "both_ways"), "generate {} 'The'"),
}


def pretrain(
    family: Annotated[
        str,
        typer.Argument(
            help="What to train: onehot, wordclass, svd, nnlm, cbow, skipgram, glove, cove, elmo, ulmfit, "
            "transformer, bert, mbert, roberta, albert, ernie, gpt or gpt2."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="Text: file, folder, pattern, or the sample docstrings or town. Repeat it for more; en=PATH "
            "names a language."
        ),
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Text to measure on, never learnt from.")] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Translations of the corpus, line by line, where it is plain text.")
    ] = None,
    dev_target: Annotated[list[str] | None, typer.Option(help="The same of the dev text.")] = None,
    size: Annotated[
        str, typer.Option(help="tiny (seconds), small (minutes), medium (hours), base, or auto: by budget and text.")
    ] = "small",
    budget: Annotated[
        str | None, typer.Option(help="90s, 10m, 2h, 500steps, 2Mtokens or 3epochs; the size has a default.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="fast: the lowest loss for the time. paper: as published.")] = "fast",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model; vectors of words on one thread.")] = 0,
    masking: Annotated[
        str | None, typer.Option(help="What masked models hide together: token, word, ngram or unit.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any setting: --set plan.rate=3e-4. May be repeated.")
    ] = None,
    column: Annotated[str, typer.Option(help="Where the text is in jsonl, csv, tsv and parquet.")] = "text",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and write nothing.")] = False,
) -> int:
    """Train a model from raw text.

    \b
    Examples:
      polyseme pretrain bert --corpus text/ --dev dev.txt --budget 10m --out runs/bert
      polyseme pretrain gpt2 --corpus 'news/*.jsonl.gz' --size auto --budget 2h --out runs/gpt2
      polyseme pretrain mbert --corpus en=en.txt --corpus zh=zh.txt --corpus de=de.txt --out runs/mbert
      polyseme pretrain transformer --corpus pairs.tsv --dev dev.tsv --out runs/en-de
      polyseme pretrain cove --corpus en.txt --target de.txt --set model.vectors=runs/skipgram --out runs/cove
      polyseme pretrain bert --out runs/bert --resume
    """
    from polyseme.making import given_vectors
    from polyseme.train.pretraining import Pretraining, sized_recipe
    from polyseme.train.recipe import RECIPE, Recipe

    if resume and dry_run:
        raise ConfigError("--dry-run and --resume do not go together; leave one away")
    if resume and (out / RECIPE).exists():
        began = Recipe.load(out).family
        if began != family:
            raise ConfigError(f"{out} holds a {began}, not a {family}; say pretrain {began} --resume")
        given = {"--corpus": corpus, "--dev": dev, "--budget": budget, "--masking": masking, "--set": settings}
        training = go_on(out, given)
    else:
        changes: dict[str, Any] = {"data": {"corpus": corpus or [], "dev": dev or [], "column": column}}
        changes["data"] |= {"target": target or [], "dev_target": dev_target or []}
        changes["plan"] = {"seed": seed} | ({"budget": budget} if budget else {})
        changes["objective"] = {"masking": masking, "stages": []} if masking else {}
        plan = sized_recipe(family, size, settings or [], recipe=recipe, **changes)
        if dry_run:
            _predict(plan)
            return 0
        watch = partial(reading, "reading the text")
        training = Pretraining.start(plan, out, vectors=given_vectors(plan), watch=watch)
        introduce(training)
    code = follow(training, f"pretrain {family}")
    if not code:
        conclude(training)
    return code


def go_on(out: Path, given: Mapping[str, Any]) -> "Pretraining":
    """Take up a run; of options that are given again, say that they do not count."""
    from polyseme.train.pretraining import Pretraining

    ignored = [name for name, value in given.items() if value]
    if ignored:
        say(f"going on with the recipe in {out}; {', '.join(ignored)} from its start still hold")
    training = Pretraining.resume(out, watch=partial(reading, "reading the text"))
    say(f"going on from step {training.resumed_at:,} of {training.total:,}")
    return training


def follow(training: "Pretraining | Finetuning", command: str) -> int:
    """Learn to the end or to an interruption, and say how to go on with it; 0 at the end."""
    from polyseme.train.signals import interruptible

    out = shlex.quote(str(training.folder))
    line = TrainingLine(training.total, done=training.resumed_at)
    with interruptible() as interruption:
        for progress in training.steps():
            line.total = training.total
            line.show(progress)
            if interruption.signal:
                line.end()
                saved = "and saved" if training.pause() else "but could not save; the checkpoint before is kept"
                say(f"stopped at step {progress.step.number:,} {saved}; go on with:")
                say(f"  polyseme {command} --out {out} --resume")
                return 128 + interruption.signal
    line.end()
    training.finish(shlex.join(["polyseme", *sys.argv[1:]]))
    return 0


def conclude(training: "Pretraining") -> None:
    """Say what has become of a run, and what to try with it."""
    out, family = shlex.quote(str(training.folder)), training.recipe.family
    say(f"{training.folder} is a {family} now{'; transformers opens it too' if training.encoder.foreign else ''}")
    verb = _VERBS.get(training.recipe.objective.kind, "neighbours {} the")
    suggest("polyseme " + ("score {} 'The end.'" if training.encoder.context == "right" else verb).format(out))


def introduce(training: "Pretraining") -> None:
    """Say what is learnt from, what learns, and for how long."""
    store, recipe = training.source.store, training.recipe
    parameters = sum(weight.numel() for weight in training.encoder.parameters())
    say(
        f"{store.num_words:,} words in {store.num_documents:,} documents, {store.num_tokens:,} tokens; "
        f"{recipe.family} with {count(parameters)} parameters, {training.total:,} steps of "
        f"{training.source.num_rows * training.source.length:,} tokens"
    )
    if store.unknown > 0.01 * store.num_tokens:
        wanted = "lower tokenizer.min_count" if recipe.tokenizer.kind == "word" else "larger model.vocab_size"
        advice = "the model has no letters for them" if recipe.plan.base else f"a {wanted} would help"
        say(f"{store.unknown / store.num_tokens:.1%} of the tokens are unknown; {advice}")


def _predict(recipe: "Recipe") -> None:
    from polyseme.files import size
    from polyseme.train.estimate import measure_size
    from polyseme.train.pretraining import Pretraining

    with working("measuring"):
        training, pace = Pretraining.dry(recipe)
    needed = measure_size(training.recipe)
    tokens = training.total * training.source.num_rows * training.source.length
    print(f"parameters  {needed.parameters:,}")
    print(f"memory      about {size(needed.memory)}")
    print(f"steps       {training.total:,}, reading {count(tokens)} tokens")
    seconds = pace.seconds_for(training.total, training.recipe.plan.evaluate_batches)
    print(f"time        about {duration(seconds)} after the text is prepared")
    say("nothing was written")
