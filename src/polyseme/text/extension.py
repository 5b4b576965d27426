"""New words for a vocabulary: those that the text of another field uses often and the tokenizer cuts in pieces.

Every old id stays as it was, and new words come behind. What a word needs to be one token differs by kind:

wordpiece    a place in the vocabulary, since the longest match wins; a longer word that begins with it is cut behind it
byte-bpe     a place in the vocabulary without merges, and leave to take a whole word from there before merging
unigram      a score just above the sum of its pieces', so that it wins where these won and nowhere else

The pieces of `bpe` know their place in a word, so that a word cannot be looked up whole; merges would cut other words
anew. `word` and `char` have no pieces.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import tokenizers

from polyseme.errors import ConfigError
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import draw_sample, guarded

KINDS = ("wordpiece", "byte-bpe", "unigram")
_WORD = re.compile(r"[^\W\d_]{2,}")
_MARGIN = 1e-3  # of a new unigram over its pieces
_SAMPLE_BYTES = 8_000_000  # of text in which words are counted


def extend(tokenizer: Tokenizer, texts: Iterable[str], num_words: int) -> tuple[Tokenizer, dict[int, list[int]]]:
    """A tokenizer that knows up to `num_words` words more, and the old pieces of each new id."""
    backend, kind = tokenizer.backend, tokenizer.config.kind
    if kind not in KINDS or backend.pre_tokenizer is None:
        raise ConfigError(
            f"this {kind} vocabulary cannot be extended, only {', '.join(KINDS)}; leave --vocabulary away"
        )
    pieces = find_words(tokenizer, texts, num_words)
    old = backend.get_vocab()
    new = {word: number for number, word in enumerate(pieces, start=max(old.values()) + 1)}
    state = json.loads(backend.to_str())
    _enter(state["model"], old | new, pieces)
    backend = guarded(tokenizers.Tokenizer.from_str, json.dumps(state))
    if backend.get_vocab() != old | new:
        raise ConfigError("this vocabulary cannot be extended, because its ids would change; leave --vocabulary away")
    return Tokenizer(backend, tokenizer.config, tokenizer.specials), {new[word]: pieces[word] for word in pieces}


def find_words(tokenizer: Tokenizer, texts: Iterable[str], num_words: int) -> dict[str, list[int]]:
    """The words that would save most tokens, the best first, as the tokenizer's model spells them, with their ids."""
    backend, config = tokenizer.backend, tokenizer.config
    counts: Counter[str] = Counter()
    for text in draw_sample(texts, min(config.sample_bytes, _SAMPLE_BYTES)):
        plain = guarded(backend.normalizer.normalize_str, text) if backend.normalizer else text
        for word, (start, end) in guarded(backend.pre_tokenizer.pre_tokenize_str, plain):
            if config.kind == "unigram":  # marks stick to its words
                found = re.match(rf"▁?{_WORD.pattern}", word)
                counts.update([found[0]] if found else [])
            elif _WORD.fullmatch(plain[start:end].strip()):
                counts[word] += 1
    saved: dict[str, tuple[int, list[int]]] = {}
    for word, count in counts.items():
        if count >= config.min_count and backend.token_to_id(word) is None:
            ids = [piece.id for piece in guarded(backend.model.tokenize, word)]
            if len(ids) > 1 and tokenizer.specials.unknown not in ids:
                saved[word] = count * (len(ids) - 1), ids
    best = sorted(saved, key=lambda word: (-saved[word][0], word))[:num_words]
    return {word: saved[word][1] for word in best}


def _enter(model: dict[str, Any], vocab: dict[str, int], pieces: dict[str, list[int]]) -> None:
    """Write new words into the model of a tokenizer, as its file has it."""
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        model["vocab"] += [[word, sum(scores[id] for id in ids) + _MARGIN] for word, ids in pieces.items()]
        return
    model["vocab"] = vocab  # with tokens that were added behind it, which would move on otherwise
    if model["type"] == "BPE":
        model["ignore_merges"] = True
