"""Training plans: the recipe, the size, the number of steps and the command of each family."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from polyseme.comparison.config import ComparisonConfig
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

    def recipe(self, family: str, size: str) -> Recipe:
        """The recipe of a family, except for the length of its training."""
        return Recipe.preset(
            family,
            size,
            [f"training.threads={self._threads(family)}"],
            recipe=self.settings.recipe,
            data={"corpus": self.split.as_options("train"), "dev": self.split.as_options("dev")},
            training={"seed": self.settings.seed},
        )

    def plan(self, families: Sequence[str], shutdown: ShutdownRequest) -> dict[str, TrainingPlan]:
        """Plans of families that are trained in parallel; their trial runs are in parallel, too."""
        with ThreadPoolExecutor(len(families)) as pool:
            plans = pool.map(lambda family: self._plan(family, shutdown), families)
            return dict(zip(families, plans, strict=True))

    def save_milestones(self, family: str, plan: TrainingPlan) -> None:
        """Let later runs with the same budget take the same steps."""
        recipe, fingerprint = self.recipe(family, plan.size), self.settings.fingerprint
        save_milestones(plan.milestones, recipe, fingerprint=fingerprint, steps=plan.steps, seconds=plan.seconds)

    def check_disk_space(self, plans: dict[str, TrainingPlan]) -> None:
        """Raise an error if the runs do not fit on the disk."""
        needed = 0
        for family, plan in plans.items():
            recipe = self.recipe(family, plan.size)
            parameters = plan.trial.parameters if plan.trial else count_parameters(recipe)
            needed += parameters * (_NETWORK_BYTES if recipe.objective.by_gradient else _STATIC_BYTES)
        require_space(self.out, needed, CheckpointError)

    def job(self, family: str, plan: TrainingPlan) -> Job:
        """The training job of a family."""
        fixed_passes = self.recipe(family, plan.size).objective.full_batch
        budget = f"{plan.steps}steps" if plan.steps else "" if fixed_passes else self.settings.budget
        arguments = ["pretrain", family]
        for split, option in (("train", "--corpus"), ("dev", "--dev")):
            arguments += [part for path in self.split.as_options(split) for part in (option, path)]
        arguments += ["--size", plan.size, *(["--budget", budget] if budget else [])]
        arguments += ["--seed", str(self.settings.seed)]
        if self.settings.recipe != "fast":
            arguments += ["--recipe", self.settings.recipe]
        folder = self.out / RUNS / family
        arguments += ["--set", f"training.threads={self._threads(family)}"]
        if plan.milestones:
            arguments += ["--set", f"training.milestones={list(plan.milestones)}".replace(" ", "")]
        elif plan.seconds:
            arguments += ["--set", f"training.processor_seconds={plan.seconds:g}"]
        arguments += ["--out", str(folder)]
        return Job(name=family, arguments=arguments, folder=folder, log=self.out / RUNS / f"{family}.log")

    def _threads(self, family: str) -> int:
        deterministic = Recipe.preset(family, SIZES[0]).objective.deterministic_threads
        return self.settings.threads if deterministic else 1

    def _plan(self, family: str, shutdown: ShutdownRequest) -> TrainingPlan:
        fingerprint, seconds = self.settings.fingerprint, self.settings.processor_seconds or 0.0

        @cache
        def trial_of(size: str) -> TrialRun:
            return find_trial(self.recipe(family, size), fingerprint=fingerprint, seconds=seconds, shutdown=shutdown)

        plan = plan_training(family, self.settings, trial_of, partial(self.recipe, family))
        recipe = self.recipe(family, plan.size)
        milestones = load_milestones(recipe, fingerprint=fingerprint, steps=plan.steps, seconds=plan.seconds)
        return replace(plan, milestones=milestones)
