"""Families are trained one after another on one text with one budget, and asked the same questions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

from polyseme.comparison.ambiguity import HOW, find_ambiguous
from polyseme.comparison.derived import Lexicon
from polyseme.comparison.examining import Examination, Examiner, given_tasks, in_order, one_line
from polyseme.comparison.facts import command_of, comparison_row, count_tokens, curve, family_row, overlap
from polyseme.comparison.labelled import Found
from polyseme.comparison.measuring import ambiguous_words
from polyseme.comparison.panels import map_row
from polyseme.comparison.preparing import RUNS, Starter
from polyseme.comparison.report import write_report
from polyseme.comparison.results import Results, Row
from polyseme.comparison.settings import SETTINGS, Bounds, ComparisonConfig
from polyseme.comparison.sizing import Chosen
from polyseme.comparison.splitting import TEXT, Split, check_size, open_text, split_text
from polyseme.comparison.training import Ended, train
from polyseme.errors import CheckpointError, TrainingError
from polyseme.files import remove_leavings, require_space
from polyseme.machine import num_cores
from polyseme.opening import load
from polyseme.text.languages import split_name
from polyseme.text.samples import SAMPLES
from polyseme.train.recipe import Recipe
from polyseme.train.run import lock_folder
from polyseme.train.signals import Interruption, interruptible

LOCK = "comparison.lock"
DEFAULT_FAMILIES = ("onehot", "svd", "skipgram", "elmo", "bert", "gpt2")

_MORE = 2_000_000  # with the text to learn from, for words that are only shown
_MAPPED, _LISTED = 4, 20  # ambiguous words


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
    named = list(families) or ([] if models else list(DEFAULT_FAMILIES))
    told = {"corpus": paths, "models": [str(model) for model in models], "families": named}
    race = Race.open({**settings, **told}, Path(out))
    for _ in race.run():
        pass
    return race.report


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is done now, and how far it is."""

    what: str
    done: int  # pieces of work
    total: int  # 0 where that is not known yet
    share: float = 0.0  # of this piece
    news: str = ""  # something that is worth a line of its own


class Race:
    """A comparison and its folder; iterate over `run` and it trains, measures and writes down."""

    def __init__(self, settings: ComparisonConfig, out: Path, lock: IO[str], given: Found, command: str) -> None:
        self.settings, self.out, self.command = settings, out, command or command_of(settings, out)
        self.given = given
        self.results = Results(out)
        self.report = out / "report.md"
        self.chosen: dict[str, Chosen] = {}
        self._lock = lock
        self._interruption = Interruption()
        self._examination: Examination | None = None
        self._finished = self._total = 0

    @classmethod
    def open(cls, values: Mapping[str, Any], out: Path, *, command: str = "") -> Self:
        """Check all that can be checked before anything is tried, and take the folder."""
        settings = ComparisonConfig.parse({"cores": num_cores(), **values}, group="compare")
        settings.check()
        for name in settings.corpus:
            if split_name(name)[1] in SAMPLES and Path(split_name(name)[1]).absolute() == out.absolute():
                raise CheckpointError(f"--out {out} would hide the sample of that name; choose another --out")
        settings = settings.replace(
            corpus=[_absolute(path) for path in settings.corpus],
            models=[str(Path(path).absolute()) for path in settings.models],
            tasks=settings.tasks and str(Path(settings.tasks).absolute()),
        )
        texts = open_text(settings.corpus, settings.column)
        prints = [f"{language} {corpus.fingerprint()}" for language, corpus in texts.items()]
        settings = settings.replace(fingerprint=hashlib.sha256("\n".join(prints).encode()).hexdigest()[:32])
        place = _take(settings, out)
        given = given_tasks(settings)
        if place is not None and settings.families:
            for language, corpus in texts.items():
                check_size(language, corpus)
            require_space(place, 2 * sum(corpus.num_bytes for corpus in texts.values()), CheckpointError)
        for model in settings.models:
            load(model)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{out} cannot be made ({error.strerror}); choose another --out") from None
        lock = lock_folder(out, LOCK)
        remove_leavings(out)
        if place is not None:
            settings.save(out)
        return cls(settings, out, lock, given, command)

    def run(self) -> Iterator[Progress]:
        """Do what is not done yet, piece by piece."""
        try:
            with interruptible() as self._interruption:
                yield from self._prepare()
                for group in self._side_by_side():
                    yield from self._train([name for name in group if (name, "training") not in self.results.done])
                    for name in group:
                        yield from self._measure(name)
                yield from self._look_together()
                yield self._progress("writing the report")
                self.report = write_report(self.out)
        finally:
            if self._examination:
                self._examination.close()
            self._lock.close()

    # What all families have in common.

    @cached_property
    def split(self) -> Split | None:
        """The sides of the text; where nothing is trained there are none."""
        texts = open_text(self.settings.corpus, self.settings.column)
        if self.settings.models:
            return None
        return split_text(texts, self.out / TEXT, dev_characters=Bounds.of(self.settings).dev_characters)

    @cached_property
    def starter(self) -> Starter:
        assert self.split is not None
        return Starter(settings=self.settings, split=self.split, out=self.out)

    def _prepare(self) -> Iterator[Progress]:
        settings = self.settings
        yield self._progress("dividing the text")
        split = self.split
        yield self._progress("choosing what to ask")
        self.examiner = Examiner(settings, self.out, self.given, split)
        self._examination = Examination(self.examiner)
        for families in _groups(settings.families, settings.parallel):
            self._stop_if_asked()
            yield self._progress(f"finding the pace of {', '.join(families)}")
            self.chosen |= self.starter.choose(families, self._interruption)
        if settings.families:
            waiting = {name: one for name, one in self.chosen.items() if (name, "training") not in self.results.done}
            self.starter.check_room(waiting)
        self._total = 2 + len(settings.names) * (1 + len(self.examiner.stages))
        if ("", "comparison") not in self.results.done:
            row = comparison_row(settings, split, self.examiner.questions, self.examiner.tasks, self.command)
            self.results.add("comparison", [row])
        self._finished = 1

    def _side_by_side(self) -> list[Sequence[str]]:
        """Groups of families that are trained together; those that end by themselves would leave the others alone."""
        early = [name for name, one in self.chosen.items() if one.pace and one.steps == one.pace.own_steps]
        others = [name for name in self.settings.names if name not in early]
        return [*_groups(early, self.settings.parallel), *_groups(others, self.settings.parallel)]

    # Training.

    def _train(self, names: Sequence[str]) -> Iterator[Progress]:
        if self.settings.models:
            for name in names:
                yield self._progress(f"opening {name}")
                model, folder = self.examiner.model(name), self.examiner.folder(name)
                row = family_row(name, model, folder, self.examiner.questions, cores=self.settings.cores)
                row |= {"directory": str(folder), "overlap": overlap(model, self.settings)}
                self.results.add("training", [row], family=name)
            return
        jobs = [self.starter.job(name, self.chosen[name]) for name in names]
        for event in train(jobs, self._interruption):
            name, chosen = event.job.name, self.chosen[event.job.name]
            if not isinstance(event, Ended):
                done = event.history[-1]["step"] if event.history else 0
                share = min(1.0, done / chosen.steps) if chosen.steps else 0.0
                yield self._progress(f"training {', '.join(names)}", share=share)
                continue
            if self._interruption.signal:
                continue  # until all of them have saved
            try:
                if event.failure:
                    raise TrainingError(event.failure)
                rows = self._trained(event)
            except Exception as error:  # the others go on, whatever it is
                self._fail(name, "training", error)
                yield self._progress(f"training {', '.join(names)}", news=f"{name} failed: {one_line(error)}")
                continue
            self.results.add("training", rows, family=name)
            spent = f"{rows[0]['processor_seconds']:.0f} processor seconds"
            news = f"{name} {rows[0]['size']}: {rows[0]['steps']:,} steps, {spent}"
            yield self._progress(f"training {', '.join(names)}", share=1.0, news=news)
        self._stop_if_asked()

    def _trained(self, ended: Ended) -> list[Row]:
        """The row of a family that has been trained, and its learning curve."""
        assert self.split is not None
        name, folder = ended.job.name, ended.job.folder
        chosen = self.chosen[name]
        model = self.examiner.model(name)
        if chosen.seconds:
            chosen = replace(chosen, marks=Recipe.load(folder).plan.marks)
            self.starter.keep(name, chosen)
        row = family_row(name, model, folder, self.examiner.questions, cores=self.settings.cores)
        tokens = chosen.pace.corpus_tokens if chosen.pace else count_tokens(model, self.split)
        row |= {
            "size": chosen.size,
            "rule": chosen.rule,
            "epochs": round(row["tokens"] / max(1, tokens), 3),
            "preparation_seconds": round(chosen.pace.preparation, 2) if chosen.pace else None,
            "peak_bytes": ended.peak_bytes or None,
            "command": self.starter.job(name, chosen).command,
            "directory": f"{RUNS}/{name}",
        }
        return [row, *curve(name, model, folder, self.split)]

    # Measuring.

    def _measure(self, name: str) -> Iterator[Progress]:
        self._finished += 1
        stages = self.examiner.stages
        waiting = [stage for stage in stages if (name, stage) not in self.results.done]
        if (name, "training") not in self.results.done:  # it failed
            waiting = []
        end = self._finished + len(stages)
        self._finished = end - len(waiting)
        assert self._examination is not None
        # Closed at once where somebody stops us, so that nobody waits for an answer that no one will give.
        with closing(self._examination.answers(name, waiting)) as answers:
            for stage, found in answers:
                if found is None:
                    yield self._progress(f"{name}: {stage}")
                    self._stop_if_asked()
                    continue
                if isinstance(found, Exception):
                    self._fail(name, stage, found)
                    yield self._progress(f"{name}: {stage}", news=f"{name}, {stage}: {one_line(found)}")
                else:
                    known = [row for row in found if row["row"] != "figure" or row["value"] is not None]
                    self.results.add(stage, known, family=name)
                self._finished += 1

    # What is shown of all families together.

    def _look_together(self) -> Iterator[Progress]:
        """The ambiguous words of the text, found by the family that tells senses best, and maps of them of all."""
        self._stop_if_asked()
        contexts = {row["family"]: row["context"] for row in self.results.rows if row["row"] == "family"}
        reading = [name for name, context in contexts.items() if context != "none"]
        if not reading or ("", "ambiguous") in self.results.done:
            return
        figures = {name: self.results.find("figure", family=name, measure="senses") or {} for name in contexts}
        by = max(reading, key=lambda name: figures[name].get("value", 0.0))
        layers = {}
        for name in contexts:
            top = len(self.examiner.model(name).encoder.widths) - 1
            layers[name] = min(top, figures[name].get("layer", top))
        yield self._progress(f"looking for ambiguous words with {by}")
        known = ambiguous_words(self.examiner.questions.senses)
        lexicon = self.examiner.lexicon
        if self.split:
            texts = (text for side in ("test", "train") for _, text in self.split.documents(side))
            lexicon = Lexicon.of(texts, most_characters=_MORE)
        found = find_ambiguous(
            self.examiner.model(by), lexicon, layers[by], seed=self.settings.seed, most=_LISTED, known=known
        )
        if not found:
            return
        words = [one.describe() for one in found]
        new: list[Row] = [{"row": "ambiguous", "words": words, "by": by, "how": HOW}]
        for name in contexts:
            yield self._progress(f"maps of {name}")
            maps = [map_row(self.examiner.model(name), one, layers[name]) for one in found[:_MAPPED]]
            new += [in_order({**row, "family": name}) for row in maps]
        self.results.add("ambiguous", new)

    def _fail(self, name: str, stage: str, error: Exception) -> None:
        row = {"row": "failure", "family": name, "stage": stage, "message": one_line(error)}
        self.results.add(stage, [row], family=name, failed=True)

    def _stop_if_asked(self) -> None:
        if self._interruption.signal:
            raise KeyboardInterrupt(f"saved; the same command goes on with {self.out}")

    def _progress(self, what: str, *, share: float = 0.0, news: str = "") -> Progress:
        return Progress(what=what, done=self._finished, total=self._total, share=share, news=news)


def _groups(names: Sequence[str], size: int) -> list[Sequence[str]]:
    """Those that are trained side by side."""
    return [names[first : first + size] for first in range(0, len(names), size)]


def _take(settings: ComparisonConfig, out: Path) -> Path | None:
    """Where a new comparison is to be written, or nothing where the same one began; anything else is refused."""
    if (out / SETTINGS).exists():
        settings.refuse_other(ComparisonConfig.load(out), out)
        return None
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"{out} is a file; choose another --out")
    if out.is_dir() and any(path.name != LOCK and path.suffix != ".part" for path in out.iterdir()):
        raise CheckpointError(f"{out} holds something else; choose another --out")
    place = next(place for place in [out.absolute(), *out.absolute().parents] if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise CheckpointError(f"{out} cannot be made: {place} is no folder to write in; choose another --out")
    return place


def _absolute(path: str) -> str:
    language, alone = split_name(path)
    whole = alone if alone in SAMPLES and not Path(alone).exists() else str(Path(alone).absolute())
    return f"{language}={whole}" if language else whole
