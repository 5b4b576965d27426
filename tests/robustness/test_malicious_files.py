"""Files made to harm: no code in them runs, no file outside their directory is read, and each is refused cheaply.

Every command runs in a fork with its own time and memory. A file is either refused with one line and exit code 2, or
(where its content is harmless after all) read like any other.
"""

import base64
import gzip
import json
import os
import pickle
import shutil
import struct
import zipfile

import pytest
import torch
from tests.cli.conftest import TINY
from tests.robustness.forks import ForkingProcess

MORE_CPU, MORE_MEMORY = 2.0, 300e6  # than the same command takes on the intact file
SANDBOX_CPU, SANDBOX_MEMORY = 20.0, 600e6  # pickles are read in a process with limits of its own
SECRET = "the-content-of-a-private-file"
CODE = "executed"  # the file that malicious code would create


class Code:
    """Creates a file when it is unpickled without restrictions."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def edit_json(path, *place, value):
    """Set a field of a JSON file."""
    root = parent = json.loads(path.read_text(encoding="utf-8"))
    for name in place[:-1]:
        parent = parent[name]
    parent[place[-1]] = value
    path.write_text(json.dumps(root), encoding="utf-8")


def write_safetensors(path, header, data=b""):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


# --- safetensors


def weights(header, data=b""):
    return lambda folder: write_safetensors(folder / "model.safetensors", header, data)


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SAFETENSORS = {
    "header of 2**63 bytes": lambda folder: (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**63)),
    "header of 9 MB": weights(b"{" + b" " * 9_000_000 + b"}"),
    "a hundred thousand nested lists": weights(b"[" * 100_000),
    "half a million large sizes": weights({"a": tensor([2**62] * 300_000, 0, 4)}, bytes(4)),
    "four terabytes in a small file": weights({"a": tensor([2**40], 0, 2**42)}, bytes(64)),
    "sizes whose product overflows": weights({"a": tensor([2**32, 2**32], 0, 0)}),
    "overlapping tensors": weights({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "thirty thousand tensors": weights({f"t{n}": tensor([], 4 * n, 4 * n + 4) for n in range(30_000)}, bytes(120_000)),
    "a pickle": lambda folder: (folder / "model.safetensors").write_bytes(pickle.dumps(Code(folder.parent / CODE))),
}

# --- tokenizer.json and the vocabulary files of the original programs


def tokenizer(*place, value):
    return lambda folder: edit_json(folder / "tokenizer.json", *place, value=value)


def split(pattern):
    return tokenizer(
        "pre_tokenizer",
        value={"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
    )


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps):
    return tokenizer("normalizer", value={"type": "Sequence", "normalizers": list(steps)})


def nested_normalizer(folder):
    """A sequence of one sequence of one sequence …"""
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text(encoding="utf-8")) | {"normalizer": "HERE"}
    nested = '{"type":"Sequence","normalizers":[' * 20_000 + '{"type":"NFC"}' + "]}" * 20_000
    path.write_text(json.dumps(state).replace('"HERE"', nested), encoding="utf-8")


def added_tokens(*contents):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return tokenizer("added_tokens", value=[{"id": 400 + n, "content": c, **flags} for n, c in enumerate(contents)])


def vocabulary_file(name, content):
    """A directory with the vocabulary file of an original program instead of tokenizer.json."""

    def change(folder):
        (folder / "tokenizer.json").unlink()
        (folder / name).write_bytes(content)

    return change


NFKC, LONG = {"type": "NFKC"}, "x" * 900
CHARSMAP = base64.b64encode(struct.pack("<I", 1024) + struct.pack("<I", 0x7FFFFFFF) * 256 + b"a\0").decode()
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], *([f"{n:0900}", -1.0] for n in range(9_000))]}
TOKENIZERS = {
    "regex: nested repetitions": split("(a+)+b"),
    "regex: repeated alternatives": split("(a|a|aa)+$"),
    "regex: two repetitions before a part that fails": split(r"\s*\s*b"),
    "regex: search of the whole text": split(r".*.*=.*;"),
    "regex: counted repetitions of counted repetitions": split("(((a{1,1000}){1,1000}){1,1000})b"),
    "regex: recursion": split(r"(?<n>a\g<n>?b)"),
    "regex: backreference": split(r"(a*)*\1b"),
    "regex: ten thousand groups": split("(" * 10_000 + "a" + ")" * 10_000),
    "regex: lookbehind without bound": split("(?<=a+)b"),
    "regex: a megabyte": split("a?" * 500_000),
    "regex: a replacement of nothing": sequence(replace({"Regex": "x*"}, LONG), replace({"Regex": "x*"}, LONG)),
    "replacements that multiply": sequence(*(replace({"String": "a"}, "aaaaaaaa") for _ in range(12))),
    "compatibility forms that multiply": sequence(*([NFKC, replace({"String": "e"}, "\ufdfa" * 18)] * 8)),
    "ten thousand steps": sequence(*([NFKC] * 10_000)),
    "twenty thousand nested sequences": nested_normalizer,
    "character map that points out of itself": tokenizer(
        "normalizer", value={"type": "Precompiled", "precompiled_charsmap": CHARSMAP}
    ),
    "character map shorter than declared": tokenizer(
        "normalizer", value={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 8).decode()}
    ),
    "id of two billion": tokenizer("model", "vocab", "bank", value=2**31 - 1),
    "id of 2**64": tokenizer("model", "vocab", "bank", value=2**64),
    "word length of two billion": tokenizer("model", "max_input_chars_per_word", value=2**31 - 1),
    "padding to two billion": tokenizer(
        "padding",
        value={
            "strategy": {"Fixed": 2**31 - 1},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
    ),
    "truncation to a stride that never ends": tokenizer(
        "truncation", value={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 2}
    ),
    "template that adds a million tokens": tokenizer(
        "post_processor", "single", value=[{"Sequence": {"id": "A", "type_id": 0}}] * 200_000
    ),
    "added token of a hundred megabytes": added_tokens("x" * 20_000_000),
    "three hundred thousand long added tokens": added_tokens(*(f"{n:0100}" for n in range(300_000))),
    "a trie of millions of nodes": tokenizer("model", value=UNIGRAM),
    "half a million unknown fields": tokenizer("normalizer", value={str(n): n for n in range(500_000)}),
    "an unknown component": tokenizer("pre_tokenizer", value={"type": "Python", "module": "os", "call": "system"}),
    "five million values": tokenizer("model", "merges", value=[[0, 0]] * 1_700_000),
    "vocab.txt of 50 MB": vocabulary_file("vocab.txt", b"word\n" * 10_000_000),
    "SentencePiece model of an endless integer": vocabulary_file("spiece.model", b"\x0a" + b"\xff" * 1_000_000),
    "SentencePiece model of empty fields": vocabulary_file("spiece.model", b"\x0a\0" * 8_000_000),
}
UNUSED = {"padding to two billion", "truncation to a stride that never ends"}  # settings of calls that are never made

# --- links, pipes and devices in a model directory


def link(name, target=None):
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target or folder.parent / "private")

    return change


def pipe(name):
    def change(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


LINKS = {
    **{
        f"{name} is a link out of the directory": link(name)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "recipe.toml")
    },
    "manifest.json is a link out of the directory": link("manifest.json"),
    "vocab.txt is a link out of the directory": lambda folder: (
        (folder / "tokenizer.json").unlink(),
        link("vocab.txt")(folder),
    ),
    "config.json is a link to itself": link("config.json", "config.json"),
    "config.json is a device": link("config.json", "/dev/zero"),
    "tokenizer.json is a device": link("tokenizer.json", "/dev/zero"),
    "config.json is a pipe": pipe("config.json"),
    "model.safetensors is a pipe": pipe("model.safetensors"),
}

# --- HDF5 weights of ELMo, which may refer to other files


def hdf5(edit):
    def change(folder):
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "lm_weights.hdf5", "r+") as file:
            edit(h5py, file, folder)

    return change


def external_link(h5py, file, folder):
    shutil.copy(folder / "lm_weights.hdf5", folder.parent / "other.hdf5")
    del file["char_embed"]
    file["char_embed"] = h5py.ExternalLink(str(folder.parent / "other.hdf5"), "char_embed")


def external_storage(h5py, file, folder):
    shape = file["char_embed"].shape
    (folder.parent / "values").write_bytes(bytes(4 * shape[0] * shape[1]))
    del file["char_embed"]
    file.create_dataset("char_embed", shape, "f4", external=[(str(folder.parent / "values"), 0, h5py.h5f.UNLIMITED)])


def virtual_dataset(h5py, file, folder):
    shutil.copy(folder / "lm_weights.hdf5", folder.parent / "other.hdf5")
    shape = file["char_embed"].shape
    layout = h5py.VirtualLayout(shape, "f4")
    layout[:] = h5py.VirtualSource(str(folder.parent / "other.hdf5"), "char_embed", shape)
    del file["char_embed"]
    file.create_virtual_dataset("char_embed", layout)


def huge_dataset(h5py, file, folder):
    del file["char_embed"]
    file.create_dataset("char_embed", (2**40, 16), "f4", chunks=(1024, 16), fillvalue=1.0)


def objects(h5py, file, folder):
    shape = file["char_embed"].shape
    del file["char_embed"]
    file.create_dataset("char_embed", shape, h5py.string_dtype())


HDF5 = {
    "HDF5 with an external link": hdf5(external_link),
    "HDF5 with external storage": hdf5(external_storage),
    "HDF5 with a virtual dataset": hdf5(virtual_dataset),
    "HDF5 dataset of 64 terabytes": hdf5(huge_dataset),
    "HDF5 dataset of strings": hdf5(objects),
    "HDF5 weights that are a link out of the directory": lambda folder: (
        shutil.move(folder / "lm_weights.hdf5", folder.parent / "other.hdf5"),
        (folder / "lm_weights.hdf5").symlink_to(folder.parent / "other.hdf5"),
    ),
    "options of a model of terabytes": lambda folder: edit_json(
        folder / "options.json", "lstm", "projection_dim", value=10**9
    ),
    "options.json is a link out of the directory": link("options.json"),
    "vocabulary of an ELMo is a link out of the directory": link("vocab.txt"),
}

# --- files of other programs, and compressed text


def file(name, content):
    def change(folder):
        (folder / name).write_bytes(content(folder) if callable(content) else content)

    return change


def zip_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\0." + b"\0" * 500_000_000)


def npy(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def gpt_parameters(content):
    """The original GPT, whose parameters are vectors in .npy files."""

    def change(folder):
        layer = [[1, 8, 24], [24], [1, 8, 8], [8], [8], [8], [1, 8, 32], [32], [1, 32, 8], [8], [8], [8]]
        (folder / "params_shapes.json").write_text(json.dumps([[16, 8], [20, 8], *layer]))
        (folder / "params_0.npy").write_bytes(content(folder) if callable(content) else content)

    return change


def onnx_model(folder):
    """An ONNX file, which is not a model directory, with a reference to another file."""
    return b"\x08\x08\x12\x04evil" + b"\x3a\xff\xff\xff\xff\x07" + str(folder.parent / "private").encode()


VECTORS = ("neighbours", "{folder}/vectors.bin", "bank")
PRETRAIN = ("pretrain", "svd", "--corpus", "{folder}/text.txt.gz", "--size", "tiny", "--out", "{folder}/run")


def gz_bomb(head, repeated):
    """Two gigabytes in two megabytes, as members of a hundred megabytes."""
    return lambda folder: gzip.compress(head) + 20 * gzip.compress(repeated * (100_000_000 // len(repeated)))


VECTOR_FILES = {
    "a trillion vectors": (file("vectors.bin", b"999999999999 300\n" + bytes(100)), VECTORS),
    "vectors of a million dimensions": (file("vectors.bin", b"1000 999999\nbank " + bytes(4000)), VECTORS),
    "a word of a hundred megabytes": (file("vectors.bin", b"2 2\n" + b"x" * 100_000_000), VECTORS),
    "a line of a hundred megabytes": (file("vectors.bin", b"bank " + b"1.0 " * 25_000_000), VECTORS),
    "a number of ten million digits": (file("vectors.bin", b"bank 0." + b"1" * 10_000_000 + b" 2\n"), VECTORS),
    "fastText model": (file("vectors.bin", b"\xba\x16\x4f\x2f" + b"\xff" * 1000), VECTORS),
    "vectors that are a device": (link("vectors.bin", "/dev/zero"), VECTORS),
    "vectors that are a pickle": (file("vectors.bin", lambda f: pickle.dumps(Code(f.parent / CODE))), VECTORS),
}
FILL = ("fill", "{folder}", "the old [MASK]")
IMPORT = ("import", "{folder}", "--out", "{folder}/imported")
PICKLE = (*IMPORT, "--pickle")
PROGRAM_FILES = {
    "npy of terabytes": (
        gpt_parameters(npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 40,), }\n")),
        IMPORT,
    ),
    "npy of objects": (
        gpt_parameters(
            lambda f: (
                npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n") + pickle.dumps(Code(f.parent / CODE))
            )
        ),
        IMPORT,
    ),
    "npy with an expression as header": (gpt_parameters(npy(b"__import__('os').system('touch executed')\n")), IMPORT),
    "npy that is a link out of the directory": (
        lambda folder: (gpt_parameters(b"")(folder), link("params_0.npy")(folder)),
        IMPORT,
    ),
    "pickle with code": (file("weights.pt", lambda f: pickle.dumps(Code(f.parent / CODE))), PICKLE),
    "pickle with code, without permission": (file("weights.pt", lambda f: pickle.dumps(Code(f.parent / CODE))), IMPORT),
    "pickle in a zip bomb": (lambda folder: zip_bomb(folder / "weights.pt"), PICKLE),
    "pickle of a billion nested lists": (
        file("weights.pt", b"\x80\x02" + b"(" * 10_000_000 + b"l" * 10_000_000 + b"."),
        PICKLE,
    ),
    "ONNX graph": (file("model.onnx", onnx_model), ("info", "{folder}/model.onnx")),
    "ONNX graph as a directory": (file("model.onnx", onnx_model), ("info", "{folder}")),
    "gz bomb of NULs": (file("text.txt.gz", gz_bomb(b"", b"\0")), PRETRAIN),
    "gz bomb of white space": (file("text.txt.gz", gz_bomb(b"", b" \n")), PRETRAIN),
    "gz bomb of labelled rows": (
        file("rows.tsv.gz", gz_bomb(b"text\tlabel\n", b"a\tb\n")),
        ("data", "check", "{folder}/rows.tsv.gz"),
    ),
    "gz bomb of JSON": (
        file("squad.json.gz", gz_bomb(b"", b" \n")),
        ("data", "check", "{folder}/squad.json.gz", "--task", "span"),
    ),
    "gz file that is truncated": (file("text.txt.gz", gzip.compress(os.urandom(1000))[:-20]), PRETRAIN),
    "corpus that is a device": (link("text.txt", "/dev/zero"), (*PRETRAIN[:3], "{folder}/text.txt", *PRETRAIN[4:])),
}


class Models:
    """A BERT without a manifest, which would show what was changed, and an ELMo in the format of its original code."""

    def __init__(self, place, corpus):
        self.place = place
        self.folder = place / "work" / "model"
        self.process = ForkingProcess(place / "log")
        (place / "work").mkdir()
        elmo = ["model.width=16", "model.cell_width=32", "model.filters=[[1, 16], [2, 32]]", "model.num_highways=1"]
        for family, settings in {"bert": TINY, "elmo": [*elmo, "model.vocab_size=400", *TINY[2:]]}.items():
            self.checked("start_pretraining", family, corpus, place / family, 40, *settings)
            (place / family / "manifest.json").unlink()
        self.checked("run_command_line", "export", place / "elmo", "--to", "bilm", "--out", place / "bilm")
        self.clean = {"bert": self.run("bert", *FILL), "bilm": self.run("bilm", *IMPORT)}
        assert all(ended.code == 0 for ended in self.clean.values()), self.clean
        tensors = lambda folder: torch.save({"a": torch.zeros(1)}, folder / "weights.pt")  # noqa: E731
        self.clean["pickle"] = self.run(None, *PICKLE, change=tensors)

    def checked(self, function, *arguments):
        ended = self.process.run(f"tests.robustness.commands:{function}", *arguments)
        assert ended.code == 0, ended.err
        return ended

    def run(self, kind, *arguments, change=None):
        """Run a command on a changed copy of a directory, or on an empty one."""
        shutil.rmtree(self.place / "work")
        self.folder.mkdir(parents=True)
        (self.folder.parent / "private").write_text(f"{SECRET}\n" * 20)
        if kind:
            shutil.copytree(self.place / kind, self.folder, dirs_exist_ok=True)
        if change:
            change(self.folder)
        filled = [str(argument).replace("{folder}", str(self.folder)) for argument in arguments]
        return self.process.run("tests.robustness.commands:run_command_line", *filled)

    def assert_harmless(self, kind, arguments, change):
        ended = self.run(kind, *arguments, change=change)
        clean = self.clean["pickle" if "--pickle" in arguments else kind or "bert"]
        printed = ended.out + ended.err
        assert not (self.folder.parent / CODE).exists() and not (self.folder / CODE).exists(), "code was executed"
        assert SECRET not in printed
        written = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        assert not [path for path in written if SECRET.encode() in path.read_bytes()]
        assert "Traceback" not in printed, printed
        more_cpu, more_memory = (SANDBOX_CPU, SANDBOX_MEMORY) if "--pickle" in arguments else (MORE_CPU, MORE_MEMORY)
        assert ended.cpu < clean.cpu + more_cpu, f"{ended.cpu:.1f} s"
        assert ended.memory < clean.memory + more_memory, f"{(ended.memory - clean.memory) / 1e6:.0f} MB"
        return ended


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    made = Models(tmp_path_factory.mktemp("malicious"), corpus_file)
    yield made
    made.process.close()


def assert_refused(ended):
    lines = ended.err.splitlines()
    assert ended.code == 2, f"exit code {ended.code}: {ended.err}"
    assert lines[-1].startswith("polyseme: ") and lines[-1].isprintable() and len(lines[-1]) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SAFETENSORS, *TOKENIZERS, *LINKS])
def test_malicious_files_of_a_model_directory(name, models):
    change = {**SAFETENSORS, **TOKENIZERS, **LINKS}[name]
    ended = models.assert_harmless("bert", FILL, change)
    if name in UNUSED:
        assert ended.out == models.clean["bert"].out
    else:
        assert_refused(ended)


@pytest.mark.slow
def test_history_that_is_a_link_out_of_the_directory(models):
    models.assert_harmless("bert", ("info", "{folder}"), link("history.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("name", HDF5)
def test_malicious_checkpoints_of_elmo(name, models):
    assert_refused(models.assert_harmless("bilm", IMPORT, HDF5[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VECTOR_FILES, *PROGRAM_FILES])
def test_malicious_files_of_other_programs(name, models):
    change, arguments = {**VECTOR_FILES, **PROGRAM_FILES}[name]
    assert_refused(models.assert_harmless(None, arguments, change))
