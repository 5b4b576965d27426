"""Throughput of building a token store against batch encoding with the tokenizers library on the same documents.

The library only encodes documents that are already in memory. Polyseme runs the whole preparation for training:
reading the file, sentence splitting, tokenization, counting and writing to disk. The ids of all sentences are
compared before the measurement. `cores` is CPU time over wall time, `memory` the peak of a new process above its
initial memory.

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
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_text
from polyseme.datasets.token_store import build_store
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

CONFIGS = [
    TokenizerConfig(kind="wordpiece", specials="bert"),
    TokenizerConfig(kind="byte-bpe", specials="gpt2", lowercase=False),
]
BATCH_LENGTH = 4_000_000  # characters per batch of the library, which needs 130 bytes of memory for each


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--corpus", type=Path, help="text file (default: the docstrings sample)")
    parser.add_argument("--corpus-zh", type=Path, help="additional Chinese text file")
    parser.add_argument("--megabytes", type=float, default=20, help="megabytes of each text to use")
    args = parse_args()
    texts = {"": args.corpus or sample_text("docstrings").train[0], " Chinese": args.corpus_zh}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for language, source in texts.items():
            if source is not None:
                corpus = copy_start(source, Path(folder) / "text.txt", int(args.megabytes * 1e6))
                rows += [measure(f"{config.kind}{language}", config, corpus, args.rounds) for config in CONFIGS]
    report(rows, args.json)


def copy_start(source: Path, path: Path, num_bytes: int) -> Corpus:
    """Copy the first documents of a text."""
    with path.open("w", encoding="utf-8") as file:
        for document in Corpus(source):
            file.write(document + "\n\n")
            if file.tell() >= num_bytes:
                break
    return Corpus(path)


def measure(name: str, config: TokenizerConfig, corpus: Corpus, rounds: int) -> Row:
    """Compare both systems with one tokenizer."""
    tokenizer = Tokenizer.train(config, corpus, vocab_size=8192)
    documents = list(corpus)
    check(documents, corpus, tokenizer)
    batches = group_documents(documents)
    cores: list[float] = []

    def encode_with_library() -> None:
        for batch in batches:
            tokenizer.backend.encode_batch(batch, add_special_tokens=False)

    def build_with_polyseme() -> None:
        wall, busy = time.perf_counter(), time.process_time()
        build(corpus, tokenizer)
        cores.append((time.process_time() - busy) / (time.perf_counter() - wall))

    best = best_of({"tokenizers": encode_with_library, "polyseme": build_with_polyseme}, rounds)
    megabytes = corpus.num_bytes / 1e6
    return {
        "tokenizer": name,
        "MB": megabytes,
        "tokenizers MB/s": megabytes / best["tokenizers"],
        "polyseme MB/s": megabytes / best["polyseme"],
        "ratio": best["tokenizers"] / best["polyseme"],
        "cores": float(np.median(cores)),
        "memory MB": fresh_peak(corpus, tokenizer),
    }


def check(documents: list[str], corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Compare every sentence of a store with the ids of the library."""
    folder = corpus.files[0].with_name("checked")
    store = build_store(corpus, tokenizer, folder, fingerprint="")
    tokens, bounds, number = store.tokens, store.sentences.tolist(), 0
    for batch in group_documents(documents):
        split = [split_sentences(document) for document in batch]
        sentences = [sentence for pieces in split for sentence in pieces]
        encodings = iter(tokenizer.backend.encode_batch(sentences, add_special_tokens=False))
        for pieces in split:
            rows = [row for row in (next(encodings).ids for _ in pieces) if row]
            if rows and tokenizer.specials.end is not None:
                rows[-1].append(tokenizer.specials.end)
            for row in rows:
                if tokens[bounds[number] : bounds[number + 1]].tolist() != row:
                    raise SystemExit(f"the ids of sentence {number} differ from those of the library: {pieces}")
                number += 1
    if number != store.num_sentences:
        raise SystemExit(f"{store.num_sentences} sentences instead of {number}")
    shutil.rmtree(folder)


def group_documents(documents: list[str]) -> list[list[str]]:
    """Batches of documents with a few megabytes each."""
    batches: list[list[str]] = [[]]
    length = 0
    for document in documents:
        if length > BATCH_LENGTH:
            batches.append([])
            length = 0
        batches[-1].append(document)
        length += len(document)
    return batches


def build(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Build a store and delete it."""
    folder = corpus.files[0].with_name("store")
    build_store(corpus, tokenizer, folder, fingerprint="")
    shutil.rmtree(folder)


def fresh_peak(corpus: Corpus, tokenizer: Tokenizer) -> float:
    """Peak memory of a new process, because this one retains memory freed by earlier work."""
    folder = corpus.files[0].with_name("tokenizer")
    tokenizer.save(folder)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(peak_memory, (corpus.files[0], folder))


def peak_memory(text: Path, folder: Path) -> float:
    """Peak memory in megabytes of building a store; NaN if the system does not report it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return float("nan")
    tokenizer, corpus = Tokenizer.load(folder), Corpus(text)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident(status, "VmRSS")
    build(corpus, tokenizer)
    return resident(status, "VmHWM") - before


def resident(status: Path, name: str) -> float:
    """A memory field of the process status in megabytes."""
    return next(int(line.split()[1]) / 1000 for line in status.read_text().splitlines() if line.startswith(name))


if __name__ == "__main__":
    main()
