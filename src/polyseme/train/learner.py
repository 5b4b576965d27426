"""Learning by gradient, one step at a time, whatever the family and the objective."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import torch

from polyseme.errors import ConfigError, TrainingError
from polyseme.learning import LearnerState, Step, Values
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, Source, Together
from polyseme.tensors import Batch
from polyseme.train.plan import PlanConfig, decays, rate_at, shortening
from polyseme.train.replicas import Replicas, fitting_number

logger = logging.getLogger(__name__)

_MAX_BAD_STEPS = 3


class GradientLearner:
    """Moves weights down the sum of an objective's mean losses.

    The batch of a step and its dropout depend on the seed and the step's number alone, so that there is no
    random state and no position in the data to save.
    """

    def __init__(self, encoder: Encoder, objective: Together, source: Source, plan: PlanConfig) -> None:
        self.encoder = encoder
        self.objective = objective
        self.source = source
        self.plan = plan
        self.total = plan.steps
        self.done = 0
        self.tokens = 0
        self.seconds = 0.0
        self.bad_steps = 0  # in a row
        self.micro_tokens = min(plan.micro_tokens, source.num_rows * source.length)
        self.device = encoder.tokens.weight.device
        self.weights = dict([*encoder.named_parameters(), *objective.named_parameters()])
        groups = [
            {"params": [w for name, w in self.weights.items() if decays(name, w.dim())], "weight_decay": plan.decay},
            {"params": [w for name, w in self.weights.items() if not decays(name, w.dim())], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=plan.rate, betas=(plan.beta1, plan.beta2), eps=plan.epsilon, fused=True
        )
        self.replicas = Replicas(encoder, objective, fitting_number(encoder, source.num_rows))

    def steps(self) -> Generator[Step, None, None]:
        """Learn, one step at a time; the next batch is drawn while this one is learnt from."""
        with self.replicas, ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as ahead:
            coming = self._draw(ahead, self.done)
            while self.done < self.total:
                started = time.perf_counter()
                batch = coming.result()
                if self.done + 1 < self.total:
                    coming = self._draw(ahead, self.done + 1)
                yield self._learn(batch, started)

    def _draw(self, ahead: ThreadPoolExecutor, step: int) -> Future[Batch]:
        return ahead.submit(draw, self.objective, self.source, self.plan, step)

    def _learn(self, batch: Batch, started: float) -> Step:
        rate = rate_at(self.plan, self.done)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self._gradient(batch)
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.plan.clip)
        finite = bool(torch.isfinite(norm))
        if finite:
            self.optimizer.step()
            self.bad_steps = 0
        else:
            self._skip(batch)
        self.replicas.forget_gradients()
        self.done += 1
        self.tokens += batch.ids.numel()
        self.seconds += time.perf_counter() - started
        return Step(
            number=self.done, tokens=self.tokens, seconds=self.seconds, rate=rate, losses=losses, skipped=not finite
        )

    def _gradient(self, batch: Batch) -> dict[str, float]:
        """Add up the gradient of the whole batch, in smaller pieces if memory runs out."""
        while True:
            try:
                torch.manual_seed(_dropout_seed(self.plan.seed, self.done))
                return self.replicas.add_up(batch, partial(self._part, batch.counts))
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                self._use_less_memory()

    def _part(self, counts: Mapping[str, int], encoder: Encoder, objective: Together, share: Batch) -> dict[str, float]:
        """Add up the gradient of a share of the rows of a batch that has so many scored items."""
        encoder.train()
        objective.train()
        sums = dict.fromkeys(counts, 0.0)
        at_once = self.micro_tokens // (share.ids.shape[1] * len(self.replicas.models))
        for rows in share.split(max(1, at_once)):
            outcome = objective(encoder, rows.to(self.device))
            # Dividing by the counts of the whole batch makes the pieces add up to the same update.
            terms = [loss * objective.weights[name] / max(1, counts[name]) for name, loss in outcome.losses.items()]
            torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
            for name, loss in outcome.losses.items():
                sums[name] += loss.item() / max(1, counts[name])
        return sums

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
        first = batch.ids[0, :8].tolist()
        logger.warning("step %d: the gradient is not finite; skipped (its batch begins %s)", self.done + 1, first)
        if self.bad_steps > _MAX_BAD_STEPS:
            raise TrainingError(
                f"the gradient was not finite {self.bad_steps} steps in a row, at step {self.done + 1}; "
                f"the last good checkpoint is kept: try a lower plan.rate than {self.plan.rate:g}"
            )

    def evaluate(self, source: Source, *, num_batches: int) -> dict[str, float]:
        """Mean nats and accuracy on the first batches of a text."""
        return evaluate(self.encoder, self.objective, source, num_batches=num_batches)

    def files(self, token: Callable[[int], str]) -> dict[str, str]:
        """Nothing: the weights are all there is."""
        return {}

    def state(self) -> LearnerState:
        """Weights, moments and counters."""
        moments = {
            f"{name}.{moment}": tensor
            for name, weight in self.weights.items()
            for moment, tensor in self.optimizer.state.get(weight, {}).items()
        }
        values: Values = {
            "done": self.done,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "bad_steps": self.bad_steps,
            "micro_tokens": self.micro_tokens,
        }
        weights = {name: weight.detach() for name, weight in self.weights.items()}
        return LearnerState(tensors={"weights": weights, "optimizer": moments}, values=values)

    def restore(self, state: LearnerState) -> None:
        """Stand where that state was taken."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state.tensors["weights"][name])
        for name, tensor in state.tensors.get("optimizer", {}).items():
            weight_name, _, moment = name.rpartition(".")
            self.optimizer.state[self.weights[weight_name]][moment] = tensor.clone()
        self.done = int(state.values["done"])
        self.tokens = int(state.values["tokens"])
        self.seconds = float(state.values["seconds"])
        self.bad_steps = int(state.values["bad_steps"])
        self.micro_tokens = int(state.values["micro_tokens"])


def draw(objective: Objective, source: Source, plan: PlanConfig, step: int) -> Batch:
    """What is learnt from at a step, counted from 0."""
    source = dataclasses.replace(source.shortened(shortening(plan, step)), num_steps=plan.steps)
    return objective.batch(source, seed=plan.seed, step=step)


def evaluate(encoder: Encoder, objective: Objective, source: Source, *, num_batches: int) -> dict[str, float]:
    """Mean nats and accuracy by loss term on the first batches of a text, the same ones every time."""
    encoder.eval()
    objective.eval()
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    right: dict[str, float] = {}
    with torch.inference_mode():
        for step in range(num_batches):
            batch = objective.batch(source, seed=0, step=step).to(encoder.tokens.weight.device)
            outcome = objective(encoder, batch)
            for name, loss in outcome.losses.items():
                sums[name] = sums.get(name, 0.0) + loss.item()
                counts[name] = counts.get(name, 0) + batch.counts[name]
            for name, number in outcome.correct.items():
                right[name] = right.get(name, 0.0) + number.item()
    figures = {name: sums[name] / max(1, counts[name]) for name in sums}
    figures |= {f"{name}_accuracy": right[name] / max(1, counts[name]) for name in right}
    if "next_token" in figures:
        store = source.store
        figures["bits_per_character"] = (
            figures["next_token"] / math.log(2) * store.num_tokens / max(1, store.num_characters)
        )
    return figures


def _dropout_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, 3, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
