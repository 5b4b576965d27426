"""How fast text becomes token ids, beside the tokenizers library's own batch call on the same documents.

python benchmarks/preparing.py --text corpus.txt --megabytes 50
"""

import argparse
import json
import multiprocessing
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.text.corpus import Corpus
from polyseme.text.store import build_store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

KINDS = {"wordpiece": "bert", "byte-bpe": "gpt2"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a text file; without it, words of Zipf's law are made up")
    parser.add_argument("--megabytes", type=float, default=20, help="how much of it to prepare")
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--output", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        write_text(text, options.text, int(options.megabytes * 1e6))
        figures = [measure(kind, text, options.vocab_size, options.rounds) for kind in KINDS]
    print(f"{'kind':10} {'tokenizers':>11} {'build_store':>12} {'ratio':>6} {'peak memory':>12}")
    for row in figures:
        speeds = f"{row['library']:6.2f} MB/s {row['store']:7.2f} MB/s"
        print(f"{row['kind']:10} {speeds} {row['ratio']:6.2f} {row['peak']:9.0f} MB")
    print(json.dumps(figures))
    if options.output:
        options.output.write_text(json.dumps(figures, indent=2) + "\n")


def write_text(path: Path, source: Path | None, num_bytes: int) -> None:
    documents = iter(Corpus(source)) if source else made_up()
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < num_bytes:
            document = next(documents, None)
            if document is None:
                break
            file.write(document + "\n\n")


def made_up() -> Iterator[str]:
    draw = random.Random(0)
    syllables = ["ba", "ko", "ri", "tan", "mel", "os", "ing", "er", "u", "shi", "pra", "den"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(50_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    while True:
        sentences = [" ".join(draw.choices(words, weights, k=draw.randint(5, 30))) for _ in range(20)]
        yield " ".join(f"{sentence.capitalize()}." for sentence in sentences)


def measure(kind: str, text: Path, vocab_size: int, rounds: int) -> dict[str, float | str]:
    corpus = Corpus(text)
    config = TokenizerConfig.parse({"kind": kind, "specials": KINDS[kind]}, group="tokenizer")
    tokenizer = Tokenizer.train(config, corpus, vocab_size=vocab_size)
    library, store = [], []
    for _ in range(rounds):  # by turns, so that both meet the same noise
        store.append(seconds(lambda: build(corpus, tokenizer)))
        library.append(seconds(lambda: encode(corpus, tokenizer)))
    megabytes = corpus.num_bytes / 1e6
    return {
        "kind": kind,
        "megabytes": megabytes,
        "library": megabytes / min(library),
        "store": megabytes / min(store),
        "ratio": min(library) / min(store),
        "peak": fresh_peak(corpus, tokenizer),
    }


def build(corpus: Corpus, tokenizer: Tokenizer) -> None:
    folder = corpus.files[0].with_name("store")
    build_store(corpus, tokenizer, folder)
    shutil.rmtree(folder)


def encode(corpus: Corpus, tokenizer: Tokenizer) -> None:
    # In batches of some megabytes, because the library needs 130 bytes of memory for each byte of text.
    batch: list[str] = []
    for document in corpus:
        batch.append(document)
        if sum(map(len, batch)) > 4e6:
            tokenizer.backend.encode_batch(batch, add_special_tokens=False)
            batch = []
    tokenizer.backend.encode_batch(batch, add_special_tokens=False)


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def fresh_peak(corpus: Corpus, tokenizer: Tokenizer) -> float:
    """Peak memory of a new process, since this one keeps what training and the library have freed."""
    folder = corpus.files[0].with_name("tokenizer")
    tokenizer.save(folder)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(build_and_watch, (corpus.files[0], folder))


def build_and_watch(text: Path, folder: Path) -> float:
    tokenizer = Tokenizer.load(folder)
    with peak_memory() as peak:
        build(Corpus(text), tokenizer)
    return peak()


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Watch this process and tell how many megabytes it came to hold above the start."""
    before = highest = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.01):
            highest = max(highest, resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: highest - before
    finally:
        done.set()
        thread.join()


def resident() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
