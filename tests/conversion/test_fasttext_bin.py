"""Binary models of fastText: reading, writing, exchange with gensim and the program itself, and invalid files."""

import struct

import numpy as np
import pytest
import torch

import polyseme as ps
from polyseme.conversion.fasttext_bin import read_fasttext
from polyseme.conversion.word_vector_files import UNKNOWN
from polyseme.errors import CheckpointError, ConfigError, DataError

WORDS = ["</s>", "bank", "Banks", "river", "caf\u00e9", "苹果", "na\u00efve"]
OOV = ["banking", "rivers", "苹果树", "caf\u00e9s"]
WIDTH, BUCKETS = 6, 30
HEADER = struct.Struct("<2i12id3i2q")
FIELDS = "magic version dim ws epoch minCount neg wordNgrams loss model bucket minn maxn lrUpdateRate t size nwords "
FIELDS = (FIELDS + "nlabels ntokens prune").split()
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(len(WORDS) + BUCKETS, WIDTH)).astype(np.float32)


def content(words=WORDS, inputs=INPUTS, *, labels=(), quantized=(False, False), shape=None, **changes):
    """A model in the layout of the fastText program."""
    values = dict.fromkeys(FIELDS, 5) | {
        "magic": 793712314,
        "version": 12,
        "dim": WIDTH,
        "minCount": 1,
        "loss": 2,
        "model": 2,
        "bucket": BUCKETS,
        "minn": 2,
        "maxn": 4,
        "t": 1e-4,
        "size": len(words) + len(labels),
        "nwords": len(words),
        "nlabels": len(labels),
        "prune": -1,
    }
    data = HEADER.pack(*(values | changes).values())
    for rank, word in enumerate([*words, *labels]):
        spelling = word if isinstance(word, bytes) else word.encode()
        data += spelling + struct.pack("<xqb", 100 - rank, rank >= len(words))
    data += struct.pack("<?2q", quantized[0], *(shape or inputs.shape)) + inputs.tobytes()
    return data + struct.pack("<?2q", quantized[1], len(words), WIDTH) + bytes(4 * len(words) * WIDTH)


@pytest.fixture
def write(tmp_path):
    def write(data, name="model.bin"):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


def vector(model, word):
    """The vector of a word, in the vocabulary or not."""
    space = model.space.with_oov_words([word])
    return space.rows(torch.tensor([space.id(word)]))[0].numpy()


@pytest.fixture
def gensim():
    return pytest.importorskip("gensim.models.fasttext")


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim leaves a file open


def test_vectors_match_gensim(write, gensim):
    path = write(content(WORDS[1:], INPUTS[1:]))
    theirs, ours = gensim.load_facebook_vectors(str(path)), ps.load(path)
    assert (ours.family, ours.encoder.context, ours.encoder.widths) == ("fasttext", "none", (WIDTH,))
    assert "embed" in ours.capabilities and not ours.embed([""]).any()
    for word in [*WORDS[1:], *OOV]:
        np.testing.assert_allclose(vector(ours, word), theirs[word], atol=1e-6)
    np.testing.assert_allclose(ours.embed(["banking rivers"])[0], (theirs["banking"] + theirs["rivers"]) / 2, atol=1e-6)
    table = ours.encoder.tokens.weight.detach().numpy()
    np.testing.assert_allclose(table[:-1], theirs.vectors, atol=1e-6)
    for word in ("river", *OOV):
        expected = theirs.most_similar(word, topn=3)
        found = ours.neighbours(word, top=3)
        assert [neighbour.word for neighbour in found] == [name for name, _ in expected]
        np.testing.assert_allclose([one.score for one in found], [score for _, score in expected], atol=1e-6)
    expected = theirs.most_similar(positive=["banking", "river"], negative=["bank"], topn=2)
    assert [one.word for one in ours.analogy("bank", "banking", "river", top=2)] == [name for name, _ in expected]


def test_the_sentence_end_has_no_ngrams(write):
    encoder = read_fasttext(write(content())).build_encoder()
    np.testing.assert_array_equal(encoder.tokens.weight[0].detach().numpy(), INPUTS[0])


def test_export_is_read_by_gensim(write, tmp_path, gensim):
    ours = ps.load(write(content()))
    ours.save(tmp_path / "saved")
    again = ps.load(tmp_path / "saved")
    assert torch.equal(again.encoder.tokens.ngrams.weight, ours.encoder.tokens.ngrams.weight)
    path, _ = again.export(tmp_path / "again.bin", to="fasttext")
    theirs = gensim.load_facebook_vectors(str(path))
    assert theirs.index_to_key == WORDS
    for word in [*WORDS[1:], *OOV]:
        np.testing.assert_allclose(theirs[word], vector(ours, word), atol=1e-6)
    np.testing.assert_allclose(read_fasttext(path).inputs, INPUTS, atol=1e-5)
    assert gensim.load_facebook_model(str(path)).wv.vectors.shape == (len(WORDS), WIDTH)
    with pytest.raises(ConfigError, match="already exists"):
        again.export(path, to="fasttext")


def test_models_of_gensim(tmp_path, gensim):
    sentences = [["the", "bank", "of", "the", "river"], ["a", "banker", "in", "苹果"]] * 20
    theirs = gensim.FastText(
        sentences, vector_size=8, min_count=1, bucket=100, epochs=2, min_n=2, max_n=5, workers=1, seed=1
    )
    gensim.save_facebook_model(theirs, str(tmp_path / "theirs.bin"))
    ours = ps.load(tmp_path / "theirs.bin")
    for word in ["bank", "苹果", "banking", "苹果树"]:
        np.testing.assert_allclose(vector(ours, word), theirs.wv[word], atol=1e-6)


def test_models_of_fasttext(tmp_path, corpus_file):
    fasttext = pytest.importorskip("fasttext")
    theirs = fasttext.train_unsupervised(str(corpus_file), dim=8, epoch=1, minCount=1, thread=1, verbose=0, bucket=100)
    theirs.save_model(str(tmp_path / "theirs.bin"))
    ours = ps.load(tmp_path / "theirs.bin")
    ours.export(tmp_path / "ours.bin", to="fasttext")
    again = fasttext.load_model(str(tmp_path / "ours.bin"))
    for word in ["bank", "river", "banking", "苹果树"]:
        np.testing.assert_allclose(vector(ours, word), theirs.get_word_vector(word), atol=1e-6)
        np.testing.assert_allclose(again.get_word_vector(word), theirs.get_word_vector(word), atol=1e-6)


def test_oov_words_in_similarity_sets(write, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("bank\tbanking\t9\nriver\trivers\t8\nbank\triver\t1\nbank\tnew river\t1\n")
    (result,) = ps.load(write(content())).evaluate(path)
    assert (result.num_scored, result.num_items) == (3, 4)
    with pytest.raises(DataError, match="'new river' is not in the vocabulary"):
        ps.load(write(content())).neighbours("new river")


def test_words_without_ngrams_have_no_vector(write):
    model = ps.load(write(content(minn=4, maxn=4)))
    assert not model.embed(["x"]).any()
    with pytest.raises(DataError, match="'x' is not in the vocabulary"):
        model.neighbours("x")


def test_models_without_ngrams(write):
    model = ps.load(write(content(inputs=INPUTS[: len(WORDS)], bucket=0, minn=0, maxn=0)))
    np.testing.assert_array_equal(model.embed(["bank"])[0], INPUTS[1])
    assert not model.embed(["banking"]).any()


def test_supervised_models_load_as_word_vectors(write):
    model = ps.load(write(content(labels=["__label__good", "__label__bad"], model=3)))
    assert set(model.tokenizer.backend.get_vocab()) == {*WORDS, UNKNOWN}


def test_duplicate_words(write, caplog):
    read = read_fasttext(write(content(["bank", "bank", *WORDS[2:]])))
    assert read.words == ["bank", *WORDS[2:], UNKNOWN] and "duplicate" in caplog.text
    table = read.build_encoder().tokens.weight
    assert len(table) == len(WORDS) and not table[-1].any()


def test_export_of_words_that_the_format_does_not_allow(write, tmp_path):
    model = ps.load(write(content(["x" * 990, *WORDS[1:]])))
    vars(model.tokenizer)["words"] = ["x" * 1001, *WORDS[1:], UNKNOWN]
    with pytest.raises(DataError, match="format of fastText"):
        model.export(tmp_path / "again.bin", to="fasttext")
    assert not (tmp_path / "again.bin").exists()


NOT_FINITE = INPUTS.copy()
NOT_FINITE[-1, 2] = np.nan
INVALID = {
    "only a magic number": (content()[:4], "damaged"),
    "truncated in the header": (content()[:90], "damaged"),
    "truncated in the dictionary": (content()[:120], "damaged"),
    "truncated in the inputs": (content()[:-400], "damaged"),
    "truncated in the outputs": (content()[:-1], "damaged"),
    "a newer version": (content(version=13), "version 13"),
    "quantized": (content(quantized=(True, False)), "quantized"),
    "quantized outputs": (content(quantized=(False, True)), "quantized"),
    "pruned": (content(prune=0), "quantized"),
    "two billion words": (content(size=2**31 - 1, nwords=2**31 - 1), "damaged"),
    "fewer words": (content(nwords=3), "damaged"),
    "no words": (content([], INPUTS, size=0), "damaged"),
    "negative sizes": (content(size=-1, nwords=-1), "damaged"),
    "a word of 2,000 bytes": (content([b"x" * 2000, *WORDS[1:]]), "damaged"),
    "an empty word": (content(["", *WORDS[1:]]), "damaged"),
    "another width": (content(dim=WIDTH + 1), "damaged"),
    "another number of buckets": (content(bucket=BUCKETS + 1), "damaged"),
    "a matrix of terabytes": (content(shape=(2**40, WIDTH)), "damaged"),
    "sizes whose product overflows": (content(shape=(2**62, 4)), "damaged"),
    "a negative shape": (content(shape=(-1, -222)), "damaged"),
    "a width of two billion": (content(dim=2**31 - 1), "width"),
    "a negative width": (content(dim=-6), "width"),
    "n-grams of a thousand characters": (content(maxn=1000), "max_n"),
    "n-grams without buckets": (content(bucket=0), "num_buckets"),
    "not finite": (content(inputs=NOT_FINITE), "not finite"),
}


@pytest.mark.parametrize(("data", "message"), INVALID.values(), ids=INVALID)
def test_invalid_files(write, data, message):
    with pytest.raises(CheckpointError, match=message) as error:
        ps.load(write(data)).encoder  # noqa: B018
    assert "\n" not in str(error.value) and "model.bin" in str(error.value)


def test_damaged_files_are_read_or_refused(write):
    """Random changes in front of the vectors."""
    data = bytearray(content())
    rng = np.random.default_rng(0)
    end = len(data) - 4 * (INPUTS.size + WIDTH * len(WORDS))
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(4, end, size=2):
            changed[place] = rng.integers(256)
        try:
            ps.load(write(bytes(changed))).embed(["bank", "banking"])
        except CheckpointError as error:
            assert "model.bin" in str(error)
