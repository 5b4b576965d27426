"""word2vec beside gensim and fastText: the same text, settings and passes, on one thread and on two.

The peers are given the text lower-cased, cut into words and a sentence a line, which they split at spaces. Ours
reads the text as it is, finds sentences and words itself, and writes a model directory. `words/s` is training alone:
fastText, which does all in one call, is credited with what it takes for vectors of one number. `seconds` is from the
text file to the vectors. The sides take turns. With --sets, a folder of word pairs and analogies, all vectors are
judged over the same words.

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
from polyseme.evaluate.word_sets import read_sets, score_words
from polyseme.inside.neighbours import Space
from polyseme.models.vectors import Vectors, VectorsConfig
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.sentences import split_sentences
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe
from polyseme.train.texts import train_tokenizer

WIDTH, WINDOW, NEGATIVE, SAMPLE, MIN_COUNT = 100, 5, 5, 1e-3, 5
RATES = {"skipgram": 0.025, "cbow": 0.05}  # of the peers, as in the paper's program; ours is that of its preset

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every side is asked to do."""

    family: str
    epochs: int
    threads: int
    seed: int
    text: Path
    lines: Path  # the same, cut into words for the peers
    num_words: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a side made of it."""

    seconds: float  # from text to vectors
    training: float  # seconds of these
    vectors: Callable[[str], Floats | None]  # of a word


def ours(work: Workload) -> Result:
    """The run that `polyseme pretrain` starts."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["POLYSEME_CACHE"] = str(Path(folder) / "cache")  # nothing is there already
        started = time.perf_counter()
        training = Pretraining.start(recipe_of(work), Path(folder) / "run")
        for progress in training.steps():
            learnt = progress.step.seconds
        training.finish()
        seconds = time.perf_counter() - started
    tokenizer, weight = training.tokenizer, training.encoder.tokens.weight.detach().numpy()

    def vector(word: str) -> Floats | None:
        number = tokenizer.id(word)
        return None if number is None else weight[number]

    return Result(seconds=seconds, training=learnt, vectors=vector)


def gensim(work: Workload) -> Result:
    from gensim.models import Word2Vec

    started = time.perf_counter()
    model = Word2Vec(
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVE,
        sample=SAMPLE,
        min_count=MIN_COUNT,
        alpha=RATES[work.family],
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


def fasttext(work: Workload) -> Result:
    import fasttext as peer

    def train(**settings: Any) -> tuple[Any, float]:
        given = {"model": work.family, "lr": RATES[work.family], "thread": work.threads, "minCount": MIN_COUNT}
        started = time.perf_counter()
        model = peer.train_unsupervised(str(work.lines), t=SAMPLE, minn=0, maxn=0, verbose=0, **given, **settings)
        return model, time.perf_counter() - started

    _, reading = train(dim=1, ws=1, neg=1, epoch=1)
    model, seconds = train(dim=WIDTH, ws=WINDOW, neg=NEGATIVE, epoch=work.epochs)
    known = set(model.words)
    return Result(
        seconds=seconds,
        training=seconds - reading,
        vectors=lambda word: model.get_word_vector(word) if word in known else None,
    )


SIDES: dict[str, Callable[[Workload], Result]] = {"polyseme": ours, "gensim": gensim, "fasttext": fasttext}


def recipe_of(work: Workload) -> Recipe:
    settings = [
        f"model.width={WIDTH}",
        f"tokenizer.min_count={MIN_COUNT}",
        f"objective.window={WINDOW}",
        f"objective.negative={NEGATIVE}",
        f"objective.sample={SAMPLE}",
        f"plan.threads={work.threads}",
        f"plan.seed={work.seed}",
        f"plan.budget={work.epochs}epochs",
    ]
    return Recipe.preset(work.family, "small", settings, data={"corpus": [str(work.text)]})


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=3)
    parser.add_argument("--corpus", type=Path, help="a text file (the docstrings of this machine)")
    parser.add_argument("--words", type=int, help="how many of its words (300,000; all with --long)")
    parser.add_argument("--sets", type=Path, help="a folder of word pairs and analogies")
    parser.add_argument("--families", nargs="+", choices=RATES, default=list(RATES))
    parser.add_argument("--epochs", nargs="+", type=int, help="passes over the text (1; 1 and 5 with --long)")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", choices=["gensim", "fasttext"], default=["gensim", "fasttext"])
    given = read()
    source = given.corpus or sample_text("docstrings").train[0]
    peers = [name for name in given.peers if find_spec(name)]
    sides = {name: side for name, side in SIDES.items() if name == "polyseme" or name in peers}
    if len(sides) == 1:
        raise SystemExit("there is nobody to compare with; pip install gensim fasttext-wheel")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        text, lines = Path(folder) / "text.txt", Path(folder) / "lines.txt"
        num_words = cut(source, text, lines, given.words or (10**12 if given.long else 300_000))
        ways = itertools.product(given.families, given.epochs or ((1, 5) if given.long else (1,)), given.threads)
        for family, epochs, threads in ways:
            results: dict[str, list[Result]] = {name: [] for name in sides}
            for seed in range(given.rounds):
                for name, side in sides.items():
                    work = Workload(
                        family=family,
                        epochs=epochs,
                        threads=threads,
                        seed=seed,
                        text=text,
                        lines=lines,
                        num_words=num_words,
                    )
                    results[name].append(side(work))
            rows += compare(family, epochs, threads, num_words, results, judge(work, given.sets))
    report(rows, given.json)


def cut(source: Path, text: Path, lines: Path, most: int) -> int:
    """Copy so many words of a text, and write them out as our tokenizer sees them."""
    backend = Tokenizer.train(Recipe.preset("skipgram", "small").tokenizer, ["a b c d e f g h i"] * 9, vocab_size=99)
    normalize, split = backend.backend.normalizer.normalize_str, backend.backend.pre_tokenizer.pre_tokenize_str
    number = 0
    with text.open("w", encoding="utf-8") as plain, lines.open("w", encoding="utf-8") as prepared:
        for document in Corpus(source):
            plain.write(document + "\n\n")
            for sentence in split_sentences(document):
                words = [word for word, _ in split(normalize(sentence))]
                number += len(words)
                prepared.write(" ".join(words) + "\n")
            if number >= most:
                break
    return number


Judge = Callable[[Result], dict[str, float]]


def judge(work: Workload, folder: Path | None) -> Judge:
    """Scores of vectors on sets of words, looked up in the vocabulary that ours learns from the text."""
    if folder is None:
        return lambda result: {}
    tokenizer = train_tokenizer(recipe_of(work), Corpus(work.text))
    sets = [words for words in read_sets(folder) if not words.name.endswith("zh")]
    names = [tokenizer.token(number) for number in range(tokenizer.vocab_size)]

    def score(result: Result) -> dict[str, float]:
        encoder = Vectors(VectorsConfig(vocab_size=tokenizer.vocab_size, width=WIDTH))
        found = [result.vectors(name) for name in names]
        table = np.stack([np.zeros(WIDTH, np.float32) if vector is None else vector for vector in found])
        encoder.tokens.weight.data.copy_(torch.from_numpy(table))
        scores = score_words(Space(encoder, tokenizer), sets)
        return {one.name: one.value for one in scores if not one.section and one.value is not None}

    return score


def compare(
    family: str, epochs: int, threads: int, num_words: int, results: dict[str, list[Result]], judge: Judge
) -> list[Row]:
    """A row a side: the best times of its rounds, and the mean of its scores with their standard error."""
    rows: list[Row] = []
    peers = [run for name, runs in results.items() if name != "polyseme" for run in runs]
    fastest, shortest = min(run.training for run in peers), min(run.seconds for run in peers)
    for name, runs in results.items():
        training, seconds = min(run.training for run in runs), min(run.seconds for run in runs)
        row: Row = {
            "side": name,
            "family": family,
            "epochs": epochs,
            "threads": threads,
            "words/s": num_words * epochs / training,
            "seconds": seconds,
        }
        if name == "polyseme":
            row |= {"training ratio": fastest / training, "ratio": shortest / seconds}
        found = [judge(run) for run in runs]
        for measure in found[0]:
            values = [scores[measure] for scores in found]
            row[measure] = float(np.mean(values))
            if len(values) > 1:
                row[f"± {measure}"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
