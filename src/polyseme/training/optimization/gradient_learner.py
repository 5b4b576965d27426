"""Training by gradient descent, for every family and objective that has gradients."""

import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from polyseme.batch import Batch
from polyseme.errors import ConfigError, TrainingError
from polyseme.learner import LearnerState, Step
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.step_schedule import StepSchedule
from polyseme.tasks.finetuning import FineTuningObjective
from polyseme.tasks.inputs.dataset import TaskDataset
from polyseme.tasks.inputs.multitask import MultiTaskDataset
from polyseme.training.optimization import lr_schedules
from polyseme.training.optimization.optimizer_config import TrainingConfig, has_weight_decay
from polyseme.training.optimization.thread_parallel import ThreadReplicas, layer_group_weights, num_replicas
from polyseme.training.optimization.weight_averaging import WeightAveraging

logger = logging.getLogger(__name__)

_MAX_BAD_STEPS = 3
_COUNTERS = ("steps_done", "tokens", "seconds", "processor_seconds", "bad_steps", "micro_batch_tokens")

Source = TokenSource | TaskDataset | MultiTaskDataset


class GradientLearner:
    """Trains by gradient descent on the weighted sum of an objective's mean losses.

    The batch of a step and its dropout depend on the seed and the step number only, so that checkpoints need no random
    state and no position in the data.
    """

    def __init__(self, encoder: Encoder, objective: JointObjective, source: Source, config: TrainingConfig) -> None:
        self.encoder = encoder
        self.objective = objective
        self.source = source
        self.config = config
        self.steps_done = 0
        self.tokens = 0
        self.seconds = self.processor_seconds = 0.0
        self.bad_steps = 0  # in a row
        self.recurrent_state: Mapping[str, Tensor] = {}  # after the last step, of all rows
        self.micro_batch_tokens = min(config.micro_batch_tokens, source.num_rows * source.length)
        self.device = encoder.device
        self.weights = dict([*encoder.named_parameters(), *objective.named_parameters()])
        self.statistics = dict(objective.named_buffers())  # of batch normalization
        self.num_groups = len(layer_group_weights(encoder))
        self.optimizer = _optimizer(encoder, objective, self.weights, config)
        self.averaging = WeightAveraging(self.weights, config.averaging_patience)
        self.replicas = ThreadReplicas(encoder, objective, num_replicas(encoder, objective, source.num_rows))

    @property
    def total_steps(self) -> int:
        return self.config.step_schedule.total_steps

    def update_schedule(self, schedule: StepSchedule) -> None:
        """Continue with a schedule that has more milestones."""
        self.config = self.config.replace(milestones=schedule.milestones)

    def steps(self) -> Generator[Step, None, None]:
        """Train, one step per iteration; the next batch is prepared in another thread."""
        with self.replicas, ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as thread:
            draw_step = partial(draw, self.objective, self.source)
            next_batch = thread.submit(draw_step, self.config, self.steps_done)
            while self.steps_done < self.total_steps:
                started = time.perf_counter(), time.process_time()
                batch = next_batch.result()
                if self.steps_done + 1 < self.total_steps:
                    next_batch = thread.submit(draw_step, self.config, self.steps_done + 1)
                yield self._train_step(batch, started)

    def _train_step(self, batch: Batch, started: tuple[float, float]) -> Step:
        learning_rate = lr_schedules.learning_rate_at(self.config, self.steps_done) * batch.length_ratio
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["lr_multiplier"]
        self.replicas.freeze(lr_schedules.num_frozen(self.config, self.steps_done, self.num_groups))
        statistics = {name: tensor.clone() for name, tensor in self.statistics.items()}
        losses = self._accumulate_gradient(batch)
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.config.max_grad_norm)
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            nt_asgd = self.config.optimizer == "nt-asgd"
            averages = self.averaging.means if nt_asgd else lr_schedules.is_averaged(self.config, self.steps_done)
            if averages:
                self.averaging.add()
            self.bad_steps = 0
        else:
            self._skip(batch)
            _copy(statistics, self.statistics)
        self.replicas.clear_gradients()
        self.steps_done += 1
        self.tokens += batch.ids.numel()
        self.seconds += time.perf_counter() - started[0]
        self.processor_seconds += time.process_time() - started[1]
        return Step(
            number=self.steps_done,
            tokens=self.tokens,
            seconds=self.seconds,
            processor_seconds=self.processor_seconds,
            learning_rate=learning_rate,
            losses=losses,
            skipped=not finite,
        )

    def _accumulate_gradient(self, batch: Batch) -> dict[str, float]:
        """Compute the gradient of a batch, in smaller micro-batches if memory runs out; return the mean losses."""
        while True:
            try:
                seed = np.random.SeedSequence([self.config.seed, 3, self.steps_done]).generate_state(1, np.uint64)[0]
                torch.manual_seed(int(seed >> np.uint64(1)))
                rows = with_recurrent_state(self.encoder, batch, self.recurrent_state)
                results = self.replicas.accumulate(rows, partial(self._backward, batch.counts))
                states = [state for _, of_part in results for state in of_part]
                self.recurrent_state = {
                    name: torch.cat([state[name] for state in states]) for name in rows.initial_state
                }
                return {name: sum(sums[name] for sums, _ in results) for name in batch.counts}
            except (MemoryError, RuntimeError) as error:
                out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
                if not out_of_memory and "can't allocate memory" not in str(error):
                    raise
                self._halve_micro_batch()

    def _backward(
        self, counts: Mapping[str, int], encoder: Encoder, objective: JointObjective, part: Batch
    ) -> tuple[dict[str, float], list[dict[str, Tensor]]]:
        """Add the gradient of a part of a batch; return its share of the mean losses, and its recurrent states.

        Args:
            counts: Targets of the whole batch by loss term.
            encoder: A replica of the encoder.
            objective: A replica of the objective.
            part: Some rows of the batch.
        """
        encoder.train()
        objective.train()
        sums = dict.fromkeys(counts, 0.0)
        states = []
        configured_length = round(part.ids.shape[1] / part.length_ratio)
        rows_at_once = self.micro_batch_tokens // (configured_length * len(self.replicas.models))
        for rows in part.split(max(1, rows_at_once)):
            output = objective(encoder, rows.to(self.device))
            # Divided by the counts of the whole batch, micro-batches add up to the same update.
            terms = [loss * objective.weights[name] / max(1, counts[name]) for name, loss in output.losses.items()]
            torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
            if output.state:
                states.append({name: tensor.detach() for name, tensor in output.state.recurrent_state.items()})
            for name, loss in output.losses.items():
                sums[name] += loss.item() / max(1, counts[name])
        return sums, states

    def _halve_micro_batch(self) -> None:
        self.replicas.clear_gradients()
        if self.micro_batch_tokens <= self.source.length:
            raise ConfigError(
                "out of memory with a single sequence; reduce model.width, model.vocab_size or data.sequence_length"
            )
        self.micro_batch_tokens = (self.micro_batch_tokens + 1) // 2
        logger.warning("out of memory; continuing with micro-batches of %d tokens", self.micro_batch_tokens)

    def _skip(self, batch: Batch) -> None:
        self.bad_steps += 1
        self.recurrent_state = {}  # it may be the cause
        first = batch.ids[0, :8].tolist()
        logger.warning("step %d skipped: non-finite gradient (first ids of the batch: %s)", self.steps_done + 1, first)
        if self.bad_steps > _MAX_BAD_STEPS:
            raise TrainingError(
                f"the gradient was not finite {self.bad_steps} steps in a row, at step {self.steps_done + 1}; "
                f"the last checkpoint is valid: try a lower training.learning_rate than {self.config.learning_rate:g}"
            )

    def evaluate(self, source: Source, *, num_batches: int) -> dict[str, float]:
        """Compute mean losses and accuracies on the first batches of a text, with averaged weights if there are any."""
        with self.averaging.averaged_weights():
            return evaluate(self.encoder, self.objective, source, num_batches=num_batches)

    def on_validation_loss(self, dev_loss: float) -> None:
        """Note the loss of a validation, which may trigger NT-ASGD."""
        if self.config.optimizer == "nt-asgd":
            self.averaging.on_validation_loss(dev_loss)

    def finalize(self) -> None:
        """Replace the weights by their average, if there is one."""
        self.averaging.finalize()

    def extra_files(self, token: Callable[[int], str]) -> dict[str, str]:
        """No files: the weights are the whole model."""
        return {}

    def state(self) -> LearnerState:
        """Return weights, batch-normalization statistics, optimizer moments, recurrent state and counters."""
        moments = {
            f"{name}.{moment}": tensor
            for name, weight in self.weights.items()
            for moment, tensor in self.optimizer.state.get(weight, {}).items()
        }
        weights = {name: tensor.detach() for name, tensor in {**self.weights, **self.statistics}.items()}
        optional = {"recurrent_state": dict(self.recurrent_state), "averages": self.averaging.state()}
        present = {name: group for name, group in optional.items() if group}
        values = {name: getattr(self, name) for name in _COUNTERS}
        return LearnerState(tensors={"weights": weights, "optimizer": moments, **present}, values=values)

    def restore(self, state: LearnerState) -> None:
        """Load the state of a checkpoint."""
        _copy(state.tensors["weights"], {**self.weights, **self.statistics})
        for name, tensor in state.tensors.get("optimizer", {}).items():
            weight_name, _, moment = name.rpartition(".")
            self.optimizer.state[self.weights[weight_name]][moment] = tensor.clone()
        recurrent_state = state.tensors.get("recurrent_state", {})
        self.recurrent_state = {name: tensor.to(self.device) for name, tensor in recurrent_state.items()}
        for name in _COUNTERS:
            setattr(self, name, state.values[name])
        # With a longer budget, the checkpoints to average are later ones.
        averages = self.config.optimizer == "nt-asgd" or lr_schedules.has_averages(self.config, self.steps_done)
        self.averaging.restore(state.tensors.get("averages", {}) if averages else {})


@torch.no_grad()
def _copy(values: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        tensor.copy_(values[name])


def _optimizer(
    encoder: Encoder, objective: JointObjective, weights: Mapping[str, Tensor], config: TrainingConfig
) -> torch.optim.Optimizer:
    """Build the optimizer, with a parameter group per learning rate and weight decay.

    Heads have the learning rate of the top layer. So has the embedding, which is also the output layer of language
    models: with the rate of the lowest layer, it kept one from adapting to other text (perplexity 626 after 100 steps
    instead of 393). In fine-tuning it has the rate of the lowest layer, even with an auxiliary language model.
    """
    layer_groups = layer_group_weights(encoder)
    multipliers = lr_schedules.layer_learning_rates(1.0, len(layer_groups), divisor=config.layer_lr_divisor)
    by_weight = {id(w): factor for group, factor in zip(layer_groups, multipliers, strict=True) for w in group}
    if not isinstance(objective, FineTuningObjective):
        by_weight.pop(id(encoder.tokens.weight), None)
    groups: dict[tuple[float, bool], list[Tensor]] = {}
    for name, weight in weights.items():
        key = by_weight.get(id(weight), 1.0), has_weight_decay(name, weight.dim())
        groups.setdefault(key, []).append(weight)
    parameters = [
        {"params": params, "lr_multiplier": multiplier, "weight_decay": config.weight_decay if decayed else 0.0}
        for (multiplier, decayed), params in groups.items()
    ]
    if config.optimizer == "nt-asgd":
        return torch.optim.SGD(parameters, lr=config.learning_rate)
    betas = config.beta1, config.beta2
    return torch.optim.AdamW(parameters, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=True)


def draw(objective: Objective, source: Source, config: TrainingConfig, step: int) -> Batch:
    """Return the training batch of a step, counted from 0."""
    source = source.with_shorter_sequences(lr_schedules.length_divisor(config, step))
    source = dataclasses.replace(source, schedule=config.step_schedule)
    return objective.batch(source, seed=config.seed, step=step)


def with_recurrent_state(encoder: Encoder, batch: Batch, state: Mapping[str, Tensor]) -> Batch:
    """Set the initial state of a batch that continues another; a new one if the number of rows differs."""
    if not batch.continues:
        return batch
    if not state or any(len(tensor) != len(batch.ids) for tensor in state.values()):
        new_state = encoder.new_state(len(batch.ids), batch.ids.shape[1])
        state = new_state.recurrent_state if new_state else {}
    return dataclasses.replace(batch, initial_state=state)


def evaluate(encoder: Encoder, objective: Objective, source: Source, *, num_batches: int) -> dict[str, float]:
    """Compute mean losses and accuracies by loss term on the first batches of a text, which are always the same."""
    encoder.eval()
    objective.eval()
    sums, counts, correct = (defaultdict[str, float](float) for _ in range(3))
    state: Mapping[str, Tensor] = {}
    with torch.inference_mode():
        for step in range(num_batches):
            batch = objective.batch(source, seed=0, step=step).to(encoder.device)
            output = objective(encoder, with_recurrent_state(encoder, batch, state))
            state = output.state.recurrent_state if output.state else {}
            for name, loss in output.losses.items():
                sums[name] += loss.item()
                counts[name] += batch.counts[name]
            for name, number in output.correct.items():
                correct[name] += number.item()
    metrics = {name: sums[name] / max(1, counts[name]) for name in sums}
    metrics |= {f"{name}_accuracy": correct[name] / max(1, counts[name]) for name in correct}
    return metrics | objective.metrics(metrics, source)
