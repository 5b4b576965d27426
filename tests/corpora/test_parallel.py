import json

import pytest

from polyseme.corpora.corpus import ParallelCorpus
from polyseme.datasets.token_store import TokenStore, build_or_load_store, find_parallel_pairs
from polyseme.errors import ConfigError, DataError
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

PAIRS = [("A man sleeps.", "Ein Mann schläft."), ("Two dogs.", "Zwei Hunde."), ("银行", "die Bank")]
BOTH = [f"{source}\n{target}" for source, target in PAIRS]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def tables(folder):
    rows = [("source", "target"), *PAIRS]
    yield write(folder / "a.tsv", "".join(f"{s}\t{t}\n" for s, t in rows))
    yield write(folder / "a.csv", "".join(f'"{s}",{t}\n' for s, t in rows))
    yield write(folder / "a.jsonl", "".join(json.dumps({"target": t, "source": s}) + "\n" for s, t in PAIRS))


def test_tables_of_every_kind(tmp_path):
    for path in tables(tmp_path):
        corpus = ParallelCorpus(path)
        assert list(corpus) == BOTH == list(corpus)
        assert list(corpus.sentence_pairs()) == PAIRS
        assert corpus.bytes_read == corpus.num_bytes and corpus.num_documents == 3


def test_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sources, targets = zip(*PAIRS, strict=True)
    parquet.write_table(arrow.table({"en": sources, "de": targets}), tmp_path / "a.parquet")
    assert list(ParallelCorpus(tmp_path / "a.parquet", column="en,de")) == BOTH


def test_two_files_line_by_line(tmp_path):
    english, german = (
        write(tmp_path / name, "\n".join(texts))
        for name, texts in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True)
    )
    corpus = ParallelCorpus(english, targets=[german])
    assert list(corpus) == BOTH
    assert corpus.bytes_read == corpus.num_bytes == english.stat().st_size + german.stat().st_size
    assert corpus.fingerprint() != ParallelCorpus(german, targets=[english]).fingerprint()


def test_pairs_with_an_empty_sentence_are_skipped(tmp_path):
    english = write(tmp_path / "en.txt", "one\n\n three \t words\nfour\n")
    german = write(tmp_path / "de.txt", "eins\nzwei\ndrei\u2028Wörter\n \n")
    corpus = ParallelCorpus(english, targets=[german])
    assert list(corpus) == ["one\neins", "three words\ndrei Wörter"]


def test_invalid_bytes_do_not_move_lines(tmp_path):
    english = write(tmp_path / "en.txt", b"one\ntw\xff\x00o\r\nthree")
    german = write(tmp_path / "de.txt", "eins\nzwei\ndrei")
    assert list(ParallelCorpus(english, targets=[german])) == ["one\neins", "tw\ufffd\ufffdo\nzwei", "three\ndrei"]


@pytest.mark.parametrize(("lengths", "longer"), [((3, 2), "en.txt"), ((2, 3), "de.txt"), ((1000, 3), "en.txt")])
def test_uneven_files_are_refused(tmp_path, lengths, longer):
    files = [
        write(tmp_path / name, "word\n" * number) for name, number in zip(("en.txt", "de.txt"), lengths, strict=True)
    ]
    with pytest.raises(DataError, match=rf"{longer} has more lines than .*, which has {min(lengths)};"):
        list(ParallelCorpus(files[0], targets=[files[1]]))


def test_mistakes(tmp_path):
    plain = write(tmp_path / "a.txt", "one\n")
    table = write(tmp_path / "a.tsv", "source\tgerman\none\teins\n")
    blank = write(tmp_path / "b.tsv", "source\ttarget\n\t\nword\t\n")
    with pytest.raises(DataError, match=r"plain text without translations; .*--target"):
        ParallelCorpus(plain)
    with pytest.raises(DataError, match="no column 'target'; choose one of german, source"):
        list(ParallelCorpus(table))
    with pytest.raises(DataError, match="holds no pairs"):
        list(ParallelCorpus(blank))
    with pytest.raises(DataError, match="2 source files and 1 target files"):
        ParallelCorpus(plain, table, targets=[plain])
    with pytest.raises(ConfigError, match="two columns"):
        ParallelCorpus(table, column="german")
    with pytest.raises(DataError, match="no such file"):
        ParallelCorpus(plain, targets=[tmp_path / "none"])


def test_token_store_of_pairs(tmp_path):
    path = write(tmp_path / "a.tsv", "source\ttarget\n" + "".join(f"{s}\t{t}\n" for s, t in PAIRS * 3))
    corpus = ParallelCorpus(path)
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", specials="plain"), corpus, vocab_size=100)
    store = build_or_load_store(corpus, tokenizer)
    first = find_parallel_pairs(store)
    assert len(first) == store.num_documents == 9
    for number, (source, target) in zip(first, PAIRS * 3, strict=True):
        a, b, c = store.sentences[number : number + 3]
        assert store.tokens[a:b].tolist() == tokenizer.encode(source, specials=False).ids
        assert store.tokens[b:c].tolist() == [*tokenizer.encode(target, specials=False).ids, tokenizer.specials.end]


def test_pairs_with_a_sentence_without_tokens_are_skipped():
    config = TokenizerConfig(kind="word", specials="plain", min_count=1)
    tokenizer = Tokenizer.train(config, ["some words to begin with and a few more"], vocab_size=50)
    store = TokenStore.from_documents(
        ["some\nwords", "\u200d\u0001\nto", "with\na few"], tokenizer, split=ParallelCorpus.split_document
    )
    assert store.num_documents == 3
    assert [store.tokens[store.sentences[n]] for n in find_parallel_pairs(store)] == [
        tokenizer.id("some"),
        tokenizer.id("with"),
    ]
