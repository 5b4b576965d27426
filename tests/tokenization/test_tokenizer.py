import itertools
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from polyseme.config import Config
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sampling import draw_sample
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.tokenization.config import SpecialTokens, TokenizerConfig
from polyseme.tokenization.tokenizer import MAX_TEXT_LENGTH, Tokenizer

SHARED = Path(__file__).parents[2].parent / "shared"
KINDS = ["word", "char", "wordpiece", "bpe", "byte-bpe", "unigram"]
STYLES = {"word": "plain", "char": "plain", "bpe": "gpt", "byte-bpe": "gpt2"}
TEXTS = [
    "The quick brown fox jumps over the lazy dog, and the dog isn't amused.",
    "She sells sea shells by the sea shore; the shells she sells are sea shells.",
    "数学是研究数量、结构、变化以及空间等概念的一门学科。数学家研究数学。",
    "我在银行工作，河岸上有一家银行。苹果公司卖苹果手机。",
    "Café naïve façade: 3.14, 92000 and 1,000,000 bytes! 😊",
] * 4
HARD = [
    *TEXTS[:5],
    "",
    " ",
    "  a\tb\r\n\n c  ",
    "\x07bell\x00null\x1c\x1d\x85\xa0\u3000\u2028",
    "é e\u0301 ñ Å ﬁ ǅ ß İ ı ς",
    "👨‍👩‍👧 🇨🇳 ½²Ⅷ٣ ปี 가나다 アイウ",
    "[MASK] [SEP]x<|endoftext|> <s></s><mask>",
    "中文abc，。English",
    "a" * 300,
]


def train(kind, texts=TEXTS, vocab_size=400, **options):
    config = TokenizerConfig(**{"kind": kind, "specials": STYLES.get(kind, "bert"), "min_count": 1, **options})
    return Tokenizer.train(config, texts, vocab_size=vocab_size)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return train(request.param)


@pytest.fixture(scope="module")
def bert():
    return train("wordpiece")


@pytest.fixture(scope="module")
def gpt2():
    return train("byte-bpe")


def test_special_tokens_of_each_style():
    bert, roberta, plain = (train("wordpiece", specials=style) for style in ("bert", "roberta", "plain"))
    assert bert.specials == SpecialTokens(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
    assert [bert.token(number) for number in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    last = roberta.vocab_size - 1
    assert roberta.specials == SpecialTokens(start=0, pad=1, separator=2, unknown=3, mask=last, end=2)
    assert plain.specials == SpecialTokens(pad=0, unknown=1, start=2, separator=3, end=3)
    gpt = train("bpe")
    assert gpt.specials == SpecialTokens(unknown=0, pad=gpt.vocab_size - 1, end=gpt.vocab_size - 1)
    gpt2 = train("byte-bpe")
    assert gpt2.specials == SpecialTokens(pad=gpt2.vocab_size - 1, end=gpt2.vocab_size - 1)
    assert gpt2.token(gpt2.vocab_size - 1) == "<|endoftext|>"
    assert gpt2.special_ids == {gpt2.vocab_size - 1}
    # A tokenizer that needs an unknown token borrows the only special one, as transformers does.
    word = train("word", specials="gpt2")
    assert word.encode("zyzzyva").ids == [word.specials.end] == [word.specials.unknown]


def test_templates(bert):
    tokens = bert.encode("the dog", "the fox")
    assert tokens.tokens == ["[CLS]", "the", "dog", "[SEP]", "the", "fox", "[SEP]"]
    assert tokens.segments == [0, 0, 0, 0, 1, 1, 1]
    assert tokens.special == [True, False, False, True, False, False, True]
    assert tokens.offsets == [(0, 0), (0, 3), (4, 7), (0, 0), (0, 3), (4, 7), (0, 0)]
    assert bert.encode("the dog", specials=False).tokens == ["the", "dog"]
    assert bert.encode("the [MASK]").special == [True, False, True, True]
    roberta = train("byte-bpe", specials="roberta")
    assert roberta.encode("a", "b").tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert roberta.encode("a <mask>.").tokens == ["<s>", "a", "<mask>", ".", "</s>"]


def test_batches_equal_single_texts(tokenizer):
    assert tokenizer.encode_batch(HARD, max_length=9) == [tokenizer.encode(text, max_length=9) for text in HARD]
    plain = [tokenizer.encode(text, specials=False) for text in HARD]
    assert [ids.tolist() for ids in tokenizer.encode_ids(HARD)] == [tokens.ids for tokens in plain]


def test_tokens_and_ids_agree(tokenizer):
    for tokens in tokenizer.encode_batch(TEXTS):
        assert [tokenizer.token(number) for number in tokens.ids] == tokens.tokens
        assert all(tokenizer.special_ids.issuperset([n]) == s for n, s in zip(tokens.ids, tokens.special, strict=True))
    assert tokenizer.id("no such token") is None
    assert tokenizer.id("\ud800") is None
    for wrong in (-1, tokenizer.vocab_size, 1 << 40):
        with pytest.raises(DataError, match="is not a valid token id"):
            tokenizer.token(wrong)
        with pytest.raises(DataError, match="is not a valid token id"):
            tokenizer.decode([wrong])


hostile = st.text() | st.text(st.sampled_from("aB1 é中。\n\t\0\x1c\ud800😊[]<>|'")) | st.sampled_from(HARD)


@settings(max_examples=60)
@given(text=hostile, pair=st.none() | hostile, max_length=st.none() | st.integers(0, 12))
def test_any_text_is_encoded_with_sound_offsets(tokenizer, text, pair, max_length):
    tokens = tokenizer.encode(text, pair, max_length=max_length)
    assert len({len(column) for column in vars(tokens).values()}) == 1
    if max_length is not None and max_length >= 4:
        assert len(tokens.ids) <= max_length
    longest = max(len(text), len(pair or ""))
    assert all(0 <= start <= end <= longest for start, end in tokens.offsets)
    tokenizer.decode(tokens.ids)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_round_trip(gpt2, text):
    tokens = gpt2.encode(text)
    assert gpt2.decode(tokens.ids, skip_specials=False) == text
    covered = {place for start, end in tokens.offsets for place in range(start, end)}
    assert covered == set(range(len(text)))


def test_offsets_index_the_text_that_was_given(tokenizer):
    text = "\ufeffThe  Café\ud800 dog，数学 is"
    tokens = tokenizer.encode(text, specials=False)
    pieces = [text[start:end] for start, end in tokens.offsets]
    assert [start for start, _ in tokens.offsets] == sorted(start for start, _ in tokens.offsets)
    assert "".join(piece.strip() for piece in dict.fromkeys(pieces)).replace("\ufeff", "").startswith("The")
    place = text.index("dog")
    assert any(start <= place < end for start, end in tokens.offsets)


def test_truncation_takes_from_the_longer(bert):
    tokens = bert.encode("the dog " * 20, "the fox", max_length=10)
    assert tokens.segments == [0] * 7 + [1] * 3
    assert bert.encode("the dog " * 20, max_length=5).tokens == ["[CLS]", "the", "dog", "the", "[SEP]"]


def test_long_texts_are_encoded_in_pieces(tokenizer, monkeypatch):
    text = "the quick brown fox, 数学。 " * 200
    whole = tokenizer.encode(text)
    monkeypatch.setattr("polyseme.tokenization.tokenizer._PIECE_LENGTH", 100)
    pieces = tokenizer.encode(text)
    assert (pieces.ids, pieces.segments, pieces.special) == (whole.ids, whole.segments, whole.special)
    # A word at the front of a piece may lose the space before it.
    assert [end for _, end in pieces.offsets] == [end for _, end in whole.offsets]
    assert all(text[b:a].isspace() or a == b for (a, _), (b, _) in zip(pieces.offsets, whole.offsets, strict=True))
    assert tokenizer.encode_batch([text]) == [pieces]
    assert tokenizer.encode(text, max_length=50) == tokenizer.encode_batch(["x", text], max_length=50)[1]
    assert tokenizer.encode_ids(["x", text])[1].tolist() == tokenizer.encode(text, specials=False).ids
    tokens = tokenizer.encode("x" * 1000 + "数" * 1000, specials=False)
    assert max(end for _, end in tokens.offsets) == 2000


def test_a_huge_text_needs_a_limit(bert):
    text = "the dog " * (MAX_TEXT_LENGTH // 8 + 1)
    assert len(bert.encode(text, max_length=128).ids) == 128
    with pytest.raises(DataError, match="too long to encode at once; set a max_length"):
        bert.encode(text)


def test_library_panics_become_errors(bert, monkeypatch):
    class PanicException(BaseException):
        pass

    class Broken:
        def encode(self, *_, **__):
            raise PanicException("slice index starts at 5")

    monkeypatch.setattr(bert, "backend", Broken())
    with pytest.raises(DataError, match="slice index starts at 5"):
        bert.encode("x")


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path, max_length=77)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    assert (again.config, again.specials, again.special_ids) == (
        tokenizer.config,
        tokenizer.specials,
        tokenizer.special_ids,
    )
    assert again.encode_batch(HARD) == tokenizer.encode_batch(HARD)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 77


def test_settings_of_other_programs_are_not_left_active(bert, tmp_path):
    bert.save(tmp_path)
    backend = Backend.from_file(str(tmp_path / "tokenizer.json"))
    backend.enable_padding(length=64)
    backend.enable_truncation(4)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.load(tmp_path).encode(TEXTS[0]) == bert.encode(TEXTS[0])


def test_folders_without_our_settings_are_recognized(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del settings["polyseme"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    for name in ("tokenizer_config.json", None):
        again = Tokenizer.load(tmp_path)
        assert again.specials == tokenizer.specials
        if tokenizer.config.kind != "char":
            assert (again.config.kind, again.config.specials) == (tokenizer.config.kind, tokenizer.config.specials)
        assert again.encode_batch(HARD) == tokenizer.encode_batch(HARD)
        if name:
            (tmp_path / name).unlink()


def test_folders_without_a_tokenizer(tmp_path):
    with pytest.raises(CheckpointError, match=r"no tokenizer here; .*tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: not readable as JSON"):
        Tokenizer.load(tmp_path)


def load_published(folder, tmp_path, *files, **options):
    for source, name in files:
        shutil.copy(folder / source, tmp_path / name)
    if options:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    return Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("case", "files"),
    [
        ("bert-base-uncased", [("bert/google_uncased_en_vocab.txt", "vocab.txt")]),
        ("gpt2", [("gpt2/encoder.json", "encoder.json"), ("gpt2/vocab.bpe", "vocab.bpe")]),
        ("roberta-base", [("roberta/vocab.json", "vocab.json"), ("roberta/merges.txt", "merges.txt")]),
        ("openai-gpt", [("gpt1/encoder_bpe_40000.json", "vocab.json"), ("gpt1/vocab_40000.bpe", "merges.txt")]),
        ("openai-gpt", [(f"gpt1/{name}", name) for name in ("encoder_bpe_40000.json", "vocab_40000.bpe")]),
        ("albert-base-v1", [("albert/spiece.model", "spiece.model")]),
    ],
)
def test_published_tokenizers_give_their_published_ids(case, files, tmp_path):
    folder = SHARED / "fixtures" / "tokenizers"
    if not folder.is_dir():
        pytest.skip("the published vocabularies are not at hand")
    gold = json.loads((folder / "gold.json").read_text())
    tokenizer = load_published(folder, tmp_path, *files)
    tokens = tokenizer.encode(gold["text"], specials=False)
    assert tokens.ids == gold["cases"][case]["ids"]
    if case != "albert-base-v1":  # where the text itself stands for unknown tokens
        assert tokens.tokens == gold["cases"][case]["tokens"]
    assert_saved_alike(tokenizer, tmp_path / "saved", [gold["text"], *HARD])


def assert_saved_alike(tokenizer, folder, texts):
    """What is saved is the same to us, and to transformers."""
    from transformers import PreTrainedTokenizerFast

    tokenizer.save(folder)
    again, peer = Tokenizer.load(folder), PreTrainedTokenizerFast.from_pretrained(folder)
    assert (again.fingerprint, again.config) == (tokenizer.fingerprint, tokenizer.config)
    assert again.specials == tokenizer.specials
    assert [tokenizer.encode(text).ids for text in texts] == peer(texts)["input_ids"]


def field(number, value):
    """A field of a protocol buffer."""

    def varint(value):
        rest, low = value >> 7, value & 127
        return bytes([low]) if not rest else bytes([low | 128]) + varint(rest)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


PIECES = [("<pad>", 0.0, 3), ("<unk>", 0.0, 2), ("[CLS]", 0.0, 3), ("[SEP]", 0.0, 3), ("[MASK]", 0.0, 3), ("-", 0.0, 4)]
PIECES += [("▁", -3.0, 1), ("a", -4.0, 1), ("▁caf", -5.5, 1), ("e", -4.5, 1), ("▁10,", -5.0, 1), ("▁10", -6.0, 1)]
PIECES += [(",", -4.0, 1), ('"', -4.0, 1), ("▁a", -4.0, 1)]


def sentencepiece(pieces=PIECES, kind=1):
    rows = [field(1, field(1, name.encode()) + field(2, score) + field(3, type)) for name, score, type in pieces]
    return b"".join(rows) + field(2, field(3, kind) + field(10, 0.5)) + field(3, field(1, b"identity"))


def test_sentencepiece_models_as_albert_reads_them(tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentencepiece())
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.specials == SpecialTokens(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
    assert (tokenizer.config.kind, tokenizer.config.specials) == ("unigram", "bert")
    tokens = tokenizer.encode("CAFÉ 10,\n ``a-a''  x").tokens
    assert tokens == ["[CLS]", "▁caf", "e", "▁10", ",", "▁", '"', "a", "-", "a", '"', "▁", "<unk>", "[SEP]"]
    assert tokenizer.encode("a [MASK] a").tokens == ["[CLS]", "▁a", "[MASK]", "▁a", "[SEP]"]
    assert tokenizer.decode(tokenizer.encode("a café").ids) == "a cafe"
    assert_saved_alike(tokenizer, tmp_path / "saved", HARD)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a SentencePiece model"),
        (sentencepiece()[:-20] + b"\xff" * 5, "not a SentencePiece model"),
        (sentencepiece()[:50], "not a SentencePiece model"),
        (b"\x80" * 1000, "not a SentencePiece model"),
        (field(1, field(1, 5)), "not a SentencePiece model"),
        (field(1, field(1, b"\xff")), "not a SentencePiece model"),
        (sentencepiece([("a", 0.0, 1)]), "not a SentencePiece model"),
        (b"\x0b\x0c", "not a SentencePiece model"),
        (sentencepiece(kind=2), "not a unigram model"),
        (sentencepiece() + field(3, field(2, b"no such map")), "precompiled_charsmap"),
        (sentencepiece() + field(3, field(2, 5)), "not a SentencePiece model"),
    ],
)
def test_broken_sentencepiece_models(content, why, tmp_path):
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"the vocabulary cannot be read .*{why}"):
        Tokenizer.load(tmp_path)


def test_invalid_settings_of_a_wordpiece_vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na")
    (tmp_path / "tokenizer_config.json").write_text('{"strip_accents": "no"}')
    with pytest.raises(CheckpointError, match="the vocabulary cannot be read"):
        Tokenizer.load(tmp_path)


def test_a_published_gpt_has_no_end(tmp_path):
    tokens = ["<unk>", "t", "h", "e", "c", "a", "e</w>", "t</w>", ".</w>", "th", "the</w>", "ca", "cat</w>"]
    (tmp_path / "encoder_bpe_40000.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    (tmp_path / "vocab_40000.bpe").write_text("#version: 0.2\nt h\nth e</w>\nc a\nca t</w>\n")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.specials == SpecialTokens(unknown=0)
    assert tokenizer.encode("The cat. ?").tokens == ["the</w>", "cat</w>", ".</w>", "<unk>"]
    assert_saved_alike(tokenizer, tmp_path / "saved", ["The cat.", "cat ?", ""])


def test_decoding_restores_spaces_and_punctuation():
    gpt = train("bpe", vocab_size=1000)
    for text in ("the dog, and the fox jumps.", "数学是研究数量、结构的一门学科。", "我在银行工作，the dog."):
        assert gpt.decode(gpt.encode(text).ids) == text


@pytest.mark.parametrize(
    ("name", "lowercase", "chinese"), [("cased_en", False, True), ("zh", True, True), ("zh", True, False)]
)
def test_published_berts_agree_with_transformers(name, lowercase, chinese, tmp_path):
    folder = SHARED / "fixtures" / "tokenizers"
    if not folder.is_dir():
        pytest.skip("the published vocabularies are not at hand")
    from transformers import BertTokenizer

    options = {"do_lower_case": lowercase, "tokenize_chinese_chars": chinese}
    ours = load_published(folder, tmp_path, (f"bert/google_{name}_vocab.txt", "vocab.txt"), **options)
    peer = BertTokenizer.from_pretrained(tmp_path, **options)
    for text in [*HARD, json.loads((folder / "gold.json").read_text())["text"]]:
        assert ours.encode(text).ids == peer(text)["input_ids"]


@pytest.mark.parametrize(
    ("kind", "family"), [("wordpiece", "bert"), ("byte-bpe", "gpt2"), ("bpe", "openai-gpt"), ("unigram", "albert")]
)
def test_transformers_gives_identical_ids(kind, family, tmp_path):
    from transformers import AutoTokenizer

    lines = []
    for language in ("en", "zh"):
        path = SHARED / "data" / "corpora" / f"{language}wiki.dev.txt"
        if path.is_file():
            lines += list(itertools.islice((line for text in Corpus(path) for line in text.split("\n")), 1000))
    ours = train(kind, [*TEXTS, *lines], vocab_size=3000)
    ours.save(tmp_path, max_length=100_000)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    peer = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*HARD, *lines]:
        theirs, tokens = peer(text, return_token_type_ids=True), ours.encode(text)
        assert (theirs["input_ids"], theirs["token_type_ids"]) == (tokens.ids, tokens.segments)
    for first, second in itertools.pairwise(filter(None, HARD)):  # to transformers an empty pair is none
        for length in (None, 12):
            theirs = peer(first, second, truncation=length is not None, max_length=length)
            assert theirs["input_ids"] == ours.encode(first, second, max_length=length).ids
            if family in ("bert", "albert"):
                assert theirs["token_type_ids"] == ours.encode(first, second, max_length=length).segments
    assert peer.model_max_length == 100_000
    assert peer.pad_token_id == ours.specials.pad
    if family in ("bert", "albert"):
        names = [peer.unk_token, peer.cls_token, peer.sep_token, peer.mask_token, peer.eos_token]
        assert names == ["[UNK]", "[CLS]", "[SEP]", "[MASK]", None]
    else:
        end = "<end>" if family == "openai-gpt" else "<|endoftext|>"
        assert (peer.bos_token, peer.eos_token) == (end, end)
        assert peer.unk_token == ("<unk>" if family == "openai-gpt" else end)
        assert (peer.cls_token, peer.sep_token, peer.mask_token) == (None, None, None)


PROGRAM = """
import sys
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.config import TokenizerConfig
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n\\n")
for kind in sys.argv[2:]:
    print(kind, Tokenizer.train(TokenizerConfig(kind=kind, min_count=1), texts, vocab_size=700).fingerprint)
"""


def test_training_is_deterministic(tmp_path):
    path = tmp_path / "text.txt"
    words = ["".join(pair) for pair in itertools.product(["ba", "ko", "mi", "数", "学", "é"], ["ra", "tun", "s", "学"])]
    path.write_text(
        "\n\n".join(" ".join(words[n % 7 :: n % 5 + 1]) for n in range(200)) + "\n\n".join(TEXTS), encoding="utf-8"
    )
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM, path, *KINDS], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 2 * len(KINDS)


def test_chinese_gets_its_alphabet():
    texts = ["".join(chr(0x4E00 + number) for number in range(start, start + 50)) for start in range(0, 3000, 50)] * 3
    for kind in ("wordpiece", "bpe", "char", "word"):
        tokenizer = train(kind, texts, vocab_size=4500)
        assert tokenizer.vocab_size <= 4500
        ids = [number for row in tokenizer.encode_ids(texts) for number in row.tolist()]
        assert ids.count(tokenizer.specials.unknown) <= len(ids) * 0.001
    capped = train("wordpiece", texts, vocab_size=1000)
    assert capped.vocab_size <= 1000


def test_vocabulary_size_is_at_most_the_requested(tokenizer):
    assert 60 < tokenizer.vocab_size <= 400
    ids = {number for tokens in tokenizer.encode_batch(TEXTS) for number in tokens.ids}
    assert max(ids) < tokenizer.vocab_size


def test_lowercase():
    assert train("wordpiece", lowercase=True).encode("CAFÉ", specials=False) != train("wordpiece").encode("CAFÉ")
    for kind in KINDS:
        lower, cased = train(kind, lowercase=True), train(kind, lowercase=False)
        folds = lower.encode("The", specials=False).ids == lower.encode("the", specials=False).ids
        assert folds == (kind != "byte-bpe")
        assert cased.encode("The", specials=False).ids != cased.encode("the", specials=False).ids


def test_too_little_text_and_too_small_vocabularies():
    with pytest.raises(DataError, match="the corpus has only 3 distinct tokens; provide more text"):
        train("word", ["a b c a b c"])
    for kind in KINDS:
        with pytest.raises(DataError, match="distinct tokens"):
            train(kind, ["a"])
        with pytest.raises(
            DataError, match="only 0 distinct tokens" if kind in ("word", "char") else "corpus is empty"
        ):
            train(kind, [])
    with pytest.raises(ConfigError, match=r"model\.vocab_size: byte-bpe needs at least 257 tokens \(it was 256\)"):
        train("byte-bpe", vocab_size=256)
    with pytest.raises(ConfigError, match=r"model\.vocab_size: wordpiece needs at least 13 tokens"):
        train("wordpiece", vocab_size=12)


def test_rare_words_are_not_in_the_vocabulary():
    texts = ["one two three four five six seven eight nine"] * 2 + ["ten"]
    assert train("word", texts, min_count=2).id("ten") is None
    assert train("word", texts, min_count=1).id("ten") is not None


def test_the_sample_is_bounded_fair_and_repeatable():
    texts = [f"{number:05d} " + "x" * 94 for number in range(10_000)]
    sample = draw_sample(iter(texts), 50_000)
    assert sum(map(len, sample)) <= 50_000
    assert len(sample) >= 490
    assert sample == draw_sample(texts, 50_000) == sorted(sample)
    early = sum(text < "05000" for text in sample)
    assert 180 < early < 320
    assert draw_sample(texts[:100], 50_000) == texts[:100]
    long = "word " * 10_000
    assert "".join(draw_sample([long], 1_000_000)) == long
    assert 1_000 < sum(len(piece.encode()) for piece in draw_sample(["数" * 50_000], 100_000)) <= 100_000
    assert sum(map(len, draw_sample(["数" * 50_000], 100_000, ideograph_bytes=24))) <= 4_200


def test_unknown_settings_are_rejected():
    assert issubclass(TokenizerConfig, Config)
    with pytest.raises(ConfigError, match=r"unknown setting tokenizer\.kynd; did you mean tokenizer\.kind\?"):
        TokenizerConfig.parse({"kynd": "word"}, group="tokenizer")
