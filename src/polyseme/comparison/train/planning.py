"""Training plans: the recipe, the size, the number of steps and the command of each family."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from polyseme.comparison.config import ComparisonConfig, TrainingRun
from polyseme.comparison.train.launcher import Job
from polyseme.comparison.train.model_size import TrainingPlan, count_parameters, plan_training
from polyseme.comparison.train.throughput import TrialRun, find_trial, load_milestones, save_milestones
from polyseme.datasets.splits import SplitCorpus
from polyseme.errors import CheckpointError
from polyseme.system.atomic_io import require_space
from polyseme.system.signals import ShutdownRequest
from polyseme.training.optimization.budget import SIZES
from polyseme.training.recipes.recipe import Recipe

RUNS = "runs"

_STATIC_BYTES, _NETWORK_BYTES = 24, 40  # disk space per parameter: a model; checkpoints with optimizer moments


@dataclass(frozen=True, kw_only=True)
class TrainingPlanner:
    """Plans the training jobs of a comparison."""

    settings: ComparisonConfig
    split: SplitCorpus
    out: Path

    def recipe(self, family: str, size: str, *, training: int = 0) -> Recipe:
        """The recipe of a training of a family, except for its length."""
        return Recipe.preset(
            family,
            size,
            [f"training.threads={self._threads(family)}"],
            recipe=self.settings.recipe,
            data={"corpus": self.split.as_options("train"), "dev": self.split.as_options("dev")},
            training={"seed": self.settings.seed + training},
        )

    def plan(self, families: Sequence[str], shutdown: ShutdownRequest) -> dict[TrainingRun, TrainingPlan]:
        """Plans of all trainings of families that are trained in parallel; their trial runs are in parallel, too."""
        with ThreadPoolExecutor(len(families)) as pool:
            found = pool.map(lambda family: self._plan(family, shutdown), families)
            plans = dict(zip(families, found, strict=True))
        runs = (run for run in self.settings.runs if run.family in plans)
        return {run: self._with_milestones(run, plans[run.family]) for run in runs}

    def save_milestones(self, run: TrainingRun, plan: TrainingPlan) -> None:
        """Let later runs with the same budget take the same steps."""
        recipe, fingerprint = self.recipe(run.family, plan.size, training=run.training), self.settings.fingerprint
        save_milestones(plan.milestones, recipe, fingerprint=fingerprint, steps=plan.steps, seconds=plan.seconds)

    def check_disk_space(self, plans: dict[TrainingRun, TrainingPlan]) -> None:
        """Raise an error if the runs do not fit on the disk."""
        needed = 0
        for run, plan in plans.items():
            recipe = self.recipe(run.family, plan.size)
            parameters = plan.trial.parameters if plan.trial else count_parameters(recipe)
            needed += parameters * (_NETWORK_BYTES if recipe.objective.by_gradient else _STATIC_BYTES)
        require_space(self.out, needed, CheckpointError)

    def job(self, run: TrainingRun, plan: TrainingPlan) -> Job:
        """The job of a training."""
        fixed_passes = self.recipe(run.family, plan.size).objective.full_batch
        budget = f"{plan.steps}steps" if plan.steps else "" if fixed_passes else self.settings.budget
        arguments = ["pretrain", run.family]
        for split, option in (("train", "--corpus"), ("dev", "--dev")):
            arguments += [part for path in self.split.as_options(split) for part in (option, path)]
        arguments += ["--size", plan.size, *(["--budget", budget] if budget else [])]
        arguments += ["--seed", str(self.settings.seed + run.training)]
        if self.settings.recipe != "fast":
            arguments += ["--recipe", self.settings.recipe]
        folder = self.out / RUNS / run.name
        arguments += ["--set", f"training.threads={self._threads(run.family)}"]
        if plan.milestones:
            arguments += ["--set", f"training.milestones={list(plan.milestones)}".replace(" ", "")]
        elif plan.seconds:
            arguments += ["--set", f"training.processor_seconds={plan.seconds:g}"]
        arguments += ["--out", str(folder)]
        return Job(run=run, arguments=arguments, folder=folder, log=self.out / RUNS / f"{run.name}.log")

    def _threads(self, family: str) -> int:
        deterministic = Recipe.preset(family, SIZES[0]).objective.deterministic_threads
        return self.settings.threads if deterministic else 1

    def _plan(self, family: str, shutdown: ShutdownRequest) -> TrainingPlan:
        fingerprint, seconds = self.settings.fingerprint, self.settings.processor_seconds or 0.0

        @cache
        def trial_of(size: str) -> TrialRun:
            return find_trial(self.recipe(family, size), fingerprint=fingerprint, seconds=seconds, shutdown=shutdown)

        return plan_training(family, self.settings, trial_of, partial(self.recipe, family))

    def _with_milestones(self, run: TrainingRun, plan: TrainingPlan) -> TrainingPlan:
        recipe, fingerprint = self.recipe(run.family, plan.size, training=run.training), self.settings.fingerprint
        milestones = load_milestones(recipe, fingerprint=fingerprint, steps=plan.steps, seconds=plan.seconds)
        return replace(plan, milestones=milestones)
