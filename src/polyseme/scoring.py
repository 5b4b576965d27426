"""How likely a text is, in nats, and per character, token and word.

Causal models: the sum of -ln p(token | all before it), the first token given the end of another document; those that
read from the end, the other way about.
A text longer than the model is read in windows that move on by half, each token scored once with at least half a
window before it. Masked models have no likelihood: each token is hidden in turn and the sum is a *pseudo*-likelihood
(Salazar et al., 2020), on a scale of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from polyseme.layers.softmax import token_nats
from polyseme.models.base import Encoder
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.reading import by_length, padded, read
from polyseme.text.passages import count_words
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import Text


@dataclass(frozen=True, kw_only=True)
class Score:
    """The nats of a text, and what they can be divided by."""

    kind: Literal["likelihood", "pseudo-likelihood"]
    nats: float
    num_tokens: int
    num_words: int
    num_characters: int

    @property
    def bits_per_character(self) -> float:
        """Comparable between models and tokenizers."""
        return self.nats / math.log(2) / self.num_characters if self.num_characters else math.nan

    @property
    def perplexity(self) -> float:
        """Per token, so only comparable under one tokenizer."""
        return _exponential(self.nats, self.num_tokens)

    @property
    def word_perplexity(self) -> float:
        """Per word; an ideograph counts as one."""
        return _exponential(self.nats, self.num_words)


def total(scores: Sequence[Score]) -> Score:
    """The score of all texts as one: nats are added, never perplexities averaged."""
    return Score(
        kind=scores[0].kind,
        nats=math.fsum(score.nats for score in scores),
        num_tokens=sum(score.num_tokens for score in scores),
        num_words=sum(score.num_words for score in scores),
        num_characters=sum(score.num_characters for score in scores),
    )


def likelihoods(encoder: Encoder, head: NextToken, tokenizer: Tokenizer, texts: Sequence[str]) -> list[Score]:
    """Score texts by a model that reads in one direction."""
    limit = encoder.config.max_length
    backward = encoder.context == "right"  # rows below are in the order in which they are read
    before = tokenizer.opening
    rows: list[list[int]] = []
    places: list[tuple[int, int]] = []  # of each row: its text, and how many of its last tokens are scored
    lengths = []
    for text, tokens in enumerate(tokenizer.encode_batch(texts, specials=False)):
        ids = before + (tokens.ids[::-1] if backward else tokens.ids)
        lengths.append(len(tokens.ids))
        done = first = max(1, len(before))  # without any, the first token has nothing before it
        while done < len(ids):
            begin = 0 if done == first else done - limit // 2
            again = tokenizer.null if begin else []
            end = min(len(ids), begin + limit + 1 - len(again))
            rows.append(again + ids[begin:end])
            places.append((text, end - done))
            done = end
    nats = [0.0] * len(texts)
    with torch.inference_mode():
        for group in by_length([len(row) for row in rows]):
            seen = [rows[number][:-1] for number in group]
            hidden = head.read(encoder(padded([row[::-1] if backward else row for row in seen], encoder.device)))
            read = [hidden[n, : len(row)].flip(0) if backward else hidden[n, : len(row)] for n, row in enumerate(seen)]
            chosen = torch.cat([row[-places[n][1] :] for n, row in zip(group, read, strict=True)])
            targets = torch.tensor([id for n in group for id in rows[n][-places[n][1] :]], device=encoder.device)
            costs = head.nats(encoder, chosen, targets)[0].double()
            ends = [0, *itertools.accumulate(places[n][1] for n in group)]
            for number, first, last in zip(group, ends, ends[1:], strict=False):
                nats[places[number][0]] += float(costs[first:last].sum())
    return _scores("likelihood", texts, nats, lengths)


def pseudo_likelihoods(
    encoder: Encoder, masked: MaskedTokens, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[Score]:
    """Score texts by a masked model, hiding one token at a time."""
    nats, lengths = [0.0] * len(texts), [0] * len(texts)
    asked: list[tuple[int, list[int], int]] = []  # text, row, place of the hidden token
    for row in read(tokenizer, texts, encoder.config.max_length):
        for place, (first, last) in enumerate(row.offsets):
            if last > first:
                asked.append((row.text, row.ids, place))
                lengths[row.text] += 1
    device = encoder.device
    with torch.inference_mode():
        for group in by_length([len(asked[number][1]) for number in range(len(asked))]):
            batch = padded([asked[number][1] for number in group], device)
            places = torch.tensor([asked[number][2] for number in group], device=device)
            rows = torch.arange(len(group), device=device)
            targets = batch.ids[rows, places].clone()
            batch.ids[rows, places] = masked.mask
            hidden = masked.transform(encoder(batch).layers[-1][rows, places])
            costs = token_nats(hidden, encoder.tokens.weight, masked.bias, targets)[0].double()
            for number, cost in zip(group, costs.tolist(), strict=True):
                nats[asked[number][0]] += cost
    return _scores("pseudo-likelihood", texts, nats, lengths)


def _scores(
    kind: Literal["likelihood", "pseudo-likelihood"], texts: Sequence[str], nats: list[float], lengths: list[int]
) -> list[Score]:
    return [
        Score(
            kind=kind,
            nats=nats[n],
            num_tokens=lengths[n],
            num_words=count_words(Text.of([text])),
            num_characters=len(text),
        )
        for n, text in enumerate(texts)
    ]


def _exponential(nats: float, count: int) -> float:
    try:
        return math.exp(nats / count) if count else math.nan
    except OverflowError:
        return math.inf
