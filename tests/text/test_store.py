import errno
import json
import multiprocessing
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyseme.text.store as store_module
from polyseme.errors import CheckpointError, DataError
from polyseme.text import passages
from polyseme.text.corpus import Corpus
from polyseme.text.passages import count_words
from polyseme.text.sentences import split_sentences
from polyseme.text.store import Store, build_store, prepare
from polyseme.text.stretches import Index
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, UnitsConfig
from polyseme.text.utf16 import Text
from polyseme.text.vocabulary import TokenizerConfig

TEXTS = [
    "The quick brown fox jumps over the lazy dog. It isn't amused! Is it?\nA new line, e.g. this one.",
    "数学是研究数量、结构、变化以及空间等概念的一门学科。数学家研究数学！",
    "我在银行工作，河岸上有一家银行。Apple sells 苹果 phones for $1,000.50 each.",
] * 3
STYLES = [("wordpiece", "bert"), ("word", "plain"), ("char", "plain"), ("bpe", "gpt"), ("unigram", "bert")]
STYLES += [("byte-bpe", "gpt2"), ("byte-bpe", "roberta")]


def train(kind, style, **options):
    config = TokenizerConfig(kind=kind, specials=style, min_count=1, **options)
    return Tokenizer.train(config, TEXTS, vocab_size=400)


@pytest.fixture(scope="module", params=STYLES, ids="-".join)
def tokenizer(request):
    return train(*request.param)


@pytest.fixture(scope="module")
def bert():
    return train("wordpiece", "bert")


def rows(store):
    """The store as lists: documents of sentences of tokens."""
    sentences = [store.tokens[a:b].tolist() for a, b in zip(store.sentences, store.sentences[1:], strict=False)]
    return [sentences[a:b] for a, b in zip(store.documents, store.documents[1:], strict=False)]


def expected(documents, tokenizer):
    """The same by the slow way."""
    result = []
    for document in documents:
        pieces = [tokenizer.encode(piece, specials=False).ids for piece in split_sentences(document)]
        pieces = [piece for piece in pieces if piece]
        if pieces and tokenizer.specials.end is not None:
            pieces[-1].append(tokenizer.specials.end)
        result += [pieces] if pieces else []
    return result


words = "the|Fox| |  |\n|. |。|，|数|学|é|e\u0301|'s|'|1|½|[MASK]|<mask>| <mask>|<|-|_"
fragments = st.sampled_from([*words.split("|"), *"|\x1c\x85\u3000\t😊\ud800\0", "don't", "?!", "<|endoftext|>"])
documents = st.lists(st.lists(fragments, max_size=25).map("".join) | st.text(max_size=30), max_size=5)


@settings(max_examples=60)
@given(texts=documents)
def test_the_store_holds_the_encoding_of_every_sentence(tokenizer, texts):
    wanted = expected(texts, tokenizer)
    if not wanted:
        with pytest.raises(DataError, match="hold no text"):
            Store.from_documents(texts, tokenizer)
        return
    store = Store.from_documents(texts, tokenizer)
    assert rows(store) == wanted
    assert (store.sentences[0], store.sentences[-1]) == (0, store.num_tokens)
    assert (store.documents[0], store.documents[-1]) == (0, store.num_sentences)
    assert np.all(np.diff(store.sentences) > 0)
    assert np.all(np.diff(store.documents) > 0)
    assert store.num_characters == sum(map(len, texts))


def test_many_batches_stay_in_order(tokenizer, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 100)
    texts = [f"{text} {number}." for number in range(60) for text in TEXTS[:3]]
    store = Store.from_documents(iter(texts), tokenizer)
    assert rows(store) == expected(texts, tokenizer)


def test_the_word_table_starts_afresh_and_pauses_without_harm(bert, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 100)
    monkeypatch.setattr(Index, "NUM_ROWS", 128)
    texts = [f"{text} word{number * 7919} {number}" for number in range(100) for text in TEXTS[:2]]
    assert rows(Store.from_documents(texts, bert)) == expected(texts, bert)


def test_one_document_may_be_longer_than_a_batch(tokenizer, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 50)
    texts = ["Short one.", " ".join(TEXTS), "\n", "The end."]
    assert rows(Store.from_documents(texts, tokenizer)) == expected(texts, tokenizer)


def test_counts(bert):
    store = Store.from_documents(["the dog  ran.\nIt", "数学 is ☃", " ", "\x07"], bert)
    assert store.num_documents == 2
    assert store.num_words == 4 + 4 + 1
    assert store.unknown == store.tokens.tolist().count(bert.specials.unknown) > 0
    assert store.tokens.dtype == np.uint16


@given(st.text() | st.text(st.sampled_from("a1 \n\x1c\x85\u3000中\uf900。😊\ud800")))
def test_words_are_counted_between_white_space_and_ideographs_one_by_one(text):
    ideographs = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    assert count_words(Text.of([text])) == len(re.findall(rf"[{ideographs}]|[^\s{ideographs}]+", text))


def test_wide_vocabularies_take_wide_numbers(bert, monkeypatch):
    narrow = Store.from_documents(TEXTS, bert)
    monkeypatch.setattr(Tokenizer, "vocab_size", 70_000)
    wide = Store.from_documents(TEXTS, bert)
    assert (narrow.tokens.dtype, wide.tokens.dtype) == (np.uint16, np.uint32)
    assert narrow.tokens.tolist() == wide.tokens.tolist()


def test_files_hold_what_memory_holds(tokenizer, tmp_path):
    built = build_store(iter(TEXTS), tokenizer, tmp_path / "store")
    opened, memory = Store.open(tmp_path / "store"), Store.from_documents(TEXTS, tokenizer)
    for store in (built, opened):
        assert rows(store) == rows(memory) == expected(TEXTS, tokenizer)
        assert isinstance(store.tokens, np.memmap)
        for name in ("num_characters", "num_words", "unknown", "fingerprint"):
            assert getattr(store, name) == getattr(memory, name)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_units_change_nothing_else(tokenizer, tmp_path):
    units = Units(UnitsConfig())
    plain, memory = Store.from_documents(TEXTS, tokenizer), Store.from_documents(TEXTS, tokenizer, units)
    store = build_store(iter(TEXTS), tokenizer, tmp_path / "store", units=units)
    assert rows(store) == rows(memory) == rows(plain)
    assert plain.units is None and store.units.dtype == np.uint8
    assert store.units.tolist() == memory.units.tolist() and store.units.any()
    assert isinstance(store.units, np.memmap) and store.fingerprint == memory.fingerprint != plain.fingerprint


def test_units_of_many_batches_stay_in_order(tokenizer, monkeypatch):
    texts = [f"{text} {number}." for number in range(20) for text in TEXTS[:3]]
    whole = Store.from_documents(texts, tokenizer, Units(UnitsConfig()))
    monkeypatch.setattr(passages, "LENGTH", 100)
    assert Store.from_documents(texts, tokenizer, Units(UnitsConfig())).units.tolist() == whole.units.tolist()


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    return Corpus(tmp_path / "a.txt")


def cached(tmp_path):
    return sorted((tmp_path / "cache" / "stores").iterdir())


def test_prepared_text_is_kept(corpus, bert, tmp_path, monkeypatch):
    first = prepare(corpus, bert)
    assert rows(first) == expected(list(corpus), bert)
    (folder,) = cached(tmp_path)
    assert folder.name == first.fingerprint
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "build_store", lambda *_, **__: pytest.fail("built again"))
        assert prepare(Corpus(corpus.files[0]), bert).tokens.tolist() == first.tokens.tolist()
    assert prepare(corpus, train("word", "plain")).fingerprint != first.fingerprint
    corpus.files[0].write_text("Other text. More of it.")
    assert prepare(Corpus(corpus.files[0]), bert).fingerprint != first.fingerprint
    assert len(cached(tmp_path)) == 3


def test_text_is_prepared_anew_for_other_units(corpus, bert, tmp_path):
    names = tmp_path / "names.txt"
    prints = [prepare(corpus, bert).fingerprint, prepare(corpus, bert, Units(UnitsConfig())).fingerprint]
    for content in ("银行", "数学"):
        names.write_text(content, encoding="utf-8")
        prints.append(prepare(corpus, bert, Units(UnitsConfig(entities=str(names)))).fingerprint)
    assert len(set(prints)) == len(cached(tmp_path)) == 4
    assert prepare(corpus, bert, Units(UnitsConfig(entities=str(names)))).fingerprint == prints[-1]


@pytest.mark.parametrize("name", ["tokens", "sentences", "documents", "meta.json"])
@pytest.mark.parametrize("harm", ["cut", "gone", "longer"])
def test_a_broken_store_is_refused_and_built_again(corpus, bert, tmp_path, name, harm):
    wanted = rows(prepare(corpus, bert))
    (folder,) = cached(tmp_path)
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if harm != "gone":
        path.write_bytes(content[:-3] if harm == "cut" else content + b"more")
    with pytest.raises(CheckpointError, match="delete it and prepare it again"):
        Store.open(folder)
    assert rows(prepare(corpus, bert)) == wanted


def test_a_store_never_names_its_own_types(corpus, bert, tmp_path):
    prepare(corpus, bert)
    (folder,) = cached(tmp_path)
    meta = json.loads((folder / "meta.json").read_text())
    for change in ({"arrays": {"tokens": ["object", 1]}}, {"format": 99}, {"arrays": []}, {"counts": {"a": 1}}):
        (folder / "meta.json").write_text(json.dumps(meta | change))
        with pytest.raises(CheckpointError):
            Store.open(folder)


def test_the_faster_of_two_builders_wins(corpus, bert, monkeypatch):
    build = store_module.build_store

    def beaten(corpus, tokenizer, folder, **options):
        build(corpus, tokenizer, folder, **options)
        return build(corpus, tokenizer, folder, **options)

    monkeypatch.setattr(store_module, "build_store", beaten)
    assert rows(prepare(corpus, bert)) == expected(list(corpus), bert)


def prepare_and_count(paths):
    tokenizer, text = paths
    return prepare(Corpus(text), Tokenizer.load(tokenizer)).num_tokens


def test_two_processes_may_build_at_once(corpus, bert, tmp_path):
    bert.save(tmp_path / "tokenizer")
    jobs = [(tmp_path / "tokenizer", corpus.files[0])] * 4
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(prepare_and_count, jobs)
    assert counts == [Store.from_documents(corpus, bert).num_tokens] * 4
    assert len(cached(tmp_path)) == 1


def test_a_full_disk_leaves_nothing(corpus, bert, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_continue", full)
        with pytest.raises(DataError, match=r"No space left on device \(.* free\); make room") as caught:
            prepare(corpus, bert)
    assert "\n" not in str(caught.value)
    assert cached(tmp_path) == []
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DataError, match="10 bytes are free; make room"):
        prepare(corpus, bert)


def test_a_failing_corpus_leaves_nothing(bert, tmp_path):
    def failing():
        yield from TEXTS
        raise DataError("a.txt is not UTF-8")

    with pytest.raises(DataError, match="not UTF-8"):
        build_store(failing(), bert, tmp_path / "store")
    with pytest.raises(DataError, match="holds no text that gives tokens"):
        build_store([" ", "\n"], bert, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_real_text_is_encoded_exactly():
    shared = Path(__file__).parents[2].parent / "shared" / "data" / "corpora"
    if not shared.is_dir():
        pytest.skip("the Wikipedia samples are not at hand")
    texts = [text for name in ("en", "zh") for text in list(Corpus(shared / f"{name}wiki.dev.txt"))[:5]]
    for kind, style in (("wordpiece", "bert"), ("byte-bpe", "gpt2")):
        tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=style), texts, vocab_size=2000)
        assert rows(Store.from_documents(texts, tokenizer)) == expected(texts, tokenizer)
