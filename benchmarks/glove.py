"""GloVe against a reference implementation in double precision with the same co-occurrence counts and learning rate.

The reference implements the equations of Pennington et al. (2014) with AdaGrad as in the released program, and shuffles
the pairs before each epoch. `loss` is the mean over pairs in the last epoch. With --sets, a folder of word similarity
sets, the vectors of both are evaluated.

    python benchmarks/glove.py [--corpus text.txt] [--epochs 5] [--sets words/] [--json out.json] [--long]
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from bench import Row, arguments, report
from polyseme.datasets.builtin import sample_text
from polyseme.evaluation.word_similarity import read_sets, score_words
from polyseme.inference.embedding_space import EmbeddingSpace
from polyseme.static_embeddings.glove import GloveTrainer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

Doubles = NDArray[np.float64]


def train_polyseme(corpus: Path, epochs: int, threads: int, seed: int) -> tuple[PretrainingSession, int, float, float]:
    """Train with Polyseme; returns the session, the number of updates, their seconds and the loss of the last epoch."""
    settings = [f"training.budget={epochs}epochs", f"training.threads={threads}", f"training.seed={seed}"]
    recipe = Recipe.preset("glove", "small", settings, data={"corpus": [str(corpus)]})
    with tempfile.TemporaryDirectory() as folder:
        session = PretrainingSession.start(recipe, Path(folder) / "run")
        steps = [progress.step for progress in session.steps()]
    assert isinstance(session.learner, GloveTrainer)
    losses = [step.losses["glove"] for step in steps]
    return (
        session,
        epochs * len(session.learner.pairs),
        steps[-1].seconds,
        float(np.mean(losses[-len(losses) // epochs :])),
    )


def train_reference(
    session: PretrainingSession, epochs: int, seed: int
) -> tuple[NDArray[np.float32], int, float, float]:
    """Train the reference; returns the vectors, the number of updates, their seconds and the loss of the last epoch."""
    learner, learning_rate = session.learner, session.recipe.training.learning_rate
    assert isinstance(learner, GloveTrainer)
    records = np.array(learner.pairs.records)
    rng = np.random.default_rng(seed)
    vocab_size, width = learner.inputs.vectors.shape
    words, contexts = ((rng.random((vocab_size, width + 1)) - 0.5) / width for _ in range(2))
    word_squares, context_squares = np.ones_like(words), np.ones_like(contexts)
    epoch: Any = numba.njit(reference_epoch)
    seconds = 0.0
    for _ in range(epochs):
        order = rng.permutation(len(records))
        pairs = (records["word"][order], records["context"][order], records["count"][order].astype(np.float64))
        started = time.perf_counter()
        loss = epoch(
            *pairs,
            words,
            contexts,
            word_squares,
            context_squares,
            learning_rate,
            learner.config.x_max,
            learner.config.alpha,
        )
        seconds += time.perf_counter() - started
    return (words + contexts)[:, :-1].astype(np.float32), epochs * len(records), seconds, loss / len(records)


def reference_epoch(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    counts: Doubles,
    words: Doubles,
    contexts: Doubles,
    word_squares: Doubles,
    context_squares: Doubles,
    learning_rate: float,
    x_max: float,
    alpha: float,
) -> float:
    """One epoch; returns the summed loss."""
    loss = 0.0
    for i, j, count in zip(rows, columns, counts):  # noqa: B905 (numba does not support strict)
        error = np.dot(words[i, :-1], contexts[j, :-1]) + words[i, -1] + contexts[j, -1] - np.log(count)
        weighted = error * min(1.0, (count / x_max) ** alpha)
        loss += weighted * error
        # As in the released program, the learning rate is part of the gradient of vectors, but not of biases.
        word_gradient, context_gradient = np.empty(words.shape[1]), np.empty(words.shape[1])
        word_gradient[:-1] = learning_rate * weighted * contexts[j, :-1]
        context_gradient[:-1] = learning_rate * weighted * words[i, :-1]
        word_gradient[-1] = context_gradient[-1] = weighted
        words[i] -= word_gradient / np.sqrt(word_squares[i])
        contexts[j] -= context_gradient / np.sqrt(context_squares[j])
        word_squares[i] += word_gradient**2
        context_squares[j] += context_gradient**2
    return loss


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=2, long_rounds=3)
    parser.add_argument("--corpus", type=Path, help="text file (default: the docstrings sample)")
    parser.add_argument("--epochs", type=int, help="epochs over all pairs (5; 25 with --long)")
    parser.add_argument("--sets", type=Path, help="folder of word similarity sets")
    args = parse_args()
    corpus = args.corpus or sample_text("docstrings").train[0]
    epochs = args.epochs or (25 if args.long else 5)
    sets = [words for words in read_sets(args.sets) if not words.name.endswith("zh")] if args.sets else []
    results: dict[str, list[dict[str, float]]] = defaultdict(list)

    def record(system: str, session: PretrainingSession, updates: float, seconds: float, loss: float) -> None:
        scores = score_words(EmbeddingSpace(session.encoder, session.tokenizer), sets) if sets else []
        found = {one.name: one.value for one in scores if not one.section and one.value is not None}
        results[system].append({"updates/s": updates / seconds, "loss": loss, **found})

    for seed in range(args.rounds):
        for threads in (1, 2):
            session, *found = train_polyseme(corpus, epochs, threads, seed)
            record(f"polyseme, {threads} threads", session, *found)
        vectors, *found = train_reference(session, epochs, seed)
        session.encoder.tokens.weight.data.copy_(torch.from_numpy(vectors))
        record("reference", session, *found)
    rows: list[Row] = []
    for system, runs in results.items():
        row: Row = {"system": system, "pairs": len(session.learner.pairs)}  # type: ignore[attr-defined]
        for name in runs[0]:
            values = [run[name] for run in runs]
            row[name] = max(values) if name == "updates/s" else float(np.mean(values))
            if name != "updates/s":
                row[f"± {name}"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        rows.append(row)
    report(rows, args.json)


if __name__ == "__main__":
    main()
