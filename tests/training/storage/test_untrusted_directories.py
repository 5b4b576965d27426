"""Model files and directories of unknown origin: invalid ones are rejected quickly with one line."""

import json
import resource
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from polyseme import CheckpointError, PolysemeError, load
from polyseme.families import FAMILIES, build_objective
from polyseme.system.safetensors_io import read_shapes, read_tensors, write_tensors
from polyseme.training.storage.model_dir import open_model, write_model


def file_of(header, data=b"", length=None):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ONE = {"a": entry([2, 2], 0, 16)}
HUGE = {"a": entry([2**40], 0, 2**42)}

HOSTILE = {
    "empty": b"",
    "three bytes": b"abc",
    "only a length": struct.pack("<Q", 2),
    "header longer than the file": file_of(ONE, bytes(16), length=10_000),
    "header of 2**63": file_of(ONE, bytes(16), length=2**63),
    "header of -1": file_of(ONE, bytes(16), length=2**64 - 1),
    "header of nothing": file_of(b"", bytes(16)),
    "header of 9 MB": file_of(b"{" + b" " * 9_000_000 + b"}"),
    "not JSON": file_of(b"{'a': 1}", bytes(16)),
    "not UTF-8": file_of(b'{"\xff\xfe": 1}', bytes(16)),
    "a pickle": b"\x80\x04\x95" + bytes(60),
    "a list": file_of([1, 2]),
    "a number": file_of(b"12345"),
    "nested 100,000 lists": file_of(b"[" * 100_000),
    "nested 100,000 objects": file_of(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "a nested shape": file_of(
        b'{"a":{"dtype":"F32","shape":' + b"[" * 50_000 + b"]" * 50_000 + b',"data_offsets":[0,4]}}'
    ),
    "a number of 5,000 digits": file_of(b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}'),
    "half a million large sizes": file_of({"a": entry([2**62] * 300_000, 0, 4)}, bytes(4)),
    "two of one name": file_of(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
        bytes(8),
    ),
    "two shapes of one tensor": file_of(
        b'{"a":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}}', bytes(4)
    ),
    "overlapping": file_of({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)),
    "the same bytes twice": file_of({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)),
    "a gap": file_of({"a": entry([2], 0, 8), "b": entry([2], 12, 20)}, bytes(20)),
    "a gap in front": file_of({"a": entry([2], 4, 12)}, bytes(12)),
    "backwards": file_of({"a": entry([2], 8, 0)}, bytes(8)),
    "negative offsets": file_of({"a": entry([2], -8, 0)}, bytes(8)),
    "a negative size": file_of({"a": entry([-2, -2], 0, 16)}, bytes(16)),
    "fractions": file_of({"a": entry([2.0, 2.0], 0, 16)}, bytes(16)),
    "true for one": file_of({"a": entry([True], 0, 4)}, bytes(4)),
    "words for sizes": file_of({"a": entry(["2"], 0, 8)}, bytes(8)),
    "a word for a shape": file_of({"a": entry("2", 0, 8)}, bytes(8)),
    "an object for a shape": file_of({"a": entry({}, 0, 4)}, bytes(4)),
    "no shape": file_of({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "no offsets": file_of({"a": {"dtype": "F32", "shape": [1]}}, bytes(4)),
    "three offsets": file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(8)),
    "null": file_of({"a": None}, bytes(4)),
    "a size too small": file_of({"a": entry([3], 0, 16)}, bytes(16)),
    "a size too large": file_of({"a": entry([5], 0, 16)}, bytes(16)),
    "sizes whose product overflows": file_of({"a": entry([2**32, 2**32], 0, 0)}),
    "four terabytes in a small file": file_of(HUGE, bytes(64)),
    "an unknown dtype": file_of({"a": entry([2, 2], 0, 16, "Q4_K")}, bytes(16)),
    "a list for a dtype": file_of({"a": entry([2, 2], 0, 16, ["F32"])}, bytes(16)),
    "30,000 tensors": file_of({f"t{n}": entry([], 4 * n, 4 * n + 4) for n in range(30_000)}, bytes(120_000)),
    "a name with a line break": file_of({"a\nb": entry([2, 2], 0, 16)}, bytes(16)),
    "a name of 1,000 characters": file_of({"a" * 1000: entry([2, 2], 0, 16)}, bytes(16)),
    "cut short": file_of(ONE, bytes(15)),
    "no data": file_of(ONE),
    "bytes at the end": file_of(ONE, bytes(17)),
    "metadata that is a list": file_of({"__metadata__": [1], **ONE}, bytes(16)),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}, **ONE}, bytes(16)),
    "fields that nobody knows": file_of({"a": {**ONE["a"], "dtype": "F32", "extra": [1]}, "b": 3}, bytes(16)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_rejected(tmp_path, name):
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[name])
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 400
    assert after.ru_maxrss - before.ru_maxrss < 300_000, "kilobytes were taken for a file that is refused"


def test_folder_or_missing_file(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    for path in (tmp_path / "model.safetensors", tmp_path / "other.safetensors", tmp_path / ("x" * 300)):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read_shapes(path)


def test_truncated_files_and_flipped_header_bytes(tmp_path):
    """Either rejected, or a valid file."""
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.arange(6.0).view(2, 3), "b": torch.arange(3)}, metadata={"format": "pt"})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_tensors(path)
    (header_length,) = struct.unpack("<Q", whole[:8])
    refused = 0
    for place in range(8 + header_length):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                tensors = read_tensors(path)
                assert sum(t.numel() * t.element_size() for t in tensors.values()) == 48
            except CheckpointError:
                refused += 1
    assert refused > 4 * header_length


def test_round_trip(tmp_path):
    tensors = {
        "plain": torch.randn(3, 4),
        "turned": torch.randn(3, 4).T,
        "half": torch.randn(5).to(torch.bfloat16),
        "counts": torch.arange(4),
        "one": torch.tensor(2.5),
        "none": torch.zeros(0, 7),
    }
    path = tmp_path / "a.safetensors"
    write_tensors(path, tensors)
    assert read_shapes(path) == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name, tensor in read_tensors(path).items():
        assert torch.equal(tensor, tensors[name]) and tensor.dtype == tensors[name].dtype
    assert set(read_tensors(path, ["one"])) == {"one"}
    assert path.stat().st_mode & 0o777 == tmp_path.stat().st_mode & 0o666, "who may look into the folder may read it"


# --- model directories


@pytest.fixture(scope="module")
def directories(tiny_models, tmp_path_factory):
    """A valid model directory of each family."""
    places = {}
    for family, tiny in tiny_models.items():
        places[family] = folder = tmp_path_factory.mktemp(family)
        torch.manual_seed(0)
        encoder = FAMILIES[family](tiny.recipe.model.replace(vocab_size=tiny.tokenizer.vocab_size))
        objective = build_objective(tiny.recipe.objective, encoder, tiny.tokenizer.specials)
        write_model(folder, family=family, encoder=encoder, heads=objective, extra={})
        tiny.tokenizer.save(folder)
    return places


@pytest.fixture(params=[name for name, family in FAMILIES.items() if family.hf_mapping])
def directory(request, directories, tmp_path):
    """A copy to corrupt."""
    import shutil

    return shutil.copytree(directories[request.param], tmp_path / "model")


def test_directories_are_valid(directory):
    assert load(directory).embed(["a text"]).shape == (1, 32)


def change(directory, **changes):
    config = json.loads((directory / "config.json").read_text())
    names = {
        "width": ("hidden_size", "n_embd"),
        "layers": ("num_hidden_layers", "n_layer"),
        "heads": ("num_attention_heads", "n_head"),
        "length": ("max_position_embeddings", "n_positions"),
        "inner": ("intermediate_size", "n_inner"),
        "activation": ("hidden_act", "activation_function", "afn"),
        "epsilon": ("layer_norm_eps", "layer_norm_epsilon"),
    }
    for name, value in changes.items():
        config |= {theirs: value for theirs in names.get(name, (name,)) if theirs in config}
    (directory / "config.json").write_text(json.dumps(config))


CONFIGS = {
    "empty": "",
    "not JSON": "{'hidden_size': 3}",
    "a list": "[1, 2, 3]",
    "a string": '"bert"',
    "null": "null",
    "NUL bytes": "\0" * 50,
    "nested": "[" * 100_000,
    "2 MB": json.dumps({"model_type": "bert", "x": "y" * 2_000_000}),
    "no type": "{}",
    "another type": '{"model_type": "llama"}',
    "a list for a type": '{"model_type": ["bert"]}',
    "a module for a type": '{"model_type": "os.system", "auto_map": {"AutoModel": "evil.Evil"}}',
}
CHANGES = {
    "a terabyte": {"width": 10**6},
    "a width of 10**15": {"width": 2 * 10**15, "inner": 10**15},
    "a width of 10**30": {"width": 2 * 10**30},
    "a million layers more": {"layers": 10**6},
    "10**12 layers": {"layers": 10**12},
    "one layer more": {"layers": 3},
    "a vocabulary of 10**9": {"vocab_size": 10**9},
    "a small vocabulary": {"vocab_size": 399},
    "10**12 positions": {"length": 10**12},
    "half the width": {"width": 16},
    "a negative width": {"width": -32},
    "no width": {"width": 0},
    "no layers": {"layers": 0},
    "negative layers": {"layers": -2},
    "no heads": {"heads": 0},
    "heads that do not fit": {"heads": 7},
    "words for numbers": {"width": "thirty-two"},
    "a list for a number": {"width": [32]},
    "an object for a number": {"layers": {"a": 1}},
    "a fraction": {"layers": 1.5},
    "a number for a word": {"activation": 3},
    "a list for a word": {"activation": ["gelu"]},
    "an object for a word": {"activation": {"a": "gelu"}},
    "an unknown word": {"activation": "eval('1')"},
    "a negative epsilon": {"epsilon": -1},
    "not a number": {"epsilon": float("nan")},
    "infinite": {"epsilon": float("inf")},
}


def assert_rejected(directory):
    with pytest.raises(PolysemeError) as caught:
        load(directory)
    message = str(caught.value)
    assert message and len(message) < 600
    assert str(directory) in message, "the message names the directory"


@pytest.mark.parametrize("name", CONFIGS)
def test_hostile_configs(directories, tmp_path, name):
    (tmp_path / "config.json").write_text(CONFIGS[name])
    (tmp_path / "model.safetensors").write_bytes((directories["bert"] / "model.safetensors").read_bytes())
    assert_rejected(tmp_path)


@pytest.mark.parametrize("name", CHANGES)
def test_configs_that_do_not_fit_the_weights(directory, name):
    if name == "one layer more" and '"albert"' in (directory / "config.json").read_text():
        pytest.skip("its layers share their weights")
    change(directory, **CHANGES[name])
    assert_rejected(directory)


def test_config_that_is_a_folder_or_not_text(directory):
    (directory / "config.json").write_bytes(b"\xff\xfe\x00{}")
    assert_rejected(directory)
    (directory / "config.json").unlink()
    assert_rejected(directory)
    (directory / "config.json").mkdir()
    assert_rejected(directory)


def test_missing_truncated_or_other_weights(directory, directories):
    file = directory / "model.safetensors"
    whole = file.read_bytes()
    other = directories["gpt2" if "bert.embeddings" in str(read_shapes(file)) else "bert"]
    for content in (
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        whole + b"0",
        (other / "model.safetensors").read_bytes(),
    ):
        file.write_bytes(content)
        assert_rejected(directory)
    file.unlink()
    assert_rejected(directory)
    file.write_bytes(whole)
    load(directory)


def test_one_weight_missing_misshapen_or_not_finite(directory):
    file = directory / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if "0" in name and name.endswith("weight") and weights[name].dim() == 2)
    for changed in (
        None,
        weights[name][:-1].contiguous(),
        weights[name][None],
        torch.full_like(weights[name], torch.nan),
    ):
        rest = {other: tensor for other, tensor in weights.items() if other != name}
        save_file(rest if changed is None else {**rest, name: changed}, file, metadata={"format": "pt"})
        assert_rejected(directory)
    save_file(weights, file, metadata={"format": "pt"})
    load(directory)


TOKENIZERS = {
    "empty": "",
    "not JSON": "{",
    "a list": "[]",
    "no model": "{}",
    "an unknown model": '{"version": "1.0", "model": {"type": "Evil"}}',
    "binary": "\0\1\2" * 100,
    "nested": "[" * 10_000,
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_hostile_tokenizers(directory, name):
    (directory / "tokenizer.json").write_text(TOKENIZERS[name])
    assert_rejected(directory)


def test_invalid_tokenizer_settings(directory):
    for content in ("[]", "{", '{"polyseme": 3}', '{"polyseme": {"kind": "evil"}}', '{"polyseme": {"kindd": "word"}}'):
        (directory / "tokenizer_config.json").write_text(content)
        with pytest.raises(PolysemeError):
            load(directory)


def test_a_tokenizer_of_another_model(directories, directory):
    other = directories["gpt2" if (directory / "config.json").read_text().count('"bert"') else "bert"]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((other / name).read_bytes())
    try:
        loaded = load(directory)
    except PolysemeError:
        return  # a masked model cannot do without a mask
    assert loaded.embed(["the old bank"]).shape == (1, 32)


def test_tokenizer_with_more_tokens_than_embeddings(directory):
    content = json.loads((directory / "tokenizer.json").read_text())
    vocab = content["model"]["vocab"]
    if isinstance(vocab, list):
        vocab += [[f"zzz{number}", -9.0] for number in range(1000)]
    else:
        vocab["zzz"] = 5_000_000
    (directory / "tokenizer.json").write_text(json.dumps(content))
    assert_rejected(directory)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_model_with_a_tiny_maximum_length(tiny_models, tmp_path, length):
    """It opens, and either encodes text or raises an error."""
    for family, tiny in tiny_models.items():
        torch.manual_seed(0)
        sizes = tiny.recipe.model.replace(vocab_size=tiny.tokenizer.vocab_size, max_length=length)
        encoder = FAMILIES[family](sizes)
        objective = build_objective(tiny.recipe.objective, encoder, tiny.tokenizer.specials)
        write_model(tmp_path / family, family=family, encoder=encoder, heads=objective, extra={})
        tiny.tokenizer.save(tmp_path / family)
        model = load(tmp_path / family)
        masked = encoder.context == "both"
        last = (model.fill, "[MASK] bank") if masked else (model.generate, "the old bank")
        for verb, given in [(model.embed, ["the old bank"]), (model.score, ["the old bank"]), last]:
            if length < 4:
                with pytest.raises(CheckpointError, match="too short for text"):
                    verb(given)
            else:
                verb(given)


def test_invalid_recipes(directory):
    for content in ("", "x", "family = []", "family = 'bert'\nmodel = 3", "a = " + "[" * 5000, "\0"):
        (directory / "recipe.toml").write_text(content)
        with pytest.raises(PolysemeError):
            load(directory)
    (directory / "recipe.toml").write_bytes(b"\xff\xff")
    with pytest.raises(PolysemeError):
        load(directory)


def test_missing_directory(tmp_path):
    for path in (tmp_path / "nothing", tmp_path, __file__):
        with pytest.raises(CheckpointError):
            load(path)
        with pytest.raises(CheckpointError):
            open_model(type(tmp_path)(path))
    (tmp_path / "berts").mkdir()
    with pytest.raises(CheckpointError, match="did you mean berts"):
        load(tmp_path / "bert")
