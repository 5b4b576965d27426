"""From raw text to a model directory."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from polyseme.course import NUM_PARTS
from polyseme.errors import CheckpointError, ConfigError, DataError, PolysemeError
from polyseme.files import write_file
from polyseme.learning import Learner, Step
from polyseme.machine import give_back_freed_memory, num_cores
from polyseme.models import FAMILIES
from polyseme.models.base import Encoder
from polyseme.models.cove import Cove, CoveConfig
from polyseme.models.decoder import Decoder, Translator
from polyseme.models.directory import CONFIG, WEIGHTS, weightless, write_manifest, write_model
from polyseme.models.start import start_fast, start_translating
from polyseme.objectives import Source, Together, build_objective
from polyseme.objectives.translation import Translation
from polyseme.static import learner_of
from polyseme.static.learner import Task
from polyseme.tensors import Batch
from polyseme.text.corpus import Corpus
from polyseme.text.draft import Draft
from polyseme.text.store import Store, prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.adapting import Base
from polyseme.train.card import write_card
from polyseme.train.estimate import NUM_EVALUATIONS, Pace, check_memory, measure_pace
from polyseme.train.given import GivenVectors
from polyseme.train.learner import GradientLearner, draw
from polyseme.train.plan import SIZES, Budget, PlanConfig, choose_size
from polyseme.train.recipe import RECIPE, Recipe
from polyseme.train.run import Run, check_unused, read_history
from polyseme.train.texts import (
    absolute,
    find_units,
    learn_tokenizer,
    open_corpora,
    prepare_again,
    prepare_dev,
    some_of,
    source_of,
    train_tokenizer,
)

_DEV_ROW_TOKENS = 4096  # that go through the model at once while it is measured
_DEV_TOKENS = 32_768  # of a look at the dev text on the way, at most
_ALL_DEV_TOKENS = 1_000_000  # of the last look, at most

Watch = Callable[[Corpus], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A step, and what was done after it."""

    step: Step
    dev: dict[str, float] | None = None


def sized_recipe(family: str, size: str, overrides: Iterable[str] = (), **rest: Any) -> Recipe:
    """The shipped recipe of a size; `auto` takes the size that the budget and the text allow."""
    if size == "auto":
        smallest = Recipe.preset(family, SIZES[0], overrides, **rest)
        corpus, _ = open_corpora(smallest)
        size = choose_size(rest.get("plan", {}).get("budget"), num_bytes=corpus.num_bytes, cores=num_cores())
    return Recipe.preset(family, size, overrides, **rest)


def draw_batch(out: Path, step: int, *, watch: Watch = nullcontext) -> tuple[Batch, Tokenizer, Together]:
    """What a run learns from at a step, counted from 0, and who asks; its model is not needed for that."""
    recipe, tokenizer = Recipe.load(out), Tokenizer.load(out)
    if not recipe.objective.by_gradient:
        raise ConfigError(f"a {recipe.family} reads its text from beginning to end; it draws no batches to show")
    total = recipe.plan.course.total
    if step >= total:
        raise ConfigError(f"{out} has {total:,} steps, and the first is 0; give a --step below that")
    corpus, _ = open_corpora(recipe)
    with watch(corpus):
        store = prepare_again(out, recipe, corpus, tokenizer)
    with weightless():
        objective = build_objective(recipe.objective, FAMILIES[recipe.family](recipe.model), tokenizer.specials)
    return draw(objective, source_of(recipe, tokenizer, store), recipe.plan, step), tokenizer, objective


def build_encoder(recipe: Recipe, tokenizer: Tokenizer, store: Store) -> tuple[Encoder, Together]:
    """The model as it starts, decided by the seed and the text."""
    torch.manual_seed(recipe.plan.seed)
    encoder = FAMILIES[recipe.family](recipe.model)
    encoder.spell(tokenizer)
    fast = recipe.plan.start == "fast"
    if fast and not isinstance(encoder, Translator):
        start_fast(encoder, store.tokens)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    if fast and isinstance(encoder, Translator) and not isinstance(encoder, Cove):
        start_translating(encoder, decoder_of(objective), store)
    return encoder, objective


def decoder_of(objective: Together) -> Decoder:
    """What writes translations."""
    (translation,) = objective.parts
    assert isinstance(translation, Translation)
    return translation.decoder


def build_learner(
    recipe: Recipe, encoder: Encoder, objective: Together, source: Source, tokenizer: Tokenizer
) -> Learner:
    """What does the learning: gradients move the weights of a network, kernels fill a table of vectors."""
    plan = recipe.plan
    if recipe.objective.by_gradient:
        return GradientLearner(encoder, objective, source, plan)
    words = np.ones(recipe.model.vocab_size, np.bool_)
    words[list(tokenizer.special_ids)] = False
    task = Task(
        vectors=encoder.tokens.weight.detach().numpy(),
        words=words,
        source=source,
        course=plan.course,
        rate=plan.rate,
        seed=plan.seed,
        threads=plan.threads or num_cores(),
    )
    learner: Learner = learner_of(recipe.objective.kind)(recipe.objective, task)
    return learner


class Pretraining:
    """A run and what drives it; iterate over `steps` and it learns, records, evaluates, saves."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: Store, dev: Mapping[str, Store]) -> None:
        if recipe.plan.threads:
            torch.set_num_threads(recipe.plan.threads)
        length = recipe.data.length
        if recipe.objective.by_gradient and store.num_tokens < 2 * length:
            raise DataError(f"the corpus has {store.num_tokens:,} tokens, too few for rows of {length}; give more text")
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.source = source_of(recipe, tokenizer, store)
        num_rows = max(1, _DEV_ROW_TOKENS // length)
        measured = Source(store, length, num_rows, measuring=True, before=self.source.before)
        self.dev_languages = {name: dataclasses.replace(measured, store=text) for name, text in dev.items()}
        self.dev = self.dev_languages.pop("", None)  # all of them together
        started, processor = time.perf_counter(), time.process_time()
        self.encoder, self.objective = build_encoder(recipe, tokenizer, store)
        self.start_seconds = time.perf_counter() - started  # which a budget of time pays for too
        self.start_processor_seconds = time.process_time() - processor
        self.run: Run | None = None
        self.resumed_at = 0

    @functools.cached_property
    def learner(self) -> Learner:
        """What learns, once it is known for how long."""
        before = time.process_time()
        learner = build_learner(self.recipe, self.encoder, self.objective, self.source, self.tokenizer)
        learner.processor_seconds = self.start_processor_seconds + time.process_time() - before
        return learner

    @classmethod
    def start(
        cls,
        recipe: Recipe,
        out: Path,
        *,
        base: Base | None = None,
        num_words: int = 0,
        vectors: GivenVectors | None = None,
        watch: Watch = nullcontext,
    ) -> Self:
        """Begin a run in a new directory; `watch` surrounds the reading of the text, and may show how far it is.

        With `base` it goes on from that model, with up to `num_words` new words in its vocabulary; with `vectors` it
        knows words by these.
        """
        check_unused(out)
        training = cls.prepare(recipe, base=base, num_words=num_words, vectors=vectors, watch=watch)
        steps = training._steps_of_budget()
        training._freeze(steps, None if steps else training._measure_pace())
        first = training.learner if base or vectors else None
        training.run = Run.create(out, training.recipe, training.tokenizer, first=first)
        return training

    @classmethod
    def prepare(
        cls,
        recipe: Recipe,
        *,
        base: Base | None = None,
        num_words: int = 0,
        vectors: GivenVectors | None = None,
        watch: Watch = nullcontext,
    ) -> Self:
        """Read the text and build the model, which is all that a run needs but a directory and a number of steps."""
        if recipe.plan.base and base is None:
            raise ConfigError("plan.base: to go on from a model, say polyseme adapt MODEL")
        if isinstance(recipe.model, CoveConfig) and not (base or vectors):
            raise ConfigError(
                f"model.vectors: a {recipe.family} reads words by vectors that it is given; "
                "name a run of skipgram or glove, or a file of vectors"
            )
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        with watch(corpus):
            base, draft = base and base.extended(corpus, num_words), Draft()
            if vectors:
                tokenizer, target_size = vectors.train_tokenizer(recipe, corpus)
                sizes = {"target_size": target_size, "width": vectors.vectors.shape[1], "vectors": vectors.name}
                recipe = dataclasses.replace(recipe, model=recipe.model.replace(**sizes))
            else:
                tokenizer = base.tokenizer if base else train_tokenizer(recipe, corpus, draft)
            store = prepare(corpus, tokenizer, find_units(recipe, corpus), draft=draft)
        del draft
        give_back_freed_memory()
        dev = prepare_dev(dev_corpus, tokenizer)
        recipe = dataclasses.replace(
            recipe,
            model=recipe.model.replace(vocab_size=base.vocab_size if base else tokenizer.vocab_size),
            data=recipe.data.replace(
                corpus=absolute(recipe.data.corpus),
                dev=absolute(recipe.data.dev),
                target=absolute(recipe.data.target),
                dev_target=absolute(recipe.data.dev_target),
                lexicon=recipe.data.lexicon and str(Path(recipe.data.lexicon).absolute()),
                entities=recipe.data.entities and str(Path(recipe.data.entities).absolute()),
                fingerprint=store.fingerprint,
            ),
        )
        training = cls(recipe, tokenizer, store, dev)
        if base:
            base.fill(training.encoder, training.objective)
        if vectors:
            vectors.fill(training.encoder, tokenizer)
            if recipe.plan.start == "fast":
                start_translating(training.encoder, decoder_of(training.objective), store)
        return training

    @classmethod
    def resume(cls, out: Path, *, watch: Watch = nullcontext) -> Self:
        """Go on with the run in a directory, from its newest good checkpoint."""
        recipe = Recipe.load(out)
        run = Run.open(out, recipe)
        try:
            corpus, dev_corpus = open_corpora(recipe)
            tokenizer = Tokenizer.load(out)
            with watch(corpus):
                store = prepare_again(out, recipe, corpus, tokenizer)
            training = cls(recipe, tokenizer, store, prepare_dev(dev_corpus, tokenizer))
            training.run = run
            training.resumed_at = run.restore(training.learner)
        except BaseException:
            run.close()
            raise
        return training

    @classmethod
    def dry(cls, recipe: Recipe) -> tuple[Self, Pace]:
        """Measure what a run would take, on a sample of the text, and write nothing."""
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        documents = some_of(corpus)
        tokenizer = learn_tokenizer(recipe, documents)
        recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
        dev = {"": Store.from_documents(some_of(dev_corpus), tokenizer, split=dev_corpus.split)} if dev_corpus else {}
        store = Store.from_documents(documents, tokenizer, find_units(recipe, documents), split=corpus.split)
        training = cls(recipe, tokenizer, store, dev)
        share = sum(len(document.encode()) for document in documents) / max(1, corpus.num_bytes)
        pace = training._measure_pace()
        steps = training._steps_of_budget(text_share=min(1.0, share))
        training._freeze(steps, pace)
        return training, pace

    @property
    def total(self) -> int:
        """Steps of the whole run, as far as that is decided."""
        return self.recipe.plan.course.total

    def steps(self) -> Iterator[Progress]:
        """Learn; after each step keep its figures, and when it is time look at the dev text and save."""
        run, learner = self._run, self.learner
        try:
            for step in learner.steps():
                if step.number in self.recipe.plan.marks:
                    self._decide(step)
                last = step.number == self.total
                looks = self.dev is not None and (last or self._looks_after(step.number))
                dev = (self.evaluate(whole=last) or None) if looks else None
                if dev:
                    learner.look(dev[self._dev_loss])
                run.record(step, dev=dev)
                if dev is not None or last or run.due(step):
                    run.save(learner, step.number, dev_loss=dev[self._dev_loss] if dev else None)
                yield Progress(step=step, dev=dev)
        except PolysemeError:
            run.close()
            raise

    def _looks_after(self, number: int) -> bool:
        plan = self.recipe.plan
        if plan.marks and not plan.evaluate_every:
            return number in plan.marks
        return number % (plan.evaluate_every or -(-self.total // NUM_EVALUATIONS)) == 0

    def _decide(self, step: Step) -> None:
        """Fit the next tenth of the way to the time that is left, where it is not decided yet.

        By what a step took in the last tenth. It is written down before anything depends on it, so that a run that is
        broken off finds it decided.
        """
        plan = self.recipe.plan
        course = plan.course
        if course.is_decided or step.number != course.marks[-1]:
            return
        # The first steps of all have more to do, so the first tenth is counted from the first row.
        begin, rows = (0, *course.marks)[-2], read_history(self.folder)
        before = next((row for row in reversed(rows) if row["step"] <= begin), rows[0] if rows else {})
        number, seconds = before.get("step", 0), before.get("processor_seconds", 0.0)
        pace = (step.processor_seconds - seconds) / max(1, step.number - number)
        course = course.fitted(step=pace, left=plan.processor_seconds - step.processor_seconds)
        self.recipe = dataclasses.replace(self.recipe, plan=plan.replace(marks=course.marks))
        self._run.follow(self.recipe)
        self.learner.follow(course)

    def evaluate(self, *, whole: bool = False) -> dict[str, float]:
        """Figures on the dev text: a fixed part of it, or all, and then also on each of its languages."""
        assert self.dev is not None
        num_batches = self._dev_batches(_ALL_DEV_TOKENS) if whole else self.recipe.plan.evaluate_batches
        figures = self.learner.evaluate(self.dev, num_batches=num_batches)
        for language, source in self.dev_languages.items() if whole else ():
            num_batches = _num_batches(source, _ALL_DEV_TOKENS // len(self.dev_languages))
            found = self.learner.evaluate(source, num_batches=num_batches)
            figures |= {f"{name}_{language}": value for name, value in found.items()}
        return figures

    def pause(self) -> bool:
        """Save where it stands, and say whether that went well."""
        with self._run as run:
            return run.save(self.learner, self.learner.done)

    def finish(self, command: str = "") -> Path:
        """Write the model directory."""
        recipe, specials = self.recipe, self.tokenizer.specials
        extra = {"pad_token_id": specials.pad}
        if self.encoder.context == "left":
            extra |= {"bos_token_id": specials.end, "eos_token_id": specials.end}
        self.learner.settle()
        with self._run as run:
            folder = run.folder
            try:
                write_model(folder, family=recipe.family, encoder=self.encoder, heads=self.objective, extra=extra)
                self.tokenizer.save(folder, max_length=recipe.model.max_length)
                write_card(folder, recipe, self.source.store, self.encoder, command)
                files = self.learner.files(self.tokenizer.token)
                for name, content in files.items():
                    write_file(folder / name, content)
                write_manifest(folder, (CONFIG, WEIGHTS, RECIPE, "tokenizer.json", "tokenizer_config.json", *files))
            except OSError as error:
                raise CheckpointError(
                    f"{folder} cannot be written ({error.strerror}); make room and --resume"
                ) from None
        return folder

    @property
    def folder(self) -> Path:
        """Where the run is kept."""
        return self._run.folder

    @property
    def _run(self) -> Run:
        assert self.run is not None, "a dry run cannot learn"
        return self.run

    @property
    def _dev_loss(self) -> str:
        # Of two objectives the first only draws rows; what learns without them has one loss, called as it is.
        return self.objective.names[-1] if self.objective.names else str(self.recipe.objective.kind)

    def _dev_batches(self, tokens: int) -> int:
        return _num_batches(self.dev, tokens) if self.dev else 0

    def _steps_of_budget(self, *, text_share: float = 1.0) -> int | None:
        tokens = round(self.source.store.num_tokens / text_share)
        return Budget.parse(self.recipe.plan.budget).steps(
            tokens_per_step=self.source.num_rows * self.source.length, tokens_per_epoch=tokens
        )

    def _measure_pace(self) -> Pace:
        thrown_away = copy.deepcopy((self.encoder, self.objective))

        def learner_with(plan: PlanConfig) -> Learner:
            recipe = dataclasses.replace(self.recipe, plan=plan)
            return build_learner(recipe, *thrown_away, self.source, self.tokenizer)

        if not self.recipe.objective.by_gradient:
            # Kernels are compiled once for all runs on a machine; no budget should pay for that.
            next(iter(learner_with(self.recipe.plan.replace(steps=1)).steps()))
        pace = measure_pace(learner_with, self.recipe.plan, self.dev)
        return dataclasses.replace(pace, spent=pace.spent + self.start_seconds)

    def _freeze(self, steps: int | None, pace: Pace | None) -> None:
        """Fix what the budget comes to, so that the run is the same however often it is broken off."""
        plan = self.recipe.plan
        seconds = Budget.parse(plan.budget).amount
        dev_batches = plan.evaluate_batches or self._dev_batches(_DEV_TOKENS)
        if steps is None:
            assert pace is not None
            dev_batches = plan.evaluate_batches or pace.dev_batches_in(seconds, dev_batches)
            steps = pace.steps_in(seconds, dev_batches)
        plan = plan.replace(steps=steps, evaluate_batches=dev_batches)
        if plan.processor_seconds and not plan.marks and steps >= NUM_PARTS:
            plan = plan.replace(marks=plan.course.begun().marks)
        self.recipe = dataclasses.replace(self.recipe, plan=plan)


def _num_batches(source: Source, tokens: int) -> int:
    return max(1, min(tokens, source.store.num_tokens) // (source.num_rows * source.length))
