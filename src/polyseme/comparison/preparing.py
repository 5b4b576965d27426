"""What each family is to be trained with: its recipe, its size, its steps, and the command that does it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from polyseme.comparison.pacing import Pace, find_marks, find_pace, keep_marks
from polyseme.comparison.settings import ComparisonConfig
from polyseme.comparison.sizing import Chosen, choose, count_parameters
from polyseme.comparison.splitting import Split
from polyseme.comparison.training import Job
from polyseme.errors import CheckpointError
from polyseme.files import require_space
from polyseme.train.recipe import Recipe
from polyseme.train.signals import Interruption

RUNS = "runs"

_ONE_THREAD = ("cbow", "skipgram", "glove")  # whose threads wait for nobody, so that only one gives the same twice
_STATIC_BYTES, _NETWORK_BYTES = 24, 40  # of a run, for each parameter: a model, and checkpoints with moments


@dataclass(frozen=True, kw_only=True)
class Starter:
    """Makes the trainings of a comparison."""

    settings: ComparisonConfig
    split: Split
    out: Path

    def recipe(self, family: str, size: str) -> Recipe:
        """What a family of a size is told, but for the length of its training."""
        return Recipe.preset(
            family,
            size,
            [f"plan.threads={self._threads(family)}"],
            recipe=self.settings.recipe,
            data={"corpus": self.split.named("train"), "dev": self.split.named("dev")},
            plan={"seed": self.settings.seed},
        )

    def _threads(self, family: str) -> int:
        return 1 if family in _ONE_THREAD else self.settings.threads

    def choose(self, families: Sequence[str], interruption: Interruption) -> dict[str, Chosen]:
        """The size and the steps of families that are trained side by side, and are tried so too."""
        with ThreadPoolExecutor(len(families)) as pool:
            found = pool.map(lambda family: self._choose(family, interruption), families)
            return dict(zip(families, found, strict=True))

    def _choose(self, family: str, interruption: Interruption) -> Chosen:
        paces: dict[str, Pace] = {}
        fingerprint = self.settings.fingerprint

        def pace_of(size: str) -> Pace:
            if size not in paces:
                seconds = self.settings.processor_seconds or 0.0
                paces[size] = find_pace(
                    self.recipe(family, size), fingerprint=fingerprint, seconds=seconds, interruption=interruption
                )
            return paces[size]

        chosen = choose(family, self.settings, pace_of, lambda size: self.recipe(family, size))
        recipe, seconds = self.recipe(family, chosen.size), chosen.seconds
        return replace(chosen, marks=find_marks(recipe, fingerprint=fingerprint, steps=chosen.steps, seconds=seconds))

    def keep(self, family: str, chosen: Chosen) -> None:
        """Let the steps that a run was fitted to be those of the same budget from now on."""
        recipe, fingerprint = self.recipe(family, chosen.size), self.settings.fingerprint
        keep_marks(chosen.marks, recipe, fingerprint=fingerprint, steps=chosen.steps, seconds=chosen.seconds)

    def check_room(self, chosen: dict[str, Chosen]) -> None:
        """Refuse what the disk cannot hold."""
        needed = 0
        for family, one in chosen.items():
            recipe = self.recipe(family, one.size)
            parameters = one.pace.parameters if one.pace else count_parameters(recipe)
            needed += parameters * (_NETWORK_BYTES if recipe.objective.by_gradient else _STATIC_BYTES)
        require_space(self.out, needed, CheckpointError)

    def job(self, family: str, chosen: Chosen) -> Job:
        """The training of a family."""
        by_itself = self.recipe(family, chosen.size).objective.whole_text
        budget = f"{chosen.steps}steps" if chosen.steps else "" if by_itself else self.settings.budget
        arguments = ["pretrain", family]
        for side, option in (("train", "--corpus"), ("dev", "--dev")):
            arguments += [part for path in self.split.named(side) for part in (option, path)]
        arguments += ["--size", chosen.size, *(["--budget", budget] if budget else [])]
        arguments += ["--seed", str(self.settings.seed)]
        if self.settings.recipe != "fast":
            arguments += ["--recipe", self.settings.recipe]
        folder = self.out / RUNS / family
        arguments += ["--set", f"plan.threads={self._threads(family)}"]
        if chosen.marks:
            arguments += ["--set", f"plan.marks={list(chosen.marks)}".replace(" ", "")]
        elif chosen.seconds:
            arguments += ["--set", f"plan.processor_seconds={chosen.seconds:g}"]
        arguments += ["--out", str(folder)]
        return Job(name=family, arguments=arguments, folder=folder, log=self.out / RUNS / f"{family}.log")
