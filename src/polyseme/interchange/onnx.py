"""ONNX: an encoder as a graph that other programs run, in floats or in bytes.

Inputs and outputs are named as transformers' exports name them, so that what reads those reads these.
"""

from __future__ import annotations

import copy
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
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.errors import CheckpointError, ConfigError
from polyseme.layers.blocks import FeedForward
from polyseme.layers.linear import Linear
from polyseme.models.base import Encoder
from polyseme.models.decoder import Translator
from polyseme.reading import by_length, encode_packs, padded
from polyseme.tensors import Batch, runs

GRAPHS = {"onnx": "model.onnx", "int8": "model_quantized.onnx"}
"""The file that holds a graph, by how its numbers are kept."""

FARTHEST = 1e-4
"""By which a number of a vector may differ from ours."""

LEAST_COSINE = 0.99
"""Between ours and a vector of a graph in bytes."""

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
    if encoder.context != "both" or encoder.reads_letters or isinstance(encoder, Translator):
        raise ConfigError("only a model that reads both directions, such as a bert, can be exported as a graph")
    require_onnx()
    graph = folder / GRAPHS["onnx"]
    with _quiet():
        _trace(encoder if to == "onnx" else _smoothed(encoder, rows), graph)
        if to == "int8":
            floats, graph = graph, folder / GRAPHS[to]
            _quantize(floats, graph)
            floats.unlink()
    parity = compare(encoder, graph, rows)
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


class _Smoothed(nn.Module):
    """A linear map whose inputs are divided by their size, and its matrix multiplied by it (Xiao et al., 2023).

    One scale for all inputs is then enough for bytes, and without it a few that are large take the rest away.
    """

    def __init__(self, linear: Linear, largest: Tensor) -> None:
        super().__init__()
        sizes = (largest / linear.weight.abs().amax(0).clamp_min(1e-5)).clamp_min(1e-5).sqrt()
        self.weight = nn.Parameter(linear.weight * sizes)
        self.bias = linear.bias
        self.inverse = nn.Parameter(1 / sizes)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x * self.inverse, self.weight, self.bias)


def _smoothed(encoder: Encoder, rows: Sequence[Ids]) -> Encoder:
    """The same encoder with its linear maps smoothed, by what they read of `rows`.

    The outer one of the feed-forward step is left alone: which of its inputs are large is different in every text.
    """
    encoder = copy.deepcopy(encoder)
    outer = {id(module.outer) for module in encoder.modules() if isinstance(module, FeedForward)}
    maps = {
        name: module
        for name, module in encoder.named_modules()
        if isinstance(module, Linear) and id(module) not in outer
    }
    largest = {module: torch.zeros(module.in_features) for module in maps.values()}

    def look(module: Any, given: tuple[Tensor]) -> None:
        largest[module] = torch.maximum(largest[module], given[0].detach().flatten(0, -2).abs().amax(0))

    hooks = [module.register_forward_pre_hook(look) for module in maps.values()]
    for _ in encode_packs(encoder, rows):
        pass
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        for name, module in maps.items():
            encoder.set_submodule(name, _Smoothed(module, largest[module].clone()))
    return encoder


def _quantize(floats: Path, graph: Path) -> None:
    """Keep the matrices of smoothed maps in bytes.

    Unsigned ones, because processors without the newest instructions cut sums of products of signed ones short.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    content = onnx.load(floats).graph
    vectors = {weight.name for weight in content.initializer if len(weight.dims) == 1}
    evened = {
        name for node in content.node if node.op_type == "Mul" and vectors & set(node.input) for name in node.output
    }
    quantize_dynamic(
        floats,
        graph,
        nodes_to_quantize=[node.name for node in content.node if node.op_type == "MatMul" and evened & set(node.input)],
        per_channel=True,
        weight_type=QuantType.QUInt8,
    )


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
