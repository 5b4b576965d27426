"""ONNX export of encoders, in float32 or with 8-bit weights.

Inputs and outputs have the names of transformers' exports, so that programs for those can run these graphs.
"""

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.arrays import Floats, Ids
from polyseme.batch import Batch, split_packed
from polyseme.conversion.formats import Exporter, Parity
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_text
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.batching import bucket_by_length, encode_packed, padded_batch, tokenize_window_ids
from polyseme.inference.model import LoadedModel
from polyseme.layers.linear import Linear
from polyseme.layers.transformer_block import FeedForward
from polyseme.models.base import Encoder
from polyseme.models.seq2seq import Seq2SeqEncoder
from polyseme.system.atomic_io import write_file
from polyseme.training.storage.model_dir import CONFIG

FLOAT_GRAPH, QUANTIZED_GRAPH = "model.onnx", "model_quantized.onnx"

MAX_DIFFERENCE = 1e-4  # by which a dimension of a vector may differ from the model's, in float32
MIN_COSINE = 0.99  # of a vector with the model's, in 8 bits
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_NUM_SENTENCES = 100  # of a sample, to check a graph on


class _Graph(nn.Module):
    """An encoder with the inputs and outputs of transformers."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        encoded = self.encoder(Batch(ids=input_ids, mask=attention_mask.bool(), segments=token_type_ids))
        return encoded.layers[-1], self.encoder.pool(encoded)


def require_onnx() -> None:
    """Raise an error with the install command if a package is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(f"ONNX export needs {' and '.join(missing)}; install polyseme[onnx]")


def _write(
    model: LoadedModel, folder: Path, texts: Sequence[str] | None, *, quantized: bool
) -> tuple[Path, Parity | None]:
    """Write a graph with its tokenizer and config.json, checked on `texts` or on sentences of a sample."""
    documents = Corpus(*sample_text("docstrings").dev) if texts is None else ()
    sentences = (sentence for document in documents for sentence in split_sentences(document))
    tokenizer, max_length = model.require_tokenizer(), model.encoder.config.max_length
    rows, _ = tokenize_window_ids(tokenizer, texts or list(islice(sentences, _NUM_SENTENCES)), max_length)
    graph, parity = export_graph(model.encoder, folder, rows, quantized=quantized)
    tokenizer.save(folder, max_length=max_length)
    write_file(folder / CONFIG, (model.folder / CONFIG).read_bytes())
    return graph, parity


def export_graph(encoder: Encoder, folder: Path, rows: list[Ids], *, quantized: bool = False) -> tuple[Path, Parity]:
    """Export an encoder for any batch size and length, and compare the graph with it on `rows` of ids."""
    if encoder.context != "both" or encoder.uses_characters or isinstance(encoder, Seq2SeqEncoder):
        raise ConfigError("ONNX export supports bidirectional encoders only; choose a model such as bert or roberta")
    require_onnx()
    graph = folder / FLOAT_GRAPH
    with _quiet():
        _trace(_smooth(encoder, rows) if quantized else encoder, graph)
        if quantized:
            float_graph, graph = graph, folder / QUANTIZED_GRAPH
            _quantize(float_graph, graph)
            float_graph.unlink()
    parity = measure_parity(encoder, graph, rows)
    if not (parity.min_cosine > MIN_COSINE and (quantized or parity.max_difference <= MAX_DIFFERENCE)):
        raise CheckpointError(
            f"the graph differs from the model (by {parity.max_difference:.1e}, cosine {parity.min_cosine:.4f}); "
            "nothing was exported"
        )
    return graph, parity


def _trace(encoder: Encoder, graph: Path) -> None:
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    if encoder.config.num_segments == 1:
        inputs.pop()
    shape = (2, min(4, encoder.config.max_length))
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=encoder.config.max_length)}
    with torch.no_grad():
        program = torch.onnx.export(
            _Graph(encoder).eval(),
            tuple(torch.zeros(shape, dtype=torch.long) for _ in inputs),  # one shared tensor would merge the inputs
            input_names=inputs,
            output_names=["last_hidden_state", "pooler_output"],
            dynamic_shapes=(dims,) * len(inputs),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # it contains source paths of this machine
    program.save(str(graph))


class _SmoothLinear(nn.Module):
    """SmoothQuant (Xiao et al., 2023): inputs are divided by their scale, and the matrix is multiplied by it.

    One quantization step then fits all input dimensions; otherwise a few large ones would leave the others no
    resolution.
    """

    def __init__(self, linear: Linear, maxima: Tensor) -> None:
        super().__init__()
        scales = (maxima / linear.weight.abs().amax(0).clamp_min(1e-5)).clamp_min(1e-5).sqrt()
        self.weight = nn.Parameter(linear.weight * scales)
        self.bias = linear.bias
        self.inverse_scales = nn.Parameter(1 / scales)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x * self.inverse_scales, self.weight, self.bias)


def _smooth(encoder: Encoder, rows: Sequence[Ids]) -> Encoder:
    """A copy of an encoder with smoothed linear layers, calibrated on `rows`.

    The second layer of feed-forward blocks is excluded: which of its inputs are large differs from text to text.
    """
    encoder = copy.deepcopy(encoder)
    excluded = {id(module.outer) for module in encoder.modules() if isinstance(module, FeedForward)}
    modules = encoder.named_modules()
    linears = {name: part for name, part in modules if isinstance(part, Linear) and id(part) not in excluded}
    maxima = {module: torch.zeros(module.in_features) for module in linears.values()}

    def record_maxima(module: Any, inputs: tuple[Tensor]) -> None:
        maxima[module] = torch.maximum(maxima[module], inputs[0].detach().flatten(0, -2).abs().amax(0))

    hooks = [module.register_forward_pre_hook(record_maxima) for module in linears.values()]
    for _ in encode_packed(encoder, rows):
        pass
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        for name, module in linears.items():
            encoder.set_submodule(name, _SmoothLinear(module, maxima[module].clone()))
    return encoder


def _quantize(float_graph: Path, graph: Path) -> None:
    """Quantize the matrices of smoothed layers to 8 bits.

    Unsigned, because processors without VNNI saturate sums of products of signed bytes.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    content = onnx.load(float_graph).graph
    vectors = {weight.name for weight in content.initializer if len(weight.dims) == 1}
    products = (node for node in content.node if node.op_type == "Mul" and vectors & set(node.input))
    smoothed = {name for node in products for name in node.output}
    names = [node.name for node in content.node if node.op_type == "MatMul" and smoothed & set(node.input)]
    quantize_dynamic(float_graph, graph, nodes_to_quantize=names, per_channel=True, weight_type=QuantType.QUInt8)


class Session:
    """A graph in onnxruntime."""

    def __init__(self, graph: Path) -> None:
        require_onnx()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors only
        self.session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.inputs = {node.name for node in self.session.get_inputs()}

    def __call__(self, ids: Ids, mask: Ids) -> Floats:
        """The top layer of a padded batch, (B, T, D)."""
        arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: array for name, array in arrays.items() if name in self.inputs}
        hidden: Floats = self.session.run(["last_hidden_state"], feed)[0]
        return hidden


def measure_parity(encoder: Encoder, graph: Path, rows: Sequence[Ids]) -> Parity:
    """Compare the mean-pooled vectors of a graph with those of its encoder."""
    ours, theirs = (np.empty((len(rows), encoder.widths[-1]), dtype=np.float32) for _ in range(2))
    for group, encoded in encode_packed(encoder, rows):
        lengths = [len(rows[index]) for index in group]
        means = [vectors.mean(1) for vectors in split_packed(encoded.layers[-1][0], lengths)]
        ours[group] = torch.cat(means).cpu().numpy()
    session = Session(graph)
    for group in bucket_by_length([len(row) for row in rows]):
        batch = padded_batch([rows[index].tolist() for index in group], torch.device("cpu"))
        mask = batch.mask.numpy()
        hidden = session(batch.ids.numpy(), mask.astype(np.int64))
        theirs[group] = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    difference, cosines = np.abs(ours - theirs), (ours * theirs).sum(1) / norms
    return Parity(num_texts=len(rows), max_difference=float(difference.max()), min_cosine=float(cosines.min()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of the ONNX packages."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(disabled)


EXPORTERS = {
    format: Exporter(write=partial(_write, quantized=format == "int8"), check_packages=require_onnx)
    for format in ("onnx", "int8")
}
