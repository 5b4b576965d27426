"""Initial weights of task heads: the solution of a linear probe, so that fine-tuning starts where probing ends.

A head with random weights distorts pretrained features before it has been trained itself (Kumar et al., 2022,
"Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"). A probe is a multinomial logistic
regression, or a ridge regression of scores, on the inputs of the last layer.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from polyseme.arrays import Doubles
from polyseme.batch import IGNORED
from polyseme.models.base import Encoder
from polyseme.tasks.base import Task
from polyseme.tasks.inputs.dataset import TaskDataset
from polyseme.tasks.networks.heads import MaxoutHead

STRENGTHS = (1.0, 0.1, 1e-2, 1e-3)
"""Strengths of L2 regularization relative to the mean loss, strongest first."""

_DEFAULT_STRENGTH = 1e-2  # without dev data
_MAX_ITERATIONS = 100
_MAX_VALUES = 50_000_000  # of dense inputs
_MAX_PRODUCTS = 500_000_000  # per iteration: rows × columns × classes
_MAX_DENSITY = 0.1  # of inputs stored as a sparse matrix
_MIN_DEVIATION = 0.1  # of a column, relative to the root mean square of all values
_UNSEEN_BIAS = -10.0  # of classes without training examples
_NEGLIGIBLE = 1e-8


@dataclass(frozen=True, kw_only=True)
class ProbeData:
    """Inputs of the last layer of a task on labelled examples."""

    rows: Any  # (N, D), dense or sparse
    targets: Doubles  # (N,), labels or scores


@dataclass(frozen=True, kw_only=True)
class ProbeSolution:
    """A linear function of inputs that are standardized by column."""

    weight: Doubles  # (C, D)
    bias: Doubles  # (C,)
    mean: Doubles  # (D,)
    deviation: Doubles  # (D,)


def has_linear_output(task: Task[Any, Any]) -> bool:
    """Whether the scores of a task are a linear function of the inputs of its last layer."""
    return task.linear_path is not None or not isinstance(task.head, MaxoutHead)


def initialize_head(
    task: Task[Any, Any],
    encoder: Encoder,
    source: TaskDataset,
    *,
    regression: bool,
    score: Callable[[], float] | None,
    seconds: float | None = None,
) -> None:
    """Start a head at the linear probe with the best dev score.

    Args:
        task: The task; its encoder is not changed.
        encoder: The encoder.
        source: Training examples.
        regression: Whether the task predicts scores instead of labels.
        score: Computes the dev score of the task as it is; None without dev data.
        seconds: How long to encode training examples, at most; by default all are encoded.
    """
    data = collect_inputs(task, encoder, source, seconds=seconds)
    best: tuple[float, ProbeSolution] | None = None
    strengths = STRENGTHS if score else (_DEFAULT_STRENGTH,)
    for solution in fit_probes(task, data, regression=regression, strengths=strengths):
        load_solution(task, solution)
        found = score() if score else 0.0
        if best is None or found > best[0]:
            best = found, solution
    if best is not None:
        load_solution(task, best[1])


def collect_inputs(
    task: Task[Any, Any], encoder: Encoder, source: TaskDataset, *, seconds: float | None = None
) -> ProbeData:
    """Compute the inputs of the last layer on examples, in random order, as many as fit into a time."""
    encoder.eval()
    task.eval()
    started, inputs, rows, targets = time.perf_counter(), list[Tensor](), [], []
    layer = _last_layer(task)
    handle = layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    try:
        with torch.inference_mode():
            for step in range(source.num_batches):
                batch = source.draw(task.name, seed=0, step=step).to(encoder.device)
                task.scores(encoder, encoder(batch), batch)
                labels = batch.labels[task.name][:: batch.rows_per_example].flatten()
                known = labels != IGNORED
                rows.append(_compress(inputs.pop().flatten(0, -2)[known].cpu().numpy()))
                targets.append(labels[known].double().cpu().numpy())
                if seconds is not None and time.perf_counter() - started > seconds:
                    break
    finally:
        handle.remove()
    stacked = sparse.vstack(rows, format="csr") if any(map(sparse.issparse, rows)) else np.concatenate(rows)
    most = _most_rows(stacked, layer.out_features)
    return ProbeData(rows=stacked[:most], targets=np.concatenate(targets)[:most])


def fit_probes(
    task: Task[Any, Any], data: ProbeData, *, regression: bool, strengths: Sequence[float] = STRENGTHS
) -> Iterator[ProbeSolution]:
    """Fit a probe with each strength of regularization; none without examples or with inputs that are not finite."""
    from threadpoolctl import threadpool_limits

    layer = _last_layer(task)
    values = data.rows.data if sparse.issparse(data.rows) else data.rows
    if not (len(data.targets) and np.isfinite(values).all()):
        return
    rows, mean, deviation = _standardize(data.rows, centred=layer.bias is not None)
    for strength in strengths:
        with threadpool_limits(torch.get_num_threads()):
            fit = _fit_scores if regression else _fit_classes
            weight, bias = fit(task, rows, data.targets, strength, intercept=layer.bias is not None)
        yield ProbeSolution(weight=weight, bias=bias, mean=mean, deviation=deviation)


@torch.no_grad()
def load_solution(task: Task[Any, Any], solution: ProbeSolution) -> None:
    """Set the weights of a task so that it predicts what a probe predicts."""
    layer, path = _last_layer(task), task.linear_path
    weight, bias = solution.weight, solution.bias
    if path is None:
        weight = weight / solution.deviation
        bias = bias - weight @ solution.mean
    else:
        _copy(solution.mean, path.mean)
        _copy(solution.deviation, path.deviation)
        # Not 0: the channels of a maxout layer would stay equal.
        for parameter in task.head.output.parameters():
            parameter.clamp_(-_NEGLIGIBLE, _NEGLIGIBLE)
    _copy(weight, layer.weight)
    if layer.bias is not None:
        _copy(bias, layer.bias)


def _last_layer(task: Task[Any, Any]) -> nn.Linear:
    layer = task.head.output if task.linear_path is None else task.linear_path.output
    assert isinstance(layer, nn.Linear)
    return layer


def _copy(values: Doubles, parameter: Tensor) -> None:
    parameter.copy_(torch.from_numpy(values))


def _compress(rows: NDArray[Any]) -> Any:
    return sparse.csr_array(rows) if np.count_nonzero(rows) < _MAX_DENSITY * rows.size else rows


def _most_rows(rows: Any, num_scores: int) -> int:
    """Rows to fit a probe to: more would cost much memory or time."""
    values_per_row = max(1, (rows.nnz if sparse.issparse(rows) else rows.size) // max(1, rows.shape[0]))
    return int(min(_MAX_VALUES // values_per_row, _MAX_PRODUCTS // (values_per_row * num_scores)))


def _standardize(rows: Any, *, centred: bool) -> tuple[Any, Doubles, Doubles]:
    """Scale columns to deviation 1, and dense ones to mean 0; return the means and deviations too.

    Nearly constant columns are scaled up less, or small changes of the encoder would change their scores much.
    """
    rows = rows.astype(np.float64)
    mean, squares = np.asarray(rows.mean(0)), np.asarray((rows * rows).mean(0))
    variance = np.maximum(squares - mean**2, 0) if centred else squares
    floor = _MIN_DEVIATION * np.sqrt(squares.mean())
    deviation = np.maximum(np.sqrt(variance), floor) if floor else np.ones_like(variance)
    if sparse.issparse(rows) or not centred:
        mean = np.zeros_like(mean)
        return rows @ sparse.diags_array(1 / deviation) if sparse.issparse(rows) else rows / deviation, mean, deviation
    return (rows - mean) / deviation, mean, deviation


def _fit_classes(
    task: Task[Any, Any], rows: Any, targets: Doubles, strength: float, *, intercept: bool
) -> tuple[Doubles, Doubles]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weight, bias = np.zeros((task.num_scores, rows.shape[1])), np.full(task.num_scores, _UNSEEN_BIAS)
    labels = targets.astype(np.int64)
    classes = np.unique(labels)
    bias[classes] = 0.0
    if len(classes) == 1:
        return weight, bias
    class_weights = np.asarray(task.class_weights or np.ones(task.num_scores))[labels]
    model = LogisticRegression(
        C=1 / (strength * class_weights.sum()), max_iter=_MAX_ITERATIONS, fit_intercept=intercept
    )
    with warnings.catch_warnings():  # a solution that is almost optimal is a start too
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, labels, sample_weight=class_weights)
    if len(classes) == 2:  # the log-odds of the second
        weight[classes], bias[classes] = np.outer([-0.5, 0.5], model.coef_), [-0.5, 0.5] * model.intercept_
    else:
        weight[classes], bias[classes] = model.coef_, model.intercept_
    return weight, bias


def _fit_scores(
    task: Task[Any, Any], rows: Any, targets: Doubles, strength: float, *, intercept: bool
) -> tuple[Doubles, Doubles]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=strength * len(targets), fit_intercept=intercept).fit(rows, targets)
    return model.coef_.reshape(1, -1), np.array([model.intercept_ if intercept else 0.0])
