"""fastText against its original program and gensim with the same text, hyperparameters and epochs.

The peers read a lower-cased, tokenized text with one sentence per line; Polyseme reads the raw text. `words/s` counts
training only: for the original program, which runs everything in one call, the time of no epochs is subtracted. All
vectors are evaluated with the vocabulary of Polyseme, with --sets also on a folder of word similarity and analogy sets.
`neighbours` is the overlap of the ten nearest neighbours of a thousand words with those of another run of the original
program (of gensim, where that is not installed); its own value shows how much of the difference is chance.

    python benchmarks/subword_vectors.py [--corpus text.txt] [--words 300000] [--sets words/] [--json out.json] [--long]
        [--epochs 5] [--threads 2] [--peers gensim]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import Row, arguments, report
from polyseme.corpora.corpus import Corpus
from polyseme.datasets.builtin import sample_text
from polyseme.evaluation.word_similarity import read_sets, score_words
from polyseme.inference.embedding_space import EmbeddingSpace
from polyseme.static_embeddings.encoder import StaticEmbedding, StaticEmbeddingConfig
from polyseme.training.data_pipeline import train_tokenizer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from word_vectors import Floats, Result, Workload, prepare_text

WIDTH, WINDOW, NEGATIVES, SUBSAMPLE, SMOOTHING, MIN_COUNT = 100, 5, 5, 1e-4, 0.5, 5  # as in the original program
MIN_N, MAX_N, BUCKETS, LEARNING_RATE = 3, 6, 2_000_000, 0.05
NEIGHBOURS, QUERIES = 10, slice(200, 1200)  # of the vocabulary, by frequency


def recipe_of(work: Workload) -> Recipe:
    """The recipe of Polyseme."""
    settings = [
        f"model.width={WIDTH}",
        f"model.min_n={MIN_N}",
        f"model.max_n={MAX_N}",
        f"model.num_buckets={BUCKETS}",
        f"tokenizer.min_count={MIN_COUNT}",
        f"objective.window={WINDOW}",
        f"objective.negatives={NEGATIVES}",
        f"objective.subsample={SUBSAMPLE}",
        f"objective.smoothing={SMOOTHING}",
        f"training.learning_rate={LEARNING_RATE}",
        f"training.threads={work.threads}",
        f"training.seed={work.seed}",
        f"training.budget={work.epochs}epochs",
    ]
    return Recipe.preset("fasttext", "small", settings, data={"corpus": [str(work.text)]})


def train_polyseme(work: Workload) -> Result:
    """Train like `polyseme pretrain`."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["POLYSEME_CACHE"] = str(Path(folder) / "cache")  # empty
        started = time.perf_counter()
        session = PretrainingSession.start(recipe_of(work), Path(folder) / "run")
        for progress in session.steps():
            training_seconds = progress.step.seconds
        session.finish()
        seconds = time.perf_counter() - started
    tokenizer, weight = session.tokenizer, session.encoder.tokens.weight.detach().numpy()

    def vector(word: str) -> Floats | None:
        index = tokenizer.id(word)
        return None if index is None else weight[index]

    return Result(seconds=seconds, training=training_seconds, vectors=vector)


def train_gensim(work: Workload) -> Result:
    """Train with gensim."""
    from gensim.models import FastText

    started = time.perf_counter()
    model = FastText(
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVES,
        ns_exponent=SMOOTHING,
        sample=SUBSAMPLE,
        min_count=MIN_COUNT,
        min_n=MIN_N,
        max_n=MAX_N,
        bucket=BUCKETS,
        alpha=LEARNING_RATE,
        min_alpha=LEARNING_RATE * 1e-4,
        sg=1,
        workers=work.threads,
        seed=work.seed,
    )
    model.build_vocab(corpus_file=str(work.lines))
    before = time.perf_counter()
    model.train(
        corpus_file=str(work.lines),
        total_words=model.corpus_total_words,
        total_examples=model.corpus_count,
        epochs=work.epochs,
    )
    ended = time.perf_counter()
    known = model.wv.key_to_index
    return Result(
        seconds=ended - started,
        training=ended - before,
        vectors=lambda word: model.wv.vectors[known[word]] if word in known else None,
    )


def train_original(work: Workload) -> Result:
    """Train with the original program."""
    import fasttext

    def train(epochs: int) -> tuple[Any, float]:
        started = time.perf_counter()
        model = fasttext.train_unsupervised(
            str(work.lines),
            model="skipgram",
            lr=LEARNING_RATE,
            dim=WIDTH,
            ws=WINDOW,
            epoch=epochs,
            minCount=MIN_COUNT,
            minn=MIN_N,
            maxn=MAX_N,
            neg=NEGATIVES,
            bucket=BUCKETS,
            t=SUBSAMPLE,
            thread=work.threads,
            verbose=0,
        )
        return model, time.perf_counter() - started

    _, preparation = train(0)
    model, seconds = train(work.epochs)
    known = set(model.words)
    return Result(
        seconds=seconds,
        training=seconds - preparation,
        vectors=lambda word: model.get_word_vector(word) if word in known else None,
    )


SYSTEMS: dict[str, Callable[[Workload], Result]] = {
    "polyseme": train_polyseme,
    "gensim": train_gensim,
    "fasttext": train_original,
}


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=3)
    parser.add_argument("--corpus", type=Path, help="text file (default: the docstrings sample)")
    parser.add_argument("--words", type=int, help="number of words to use (300,000; all with --long)")
    parser.add_argument("--sets", type=Path, help="folder of word similarity and analogy sets")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", nargs="+", choices=["gensim", "fasttext"], default=["gensim", "fasttext"])
    args = parse_args()
    source = args.corpus or sample_text("docstrings").train[0]
    peers = [name for name in args.peers if find_spec(name)]
    if not peers:
        raise SystemExit("no peer is installed; pip install gensim fasttext-wheel")
    with tempfile.TemporaryDirectory() as folder:
        text, lines = Path(folder) / "text.txt", Path(folder) / "lines.txt"
        num_words = prepare_text(source, text, lines, args.words or (10**12 if args.long else 300_000))

        def workload(seed: int) -> Workload:
            return Workload(
                family="fasttext",
                epochs=args.epochs,
                threads=args.threads,
                seed=seed,
                text=text,
                lines=lines,
                num_words=num_words,
            )

        results = {
            name: [SYSTEMS[name](workload(seed)) for seed in range(args.rounds)] for name in ("polyseme", *peers)
        }
        reference = SYSTEMS[peers[-1]](workload(args.rounds))
        evaluator = Evaluator(workload(0), args.sets, reference)
    fastest = min(run.training for name in peers for run in results[name])
    rows: list[Row] = []
    for name, runs in results.items():
        training = min(run.training for run in runs)
        row: Row = {
            "system": name,
            "threads": args.threads,
            "words/s": num_words * args.epochs / training,
            "seconds": min(run.seconds for run in runs),
            "ratio": fastest / training,
        }
        scores = [evaluator.score(run) for run in runs]
        rows.append(row | {metric: float(np.mean([one[metric] for one in scores])) for metric in scores[0]})
    report(rows, args.json)


class Evaluator:
    """Scores vectors with the vocabulary of Polyseme."""

    def __init__(self, work: Workload, folder: Path | None, reference: Result) -> None:
        self.tokenizer = train_tokenizer(recipe_of(work), Corpus(work.text))
        sets = read_sets(folder) if folder else []
        self.sets = [words for words in sets if not words.name.endswith("zh")]
        names = [self.tokenizer.token(index) for index in range(self.tokenizer.vocab_size)]
        self.names = [name for name in names if reference.vectors(name) is not None]
        self.reference = self._neighbours(reference)

    def score(self, result: Result) -> dict[str, float]:
        """Scores on all sets, and the share of common neighbours."""
        size = self.tokenizer.vocab_size
        encoder = StaticEmbedding(StaticEmbeddingConfig(vocab_size=size, width=WIDTH))
        found = [result.vectors(self.tokenizer.token(index)) for index in range(size)]
        table = np.stack([np.zeros(WIDTH, np.float32) if vector is None else vector for vector in found])
        encoder.tokens.weight.data.copy_(torch.from_numpy(table))
        scores = score_words(EmbeddingSpace(encoder, self.tokenizer), self.sets)
        common = [len(ours & theirs) for ours, theirs in zip(self._neighbours(result), self.reference, strict=True)]
        return {one.name: one.value for one in scores if not one.section and one.value is not None} | {
            "neighbours": float(np.mean(common)) / NEIGHBOURS
        }

    def _neighbours(self, result: Result) -> list[set[int]]:
        table = np.stack([vector for name in self.names if (vector := result.vectors(name)) is not None])
        unit = torch.nn.functional.normalize(torch.from_numpy(table), dim=1)
        nearest = (unit[QUERIES] @ unit.T).topk(NEIGHBOURS + 1).indices  # and the word itself
        return [set(row) for row in nearest[:, 1:].tolist()]


if __name__ == "__main__":
    main()
