"""Import and export of CoVe's original weights."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from polyseme import CheckpointError, ConfigError, load
from polyseme.api import open_embeddings
from polyseme.conversion.registry import as_model_directory
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings

WORDS = ["the", "bank", "by", "river"]


@pytest.fixture
def lstm():
    torch.manual_seed(0)
    return nn.LSTM(5, 6, num_layers=2, bidirectional=True)


@pytest.fixture
def embeddings():
    return PretrainedEmbeddings(
        name="some", words=WORDS, vectors=np.random.default_rng(0).normal(size=(4, 5)).astype("f4")
    )


@pytest.mark.parametrize("prefix", ["", "rnn."])
def test_outputs_match_the_original_lstm(prefix, lstm, embeddings, tmp_path):
    save_file({prefix + name: weight for name, weight in lstm.state_dict().items()}, tmp_path / "mt.safetensors")
    with as_model_directory(tmp_path / "mt.safetensors", embeddings=embeddings) as folder:
        model = load(folder)
    (encoding,) = model.encode(["the river bank lake"])
    words = torch.from_numpy(np.concatenate([embeddings.vectors[[0, 3, 1]], np.zeros((1, 5), "f4")]))
    with torch.inference_mode():
        expected = torch.cat([words, lstm(words[:, None])[0][:, 0]], 1)
    np.testing.assert_allclose(encoding.layers[-1], expected, atol=1e-6)
    with pytest.raises(ConfigError, match="cannot translate"):
        model.translate(["the bank"])


def test_round_trip(lstm, embeddings, tmp_path):
    weights = {f"rnn.{name}": weight for name, weight in lstm.state_dict().items()}
    save_file(weights, tmp_path / "mt.safetensors")
    with as_model_directory(tmp_path / "mt.safetensors", embeddings=embeddings) as folder:
        model = load(folder)
        written, _ = model.export(tmp_path / "back", to="mtlstm")
    again = load_file(written)
    assert again.keys() == weights.keys() and all(torch.equal(again[name], weights[name]) for name in weights)
    vectors = open_embeddings(tmp_path / "back" / "vectors.bin")
    assert [word for word in vectors.words if word != "<unk>"] == WORDS
    np.testing.assert_array_equal(vectors.vectors[:4], embeddings.vectors)
    with pytest.raises(ConfigError, match="bilm is for elmo models"):
        model.export(tmp_path / "other", to="bilm")


def test_invalid_weights(lstm, embeddings, tmp_path):
    path = tmp_path / "mt.safetensors"
    save_file({name: weight for name, weight in lstm.state_dict().items() if "reverse" not in name}, path)
    with (
        pytest.raises(CheckpointError, match="not a bidirectional LSTM"),
        as_model_directory(path, embeddings=embeddings),
    ):
        pass
    save_file(nn.LSTM(7, 6, bidirectional=True).state_dict(), path)
    with pytest.raises(CheckpointError, match="of 7 dimensions"), as_model_directory(path, embeddings=embeddings):
        pass
