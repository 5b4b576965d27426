"""The objective of a fine-tuning: the heads of its tasks on one encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from polyseme.batch import IGNORED, Batch, Encoded, LossOutput, State
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig
from polyseme.tasks.inputs.dataset import TaskDataset
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.inputs.multitask import MultiTaskDataset


class AuxiliaryLm(CausalLm):
    """Language modelling on the inputs of a task, an auxiliary loss (Radford et al., 2018, equation 5)."""

    def add_targets(self, batch: Batch, source: Any, *, seed: int, step: int) -> Batch:
        labels = torch.full_like(batch.ids, IGNORED)
        labels[:, :-1] = batch.ids[:, 1:].where(batch.mask[:, 1:], IGNORED)
        return batch.with_labels(self.name, labels)

    def metrics(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        return {}


class FineTuningObjective(JointObjective):
    """One task or several, perhaps with an auxiliary language model; the encoder is trained or frozen."""

    def __init__(self, tasks: Mapping[str, Task[Any, Any]], config: FineTuningConfig, encoder: Encoder) -> None:
        self.frozen = config.method in ("frozen", "mix")
        trains_top_layer = config.method in ("full", "gradual")
        auxiliary = encoder.input_format == "delimited" and trains_top_layer and config.language_model > 0
        others: dict[str, Objective] = {AuxiliaryLm.name: AuxiliaryLm()} if auxiliary else {}
        super().__init__({**tasks, **others}, weights=dict.fromkeys(others, config.language_model))

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """The task heads by name."""
        return {part.name: part for part in self.parts if isinstance(part, Task)}

    def read(
        self,
        formatter: InputFormatter,
        examples: Mapping[str, Sequence[Any]],
        unlabelled: Sequence[Any] = (),
        *,
        num_rows: int,
    ) -> MultiTaskDataset:
        """Encode the examples of each task, and unlabelled ones, into batches of `num_rows`."""
        tasks = self.tasks
        sources = {name: tasks[name].read(formatter, some, num_rows=num_rows) for name, some in examples.items()}
        labelled = MultiTaskDataset(sources=sources)
        return self.add_unlabelled(labelled, formatter, unlabelled) if unlabelled else labelled

    def add_unlabelled(
        self, labelled: MultiTaskDataset, formatter: InputFormatter, examples: Sequence[Any]
    ) -> MultiTaskDataset:
        """Add unlabelled examples to labelled ones."""
        raise ConfigError("data.unlabelled: only cvt uses unlabelled examples; set finetuning.method=cvt")

    def draw_batch(self, source: TaskDataset | MultiTaskDataset, *, seed: int, step: int) -> Batch:  # type: ignore[override]
        if isinstance(source, MultiTaskDataset):
            return source.draw(seed=seed, step=step)
        return super().draw_batch(source, seed=seed, step=step)  # type: ignore[arg-type]  # of the only task

    def active_parts(self, batch: Batch) -> list[Objective]:
        return [part for name, part in zip(self.names, self.parts, strict=True) if name in batch.labels]

    def forward(self, encoder: Encoder, batch: Batch, state: State | None = None) -> LossOutput:
        if not self.frozen:
            return super().forward(encoder, batch, state)
        encoder.eval()
        with torch.no_grad():
            encoded: Encoded = encoder(batch, state)
        return self.loss(encoder, encoded, batch)
