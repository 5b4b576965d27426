import errno
import json
import multiprocessing
import re
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyseme.datasets.token_store as store_module
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.datasets.token_store import TokenStore, build_or_load_store, build_store
from polyseme.datasets.town.generator import Town
from polyseme.errors import CheckpointError, DataError
from polyseme.tokenization import document_batches
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.document_batches import count_whitespace_words
from polyseme.tokenization.fast_encoder.hash_index import HashIndex
from polyseme.tokenization.masking_units import MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer

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
    """The store as nested lists: documents of sentences of tokens."""
    sentences = [store.tokens[a:b].tolist() for a, b in zip(store.sentences, store.sentences[1:], strict=False)]
    return [sentences[a:b] for a, b in zip(store.documents, store.documents[1:], strict=False)]


def expected(documents, tokenizer):
    """The tokens of each sentence, encoded one by one."""
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
def test_store_equals_sentence_by_sentence_encoding(tokenizer, texts):
    wanted = expected(texts, tokenizer)
    if not wanted:
        with pytest.raises(DataError, match="no tokens"):
            TokenStore.from_documents(texts, tokenizer)
        return
    store = TokenStore.from_documents(texts, tokenizer)
    assert rows(store) == wanted
    assert (store.sentences[0], store.sentences[-1]) == (0, store.num_tokens)
    assert (store.documents[0], store.documents[-1]) == (0, store.num_sentences)
    assert np.all(np.diff(store.sentences) > 0)
    assert np.all(np.diff(store.documents) > 0)
    assert store.num_characters == sum(map(len, texts))


def test_batches_stay_in_order(tokenizer, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 100)
    texts = [f"{text} {number}." for number in range(60) for text in TEXTS[:3]]
    store = TokenStore.from_documents(iter(texts), tokenizer)
    assert rows(store) == expected(texts, tokenizer)


def test_full_pretoken_caches_are_reset(bert, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 100)
    monkeypatch.setattr(HashIndex, "MIN_CAPACITY", 128)
    texts = [f"{text} word{number * 7919} {number}" for number in range(100) for text in TEXTS[:2]]
    assert rows(TokenStore.from_documents(texts, bert)) == expected(texts, bert)


def test_documents_longer_than_a_batch(tokenizer, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 50)
    texts = ["Short one.", " ".join(TEXTS), "\n", "The end."]
    assert rows(TokenStore.from_documents(texts, tokenizer)) == expected(texts, tokenizer)


def test_counts(bert):
    store = TokenStore.from_documents(["the dog  ran.\nIt", "数学 is ☃", " ", "\x07"], bert)
    assert store.num_documents == 2
    assert store.num_words == 4 + 4 + 1
    assert store.num_unknown == store.tokens.tolist().count(bert.specials.unknown) > 0
    assert store.tokens.dtype == np.uint16


@given(st.text() | st.text(st.sampled_from("a1 \n\x1c\x85\u3000中\uf900。😊\ud800")))
def test_word_counts(text):
    ideographs = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    assert count_whitespace_words(Utf16Text.of([text])) == len(re.findall(rf"[{ideographs}]|[^\s{ideographs}]+", text))


def test_large_vocabularies_use_32_bit_ids(bert, monkeypatch):
    narrow = TokenStore.from_documents(TEXTS, bert)
    monkeypatch.setattr(Tokenizer, "vocab_size", 70_000)
    wide = TokenStore.from_documents(TEXTS, bert)
    assert (narrow.tokens.dtype, wide.tokens.dtype) == (np.uint16, np.uint32)
    assert narrow.tokens.tolist() == wide.tokens.tolist()


def test_stores_on_disk_and_in_memory_are_equal(tokenizer, tmp_path):
    built = build_store(iter(TEXTS), tokenizer, tmp_path / "store", fingerprint="-")
    opened, memory = TokenStore.open(tmp_path / "store"), TokenStore.from_documents(TEXTS, tokenizer)
    for store in (built, opened):
        assert rows(store) == rows(memory) == expected(TEXTS, tokenizer)
        assert isinstance(store.tokens, np.memmap)
        for name in ("num_characters", "num_words", "num_unknown"):
            assert getattr(store, name) == getattr(memory, name)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_masking_units_leave_tokens_unchanged(tokenizer, tmp_path):
    units = MaskingUnits(MaskingUnitsConfig())
    plain, memory = TokenStore.from_documents(TEXTS, tokenizer), TokenStore.from_documents(TEXTS, tokenizer, units)
    store = build_store(iter(TEXTS), tokenizer, tmp_path / "store", fingerprint="-", units=units)
    assert rows(store) == rows(memory) == rows(plain)
    assert plain.units is None and store.units.dtype == np.uint8
    assert store.units.tolist() == memory.units.tolist() and store.units.any()
    assert isinstance(store.units, np.memmap) and memory.fingerprint != plain.fingerprint


def test_masking_units_of_batches_stay_in_order(tokenizer, monkeypatch):
    texts = [f"{text} {number}." for number in range(20) for text in TEXTS[:3]]
    whole = TokenStore.from_documents(texts, tokenizer, MaskingUnits(MaskingUnitsConfig()))
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 100)
    assert (
        TokenStore.from_documents(texts, tokenizer, MaskingUnits(MaskingUnitsConfig())).units.tolist()
        == whole.units.tolist()
    )


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    return Corpus(tmp_path / "a.txt")


def cached(tmp_path):
    return sorted((tmp_path / "cache" / "stores").iterdir())


def test_stores_are_cached(corpus, bert, tmp_path, monkeypatch):
    first = build_or_load_store(corpus, bert)
    assert rows(first) == expected(list(corpus), bert)
    (folder,) = cached(tmp_path)
    assert folder.name == first.fingerprint
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "build_store", lambda *_, **__: pytest.fail("rebuilt"))
        assert build_or_load_store(Corpus(corpus.files[0]), bert).tokens.tolist() == first.tokens.tolist()
    assert build_or_load_store(corpus, train("word", "plain")).fingerprint != first.fingerprint
    corpus.files[0].write_text("Other text. More of it.")
    assert build_or_load_store(Corpus(corpus.files[0]), bert).fingerprint != first.fingerprint
    assert len(cached(tmp_path)) == 3


def test_cache_depends_on_masking_units(corpus, bert, tmp_path):
    names = tmp_path / "names.txt"
    fingerprints = [
        build_or_load_store(corpus, bert).fingerprint,
        build_or_load_store(corpus, bert, MaskingUnits(MaskingUnitsConfig())).fingerprint,
    ]
    for content in ("银行", "数学"):
        names.write_text(content, encoding="utf-8")
        fingerprints.append(
            build_or_load_store(corpus, bert, MaskingUnits(MaskingUnitsConfig(entities=str(names)))).fingerprint
        )
    assert len(set(fingerprints)) == len(cached(tmp_path)) == 4
    assert (
        build_or_load_store(corpus, bert, MaskingUnits(MaskingUnitsConfig(entities=str(names)))).fingerprint
        == fingerprints[-1]
    )


@pytest.mark.parametrize("name", ["tokens", "sentences", "documents", "meta.json"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "longer"])
def test_damaged_stores_are_refused_and_rebuilt(corpus, bert, tmp_path, name, damage):
    wanted = rows(build_or_load_store(corpus, bert))
    (folder,) = cached(tmp_path)
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-3] if damage == "truncated" else content + b"more")
    with pytest.raises(CheckpointError, match="delete it and rebuild it"):
        TokenStore.open(folder)
    assert rows(build_or_load_store(corpus, bert)) == wanted


def test_invalid_metadata_is_refused(corpus, bert, tmp_path):
    build_or_load_store(corpus, bert)
    (folder,) = cached(tmp_path)
    meta = json.loads((folder / "meta.json").read_text())
    for change in ({"arrays": {"tokens": ["object", 1]}}, {"format": 99}, {"arrays": []}, {"counts": {"a": 1}}):
        (folder / "meta.json").write_text(json.dumps(meta | change))
        with pytest.raises(CheckpointError):
            TokenStore.open(folder)


def test_concurrent_builds_in_one_process(corpus, bert, monkeypatch):
    build = store_module.build_store

    def build_twice(corpus, tokenizer, folder, **options):
        build(corpus, tokenizer, folder, **options)
        return build(corpus, tokenizer, folder, **options)

    monkeypatch.setattr(store_module, "build_store", build_twice)
    assert rows(build_or_load_store(corpus, bert)) == expected(list(corpus), bert)


def count_tokens(paths):
    tokenizer, text = paths
    return build_or_load_store(Corpus(text), Tokenizer.load(tokenizer)).num_tokens


def test_concurrent_builds_in_several_processes(corpus, bert, tmp_path):
    bert.save(tmp_path / "tokenizer")
    jobs = [(tmp_path / "tokenizer", corpus.files[0])] * 4
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(count_tokens, jobs)
    assert counts == [TokenStore.from_documents(corpus, bert).num_tokens] * 4
    assert len(cached(tmp_path)) == 1


def test_full_disks_leave_no_files(corpus, bert, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_file", full)
        with pytest.raises(DataError, match=r"No space left on device.*POLYSEME_CACHE") as caught:
            build_or_load_store(corpus, bert)
    assert "\n" not in str(caught.value)
    assert cached(tmp_path) == []
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DataError, match="10 bytes are free; make room"):
        build_or_load_store(corpus, bert)


def test_failing_corpora_leave_no_files(corpus, bert, tmp_path, monkeypatch):
    def failing(_):
        yield from TEXTS
        raise DataError("a.txt is not UTF-8")

    with monkeypatch.context() as patch, pytest.raises(DataError, match="not UTF-8"):
        patch.setattr(Corpus, "__iter__", failing)
        build_or_load_store(corpus, bert)
    assert cached(tmp_path) == []
    with pytest.raises(DataError, match="contains no tokens"):
        build_store([" ", "\n"], bert, tmp_path / "store", fingerprint="-")


def test_bilingual_corpus_is_encoded_exactly():
    town = Town(0)
    texts = [*town.documents(10, "en"), *town.documents(10, "zh")]
    for kind, style in (("wordpiece", "bert"), ("byte-bpe", "gpt2")):
        tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=style), texts, vocab_size=2000)
        assert rows(TokenStore.from_documents(texts, tokenizer)) == expected(texts, tokenizer)
