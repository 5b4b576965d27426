"""Pretrain, adapt and fine-tune models; the command line runs the same functions with a progress bar.

`open_pretraining`, `open_adaptation` and `open_finetuning` check the options and open a training session; `pretrain`,
`adapt` and `finetune` iterate over its steps and load the model that it writes.
"""

from __future__ import annotations

import inspect
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.errors import CheckpointError, ConfigError
from polyseme.loading import load
from polyseme.pretrained import Pretrained
from polyseme.system.hardware import keep_freed_memory
from polyseme.system.signals import graceful_shutdown
from polyseme.tasks.tfidf import FAMILY as TFIDF
from polyseme.training.base_model import BaseModel
from polyseme.training.data_pipeline import Paths, Texts, list_paths, sized_recipe
from polyseme.training.finetuning import FineTuningScores, FineTuningSession
from polyseme.training.labelled_data import Files, name_tasks
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe, plan_finetuning
from polyseme.training.recipes.recipe import RECIPE, TEXTS, Recipe
from polyseme.training.resources import measure_size
from polyseme.training.resuming import changed_budget
from polyseme.training.session import TrainingSession, Watch
from polyseme.training.sweep import SweepRun, parse_label_counts, plan_sweep, summarize
from polyseme.training.tfidf import TfidfSession

logger = logging.getLogger(__name__)

Labels = int | str | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class TrainingEstimate:
    """What a pretraining run would take."""

    parameters: int
    memory: int  # bytes
    steps: int
    tokens: int
    seconds: float  # after the text is prepared


def pretrain(
    family: str,
    *,
    out: str | Path,
    corpus: Texts = (),
    dev: Texts = (),
    target: Paths = (),
    dev_target: Paths = (),
    size: str = "small",
    budget: str | None = None,
    recipe: str = "fast",
    seed: int = 0,
    masking: str | None = None,
    settings: Sequence[str] = (),
    column: str = "text",
    resume: bool = False,
) -> Pretrained:
    """Pretrain a model on raw text.

    Args:
        family: ngram, onehot, wordclass, svd, nnlm, cbow, skipgram, fasttext, glove, cove, elmo, ulmfit, transformer,
            bert, mbert, roberta, albert, ernie, gpt or gpt2.
        out: Directory of the run, new or empty. It becomes a model directory.
        corpus: Files, folders, patterns or a built-in sample (docstrings, town); plain text, jsonl, csv, tsv or
            parquet, also compressed. A mapping gives the text of each language. A translation model reads tables with
            the columns source and target, or lines of text with `target`.
        dev: Validation corpus, in the same forms; it selects the best checkpoint and is reported in the model card.
        target: Translations of the corpus, line by line.
        dev_target: Translations of the validation corpus.
        size: tiny, small, medium or base; auto chooses by budget and corpus.
        budget: Training budget, such as 90s, 10m, 2h, 500steps, 2Mtokens or 3epochs; the size has a default.
        recipe: "fast" reaches the lowest loss in the time; "paper" trains as published.
        seed: Seed of initialisation, batches and dropout. The same seed gives the same model; word vectors need
            `settings=["training.threads=1"]` for that.
        masking: What a masked language model masks as a whole: token, word, ngram or unit.
        settings: Any setting of the recipe, such as "training.learning_rate=3e-4".
        column: Column of the text in jsonl, csv, tsv and parquet.
        resume: Resume the run in `out` if there is one, with its options. An option that differs from them is an error,
            except a `budget` that is longer than what has been trained: all schedules, such as the learning rate, are
            then those of a run with this budget from the last step on. A time replaces a time only.

    Returns:
        The trained model.

    Example:
        >>> import polyseme as ps
        >>> model = ps.pretrain("bert", corpus="docstrings", size="tiny", budget="30s", out="runs/bert")
        >>> predictions = model.fill("The [MASK] is here.")
    """
    return load(_run(open_pretraining(**_given(pretrain, locals()))))


def open_pretraining(
    family: str, *, out: str | Path, resume: bool = False, watch: Watch = nullcontext, **given: Any
) -> PretrainingSession:
    """Start or resume the run of `pretrain`.

    Args:
        family: The family.
        out: Directory of the run.
        resume: Resume the run in `out` if there is one.
        watch: Context manager around reading the corpus.
        given: Those other options of `pretrain` that were given; a resumed run must have the same.
    """
    keep_freed_memory()
    out, options = Path(out), _with_defaults(pretrain, given)
    if resume and (out / RECIPE).exists():
        budget = changed_budget(Recipe, out, given, family=family)
        session = PretrainingSession.resume(out, budget=budget, watch=watch)
    else:
        recipe = _pretraining_recipe(family, options)
        session = PretrainingSession.start(recipe, out, vectors=open_recipe_embeddings(recipe), watch=watch)
    session.command = _command_line(pretrain, family, options | {"out": out, "resume": resume})
    return session


def estimate_pretraining(family: str, **options: Any) -> TrainingEstimate:
    """Estimate the parameters, memory, steps and time of `pretrain`, by measuring a few steps; nothing is written.

    Args:
        family: The family, as in `pretrain`.
        **options: Any option of `pretrain` except `out` and `resume`.

    Returns:
        The numbers of parameters, steps and tokens, the memory in bytes, and the time in seconds after the corpus is
        tokenized.

    Example:
        >>> import polyseme as ps
        >>> estimate = ps.estimate_pretraining("bert", corpus="docstrings", size="tiny", budget="30s")
        >>> estimate.parameters
        239552
    """
    session, step_time = PretrainingSession.dry_run(_pretraining_recipe(family, _with_defaults(pretrain, options)))
    size = measure_size(session.recipe)
    return TrainingEstimate(
        parameters=size.parameters,
        memory=size.memory,
        steps=session.total_steps,
        tokens=session.total_steps * session.source.num_rows * session.source.length,
        seconds=step_time.seconds_for(session.total_steps, session.recipe.training.evaluate_batches),
    )


def _pretraining_recipe(family: str, options: Mapping[str, Any]) -> Recipe:
    masking = options["masking"]
    return sized_recipe(
        family,
        options["size"],
        options["settings"],
        recipe=options["recipe"],
        data={name: list_paths(options[name]) for name in TEXTS} | {"column": options["column"]},
        training=_budget_and_seed(options),
        objective={"masking": masking, "stages": []} if masking else {},
    )


def adapt(
    model: str | Path,
    *,
    out: str | Path,
    corpus: Texts = (),
    dev: Texts = (),
    budget: str | None = None,
    new_words: int = 0,
    seed: int = 0,
    settings: Sequence[str] = (),
    column: str = "text",
    resume: bool = False,
) -> Pretrained:
    """Continue pretraining a model on other text (domain adaptation; Gururangan et al., 2020).

    Args:
        model: Directory of a model, Polyseme's or transformers', or "hf:NAME".
        out: Directory of the run, new or empty.
        corpus: Text of the new domain, in the forms that `pretrain` takes.
        dev: Validation corpus.
        budget: Training budget, such as 90s, 10m, 500steps, 2Mtokens or 3epochs; 10m by default.
        new_words: Maximum number of words to add to the vocabulary, the most frequent of those that the tokenizer
            splits; their vectors start as the mean of their pieces.
        seed: Seed of batches and dropout.
        settings: Any setting of the recipe, such as "training.learning_rate=3e-5".
        column: Column of the text in jsonl, csv, tsv and parquet.
        resume: Resume the run in `out` if there is one, with its options; another `budget` extends it, as in
            `pretrain`.

    Returns:
        The adapted model.

    Example:
        >>> import polyseme as ps
        >>> model = ps.adapt("runs/bert", corpus="clinic.txt", new_words=100, budget="60s", out="runs/clinic")
    """
    return load(_run(open_adaptation(**_given(adapt, locals()))))


def open_adaptation(
    model: str | Path, *, out: str | Path, resume: bool = False, watch: Watch = nullcontext, **given: Any
) -> PretrainingSession:
    """Start or resume the run of `adapt`, with the arguments of `open_pretraining`."""
    keep_freed_memory()
    out, options = Path(out), _with_defaults(adapt, given)
    if resume and (out / RECIPE).exists():
        budget = changed_budget(Recipe, out, given, base_model=_base_name(model))
        session = PretrainingSession.resume(out, budget=budget, watch=watch)
    else:
        base = open_base_model(model)
        data = {"corpus": list_paths(options["corpus"]), "dev": list_paths(options["dev"]), "column": options["column"]}
        recipe = base.adaptation_recipe(
            options["settings"], data=data, training=_budget_and_seed(options), new_words=options["new_words"]
        )
        session = PretrainingSession.start(recipe, out, base=base, num_words=options["new_words"], watch=watch)
    session.command = _command_line(adapt, model, options | {"out": out, "resume": resume})
    return session


def finetune(
    model: str | Path,
    *,
    out: str | Path,
    train: Files | None = None,
    dev: Files | None = None,
    task: str | Mapping[str, str] | None = None,
    method: str = "full",
    unlabelled: str | Path = "",
    budget: str | None = None,
    labels: Labels = "all",
    seeds: int = 1,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
) -> Pretrained:
    """Fine-tune a model on labelled data, for one task or for several at once.

    Args:
        model: Directory of a model, Polyseme's or transformers', "hf:NAME", or a file of word vectors; or "tfidf", the
            baseline: a linear model on TF-IDF features, without pretraining.
        out: Directory of the run, new or empty.
        train: Labelled file (tsv, csv, jsonl, parquet, CoNLL or SQuAD); a mapping by task name for multi-task training.
        dev: Validation file, or files by task name; they select the best checkpoint and stop training early.
        task: Kind of task, such as classify, pair or tag, or a mapping by task name; inferred from the file by default.
        method: Which weights are trained: full; frozen (the head only); mix (a scalar mix of frozen layers with a
            BiLSTM; Peters et al., 2018); gradual (gradual unfreezing; Howard and Ruder, 2018); cvt (cross-view
            training; Clark et al., 2018).
        unlabelled: Sentences without labels, for cvt; by default the examples that `labels` leaves over.
        budget: Training budget, such as 3epochs, 90s, 10m or 500steps; by default until the dev score converges, within
            a bound of 30 epochs of up to 800 examples, and fewer epochs of more examples.
        labels: Number of training examples; several, as in "100,300,1000,all", train a learning curve.
        seeds: Number of runs with different seeds, whose mean and standard deviation are written to summary.json.
        seed: The first seed.
        columns: Columns under other names, such as {"text": "review"}; for tags by position, {"tag": "4"}.
        settings: Any setting of the recipe, such as "training.learning_rate=3e-5".
        resume: Skip runs that are finished, and resume the one that is not, with its options; another `budget` extends
            all of them, as in `pretrain`.

    Returns:
        The fine-tuned model; of several runs, the last one.

    Example:
        >>> import polyseme as ps
        >>> model = ps.finetune("runs/bert", train="train.tsv", dev="dev.tsv", out="runs/bert-reviews")
        >>> model.predict(["A wonderful film."])[0].label
        'positive'
    """
    given = _given(finetune, locals())
    runs = plan_finetuning_runs(out, labels=labels, seeds=seeds, seed=seed)
    for session in open_finetuning(runs=runs, **given):
        _run(session)
        if FineTuningScores.read(session.folder).converged is False:
            logger.warning("%s has not converged: the dev score still improved; give a longer budget", session.folder)
    if len(runs) > 1:
        summarize(Path(out), runs)
    return load(runs[-1].folder)


def plan_finetuning_runs(out: str | Path, *, labels: Labels = "all", seeds: int = 1, seed: int = 0) -> list[SweepRun]:
    """The runs of `finetune`, one per number of labels and seed."""
    counts = parse_label_counts(labels) if isinstance(labels, str) else [labels] if isinstance(labels, int) else labels
    runs = plan_sweep(Path(out), counts, range(seed, seed + seeds))
    if len(runs) > 1 and (Path(out) / RECIPE).exists():
        raise CheckpointError(f"{out} is a single run; omit --seeds and several --labels, or choose another --out")
    return runs


def open_finetuning(
    model: str | Path, runs: Sequence[SweepRun], *, resume: bool = False, **given: Any
) -> Iterator[FineTuningSession | TfidfSession]:
    """Start or resume the runs of `finetune` that are not finished, one after another.

    Args:
        model: The model to fine-tune.
        runs: The runs, with their labels and seeds.
        resume: Resume runs that were started, and skip those that are finished.
        given: Those other options of `finetune` that were given; a resumed run must have the same.
    """
    keep_freed_memory()
    base: BaseModel | None = None
    for run in runs:
        of_run = {"out": run.folder, "labels": run.num_labels or "all", "seeds": 1, "seed": run.seed, "resume": resume}
        options = _with_defaults(finetune, given | of_run)
        if resume and (run.folder / RECIPE).exists():
            of_this_run = {name: of_run.get(name, value) for name, value in given.items()}
            budget = changed_budget(FineTuningRecipe, run.folder, of_this_run, base_model=_base_name(model))
            if run.done and not budget:
                continue
            session = FineTuningSession.resume(run.folder, budget=budget)
        else:
            if not options["train"]:
                raise ConfigError("finetune needs training data; name a labelled file with --train")
            columns = dict(options["columns"] or {})
            kinds, train, dev = name_tasks(options["task"], options["train"], options["dev"], columns)
            data = {"train": train, "dev": dev, "columns": columns, "num_labels": run.num_labels}
            if model == TFIDF:
                fitting = TfidfSession.open(options, kinds, data, run.folder)
                fitting.command = _command_line(finetune, model, options)
                if not fitting.is_done:
                    yield fitting
                continue
            base = base or open_base_model(model)
            values = plan_finetuning(
                base,
                kinds,
                options["settings"],
                data={**data, "unlabelled": str(options["unlabelled"] or "")},
                finetuning={"method": options["method"]},
                training=_budget_and_seed(options),
            )
            session = FineTuningSession.start(values, run.folder, base)
        session.command = _command_line(finetune, model, options)
        yield session


def open_base_model(path: str | Path) -> BaseModel:
    """Load the model that a training starts from."""
    model = load(path)
    return BaseModel(
        name=_base_name(path),
        family=model.family,
        encoder=model.encoder,
        heads=model.objective,
        tokenizer=model.require_tokenizer(),
        recipe=model.recipe,
    )


def open_embeddings(path: str | Path) -> PretrainedEmbeddings:
    """Load the word vectors of a run or a file as fixed input embeddings."""
    model = load(path)
    if not model.encoder.tokens.weight.shape[1]:
        raise ConfigError(f"model.vectors: a {model.family} has no dense vectors; choose another model")
    name = str(model.folder.absolute())
    return PretrainedEmbeddings.of(name, model.require_tokenizer(), model.encoder.tokens.weight.detach())


def open_recipe_embeddings(recipe: Recipe) -> PretrainedEmbeddings | None:
    """Load the pretrained input embeddings that a recipe names, if it does (CoVe)."""
    path = getattr(recipe.model, "vectors", "")
    return open_embeddings(path) if path else None


def _base_name(path: str | Path) -> str:
    return str(path) if str(path).startswith("hf:") else str(Path(path).absolute())


def _budget_and_seed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"seed": options["seed"]} | ({"budget": options["budget"]} if options["budget"] else {})


def _given(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call that are not at their default, in the order of the signature."""
    parameters = inspect.signature(function).parameters
    return {
        name: arguments[name]
        for name, parameter in parameters.items()
        if name in arguments and arguments[name] not in (parameter.default, None, "", (), [], {})
    }


def _with_defaults(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with the defaults of the function for those that are not given."""
    bound = inspect.signature(function).bind_partial(**options)
    bound.apply_defaults()
    return bound.arguments


def _run(session: TrainingSession | TfidfSession) -> Path:
    with graceful_shutdown() as shutdown:
        for _ in session.steps():
            if shutdown.signal:
                session.pause()
                raise KeyboardInterrupt(f"saved; resume with resume=True from {session.folder}")
    return session.finish()


def _command_line(function: Callable[..., Any], model: str | Path, options: Mapping[str, Any]) -> str:
    """The command line that is equivalent to a call: options in the order of the signature, without defaults."""
    words = ["polyseme", function.__name__, str(model)]
    for name, value in _given(function, options).items():
        flag = "--" + {"settings": "set", "columns": "column"}.get(name, name).replace("_", "-")
        texts = [""] if value is True else [str(value)] if isinstance(value, int) else list_paths(value)
        words += [word for text in texts for word in (flag, text) if word]
    return shlex.join(words)
