"""Vocabulary extension for continued pretraining: words that are frequent in a new domain become single tokens.

Existing ids do not change, and new words follow them. What makes a word a single token differs by kind:

wordpiece    an entry in the vocabulary, since the longest match wins; longer words with this prefix split after it
byte-bpe     an entry in the vocabulary without merges, and `ignore_merges`, which looks up whole words first
unigram      a score just above the sum of its pieces' scores, so that it wins where these won and nowhere else

The pieces of `bpe` depend on their position in a word, so a whole word cannot be looked up, and merges would split
other words differently. `word` and `char` have no subwords.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable

import tokenizers

from polyseme.corpora.sampling import draw_sample
from polyseme.errors import ConfigError
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import call_library

KINDS = ("wordpiece", "byte-bpe", "unigram")
_WORD = re.compile(r"[^\W\d_]{2,}")
_MARGIN = 1e-3  # of the score of a new unigram over that of its pieces
_SAMPLE_BYTES = 8_000_000  # of text in which words are counted


def extend_vocabulary(
    tokenizer: Tokenizer, texts: Iterable[str], num_words: int
) -> tuple[Tokenizer, dict[int, list[int]]]:
    """A tokenizer with up to `num_words` more words, and the previous ids of each new word."""
    backend, kind = tokenizer.backend, tokenizer.config.kind
    if kind not in KINDS or backend.pre_tokenizer is None:
        raise ConfigError(f"this {kind} vocabulary cannot be extended, only {', '.join(KINDS)}; remove --new-words")
    pieces = find_new_words(tokenizer, texts, num_words)
    old = backend.get_vocab()
    new = {word: id for id, word in enumerate(pieces, start=max(old.values()) + 1)}
    state = json.loads(backend.to_str())
    model = state["model"]
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        model["vocab"] += [[word, sum(scores[id] for id in ids) + _MARGIN] for word, ids in pieces.items()]
    else:
        model["vocab"] = old | new  # with added tokens that follow it, whose ids would change otherwise
    if model["type"] == "BPE":
        model["ignore_merges"] = True
    backend = call_library(tokenizers.Tokenizer.from_str, json.dumps(state))
    if backend.get_vocab() != old | new:
        raise ConfigError("this vocabulary cannot be extended, because its ids would change; remove --new-words")
    return Tokenizer(backend, tokenizer.config, tokenizer.specials), {new[word]: pieces[word] for word in pieces}


def find_new_words(tokenizer: Tokenizer, texts: Iterable[str], num_words: int) -> dict[str, list[int]]:
    """The words that would save most tokens, best first, as the model spells them, with their current ids."""
    backend, config = tokenizer.backend, tokenizer.config
    counts: Counter[str] = Counter()
    for text in draw_sample(texts, min(config.sample_bytes, _SAMPLE_BYTES)):
        normalized = call_library(backend.normalizer.normalize_str, text) if backend.normalizer else text
        for word, (start, end) in call_library(backend.pre_tokenizer.pre_tokenize_str, normalized):
            if config.kind == "unigram":  # does not split punctuation from words
                match = re.match(rf"▁?{_WORD.pattern}", word)
                counts.update([match[0]] if match else [])
            elif _WORD.fullmatch(normalized[start:end].strip()):
                counts[word] += 1
    savings: dict[str, tuple[int, list[int]]] = {}
    for word, count in counts.items():
        if count >= config.min_count and backend.token_to_id(word) is None:
            ids = [piece.id for piece in call_library(backend.model.tokenize, word)]
            if len(ids) > 1 and tokenizer.specials.unknown not in ids:
                savings[word] = count * (len(ids) - 1), ids
    best = sorted(savings, key=lambda word: (-savings[word][0], word))[:num_words]
    return {word: savings[word][1] for word in best}
