import base64
import json
import struct

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from polyseme.errors import CheckpointError
from polyseme.tokenization.tokenizer_json.reader import read_tokenizer_json

VOCAB = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "ab": 5}
SEP, CLS = ("[SEP]", 2), ("[CLS]", 1)
MODELS = [
    models.WordLevel(VOCAB, unk_token="[UNK]"),
    models.WordPiece(VOCAB, unk_token="[UNK]"),
    models.BPE(VOCAB, [("a", "b")]),
    models.Unigram([(token, -1.0) for token in VOCAB], 0, False),
]
COMPONENTS = {
    "normalizer": [
        normalizers.BertNormalizer(),
        normalizers.ByteLevel(),
        normalizers.Lowercase(),
        normalizers.NFC(),
        normalizers.NFD(),
        normalizers.NFKC(),
        normalizers.NFKD(),
        normalizers.Nmt(),
        normalizers.Prepend("▁"),
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Replace("``", '"'),
        normalizers.Sequence([normalizers.NFC(), normalizers.Sequence([normalizers.Lowercase()])]),
        normalizers.Strip(),
        normalizers.StripAccents(),
    ],
    "pre_tokenizer": [
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(),
        pre_tokenizers.CharDelimiterSplit("x"),
        pre_tokenizers.Digits(),
        pre_tokenizers.Metaspace(),
        pre_tokenizers.Punctuation(),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Sequence([pre_tokenizers.Digits()])]),
        pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated"),
        pre_tokenizers.UnicodeScripts(),
        pre_tokenizers.WhitespaceSplit(),
    ],
    "decoder": [
        decoders.BPEDecoder(),
        decoders.ByteFallback(),
        decoders.ByteLevel(),
        decoders.CTC(),
        decoders.Fuse(),
        decoders.Metaspace(),
        decoders.Replace("▁", " "),
        decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
        decoders.WordPiece(),
    ],
    "post_processor": [
        processors.BertProcessing(SEP, CLS),
        processors.ByteLevel(),
        processors.RobertaProcessing(SEP, CLS),
        processors.Sequence([processors.ByteLevel(), processors.BertProcessing(SEP, CLS)]),
        processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[SEP, CLS],
        ),
    ],
}
TEMPLATE = json.loads(COMPONENTS["post_processor"][-1].__getstate__())


def read(values, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    return read_tokenizer_json(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_is_accepted(model, tmp_path):
    backend = tokenizers.Tokenizer(model)
    backend.add_special_tokens(["[CLS]", "<new>"])
    backend.enable_padding(length=8)
    backend.enable_truncation(8)
    values = json.loads(backend.to_str())
    backend.no_padding()
    backend.no_truncation()
    assert read(values, tmp_path).to_str() == backend.to_str()


@pytest.mark.parametrize(("part", "number"), [(part, n) for part, all in COMPONENTS.items() for n in range(len(all))])
def test_every_component_is_accepted(part, number, tmp_path):
    backend = tokenizers.Tokenizer(MODELS[0])
    setattr(backend, part, COMPONENTS[part][number])
    assert read(json.loads(backend.to_str()), tmp_path).to_str() == backend.to_str()


def sequence(field, *steps):
    return {"type": "Sequence", field: list(steps)}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def character_map(units, replacements):
    content = struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + replacements
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


def added(**changes):
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized", "special"], False)
    return {"id": 6, "content": "<new>", **flags, **changes}


def word_level(vocab):
    return {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}


def bpe(**changes):
    return {"type": "BPE", "vocab": VOCAB, "merges": [["a", "b"]], **changes}


def unigram(**changes):
    return {"type": "Unigram", "vocab": [[token, -1.0] for token in VOCAB], "unk_id": 0, **changes}


def bert_processing(**changes):
    return {"type": "BertProcessing", "sep": SEP, "cls": CLS, **changes}


NFKC = {"type": "NFKC"}
HOSTILE = {
    "another version": ({"version": "2.0"}, "version"),
    "an unknown field": ({"evil": 1}, "evil"),
    "a thousand unknown fields": ({str(number): 1 for number in range(1000)}, "fields"),
    "an unknown component": ({"normalizer": {"type": "Evil"}}, "Evil"),
    "a component of another part": ({"decoder": NFKC}, "NFKC"),
    "an unknown field of a component": ({"normalizer": NFKC | {"evil": 1}}, "evil"),
    "the steps under another name": ({"normalizer": sequence("steps", NFKC)}, "normalizers"),
    "a wrong type in a nested sequence": (
        {"decoder": sequence("decoders", sequence("decoders", {"type": "BPEDecoder", "suffix": 3}))},
        "decoder.Sequence.decoders.0.Sequence.decoders.0.BPEDecoder.suffix",
    ),
    "steps that multiply a text": ({"normalizer": sequence("normalizers", *[NFKC] * 3)}, "times as long"),
    "a text for every character": ({"decoder": replace({"String": "a"}, "b" * 500)}, "times as long"),
    "a text between all characters": ({"normalizer": replace({"Regex": "a*"}, "b" * 500)}, "times as long"),
    "ordinary text that grows": ({"normalizer": replace({"Regex": "."}, "b" * 100)}, "ordinary text"),
    "40 steps": ({"normalizer": sequence("normalizers", *[{"type": "NFC"}] * 40)}, "40 steps"),
    "300 steps": ({"pre_tokenizer": sequence("pretokenizers", *[{"type": "Whitespace"}] * 300)}, "200 parts"),
    "an exponential pattern": ({"normalizer": replace({"Regex": "(a+)+b"}, "")}, "regular expression"),
    "an empty pattern": ({"normalizer": replace({"String": ""}, "x")}, "pattern"),
    "a character map that is not base64": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "é"}},
        "base64",
    ),
    "a character map cut short": ({"normalizer": character_map([0] * 255, b"x\0")}, "trie"),
    "a trie that points out": ({"normalizer": character_map([1 << 20] * 256, b"x\0")}, "points out"),
    "a trie with a value out of range": ({"normalizer": character_map([0x100] * 256, b"")}, "points out"),
    "a long replacement": ({"normalizer": character_map([0] * 256, b"x" * 40)}, "replaces a character"),
    "a split by nothing": ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "length"),
    "two characters for one": ({"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "ab"}}, "delimiter"),
    "a number for a flag": ({"pre_tokenizer": {"type": "Digits", "individual_digits": 1}}, "individual_digits"),
    "a strip of 10**6": ({"decoder": {"type": "Strip", "content": " ", "start": 10**6, "stop": 0}}, "start"),
    "a token that is not added": ({"post_processor": bert_processing(sep=["[SEP]", 1])}, "not its id"),
    "an unknown special token": ({"post_processor": bert_processing(cls=["x", 1])}, "not its id"),
    "a template without a text": ({"post_processor": TEMPLATE | {"single": []}}, "each of the texts A once"),
    "a template with one text of two": ({"post_processor": TEMPLATE | {"pair": TEMPLATE["single"]}}, "A, B once"),
    "a template without its tokens": ({"post_processor": TEMPLATE | {"special_tokens": {}}}, "special tokens"),
    "an added token with the id of another": ({"added_tokens": [added(id=3)]}, "another id"),
    "an added token with another id": ({"added_tokens": [added(content="a")]}, "another id"),
    "an added token above all others": ({"added_tokens": [added(id=2**30)]}, "out of range"),
    "an empty added token": ({"added_tokens": [added(content="")]}, "content"),
    "long added tokens": (
        {
            "normalizer": NFKC,
            "added_tokens": [added(id=n + 6, content=f"{n:01000}", normalized=True) for n in range(60)],
        },
        "when normalized",
    ),
    "a negative id": ({"model": word_level(VOCAB | {"x": -1})}, "not an id"),
    "a fraction for an id": ({"model": word_level(VOCAB | {"x": 6.0})}, "not an id"),
    "an id above all others": ({"model": word_level(VOCAB | {"x": 2**30})}, "out of range"),
    "an id twice": ({"model": word_level(VOCAB | {"x": 5})}, "two tokens"),
    "no unknown token": ({"model": word_level({"a": 0})}, "unknown token"),
    "words of any length": (
        {"model": {**word_level(VOCAB), "type": "WordPiece", "max_input_chars_per_word": 10**9}},
        "max_input_chars",
    ),
    "dropout": ({"model": bpe(dropout=0.5)}, "dropout"),
    "a merge of unknown tokens": ({"model": bpe(merges=[["b", "a"]])}, "not in the vocabulary"),
    "a merge of three": ({"model": bpe(merges=[["a", "b", "c"]])}, "pairs"),
    "a merge in a string of three": ({"model": bpe(merges=["a b c"])}, "pairs"),
    "an unknown id out of range": ({"model": unigram(unk_id=6)}, "unk_id"),
    "a huge score": ({"model": unigram(vocab=[["[UNK]", 1e300]])}, "score"),
    "an empty piece": ({"model": unigram(vocab=[["[UNK]", 0.0], ["", 0.0]])}, "pieces"),
    "a piece of 2,000 characters": ({"model": unigram(vocab=[["x" * 2000, 0.0]])}, "pieces"),
    "a deep trie": ({"model": unigram(vocab=[[f"{n:0900}"[::-1], 0.0] for n in range(300)])}, "trie"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_components_are_rejected(name, tmp_path):
    changes, reason = HOSTILE[name]
    values = {"added_tokens": [], **json.loads(tokenizers.Tokenizer(MODELS[0]).to_str())}
    with pytest.raises(CheckpointError) as caught:
        read(values | changes, tmp_path)
    assert reason in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_type_of_a_model_may_be_missing(model, tmp_path):
    values = json.loads(tokenizers.Tokenizer(model).to_str())
    kind = values["model"].pop("type")
    assert json.loads(read(values, tmp_path).to_str())["model"]["type"] == kind
