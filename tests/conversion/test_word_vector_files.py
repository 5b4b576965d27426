"""Word vector files: round trips, exchange with gensim and fastText, and rejection of invalid files."""

import logging
import struct

import numpy as np
import pytest
import torch

import polyseme as ps
from polyseme.conversion.word_vector_files import UNKNOWN, read_word_vectors, write_word_vectors
from polyseme.errors import CheckpointError, DataError

FORMATS = ("word2vec", "word2vec-text", "glove")
WORDS = ["the", "Bank", "river", "don't", "苹果", "caf\u00e9", "a\u00a0b", "1.5", "</s>"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32)
VECTORS[0, :4] = [0, 1e-30, -3.4e38, 1 / 3]


def binary(rows, *, header=None, end=b"\n"):
    """A binary file of words (bytes or str) and their vectors."""
    content = b"%d %d\n" % (header or (len(rows), len(rows[0][1])))
    for word, numbers in rows:
        content += word if isinstance(word, bytes) else word.encode()
        content += b" " + struct.pack(f"<{len(numbers)}f", *numbers) + end
    return content


ROWS = list(zip(WORDS, VECTORS.tolist(), strict=True))


@pytest.mark.parametrize("format", FORMATS)
def test_round_trip(tmp_path, format):
    path = tmp_path / "vectors"
    write_word_vectors(path, WORDS, VECTORS, format)
    for _ in range(2):
        read = read_word_vectors(path)
        assert read.words == [*WORDS, UNKNOWN] and read.family == ("glove" if format == "glove" else "skipgram")
        np.testing.assert_array_equal(read.read()[:-1], VECTORS)
        assert not read.read()[-1].any()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", [b"\n", b""], ids=["original code", "gensim"])
def test_binary_vectors_with_and_without_line_breaks(tmp_path, end):
    path = tmp_path / "vectors.bin"
    path.write_bytes(binary(ROWS, end=end))
    assert read_word_vectors(path).words == [*WORDS, UNKNOWN]
    np.testing.assert_array_equal(read_word_vectors(path).read()[:-1], VECTORS)


def test_binary_vectors_that_contain_spaces_and_line_breaks(tmp_path):
    path = tmp_path / "vectors.bin"
    numbers = struct.unpack("<4f", b" \n 1 2 3\n\n  x y\n")
    path.write_bytes(binary([("a", numbers), ("b", numbers)]))
    read = read_word_vectors(path)
    assert read.words == ["a", "b", UNKNOWN]
    np.testing.assert_array_equal(read.read()[:2], np.array([numbers, numbers], np.float32))


def test_files_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.conversion.word_vector_files._BLOCK_WORDS", 4)
    path = tmp_path / "vectors"
    for content in (binary(ROWS), binary(ROWS, end=b"")):
        path.write_bytes(content)
        assert read_word_vectors(path).words == [*WORDS, UNKNOWN]
        np.testing.assert_array_equal(read_word_vectors(path).read()[:-1], VECTORS)
    write_word_vectors(path, WORDS, VECTORS, "glove")
    assert read_word_vectors(path).words == [*WORDS, UNKNOWN]
    np.testing.assert_array_equal(read_word_vectors(path).read()[:-1], VECTORS)


@pytest.mark.parametrize(
    ("content", "words", "vectors"),
    [
        (b"new york 1 2\nroute 66 3 4\nthe 5 6\nof 7 8\n", ["new york", "route 66", "the", "of"], [1, 3, 5, 7]),
        (b"4 2\nnew york 1 2\nroute 66 3 4\nthe 5 6\nof 7 8", ["new york", "route 66", "the", "of"], [1, 3, 5, 7]),
        (b". . . 1 2\nat name@domain.com 3 4\n", [". . .", "at name@domain.com"], [1, 3]),
        (b"2 2 \r\na 1 2 \r\nb 3 4 \r\n\r\n", ["a", "b"], [1, 3]),
        (b"a 1e0 2\nb 3. -.5E-3\n", ["a", "b"], [1, 3]),
        (b"a 1 2\nb 3 4\na 5 6\n", ["a", "b"], [1, 3]),
        (b"a 1 2\n<unk> 3 4\n", ["a", "<unk>"], [1, 3]),
        (b"a 1 2\n\xff\xfe 3 4\n\xffb 5 6\n", ["a", "\ufffd\ufffd", "\ufffdb"], [1, 3, 5]),
        (b" 1 2\nb 3 4\n", ["", "b"], [1, 3]),
        (b"a\x00b 1 2\n", ["a\x00b"], [1]),
        (b"a 1\nb 3\n", ["a", "b"], [1, 3]),
    ],
    ids=[
        "words with spaces",
        "words with spaces and a header",
        "only words with spaces",
        "trailing white space",
        "unusual number formats",
        "a duplicate word",
        "an OOV token",
        "invalid UTF-8",
        "an empty word",
        "a word with a NUL",
        "one dimension",
    ],
)
def test_unusual_text_files(tmp_path, content, words, vectors):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    read = read_word_vectors(path)
    assert read.words == [*words, *([UNKNOWN] if UNKNOWN not in words else [])]
    np.testing.assert_array_equal(read.read()[: len(words), 0], np.array(vectors, np.float32))


def test_unusual_binary_files(tmp_path, caplog):
    path = tmp_path / "vectors.bin"
    path.write_bytes(binary([("a", [1, 2]), (b"\xffb", [3, 4]), ("a", [5, 6]), (UNKNOWN, [7, 8]), (b"", [9, 9])]))
    with caplog.at_level(logging.WARNING):
        read = read_word_vectors(path)
    assert read.words == ["a", "\ufffdb", UNKNOWN, ""]
    assert read.read().tolist() == [[1, 2], [3, 4], [7, 8], [9, 9]]
    assert "1 duplicate words" in caplog.text


def truncated(length):
    return binary(ROWS)[:length]


INVALID = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "contains no word vectors"),
    "prose": (b"Once upon a time\nthere was a bank.\n", "contains no word vectors"),
    "no vectors": (b"0 100\n", "contains no vectors"),
    "no numbers": (b"100 0\n", "contains no vectors"),
    "a header alone": (b"10 10\n", "does not contain 10 vectors of 10 dimensions"),
    "truncated in a word": (truncated(-(7 * 4 + 1 + 1 + 2)), "does not contain 9 vectors of 7 dimensions.*truncated"),
    "truncated after a word": (truncated(-(7 * 4 + 2)), "does not contain 9 vectors of 7 dimensions.*truncated"),
    "truncated in a vector": (truncated(-10), "does not contain 9 vectors of 7 dimensions.*truncated"),
    "truncated in the first word": (truncated(5), "does not contain 9 vectors of 7 dimensions"),
    "a header with more words": (binary(ROWS, header=(10, 7)), "does not contain 10 vectors of 7"),
    "a header with fewer words": (binary(ROWS, header=(8, 7)), "does not contain 8 vectors of 7"),
    "a header with more numbers": (binary(ROWS, header=(9, 8)), "does not contain 9 vectors of 8"),
    "a header with fewer numbers": (binary(ROWS, header=(9, 6)), "does not contain 9 vectors of 6|not finite"),
    "a header of terabytes": (binary(ROWS, header=(10**11, 999_999)), "does not contain 100,000,000,000 vectors"),
    "a word without end": (b"2 2\n" + b"x" * 100_000 + b" " + bytes(18), "does not contain 2 vectors of 2"),
    "not a number": (binary([("a", [1, 2]), ("b", [3, float("nan")])]), "the vector of 'b' is not finite"),
    "infinity": (binary([("a", [float("-inf"), 2])]), "the vector of 'a' is not finite"),
    "not a number in text": (b"a 1 2\nb nan 3\n", "the vector of 'b' is not finite"),
    "a number too large": (b"a 1 2\nb 1e39 3\n", "the vector of 'b' is not finite"),
    "a text header with more words": (b"3 2\na 1 2\nb 3 4\n", "contains 2 words and its first line declares 3"),
    "a text header with fewer words": (b"1 2\na 1 2\nb 3 4\n", "contains 2 words and its first line declares 1"),
    "a text header with more numbers": (b"2 3\na 1 2\nb 3 4\n", "has 2 values per word and its first line declares 3"),
    "a text header with fewer numbers": (b"2 1\na 1 2\nb 3 4\n", "has 2 values per word and its first line declares 1"),
    "a line with fewer numbers": (b"a 1 2 3\n\nb 3 4\nc 1 2 3\n", "line 3: not a word and 3 numbers"),
    "a truncated line": (b"a 1 2 3\nb 3 4 5\nc 1", "line 3: not a word and 3 numbers"),
    "a line of words": (b"a 1 2\nb 3 4\nc d e\n", "line 3: not a word and 2 numbers"),
    "gzipped": (b"\x1f\x8b" + bytes(100), "gunzip"),
    "zipped": (b"PK\x03\x04" + bytes(100), "unzip"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_files_are_reported(tmp_path, name):
    content, message = INVALID[name]
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        ps.load(path).neighbours("a")  # vectors are read on demand
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_every_truncation_is_rejected(tmp_path):
    path = tmp_path / "vectors.bin"
    content = binary(ROWS)
    for length in range(1, len(content) - 1):  # the last line break is optional
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_word_vectors(path)


def test_random_bytes_are_read_or_rejected(tmp_path):
    path = tmp_path / "vectors"
    rng = np.random.default_rng(0)
    content = np.frombuffer(binary(ROWS), np.uint8)
    for _ in range(300):
        changed = content.copy()
        changed[rng.integers(len(content), size=3)] = rng.integers(256, size=3)
        path.write_bytes(changed.tobytes())
        try:
            read = read_word_vectors(path)
            vectors = read.read()
        except CheckpointError:
            continue
        assert len(read.words) == len(vectors) and np.isfinite(vectors).all()


def test_numbers_are_parsed_as_by_python(tmp_path):
    path = tmp_path / "vectors.txt"
    rng = np.random.default_rng(0)
    doubles = rng.normal(size=400) * 10.0 ** rng.integers(-45, 38, 400)
    texts = [template % number for number in doubles for template in ("%.5g", "%.9g", "%.17g", "%f", "%e", "%.0f.")]
    texts += ["0", "-0", "-.5", "5.", "+1", "1E2", "1e+2", "1e-400", "1e22", "1e-23", "0" * 30, "1_0", "9" * 18, "\t1"]
    texts += ["9007199254740993", "0." + "0" * 40 + "1", "3.4028235e38", "123456789012345678901234567890"]
    path.write_text("".join(f"word{number} {text} 1\n" for number, text in enumerate(texts)))
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    np.testing.assert_array_equal(read_word_vectors(path).read()[:-1, 0], expected)


@pytest.mark.parametrize("number", ["", "-", ".", "-.", "e-5", "1.2.3", "1-2", "1e-", "1e-5e-5", "--1", "1e-5."])
def test_malformed_numbers_are_rejected(tmp_path, number):
    path = tmp_path / "vectors.txt"
    path.write_text(f"a 1 2\nb {number} 3\nc 3 4\n")
    with pytest.raises(CheckpointError, match="line 2: not a word and 2 numbers"):
        read_word_vectors(path).read()


def test_overflowing_number_is_rejected(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(f"a 1 2\nb {'9' * 39} 3\n")
    with pytest.raises(CheckpointError, match="the vector of 'b' is not finite"):
        read_word_vectors(path).read()


def test_random_text_is_parsed_as_by_python(tmp_path):
    path = tmp_path / "vectors.txt"
    rng = np.random.default_rng(0)
    content = np.frombuffer("".join(f"word{n} {1 / n:.4g} {n:e} -{n}.\n" for n in range(1, 9)).encode(), np.uint8)
    replacements = np.frombuffer(b" \n\t\r.-+eE019ax\xff", np.uint8)
    outcomes = set()
    for _ in range(500):
        changed = content.copy()
        changed[rng.integers(len(content), size=2)] = rng.choice(replacements, 2)
        path.write_bytes(changed.tobytes())
        rows = [line.rstrip(b" \t\r").rsplit(b" ", 3) for line in changed.tobytes().split(b"\n")]
        numbers = {}
        try:
            for word, one, two, three in filter(any, rows):
                if (name := word.decode("utf-8", "replace")) not in numbers:  # only the first vector of a word counts
                    numbers[name] = [float(one), float(two), float(three)]
            expected = [*numbers.values()]
        except ValueError:
            expected = None
        try:
            read = read_word_vectors(path)
            vectors = read.read()[: len(read.words) - 1]
            np.testing.assert_array_equal(vectors, np.array(expected, np.float32))
            assert read.words == [*numbers, UNKNOWN]
        except CheckpointError:
            vectors = None
            assert expected is None or not np.all(np.abs(expected) < 3.4e38)
        outcomes.add(vectors is None)
    assert outcomes == {True, False}


def test_words_that_a_format_does_not_allow(tmp_path):
    path = tmp_path / "vectors"
    for format in ("word2vec", "word2vec-text"):
        with pytest.raises(DataError, match=rf"'new york' contains a space, which {format} does not allow"):
            write_word_vectors(path, ["new york"], VECTORS[:1], format)
    for format in FORMATS:
        with pytest.raises(DataError, match="contains a line break"):
            write_word_vectors(path, ["new\nyork"], VECTORS[:1], format)
    assert not list(tmp_path.iterdir())
    write_word_vectors(path, ["new york"], VECTORS[:1], "glove")
    assert read_word_vectors(path).words[0] == "new york"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vectors.bin"
    path.write_bytes(binary(ROWS))
    return path


def test_word_vector_file_is_a_model(file, tmp_path):
    model = ps.load(file)
    assert "encoder" not in vars(model), "vectors are loaded on demand"
    assert model.family == "skipgram" and model.encoder.context == "none" and model.encoder.widths == (7,)
    assert "backend" not in vars(model.tokenizer), "the tokenizer is built on demand"
    layers = model.encode(["the river nowhere"])[0].layers
    np.testing.assert_array_equal(layers[0], [*VECTORS[[0, 2]], np.zeros(7, np.float32)])
    assert not model.embed([""]).any()
    assert model.tokenizer.specials.unknown == len(WORDS) and not hasattr(model.tokenizer, "nothing")

    model.save(tmp_path / "saved")
    again = ps.load(tmp_path / "saved")
    assert torch.equal(again.encoder.tokens.weight, model.encoder.tokens.weight)
    assert again.neighbours("river") == model.neighbours("river")
    path, _ = again.export(tmp_path / "again.bin", to="word2vec")
    assert path.read_bytes() == file.read_bytes()
    assert ps.load(file, weights="int8").embed(["the river"]).shape == (1, 7)


def test_texts_are_lowercased_for_a_lowercase_vocabulary(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("bank 1 2\nriver 3 4\n")
    assert ps.load(path).embed(["Bank"]).tolist() == [[1, 2]]
    path.write_text("bank 1 2\nRiver 3 4\n")
    assert ps.load(path).embed(["Bank", "River"]).tolist() == [[0, 0], [3, 4]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim leaves a file open
@pytest.mark.parametrize("format", FORMATS)
def test_neighbours_match_gensim(tmp_path, format):
    models = pytest.importorskip("gensim.models")
    words = [f"word{number}" for number in range(200)]
    vectors = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32)
    write_word_vectors(tmp_path / "ours", words, vectors, format)
    theirs = models.KeyedVectors.load_word2vec_format(
        tmp_path / "ours", binary=format == "word2vec", no_header=format == "glove"
    )
    ours = ps.load(tmp_path / "ours")
    np.testing.assert_array_equal(theirs.vectors, vectors)
    for word in words[:20]:
        expected = theirs.most_similar(word, topn=5)
        found = ours.neighbours(word, top=5)
        assert [neighbour.word for neighbour in found] == [name for name, _ in expected]
        np.testing.assert_allclose([n.score for n in found], [score for _, score in expected], atol=1e-5)
        other, third = words[int(word[4:]) + 20], words[int(word[4:]) + 50]
        expected = theirs.most_similar(positive=[other, third], negative=[word], topn=5)
        assert [answer.word for answer in ours.analogy(word, other, third, top=5)] == [name for name, _ in expected]


@pytest.mark.parametrize("binary", [True, False])
def test_files_of_gensim(tmp_path, binary):
    models = pytest.importorskip("gensim.models")
    theirs = models.KeyedVectors(7)
    theirs.add_vectors(WORDS, VECTORS)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    read = read_word_vectors(tmp_path / "theirs")
    assert read.words == [*WORDS, UNKNOWN]
    np.testing.assert_array_equal(read.read()[:-1], VECTORS)


def test_files_of_fasttext(tmp_path, corpus_file):
    fasttext = pytest.importorskip("fasttext")
    theirs = fasttext.train_unsupervised(str(corpus_file), dim=8, epoch=1, minCount=1, thread=1, verbose=0, bucket=100)
    with (tmp_path / "theirs.vec").open("w", encoding="utf-8") as file:  # as its command writes it
        file.write(f"{len(theirs.words)} 8\n")
        for word in theirs.words:
            file.write(f"{word} {' '.join(f'{number:.5g}' for number in theirs.get_word_vector(word))} \n")
    read = read_word_vectors(tmp_path / "theirs.vec")
    assert read.words == [*theirs.words, UNKNOWN]
    np.testing.assert_allclose(read.read()[5], theirs.get_word_vector(theirs.words[5]), rtol=1e-4)
