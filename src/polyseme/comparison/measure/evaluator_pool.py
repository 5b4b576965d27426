"""Evaluation of trained families, stage by stage, in as many worker processes as there are cores.

Small models are evaluated with one thread each: more threads would mostly wait for each other. Workers rebuild the
evaluation items from the folder of the comparison, so that only names are sent to them.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Self

import torch

from polyseme.comparison.config import ComparisonConfig, EvaluationBudget
from polyseme.comparison.measure.corpus_items import WordIndex
from polyseme.comparison.measure.datasets import (
    EvaluationData,
    LabelledDataset,
    find_datasets,
    subsample,
    write_dataset,
)
from polyseme.comparison.measure.docstring_tasks import docstring_tasks
from polyseme.comparison.measure.intrinsic import (
    measure_likelihood,
    measure_minimal_pairs,
    measure_senses,
    measure_words,
)
from polyseme.comparison.measure.items import build_items
from polyseme.comparison.measure.label_curves import FineTuner, plan_steps
from polyseme.comparison.measure.probes.probe_rows import linear_probe_rows, tfidf_rows
from polyseme.comparison.measure.qualitative import example_rows, neighbour_rows
from polyseme.comparison.measure.retrieval import measure_retrieval
from polyseme.comparison.rows import Row
from polyseme.comparison.train.planning import RUNS
from polyseme.datasets.builtin import SAMPLES, sample_folder
from polyseme.datasets.splits import TEXT_FOLDER, SplitCorpus, open_by_language
from polyseme.errors import PolysemeError
from polyseme.inference.capabilities import Capability
from polyseme.loading import load
from polyseme.pretrained import Pretrained
from polyseme.system.hardware import is_large_model
from polyseme.system.processes import WorkerPool
from polyseme.tasks.tfidf import FAMILY as TFIDF
from polyseme.tasks.tfidf import KINDS as TFIDF_KINDS

_INDEXED_CHARACTERS = 1_000_000  # of the test text

Stage = Callable[[Pretrained], Iterable[Row]]


class Evaluator:
    """The evaluation that all families share, and its stages."""

    def __init__(self, settings: ComparisonConfig, out: Path, data: EvaluationData, split: SplitCorpus | None) -> None:
        """Sample the evaluation items by the text and the seed, and write the labelled datasets."""
        self.settings, self.out = settings, out
        self.budget, seed = EvaluationBudget.of(settings), settings.seed
        if split:
            documents = list(split.documents("test"))
        else:
            corpora = open_by_language(settings.corpus, settings.column)
            documents = [(language, document) for language, corpus in corpora.items() for document in corpus]
        self.index = WordIndex.of((document for _, document in documents), most_characters=_INDEXED_CHARACTERS)
        self.items = build_items(documents, self.index, data.suites, self.budget, seed=seed)
        datasets = data.datasets
        if "docstrings" in settings.corpus and not settings.tasks:
            datasets = docstring_tasks((document for _, document in documents), seed=seed)
        self.datasets = [subsample(dataset, self.budget.examples, seed=seed) for dataset in datasets]
        self.files = {dataset.name: write_dataset(dataset, out / "tasks" / dataset.name) for dataset in self.datasets}
        self.stages, self.tfidf_stages = self._build_stages(), self._build_tfidf_stages()
        self._loaded: tuple[str, Pretrained] | None = None

    @classmethod
    def open(cls, out: Path) -> Self:
        """The evaluator of a comparison that was started."""
        settings = ComparisonConfig.load(out)
        languages = tuple(open_by_language(settings.corpus, settings.column))
        split = None if settings.models else SplitCorpus(folder=out / TEXT_FOLDER, languages=languages)
        return cls(settings, out, find_evaluation_data(settings), split)

    @property
    def num_processes(self) -> int:
        """Processes that evaluate in parallel."""
        return min(self.settings.cores, len(self.stages))

    def stages_of(self, run: str) -> Sequence[str]:
        """The names of the stages of a run, or of the TF-IDF baseline."""
        return list(self.tfidf_stages if run == TFIDF else self.stages)

    def evaluate(self, run: str, stage: str) -> list[Row]:
        """The result rows of a run, or of the TF-IDF baseline, in a stage."""
        if run == TFIDF:
            return list(self.tfidf_stages[stage]())
        model = self.model(run)
        large = is_large_model(sum(weight.numel() for weight in model.encoder.parameters()))
        threads = self.settings.cores // self.num_processes if large and model.encoder.context != "none" else 1
        torch.set_num_threads(threads)
        return list(self.stages[stage](model))

    def model(self, run: str) -> Pretrained:
        """The model of a run; the last one stays in memory."""
        if self._loaded is None or self._loaded[0] != run:
            self._loaded = run, load(self.folder(run))
        return self._loaded[1]

    def folder(self, run: str) -> Path:
        """The model directory of a run."""
        models = self.settings.models
        return Path(models[self.settings.names.index(run)]) if models else self.out / RUNS / run

    def _build_stages(self) -> dict[str, Stage]:
        items, settings = self.items, self.settings
        seeds = range(settings.seed, settings.seed + settings.seeds)
        fine_tuning = partial(self._finetune, seeds=seeds)
        probe = partial(linear_probe_rows, labels=settings.labels, seeds=seeds)
        return {
            # Fine-tuning takes longest.
            **{f"{one.name}, fine-tuning": _with("embed", partial(fine_tuning, dataset=one)) for one in self.datasets},
            **{f"{one.name}, linear probe": _with("embed", partial(probe, dataset=one)) for one in self.datasets},
            "likelihood": _with("score", partial(measure_likelihood, items=items)),
            "minimal pairs": _with("score", partial(measure_minimal_pairs, items=items)),
            "word similarity": _with("neighbours", partial(measure_words, items=items)),
            "word senses": _with("senses", partial(measure_senses, items=items)),
            "retrieval": _with("embed", partial(measure_retrieval, sets=items.retrieval)),
            "neighbours": _with("neighbours", partial(neighbour_rows, items=items)),
            "examples": partial(example_rows, items=items, seed=settings.seed),
        }

    def _build_tfidf_stages(self) -> dict[str, Callable[[], Iterable[Row]]]:
        settings = self.settings
        seeds = range(settings.seed, settings.seed + settings.seeds)
        rows = partial(tfidf_rows, labels=settings.labels, seeds=seeds)
        return {f"{one.name}, linear probe": partial(rows, one) for one in self.datasets if one.kind in TFIDF_KINDS}

    def _finetune(self, model: Pretrained, dataset: LabelledDataset, seeds: Sequence[int]) -> Iterator[Row]:
        tuner = FineTuner(
            model=model.folder,
            dataset=dataset,
            files=self.files[dataset.name],
            threads=torch.get_num_threads(),
            folder=self.out / f".finetuning-{os.getpid()}.part",
        )
        seconds = self.budget.finetuning_seconds
        if seconds is not None:
            seconds /= len(self.datasets) * len(seeds)
        steps = plan_steps(dataset, self.settings.labels, seconds=seconds, step_seconds=tuner.step_seconds)
        return tuner.rows(steps, seeds)


def _with(capability: Capability, stage: Stage) -> Stage:
    """A stage that has no rows for models without a capability."""
    return lambda model: stage(model) if capability in model.capabilities else ()


def find_evaluation_data(settings: ComparisonConfig) -> EvaluationData:
    """The labelled datasets and suites of --tasks, or those that belong to the built-in sample being compared on."""
    towns = [path for path in settings.corpus if path.startswith("town") and path in SAMPLES]
    return find_datasets(settings.tasks or (str(sample_folder(towns[0])) if towns else ""), seed=settings.seed)


def open_evaluator(out: str) -> Callable[[str, str], list[Row]]:
    """The handler of requests in a worker process."""
    return Evaluator.open(Path(out)).evaluate


class EvaluatorPool:
    """Worker processes that evaluate one stage each at a time; with one core, this process does it."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        size = evaluator.num_processes
        self.workers = WorkerPool(f"{__name__}:open_evaluator", str(evaluator.out), size=size) if size > 1 else None

    def evaluate(
        self, run: str, stages: Sequence[str]
    ) -> Generator[tuple[str, list[Row] | Exception | None], None, None]:
        """Yield (stage, rows or exception) in order, and (stage, None) while that takes time."""
        if self.workers is None:
            for stage in stages:
                yield stage, None
                try:
                    yield stage, self.evaluator.evaluate(run, stage)
                except Exception as error:  # the other stages continue
                    yield stage, error
            return
        requests = [{"run": run, "stage": stage} for stage in stages]
        with closing(self.workers.run(requests)) as answers:
            for number, answer in answers:
                yield stages[number], answer

    def close(self) -> None:
        """Kill the workers."""
        if self.workers is not None:
            self.workers.close()


def one_line(error: Exception) -> str:
    """The message of an error on one line, with its class if it is not one of the project's."""
    message = " ".join(str(error).split())
    return (message if isinstance(error, PolysemeError) else f"{type(error).__name__}: {message}")[:300]
