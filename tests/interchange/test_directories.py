"""Directories of other programs: OpenAI's GPT as it was published, and weights in a pickle."""

import json
import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from polyseme import Batch, CheckpointError, load
from polyseme.interchange.directories import loadable
from polyseme.interchange.openai import convert_openai

TOKENS = ["<unk>", "t", "h", "e", "c", "a", "e</w>", "t</w>", ".</w>", "th", "the</w>", "ca", "cat</w>"]
WIDTH, LENGTH, NUM_LAYERS = 128, 10, 2


def shapes():
    layer = [[1, WIDTH, 3 * WIDTH], [3 * WIDTH], [1, WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH]]
    layer += [[1, WIDTH, 4 * WIDTH], [4 * WIDTH], [1, 4 * WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH]]
    return [[LENGTH, WIDTH], [len(TOKENS), WIDTH], *layer * NUM_LAYERS]


@pytest.fixture
def published(tmp_path):
    """A GPT in the files that OpenAI published."""
    folder = tmp_path / "published"
    folder.mkdir()
    sizes = [int(np.prod(shape)) for shape in shapes()]
    numbers = np.random.default_rng(0).normal(size=sum(sizes)).astype(np.float32) / 5
    for number, part in enumerate(np.array_split(numbers, 10)):
        np.save(folder / f"params_{number}.npy", part)
    (folder / "params_shapes.json").write_text(json.dumps(shapes()))
    (folder / "encoder_bpe_40000.json").write_text(json.dumps({token: n for n, token in enumerate(TOKENS)}))
    (folder / "vocab_40000.bpe").write_text("#version: 0.2\nt h\nth e</w>\nc a\nca t</w>\n")
    return folder


def test_the_published_gpt(published, tmp_path):
    from transformers import OpenAIGPTModel

    with loadable(published) as folder:
        peer = OpenAIGPTModel.from_pretrained(folder).eval()
        weights = load_file(folder / "model.safetensors")
        model = load(folder)
    numbers = np.concatenate([np.load(published / f"params_{number}.npy") for number in range(10)])
    first = LENGTH * WIDTH
    np.testing.assert_array_equal(weights["positions_embed.weight"].flatten(), numbers[:first])
    np.testing.assert_array_equal(weights["tokens_embed.weight"].flatten(), numbers[first:][: len(TOKENS) * WIDTH])
    np.testing.assert_array_equal(weights[f"h.{NUM_LAYERS - 1}.ln_2.bias"], numbers[-WIDTH:])
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


def test_the_published_gpt_has_to_be_imported(published):
    with pytest.raises(CheckpointError, match=r"OpenAI's GPT as published; say polyseme import .* --out DIR first"):
        load(published)


def broken(folder, name):
    if name == "no numbers":
        for path in folder.glob("*.npy"):
            path.unlink()
    elif name == "a file less":
        (folder / "params_9.npy").unlink()
    elif name == "cut short":
        content = (folder / "params_0.npy").read_bytes()
        (folder / "params_0.npy").write_bytes(content[:1000])
    elif name == "a pickle":
        np.save(folder / "params_3.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif name == "whole numbers":
        np.save(folder / "params_3.npy", np.arange(5))
    elif name == "no array":
        (folder / "params_3.npy").write_bytes(b"")
    elif name == "terabytes":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
        (folder / "params_3.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    else:
        (folder / "params_shapes.json").write_text(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no numbers", "numbers and the files hold 0"),
        ("a file less", "numbers and the files hold"),
        ("cut short", r"params_0\.npy is no array of numbers"),
        ("a pickle", r"params_3\.npy is no array of numbers"),
        ("whole numbers", r"params_3\.npy is no array of numbers"),
        ("no array", r"params_3\.npy is no array of numbers"),
        ("terabytes", r"params_3\.npy is no array of numbers"),
        ("{", "does not hold the shapes of a GPT"),
        ("[" * 100_000, "does not hold the shapes of a GPT"),
        ("5", "does not hold the shapes of a GPT"),
        ("[[1, 2], [3, 4]]", "does not hold the shapes of a GPT"),
        (json.dumps([[1, 2]] * 14), "does not hold the shapes of a GPT"),
        (json.dumps(shapes()).replace("384", "-384"), "does not hold the shapes of a GPT"),
        (json.dumps(shapes()).replace("384", "385"), "asks for"),
    ],
    ids=lambda text: text[:20],
)
def test_broken_files_of_a_gpt(published, tmp_path, name, why):
    broken(published, name)
    with pytest.raises(CheckpointError, match=why):
        convert_openai(published, tmp_path)


@pytest.fixture
def pickled(published, tmp_path):
    """The same as transformers once kept it, with a buffer and tied weights."""
    folder = tmp_path / "pickled"
    with loadable(published) as converted:
        shutil.copytree(converted, folder)
    weights = load_file(folder / "model.safetensors")
    weights |= {"lm_head.weight": weights["tokens_embed.weight"], "h.0.attn.bias": torch.ones(1, 1, 4, 4)}
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_weights_in_a_pickle(published, pickled):
    with pytest.raises(CheckpointError, match=r"in a pickle, .*; say polyseme import .* --pickle --out DIR first"):
        load(pickled)
    with loadable(pickled) as folder, pytest.raises(CheckpointError, match="in a pickle"):
        load(folder)
    with loadable(published) as one, loadable(pickled, pickle=True) as two:
        ours, theirs = load(one).encoder.state_dict(), load(two).encoder.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


class Command:
    """Runs a command when it is unpickled by something that allows it."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_no_code_of_a_pickle_runs(pickled, tmp_path):
    sign = tmp_path / "it ran"
    command = Command(f"touch '{sign}'")
    torch.save({"a": command}, pickled / "pytorch_model.bin")
    plain = pickle.dumps(command)
    for content in ((pickled / "pytorch_model.bin").read_bytes(), plain):
        (pickled / "pytorch_model.bin").write_bytes(content)
        with (
            pytest.raises(CheckpointError, match=r"is refused .*does not hold weights alone"),
            loadable(pickled, pickle=True),
        ):
            pass
    assert not sign.exists()


def test_a_pickle_of_something_else(pickled):
    torch.save({"a": 1}, pickled / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds something else than weights"), loadable(pickled, pickle=True):
        pass
