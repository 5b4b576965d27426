"""From labelled sets to a model that answers."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import torch

from polyseme.errors import CheckpointError, DataError, TrainingError
from polyseme.files import write_file
from polyseme.learning import Learner
from polyseme.models import FAMILIES
from polyseme.models.base import Encoder
from polyseme.models.directory import CONFIG, WEIGHTS, write_manifest, write_model
from polyseme.tasks import build_tuning
from polyseme.tasks.examples import Examples
from polyseme.tasks.layout import Layout, add_marks
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.adapting import Base
from polyseme.train.card import write_tuned_card
from polyseme.train.estimate import NUM_EVALUATIONS, measure_pace
from polyseme.train.learner import GradientLearner
from polyseme.train.plan import Budget, PlanConfig
from polyseme.train.pretraining import Progress
from polyseme.train.recipe import RECIPE
from polyseme.train.run import Run, check_unused, read_history
from polyseme.train.sets import Labelled
from polyseme.train.tuning_recipe import LabelledConfig, TuningRecipe, epochs_for

LABELS, SCORES = "labels.json", "scores.json"
MERIT = "merit"
"""The figure by which looks at the dev sets are compared: the mean of what the tasks go by."""

_DEV_EXAMPLES = 2_000  # of a look on the way, at most
_DEV_ROWS = 64  # that are read at once


class Finetuning:
    """A run and what drives it; iterate over `steps` and it learns, records, evaluates, saves."""

    def __init__(self, recipe: TuningRecipe, tokenizer: Tokenizer, encoder: Encoder, sets: Labelled) -> None:
        if recipe.plan.threads:
            torch.set_num_threads(recipe.plan.threads)
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.sets = sets
        self.tuning = build_tuning(recipe.tasks, recipe.tuning, encoder)
        self.layout = Layout(encoder, tokenizer, max_length=recipe.data.length)
        # Of a file that is learnt from in part, the rest is of use without its labels, to those who can.
        unlabelled = sets.unlabelled if recipe.data.unlabelled or recipe.tuning.method == "cvt" else ()
        self.source = self.tuning.read(self.layout, sets.train, unlabelled, num_rows=recipe.data.num_rows)
        self.dev = self._dev_sources(_DEV_EXAMPLES)
        self.run: Run | None = None
        self.resumed_at = 0
        self.looks: list[float] = []  # what each look at the dev sets found, the last one last

    @classmethod
    def start(cls, values: Mapping[str, Any], out: Path, base: Base) -> Self:
        """Begin a run in a new directory, as a plan for a model says."""
        check_unused(out)
        data = LabelledConfig.parse(values["data"], group="data")
        data = data.replace(
            train={name: str(Path(path).absolute()) for name, path in data.train.items()},
            dev={name: str(Path(path).absolute()) for name, path in data.dev.items()},
            unlabelled=data.unlabelled and str(Path(data.unlabelled).absolute()),
        )
        kinds = {name: settings["kind"] for name, settings in values["tasks"].items()}
        sets = Labelled.read(kinds, data, seed=values["plan"]["seed"])
        tasks = sets.settle(values["tasks"])
        budget = f"{epochs_for(max(len(examples) for examples in sets.train.values()))}epochs"
        recipe = TuningRecipe.parse(
            {
                **values,
                "data": {**data.model_dump(), "fingerprint": sets.fingerprint},
                "tasks": {name: task.model_dump() for name, task in tasks.items()},
                "plan": {"budget": budget, **values["plan"]},
            }
        )
        torch.manual_seed(recipe.plan.seed)
        encoder = FAMILIES[recipe.family](recipe.model)
        encoder.spell(base.tokenizer)
        if recipe.tuning.start == "model":
            encoder.load_state_dict(base.encoder.state_dict())
        apart = recipe.tuning.texts == "apart"  # then there is nothing to mark
        tokenizer = base.tokenizer if apart else add_marks(encoder, base.tokenizer)
        training = cls(dataclasses.replace(recipe, model=encoder.config), tokenizer, encoder, sets)
        training._freeze()
        training.run = Run.create(out, training.recipe, tokenizer, first=training.learner)
        return training

    @classmethod
    def resume(cls, out: Path) -> Self:
        """Go on with the run in a directory, from its newest good checkpoint."""
        recipe = TuningRecipe.load(out)
        run = Run.open(out, recipe)
        try:
            kinds = {name: task.kind for name, task in recipe.tasks.items()}
            sets = Labelled.read(kinds, recipe.data, seed=recipe.plan.seed)
            if sets.fingerprint != recipe.data.fingerprint:
                raise DataError(f"the files of {out} have changed since it began; put them back, or start anew")
            tokenizer, encoder = Tokenizer.load(out), FAMILIES[recipe.family](recipe.model)
            encoder.spell(tokenizer)
            training = cls(recipe, tokenizer, encoder, sets)
            training.run = run
            training.resumed_at = run.restore(training.learner)
            training.looks = [row["dev"][MERIT] for row in read_history(out) if "dev" in row]
        except BaseException:
            run.close()
            raise
        return training

    @functools.cached_property
    def learner(self) -> GradientLearner:
        """What learns, once it is known for how long."""
        return GradientLearner(self.encoder, self.tuning, self.source, self.recipe.plan)

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.recipe.plan.steps

    def steps(self) -> Iterator[Progress]:
        """Learn until the plan ends or the dev sets gain nothing any more; record, look and save on the way."""
        run, learner = self._run, self.learner
        try:
            with closing(self.learner.steps()) as steps:
                for step in () if self._stalled else steps:
                    last = step.number == self.total
                    dev = self.evaluate() if self.dev and (last or step.number % self._look_every == 0) else None
                    run.record(step, dev=dev)
                    if dev:
                        self.looks.append(dev[MERIT])
                    if dev or last or run.due(step):
                        run.save(learner, step.number, dev_loss=-dev[MERIT] if dev else None)
                    yield Progress(step=step, dev=dev)
                    if dev and self._stalled:
                        return
        except TrainingError:
            run.close()
            raise

    @property
    def _stalled(self) -> bool:
        """Whether the last looks found nothing better than one before them, though everything learnt."""
        patience, learner = self.recipe.tuning.patience, self.learner
        with_all = learner.done - self.recipe.plan.unfreeze * (learner.num_stages - 1)  # steps
        if not (self.looks and patience) or with_all < patience * self._look_every:
            return False
        return len(self.looks) - 1 - self.looks.index(max(self.looks)) >= patience

    @property
    def _look_every(self) -> int:
        return self.recipe.plan.evaluate_every or -(-self.total // NUM_EVALUATIONS)

    def evaluate(self) -> dict[str, float]:
        """Scores on the dev sets, on some examples of each, and their merit."""
        return self._figures(self._score(self.dev))

    def _score(self, dev: Mapping[str, tuple[Examples, Sequence[Any]]]) -> dict[str, dict[str, float]]:
        tasks = self.tuning.tasks
        return {
            name: tasks[name].score(tasks[name].predict(self.encoder, source), gold)
            for name, (source, gold) in dev.items()
        }

    def _figures(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        one = len(self.tuning.tasks) == 1
        figures = {key if one else f"{name}_{key}": v for name, found in scores.items() for key, v in found.items()}
        merits = [found[self.tuning.tasks[name].criterion] for name, found in scores.items()]
        return figures | {MERIT: statistics.mean(merits)}

    def _dev_sources(self, most: int | None = None) -> dict[str, tuple[Examples, Sequence[Any]]]:
        return {
            name: (self.tuning.tasks[name].read(self.layout, examples[:most], num_rows=_DEV_ROWS), examples[:most])
            for name, examples in self.sets.dev.items()
        }

    def pause(self) -> bool:
        """Save where it stands, and say whether that went well."""
        with self._run as run:
            return run.save(self.learner, self.learner.done)

    def finish(self, command: str = "") -> Path:
        """Write the model directory, with the weights that did best on the dev sets."""
        with self._run as run:
            folder = run.folder
            step = run.restore_best(self.learner) if self.looks else self.learner.done
            self.learner.settle()
            found = self._score(self._dev_sources())
            scores = self._figures(found) if found else {}
            tasks = {
                name: task.tuned(found[name]) if name in found else task for name, task in self.recipe.tasks.items()
            }
            try:
                family, extra = self.recipe.family, self._extra
                write_model(folder, family=family, encoder=self.encoder, heads=self.tuning, extra=extra)
                self.tokenizer.save(folder, max_length=self.recipe.model.max_length)
                labels = {name: task.model_dump() for name, task in tasks.items()}
                write_file(folder / LABELS, json.dumps(labels, indent=2, ensure_ascii=False) + "\n")
                examples = sum(map(len, self.sets.train.values()))
                layers = {
                    name: [round(s, 4) for s in task.features.worth()] for name, task in self.tuning.tasks.items()
                }
                layers = {name: shares for name, shares in layers.items() if shares}
                kept = {"step": step, "examples": examples, "dev": scores, "layers": layers}
                write_file(folder / SCORES, json.dumps(kept, indent=2) + "\n")
                write_tuned_card(folder, self.recipe, self.encoder, scores, layers, command)
                names = (CONFIG, WEIGHTS, RECIPE, LABELS, SCORES, "tokenizer.json", "tokenizer_config.json")
                write_manifest(folder, names)
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
        assert self.run is not None
        return self.run

    @property
    def _extra(self) -> dict[str, Any]:
        """What else config.json should say; transformers knows heads on the top layer alone, and one at a time."""
        extra: dict[str, Any] = {"pad_token_id": self.tokenizer.specials.pad}
        tasks = list(self.recipe.tasks.values())
        tuning = self.recipe.tuning
        if len(tasks) > 1 or tuning.method not in ("full", "gradual") or tuning.texts == "apart":
            return extra | {"architectures": []}
        return extra | tasks[0].foreign

    def _freeze(self) -> None:
        """Fix what the budget comes to, so that the run is the same however often it is broken off."""
        plan, num_batches = self.recipe.plan, self.source.num_batches
        budget = Budget.parse(plan.budget)
        tokens = self.source.num_tokens / num_batches  # of a step
        steps = budget.steps(tokens_per_step=tokens, tokens_per_epoch=self.source.num_tokens)
        if steps is None:
            steps = self._steps_in(budget.amount)
        unfreeze = plan.unfreeze
        if self.recipe.tuning.method == "gradual" and not unfreeze:
            # A pass over the examples for each layer, but half of the time is for all of them.
            unfreeze = max(1, min(num_batches, steps // (2 * len(self.encoder.stages()))))
        self.recipe = dataclasses.replace(self.recipe, plan=plan.replace(steps=steps, unfreeze=unfreeze))

    def _steps_in(self, seconds: float) -> int:
        thrown_away = copy.deepcopy((self.encoder, self.tuning))

        def learner_with(plan: PlanConfig) -> Learner:
            return GradientLearner(*thrown_away, self.source, plan)

        started = time.perf_counter()
        pace = measure_pace(learner_with, self.recipe.plan, None)
        before = time.perf_counter()
        self._score(self.dev)
        looks = NUM_EVALUATIONS * (time.perf_counter() - before)
        return max(1, int((seconds - (time.perf_counter() - started) - looks) / pace.step))
