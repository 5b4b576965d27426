"""word2vec against gensim and fastText with the same text, hyperparameters and epochs, on one and two threads.

The peers read a lower-cased, tokenized text with one sentence per line. Polyseme reads the raw text, splits sentences
and words itself, and writes a model directory. `words/s` counts training only: for fastText, which runs everything in
one call, the time for one-dimensional vectors is subtracted. `seconds` is the time from the text file to the vectors.
The systems run in turn. With --sets, a folder of word similarity and analogy sets, all vectors are evaluated with the
same vocabulary.

    python benchmarks/word_vectors.py [--corpus text.txt] [--words 300000] [--sets words/] [--json out.json] [--long]
        [--families skipgram] [--epochs 1 5] [--threads 1 2] [--peers gensim]
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench import Row, arguments, report
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_text
from polyseme.evaluation.word_similarity import read_sets, score_words
from polyseme.inference.embedding_space import EmbeddingSpace
from polyseme.static_embeddings.encoder import StaticEmbedding, StaticEmbeddingConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.data_pipeline import train_tokenizer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

WIDTH, WINDOW, NEGATIVES, SUBSAMPLE, MIN_COUNT = 100, 5, 5, 1e-3, 5
LEARNING_RATES = {"skipgram": 0.025, "cbow": 0.05}  # of the peers, as in the word2vec program; Polyseme uses its preset

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Text and settings of all systems."""

    family: str
    epochs: int
    threads: int
    seed: int
    text: Path
    lines: Path  # tokenized, for the peers
    num_words: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """Times and vectors of a system."""

    seconds: float  # from text to vectors
    training: float  # seconds of training alone
    vectors: Callable[[str], Floats | None]  # of a word


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
    from gensim.models import Word2Vec

    started = time.perf_counter()
    model = Word2Vec(
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVES,
        sample=SUBSAMPLE,
        min_count=MIN_COUNT,
        alpha=LEARNING_RATES[work.family],
        sg=int(work.family == "skipgram"),
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


def train_fasttext(work: Workload) -> Result:
    """Train with fastText."""
    import fasttext

    def train(**settings: Any) -> tuple[Any, float]:
        common = {
            "model": work.family,
            "lr": LEARNING_RATES[work.family],
            "thread": work.threads,
            "minCount": MIN_COUNT,
        }
        started = time.perf_counter()
        model = fasttext.train_unsupervised(
            str(work.lines), t=SUBSAMPLE, minn=0, maxn=0, verbose=0, **common, **settings
        )
        return model, time.perf_counter() - started

    _, preparation = train(dim=1, ws=1, neg=1, epoch=1)
    model, seconds = train(dim=WIDTH, ws=WINDOW, neg=NEGATIVES, epoch=work.epochs)
    known = set(model.words)
    return Result(
        seconds=seconds,
        training=seconds - preparation,
        vectors=lambda word: model.get_word_vector(word) if word in known else None,
    )


SYSTEMS: dict[str, Callable[[Workload], Result]] = {
    "polyseme": train_polyseme,
    "gensim": train_gensim,
    "fasttext": train_fasttext,
}


def recipe_of(work: Workload) -> Recipe:
    """The recipe of Polyseme."""
    settings = [
        f"model.width={WIDTH}",
        f"tokenizer.min_count={MIN_COUNT}",
        f"objective.window={WINDOW}",
        f"objective.negatives={NEGATIVES}",
        f"objective.subsample={SUBSAMPLE}",
        f"training.threads={work.threads}",
        f"training.seed={work.seed}",
        f"training.budget={work.epochs}epochs",
    ]
    return Recipe.preset(work.family, "small", settings, data={"corpus": [str(work.text)]})


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=3)
    parser.add_argument("--corpus", type=Path, help="text file (default: the docstrings sample)")
    parser.add_argument("--words", type=int, help="number of words to use (300,000; all with --long)")
    parser.add_argument("--sets", type=Path, help="folder of word similarity and analogy sets")
    parser.add_argument("--families", nargs="+", choices=LEARNING_RATES, default=list(LEARNING_RATES))
    parser.add_argument("--epochs", nargs="+", type=int, help="epochs (1; 1 and 5 with --long)")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", choices=["gensim", "fasttext"], default=["gensim", "fasttext"])
    args = parse_args()
    source = args.corpus or sample_text("docstrings").train[0]
    peers = [name for name in args.peers if find_spec(name)]
    systems = {name: train for name, train in SYSTEMS.items() if name == "polyseme" or name in peers}
    if len(systems) == 1:
        raise SystemExit("no peer is installed; pip install gensim fasttext-wheel")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        text, lines = Path(folder) / "text.txt", Path(folder) / "lines.txt"
        num_words = prepare_text(source, text, lines, args.words or (10**12 if args.long else 300_000))
        settings = itertools.product(args.families, args.epochs or ((1, 5) if args.long else (1,)), args.threads)
        for family, epochs, threads in settings:
            results: dict[str, list[Result]] = {name: [] for name in systems}
            for seed in range(args.rounds):
                for name, train in systems.items():
                    work = Workload(
                        family=family,
                        epochs=epochs,
                        threads=threads,
                        seed=seed,
                        text=text,
                        lines=lines,
                        num_words=num_words,
                    )
                    results[name].append(train(work))
            rows += compare(family, epochs, threads, num_words, results, make_evaluator(work, args.sets))
    report(rows, args.json)


def prepare_text(source: Path, text: Path, lines: Path, max_words: int) -> int:
    """Copy the first documents of a text, and write their words as tokenized by Polyseme, one sentence per line."""
    backend = Tokenizer.train(Recipe.preset("skipgram", "small").tokenizer, ["a b c d e f g h i"] * 9, vocab_size=99)
    normalize, split = backend.backend.normalizer.normalize_str, backend.backend.pre_tokenizer.pre_tokenize_str
    num_words = 0
    with text.open("w", encoding="utf-8") as plain, lines.open("w", encoding="utf-8") as prepared:
        for document in Corpus(source):
            plain.write(document + "\n\n")
            for sentence in split_sentences(document):
                words = [word for word, _ in split(normalize(sentence))]
                num_words += len(words)
                prepared.write(" ".join(words) + "\n")
            if num_words >= max_words:
                break
    return num_words


Evaluator = Callable[[Result], dict[str, float]]


def make_evaluator(work: Workload, folder: Path | None) -> Evaluator:
    """A function that scores vectors on word sets, restricted to the vocabulary of Polyseme."""
    if folder is None:
        return lambda result: {}
    tokenizer = train_tokenizer(recipe_of(work), Corpus(work.text))
    sets = [words for words in read_sets(folder) if not words.name.endswith("zh")]
    names = [tokenizer.token(index) for index in range(tokenizer.vocab_size)]

    def score(result: Result) -> dict[str, float]:
        encoder = StaticEmbedding(StaticEmbeddingConfig(vocab_size=tokenizer.vocab_size, width=WIDTH))
        found = [result.vectors(name) for name in names]
        table = np.stack([np.zeros(WIDTH, np.float32) if vector is None else vector for vector in found])
        encoder.tokens.weight.data.copy_(torch.from_numpy(table))
        scores = score_words(EmbeddingSpace(encoder, tokenizer), sets)
        return {one.name: one.value for one in scores if not one.section and one.value is not None}

    return score


def compare(
    family: str, epochs: int, threads: int, num_words: int, results: dict[str, list[Result]], evaluate: Evaluator
) -> list[Row]:
    """A row per system with its best times, and mean scores with standard errors."""
    rows: list[Row] = []
    peers = [run for name, runs in results.items() if name != "polyseme" for run in runs]
    fastest, shortest = min(run.training for run in peers), min(run.seconds for run in peers)
    for name, runs in results.items():
        training, seconds = min(run.training for run in runs), min(run.seconds for run in runs)
        row: Row = {
            "system": name,
            "family": family,
            "epochs": epochs,
            "threads": threads,
            "words/s": num_words * epochs / training,
            "seconds": seconds,
        }
        if name == "polyseme":
            row |= {"training ratio": fastest / training, "ratio": shortest / seconds}
        found = [evaluate(run) for run in runs]
        for metric in found[0]:
            values = [scores[metric] for scores in found]
            row[metric] = float(np.mean(values))
            if len(values) > 1:
                row[f"± {metric}"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
