"""Text into stores of token ids, beside the tokenizers library's own batch call on the same documents.

The peer only encodes documents that are in memory already. Ours does all that training waits for: it reads the file,
finds the sentences, encodes, counts and writes to disk. The ids of every sentence are compared before any timing.
`cores` is processor time over time, and `memory` the peak of a new process above its start.

    python benchmarks/tokenizing.py [--corpus text.txt] [--corpus-zh chinese.txt] [--megabytes 20] [--json out.json]
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import Row, arguments, best_of, report
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.sentences import split_sentences
from polyseme.text.store import build_store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

CONFIGS = [
    TokenizerConfig(kind="wordpiece", specials="bert"),
    TokenizerConfig(kind="byte-bpe", specials="gpt2", lowercase=False),
]
BATCH = 4_000_000  # characters given to the library at once, which needs 130 bytes of memory for each


def main() -> None:
    parser, read = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--corpus", type=Path, help="a text file (the docstrings of this machine)")
    parser.add_argument("--corpus-zh", type=Path, help="a Chinese text file, measured too")
    parser.add_argument("--megabytes", type=float, default=20, help="how much of each to encode")
    given = read()
    texts = {"": given.corpus or sample_text("docstrings").train[0], " Chinese": given.corpus_zh}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for language, source in texts.items():
            if source is not None:
                corpus = beginning(source, Path(folder) / "text.txt", int(given.megabytes * 1e6))
                rows += [measure(f"{config.kind}{language}", config, corpus, given.rounds) for config in CONFIGS]
    report(rows, given.json)


def beginning(source: Path, path: Path, num_bytes: int) -> Corpus:
    """Copy the first documents of a text."""
    with path.open("w", encoding="utf-8") as file:
        for document in Corpus(source):
            file.write(document + "\n\n")
            if file.tell() >= num_bytes:
                break
    return Corpus(path)


def measure(name: str, config: TokenizerConfig, corpus: Corpus, rounds: int) -> Row:
    tokenizer = Tokenizer.train(config, corpus, vocab_size=8192)
    documents = list(corpus)
    check(documents, corpus, tokenizer)
    batches = grouped(documents)
    used: list[float] = []

    def theirs() -> None:
        for batch in batches:
            tokenizer.backend.encode_batch(batch, add_special_tokens=False)

    def ours() -> None:
        wall, busy = time.perf_counter(), time.process_time()
        build(corpus, tokenizer)
        used.append((time.process_time() - busy) / (time.perf_counter() - wall))

    best = best_of({"theirs": theirs, "ours": ours}, rounds)
    megabytes = corpus.num_bytes / 1e6
    return {
        "tokenizer": name,
        "MB": megabytes,
        "tokenizers MB/s": megabytes / best["theirs"],
        "polyseme MB/s": megabytes / best["ours"],
        "ratio": best["theirs"] / best["ours"],
        "cores": float(np.median(used)),
        "memory MB": fresh_peak(corpus, tokenizer),
    }


def check(documents: list[str], corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Compare every sentence of a store with what the library gives for it."""
    folder = corpus.files[0].with_name("checked")
    store = build_store(corpus, tokenizer, folder)
    tokens, bounds, number = store.tokens, store.sentences.tolist(), 0
    for batch in grouped(documents):
        split = [split_sentences(document) for document in batch]
        sentences = [sentence for pieces in split for sentence in pieces]
        encodings = iter(tokenizer.backend.encode_batch(sentences, add_special_tokens=False))
        for pieces in split:
            rows = [row for row in (next(encodings).ids for _ in pieces) if row]
            if rows and tokenizer.specials.end is not None:
                rows[-1].append(tokenizer.specials.end)
            for row in rows:
                if tokens[bounds[number] : bounds[number + 1]].tolist() != row:
                    raise SystemExit(f"sentence {number} has other ids than the library gives: {pieces}")
                number += 1
    if number != store.num_sentences:
        raise SystemExit(f"{store.num_sentences} sentences instead of {number}")
    shutil.rmtree(folder)


def grouped(documents: list[str]) -> list[list[str]]:
    """Batches of some megabytes."""
    batches: list[list[str]] = [[]]
    length = 0
    for document in documents:
        if length > BATCH:
            batches.append([])
            length = 0
        batches[-1].append(document)
        length += len(document)
    return batches


def build(corpus: Corpus, tokenizer: Tokenizer) -> None:
    folder = corpus.files[0].with_name("store")
    build_store(corpus, tokenizer, folder)
    shutil.rmtree(folder)


def fresh_peak(corpus: Corpus, tokenizer: Tokenizer) -> float:
    """Peak memory of a new process, since this one keeps what training and the library have freed."""
    folder = corpus.files[0].with_name("tokenizer")
    tokenizer.save(folder)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(peak_memory, (corpus.files[0], folder))


def peak_memory(text: Path, folder: Path) -> float:
    """Megabytes that building a store takes above the start, where the system tells."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return float("nan")
    tokenizer, corpus = Tokenizer.load(folder), Corpus(text)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    before = resident(status, "VmRSS")
    build(corpus, tokenizer)
    return resident(status, "VmHWM") - before


def resident(status: Path, name: str) -> float:
    return next(int(line.split()[1]) / 1000 for line in status.read_text().splitlines() if line.startswith(name))


if __name__ == "__main__":
    main()
