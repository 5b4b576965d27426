"""Conversion of checkpoints on import: OpenAI's original GPT, and pickled weights in the sandbox."""

import json
import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from polyseme import Batch, CheckpointError, load
from polyseme.conversion.registry import as_model_directory

TOKENS = ["<unk>", "t", "h", "e", "c", "a", "e</w>", "t</w>", ".</w>", "th", "the</w>", "ca", "cat</w>"]
WIDTH, LENGTH, NUM_LAYERS = 128, 10, 2


def shapes():
    layer = [[1, WIDTH, 3 * WIDTH], [3 * WIDTH], [1, WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH]]
    layer += [[1, WIDTH, 4 * WIDTH], [4 * WIDTH], [1, 4 * WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH]]
    return [[LENGTH, WIDTH], [len(TOKENS), WIDTH], *layer * NUM_LAYERS]


@pytest.fixture
def original(tmp_path):
    """A random GPT in the format of OpenAI's release."""
    folder = tmp_path / "original"
    folder.mkdir()
    sizes = [int(np.prod(shape)) for shape in shapes()]
    values = np.random.default_rng(0).normal(size=sum(sizes)).astype(np.float32) / 5
    for number, part in enumerate(np.array_split(values, 10)):
        np.save(folder / f"params_{number}.npy", part)
    (folder / "params_shapes.json").write_text(json.dumps(shapes()))
    (folder / "encoder_bpe_40000.json").write_text(json.dumps({token: n for n, token in enumerate(TOKENS)}))
    (folder / "vocab_40000.bpe").write_text("#version: 0.2\nt h\nth e</w>\nc a\nca t</w>\n")
    return folder


def test_import_of_the_original_gpt(original, tmp_path):
    from transformers import OpenAIGPTModel

    with as_model_directory(original) as folder:
        peer = OpenAIGPTModel.from_pretrained(folder).eval()
        weights = load_file(folder / "model.safetensors")
        model = load(folder)
    values = np.concatenate([np.load(original / f"params_{number}.npy") for number in range(10)])
    first = LENGTH * WIDTH
    np.testing.assert_array_equal(weights["positions_embed.weight"].flatten(), values[:first])
    np.testing.assert_array_equal(weights["tokens_embed.weight"].flatten(), values[first:][: len(TOKENS) * WIDTH])
    np.testing.assert_array_equal(weights[f"h.{NUM_LAYERS - 1}.ln_2.bias"], values[-WIDTH:])
    assert model.family == "gpt" and model.encoder.config.num_heads == 2

    ids = torch.tensor([[10, 12, 8, 0]])
    with torch.inference_mode():
        hidden = model.encoder(Batch.of(ids)).layers[-1]
        torch.testing.assert_close(hidden, peer(ids).last_hidden_state, atol=1e-4, rtol=1e-4)
    model.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.tokenizer.encode("The cat.").ids == [10, 12, 8]
    assert again.generate("the", max_tokens=3) == model.generate("the", max_tokens=3)
    with torch.inference_mode():
        torch.testing.assert_close(again.encoder(Batch.of(ids)).layers[-1], hidden, atol=0, rtol=0)


def test_original_gpt_must_be_imported_first(original):
    with pytest.raises(
        CheckpointError, match=r"OpenAI's original GPT checkpoint; convert it with polyseme import .* --out DIR"
    ):
        load(original)


def broken(folder, name):
    if name == "no files":
        for path in folder.glob("*.npy"):
            path.unlink()
    elif name == "a missing file":
        (folder / "params_9.npy").unlink()
    elif name == "truncated":
        content = (folder / "params_0.npy").read_bytes()
        (folder / "params_0.npy").write_bytes(content[:1000])
    elif name == "a pickle":
        np.save(folder / "params_3.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif name == "integers":
        np.save(folder / "params_3.npy", np.arange(5))
    elif name == "an empty file":
        (folder / "params_3.npy").write_bytes(b"")
    elif name == "terabytes":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
        (folder / "params_3.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    else:
        (folder / "params_shapes.json").write_text(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no files", "parameters and the files contain 0"),
        ("a missing file", "parameters and the files contain"),
        ("truncated", r"params_0\.npy is not a vector"),
        ("a pickle", r"params_3\.npy is not a vector"),
        ("integers", r"params_3\.npy is not a vector"),
        ("an empty file", r"params_3\.npy is not a vector"),
        ("terabytes", r"params_3\.npy is not a vector"),
        ("{", "does not contain the shapes of a GPT"),
        ("[" * 100_000, "does not contain the shapes of a GPT"),
        ("5", "does not contain the shapes of a GPT"),
        ("[[1, 2], [3, 4]]", "does not contain the shapes of a GPT"),
        (json.dumps([[1, 2]] * 14), "does not contain the shapes of a GPT"),
        (json.dumps(shapes()).replace("384", "-384"), "does not contain the shapes of a GPT"),
        (json.dumps(shapes()).replace("384", "385"), "describes"),
    ],
    ids=lambda text: text[:20],
)
def test_invalid_files_of_a_gpt(original, name, message):
    broken(original, name)
    with pytest.raises(CheckpointError, match=message), as_model_directory(original):
        pass


@pytest.fixture
def pickled(original, tmp_path):
    """The GPT as old versions of transformers saved it: pickled, with a buffer and tied weights."""
    folder = tmp_path / "pickled"
    with as_model_directory(original) as converted:
        shutil.copytree(converted, folder)
    weights = load_file(folder / "model.safetensors")
    weights |= {"lm_head.weight": weights["tokens_embed.weight"], "h.0.attn.bias": torch.ones(1, 1, 4, 4)}
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_pickled_weights_match_safetensors(original, pickled):
    with pytest.raises(
        CheckpointError, match=r"in a pickle, .*; convert it with polyseme import .* --pickle --out DIR"
    ):
        load(pickled)
    with as_model_directory(pickled) as folder, pytest.raises(CheckpointError, match="in a pickle"):
        load(folder)
    with as_model_directory(original) as one, as_model_directory(pickled, read_pickle=True) as two:
        ours, theirs = load(one).encoder.state_dict(), load(two).encoder.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class Command:
    """Runs a command when it is unpickled without restrictions."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_code_in_a_pickle_is_not_executed(pickled, tmp_path):
    marker = tmp_path / "executed"
    command = Command(f"touch '{marker}'")
    torch.save({"a": command}, pickled / "pytorch_model.bin")
    plain = pickle.dumps(command)
    for content in ((pickled / "pytorch_model.bin").read_bytes(), plain):
        (pickled / "pytorch_model.bin").write_bytes(content)
        with (
            pytest.raises(CheckpointError, match=r"is refused .*more than weights"),
            as_model_directory(pickled, read_pickle=True),
        ):
            pass
    assert not marker.exists()


def test_pickle_without_tensors_is_refused(pickled):
    torch.save({"a": 1}, pickled / "pytorch_model.bin")
    with (
        pytest.raises(CheckpointError, match="not a dictionary of tensors"),
        as_model_directory(pickled, read_pickle=True),
    ):
        pass
