"""GloVe beside a plain reference in double precision: the same counts, passes, rate and number of seeds.

The reference takes the pairs in an order drawn anew for each pass, one after another, in the formulas of Pennington et
al. (2014) and with AdaGrad as in their program. `cost` is that of a pair in the last pass. With --sets, a folder of
word pairs, the vectors of both are judged.

    python benchmarks/glove.py [--corpus text.txt] [--passes 5] [--sets words/] [--json out.json] [--long]
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
from polyseme.evaluate.word_sets import read_sets, score_words
from polyseme.inside.neighbours import Space
from polyseme.static.glove import Glove
from polyseme.text.samples import sample_text
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe

Doubles = NDArray[np.float64]


def ours(corpus: Path, passes: int, threads: int, seed: int) -> tuple[Pretraining, int, float, float]:
    """The run that `polyseme pretrain glove` starts: it, its updates, their seconds and the cost in the last pass."""
    settings = [f"plan.budget={passes}epochs", f"plan.threads={threads}", f"plan.seed={seed}"]
    recipe = Recipe.preset("glove", "small", settings, data={"corpus": [str(corpus)]})
    with tempfile.TemporaryDirectory() as folder:
        training = Pretraining.start(recipe, Path(folder) / "run")
        steps = [progress.step for progress in training.steps()]
    assert isinstance(training.learner, Glove)
    costs = [step.losses["glove"] for step in steps]
    return (
        training,
        passes * len(training.learner.deck),
        steps[-1].seconds,
        float(np.mean(costs[-len(costs) // passes :])),
    )


def reference(training: Pretraining, passes: int, seed: int) -> tuple[NDArray[np.float32], int, float, float]:
    """The vectors, updates, seconds and last cost of the plain way."""
    learner, rate = training.learner, training.recipe.plan.rate
    assert isinstance(learner, Glove)
    records = np.array(learner.deck.records)
    chance = np.random.default_rng(seed)
    vocab_size, width = learner.task.vectors.shape
    words, others = ((chance.random((vocab_size, width + 1)) - 0.5) / width for _ in range(2))
    squares, other_squares = np.ones_like(words), np.ones_like(others)
    compiled: Any = numba.njit(plain)
    seconds = 0.0
    for _ in range(passes):
        order = chance.permutation(len(records))
        pairs = (records["word"][order], records["other"][order], records["count"][order].astype(np.float64))
        started = time.perf_counter()
        cost = compiled(*pairs, words, others, squares, other_squares, rate, learner.config.most, learner.config.power)
        seconds += time.perf_counter() - started
    return (words + others)[:, :-1].astype(np.float32), passes * len(records), seconds, cost / len(records)


def plain(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    counts: Doubles,
    words: Doubles,
    others: Doubles,
    squares: Doubles,
    other_squares: Doubles,
    rate: float,
    most: float,
    power: float,
) -> float:
    """One pass."""
    cost = 0.0
    for i, j, count in zip(rows, columns, counts):  # noqa: B905 (numba knows no strict)
        error = np.dot(words[i, :-1], others[j, :-1]) + words[i, -1] + others[j, -1] - np.log(count)
        push = error * min(1.0, (count / most) ** power)
        cost += push * error
        move, other_move = np.empty(words.shape[1]), np.empty(words.shape[1])
        move[:-1], other_move[:-1] = rate * push * others[j, :-1], rate * push * words[i, :-1]
        move[-1] = other_move[-1] = push
        words[i] -= move / np.sqrt(squares[i])
        others[j] -= other_move / np.sqrt(other_squares[j])
        squares[i] += move**2
        other_squares[j] += other_move**2
    return cost


def main() -> None:
    parser, read = arguments(__doc__, rounds=2, long_rounds=3)
    parser.add_argument("--corpus", type=Path, help="a text file (the docstrings of this machine)")
    parser.add_argument("--passes", type=int, help="over all pairs (5; 25 with --long)")
    parser.add_argument("--sets", type=Path, help="a folder of word pairs")
    given = read()
    corpus = given.corpus or sample_text("docstrings").train[0]
    passes = given.passes or (25 if given.long else 5)
    sets = [words for words in read_sets(given.sets) if not words.name.endswith("zh")] if given.sets else []
    figures: dict[str, list[dict[str, float]]] = defaultdict(list)

    def note(side: str, training: Pretraining, updates: float, seconds: float, cost: float) -> None:
        scores = score_words(Space(training.encoder, training.tokenizer), sets) if sets else []
        found = {one.name: one.value for one in scores if not one.section and one.value is not None}
        figures[side].append({"updates/s": updates / seconds, "cost": cost, **found})

    for seed in range(given.rounds):
        for threads in (1, 2):
            training, *found = ours(corpus, passes, threads, seed)
            note(f"polyseme, {threads} threads", training, *found)
        vectors, *found = reference(training, passes, seed)
        training.encoder.tokens.weight.data.copy_(torch.from_numpy(vectors))
        note("reference", training, *found)
    rows: list[Row] = []
    for side, runs in figures.items():
        row: Row = {"side": side, "pairs": len(training.learner.deck)}  # type: ignore[attr-defined]
        for name in runs[0]:
            values = [run[name] for run in runs]
            row[name] = max(values) if name == "updates/s" else float(np.mean(values))
            if name != "updates/s":
                row[f"± {name}"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        rows.append(row)
    report(rows, given.json)


if __name__ == "__main__":
    main()
