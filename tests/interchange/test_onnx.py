"""A graph gives the vectors of its encoder, for rows of every length, and is refused where it does not."""

import numpy as np
import pytest
import torch

from polyseme import CheckpointError, ConfigError
from polyseme.interchange import onnx as exchange
from polyseme.interchange.onnx import GRAPHS, Session, compare, export_graph
from polyseme.models import FAMILIES
from polyseme.tensors import Batch

pytest.importorskip("onnxruntime")
SIZES = {"vocab_size": 60, "max_length": 48, "width": 16, "num_layers": 2, "num_heads": 2}


def encoder_of(family, **sizes):
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config(**{**SIZES, **sizes})).eval()
    with torch.no_grad():  # attention that is far from even, so that a wrong graph shows
        for weight in encoder.parameters():
            weight.normal_(std=0.5) if weight.dim() > 1 else None
    return encoder


def some_rows(*lengths):
    chance = np.random.default_rng(0)
    return [chance.integers(60, size=length) for length in lengths]


ROWS = some_rows(1, 2, 5, 7, 33, 40, 48, 48)


@pytest.mark.parametrize(("family", "sizes"), [("bert", {}), ("roberta", {}), ("albert", {"embedding_width": 8})])
def test_graphs_give_the_vectors_of_their_encoder(family, sizes, tmp_path):
    encoder = encoder_of(family, **sizes)
    graph, parity = export_graph(encoder, tmp_path, "onnx", ROWS)
    assert parity.num_rows == len(ROWS) and parity.difference < 1e-5 and parity.cosine > 0.99999
    session = Session(graph)
    assert session.names == {"input_ids", "attention_mask"} | ({"token_type_ids"} if family != "roberta" else set())
    assert [output.name for output in session.session.get_outputs()] == ["last_hidden_state", "pooler_output"]

    ids = np.stack(some_rows(9, 9, 9))
    mask = np.arange(9) < np.array([[9], [4], [1]])
    segments = np.where(np.arange(9) < 2, 0, 1) * np.ones_like(ids)
    given = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    given |= {"token_type_ids": segments} if family != "roberta" else {}
    hidden, pooled = session.session.run(None, given)
    with torch.inference_mode():
        batch = Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask),
            segments=torch.from_numpy(segments) if family != "roberta" else None,
        )
        encoded = encoder(batch)
        summary = encoder.summarize(encoded)
    np.testing.assert_allclose(hidden[mask], encoded.layers[-1].numpy()[mask], atol=1e-5)
    np.testing.assert_allclose(pooled, summary.numpy(), atol=1e-5)
    assert b"polyseme/models" not in graph.read_bytes()  # nor any other path of this machine


def test_layers_that_are_one_are_one_in_the_graph(tmp_path):
    few, many = (
        export_graph(encoder_of("albert", embedding_width=8, num_layers=layers), tmp_path, "onnx", ROWS)[0]
        .stat()
        .st_size
        for layers in (1, 4)
    )
    block = 4 * (16 * 48 + 16 * 16 + 2 * 16 * 64)
    assert many - few < 4 * block


def test_bytes_are_near(tmp_path):
    graph, parity = export_graph(encoder_of("bert"), tmp_path, "int8", ROWS)
    assert [path.name for path in tmp_path.iterdir()] == [GRAPHS["int8"]]
    assert 0.99 < parity.cosine < 1 and parity.difference > 1e-5
    assert graph.name == GRAPHS["int8"]


def test_what_is_too_far_is_refused(tmp_path, monkeypatch):
    encoder = encoder_of("bert")
    monkeypatch.setattr(exchange, "FARTHEST", 1e-9)
    with pytest.raises(CheckpointError, match=r"the graph differs from the model by .*: refused"):
        export_graph(encoder, tmp_path, "onnx", ROWS)
    other = encoder_of("bert", num_heads=4)
    assert compare(other, tmp_path / GRAPHS["onnx"], ROWS).difference > 0.01


def test_what_cannot_be_exported(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="'tensorflow' is nothing to export to; say onnx or int8"):
        export_graph(encoder_of("bert"), tmp_path, "tensorflow", ROWS)
    with pytest.raises(ConfigError, match="only a model that reads both directions"):
        export_graph(encoder_of("gpt2"), tmp_path, "onnx", ROWS)
    monkeypatch.setattr(exchange, "_NEEDED", ("onnx", "no_such_program"))
    with pytest.raises(ConfigError, match=r"this needs no_such_program; install polyseme\[onnx\]"):
        export_graph(encoder_of("bert"), tmp_path, "onnx", ROWS)
