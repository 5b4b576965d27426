"""Words of a vocabulary, the tokens of a word in a text, and the text of a token."""

import re

from polyseme.corpora.scripts import SEGMENTED_IDEOGRAPHS
from polyseme.tokenization.masking_units import WORD, MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import byte_alphabet
from polyseme.tokenization.word_segmentation import choose_segmenter

MASK = "[MASK]"

_REPLACEMENT = "\ufffd"  # that a decoder writes for invalid bytes
_CHINESE_WORD = re.compile(f"[{SEGMENTED_IDEOGRAPHS}]+")


def token_text(tokenizer: Tokenizer, id: int) -> str:
    """The text of a token on its own; bytes of an incomplete character in hexadecimal: <E5 B0>.

    A token without a text of its own has its name in the vocabulary.
    """
    token = tokenizer.token(id)
    text = tokenizer.decode([id]) or token
    if _REPLACEMENT not in text or not {*token} <= {*byte_alphabet()}:
        return token if text == _REPLACEMENT else text  # in vocabularies with byte fallback the name is <0xE5>
    return _decode(bytes(map(byte_alphabet().index, token)))


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        start, end = error.start, error.end
        while end < len(data) and data[end] & 0xC0 == 0x80:  # more bytes of the same character
            end += 1
        return f"{data[:start].decode()}<{data[start:end].hex(' ').upper()}>{_decode(data[end:])}"


def find_words(text: str) -> list[tuple[int, int]]:
    """The spans of the words of a text; Chinese is segmented if a segmenter is installed."""
    # The segmenter is chosen by name, which avoids a warning if none is installed.
    config = MaskingUnitsConfig.parse({"segmenter": choose_segmenter("auto")}, group="data")
    return MaskingUnits(config).find(text)[WORD]


def find_word(tokenizer: Tokenizer, word: str) -> int | None:
    """The id of a word that is a single token, or None."""
    exact = tokenizer.id(word)
    if exact is not None and tokenizer.config.kind in ("word", "char"):
        return exact
    ids = tokenizer.encode(" " + word, specials=False).ids  # as in the middle of a sentence
    if len(ids) == 1 and ids[0] not in tokenizer.special_ids:
        return ids[0]
    return exact


def mask_word(text: str, tokenizer: Tokenizer) -> str | None:
    """The text with [MASK] in place of each token of a word, or None if no word is suitable.

    That is the longest word, names and numbers last; other than Chinese ones it has to be a single token.
    """
    offsets = tokenizer.encode(text, specials=False).offsets
    candidates = []
    for start, end in find_words(text):
        word = text[start:end]
        tokens = [span for span in offsets if span[0] < end and span[1] > start]
        is_whole = tokens and text[tokens[0][0] : tokens[-1][1]].strip() == word
        if is_whole and word.isalpha() and (len(tokens) == 1 or _CHINESE_WORD.fullmatch(word)):
            is_common = not (word[0].isupper() or any(map(str.isnumeric, word)))
            candidates.append((is_common, end - start, -start, len(tokens)))
    if not candidates:
        return None
    _, length, place, num_tokens = max(candidates)
    return f"{text[:-place]}{MASK * num_tokens}{text[length - place :]}"
