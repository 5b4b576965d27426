"""Pretraining and continued pretraining: from raw text to a model directory."""

import copy
import dataclasses
import functools
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

from polyseme.batch import Batch
from polyseme.datasets.token_store import TokenStore, build_or_load_store
from polyseme.errors import ConfigError, DataError
from polyseme.families import FAMILIES, build_objective
from polyseme.learner import Learner, Step
from polyseme.models.base import Encoder
from polyseme.models.initialization.initializers import initialize_from_parallel_text
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.step_schedule import NUM_MILESTONES
from polyseme.system.atomic_io import write_file
from polyseme.system.hardware import release_freed_memory
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenizedText
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.base_model import BaseModel
from polyseme.training.data_pipeline import (
    absolute_paths,
    build_dev_stores,
    build_masking_units,
    first_documents,
    open_corpora,
    reopen_store,
    token_source,
    train_tokenizer,
    train_tokenizer_uncached,
)
from polyseme.training.model_building import build_encoder, build_learner, decoder_of
from polyseme.training.optimization.budget import Budget
from polyseme.training.optimization.gradient_learner import draw
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings
from polyseme.training.recipes.recipe import RECIPE, Recipe
from polyseme.training.resources import Throughput, check_memory, measured_seconds
from polyseme.training.session import TrainingSession, Watch
from polyseme.training.storage.history import read_history
from polyseme.training.storage.model_card import write_card
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, meta_device, write_model
from polyseme.training.storage.run_dir import SAVED_TOKENIZER, RunDirectory, check_unused
from polyseme.training.usage_example import find_usage_example

_DEV_BATCH_TOKENS = 4096
_DEV_TOKENS = 32_768  # per validation, at most
_FULL_DEV_TOKENS = 1_000_000  # for the last validation, at most


class PretrainingSession(TrainingSession):
    """A run that trains a model on raw text."""

    recipe_class = Recipe
    recipe: Recipe

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: TokenStore, dev: Mapping[str, TokenStore]) -> None:
        length = recipe.data.sequence_length
        self.by_gradient = bool(recipe.objective.by_gradient)
        self.can_be_extended = bool(recipe.objective.can_be_extended)
        if self.by_gradient and store.num_tokens < 2 * length:
            raise DataError(
                f"the corpus has {store.num_tokens:,} tokens, too few for sequences of {length}; add more text"
            )
        self.source = token_source(recipe, tokenizer, store)
        num_rows = max(1, _DEV_BATCH_TOKENS // length)
        validation = TokenSource(store, length, num_rows, validation=True, prefix_ids=self.source.prefix_ids)
        self.dev_languages = {name: dataclasses.replace(validation, store=text) for name, text in dev.items()}
        self.dev = self.dev_languages.pop("", None)  # all languages together
        super().__init__(recipe, tokenizer)
        started, processor = time.perf_counter(), time.process_time()
        self.encoder, self.objective = build_encoder(recipe, tokenizer, store)
        self.start_seconds = time.perf_counter() - started  # part of a time budget
        self.start_processor_seconds = time.process_time() - processor

    @classmethod
    def start(
        cls,
        recipe: Recipe,
        out: Path | None,
        *,
        base: BaseModel | None = None,
        num_words: int = 0,
        vectors: PretrainedEmbeddings | None = None,
        watch: Watch = nullcontext,
    ) -> Self:
        """Read the text, build the model and start a run in a new directory.

        Args:
            recipe: All settings.
            out: The run directory, which must not exist or be empty; None for a session whose steps are only timed.
            base: Model to continue pretraining from.
            num_words: Words of the text to add to its vocabulary, at most.
            vectors: Pretrained token embeddings, for families that need them.
            watch: Context manager around reading the text, which can show its progress.
        """
        if out is not None:
            check_unused(out)
        if recipe.training.base_model and base is None:
            raise ConfigError("training.base_model: to continue pretraining, use polyseme adapt MODEL")
        if hasattr(recipe.model, "vectors") and not (base or vectors):
            raise ConfigError(
                f"model.vectors: {recipe.family} needs pretrained word embeddings; "
                "give a run of skipgram or glove, or a file of vectors"
            )
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        with watch(corpus):
            base, pretokenized = base and base.extended(corpus, num_words), PretokenizedText()
            if vectors:
                tokenizer, target_size = vectors.train_tokenizer(recipe, corpus)
                sizes = {"target_size": target_size, "width": vectors.vectors.shape[1], "vectors": vectors.name}
                recipe = dataclasses.replace(recipe, model=recipe.model.replace(**sizes))
            else:
                tokenizer = base.tokenizer if base else train_tokenizer(recipe, corpus, pretokenized)
            store = build_or_load_store(
                corpus, tokenizer, build_masking_units(recipe, corpus), pretokenized=pretokenized
            )
        del pretokenized
        release_freed_memory()
        dev = build_dev_stores(dev_corpus, tokenizer)
        recipe = dataclasses.replace(
            recipe,
            model=recipe.model.replace(vocab_size=base.vocab_size if base else tokenizer.vocab_size),
            data=recipe.data.replace(**absolute_paths(recipe.data), fingerprint=store.fingerprint),
        )
        session = cls(recipe, tokenizer, store, dev)
        if base:
            base.load_into(session.encoder, session.objective)
        if vectors:
            vectors.load_into(session.encoder, tokenizer)
            if recipe.training.initialization == "fast":
                initialize_from_parallel_text(session.encoder, decoder_of(session.objective), store)
        if out is not None:
            session._fix_steps()
            first = session.learner if base or vectors else None
            session.run = RunDirectory.create(out, session.recipe, session.tokenizer, first=first)
        return session

    @classmethod
    def rebuild(cls, folder: Path, recipe: Recipe, watch: Watch) -> Self:
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        tokenizer = Tokenizer.load(folder)
        with watch(corpus):
            store = reopen_store(folder, recipe, corpus, tokenizer)
        return cls(recipe, tokenizer, store, build_dev_stores(dev_corpus, tokenizer))

    @classmethod
    def dry_run(cls, recipe: Recipe) -> tuple[Self, Throughput]:
        """Estimate a run on a sample of its text, and write nothing."""
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        documents = first_documents(corpus)
        tokenizer = train_tokenizer_uncached(recipe, documents)
        recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
        dev = {}
        if dev_corpus:
            dev[""] = TokenStore.from_documents(first_documents(dev_corpus), tokenizer, split=dev_corpus.split_document)
        units = build_masking_units(recipe, documents)
        session = cls(
            recipe, tokenizer, TokenStore.from_documents(documents, tokenizer, units, split=corpus.split_document), dev
        )
        text_fraction = sum(len(document.encode()) for document in documents) / max(1, corpus.num_bytes)
        throughput = session._measure_throughput()
        session._fix_steps(throughput, text_fraction=min(1.0, text_fraction))
        return session, throughput

    @functools.cached_property
    def learner(self) -> Learner:
        before = time.process_time()
        learner = self._build_learner(self.recipe.training, self.encoder, self.objective)
        learner.processor_seconds = self.start_processor_seconds + time.process_time() - before
        return learner

    def _build_learner(self, config: TrainingConfig, encoder: Encoder, objective: Any) -> Learner:
        recipe = dataclasses.replace(self.recipe, training=config)
        return build_learner(recipe, encoder, objective, self.source, self.tokenizer)

    def evaluate(self, *, full: bool = False) -> dict[str, float]:
        """Compute validation metrics on a fixed part of the dev text, or on all of it and on each language."""
        assert self.dev is not None
        num_batches = _num_batches(self.dev, _FULL_DEV_TOKENS) if full else self.recipe.training.evaluate_batches
        metrics = self.learner.evaluate(self.dev, num_batches=num_batches)
        for language, source in self.dev_languages.items() if full else ():
            num_batches = _num_batches(source, _FULL_DEV_TOKENS // len(self.dev_languages))
            of_language = self.learner.evaluate(source, num_batches=num_batches)
            metrics |= {f"{name}_{language}": value for name, value in of_language.items()}
        return metrics

    def _validate(self, *, full: bool) -> dict[str, float] | None:
        dev = (self.evaluate(full=full) or None) if self.dev is not None else None
        if dev:
            self.learner.on_validation_loss(self._selection_loss(dev))
        return dev

    def _selection_loss(self, dev: dict[str, float]) -> float:
        # The first of two objectives draws the sequences, so the last counts; static trainers name theirs by its kind.
        names = list(self.objective.weights)
        return dev[names[-1] if names else str(self.recipe.objective.kind)]

    def _validates_after(self, number: int) -> bool:
        config = self.recipe.training
        if config.milestones and not config.evaluate_every:
            return number in config.milestones
        return super()._validates_after(number)

    def _extend_schedule(self, step: Step) -> None:
        """Fit the next tenth of the run to the time that is left, where it is not decided yet.

        The step time is that of the last tenth. The decision is written to the recipe before anything depends on it,
        so that an interrupted run resumes with the same one.
        """
        config = self.recipe.training
        schedule = config.step_schedule
        if schedule.is_decided or step.number != schedule.milestones[-1]:
            return
        # The very first steps take longer, so the first tenth is timed from the first row of the history.
        begin, rows = (0, *schedule.milestones)[-2], read_history(self.folder)
        before = next((row for row in reversed(rows) if row["step"] <= begin), rows[0] if rows else {})
        number, seconds = before.get("step", 0), before.get("processor_seconds", 0.0)
        step_seconds = (step.processor_seconds - seconds) / max(1, step.number - number)
        schedule = schedule.with_next_milestone(
            step=step_seconds, left=config.processor_seconds - step.processor_seconds
        )
        self.recipe = dataclasses.replace(self.recipe, training=config.replace(milestones=schedule.milestones))
        self.run.update_recipe(self.recipe)
        self.learner.update_schedule(schedule)

    def _write_model(self, folder: Path) -> tuple[str, ...]:
        recipe, specials = self.recipe, self.tokenizer.specials
        extra = {"pad_token_id": specials.pad}
        if self.encoder.context == "left":
            extra |= {"bos_token_id": specials.end, "eos_token_id": specials.end}
        self.learner.finalize()
        write_model(folder, family=recipe.family, encoder=self.encoder, heads=self.objective, extra=extra)
        self.tokenizer.save(folder, max_length=recipe.model.max_length)
        example = find_usage_example(recipe, self.tokenizer)
        write_card(folder, recipe, self.source.store, self.encoder, example, self.command)
        extra_files = self.learner.extra_files(self.tokenizer.token)
        for name, content in extra_files.items():
            write_file(folder / name, content)
        return CONFIG, WEIGHTS, RECIPE, *SAVED_TOKENIZER, *extra_files

    def _steps_of_budget(self, budget: Budget, *, text_fraction: float = 1.0) -> int | None:
        if self.recipe.objective.single_step:
            return 1
        tokens = round(self.source.store.num_tokens / text_fraction)
        return budget.steps(tokens_per_step=self.source.num_rows * self.source.length, tokens_per_epoch=tokens)

    def _measure_throughput(self) -> Throughput:
        found = self.measure_step_time(measured_seconds(self.recipe.training.budget))
        dev_batch = 0.0
        if self.dev is not None and self.by_gradient:
            learner = self._build_learner(self.recipe.training, *copy.deepcopy((self.encoder, self.objective)))
            before = time.perf_counter()
            learner.evaluate(self.dev, num_batches=1)
            dev_batch = time.perf_counter() - before
        spent = self.start_seconds + found.spent + dev_batch
        return Throughput(found.seconds, dev_batch, spent, self.recipe.training.num_evaluations)

    def _fix_steps(self, throughput: Throughput | None = None, *, text_fraction: float = 1.0) -> None:
        """Convert the budget to a number of steps, once, so that a resumed run has the same."""
        config = self.recipe.training
        budget = Budget.parse(config.budget)
        steps = self._steps_of_budget(budget, text_fraction=text_fraction)
        dev_batches = config.evaluate_batches or (_num_batches(self.dev, _DEV_TOKENS) if self.dev else 0)
        if steps is None:
            throughput = throughput or self._measure_throughput()
            dev_batches = config.evaluate_batches or throughput.dev_batches_in(budget.amount, dev_batches)
            steps = throughput.steps_in(budget.amount, dev_batches)
        config = config.replace(steps=steps, evaluate_batches=dev_batches)
        if config.processor_seconds and not config.milestones and steps >= NUM_MILESTONES:
            config = config.replace(milestones=config.step_schedule.with_first_milestone().milestones)
        self.recipe = dataclasses.replace(self.recipe, training=config)


def draw_batch(out: Path, step: int, *, watch: Watch = nullcontext) -> tuple[Batch, Tokenizer, JointObjective]:
    """Rebuild the batch of a step of a run, counted from 0, without its model; with its tokenizer and objective."""
    recipe, tokenizer = Recipe.load(out), Tokenizer.load(out)
    if not recipe.objective.by_gradient:
        raise ConfigError(f"{recipe.family} is trained on running text, without batches; give a run of another family")
    total_steps = recipe.training.step_schedule.total_steps
    if step >= total_steps:
        raise ConfigError(f"{out} has {total_steps:,} steps, counted from 0; choose a --step below that")
    corpus, _ = open_corpora(recipe)
    with watch(corpus):
        store = reopen_store(out, recipe, corpus, tokenizer)
    with meta_device():
        objective = build_objective(recipe.objective, FAMILIES[recipe.family](recipe.model), tokenizer.specials)
    return draw(objective, token_source(recipe, tokenizer, store), recipe.training, step), tokenizer, objective


def _num_batches(source: TokenSource, tokens: int) -> int:
    return max(1, min(tokens, source.store.num_tokens) // (source.num_rows * source.length))
