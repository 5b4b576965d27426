"""Fine-tuning: from a model and labelled data to a model that predicts."""

import dataclasses
import json
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import ConfigDict, Field

from polyseme.config import Config
from polyseme.datasets.builtin import absolute_path
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.families import FAMILIES
from polyseme.learner import Step
from polyseme.models.base import Encoder
from polyseme.system.atomic_io import write_file
from polyseme.tasks import FineTuningObjective, Task, TaskConfig, build_finetuning_objective, task_spec
from polyseme.tasks.head_initialization import STRENGTHS, has_linear_output, initialize_head
from polyseme.tasks.inputs.dataset import TaskDataset
from polyseme.tasks.inputs.input_formatter import InputFormatter, add_delimiters
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.base_model import BaseModel
from polyseme.training.labelled_data import LabelledData
from polyseme.training.optimization.budget import Budget
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe, LabelledDataConfig, epochs_for, parse_tasks
from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.resources import fit_into_time, measured_seconds
from polyseme.training.session import Progress, TrainingSession, Watch
from polyseme.training.storage.model_card import write_finetuned_card
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, read_json, read_record, write_model
from polyseme.training.storage.run_dir import SAVED_TOKENIZER, RunDirectory, check_unused

logger = logging.getLogger(__name__)

LABELS, SCORES = "labels.json", "scores.json"
SELECTION_METRIC = "selection_metric"
"""The key of the score by which checkpoints are selected: the mean of the selection metrics of all tasks."""

_DEV_BATCH_SIZE = 64
_DEV_BATCHES = 32  # per validation and task, at most; all at the end
_NUM_TIMED_STEPS = 40  # at most
_FEW_STEPS = 10
_MIN_STEPS = 100  # before early stopping; the first steps rarely improve on a linear probe
_PATIENCE = 4  # validations from which convergence is judged without early stopping
_PROBE_SHARE = 1 / 20  # of a time budget, to encode training examples for probes, and as much for their selection
_START = Step(number=0, tokens=0, seconds=0.0, learning_rate=0.0, losses={})


class FineTuningScores(Config):
    """The result of a fine-tuning."""

    model_config = ConfigDict(strict=True, allow_inf_nan=True)

    step: int = Field(ge=0)  # of the best validation
    examples: int = Field(ge=1)  # that the model was trained on
    dev: dict[str, float]  # metrics on all dev data; none without
    layers: dict[str, list[float]]  # weights of the scalar mix, by task
    initial: float | None = None  # the selection metric at step 0
    converged: bool | None = None  # whether the selection metric stopped improving; None without dev data

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the scores of a fine-tuned model."""
        return read_record(cls, folder / SCORES)


def read_labels(folder: Path, recipe: FineTuningRecipe) -> dict[str, TaskConfig]:
    """Read the tasks of a fine-tuned model: those of its recipe, with what was tuned on the dev set."""
    try:
        tasks = parse_tasks(read_json(folder / LABELS))
    except ConfigError as error:
        raise CheckpointError(f"{folder}: {LABELS}: {error}; restore the file that the run wrote") from None
    found, expected = (
        {name: (task.kind, getattr(task, "labels", ())) for name, task in one.items()} for one in (tasks, recipe.tasks)
    )
    if found != expected:
        raise CheckpointError(f"{folder / LABELS} and {RECIPE} have other tasks or labels; restore both files")
    return tasks


class FineTuningSession(TrainingSession):
    """A run that trains a model for one task or several on labelled data."""

    recipe_class = FineTuningRecipe
    recipe: FineTuningRecipe
    objective: FineTuningObjective

    def __init__(
        self, recipe: FineTuningRecipe, tokenizer: Tokenizer, encoder: Encoder, labelled: LabelledData
    ) -> None:
        super().__init__(recipe, tokenizer)
        self.encoder = encoder
        self.labelled = labelled
        self.objective = build_finetuning_objective(recipe.tasks, recipe.finetuning, encoder)
        self.formatter = InputFormatter(encoder, tokenizer, max_length=recipe.data.sequence_length)
        # Cross-view training also uses the examples whose labels were left out.
        unlabelled = labelled.unlabelled if recipe.data.unlabelled or recipe.finetuning.method == "cvt" else ()
        self.source = self.objective.read(self.formatter, labelled.train, unlabelled, num_rows=recipe.data.batch_size)
        self.dev = self._dev_sources(recipe.training.evaluate_batches or _DEV_BATCHES)

    @classmethod
    def start(cls, values: Mapping[str, Any], out: Path, base: BaseModel) -> Self:
        """Start a run in a new directory, with the settings that `plan_finetuning` made for a model."""
        check_unused(out)
        data = LabelledDataConfig.parse(values["data"], group="data")
        data = data.replace(
            train={name: absolute_path(path) for name, path in data.train.items()},
            dev={name: absolute_path(path) for name, path in data.dev.items()},
            unlabelled=absolute_path(data.unlabelled),
        )
        kinds = {name: settings["kind"] for name, settings in values["tasks"].items()}
        labelled = LabelledData.read(kinds, data, seed=values["training"]["seed"])
        tasks = labelled.infer_configs(values["tasks"])
        budget = f"{epochs_for(max(len(examples) for examples in labelled.train.values()))}epochs"
        recipe = FineTuningRecipe.parse(
            {
                **values,
                "data": {**data.model_dump(), "fingerprint": labelled.fingerprint},
                "tasks": {name: task.model_dump() for name, task in tasks.items()},
                "training": {"budget": budget, **values["training"]},
            }
        )
        torch.manual_seed(recipe.training.seed)
        encoder = FAMILIES[recipe.family](recipe.model)
        encoder.set_tokenizer(base.tokenizer)
        if recipe.finetuning.initialization == "pretrained":
            encoder.load_state_dict(base.encoder.state_dict())
        bi_encoder = recipe.finetuning.text_pairs == "bi_encoder"  # needs no delimiters
        tokenizer = base.tokenizer if bi_encoder else add_delimiters(encoder, base.tokenizer)
        session = cls(dataclasses.replace(recipe, model=encoder.config), tokenizer, encoder, labelled)
        started = time.perf_counter()
        session._initialize_heads()
        session._fix_steps(spent=time.perf_counter() - started)
        session.run = RunDirectory.create(out, session.recipe, session.tokenizer, first=session.learner)
        return session

    @classmethod
    def rebuild(cls, folder: Path, recipe: FineTuningRecipe, watch: Watch) -> Self:
        kinds = {name: task.kind for name, task in recipe.tasks.items()}
        labelled = LabelledData.read(kinds, recipe.data, seed=recipe.training.seed)
        if labelled.fingerprint != recipe.data.fingerprint:
            raise DataError(f"the files of {folder} have changed since the run started; restore them, or start anew")
        tokenizer, encoder = Tokenizer.load(folder), FAMILIES[recipe.family](recipe.model)
        encoder.set_tokenizer(tokenizer)
        return cls(recipe, tokenizer, encoder, labelled)

    def _restore(self, run: RunDirectory) -> None:
        super()._restore(run)
        run.check_best()

    def _build_learner(self, config: TrainingConfig, encoder: Encoder, objective: Any) -> GradientLearner:
        return GradientLearner(encoder, objective, self.source, config)

    @property
    def validation_scores(self) -> list[float]:
        """The selection metric at each validation, in order."""
        return [-validation.loss for validation in self.run.validations]

    def _initialize_heads(self) -> None:
        """Start each head at the linear probe that is best on dev data."""
        config, budget = self.recipe.finetuning, Budget.parse(self.recipe.training.budget)
        if config.head_initialization != "probe" or config.method == "cvt":
            return
        seconds = _PROBE_SHARE * budget.amount / len(self.objective.tasks) if budget.unit == "seconds" else None
        for name, task in self.objective.tasks.items():
            probe = task_spec(self.recipe.tasks[name].kind).probe
            if probe and has_linear_output(task):
                score = self._probe_score(name, task, seconds) if name in self.dev else None
                source = self.source.sources[name]
                initialize_head(task, self.encoder, source, regression=probe.regression, score=score, seconds=seconds)

    def _probe_score(self, name: str, task: Task[Any, Any], seconds: float | None) -> Callable[[], float]:
        """The dev score of a task, on as much dev data as fits into a time for all probes."""
        dev = {name: self.dev[name]}
        if seconds is not None:
            num_batches = int(seconds / len(STRENGTHS) / self._measure_dev_batches()[name])
            dev = {name: self._dev_sources(max(1, min(num_batches, _DEV_BATCHES)))[name]}
        return lambda: self._score(dev)[name][task.selection_metric]

    def steps(self) -> Iterator[Progress]:
        if not self.learner.steps_done and not self.run.validations and (dev := self._validate(full=False)):
            self.run.record(_START, dev=dev)
            self.run.save(self.learner, 0, dev_loss=self._selection_loss(dev))
        yield from super().steps()

    @property
    def stopped_early(self) -> bool:
        """Whether the last validations were no better than one before them, with all layers unfrozen.

        Validations before an extension of the budget do not count: it was given to train longer.
        """
        patience, config, learner = self.recipe.finetuning.patience, self.recipe.training, self.learner
        assert isinstance(learner, GradientLearner)
        unfrozen_steps = learner.steps_done - config.unfreeze_every * (learner.num_groups - 1)
        scores = self.validation_scores
        if not (scores and patience) or unfrozen_steps < max(_MIN_STEPS, patience * self.evaluate_every):
            return False
        num_earlier = sum(validation.step <= config.extended_at for validation in self.run.validations)
        best = max(scores.index(max(scores)), num_earlier - 1)
        return len(scores) - 1 - best >= patience

    @property
    def converged(self) -> bool | None:
        """Whether the last validations improved the best score by no more than its standard error; None without any."""
        scores, patience = self.validation_scores, self.recipe.finetuning.patience or _PATIENCE
        if not scores:
            return None
        num_examples = sum(len(gold) for _, gold in self.dev.values())
        standard_error = math.sqrt(max(0.0, max(scores) * (1 - max(scores))) / num_examples)
        return max(scores) - max(scores[:-patience], default=-math.inf) <= standard_error

    def evaluate(self) -> dict[str, float]:
        """Compute the scores of all tasks on (part of) their dev data, and the selection metric."""
        return self._metrics(self._score(self.dev))

    def _validate(self, *, full: bool) -> dict[str, float] | None:
        return self.evaluate() if self.dev else None

    def _selection_loss(self, dev: dict[str, float]) -> float:
        return -dev[SELECTION_METRIC]

    def _score(self, dev: Mapping[str, tuple[TaskDataset, Sequence[Any]]]) -> dict[str, dict[str, float]]:
        tasks = self.objective.tasks
        return {
            name: tasks[name].score(tasks[name].predict(self.encoder, source), gold)
            for name, (source, gold) in dev.items()
        }

    def _metrics(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        tasks = self.objective.tasks
        metrics = {
            key if len(tasks) == 1 else f"{name}_{key}": value
            for name, found in scores.items()
            for key, value in found.items()
        }
        selected = [found[tasks[name].selection_metric] for name, found in scores.items()]
        return metrics | {SELECTION_METRIC: statistics.mean(selected)}

    def _dev_sources(self, num_batches: int = 0) -> dict[str, tuple[TaskDataset, Sequence[Any]]]:
        """The dev data of each task: all of it, or a sample of some batches, the same for every seed."""
        tasks, sources = self.objective.tasks, {}
        for name, examples in self.labelled.dev.items():
            if 0 < num_batches * _DEV_BATCH_SIZE < len(examples):  # a file may be sorted by label
                sampled = np.random.default_rng(0).permutation(len(examples))[: num_batches * _DEV_BATCH_SIZE]
                examples = [examples[number] for number in sorted(sampled)]
            sources[name] = tasks[name].read(self.formatter, examples, num_rows=_DEV_BATCH_SIZE), examples
        return sources

    def _write_model(self, folder: Path) -> tuple[str, ...]:
        """Write the weights of the best validation, evaluated on all dev data."""
        step = self.run.restore_best(self.learner) if self.validation_scores else self.learner.steps_done
        self.learner.finalize()
        found = self._score(self._dev_sources())
        scores = self._metrics(found) if found else {}
        tasks = {
            name: task.calibrated(found[name]) if name in found else task for name, task in self.recipe.tasks.items()
        }
        extra = {"pad_token_id": self.tokenizer.specials.pad, **self._hf_settings()}
        write_model(folder, family=self.recipe.family, encoder=self.encoder, heads=self.objective, extra=extra)
        self.tokenizer.save(folder, max_length=self.recipe.model.max_length)
        labels = {name: task.model_dump() for name, task in tasks.items()}
        write_file(folder / LABELS, json.dumps(labels, indent=2, ensure_ascii=False) + "\n")
        layers = {
            name: [round(weight, 4) for weight in weights]
            for name, task in self.objective.tasks.items()
            if (weights := task.features.layer_weights())
        }
        examples = sum(map(len, self.labelled.train.values()))
        initial = next((-validation.loss for validation in self.run.validations if not validation.step), None)
        summary = FineTuningScores(
            step=step, examples=examples, dev=scores, layers=layers, initial=initial, converged=self.converged
        )
        write_file(folder / SCORES, json.dumps(summary.model_dump(), indent=2) + "\n")
        write_finetuned_card(folder, self.recipe, self.encoder, scores, layers, self.command)
        return CONFIG, WEIGHTS, RECIPE, LABELS, SCORES, *SAVED_TOKENIZER

    def _hf_settings(self) -> dict[str, Any]:
        """Settings of transformers, which has heads on the top layer only, and one per model."""
        tasks, config = list(self.recipe.tasks.values()), self.recipe.finetuning
        extended = config.linear_path or config.text_pairs == "bi_encoder"
        if len(tasks) > 1 or config.method not in ("full", "gradual") or extended:
            return {"architectures": []}
        return tasks[0].hf_settings

    def _steps_of_budget(self, budget: Budget) -> int | None:
        tokens = self.source.num_tokens
        return budget.steps(tokens_per_step=tokens / self.source.num_batches, tokens_per_epoch=tokens)

    def _fix_steps(self, *, spent: float) -> None:
        """Convert the budget to a number of steps, once, so that a resumed run has the same.

        Args:
            spent: Seconds of a time budget that the initialization of the heads took.
        """
        config, num_batches = self.recipe.training, self.source.num_batches
        budget = Budget.parse(config.budget)
        steps = self._steps_of_budget(budget)
        config = self._fit_into_time(budget.amount - spent) if steps is None else config.replace(steps=steps)
        if self.recipe.finetuning.method == "gradual" and not config.unfreeze_every:
            # One epoch per layer group, but at least half of the steps train all of them.
            unfreeze_every = max(1, min(num_batches, config.steps // (2 * len(self.encoder.layer_groups()))))
            config = config.replace(unfreeze_every=unfreeze_every)
        self.recipe = dataclasses.replace(self.recipe, training=config)

    def _fit_into_time(self, seconds: float) -> TrainingConfig:
        """Choose the number of steps and the validations by measured times; warn if there is time for few steps."""
        config = self.recipe.training
        step = self.measure_step_time(measured_seconds(config.budget), num_steps=_NUM_TIMED_STEPS)
        batch_seconds = self._measure_dev_batches()
        num_batches = {name: -(-len(self.labelled.dev[name]) // _DEV_BATCH_SIZE) for name in batch_seconds}

        def dev_seconds(limit: int) -> float:
            return sum(seconds * min(limit, num_batches[name]) for name, seconds in batch_seconds.items())

        all_batches = max(num_batches.values(), default=0)
        config = fit_into_time(
            config,
            seconds - step.spent - dev_seconds(1),
            step=step.seconds,
            dev_seconds=dev_seconds,
            all_batches=all_batches,
            most_batches=_DEV_BATCHES,
        )
        # The validation at step 0 costs steps too.
        first = round(dev_seconds(config.evaluate_batches) / step.seconds)
        config = config.replace(steps=max(-(-config.steps // 2), config.steps - first))
        self.dev = self._dev_sources(config.evaluate_batches)
        if config.steps < max(_FEW_STEPS, self.source.num_batches):
            frozen = "" if self.objective.frozen else ", --method frozen"
            logger.warning(
                "a budget of %s has time for %s, %.2g epochs (%.2g s per step, %.2g s to evaluate all dev data); "
                "give a longer --budget%s or fewer dev examples",
                config.budget,
                "1 step" if config.steps == 1 else f"{config.steps:,} steps",
                config.steps / self.source.num_batches,
                step.seconds,
                dev_seconds(all_batches),
                frozen,
            )
        return config

    def _measure_dev_batches(self) -> dict[str, float]:
        """Seconds per batch of dev data, by task."""
        found = {}
        for name, source in self._dev_sources(1).items():
            before = time.perf_counter()
            self._score({name: source})
            found[name] = time.perf_counter() - before
        return found
