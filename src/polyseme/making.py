"""Models are made: pretrained on text, adapted to other text, fine-tuned on labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polyseme.errors import ConfigError
from polyseme.models.cove import CoveConfig
from polyseme.opening import load
from polyseme.pretrained import Pretrained
from polyseme.text.labelled import guess_task
from polyseme.train.adapting import Base
from polyseme.train.finetuning import Finetuning
from polyseme.train.given import GivenVectors
from polyseme.train.pretraining import Pretraining, sized_recipe
from polyseme.train.recipe import RECIPE, Recipe
from polyseme.train.signals import interruptible
from polyseme.train.tuning_recipe import plan_tuning

Paths = str | Path | Sequence[str | Path]
Texts = Paths | Mapping[str, Paths]  # by language
Files = str | Path | Mapping[str, str | Path]  # by task


def pretrain(
    family: str,
    *,
    corpus: Texts,
    out: str | Path,
    dev: Texts = (),
    target: Paths = (),
    dev_target: Paths = (),
    size: str = "small",
    budget: str | None = None,
    recipe: str = "fast",
    seed: int = 0,
    settings: Sequence[str] = (),
    resume: bool = False,
) -> Pretrained:
    """Train a model from raw text, by language where it has several; `settings` are such as "plan.rate=3e-4".

    A model that translates learns from tables with the columns source and target, or from lines of text and `target`.
    With `resume`, a run that was broken off in `out` goes on from where it was saved last.
    """
    out = Path(out)
    if resume and (out / RECIPE).exists():
        return _learn(Pretraining.resume(out))
    plan = sized_recipe(
        family,
        size,
        settings,
        recipe=recipe,
        data={
            "corpus": _paths(corpus),
            "dev": _paths(dev),
            "target": _paths(target),
            "dev_target": _paths(dev_target),
        },
        plan={"seed": seed} | ({"budget": budget} if budget else {}),
    )
    return _learn(Pretraining.start(plan, out, vectors=given_vectors(plan)))


def adapt(
    model: str | Path,
    *,
    corpus: Texts,
    out: str | Path,
    dev: Texts = (),
    budget: str | None = None,
    vocabulary: int = 0,
    seed: int = 0,
    settings: Sequence[str] = (),
    resume: bool = False,
) -> Pretrained:
    """Go on training a model, ours or one of the transformers library, on other text.

    With `vocabulary`, so many words of the text that were cut in pieces become tokens; the other ids stay as they were.
    """
    out = Path(out)
    if resume and (out / RECIPE).exists():
        return _learn(Pretraining.resume(out))
    base = open_base(model)
    data = {"corpus": _paths(corpus), "dev": _paths(dev)}
    plan = base.plan(settings, data=data, plan={"seed": seed} | ({"budget": budget} if budget else {}))
    return _learn(Pretraining.start(plan, out, base=base, num_words=vocabulary))


def finetune(
    model: str | Path,
    *,
    train: Files,
    out: str | Path,
    task: str | Mapping[str, str] | None = None,
    dev: Files | None = None,
    method: str = "full",
    unlabelled: str | Path = "",
    columns: Mapping[str, str] | None = None,
    budget: str | None = None,
    labels: int = 0,
    seed: int = 0,
    settings: Sequence[str] = (),
    resume: bool = False,
) -> Pretrained:
    """Fine-tune a model for a task, or for several by name, on labelled files; on so many `labels`, if not on all.

    A task is classify, pair, similarity, choice, tag or span; where none is said, the file tells. `method` says which
    weights move: full, frozen, mix, gradual or cvt.
    """
    out = Path(out)
    if resume and (out / RECIPE).exists():
        return _learn(Finetuning.resume(out))
    base = open_base(model)
    data = {"unlabelled": str(unlabelled), "columns": dict(columns or {}), "num_labels": labels}
    kinds, data["train"], data["dev"] = name_tasks(task, train, dev, columns or {})
    plan = {"seed": seed} | ({"budget": budget} if budget else {})
    values = plan_tuning(base, kinds, settings, data=data, tuning={"method": method}, plan=plan)
    return _learn(Finetuning.start(values, out, base))


def name_tasks(
    task: str | Mapping[str, str] | None, train: Files, dev: Files | None, columns: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The kinds of tasks and their files by name; what is not named is called by its kind, which its file may tell."""
    if not isinstance(train, Mapping):
        kind = task if isinstance(task, str) else guess_task(train, columns=columns)
        task, train, dev = {kind: kind}, {kind: train}, {kind: dev} if isinstance(dev, str | Path) else dev
    elif not isinstance(task, Mapping):
        task = {name: task or guess_task(path, columns=columns) for name, path in train.items()}
    if isinstance(dev, str | Path):
        raise ConfigError(f"{dev}: for which of the tasks? Give dev files by name, as those to learn from")
    files = [{name: str(path) for name, path in (given or {}).items()} for given in (train, dev)]
    return dict(task), files[0], files[1]


def base_name(path: str | Path) -> str:
    """What a run calls the model that it goes on from."""
    return str(path) if str(path).startswith("hf:") else str(Path(path).absolute())


def open_base(path: str | Path) -> Base:
    """A model to go on from."""
    model = load(path)
    return Base(
        name=base_name(path),
        family=model.family,
        encoder=model.encoder,
        heads=model.objective,
        tokenizer=model._tokenizer,
        recipe=model.recipe,
    )


def given_vectors(recipe: Recipe) -> GivenVectors | None:
    """The vectors of words that a model is given, if its recipe names some."""
    path = recipe.model.vectors if isinstance(recipe.model, CoveConfig) else ""
    return open_vectors(path) if path else None


def open_vectors(path: str | Path) -> GivenVectors:
    """The words and vectors of a run or a file, for a model that keeps them as they are."""
    model = load(path)
    tokenizer, weight = model._tokenizer, model.encoder.tokens.weight
    if not weight.shape[1]:
        raise ConfigError(f"model.vectors: a {model.family} has no numbers to give; choose another model")
    words = {word: id for word, id in tokenizer.backend.get_vocab().items() if id not in tokenizer.special_ids}
    ids = sorted(words.values())
    return GivenVectors(
        name=str(model.folder.absolute()),
        words=sorted(words, key=words.__getitem__),
        vectors=weight.detach()[ids].numpy(),
    )


def _learn(training: Pretraining | Finetuning) -> Pretrained:
    with interruptible() as interruption:
        for _ in training.steps():
            if interruption.signal:
                training.pause()
                raise KeyboardInterrupt(f"saved; go on with resume=True from {training.folder}")
    return load(training.finish())


def _paths(paths: Texts) -> list[str]:
    if isinstance(paths, Mapping):
        return [f"{language}={path}" for language, given in paths.items() for path in _paths(given)]
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
