"""Settings of the optimizer, its schedules and the budget: group `training` of a recipe."""

from itertools import pairwise
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from polyseme.config import Config
from polyseme.step_schedule import NUM_MILESTONES, StepSchedule
from polyseme.training.optimization.budget import BudgetText


class TrainingConfig(Config):
    """Budget, optimizer, schedules and checkpoints of a training run."""

    budget: BudgetText = "10m"  # how long to train
    steps: int = Field(0, ge=0)  # number of steps; computed from the budget when the run starts, then fixed
    processor_seconds: float = Field(0.0, ge=0)  # CPU time of all cores to adapt the steps to; 0: fixed steps
    milestones: tuple[int, ...] = ()  # steps at which each tenth of the run ended, where their number was adapted
    extended_at: int = Field(0, ge=0)  # step from which the schedules are those of the present budget; 0: the first
    seed: int = Field(0, ge=0, lt=2**32)
    initialization: Literal["paper", "fast"] = "paper"  # as published, or from corpus statistics to converge sooner
    base_model: str = ""  # model directory whose weights training continues from
    batch_tokens: int = Field(4096, ge=1)  # tokens per optimizer step
    micro_batch_tokens: int = Field(16384, ge=1)  # tokens per forward pass (gradient accumulation)
    learning_rate: float = Field(1e-3, gt=0)  # the maximum
    lr_schedule: Literal["constant", "linear", "cosine", "trapezoid", "slanted", "noam"] = "linear"  # after the warm-up
    layer_lr_divisor: float = Field(1.0, ge=1)  # each layer group's learning rate is divided by this for the one below
    unfreeze_every: int = Field(0, ge=0)  # gradual unfreezing: steps between layer groups, top first; 0: train all
    warmup_fraction: float = Field(0.06, ge=0, lt=1)  # fraction of the steps with a rising learning rate
    short_sequence_fraction: float = Field(0.0, ge=0, le=1)  # fraction of the steps at a quarter, then half the length
    cooldown_fraction: float = Field(0.25, gt=0, le=1)  # fraction of the steps in which a trapezoid schedule falls
    optimizer: Literal["adamw", "nt-asgd"] = "adamw"  # nt-asgd: SGD, then averaged SGD (Merity et al., 2017)
    averaging_patience: int = Field(5, ge=1)  # validations without improvement before nt-asgd starts averaging
    num_averaged: int = Field(1, ge=1)  # checkpoints, a fiftieth of the run apart, to average at the end; 1: none
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-6, gt=0)
    weight_decay: float = Field(0.01, ge=0)  # not applied to norms and biases
    max_grad_norm: float = Field(1.0, gt=0)  # gradient clipping
    save_every: int = Field(0, ge=0)  # steps between checkpoints; 0: once a minute
    num_evaluations: int = Field(10, ge=1)  # validations per run, if evaluate_every is 0; fewer if a time is short
    evaluate_every: int = Field(0, ge=0)  # steps between validations; 0: evenly spaced
    # Batches per validation; 0: pretraining spends a twentieth of the time, fine-tuning has 32 batches of each task.
    evaluate_batches: int = Field(0, ge=0)
    threads: int = Field(0, ge=0, le=1024)  # 0: all cores

    @field_validator("milestones")
    @classmethod
    def _ascending(cls, milestones: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if any(after <= before for before, after in pairwise((0, *milestones))):
            raise ValueError("give numbers of steps in ascending order")
        partial = 0 < len(milestones) < NUM_MILESTONES
        if len(milestones) > NUM_MILESTONES or (partial and not info.data.get("processor_seconds")):
            raise ValueError(f"give {NUM_MILESTONES} numbers of steps; fewer only with processor_seconds")
        return milestones

    @property
    def step_schedule(self) -> StepSchedule:
        """Maps steps to training progress."""
        return StepSchedule(steps=self.steps, milestones=self.milestones)


def has_weight_decay(name: str, num_dimensions: int) -> bool:
    """Whether weight decay applies to a parameter: to matrices and embeddings, not to norms and biases."""
    return num_dimensions > 1 and not name.endswith(".bias")
