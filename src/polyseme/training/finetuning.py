"""Fine-tuning: from a model and labelled data to a model that predicts."""

import dataclasses
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from polyseme.errors import DataError
from polyseme.families import FAMILIES
from polyseme.models.base import Encoder
from polyseme.system.atomic_io import write_file
from polyseme.tasks import FineTuningObjective, build_finetuning_objective
from polyseme.tasks.inputs.dataset import TaskDataset
from polyseme.tasks.inputs.input_formatter import InputFormatter, add_delimiters
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.base_model import BaseModel
from polyseme.training.finetune_recipe import FineTuningRecipe, LabelledDataConfig, epochs_for
from polyseme.training.labelled_data import LabelledData
from polyseme.training.optimization.budget import Budget
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipe import RECIPE
from polyseme.training.resources import NUM_EVALUATIONS, measured_seconds
from polyseme.training.session import TrainingSession, Watch
from polyseme.training.storage.history import read_history
from polyseme.training.storage.model_card import write_finetuned_card
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, write_model
from polyseme.training.storage.run_dir import RunDirectory, check_unused

LABELS, SCORES = "labels.json", "scores.json"
SELECTION_METRIC = "selection_metric"
"""The key of the score by which checkpoints are selected: the mean of the selection metrics of all tasks."""

_DEV_EXAMPLES = 2_000  # per validation, at most; all at the end
_DEV_BATCH_SIZE = 64


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
        self.dev = self._dev_sources(_DEV_EXAMPLES)
        self.validation_scores: list[float] = []  # the selection metric at each validation, in order

    @classmethod
    def start(cls, values: Mapping[str, Any], out: Path, base: BaseModel) -> Self:
        """Start a run in a new directory, with the settings that `plan_finetuning` made for a model."""
        check_unused(out)
        data = LabelledDataConfig.parse(values["data"], group="data")
        data = data.replace(
            train={name: str(Path(path).absolute()) for name, path in data.train.items()},
            dev={name: str(Path(path).absolute()) for name, path in data.dev.items()},
            unlabelled=data.unlabelled and str(Path(data.unlabelled).absolute()),
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
        session._fix_steps()
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
        history = read_history(run.folder)
        self.validation_scores = [row["dev"][SELECTION_METRIC] for row in history if "dev" in row]

    def _build_learner(self, config: TrainingConfig, encoder: Encoder, objective: Any) -> GradientLearner:
        return GradientLearner(encoder, objective, self.source, config)

    @property
    def stopped_early(self) -> bool:
        """Whether the last validations were no better than one before them, with all layers unfrozen."""
        patience, config, learner = self.recipe.finetuning.patience, self.recipe.training, self.learner
        assert isinstance(learner, GradientLearner)
        unfrozen_steps = learner.steps_done - config.unfreeze_every * (learner.num_groups - 1)
        scores = self.validation_scores
        if not (scores and patience) or unfrozen_steps < patience * self.evaluate_every:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= patience

    def evaluate(self) -> dict[str, float]:
        """Compute the scores of all tasks on (part of) their dev data, and the selection metric."""
        return self._metrics(self._score(self.dev))

    def _validate(self, *, full: bool) -> dict[str, float] | None:
        if not self.dev:
            return None
        dev = self.evaluate()
        self.validation_scores.append(dev[SELECTION_METRIC])
        return dev

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

    def _dev_sources(self, limit: int | None = None) -> dict[str, tuple[TaskDataset, Sequence[Any]]]:
        tasks = self.objective.tasks
        return {
            name: (tasks[name].read(self.formatter, examples[:limit], num_rows=_DEV_BATCH_SIZE), examples[:limit])
            for name, examples in self.labelled.dev.items()
        }

    def _write_model(self, folder: Path, command: str) -> tuple[str, ...]:
        """Write the weights of the best validation, evaluated on all dev data."""
        step = self._run.restore_best(self.learner) if self.validation_scores else self.learner.steps_done
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
        summary = {"step": step, "examples": examples, "dev": scores, "layers": layers}
        write_file(folder / SCORES, json.dumps(summary, indent=2) + "\n")
        write_finetuned_card(folder, self.recipe, self.encoder, scores, layers, command)
        return CONFIG, WEIGHTS, RECIPE, LABELS, SCORES, "tokenizer.json", "tokenizer_config.json"

    def _hf_settings(self) -> dict[str, Any]:
        """Settings of transformers, which has heads on the top layer only, and one per model."""
        tasks, config = list(self.recipe.tasks.values()), self.recipe.finetuning
        if len(tasks) > 1 or config.method not in ("full", "gradual") or config.text_pairs == "bi_encoder":
            return {"architectures": []}
        return tasks[0].hf_settings

    def _fix_steps(self) -> None:
        """Convert the budget to a number of steps, once, so that a resumed run has the same."""
        config, num_batches = self.recipe.training, self.source.num_batches
        budget = Budget.parse(config.budget)
        tokens_per_step = self.source.num_tokens / num_batches
        steps = budget.steps(tokens_per_step=tokens_per_step, tokens_per_epoch=self.source.num_tokens)
        if steps is None:
            found = self.measure_step_time(measured_seconds(config.budget))
            before = time.perf_counter()
            self._score(self.dev)
            validation = time.perf_counter() - before
            left = budget.amount - found.spent - (NUM_EVALUATIONS + 1) * validation
            steps = max(1, int(left / found.seconds))
        unfreeze_every = config.unfreeze_every
        if self.recipe.finetuning.method == "gradual" and not unfreeze_every:
            # One epoch per layer group, but at least half of the steps train all of them.
            unfreeze_every = max(1, min(num_batches, steps // (2 * len(self.encoder.layer_groups()))))
        config = config.replace(steps=steps, unfreeze_every=unfreeze_every)
        self.recipe = dataclasses.replace(self.recipe, training=config)
