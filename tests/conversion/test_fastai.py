"""Import and export of AWD-LSTM checkpoints of fastai and of the original code."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from polyseme import Batch, CheckpointError, load
from polyseme.conversion.registry import as_model_directory

WORDS = ["xxunk", "xxpad", "xxbos", "the", "bank", "by", "river", "."]
WIDTHS = [(5, 7), (7, 7), (7, 5)]


@pytest.fixture
def layers():
    torch.manual_seed(0)
    return [nn.Embedding(len(WORDS), 5), *(nn.LSTM(*widths, batch_first=True) for widths in WIDTHS)]


def checkpoint(layers, style):
    """The weights with the names of one of three programs."""
    embedding, *recurrent = layers
    first, second = ("", "") if style == "awd-lstm-lm" else ("0.", "1.")
    weights = {f"{first}encoder.weight": embedding.weight}
    if style == "fastai 2":
        weights[f"{first}encoder_dp.emb.weight"] = embedding.weight
    for number, lstm in enumerate(recurrent):
        prefix = f"{first}rnns.{number}.module."
        weights |= {prefix + name: weight for name, weight in lstm.named_parameters() if name != "weight_hh_l0"}
        if style == "fastai 2":
            weights[f"{first}rnns.{number}.weight_hh_l0_raw"] = lstm.weight_hh_l0
            weights[f"{prefix}weight_hh_l0"] = nn.functional.dropout(lstm.weight_hh_l0, 0.5)
        else:
            weights[f"{prefix}weight_hh_l0_raw"] = lstm.weight_hh_l0
    weights |= {f"{second}decoder.weight": embedding.weight, f"{second}decoder.bias": torch.arange(8.0)}
    return {name: weight.detach().clone() for name, weight in weights.items()}


def hidden(layers, ids):
    embedding, *recurrent = layers
    x = embedding(ids)
    for lstm in recurrent:
        x, _ = lstm(x)
    return x


@pytest.mark.parametrize("style", ["awd-lstm-lm", "fastai 0.7", "fastai 2"])
def test_import_from_three_programs(style, layers, tmp_path):
    save_file(checkpoint(layers, style), tmp_path / "model.safetensors")
    (tmp_path / "itos.json").write_text(json.dumps(WORDS))
    with pytest.raises(CheckpointError, match="AWD-LSTM of fastai; convert it with polyseme import"):
        load(tmp_path)
    with as_model_directory(tmp_path) as folder:
        model = load(folder)
    assert (model.family, model.encoder.widths) == ("ulmfit", (5, 7, 7, 5))
    ids = torch.tensor([[2, 3, 4, 0, 7]])
    with torch.inference_mode():
        top = model.encoder(Batch.of(ids)).layers[-1]
        torch.testing.assert_close(top, hidden(layers, ids), atol=1e-6, rtol=1e-5)
        logits = model.objective.causal_lm.logits(model.encoder, top)
        torch.testing.assert_close(logits, top @ layers[0].weight.T + torch.arange(8.0))
    assert model.tokenizer.encode("The bank by the lake.").ids == [3, 4, 5, 3, 0, 7]
    assert model.tokenizer.specials.end == 2 and model.tokenizer.specials.pad == 1
    model.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.score(["the bank"]) == model.score(["the bank"])
    assert again.generate("the", max_tokens=2) == model.generate("the", max_tokens=2)


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_round_trip(direction, layers, tmp_path):
    (tmp_path / "given").mkdir()
    weights = checkpoint(layers, "fastai 2")
    for number in range(len(WIDTHS)):  # saved with dropout; ignored on import
        weights[f"0.rnns.{number}.module.weight_hh_l0"] = weights[f"0.rnns.{number}.weight_hh_l0_raw"].clone()
    save_file(weights, tmp_path / "given" / f"lstm_{direction}.safetensors")
    (tmp_path / "given" / "itos.json").write_text(json.dumps(WORDS))
    with as_model_directory(tmp_path / "given") as folder:
        written, _ = load(folder).export(tmp_path / "back", to="fastai")
    again = load_file(written)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weight) for name, weight in weights.items())
    assert json.loads((tmp_path / "back" / "itos.json").read_text()) == WORDS
    with as_model_directory(tmp_path / "back") as folder:
        assert load(folder).encoder.config.direction == {"fwd": "forward", "bwd": "backward"}[direction]


def test_pickles_need_permission(layers, tmp_path):
    torch.save(checkpoint(layers, "fastai 2"), tmp_path / "lstm_bwd.pth")
    with pytest.raises(CheckpointError, match=r"is a pickle, .* add --pickle"), as_model_directory(tmp_path):
        pass
    with as_model_directory(tmp_path, read_pickle=True) as folder:
        model = load(folder)
    assert model.encoder.context == "right" and model.tokenizer is None
    ids = torch.tensor([[2, 3, 4]])
    with torch.inference_mode():
        top = model.encoder(Batch.of(ids)).layers[-1]
        torch.testing.assert_close(top, hidden(layers, ids.flip(1)).flip(1), atol=1e-6, rtol=1e-5)


def test_malicious_pickle_is_not_executed(tmp_path):
    class Malicious:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "model.pth").write_bytes(pickle.dumps({"encoder.weight": Malicious()}))
    with pytest.raises(CheckpointError, match="is refused"), as_model_directory(tmp_path, read_pickle=True):
        pass
    assert not (tmp_path / "ran").exists()


def test_encoder_without_decoder_has_no_objective(layers, tmp_path):
    weights = {name: tensor for name, tensor in checkpoint(layers, "fastai 2").items() if "decoder" not in name}
    save_file(weights, tmp_path / "encoder.safetensors")
    with as_model_directory(tmp_path) as folder:
        assert not load(folder).objective.names


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda weights: weights.pop("encoder.weight"), "not an AWD-LSTM"),
        (lambda weights: [weights.pop(name) for name in [*weights] if "rnns" in name], "not an AWD-LSTM"),
        (lambda weights: weights["decoder.weight"].add_(1), "only tied ones are supported"),
        (lambda weights: weights.update({"encoder.weight": torch.zeros(3)}), "not an AWD-LSTM"),
        (lambda weights: weights.pop("rnns.1.module.bias_ih_l0"), "describes .* parameters"),
        (lambda weights: weights.pop("rnns.0.module.weight_hh_l0_raw"), "config.json implies"),
    ],
)
def test_invalid_weights(change, message, layers, tmp_path):
    weights = checkpoint(layers, "awd-lstm-lm")
    change(weights)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message), as_model_directory(tmp_path) as folder:
        load(folder)


@pytest.mark.parametrize("words", ["{}", "[1, 2]", "[]", "not", json.dumps([*WORDS, "more"]), "[" * 100_000])
def test_invalid_vocabulary(words, layers, tmp_path):
    save_file(checkpoint(layers, "awd-lstm-lm"), tmp_path / "model.safetensors")
    (tmp_path / "itos.json").write_text(words)
    with pytest.raises(CheckpointError, match="not a JSON list of at most 8 words"), as_model_directory(tmp_path):
        pass
