"""Exported ONNX graphs match their encoder for any length, and graphs that do not are refused."""

import numpy as np
import pytest
import torch

from polyseme import CheckpointError, ConfigError
from polyseme.batch import Batch
from polyseme.conversion import onnx_export
from polyseme.conversion.onnx_export import FLOAT_GRAPH, QUANTIZED_GRAPH, Session, export_graph, measure_parity
from polyseme.families import FAMILIES

pytest.importorskip("onnxruntime")
SIZES = {"vocab_size": 60, "max_length": 48, "width": 16, "num_layers": 2, "num_heads": 2}


def encoder_of(family, **sizes):
    torch.manual_seed(0)
    encoder = FAMILIES[family](FAMILIES[family].Config(**{**SIZES, **sizes})).eval()
    with torch.no_grad():  # far from uniform attention, so that errors are visible
        for weight in encoder.parameters():
            weight.normal_(std=0.5) if weight.dim() > 1 else None
    return encoder


def random_rows(*lengths):
    rng = np.random.default_rng(0)
    return [rng.integers(60, size=length) for length in lengths]


ROWS = random_rows(1, 2, 5, 7, 33, 40, 48, 48)


@pytest.mark.parametrize(("family", "sizes"), [("bert", {}), ("roberta", {}), ("albert", {"embedding_width": 8})])
def test_graph_matches_its_encoder(family, sizes, tmp_path):
    encoder = encoder_of(family, **sizes)
    graph, parity = export_graph(encoder, tmp_path, ROWS)
    assert parity.num_texts == len(ROWS) and parity.max_difference < 1e-5 and parity.min_cosine > 0.99999
    session = Session(graph)
    assert session.inputs == {"input_ids", "attention_mask"} | ({"token_type_ids"} if family != "roberta" else set())
    assert [output.name for output in session.session.get_outputs()] == ["last_hidden_state", "pooler_output"]

    ids = np.stack(random_rows(9, 9, 9))
    mask = np.arange(9) < np.array([[9], [4], [1]])
    segments = np.where(np.arange(9) < 2, 0, 1) * np.ones_like(ids)
    feed = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    feed |= {"token_type_ids": segments} if family != "roberta" else {}
    hidden, pooled = session.session.run(None, feed)
    with torch.inference_mode():
        batch = Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask),
            segments=torch.from_numpy(segments) if family != "roberta" else None,
        )
        encoded = encoder(batch)
        summary = encoder.pool(encoded)
    np.testing.assert_allclose(hidden[mask], encoded.layers[-1].numpy()[mask], atol=1e-5)
    np.testing.assert_allclose(pooled, summary.numpy(), atol=1e-5)
    assert b"polyseme/models" not in graph.read_bytes()  # no paths of this machine


def test_shared_layers_are_stored_once(tmp_path):
    few, many = (
        export_graph(encoder_of("albert", embedding_width=8, num_layers=layers), tmp_path, ROWS)[0].stat().st_size
        for layers in (1, 4)
    )
    block = 4 * (16 * 48 + 16 * 16 + 2 * 16 * 64)
    assert many - few < 4 * block


def test_quantized_graph_is_close(tmp_path):
    graph, parity = export_graph(encoder_of("bert"), tmp_path, ROWS, quantized=True)
    assert [path.name for path in tmp_path.iterdir()] == [QUANTIZED_GRAPH]
    assert 0.99 < parity.min_cosine < 1 and parity.max_difference > 1e-5
    assert graph.name == QUANTIZED_GRAPH


def test_inaccurate_graph_is_refused(tmp_path, monkeypatch):
    encoder = encoder_of("bert")
    monkeypatch.setattr(onnx_export, "MAX_DIFFERENCE", 1e-9)
    with pytest.raises(CheckpointError, match="differs from the model"):
        export_graph(encoder, tmp_path, ROWS)
    other = encoder_of("bert", num_heads=4)
    assert measure_parity(other, tmp_path / FLOAT_GRAPH, ROWS).max_difference > 0.01


def test_unsupported_exports(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="bidirectional encoders only"):
        export_graph(encoder_of("gpt2"), tmp_path, ROWS)
    monkeypatch.setattr(onnx_export, "_PACKAGES", ("onnx", "no_such_package"))
    with pytest.raises(ConfigError, match=r"needs no_such_package; install polyseme\[onnx\]"):
        export_graph(encoder_of("bert"), tmp_path, ROWS)
