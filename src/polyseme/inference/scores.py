"""The score of a text in nats, and what derives from it; the cost of out-of-vocabulary words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from polyseme.corpora.utf16_text import Utf16Text
from polyseme.tokenization.document_batches import count_whitespace_words
from polyseme.tokenization.tokenizer import Tokenizer

Kind = Literal["likelihood", "pseudo-likelihood"]
Alternatives = tuple[tuple[int, float], ...]  # token ids with their nats, the most probable first


@dataclass(frozen=True, kw_only=True)
class TokenScore:
    """The negative log-likelihood of a token, its character span, and the most probable alternatives."""

    start: int
    end: int
    nats: float
    alternatives: Alternatives


@dataclass(frozen=True, kw_only=True)
class Score:
    """The negative log-likelihood of a text, and the counts that normalise it."""

    kind: Kind
    nats: float
    num_tokens: int
    num_words: int
    num_characters: int
    num_oov: int = 0  # OOV words
    oov_nats: float = 0.0  # part of `nats` that the spelling of OOV words costs
    directions: Mapping[str, float] = field(default_factory=dict)  # nats of each direction, where the mean counts
    is_greedy: bool = False  # whether greedy decoding would have produced the text
    tokens: tuple[TokenScore, ...] = ()  # where `top` was given; of two directions, the mean

    @property
    def bits_per_character(self) -> float:
        """Comparable across models and tokenizers."""
        return self.nats / math.log(2) / self.num_characters if self.num_characters else math.nan

    @property
    def perplexity(self) -> float:
        """Per token: comparable under the same tokenizer only."""
        return perplexity(self.nats, self.num_tokens)

    @property
    def word_perplexity(self) -> float:
        """Per word; each Chinese character counts as a word."""
        return perplexity(self.nats, self.num_words)


def total(scores: Sequence[Score]) -> Score:
    """The score of several texts as one: nats are added, perplexities are not averaged."""
    return Score(
        kind=scores[0].kind,
        nats=math.fsum(score.nats for score in scores),
        num_tokens=sum(score.num_tokens for score in scores),
        num_words=sum(score.num_words for score in scores),
        num_characters=sum(score.num_characters for score in scores),
        num_oov=sum(score.num_oov for score in scores),
        oov_nats=math.fsum(score.oov_nats for score in scores),
        directions={name: math.fsum(score.directions[name] for score in scores) for name in scores[0].directions},
        is_greedy=all(score.is_greedy for score in scores),
    )


def perplexity(nats: float, count: int) -> float:
    """exp(nats / count); infinite where that overflows, and not a number without items."""
    try:
        return math.exp(nats / count) if count else math.nan
    except OverflowError:
        return math.inf


def make_score(
    kind: Kind,
    tokenizer: Tokenizer,
    text: str,
    nats: Mapping[str, float],
    *,
    num_tokens: int,
    oov_words: Sequence[str],
    is_greedy: bool = False,
    tokens: Sequence[TokenScore] = (),
) -> Score:
    """A score from the nats of each direction, plus the spelling of OOV words."""
    oov_nats = tokenizer.oov_model.nll(*oov_words) if oov_words else 0.0
    directions = {direction: cost + oov_nats for direction, cost in nats.items()}
    return Score(
        kind=kind,
        nats=math.fsum(directions.values()) / len(directions),
        num_tokens=num_tokens,
        num_words=count_whitespace_words(Utf16Text.of([text])),
        num_characters=len(text),
        num_oov=len(oov_words),
        oov_nats=oov_nats,
        directions=directions if len(directions) > 1 else {},
        is_greedy=is_greedy,
        tokens=tuple(tokens),
    )


def top_alternatives(logits: Tensor, top: int) -> list[Alternatives]:
    """The most probable tokens by logits (N, V)."""
    best = logits.log_softmax(-1).topk(min(top, logits.shape[-1]))
    return [
        tuple((id, -value) for id, value in zip(ids, values, strict=True))
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def find_oov_words(tokenizer: Tokenizer, text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> list[str]:
    """The OOV words of a text; a literal <unk>, as published corpora have it, is a token like any other."""
    unknown = tokenizer.specials.unknown
    if unknown is None or unknown not in ids:
        return []
    words = [text[first:last] for id, (first, last) in zip(ids, offsets, strict=True) if id == unknown and last > first]
    return [tokenizer.normalize(word) for word in words if word != tokenizer.token(unknown)]


def oov_spelling_nats(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Cost of spelling all OOV words of some texts by the character model of the tokenizer."""
    encoded = zip(texts, tokenizer.encode_batch(texts, specials=False), strict=True)
    words = [word for text, tokens in encoded for word in find_oov_words(tokenizer, text, tokens.ids, tokens.offsets)]
    return tokenizer.oov_model.nll(*words) if words else 0.0
