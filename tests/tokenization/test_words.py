"""Words of a vocabulary, and the text of single tokens."""

import pytest

from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.words import find_words, mask_word, token_text


@pytest.fixture(scope="module")
def tokenizers(documents):
    kinds = {"byte-bpe": "gpt2", "wordpiece": "bert", "unigram": "bert", "word": "bert"}
    return {
        kind: Tokenizer.train(TokenizerConfig(kind=kind, specials=specials), documents, vocab_size=400)
        for kind, specials in kinds.items()
    }


@pytest.mark.parametrize("kind", ["byte-bpe", "wordpiece", "unigram", "word"])
def test_token_texts_have_no_replacement_characters(tokenizers, kind):
    tokenizer = tokenizers[kind]
    texts = [token_text(tokenizer, id) for id in range(tokenizer.vocab_size)]
    assert all(texts) and not any("\ufffd" in text for text in texts)


def test_bytes_of_a_character_are_shown_as_such(tokenizers):
    tokenizer = tokenizers["byte-bpe"]
    ids = tokenizer.encode("\u9f98", specials=False).ids  # 龘, which the corpus lacks
    assert [token_text(tokenizer, id) for id in ids] == ["<E9>", "<BE>", "<98>"]
    assert token_text(tokenizer, tokenizer.encode(" the", specials=False).ids[0]) == " the"


def test_words_are_masked_by_token(tokenizers):
    assert mask_word("他在银行上班。", tokenizers["wordpiece"]) == "他在[MASK][MASK]上班。"
    assert mask_word("The old bank.", tokenizers["wordpiece"]) == "The old [MASK]."
    assert mask_word("the old bank", tokenizers["byte-bpe"]).count("[MASK]") == 1
    assert mask_word("12 !", tokenizers["wordpiece"]) is None


def test_chinese_words_are_found():
    text = "他在银行上班。"
    assert [text[start:end] for start, end in find_words(text)] == ["他", "在", "银行", "上班", "。"]
