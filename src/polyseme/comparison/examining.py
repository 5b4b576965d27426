"""Every family is asked the same, in as many processes beside each other as there are cores.

Small models are asked by one thread each: more would only wait for each other.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from polyseme.comparison import children
from polyseme.comparison.asking import ask
from polyseme.comparison.derived import Lexicon
from polyseme.comparison.docstring_tasks import docstring_tasks
from polyseme.comparison.labelled import Found, Task, bounded, find_tasks, write_task
from polyseme.comparison.learning import linear_rows, plan_steps, step_seconds, tuned_rows
from polyseme.comparison.measuring import measure_likelihood, measure_pairs, measure_senses, measure_words
from polyseme.comparison.panels import example_rows, neighbour_rows
from polyseme.comparison.preparing import RUNS
from polyseme.comparison.results import Row
from polyseme.comparison.settings import Bounds, ComparisonConfig
from polyseme.comparison.splitting import TEXT, Split, open_text
from polyseme.errors import PolysemeError, TrainingError
from polyseme.opening import load
from polyseme.pretrained import Pretrained
from polyseme.text.samples import SAMPLES, sample

_LEXICON = 1_000_000  # characters of the test text whose words are looked at
_LARGE = 20_000_000  # parameters, from which on several threads are quicker than one
_LOOK_SECONDS = 0.5
_CHILD = "from polyseme.comparison.examining import main; main(*sys.argv[1:])"

Ask = Callable[[Pretrained], Iterable[Row]]


class Examiner:
    """What is asked of all families alike."""

    def __init__(self, settings: ComparisonConfig, out: Path, given: Found, split: Split | None) -> None:
        """Choose it, by the text and the seed; and write down the labelled sets, as far as they are used."""
        self.settings, self.out = settings, out
        self.bounds, seed = Bounds.of(settings), settings.seed
        if split:
            documents = list(split.documents("test"))
        else:
            texts = open_text(settings.corpus, settings.column)
            documents = [(language, document) for language, corpus in texts.items() for document in corpus]
        self.lexicon = Lexicon.of((document for _, document in documents), most_characters=_LEXICON)
        self.questions = ask(documents, self.lexicon, given.suites, self.bounds, seed=seed)
        tasks = given.tasks
        if "docstrings" in settings.corpus and not settings.tasks:
            tasks = docstring_tasks((document for _, document in documents), seed=seed)
        self.tasks = [bounded(task, self.bounds.examples, seed=seed) for task in tasks]
        self.files = {task.name: write_task(task, out / "tasks" / task.name) for task in self.tasks}
        self._asked = self._stages()
        self._model: tuple[str, Pretrained] | None = None

    @classmethod
    def open(cls, out: Path) -> Self:
        """That of a comparison that has begun."""
        settings = ComparisonConfig.load(out)
        languages = tuple(open_text(settings.corpus, settings.column))
        split = None if settings.models else Split(folder=out / TEXT, languages=languages)
        return cls(settings, out, given_tasks(settings), split)

    @property
    def stages(self) -> list[str]:
        """The names of all that is asked."""
        return list(self._asked)

    @property
    def num_processes(self) -> int:
        """That ask beside each other."""
        return min(self.settings.cores, len(self._asked))

    def examine(self, name: str, stage: str) -> list[Row]:
        """What a family answers."""
        model = self.model(name)
        large = sum(weight.numel() for weight in model.encoder.parameters()) > _LARGE
        threads = self.settings.cores // self.num_processes if large and model.encoder.context != "none" else 1
        torch.set_num_threads(threads)
        return [in_order({**row, "family": name}) for row in self._asked[stage](model)]

    def model(self, name: str) -> Pretrained:
        """The model of a name; the last one is kept."""
        if self._model is None or self._model[0] != name:
            self._model = name, load(self.folder(name))
        return self._model[1]

    def folder(self, name: str) -> Path:
        """Where the model of a name is."""
        settings = self.settings
        return Path(settings.models[settings.names.index(name)]) if settings.models else self.out / RUNS / name

    def _stages(self) -> dict[str, Ask]:
        questions, settings = self.questions, self.settings
        seeds = range(settings.seed, settings.seed + settings.seeds)
        tuned = {f"{task.name}, fine-tuned": partial(self._tune, task=task, seeds=seeds) for task in self.tasks}
        linear = {
            f"{task.name}, linear": partial(linear_rows, task=task, labels=settings.labels, seeds=seeds)
            for task in self.tasks
        }
        return {
            **tuned,  # which takes longest
            **linear,
            "likelihood": partial(measure_likelihood, questions=questions),
            "minimal pairs": partial(measure_pairs, questions=questions),
            "words": partial(measure_words, questions=questions),
            "senses": partial(measure_senses, questions=questions),
            "neighbours": partial(neighbour_rows, questions=questions),
            "examples": partial(example_rows, questions=questions, seed=settings.seed),
        }

    def _tune(self, model: Pretrained, task: Task, seeds: Sequence[int]) -> Iterator[Row]:
        where: dict[str, Any] = {"threads": torch.get_num_threads(), "beside": self.out / f".tuning-{os.getpid()}.part"}
        told = model.folder, task, self.files[task.name]
        seconds = self.bounds.tuning_seconds / len(self.tasks) / len(seeds)
        steps = plan_steps(task, self.settings.labels, seconds=seconds, step_seconds=step_seconds(*told, **where))
        return tuned_rows(*told, steps_of=steps, seeds=seeds, **where)


def given_tasks(settings: ComparisonConfig) -> Found:
    """The labelled sets that a comparison is told of, or that the sample brings which it compares on."""
    towns = [path for path in settings.corpus if path.startswith("town") and path in SAMPLES]
    return find_tasks(settings.tasks or (str(sample(towns[0])) if towns else ""), seed=settings.seed)


class Examination:
    """Processes that ask, each of them one thing at a time; with one core it is done here."""

    def __init__(self, examiner: Examiner) -> None:
        self.examiner = examiner
        self._number = examiner.num_processes
        self._processes: list[subprocess.Popen[str]] = []  # all that were begun
        self._free: queue.SimpleQueue[subprocess.Popen[str] | None] = queue.SimpleQueue()  # nothing: it is over

    def answers(
        self, name: str, stages: Sequence[str]
    ) -> Generator[tuple[str, list[Row] | Exception | None], None, None]:
        """What a family answers, stage by stage in order; nothing, now and then, while that takes time."""
        if self._number == 1:
            for stage in stages:
                yield stage, None
                try:
                    yield stage, self.examiner.examine(name, stage)
                except Exception as error:  # one thing that fails does not lose the others
                    yield stage, error
            return
        with ThreadPoolExecutor(self._number) as pool:
            waiting = {stage: pool.submit(self._ask, name, stage) for stage in stages}
            try:
                for stage, answer in waiting.items():
                    while not answer.done():
                        self._tend()
                        yield stage, None
                        wait([answer], timeout=_LOOK_SECONDS)
                    yield stage, answer.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()  # so that nobody waits for them
                for _ in range(self._number):
                    self._free.put(None)
                raise

    def close(self) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.kill()
            process.wait()
        for pipe in (pipe for process in self._processes for pipe in (process.stdin, process.stdout) if pipe):
            with suppress(OSError):  # of something that was not said
                pipe.close()

    def _ask(self, name: str, stage: str) -> list[Row] | Exception:
        process = self._free.get()
        if process is None:
            return TrainingError("it was stopped before it was asked")
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):  # where it has gone, it says nothing
            process.stdin.write(json.dumps({"name": name, "stage": stage}) + "\n")
            process.stdin.flush()
        said = process.stdout.readline()
        if not said.endswith("\n"):
            return TrainingError("the process that asked was killed, perhaps because memory ran out")
        self._free.put(process)
        answer = json.loads(said)
        return TrainingError(answer["error"]) if "error" in answer else list(answer["rows"])

    def _tend(self) -> None:
        """Begin as many processes as there should be; in the thread that owns us, with which they die."""
        for _ in range(self._number - sum(process.poll() is None for process in self._processes)):
            self._processes.append(self._begin())
            self._free.put(self._processes[-1])

    def _begin(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            children.command(_CHILD, str(self.examiner.out)),
            env=children.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C comes to us
        )


def main(out: str) -> None:
    """What a process does that asks: answer each line with one."""
    from polyseme.machine import keep_freed_memory

    keep_freed_memory()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is said, even by libraries, goes where nobody takes it for an answer
    examiner = Examiner.open(Path(out))
    for line in sys.stdin:
        try:
            answer: Mapping[str, Any] = {"rows": examiner.examine(**json.loads(line))}
        except Exception as error:
            answer = {"error": one_line(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def in_order(row: Row) -> Row:
    """With its kind and its family first."""
    return {"row": row["row"], "family": row["family"], **row}


def one_line(error: Exception) -> str:
    """What an error says, with its kind where it is none of ours."""
    said = " ".join(str(error).split())
    return (said if isinstance(error, PolysemeError) else f"{type(error).__name__}: {said}")[:300]
