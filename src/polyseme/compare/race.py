"""Families are trained one after another on one text with one budget, and asked the same questions."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Self

import torch

from polyseme.compare.derived import Lexicon, pseudo_words, word_forms, word_order
from polyseme.compare.docstring_tasks import docstring_tasks
from polyseme.compare.labelled import Found, Task, bounded, find_tasks, write_task
from polyseme.compare.learning import linear_rows, plan_steps, step_seconds, tuned_rows
from polyseme.compare.measuring import (
    Questions,
    choose_sentences,
    choose_texts,
    disk_bytes,
    embedding_seconds,
    given_pairs,
    given_words,
    measure_likelihood,
    measure_pairs,
    measure_senses,
    measure_words,
    scale_of,
)
from polyseme.compare.pacing import find_pace
from polyseme.compare.panels import choose_prompts, example_rows, find_ambiguous, map_row, neighbour_rows
from polyseme.compare.report import write_report
from polyseme.compare.results import Results, Row
from polyseme.compare.settings import SETTINGS, Bounds, ComparisonConfig
from polyseme.compare.sizing import Chosen, choose, count_parameters
from polyseme.compare.splitting import Split, check_size, count_sides, open_text, position, split_text
from polyseme.compare.training import Ended, Job, train
from polyseme.errors import CheckpointError, PolysemeError
from polyseme.files import remove_leavings, require_space
from polyseme.machine import available_memory, num_cores, processor
from polyseme.opening import load
from polyseme.pretrained import Pretrained
from polyseme.text.languages import split_name
from polyseme.text.samples import SAMPLES, sample
from polyseme.train.recipe import Recipe
from polyseme.train.run import lock_folder, read_history
from polyseme.train.signals import interruptible

LOCK = "comparison.lock"
DEFAULT_FAMILIES = ("onehot", "svd", "skipgram", "elmo", "bert", "gpt2")

_ONE_THREAD = ("cbow", "skipgram", "glove")  # whose threads wait for nobody, so that only one gives the same twice
_LEXICON = 1_000_000  # characters of the test text whose words are looked at
_MORE = 2_000_000  # of the text to learn from, for words to show
_FREQUENT, _PROMPTS, _SHOWN = 6, 3, 4
_LARGE = 20_000_000  # parameters, from which on several threads are quicker than one
_STATIC_BYTES, _NETWORK_BYTES = 24, 40  # of a run, for each parameter: a model, and checkpoints with moments


def compare(
    *models: str | Path,
    corpus: str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    out: str | Path,
    families: Sequence[str] = (),
    **settings: Any,
) -> Path:
    """Train families on one text with one budget, or take models that are there, and write a report that says which.

    The settings are those of `ComparisonConfig`: budget, size, params, tasks, labels, seeds, seed, parallel and others.
    The same call goes on with what was broken off. The path of the report comes back.
    """
    if isinstance(corpus, Mapping):
        paths = [f"{language}={path}" for language, path in corpus.items()]
    else:
        paths = [str(corpus)] if isinstance(corpus, str | Path) else [str(path) for path in corpus]
    told = {"corpus": paths, "models": [str(model) for model in models], "families": list(families), **settings}
    if not models and not families:
        told["families"] = list(DEFAULT_FAMILIES)
    race = Race.open(told, Path(out))
    for _ in race.run():
        pass
    return race.report


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is done now, and how far it is."""

    what: str
    done: int  # pieces of work
    total: int
    share: float = 0.0  # of this piece
    news: str = ""  # something that is worth a line of its own


class Race:
    """A comparison and its folder; iterate over `run` and it trains, measures and writes down."""

    def __init__(self, settings: ComparisonConfig, out: Path, lock: IO[str], given: Found, command: str) -> None:
        self.settings, self.out, self.command = settings, out, command
        self.bounds = Bounds.of(settings)
        self.given = given
        self.results = Results(out)
        self.report = out / "report.md"
        self._lock = lock
        self._finished = 0

    @classmethod
    def open(cls, values: Mapping[str, Any], out: Path, *, command: str = "") -> Self:
        """Check all that can be checked before anything is trained, and take the folder."""
        settings = ComparisonConfig.parse({"cores": num_cores(), **values}, group="compare")
        settings.check()
        settings = settings.replace(
            corpus=[_absolute(path) for path in settings.corpus],
            models=[str(Path(path).absolute()) for path in settings.models],
            tasks=settings.tasks and str(Path(settings.tasks).absolute()),
        )
        given = find_tasks(settings.tasks or _own_tasks(settings.corpus), seed=settings.seed)
        texts = open_text(settings.corpus, settings.column)
        prints = [f"{language} {corpus.fingerprint()}" for language, corpus in texts.items()]
        settings = settings.replace(fingerprint=hashlib.sha256("\n".join(prints).encode()).hexdigest()[:32])
        began = _take_up(settings, out)
        if not began:
            for language, corpus in texts.items():
                check_size(language, corpus)
            place = next(place for place in [out.absolute(), *out.absolute().parents] if place.exists())
            require_space(place, 2 * sum(corpus.num_bytes for corpus in texts.values()), CheckpointError)
        for model in settings.models:
            load(model)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{out} cannot be made ({error.strerror}); choose another --out") from None
        lock = lock_folder(out, LOCK)
        remove_leavings(out)
        if not began:
            settings.save(out)
        return cls(settings, out, lock, given, command)

    def run(self) -> Iterator[Progress]:
        """Do what is not done yet, piece by piece."""
        try:
            with interruptible() as self._interruption:
                yield from self._prepare()
                names = self.settings.names
                parallel = 1 if self.settings.models else self.settings.parallel
                for first in range(0, len(names), parallel):
                    group = names[first : first + parallel]
                    if not self.settings.models:
                        yield from self._train([name for name in group if (name, "training") not in self.results.done])
                    for name in group:
                        yield from self._measure(name)
                yield from self._compare_senses()
                yield self._progress("writing the report")
                self.report = write_report(self.out)
        finally:
            self._lock.close()

    # What all families have in common.

    def _prepare(self) -> Iterator[Progress]:
        settings = self.settings
        yield self._progress("dividing the text")
        texts = open_text(settings.corpus, settings.column)
        if settings.models:
            self.split: Split | None = None
            documents = [(language, document) for language, corpus in texts.items() for document in corpus]
        else:
            self.split = split_text(texts, self.out / "text", dev_characters=self.bounds.dev_characters)
            documents = list(self.split.documents("test"))
        yield self._progress("choosing what to ask")
        self.lexicon = Lexicon.of((document for _, document in documents), most_characters=_LEXICON)
        self.questions = self._ask(documents)
        tasks = self.given.tasks
        if "docstrings" in settings.corpus and not settings.tasks:
            tasks = docstring_tasks((document for _, document in documents), seed=settings.seed)
        sizes = {
            "train": self.bounds.train_examples,
            "dev": self.bounds.dev_examples,
            "test": self.bounds.test_examples,
        }
        self.tasks = [bounded(task, sizes, seed=settings.seed) for task in tasks]
        self.files = {task.name: write_task(task, self.out / "tasks" / task.name) for task in self.tasks}
        self.chosen: dict[str, Chosen] = {}
        if not settings.models:
            for family in settings.families:
                yield self._progress(f"finding the pace of {family}")
                self.chosen[family] = self._choose(family)
            self._check_room()
        self.total = 1 + sum(len(self._stages(name)) + 1 for name in settings.names) + 1
        if ("", "comparison") not in self.results.done:
            self.results.add("comparison", [self._describe()])
        self._finished = 1

    def _ask(self, documents: Sequence[tuple[str, str]]) -> Questions:
        bounds, seed, lexicon, suites = self.bounds, self.settings.seed, self.lexicon, self.given.suites
        frequent = lexicon.content_words(least=5, most=_FREQUENT)
        prompts, blanks = choose_prompts(lexicon, frequent, number=_PROMPTS, seed=seed)
        order, forms = word_order(lexicon, most=bounds.num_pairs, seed=seed), word_forms(lexicon, seed=seed)
        return Questions(
            texts=choose_texts(documents, most=bounds.scored_characters),
            sentences=choose_sentences(lexicon),
            pairs=[
                *given_pairs(suites.get("minimal-pairs", ()), most=2 * bounds.num_pairs, seed=seed),
                *([("word order", [order])] if order else ()),
            ],
            words=[*given_words(suites.get("words", ())), *([forms] if forms else ())],
            pseudo_words=pseudo_words(lexicon, most=bounds.num_pseudo_words, seed=seed),
            senses=list(suites.get("senses", ())),
            prompts=prompts,
            blanks=blanks,
            frequent=frequent,
        )

    def _describe(self) -> Row:
        settings = self.settings
        sides = count_sides(self.split) if self.split else {}
        counts = {
            what: {side: getattr(found, what) for side, found in sides.items()}
            for what in ("documents", "characters", "words")
        }
        return {
            "row": "comparison",
            "corpus": " ".join(_called(path) for path in settings.corpus),
            **({what: found for what, found in counts.items() if found}),
            "budget": settings.budget if settings.families else None,
            "processor_seconds": settings.processor_seconds if settings.families else None,
            "cores": settings.cores,
            "seeds": settings.seeds,
            "families": list(settings.names),
            "scored_characters": self.questions.num_characters,
            "scored_sha256": self.questions.sha256,
            "machine": {"processor": processor(), "threads": num_cores(), "memory_bytes": _memory()},
            "versions": {
                "polyseme": version("polyseme"),
                "torch": version("torch"),
                "python": platform.python_version(),
            },
            "date": datetime.date.today().isoformat(),
            "command": self.command or shlex.join(["polyseme", "compare", *_options(settings, self.out)]),
            "tasks": [task.describe() for task in self.tasks],
        }

    # Training.

    def _recipe(self, family: str, size: str, budget: str = "") -> Recipe:
        assert self.split is not None
        return Recipe.preset(
            family,
            size,
            [f"plan.threads={self._threads(family)}"],
            recipe=self.settings.recipe,
            data={"corpus": self.split.named("train"), "dev": self.split.named("dev")},
            plan={"seed": self.settings.seed} | ({"budget": budget} if budget else {}),
        )

    def _threads(self, family: str) -> int:
        return 1 if family in _ONE_THREAD else self.settings.threads

    def _choose(self, family: str) -> Chosen:
        recipe_of = partial(self._recipe, family)
        seconds = self.settings.processor_seconds or 0.0
        paces: dict[str, Any] = {}

        def pace_of(size: str) -> Any:
            if size not in paces:
                recipe = recipe_of(size)
                paces[size] = find_pace(recipe, fingerprint=self.settings.fingerprint, seconds=seconds)
            return paces[size]

        return choose(family, self.settings, pace_of, recipe_of)

    def _check_room(self) -> None:
        """Refuse what the disk cannot hold."""
        needed = 0
        for family, chosen in self.chosen.items():
            if (family, "training") in self.results.done:
                continue
            recipe = self._recipe(family, chosen.size)
            parameters = chosen.pace.parameters if chosen.pace else count_parameters(recipe)
            needed += parameters * (_NETWORK_BYTES if recipe.objective.by_gradient else _STATIC_BYTES)
        require_space(self.out, needed, CheckpointError)

    def _job(self, family: str) -> Job:
        assert self.split is not None
        chosen, settings = self.chosen[family], self.settings
        by_itself = self._recipe(family, chosen.size).objective.whole_text
        budget = f"{chosen.steps}steps" if chosen.steps else "" if by_itself else settings.budget
        arguments = ["pretrain", family]
        for side, option in (("train", "--corpus"), ("dev", "--dev")):
            arguments += [part for path in self.split.named(side) for part in (option, path)]
        arguments += ["--size", chosen.size, *(["--budget", budget] if budget else []), "--seed", str(settings.seed)]
        if settings.recipe != "fast":
            arguments += ["--recipe", settings.recipe]
        arguments += ["--set", f"plan.threads={self._threads(family)}", "--out", str(self.out / "runs" / family)]
        return Job(
            name=family,
            arguments=arguments,
            folder=self.out / "runs" / family,
            log=self.out / "runs" / f"{family}.log",
        )

    def _train(self, families: Sequence[str]) -> Iterator[Progress]:
        jobs = [self._job(family) for family in families]
        for event in train(jobs, self._interruption):
            if isinstance(event, Ended):
                self._stop_if_asked()
                if event.failure:
                    self._fail(event.job.name, "training", event.failure)
                    yield self._progress(f"{event.job.name} failed", news=f"{event.job.name}: {event.failure}")
                    continue
                try:
                    rows = self._trained(event)
                except Exception as error:  # the others go on, whatever it is
                    self._fail(event.job.name, "training", _one_line(error))
                    continue
                self.results.add("training", rows, family=event.job.name)
                self._finished += 1
                row = rows[0]
                spent = row.get("processor_seconds", 0.0)
                yield self._progress(
                    f"{event.job.name} is trained",
                    news=f"{event.job.name} {row.get('size', '')}: {row['steps']:,} steps, {spent:.0f} processor seconds",
                )
            else:
                steps = self.chosen[event.job.name].steps
                share = event.step / steps if steps else 0.0
                yield self._progress(f"training {event.job.name}", share=share)

    def _trained(self, ended: Ended) -> list[Row]:
        """The row of a family that has been trained, and its learning curve."""
        folder, family = ended.job.folder, ended.job.name
        model, chosen = load(folder), self.chosen[family]
        self._model = family, model
        row = self._facts(family, model, folder) | {
            "size": chosen.size,
            "rule": chosen.rule,
            "preparation_seconds": round(chosen.pace.preparation, 2) if chosen.pace else None,
            "peak_bytes": ended.peak_bytes,
            "command": ended.job.command,
            "directory": f"runs/{family}",
        }
        points = self._curve(model, folder)
        return [row, *([{"row": "curve", "family": family, "points": points}] if points else ())]

    def _facts(self, name: str, model: Pretrained, folder: Path) -> Row:
        """What there is to say of any model."""
        row: Row = {
            "row": "family",
            "family": name,
            "kind": model.family,
            "context": model.encoder.context,
            "parameters": sum(weight.numel() for weight in model.encoder.parameters()),
            "disk_bytes": disk_bytes(folder),
            "embedding_seconds": embedding_seconds(model, self.questions.sentences, threads=self.settings.cores),
        }
        rows = read_history(folder) if folder.is_dir() else []
        if rows and isinstance(model.recipe, Recipe):
            last = rows[-1]
            tokens = self._tokens_of(model)
            row |= {
                "steps": last["step"],
                "tokens": last["tokens"],
                "epochs": round(last["tokens"] / tokens, 3) if tokens else None,
                "tokens_per_second": round(last["tokens"] / max(1e-9, last["seconds"])),
                "processor_seconds": last.get("processor_seconds"),
                "seconds": last["seconds"],
                "ends": "by itself" if model.recipe.objective.whole_text else "budget",
            }
        return row

    def _tokens_of(self, model: Pretrained) -> int | None:
        """How long the text is in the tokens of a model."""
        chosen = self.chosen.get(model.family)
        if chosen and chosen.pace:
            return chosen.pace.corpus_tokens
        if self.split is None or model.tokenizer is None:
            return None
        some, characters, tokens = 200_000, 0, 0
        for _, document in self.split.documents("train"):
            tokens += len(model.tokenizer.encode(document, specials=False).ids)
            characters += len(document)
            if characters > some:
                break
        whole = sum(len(document) for _, document in self.split.documents("train"))
        return round(tokens / max(1, characters) * whole)

    def _curve(self, model: Pretrained, folder: Path) -> list[Row]:
        """What looks at the dev text found on the way."""
        import math

        scale = scale_of(model)
        looks = [row for row in read_history(folder) if row.get("dev")]
        if scale is None or not looks or self.split is None:
            return []
        a_character = 0.0
        if scale == "masked" and model.tokenizer is not None:
            texts = [document for _, document in self.split.documents("dev")]
            tokens = sum(len(ids) for ids in model.tokenizer.encode_ids(texts))
            a_character = tokens / max(1, sum(map(len, texts))) / math.log(2)
        points = []
        for row in looks:
            dev = row["dev"]
            bits = dev["masked"] * a_character if scale == "masked" else dev.get("bits_per_character")
            if bits is not None:
                seconds = row.get("processor_seconds", row["seconds"])
                points.append(
                    {"processor_seconds": seconds, "tokens": row["tokens"], "bits_per_character": bits, "scale": scale}
                )
        return points

    # Measuring.

    def _stages(self, name: str) -> dict[str, Callable[[Pretrained], Iterable[Row]]]:
        """What a model is asked, by name."""
        questions, settings = self.questions, self.settings
        seeds = range(settings.seed, settings.seed + settings.seeds)
        stages: dict[str, Callable[[Pretrained], Iterable[Row]]] = {
            "likelihood": partial(measure_likelihood, questions=questions),
            "minimal pairs": partial(measure_pairs, questions=questions),
            "words": partial(measure_words, questions=questions),
            "senses": partial(measure_senses, questions=questions),
            "neighbours": partial(neighbour_rows, questions=questions),
            "examples": partial(example_rows, questions=questions, seed=settings.seed),
        }
        for task in self.tasks:
            stages[f"{task.name}, linear"] = partial(linear_rows, task=task, labels=settings.labels, seeds=seeds)
            stages[f"{task.name}, fine-tuned"] = partial(self._tune, name=name, task=task, seeds=seeds)
        return stages

    def _tune(self, model: Pretrained, name: str, task: Task, seeds: Sequence[int]) -> Iterator[Row]:
        settings = self.settings
        where: dict[str, Any] = {"threads": self._asking(model), "beside": self.out / ".tuning.part"}
        told = self._folder(name), task, self.files[task.name]
        seconds = self.bounds.tuning_seconds / len(self.tasks) / len(seeds)
        steps = plan_steps(task, settings.labels, seconds=seconds, step_seconds=step_seconds(*told, **where))
        return tuned_rows(*told, steps_of=steps, seeds=seeds, **where)

    def _folder(self, name: str) -> Path:
        if self.settings.models:
            return Path(self.settings.models[self.settings.names.index(name)])
        return self.out / "runs" / name

    def _asking(self, model: Pretrained) -> int:
        """Threads by which a model is asked: of small ones they would only wait for each other."""
        parameters = sum(weight.numel() for weight in model.encoder.parameters())
        return self.settings.cores if parameters > _LARGE and model.encoder.context != "none" else 1

    _model: tuple[str, Pretrained] | None = None

    def _open(self, name: str) -> Pretrained:
        """The model of a name; the last one is kept."""
        if self._model is None or self._model[0] != name:
            self._model = name, load(self._folder(name))
        return self._model[1]

    def _measure(self, name: str) -> Iterator[Progress]:
        if self.settings.models and (name, "training") not in self.results.done:
            yield self._progress(f"opening {name}")
            model = self._open(name)
            row = self._facts(name, model, self._folder(name))
            row |= {"directory": str(self._folder(name)), "overlap": self._overlap(model)}
            self.results.add("training", [row], family=name)
        if (name, "training") not in self.results.done:
            return  # it failed
        for stage, ask in self._stages(name).items():
            self._finished += 1
            if (name, stage) in self.results.done:
                continue
            yield self._progress(f"{name}: {stage}")
            self._stop_if_asked()
            try:
                torch.set_num_threads(self._asking(self._open(name)))
                rows = [{**row, "family": name} for row in ask(self._open(name))]
                rows = [row for row in rows if row["row"] != "figure" or row["value"] is not None]
            except Exception as error:  # one thing that fails does not lose the others
                self._fail(name, stage, _one_line(error))
                yield self._progress(f"{name}: {stage}", news=f"{name}, {stage}: {_one_line(error)}")
                continue
            self.results.add(stage, [_in_order(row) for row in rows], family=name)

    def _overlap(self, model: Pretrained) -> float | None:
        """The share of documents here that a model has learnt from, as far as its recipe tells."""
        if not isinstance(model.recipe, Recipe) or model.recipe.objective.uses_pairs:
            return None
        try:
            learnt = open_text(model.recipe.data.corpus, model.recipe.data.column)
            known = {position(document) for corpus in learnt.values() for document in corpus}
        except PolysemeError:
            return None
        texts = open_text(self.settings.corpus, self.settings.column)
        here = [position(document) in known for corpus in texts.values() for document in corpus]
        return sum(here) / max(1, len(here))

    # What is shown of all families together.

    def _compare_senses(self) -> Iterator[Progress]:
        self._stop_if_asked()
        rows = {row["family"]: row for row in self.results.rows if row["row"] == "family"}
        reading = [name for name, row in rows.items() if row["context"] != "none"]
        if not reading or ("", "ambiguous") in self.results.done:
            return
        figures = {name: self.results.find("figure", family=name, measure="senses") for name in rows}
        worth = {name: (figure or {}).get("value", 0.0) for name, figure in figures.items()}
        by = max(reading, key=worth.__getitem__)
        yield self._progress(f"looking for ambiguous words with {by}")
        documents = (document for _, document in self.split.documents("train")) if self.split else ()
        lexicon = self.lexicon
        if self.split:
            tested = (document for _, document in self.split.documents("test"))
            lexicon = Lexicon.of((text for side in (tested, documents) for text in side), most_characters=_MORE)

        def layer_of(name: str) -> int:
            widths = len(self._open(name).encoder.widths)
            return min(int((figures[name] or {}).get("layer", widths - 1)), widths - 1)

        found = find_ambiguous(self._open(by), lexicon, layer_of(by), seed=self.settings.seed)
        if not found:
            return
        row: Row = {
            "row": "ambiguous",
            "words": [
                {"word": one.word, "spread": one.spread, "apart": one.score, "count": one.count} for one in found[:20]
            ],
            "by": by,
            "how": "frequent words whose occurrences fall into two groups that are farthest apart in the layer "
            f"of {by} that tells senses best",
        }
        new = [row]
        for name in rows:
            yield self._progress(f"maps of {name}")
            for one in found[:_SHOWN]:
                new.append(_in_order({**map_row(self._open(name), one, layer_of(name)), "family": name}))
        self.results.add("ambiguous", new)

    def _fail(self, name: str, stage: str, message: str) -> None:
        row = {"row": "failure", "family": name, "stage": stage, "message": message}
        self.results.add(stage, [row], family=name, failed=True)
        self.results.done.discard((name, stage))

    def _stop_if_asked(self) -> None:
        if self._interruption.signal:
            raise KeyboardInterrupt(f"saved; the same command goes on with {self.out}")

    def _progress(self, what: str, *, share: float = 0.0, news: str = "") -> Progress:
        total = getattr(self, "total", 0)
        return Progress(what=what, done=self._finished, total=total, share=share, news=news)


def _take_up(settings: ComparisonConfig, out: Path) -> bool:
    """Whether a comparison began here, the same as this; anything else in the folder is refused."""
    if (out / SETTINGS).exists():
        settings.refuse_other(ComparisonConfig.load(out), out)
        return True
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"{out} is a file; choose another --out")
    if out.is_dir() and any(path.name != LOCK and path.suffix != ".part" for path in out.iterdir()):
        raise CheckpointError(f"{out} holds something else; choose another --out")
    place = next(place for place in [out.absolute(), *out.absolute().parents] if place.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise CheckpointError(f"{out} cannot be made: {place} is no folder to write in; choose another --out")
    return False


def _own_tasks(corpus: Sequence[str]) -> str:
    """The folder of a sample that brings labelled sets."""
    towns = [path for path in corpus if path.startswith("town") and path in SAMPLES]
    return str(sample(towns[0])) if towns else ""


def _absolute(path: str) -> str:
    language, alone = split_name(path)
    whole = alone if alone in SAMPLES and not Path(alone).exists() else str(Path(alone).absolute())
    return f"{language}={whole}" if language else whole


def _called(path: str) -> str:
    language, alone = split_name(path)
    return f"{language}={Path(alone).name}" if language else Path(alone).name


def _options(settings: ComparisonConfig, out: Path) -> list[str]:
    """The command line of some settings, without those that are as they would be anyway."""
    usual = ComparisonConfig(corpus=settings.corpus, families=settings.families, cores=settings.cores)
    options = [*settings.models, *(part for path in settings.corpus for part in ("--corpus", path))]
    if settings.families:
        options += ["--families", ",".join(settings.families), "--budget", settings.budget]
    for name in ("column", "size", "params", "recipe", "tasks", "seeds", "seed", "parallel"):
        if getattr(settings, name) != getattr(usual, name):
            options += [f"--{name}", str(getattr(settings, name))]
    if settings.labels != usual.labels:
        options += ["--labels", ",".join(str(number or "all") for number in settings.labels)]
    return [*options, "--out", str(out)]


def _in_order(row: Row) -> Row:
    """With its kind and its family first."""
    return {"row": row["row"], "family": row["family"], **row}


def _one_line(error: Exception) -> str:
    said = " ".join(str(error).split())
    return (said if isinstance(error, PolysemeError) else f"{type(error).__name__}: {said}")[:300]


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return available_memory()
