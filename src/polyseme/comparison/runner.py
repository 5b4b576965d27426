"""A comparison from start to end: split the text, plan, train and evaluate each family, and write the report."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from filelock import BaseFileLock

from polyseme.comparison.config import SETTINGS, ComparisonConfig, EvaluationBudget, TrainingRun
from polyseme.comparison.measure.ambiguous_words import METHOD, find_ambiguous_words
from polyseme.comparison.measure.corpus_items import WordIndex
from polyseme.comparison.measure.datasets import EvaluationData
from polyseme.comparison.measure.evaluator_pool import (
    Evaluator,
    EvaluatorPool,
    find_evaluation_data,
    one_line,
)
from polyseme.comparison.measure.intrinsic import annotated_words
from polyseme.comparison.measure.label_curves import describe_bound
from polyseme.comparison.measure.qualitative import sense_map_row
from polyseme.comparison.measure.retrieval import SEARCH_BASELINES, measure_search_baseline
from polyseme.comparison.metadata import comparison_row, count_tokens, family_row, learning_curve_rows, training_overlap
from polyseme.comparison.report.page import write_report
from polyseme.comparison.results import ResultsLog
from polyseme.comparison.rows import Row
from polyseme.comparison.train.launcher import Job, run_jobs
from polyseme.comparison.train.model_size import TrainingPlan
from polyseme.comparison.train.planning import RUNS, TrainingPlanner
from polyseme.corpora.corpus import split_language_prefix
from polyseme.datasets.builtin import SAMPLES, absolute_path
from polyseme.datasets.splits import TEXT_FOLDER, SplitCorpus, open_by_language, require_enough_text, split_text
from polyseme.errors import CheckpointError, PolysemeError, TrainingError
from polyseme.loading import load
from polyseme.system.atomic_io import check_new_folder, remove_partial_files, require_space
from polyseme.system.formatting import format_number_of
from polyseme.system.hardware import num_cores
from polyseme.system.io_errors import writable
from polyseme.system.signals import ShutdownRequest, graceful_shutdown
from polyseme.tasks.tfidf import FAMILY as TFIDF
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history
from polyseme.training.storage.model_dir import WEIGHTS
from polyseme.training.storage.run_dir import lock_folder

LOCK = "comparison.lock"
BASELINE_FAMILIES = ("ngram",)  # in every comparison; the other baselines are not trained on text
DEFAULT_FAMILIES = ("onehot", "svd", "skipgram", "elmo", "bert", "gpt2", *BASELINE_FAMILIES)

_INDEXED_CHARACTERS = 2_000_000  # searched for ambiguous words
_NUM_MAPPED, _NUM_LISTED = 4, 20  # ambiguous words

_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """The state of a running comparison."""

    activity: str
    done: int  # stages
    total: int  # stages; 0 if unknown
    fraction: float = 0.0  # of the current stage
    message: str = ""  # about a stage that ended


class Comparison:
    """A comparison and its folder; iterate over `run()` to execute it."""

    def __init__(self, settings: ComparisonConfig, out: Path, lock: BaseFileLock, data: EvaluationData) -> None:
        self.settings, self.out, self.data = settings, out, data
        self.results = ResultsLog(out)
        self.report = out / "report.md"
        self.plans: dict[TrainingRun, TrainingPlan] = {}
        self._lock = lock
        self._shutdown = ShutdownRequest()
        self._pool: EvaluatorPool | None = None
        self._done = self._total = 0

    @classmethod
    def open(cls, values: Mapping[str, Any], out: Path) -> Self:
        """Validate the settings and the data, and lock the folder; nothing is written if anything is wrong."""
        settings = ComparisonConfig.parse({"cores": num_cores(), **values}, group="compare")
        settings.check()
        for path in settings.corpus:
            name = split_language_prefix(path)[1]
            if name in SAMPLES and Path(name).absolute() == out.absolute():
                raise CheckpointError(f"--out {out} would shadow the built-in sample {name}; choose another --out")
        settings = settings.replace(
            corpus=[*map(absolute_path, settings.corpus)],
            models=[*map(absolute_path, settings.models)],
            tasks=absolute_path(settings.tasks),
        )
        corpora = open_by_language(settings.corpus, settings.column)
        prints = [f"{language} {corpus.fingerprint()}" for language, corpus in corpora.items()]
        settings = settings.replace(fingerprint=hashlib.sha256("\n".join(prints).encode()).hexdigest()[:32])
        disk = _check_folder(settings, out)
        data = find_evaluation_data(settings)
        if disk is not None and settings.families:
            for language, corpus in corpora.items():
                require_enough_text(language, corpus)
            require_space(disk, 2 * sum(corpus.num_bytes for corpus in corpora.values()), CheckpointError)
        for model in settings.models:
            load(model).require_tokenizer()
        with writable(out, "choose another --out", CheckpointError):
            out.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(out, LOCK)
        remove_partial_files(out)
        if disk is not None:
            settings.save(out)
        return cls(settings, out, lock, data)

    def run(self) -> Iterator[StageProgress]:
        """Execute all stages that are not done yet."""
        try:
            with graceful_shutdown() as self._shutdown:
                yield from self._prepare()
                yield from self._evaluate(TrainingRun(TFIDF))
                for group in self._training_groups():
                    yield from self._train([run for run in group if (run, "training") not in self.results.done])
                    for run in group:
                        yield from self._evaluate(run)
                yield from self._map_ambiguous_words()
                yield self._progress("writing the report")
                self.report = write_report(self.out)
        finally:
            if self._pool:
                self._pool.close()
            self._lock.release()

    # Preparation.

    @cached_property
    def split(self) -> SplitCorpus | None:
        """The train, dev and test split of the text; none if nothing is trained."""
        corpora = open_by_language(self.settings.corpus, self.settings.column)
        if self.settings.models:
            return None
        dev_characters = EvaluationBudget.of(self.settings).dev_characters
        return split_text(corpora, self.out / TEXT_FOLDER, dev_characters=dev_characters)

    @cached_property
    def planner(self) -> TrainingPlanner:
        assert self.split is not None
        return TrainingPlanner(settings=self.settings, split=self.split, out=self.out)

    def _prepare(self) -> Iterator[StageProgress]:
        settings = self.settings
        yield self._progress("splitting the text")
        split = self.split
        yield self._progress("sampling evaluation items")
        self.evaluator = Evaluator(settings, self.out, self.data, split)
        self._pool = EvaluatorPool(self.evaluator)
        if self.evaluator.datasets and not settings.finetune_budget:
            bound = describe_bound(self.evaluator.datasets, settings.labels)
            yield self._progress("sampling evaluation items", message=bound)
        for families in _chunks(settings.families, settings.parallel):
            self._check_shutdown()
            yield self._progress(f"measuring the throughput of {', '.join(families)}")
            self.plans |= self.planner.plan(families, self._shutdown)
        if settings.families:
            waiting = {run: plan for run, plan in self.plans.items() if (run, "training") not in self.results.done}
            self.planner.check_disk_space(waiting)
        evaluated = [TFIDF, *(run.name for run in settings.runs)]
        self._total = 2 + sum(1 + len(self.evaluator.stages_of(name)) for name in evaluated)
        if (None, "comparison") not in self.results.done:
            row = comparison_row(settings, split, self.evaluator.items, self.evaluator.datasets, self.out)
            self.results.add("comparison", [row])
        yield from self._measure_search_baselines()
        self._done = 1

    def _measure_search_baselines(self) -> Iterator[StageProgress]:
        """Evaluate search without a model."""
        for run in map(TrainingRun, SEARCH_BASELINES):
            if (run, "retrieval") in self.results.done:
                continue
            yield self._progress(f"measuring search by {run.name}")
            try:
                rows = measure_search_baseline(run.name, self.evaluator.items.retrieval)
            except PolysemeError as error:  # such as a package that is not installed
                self._record_failure(run, "retrieval", error)
                yield self._progress(f"{run.name}: retrieval", message=f"{run.name}, retrieval: {one_line(error)}")
            else:
                self.results.add("retrieval", rows, run=run)

    def _training_groups(self) -> list[Sequence[TrainingRun]]:
        """Groups of runs trained in parallel; those with a fixed number of steps would leave cores idle."""
        fixed = [run for run, plan in self.plans.items() if plan.trial and plan.steps == plan.trial.max_steps]
        others = [run for run in self.settings.runs if run not in fixed]
        return [*_chunks(fixed, self.settings.parallel), *_chunks(others, self.settings.parallel)]

    # Training.

    def _train(self, runs: Sequence[TrainingRun]) -> Iterator[StageProgress]:
        if self.settings.models:
            for run in runs:
                yield self._progress(f"loading {run.name}")
                model, folder = self.evaluator.model(run.name), self.evaluator.folder(run.name)
                row = family_row(model, folder, self.evaluator.items, cores=self.settings.cores)
                row |= {"directory": str(folder), "training_overlap": training_overlap(model, self.settings)}
                self.results.add("training", [row], run=run)
            return
        activity = f"training {', '.join(run.name for run in runs)}"
        jobs = [self.planner.job(run, self.plans[run]) for run in runs]
        finished = {job.run for job in jobs if (job.folder / WEIGHTS).exists()}  # training costs nothing again
        for child in run_jobs(jobs, self._shutdown):
            run, plan = child.job.run, self.plans[child.job.run]
            if not child.finished:
                history = read_history(child.job.folder)
                steps_done = history[-1]["step"] if history else 0
                yield self._progress(activity, fraction=min(1.0, steps_done / plan.steps) if plan.steps else 0.0)
                continue
            if self._shutdown.signal:
                continue  # wait for the other jobs to save
            try:
                if child.error:
                    raise TrainingError(child.error)
                rows = self._training_rows(child.job, 0 if run in finished else child.peak_memory_bytes)
            except Exception as error:  # the other runs continue
                self._record_failure(run, "training", error)
                yield self._progress(activity, message=f"{run.name} failed: {one_line(error)}")
                continue
            self.results.add("training", rows, run=run)
            seconds = f"{rows[0]['processor_seconds']:.0f} s of processor time"
            message = f"{run.name} {rows[0]['size']}: {format_number_of(rows[0]['steps'], 'step')}, {seconds}"
            yield self._progress(activity, fraction=1.0, message=message)
        self._check_shutdown()

    def _training_rows(self, job: Job, peak_memory_bytes: int) -> list[Row]:
        """The row of a trained family, and its learning curve."""
        assert self.split is not None
        folder, plan = job.folder, self.plans[job.run]
        model = self.evaluator.model(job.run.name)
        if plan.seconds:
            plan = replace(plan, milestones=Recipe.load(folder).training.milestones)
            self.planner.save_milestones(job.run, plan)
        row = family_row(model, folder, self.evaluator.items, cores=self.settings.cores)
        corpus_tokens = plan.trial.corpus_tokens if plan.trial else count_tokens(model, self.split)
        row |= {
            "size": plan.size,
            "size_reason": plan.reason,
            "epochs": round(row["tokens"] / max(1, corpus_tokens), 3),
            "preparation_seconds": round(plan.trial.preparation_seconds, 2) if plan.trial else None,
            "peak_memory_bytes": peak_memory_bytes or None,
            "command": self.planner.job(job.run, plan).command,
            "directory": f"{RUNS}/{job.run.name}",
        }
        return [row, *learning_curve_rows(model, folder, self.split)]

    # Evaluation.

    def _evaluate(self, run: TrainingRun) -> Iterator[StageProgress]:
        trained, stages = (run, "training") in self.results.done, self.evaluator.stages_of(run.name)
        trained |= run.name == TFIDF  # which is not trained on text
        waiting = [stage for stage in stages if trained and (run, stage) not in self.results.done]
        self._done += 1 + len(stages) - len(waiting)
        assert self._pool is not None
        # Closing kills the workers at once if this is interrupted.
        with closing(self._pool.evaluate(run.name, waiting)) as answers:
            for stage, answer in answers:
                if answer is None:
                    yield self._progress(f"{run.name}: {stage}")
                    self._check_shutdown()
                    continue
                if isinstance(answer, Exception):
                    self._record_failure(run, stage, answer)
                    yield self._progress(f"{run.name}: {stage}", message=f"{run.name}, {stage}: {one_line(answer)}")
                else:
                    rows = [row for row in answer if row["row"] != "metric" or row["value"] is not None]
                    self.results.add(stage, rows, run=run)
                self._done += 1

    def _map_ambiguous_words(self) -> Iterator[StageProgress]:
        """Find ambiguous words with the family that is best at word senses, and map them with all families."""
        self._check_shutdown()
        if (None, "ambiguous words") in self.results.done:
            return
        families = [row for row in self.results.rows if row["row"] == "family" and not row.get("training")]
        with_vectors = [row for row in families if self.evaluator.model(row["family"]).encoder.has_vectors]
        contexts = {row["family"]: row["context"] for row in with_vectors}
        contextual = [name for name, context in contexts.items() if context != "none"]
        if not contextual:
            return
        senses = {name: self.results.find("metric", family=name, training=0, suite="senses") or {} for name in contexts}
        best = max(contextual, key=lambda name: senses[name].get("value", 0.0))
        layers = {}
        for name in contexts:
            top = len(self.evaluator.model(name).encoder.widths) - 1
            layers[name] = min(top, senses[name].get("layer", top))
        yield self._progress(f"searching for ambiguous words with {best}")
        index = self.evaluator.index
        if self.split:
            texts = (text for split in ("test", "train") for _, text in self.split.documents(split))
            index = WordIndex.of(texts, most_characters=_INDEXED_CHARACTERS)
        words = find_ambiguous_words(
            self.evaluator.model(best),
            index,
            layers[best],
            seed=self.settings.seed,
            most=_NUM_LISTED,
            annotated=annotated_words(self.evaluator.items.senses),
        )
        if not words:
            return
        described = [word.describe() for word in words]
        rows: list[Row] = [{"row": "ambiguous_words", "words": described, "found_by": best, "method": METHOD}]
        for name in contexts:
            yield self._progress(f"mapping ambiguous words with {name}")
            model = self.evaluator.model(name)
            rows += [sense_map_row(model, word, layers[name]) | {"family": name} for word in words[:_NUM_MAPPED]]
        self.results.add("ambiguous words", rows)

    def _record_failure(self, run: TrainingRun, stage: str, error: Exception) -> None:
        row = {"row": "failure", "stage": stage, "message": one_line(error)}
        self.results.add(stage, [row], run=run, failed=True)

    def _check_shutdown(self) -> None:
        if self._shutdown.signal:
            raise KeyboardInterrupt(f"progress is saved in {self.out}; run the same command again to resume")

    def _progress(self, activity: str, *, fraction: float = 0.0, message: str = "") -> StageProgress:
        return StageProgress(activity=activity, done=self._done, total=self._total, fraction=fraction, message=message)


def _chunks(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _check_folder(settings: ComparisonConfig, out: Path) -> Path | None:
    """The disk to write a new comparison to, or None if the same comparison was started; raise an error otherwise."""
    if (out / SETTINGS).exists():
        settings.check_unchanged(ComparisonConfig.load(out), out)
        return None
    return check_new_folder(out, ignored=[LOCK])
