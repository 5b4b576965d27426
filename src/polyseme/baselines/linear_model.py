"""Logistic and ridge regression by scikit-learn, as arrays that can be saved."""

import logging
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import expit, softmax

from polyseme.arrays import Doubles, Ids

logger = logging.getLogger(__name__)

_MAX_ITERATIONS = 1000
_TOLERANCE = 1e-6  # of the largest gradient
_MAX_ROW_SPACE = 2_000  # examples up to which the projection to their row space pays off


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel:
    """Weights and biases of the classes that occurred in the training examples; one row for two, or for a score."""

    weights: Doubles  # (C, features)
    biases: Doubles  # (C,)
    classes: Ids  # none for a score

    @classmethod
    def fit_classes(cls, rows: Any, targets: ArrayLike, *, inverse_regularization: float) -> Self:
        """Fit a multinomial logistic regression."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        classes = np.unique(targets).astype(np.int64)
        if len(classes) == 1:
            return cls(weights=np.zeros((1, rows.shape[1])), biases=np.zeros(1), classes=classes)
        model = LogisticRegression(C=inverse_regularization, max_iter=_MAX_ITERATIONS, tol=_TOLERANCE)
        projected = rows.shape[0] < min(rows.shape[1], _MAX_ROW_SPACE)
        # Two processes whose matrix products wait for each other's threads would take seven times as long (measured).
        with threadpool_limits(torch.get_num_threads()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            coordinates, basis = _row_space(rows) if projected else (rows, None)
            model.fit(coordinates, targets)
        if model.n_iter_[0] >= _MAX_ITERATIONS:
            logger.warning("the logistic regression has not converged after %d iterations", _MAX_ITERATIONS)
        weights = model.coef_ if basis is None else model.coef_ @ basis @ rows
        return cls(weights=weights, biases=model.intercept_, classes=classes)

    @classmethod
    def fit_scores(cls, rows: Any, targets: ArrayLike, *, inverse_regularization: float) -> Self:
        """Fit a ridge regression."""
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=1 / inverse_regularization).fit(rows, targets)
        return cls(weights=model.coef_[None], biases=np.array([model.intercept_]), classes=np.zeros(0, np.int64))

    def scores(self, rows: Any) -> Doubles:
        """The linear function of each row, (N, C)."""
        scores: Doubles = rows @ self.weights.T + self.biases
        return scores

    def probabilities(self, rows: Any, num_classes: int) -> Doubles:
        """The probability of each class, (N, num_classes); 0 for those that did not occur."""
        scores = self.scores(rows)
        found = np.zeros((len(scores), num_classes))
        if len(self.classes) == 2:
            positive = expit(scores[:, 0])
            found[:, self.classes] = np.column_stack([1 - positive, positive])
        else:
            found[:, self.classes] = softmax(scores, axis=1)
        return found


def _row_space(rows: Any) -> tuple[Doubles, Doubles]:
    """Coordinates (N, R) of rows in an orthonormal basis of the space they span, and the basis (R, N) as their sums.

    The optimum of an L2-regularized linear model lies in this space, so nothing is lost.
    """
    gram = rows @ rows.T
    values, axes = np.linalg.eigh(gram.toarray() if issparse(gram) else gram)
    positive = values > 1e-12 * values.max(initial=0.0)
    lengths = np.sqrt(values[positive])
    return axes[:, positive] * lengths, (axes[:, positive] / lengths).T
