"""ONNX: an encoder as a graph that other programs run, in floats or in bytes.

Inputs and outputs are named as transformers' exports name them, so that what reads those reads these.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.errors import CheckpointError, ConfigError
from polyseme.models.base import Encoder
from polyseme.reading import by_length, encode_packs, padded
from polyseme.tensors import Batch, runs

GRAPHS = {"onnx": "model.onnx", "int8": "model_quantized.onnx"}
"""The file that holds a graph, by how its numbers are kept."""

FARTHEST = 1e-4
"""By which a number of a vector may differ from ours."""

LEAST_COSINE = 0.99
"""Between ours and a vector of a graph in bytes."""

_AMPLE_COSINE = 0.994  # on the texts at hand, so that others keep to the least
_NEEDED = ("onnx", "onnxscript", "onnxruntime")

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Parity:
    """How near the vectors of a graph are to those of the model: means over the tokens of rows."""

    num_rows: int
    difference: float  # the largest between two numbers
    cosine: float  # the least between two vectors


class _Graph(nn.Module):
    """An encoder as transformers has it."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        encoded = self.encoder(Batch(ids=input_ids, mask=attention_mask.bool(), segments=token_type_ids))
        return encoded.layers[-1], self.encoder.summarize(encoded)


def require_onnx() -> None:
    """Say what to install where it is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"this needs {' and '.join(missing)}; install polyseme[onnx]")


def export_graph(encoder: Encoder, folder: Path, to: str, rows: Sequence[Ids]) -> tuple[Path, Parity]:
    """Write an encoder as a graph, for any number of rows of any length, and hold it against the encoder on `rows`."""
    if to not in GRAPHS:
        raise ConfigError(f"{to!r} is nothing to export to; say {' or '.join(GRAPHS)}")
    if encoder.context != "both":
        raise ConfigError("only a model that reads both directions, such as a bert, can be exported as a graph")
    require_onnx()
    graph = folder / GRAPHS["onnx"]
    with _quiet():
        _trace(encoder, graph)
        if to == "onnx":
            parity = compare(encoder, graph, rows)
        else:
            floats, graph = graph, folder / GRAPHS[to]
            parity = _quantize(encoder, floats, graph, rows)
            floats.unlink()
    if to == "onnx" and not parity.difference <= FARTHEST:
        raise CheckpointError(f"the graph differs from the model by {parity.difference:.1e}: refused")
    if not parity.cosine > LEAST_COSINE:
        raise CheckpointError(f"the graph is too far from the model (cosine {parity.cosine:.4f}): refused")
    return graph, parity


def _trace(encoder: Encoder, graph: Path) -> None:
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    if encoder.config.num_segments == 1:
        inputs.pop()
    shape = (2, min(4, encoder.config.max_length))
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=encoder.config.max_length)}
    with torch.no_grad():
        program = torch.onnx.export(
            _Graph(encoder).eval(),
            tuple(torch.zeros(shape, dtype=torch.long) for _ in inputs),  # were they one, the inputs would be too
            input_names=inputs,
            output_names=["last_hidden_state", "pooler_output"],
            dynamic_shapes=(sizes,) * len(inputs),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # it tells where our source lies on this machine
    program.save(str(graph))


def _quantize(encoder: Encoder, floats: Path, graph: Path, rows: Sequence[Ids]) -> Parity:
    """Keep matrices in bytes; the first, whose errors pass through all others, stay floats as far as that is needed.

    Unsigned bytes, because processors without the newest instructions cut the sums of products of signed ones short.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    content = onnx.load(floats).graph
    weights = {weight.name for weight in content.initializer}
    products = [node.name for node in content.node if node.op_type == "MatMul" and weights & set(node.input)]
    for num_floats in range(0, len(products) + 1, max(1, len(products) // 6)):
        quantize_dynamic(
            floats,
            graph,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=products[:num_floats],
            per_channel=True,
            weight_type=QuantType.QUInt8,
            extra_options={"MatMulConstBOnly": True},
        )
        parity = compare(encoder, graph, rows)
        if parity.cosine > _AMPLE_COSINE:
            break
    return parity


class Session:
    """A graph that onnxruntime runs."""

    def __init__(self, graph: Path) -> None:
        require_onnx()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors alone
        self.session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.names = {given.name for given in self.session.get_inputs()}

    def __call__(self, ids: Ids, mask: Ids) -> Floats:
        """The top layer of padded rows, (B, T, D)."""
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: Floats = self.session.run(
            ["last_hidden_state"], {name: array for name, array in given.items() if name in self.names}
        )[0]
        return hidden


def compare(encoder: Encoder, graph: Path, rows: Sequence[Ids]) -> Parity:
    """Hold the mean vectors of a graph against those of its encoder."""
    ours, theirs = (np.empty((len(rows), encoder.widths[-1]), dtype=np.float32) for _ in range(2))
    for group, encoded in encode_packs(encoder, rows):
        means = [run.mean(1) for run in runs(encoded.layers[-1][0], [len(rows[number]) for number in group])]
        ours[group] = torch.cat(means).cpu().numpy()
    session = Session(graph)
    for group in by_length([len(row) for row in rows]):
        batch = padded([rows[number].tolist() for number in group], torch.device("cpu"))
        mask = batch.mask.numpy()
        hidden = session(batch.ids.numpy(), mask.astype(np.int64))
        theirs[group] = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return Parity(
        num_rows=len(rows),
        difference=float(np.abs(ours - theirs).max()),
        cosine=float(((ours * theirs).sum(1) / lengths).min()),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what the exporter says of its own inside."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "root", "")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
