"""Learning by gradient, one step at a time, whatever the family and the objective."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from polyseme.course import Course
from polyseme.errors import ConfigError, TrainingError
from polyseme.learning import LearnerState, Step, Values
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, Source, Together
from polyseme.tasks.base import Tuning
from polyseme.tasks.examples import Examples
from polyseme.tasks.several import Several
from polyseme.tensors import Batch
from polyseme.train.averaging import Averaging
from polyseme.train.plan import PlanConfig, averaged, decays, layer_rates, num_frozen, rate_at, shortening
from polyseme.train.replicas import Replicas, fitting_number, stages_of

logger = logging.getLogger(__name__)

_MAX_BAD_STEPS = 3


class GradientLearner:
    """Moves weights down the sum of an objective's mean losses.

    The batch of a step and its dropout depend on the seed and the step's number alone, so that there is no
    random state and no position in the data to save.
    """

    def __init__(
        self, encoder: Encoder, objective: Together, source: Source | Examples | Several, plan: PlanConfig
    ) -> None:
        self.encoder = encoder
        self.objective = objective
        self.source = source
        self.plan = plan
        self.done = 0
        self.tokens = 0
        self.seconds = self.processor_seconds = 0.0
        self.bad_steps = 0  # in a row
        self.carried: Mapping[str, Tensor] = {}  # recurrent state after the last step, of all rows
        self.micro_tokens = min(plan.micro_tokens, source.num_rows * source.length)
        self.device = encoder.device
        self.weights = dict([*encoder.named_parameters(), *objective.named_parameters()])
        self.statistics = dict(objective.named_buffers())  # of batches, where a head keeps any
        self.num_stages = len(stages_of(encoder))
        self.optimizer = _optimizer(encoder, objective, self.weights, plan)
        self.averaging = Averaging(self.weights, plan.patience)
        self.replicas = Replicas(encoder, objective, fitting_number(encoder, objective, source.num_rows))

    @property
    def total(self) -> int:
        return self.plan.course.total

    def follow(self, course: Course) -> None:
        """Go on by a course that has been decided further."""
        self.plan = self.plan.replace(marks=course.marks)

    def steps(self) -> Generator[Step, None, None]:
        """Learn, one step at a time; the next batch is drawn while this one is learnt from."""
        with self.replicas, ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as ahead:
            coming = self._draw(ahead, self.done)
            while self.done < self.total:
                started = time.perf_counter(), time.process_time()
                batch = coming.result()
                if self.done + 1 < self.total:
                    coming = self._draw(ahead, self.done + 1)
                yield self._learn(batch, started)

    def _draw(self, ahead: ThreadPoolExecutor, step: int) -> Future[Batch]:
        return ahead.submit(draw, self.objective, self.source, self.plan, step)

    def _learn(self, batch: Batch, started: tuple[float, float]) -> Step:
        rate = rate_at(self.plan, self.done) * batch.stretch
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.replicas.freeze(num_frozen(self.plan, self.done, self.num_stages))
        statistics = {name: tensor.clone() for name, tensor in self.statistics.items()}
        losses = self._gradient(batch)
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.plan.clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            if self.plan.optimizer == "nt-asgd":
                self.averaging.step()
            elif averaged(self.plan, self.done):
                self.averaging.take()
            self.bad_steps = 0
        else:
            self._skip(batch)
            _fill(self.statistics, statistics)
        self.replicas.forget_gradients()
        self.done += 1
        self.tokens += batch.ids.numel()
        self.seconds += time.perf_counter() - started[0]
        self.processor_seconds += time.process_time() - started[1]
        return Step(
            number=self.done,
            tokens=self.tokens,
            seconds=self.seconds,
            processor_seconds=self.processor_seconds,
            rate=rate,
            losses=losses,
            skipped=not finite,
        )

    def _gradient(self, batch: Batch) -> dict[str, float]:
        """Add up the gradient of the whole batch, in smaller pieces if memory runs out."""
        while True:
            try:
                torch.manual_seed(_dropout_seed(self.plan.seed, self.done))
                rows = going_on(self.encoder, batch, self.carried)
                found = self.replicas.add_up(rows, partial(self._part, batch.counts))
                states = [state for _, of_share in found for state in of_share]
                self.carried = {name: torch.cat([state[name] for state in states]) for name in rows.carried}
                return {name: sum(sums[name] for sums, _ in found) for name in batch.counts}
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                self._use_less_memory()

    def _part(
        self, counts: Mapping[str, int], encoder: Encoder, objective: Together, share: Batch
    ) -> tuple[dict[str, float], list[dict[str, Tensor]]]:
        """Add up the gradient of a share of the rows of a batch that has so many scored items; and their states."""
        encoder.train()
        objective.train()
        sums = dict.fromkeys(counts, 0.0)
        states = []
        usual_length = round(share.ids.shape[1] / share.stretch)
        at_once = self.micro_tokens // (usual_length * len(self.replicas.models))
        for rows in share.split(max(1, at_once)):
            outcome = objective(encoder, rows.to(self.device))
            # Dividing by the counts of the whole batch makes the pieces add up to the same update.
            terms = [loss * objective.weights[name] / max(1, counts[name]) for name, loss in outcome.losses.items()]
            torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
            if outcome.state:
                states.append({name: tensor.detach() for name, tensor in outcome.state.carried.items()})
            for name, loss in outcome.losses.items():
                sums[name] += loss.item() / max(1, counts[name])
        return sums, states

    def _use_less_memory(self) -> None:
        self.replicas.forget_gradients()
        if self.micro_tokens <= self.source.length:
            raise ConfigError(
                "memory runs out with a single row; make model.width, model.vocab_size or data.length less"
            )
        self.micro_tokens = (self.micro_tokens + 1) // 2
        logger.warning("memory ran out; going on with %d tokens at a time, the same batch", self.micro_tokens)

    def _skip(self, batch: Batch) -> None:
        self.bad_steps += 1
        self.carried = {}  # it may be what is not finite
        first = batch.ids[0, :8].tolist()
        logger.warning("step %d: the gradient is not finite; skipped (its batch begins %s)", self.done + 1, first)
        if self.bad_steps > _MAX_BAD_STEPS:
            raise TrainingError(
                f"the gradient was not finite {self.bad_steps} steps in a row, at step {self.done + 1}; "
                f"the last good checkpoint is kept: try a lower plan.rate than {self.plan.rate:g}"
            )

    def evaluate(self, source: Source | Examples | Several, *, num_batches: int) -> dict[str, float]:
        """Mean nats and accuracy on the first batches of a text."""
        with self.averaging.settled():
            return evaluate(self.encoder, self.objective, source, num_batches=num_batches)

    def look(self, dev_loss: float) -> None:
        """Take means of the weights once it no longer improves, if the plan says so."""
        if self.plan.optimizer == "nt-asgd":
            self.averaging.look(dev_loss)

    def settle(self) -> None:
        """Leave the model with the means, if there are any."""
        self.averaging.settle()

    def files(self, token: Callable[[int], str]) -> dict[str, str]:
        """Nothing: the weights are all there is."""
        return {}

    def state(self) -> LearnerState:
        """Weights, statistics that go with them, moments and counters."""
        moments = {
            f"{name}.{moment}": tensor
            for name, weight in self.weights.items()
            for moment, tensor in self.optimizer.state.get(weight, {}).items()
        }
        values: Values = {
            "done": self.done,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "bad_steps": self.bad_steps,
            "micro_tokens": self.micro_tokens,
        }
        weights = {name: tensor.detach() for name, tensor in {**self.weights, **self.statistics}.items()}
        some = {"carried": dict(self.carried), "averages": self.averaging.state()}  # of some families and plans
        tensors = {"weights": weights, "optimizer": moments, **{name: group for name, group in some.items() if group}}
        return LearnerState(tensors=tensors, values=values)

    def restore(self, state: LearnerState) -> None:
        """Stand where that state was taken."""
        _fill({**self.weights, **self.statistics}, state.tensors["weights"])
        for name, tensor in state.tensors.get("optimizer", {}).items():
            weight_name, _, moment = name.rpartition(".")
            self.optimizer.state[self.weights[weight_name]][moment] = tensor.clone()
        self.carried = {name: tensor.to(self.device) for name, tensor in state.tensors.get("carried", {}).items()}
        self.averaging.restore(state.tensors.get("averages", {}))
        self.done = int(state.values["done"])
        self.tokens = int(state.values["tokens"])
        self.seconds = float(state.values["seconds"])
        self.processor_seconds = float(state.values.get("processor_seconds", 0.0))  # older checkpoints have none
        self.bad_steps = int(state.values["bad_steps"])
        self.micro_tokens = int(state.values["micro_tokens"])


@torch.no_grad()
def _fill(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        tensor.copy_(values[name])


def _optimizer(
    encoder: Encoder, objective: Together, weights: Mapping[str, Tensor], plan: PlanConfig
) -> torch.optim.Optimizer:
    """What moves the weights, in groups of one rate and one decay.

    Heads belong to the top layer, and so does the embedding which the words are predicted by: held back below, it kept
    a language model from learning those of other text (perplexity 626 after 100 steps instead of 393). For a task it is
    the lowest layer, even if words are predicted beside it.
    """
    stages = stages_of(encoder)
    shares = layer_rates(1.0, len(stages), divisor=plan.layer_divisor)
    own = {id(weight): share for stage, share in zip(stages, shares, strict=True) for weight in stage}
    if not isinstance(objective, Tuning):
        own.pop(id(encoder.tokens.weight), None)
    groups: dict[tuple[float, bool], list[Tensor]] = {}
    for name, weight in weights.items():
        groups.setdefault((own.get(id(weight), 1.0), decays(name, weight.dim())), []).append(weight)
    parts = [
        {"params": params, "share": share, "weight_decay": plan.decay if decayed else 0.0}
        for (share, decayed), params in groups.items()
    ]
    if plan.optimizer == "nt-asgd":
        return torch.optim.SGD(parts, lr=plan.rate)
    return torch.optim.AdamW(parts, lr=plan.rate, betas=(plan.beta1, plan.beta2), eps=plan.epsilon, fused=True)


def draw(objective: Objective, source: Source | Examples | Several, plan: PlanConfig, step: int) -> Batch:
    """What is learnt from at a step, counted from 0."""
    source = dataclasses.replace(source.shortened(shortening(plan, step)), course=plan.course)
    return objective.batch(source, seed=plan.seed, step=step)


def going_on(encoder: Encoder, batch: Batch, carried: Mapping[str, Tensor]) -> Batch:
    """The batch with the state that its rows go on from: an empty one, unless as many rows came before."""
    if not batch.continues:
        return batch
    if not carried or any(len(tensor) != len(batch.ids) for tensor in carried.values()):
        begun = encoder.begin(len(batch.ids), batch.ids.shape[1])
        carried = begun.carried if begun else {}
    return dataclasses.replace(batch, carried=carried)


def evaluate(
    encoder: Encoder, objective: Objective, source: Source | Examples | Several, *, num_batches: int
) -> dict[str, float]:
    """Mean nats and accuracy by loss term on the first batches of a text, the same ones every time."""
    encoder.eval()
    objective.eval()
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    right: dict[str, float] = {}
    carried: Mapping[str, Tensor] = {}
    with torch.inference_mode():
        for step in range(num_batches):
            batch = objective.batch(source, seed=0, step=step).to(encoder.device)
            outcome = objective(encoder, going_on(encoder, batch, carried))
            carried = outcome.state.carried if outcome.state else {}
            for name, loss in outcome.losses.items():
                sums[name] = sums.get(name, 0.0) + loss.item()
                counts[name] = counts.get(name, 0) + batch.counts[name]
            for name, number in outcome.correct.items():
                right[name] = right.get(name, 0.0) + number.item()
    figures = {name: sums[name] / max(1, counts[name]) for name in sums}
    figures |= {f"{name}_accuracy": right[name] / max(1, counts[name]) for name in right}
    return figures | objective.figures(figures, source)


def _dropout_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, 3, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
