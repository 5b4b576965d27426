"""`polyseme import` and `polyseme export`."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import polyseme as ps
from polyseme.conversion import onnx_export as exchange

TEXTS = ["the old bank by the river", "a bat slept in the barn", "spring came late this year"]


def test_export(polyseme, bert, tmp_path):
    pytest.importorskip("onnxruntime")
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    out = tmp_path / "new" / "graph"
    ended = polyseme("export", bert, "--to", "onnx", "--file", lines, "--out", out)
    assert ended.code == 0 and ended.out.startswith(f"{out / 'model.onnx'}: on 3 texts the vectors differ by ")
    assert {path.name for path in out.iterdir()} == {
        "model.onnx",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }

    from transformers import AutoTokenizer

    rows = AutoTokenizer.from_pretrained(out)(TEXTS, padding=True, return_tensors="np")
    hidden = exchange.Session(out / "model.onnx")(rows["input_ids"], rows["attention_mask"])
    mask = rows["attention_mask"][..., None]
    np.testing.assert_allclose((hidden * mask).sum(1) / mask.sum(1), ps.load(bert).embed(TEXTS), atol=1e-4)

    again = polyseme("export", bert, "--out", out)
    assert again.code == 2 and again.err == f"polyseme: {out} is not empty; choose another --out\n"


def test_failed_exports_leave_no_files(polyseme, bert, gpt2, tmp_path, monkeypatch):
    out = tmp_path / "graph"
    for given, why in (
        ([gpt2], "bidirectional encoders"),
        (
            [bert, "--to", "onxx"],
            "'onxx' is not an export format; did you mean onnx?",
        ),
        (["nowhere"], "nowhere does not exist"),
    ):
        ended = polyseme("export", *given, "--out", out)
        assert ended.code == 2 and why in ended.err and ended.err.count("\n") == 1
    monkeypatch.setattr(exchange, "_PACKAGES", ("no_such_program",))
    ended = polyseme("export", bert, "--out", out)
    assert ended.code == 2 and "needs no_such_program; install polyseme[onnx]" in ended.err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def old(bert, tmp_path):
    """A BERT with the weight names of early releases, in a pickle."""
    folder = tmp_path / "old"
    folder.mkdir()
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(bert / "model.safetensors").items()
    }
    torch.save(weights, folder / "pytorch_model.bin")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((bert / name).read_bytes())
    return folder


def test_import(polyseme, bert, old, tmp_path):
    out = tmp_path / "new" / "bert"
    refused = polyseme("import", old, "--out", out)
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert f"polyseme import {old} --pickle --out DIR" in refused.err
    assert not out.exists()

    ended = polyseme("import", old, "--pickle", "--out", out)
    assert ended.code == 0 and f"Saved {out} (loadable with transformers)." in ended.err
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    np.testing.assert_array_equal(ps.load(out).embed(TEXTS), ps.load(bert).embed(TEXTS))
    assert not any("gamma" in name for name in load_file(out / "model.safetensors"))
    assert polyseme("fill", out, "the [MASK] bank").out == polyseme("fill", bert, "the [MASK] bank").out

    again = polyseme("import", old, "--pickle", "--out", out)
    assert again.code == 2 and again.err == f"polyseme: {out} is not empty; choose another --out\n"


def test_a_directory_without_a_tokenizer(polyseme, bert, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    save_file(load_file(bert / "model.safetensors"), source / "model.safetensors")
    (source / "config.json").write_bytes((bert / "config.json").read_bytes())
    ended = polyseme("import", source, "--out", tmp_path / "out")
    assert ended.code == 0 and "no tokenizer files" in ended.err
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "bert"
    missing = polyseme("import", tmp_path / "nowhere", "--out", tmp_path / "other")
    assert missing.code == 2 and "does not exist" in missing.err
