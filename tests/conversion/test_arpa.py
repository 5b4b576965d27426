"""The ARPA format: exact round trips, and the same scores as an independent reader of backoff models."""

import math

import pytest

import polyseme as ps
from polyseme.conversion.registry import as_model_directory

TEXTS = ["the old bank by the river.", "a quagga slept", "", "Spring came late, and the new bank does not swim. " * 5]
LN10 = math.log(10)


class ArpaReader:
    """Backoff scores from the lines of a file, as its format is defined."""

    def __init__(self, file):
        self.entries, order = {}, 0
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.endswith("-grams:"):
                order = int(line[1 : line.index("-")])
            elif order and line and not line.startswith("\\"):
                log, ngram, *weight = line.split("\t")
                assert len(ngram.split(" ")) == order
                self.entries[tuple(ngram.split(" "))] = float(log), float(weight[0]) if weight else 0.0
        self.order = order

    def log10(self, context, word):
        context = tuple(context[-(self.order - 1) :])
        if (*context, word) in self.entries:
            return self.entries[(*context, word)][0]
        return self.entries.get(context, (0, 0.0))[1] + self.log10(context[1:], word)

    def score(self, words):
        """log10 p of a text after the start of a document."""
        text = ["<s>", *words]
        return sum(self.log10(text[:place], text[place]) for place in range(1, len(text)))


@pytest.fixture(scope="module")
def train(corpus_file, tmp_path_factory):
    """A function that trains a model with some settings."""

    def run(*settings):
        out = tmp_path_factory.mktemp("models") / "ngram"
        return ps.pretrain("ngram", corpus=corpus_file, out=out, settings=settings)

    return run


@pytest.fixture(scope="module")
def model(train):
    return train("tokenizer.lowercase=true")


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    path, _ = model.export(tmp_path_factory.mktemp("arpa") / "out", to="arpa")
    return path


def import_model(source, out):
    with as_model_directory(source) as folder:
        ps.load(folder).save(out)
    return ps.load(out)


def nats(model):
    return [score.nats for score in model.score(TEXTS)]


def test_another_reader_scores_the_same(model, exported):
    reader, tokenizer = ArpaReader(exported), model.tokenizer
    for score, text in zip(model.score(TEXTS), TEXTS, strict=True):
        words = tokenizer.encode(text, specials=False).tokens
        assert score.nats - score.oov_nats == pytest.approx(-LN10 * reader.score(words), rel=1e-6)
    words = {ngram[0] for ngram in reader.entries if len(ngram) == 1}
    for context in (["<s>"], ["<s>", "the", "old"], ["no", "such"], ["the", "bank"]):
        assert sum(10 ** reader.log10(context, word) for word in words) == pytest.approx(1, rel=1e-6)


def test_names_of_document_ends(exported):
    """<s> begins n-grams only, and </s> ends them."""
    for ngram, (log, _) in ArpaReader(exported).entries.items():
        assert "<s>" not in ngram[1:] and "</s>" not in ngram[:-1] and log < 0


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("model.order=2",),
        ("model.order=6", "tokenizer.kind=char"),
        ("tokenizer.kind=wordpiece", "tokenizer.specials=bert", "model.vocab_size=200"),
        ("tokenizer.kind=byte-bpe", "tokenizer.specials=gpt2", "model.vocab_size=300"),
    ],
    ids=" ".join,
)
def test_round_trip(train, settings, tmp_path):
    model = train(*settings)
    path, _ = model.export(tmp_path / "out", to="arpa")
    again = import_model(path.parent, tmp_path / "again")
    assert again.family == "ngram" and again.encoder.config.num_ngrams == model.encoder.config.num_ngrams
    assert nats(again) == pytest.approx(nats(model), rel=1e-6)
    assert again.generate("the", max_tokens=8) == model.generate("the", max_tokens=8)
    path, _ = again.export(tmp_path / "twice", to="arpa")
    assert ArpaReader(path).entries.keys() == ArpaReader(tmp_path / "out" / path.name).entries.keys()


def test_file_alone(model, exported, tmp_path):
    """Its words make a tokenizer of words and punctuation, which is the model's own here."""
    file = tmp_path / "other.arpa"
    file.write_bytes(exported.read_bytes())
    assert nats(import_model(file, tmp_path / "out")) == pytest.approx(nats(model), rel=1e-6)


def test_backoff_model_of_another_program(tmp_path):
    """Not interpolated, in another order, and with spaces instead of tabs."""
    file = tmp_path / "katz.arpa"
    lines = ["\\data\\", "ngram 1=5", "ngram 2=3", "", "\\1-grams:", "-0.5 dog -0.25", "-99 <s> -0.4", "-0.7 </s>"]
    lines += ["-1.1 <unk>", "-0.9 cat -0.1", *(f"-2 word{number}" for number in range(8))]
    lines += ["", "\\2-grams:", "-0.2 dog cat", "-1.3 dog dog", "-0.3 <s> cat", "", "\\end\\"]
    file.write_text("\n".join(lines), encoding="utf-8")
    model = import_model(file, tmp_path / "out")
    score, unknown = model.score(["cat dog cat dog", "bird"])
    assert score.nats == pytest.approx(LN10 * (0.3 + (0.1 + 0.5) + 0.2 + (0.1 + 0.5)), rel=1e-6)
    assert unknown.nats - unknown.oov_nats == pytest.approx(LN10 * (0.4 + 1.1), rel=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\end\\", "", "truncated"),
        ("\\2-grams:", "\\2-grams:\n-1\tthe zebras\t0", "1-grams"),
        ("\\2-grams:", "\\2-grams:\nx\tthe bank\t0", "logarithm"),
        ("\\1-grams:", "\\1-grams:\n-1\tthe\t0\n-1\tthe\t0", "1-grams"),
        ("\\3-grams:", "\\3-grams:\n-1\tbank bank bank\t0", "pruning"),
        ("<unk>", "<rare>", "<unk>"),
    ],
)
def test_damaged_files(exported, tmp_path, old, new, message):
    file = tmp_path / "damaged.arpa"
    file.write_text(exported.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(ps.CheckpointError, match=message) as error, as_model_directory(file):
        pass
    assert "\n" not in str(error.value)


def test_messages(model, exported, tmp_path):
    with pytest.raises(ps.CheckpointError, match="polyseme import"):
        ps.load(exported)
    with pytest.raises(ps.CheckpointError, match="polyseme import"):
        ps.load(exported.parent)
    with pytest.raises(ps.ConfigError, match="ngram"):
        model.export(tmp_path / "vectors.txt", to="glove")
