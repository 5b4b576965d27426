"""From raw text to a model directory."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from polyseme.errors import CheckpointError, ConfigError, DataError, TrainingError
from polyseme.files import cache_folder, whole_folder
from polyseme.machine import num_cores
from polyseme.models import FAMILIES
from polyseme.models.base import Encoder
from polyseme.models.directory import CONFIG, WEIGHTS, write_manifest, write_model
from polyseme.models.start import start_fast
from polyseme.objectives import Source, Together, build_objective
from polyseme.text.corpus import Corpus
from polyseme.text.samples import SAMPLES, sample_text
from polyseme.text.store import Store, prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.card import write_card
from polyseme.train.estimate import NUM_EVALUATIONS, Pace, check_memory, measure_pace
from polyseme.train.learner import GradientLearner, Step, evaluate
from polyseme.train.plan import SIZES, Budget, choose_size
from polyseme.train.recipe import RECIPE, Recipe
from polyseme.train.run import Run, check_unused

_DEV_ROW_TOKENS = 4096  # that go through the model at once while it is measured
_DEV_TOKENS = 32_768  # of a look at the dev text on the way, at most
_ALL_DEV_TOKENS = 1_000_000  # of the last look, at most
_DRY_CHARACTERS = 2_000_000

Watch = Callable[[Corpus], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A step, and what was done after it."""

    step: Step
    dev: dict[str, float] | None = None


def open_corpora(recipe: Recipe) -> tuple[Corpus, Corpus | None]:
    """The text to learn from and the text to measure on; a sample brings both."""
    corpus, dev = recipe.data.corpus, recipe.data.dev
    if not corpus:
        raise ConfigError(f"there is no text to learn from; give --corpus a path, or a sample: {', '.join(SAMPLES)}")
    if len(corpus) == 1 and corpus[0] in SAMPLES and not Path(corpus[0]).exists():
        text = sample_text(corpus[0])
        return Corpus(*text.train), Corpus(*(dev or text.dev), column=recipe.data.column)
    train = Corpus(*corpus, column=recipe.data.column)
    return train, Corpus(*dev, column=recipe.data.column) if dev else None


def sized_recipe(family: str, size: str, overrides: Iterable[str] = (), **rest: Any) -> Recipe:
    """The shipped recipe of a size; `auto` takes the size that the budget and the text allow."""
    if size == "auto":
        smallest = Recipe.preset(family, SIZES[0], overrides, **rest)
        corpus, _ = open_corpora(smallest)
        size = choose_size(rest.get("plan", {}).get("budget"), num_bytes=corpus.num_bytes, cores=num_cores())
    return Recipe.preset(family, size, overrides, **rest)


def train_tokenizer(recipe: Recipe, corpus: Corpus) -> Tokenizer:
    """Train a tokenizer on a corpus, or take the one that the same text and settings gave before."""
    key = f"{corpus.fingerprint()[:24]}-{recipe.tokenizer.digest()}-{recipe.model.vocab_size}"
    folder = cache_folder() / "tokenizers" / key
    if folder.is_dir():
        try:
            return Tokenizer.load(folder)
        except CheckpointError:
            shutil.rmtree(folder)
    tokenizer = Tokenizer.train(recipe.tokenizer, corpus, vocab_size=recipe.model.vocab_size)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with whole_folder(folder) as beside:
            tokenizer.save(beside)
    except FileExistsError:
        pass  # another process was quicker
    except OSError as error:
        if not folder.is_dir():
            raise DataError(f"{folder} cannot be written ({error.strerror}); make room or set POLYSEME_CACHE") from None
    return tokenizer


def build_encoder(recipe: Recipe, tokenizer: Tokenizer) -> tuple[Encoder, Together]:
    """The model as it starts, decided by the seed alone."""
    torch.manual_seed(recipe.plan.seed)
    encoder = FAMILIES[recipe.family](recipe.model)
    if recipe.plan.start == "fast":
        start_fast(encoder)
    return encoder, build_objective(recipe.objective, encoder, tokenizer.specials)


class Pretraining:
    """A run and what drives it; iterate over `steps` and it learns, records, evaluates, saves."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, store: Store, dev: Store | None) -> None:
        if recipe.plan.threads:
            torch.set_num_threads(recipe.plan.threads)
        length = recipe.data.length
        if store.num_tokens < 2 * length:
            raise DataError(f"the corpus has {store.num_tokens:,} tokens, too few for rows of {length}; give more text")
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.source = Source(store, length, max(1, recipe.plan.batch_tokens // length))
        self.dev = None if dev is None else Source(dev, length, max(1, _DEV_ROW_TOKENS // length), measuring=True)
        self.encoder, self.objective = build_encoder(recipe, tokenizer)
        self.learner = GradientLearner(self.encoder, self.objective, self.source, recipe.plan)
        self.run: Run | None = None
        self.resumed_at = 0

    @classmethod
    def start(cls, recipe: Recipe, out: Path, *, watch: Watch = nullcontext) -> Self:
        """Begin a run in a new directory; `watch` surrounds the reading of the text, and may show how far it is."""
        check_unused(out)
        check_memory(recipe)
        corpus, dev_corpus = open_corpora(recipe)
        with watch(corpus):
            tokenizer = train_tokenizer(recipe, corpus)
            store = prepare(corpus, tokenizer)
        dev = prepare(dev_corpus, tokenizer) if dev_corpus else None
        recipe = dataclasses.replace(
            recipe,
            model=recipe.model.replace(vocab_size=tokenizer.vocab_size),
            data=recipe.data.replace(
                corpus=_absolute(recipe.data.corpus), dev=_absolute(recipe.data.dev), fingerprint=store.fingerprint
            ),
        )
        training = cls(recipe, tokenizer, store, dev)
        steps = training._steps_of_budget()
        training._freeze(steps, None if steps else training._measure_pace())
        training.run = Run.create(out, training.recipe, tokenizer)
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
                store = prepare(corpus, tokenizer)
            if store.fingerprint != recipe.data.fingerprint:
                raise DataError(f"the text of {out} has changed since it began; put it back, or start anew elsewhere")
            training = cls(recipe, tokenizer, store, prepare(dev_corpus, tokenizer) if dev_corpus else None)
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
        documents = _some(corpus)
        tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=recipe.model.vocab_size)
        recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
        dev = Store.from_documents(_some(dev_corpus), tokenizer) if dev_corpus else None
        training = cls(recipe, tokenizer, Store.from_documents(documents, tokenizer), dev)
        share = sum(len(document.encode()) for document in documents) / max(1, corpus.num_bytes)
        pace = training._measure_pace()
        steps = training._steps_of_budget(text_share=min(1.0, share))
        training._freeze(steps, pace)
        return training, pace

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.recipe.plan.steps

    def steps(self) -> Iterator[Progress]:
        """Learn; after each step keep its figures, and when it is time look at the dev text and save."""
        run, learner = self._run, self.learner
        every = self.recipe.plan.evaluate_every or -(-self.total // NUM_EVALUATIONS)
        try:
            for step in learner.steps():
                last = step.number == self.total
                dev = self.evaluate(whole=last) if self.dev and (last or step.number % every == 0) else None
                run.record(step, dev=dev)
                if dev is not None or last or run.due(step):
                    run.save(learner, step.number, dev_loss=dev[self._dev_loss] if dev else None)
                yield Progress(step=step, dev=dev)
        except TrainingError:
            run.close()
            raise

    def evaluate(self, *, whole: bool = False) -> dict[str, float]:
        """Figures on the dev text: a fixed part of it, or all."""
        assert self.dev is not None
        num_batches = self._dev_batches(_ALL_DEV_TOKENS) if whole else self.recipe.plan.evaluate_batches
        return evaluate(self.encoder, self.objective, self.dev, num_batches=num_batches)

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
        with self._run as run:
            folder = run.folder
            try:
                write_model(folder, family=recipe.family, encoder=self.encoder, heads=self.objective, extra=extra)
                self.tokenizer.save(folder, max_length=recipe.model.max_length)
                write_card(folder, recipe, self.source.store, self.encoder, command)
                write_manifest(folder, (CONFIG, WEIGHTS, RECIPE, "tokenizer.json", "tokenizer_config.json"))
            except OSError as error:
                raise CheckpointError(
                    f"{folder} cannot be written ({error.strerror}); make room and --resume"
                ) from None
        return folder

    @property
    def _run(self) -> Run:
        assert self.run is not None, "a dry run cannot learn"
        return self.run

    @property
    def _dev_loss(self) -> str:
        return self.objective.names[-1]  # the first only draws rows where there are two

    def _dev_batches(self, tokens: int) -> int:
        if self.dev is None:
            return 0
        return max(1, min(tokens, self.dev.store.num_tokens) // (self.dev.num_rows * self.dev.length))

    def _steps_of_budget(self, *, text_share: float = 1.0) -> int | None:
        tokens = round(self.source.store.num_tokens / text_share)
        return Budget.parse(self.recipe.plan.budget).steps(
            tokens_per_step=self.source.num_rows * self.source.length, tokens_per_epoch=tokens
        )

    def _measure_pace(self) -> Pace:
        return measure_pace(self.encoder, self.objective, self.source, self.recipe.plan, self.dev)

    def _freeze(self, steps: int | None, pace: Pace | None) -> None:
        """Fix what the budget comes to, so that the run is the same however often it is broken off."""
        plan = self.recipe.plan
        seconds = Budget.parse(plan.budget).amount
        dev_batches = plan.evaluate_batches or self._dev_batches(_DEV_TOKENS)
        if steps is None:
            assert pace is not None
            dev_batches = plan.evaluate_batches or pace.dev_batches_in(seconds, dev_batches)
            steps = pace.steps_in(seconds, dev_batches)
        self.recipe = dataclasses.replace(self.recipe, plan=plan.replace(steps=steps, evaluate_batches=dev_batches))
        self.learner = GradientLearner(self.encoder, self.objective, self.source, self.recipe.plan)


def _absolute(paths: Sequence[str]) -> list[str]:
    return [path if path in SAMPLES and not Path(path).exists() else str(Path(path).absolute()) for path in paths]


def _some(corpus: Corpus) -> list[str]:
    documents, characters = [], 0
    for document in corpus:
        documents.append(document)
        characters += len(document)
        if characters > _DRY_CHARACTERS:
            break
    return documents
