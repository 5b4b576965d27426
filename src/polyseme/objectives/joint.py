"""Several objectives trained together."""

from collections.abc import Mapping
from typing import Any, cast

from polyseme.batch import Batch, Encoded, LossOutput
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.objectives.sources import TokenSource


class JointObjective(Objective):
    """Objectives that share one forward pass: the first draws the sequences, each adds its targets and its loss."""

    def __init__(self, parts: Mapping[str, Objective], weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.names = tuple(parts)
        self.weights = {**dict.fromkeys(parts, 1.0), **(weights or {})}  # of each mean loss, by its name
        # So that weights are named `masked_lm.bias`; not attributes, because users choose the names of tasks.
        self._modules.update(parts)

    @property
    def parts(self) -> list[Objective]:
        """The objectives in order."""
        return [cast(Objective, self._modules[name]) for name in self.names]

    def active_parts(self, batch: Batch) -> list[Objective]:
        """Objectives with targets in a batch."""
        return self.parts

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        return self.parts[0].draw_batch(source, seed=seed, step=step)

    def add_targets(self, batch: Batch, source: TokenSource, *, seed: int, step: int) -> Batch:
        for part in self.parts:
            batch = part.add_targets(batch, source, seed=seed, step=step)
        return batch

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        outputs = [part.loss(encoder, encoded, batch) for part in self.active_parts(batch)]
        losses = {name: loss for output in outputs for name, loss in output.losses.items()}
        correct = {name: number for output in outputs for name, number in output.correct.items()}
        return LossOutput(losses=losses, correct=correct)

    def metrics(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        return {name: value for part in self.parts for name, value in part.metrics(means, source).items()}
