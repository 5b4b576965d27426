"""How likely a text is, in nats, and per character, token and word.

Causal models: the sum of -ln p(token | all before it), the first token given the end of another document; those that
read from the end, the other way about; those of both directions by the mean of the two, sentence by sentence as they
learn, the ends of sentences counted. A text longer than the model is read in windows that move on by half, each token
scored once with at least half a window before it. Masked models have no likelihood: each token is hidden in turn and
the sum is a *pseudo*-likelihood (Salazar et al., 2020), on a scale of its own.

A word that the vocabulary lacks costs what its token costs and the spelling of its letters (`text/spelling.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.layers.softmax import token_nats
from polyseme.models.base import Encoder
from polyseme.objectives.both_ways import Forward
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.reading import BATCH_TOKENS, by_length, packed, packs, padded, read
from polyseme.text.passages import count_words
from polyseme.text.sentences import split_sentences
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import Text

Kind = Literal["likelihood", "pseudo-likelihood"]
Direction = Literal["forward", "backward"]
Ids = NDArray[np.int64]


Alternatives = tuple[tuple[int, float], ...]  # ids and their nats, the likeliest first
Detail = dict[tuple[int, int], tuple[float, Alternatives]]  # by text and place


@dataclass(frozen=True, kw_only=True)
class TokenScore:
    """The nats of a token, by its characters, and of what else might have stood there."""

    start: int
    end: int
    nats: float
    alternatives: Alternatives


@dataclass(frozen=True, kw_only=True)
class Score:
    """The nats of a text, and what they can be divided by."""

    kind: Kind
    nats: float
    num_tokens: int
    num_words: int
    num_characters: int
    num_unknown: int = 0  # tokens that stand for words which the vocabulary lacks
    spelling: float = 0.0  # nats, among all, of the letters of these words
    directions: Mapping[str, float] = field(default_factory=dict)  # nats of each, where their mean counts
    likeliest: bool = False  # whether every token was the likeliest in its place
    tokens: tuple[TokenScore, ...] = ()  # where they were asked for; of both directions the mean

    @property
    def bits_per_character(self) -> float:
        """Comparable between models and tokenizers."""
        return self.nats / math.log(2) / self.num_characters if self.num_characters else math.nan

    @property
    def perplexity(self) -> float:
        """Per token, so only comparable under one tokenizer."""
        return exponential(self.nats, self.num_tokens)

    @property
    def word_perplexity(self) -> float:
        """Per word; an ideograph counts as one."""
        return exponential(self.nats, self.num_words)


def total(scores: Sequence[Score]) -> Score:
    """The score of all texts as one: nats are added, never perplexities averaged."""
    return Score(
        kind=scores[0].kind,
        nats=math.fsum(score.nats for score in scores),
        num_tokens=sum(score.num_tokens for score in scores),
        num_words=sum(score.num_words for score in scores),
        num_characters=sum(score.num_characters for score in scores),
        num_unknown=sum(score.num_unknown for score in scores),
        spelling=math.fsum(score.spelling for score in scores),
        directions={name: math.fsum(score.directions[name] for score in scores) for name in scores[0].directions},
        likeliest=all(score.likeliest for score in scores),
    )


def exponential(nats: float, count: int) -> float:
    """The perplexity of so many things that cost so much together."""
    try:
        return math.exp(nats / count) if count else math.nan
    except OverflowError:
        return math.inf


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The tokens of a text with those around it, and which of them each direction is asked for."""

    ids: list[int]
    places: Mapping[Direction, Sequence[int]]
    num_tokens: int
    unknown: list[str]  # words that the vocabulary lacks
    spans: Sequence[tuple[int, int]] = ()  # the characters of each token; of those around the text none


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Tokens of a text that are read together."""

    text: int
    ids: list[int]
    # The places that are looked from, the tokens that are looked for, and the places of these in the text.
    looks: Mapping[Direction, tuple[Ids, Ids, Ids]]


def likelihoods(
    encoder: Encoder,
    head: NextToken,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    top: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Score]:
    """Score texts by a model that reads in one direction, or in each of both; with `top`, each token too."""
    if isinstance(head, Forward):
        asked = list(_by_sentence(tokenizer, texts))
    else:
        asked = list(_whole(tokenizer, texts, backward=encoder.context == "right"))
    return _scores(encoder, head, tokenizer, asked, texts, batch_tokens, top)


def continuations(
    encoder: Encoder, head: NextToken, tokenizer: Tokenizer, contexts: Sequence[str], texts: Sequence[str]
) -> list[Score]:
    """Score texts that go on from others, each with the space before it, by a model that reads left to right."""
    around = tokenizer.opening
    asked = []
    # Both are cut into tokens together, as they would be read; a token that they share is asked for.
    wholes = [context + text for context, text in zip(contexts, texts, strict=True)]
    for context, whole, tokens in zip(contexts, wholes, tokenizer.encode_batch(wholes, specials=False), strict=True):
        first = next((place for place, (_, end) in enumerate(tokens.offsets) if end > len(context)), len(tokens.ids))
        asked.append(
            _Asked(
                ids=around + tokens.ids,
                places={"forward": range(len(around) + first, len(around) + len(tokens.ids))},
                num_tokens=len(tokens.ids) - first,
                unknown=_unknown(tokenizer, whole, tokens.ids[first:], tokens.offsets[first:]),
            )
        )
    return _scores(encoder, head, tokenizer, asked, texts)


def pseudo_likelihoods(
    encoder: Encoder,
    masked: MaskedTokens,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    top: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Score]:
    """Score texts by a masked model, hiding one token at a time; with `top`, each token too."""
    nats, lengths = [0.0] * len(texts), [0] * len(texts)
    unknown: list[list[str]] = [[] for _ in texts]
    asked: list[tuple[int, list[int], int]] = []  # text, row, place of the hidden token
    spans: list[tuple[int, int]] = []
    tokens: list[list[TokenScore]] = [[] for _ in texts]
    for row in read(tokenizer, texts, encoder.config.max_length):
        places = [place for place, (first, last) in enumerate(row.offsets) if last > first]
        asked += [(row.text, row.ids, place) for place in places]
        spans += [row.offsets[place] for place in places]
        lengths[row.text] += len(places)
        unknown[row.text] += _unknown(tokenizer, texts[row.text], row.ids, row.offsets)
    with torch.inference_mode():
        for group in packs([len(ids) for _, ids, _ in asked], batch_tokens):
            batch = packed([np.array(asked[number][1]) for number in group], encoder.device)
            assert batch.lengths is not None
            starts = itertools.accumulate(batch.lengths, initial=0)
            hidden = [start + asked[number][2] for start, number in zip(starts, group, strict=False)]
            targets = batch.ids[0, hidden]
            batch.ids[0, hidden] = masked.mask
            read_at = encoder(batch).layers[-1][0, hidden]
            vectors = masked.transform(read_at)
            costs = token_nats(vectors, encoder.tokens.weight, masked.bias, targets)[0].double()
            others = _alternatives(masked.logits(encoder, read_at) if top else None, top, len(group))
            for number, cost, likeliest in zip(group, costs.tolist(), others, strict=True):
                nats[asked[number][0]] += cost
                start, end = spans[number]
                if top is not None:
                    told = TokenScore(start=start, end=end, nats=cost, alternatives=likeliest)
                    tokens[asked[number][0]].append(told)
    return [
        _score(
            "pseudo-likelihood",
            tokenizer,
            text,
            {"both": nats[n]},
            num_tokens=lengths[n],
            unknown=unknown[n],
            tokens=sorted(tokens[n], key=lambda token: (token.start, token.end)),
        )
        for n, text in enumerate(texts)
    ]


def _alternatives(logits: Tensor | None, top: int | None, count: int = 0) -> list[Alternatives]:
    """The likeliest tokens by logits (N, V), as many as are asked for."""
    if not top or logits is None:
        return [()] * (count if logits is None else len(logits))
    best = logits.log_softmax(-1).topk(min(top, logits.shape[-1]))
    return [
        tuple((id, -value) for id, value in zip(ids, values, strict=True))
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _whole(tokenizer: Tokenizer, texts: Sequence[str], *, backward: bool) -> Iterator[_Asked]:
    """Each text after the end of another; for those that read from the end, before the beginning of one."""
    around = tokenizer.opening
    for text, tokens in zip(texts, tokenizer.encode_batch(texts, specials=False), strict=True):
        count, nowhere = len(tokens.ids), [(0, 0)] * len(around)
        first = 0 if backward else len(around)
        yield _Asked(
            ids=tokens.ids + around if backward else around + tokens.ids,
            places={"backward" if backward else "forward": range(first, first + count)},
            num_tokens=count,
            unknown=_unknown(tokenizer, text, tokens.ids, tokens.offsets),
            spans=tokens.offsets + nowhere if backward else nowhere + tokens.offsets,
        )


def _by_sentence(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[_Asked]:
    """Each text sentence by sentence; each direction is asked for the end that it comes to, but not for the other."""
    before, after = tokenizer.frame
    sentences = [split_sentences(text) for text in texts]
    encoded = iter(tokenizer.encode_batch([one for some in sentences for one in some], specials=False))
    for text, some in zip(texts, sentences, strict=True):
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        end = 0
        places: dict[Direction, list[int]] = {"forward": [], "backward": []}
        unknown: list[str] = []
        for sentence, tokens in zip(some, encoded, strict=False):
            begin = max(end, text.find(sentence, end))
            end = begin + len(sentence)
            if not tokens.ids:
                continue
            inside = [(begin + start, begin + stop) for start, stop in tokens.offsets]
            spans += [*[(0, 0)] * len(before), *inside, *[(0, 0)] * len(after)]
            first = len(ids) + len(before)
            places["backward"] += range(len(ids), first + len(tokens.ids))
            ids += [*before, *tokens.ids, *after]
            places["forward"] += range(first, len(ids))
            unknown += _unknown(tokenizer, sentence, tokens.ids, tokens.offsets)
        yield _Asked(ids=ids, places=places, num_tokens=len(places["forward"]), unknown=unknown, spans=spans)


def spell_unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Nats of the letters of those words of some texts that the vocabulary lacks."""
    encoded = zip(texts, tokenizer.encode_batch(texts, specials=False), strict=True)
    return math.fsum(_spell(tokenizer, _unknown(tokenizer, text, one.ids, one.offsets)) for text, one in encoded)


def _spell(tokenizer: Tokenizer, words: Sequence[str]) -> float:
    return math.fsum(tokenizer.spelling.nats(word) for word in words) if words else 0.0


def _unknown(tokenizer: Tokenizer, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[str]:
    """The words of a text that the vocabulary lacks; where published texts say <unk> themselves, that is meant."""
    unknown = tokenizer.specials.unknown
    if unknown is None or unknown not in ids:
        return []
    words = [text[first:last] for id, (first, last) in zip(ids, offsets, strict=True) if id == unknown and last > first]
    return [tokenizer.normalize(word) for word in words if word != tokenizer.token(unknown)]


def _windows(number: int, asked: _Asked, limit: int, again: list[int]) -> Iterator[_Window]:
    """What is read of a text, in stretches as long as the model that move on by half, each after `again`."""
    if len(asked.places) > 1:
        return _windows_both(number, asked, limit)
    ((direction, places),) = asked.places.items()
    return _windows_one(number, asked, direction, places, limit, again)


def _windows_one(
    number: int, asked: _Asked, direction: Direction, places: Sequence[int], limit: int, again: list[int]
) -> Iterator[_Window]:
    length, turned = len(asked.ids), direction == "backward"
    ids, wanted = np.array(asked.ids, dtype=np.int64), np.array(places, dtype=np.int64)
    if turned:  # in the order in which they are read
        ids, wanted = ids[::-1], length - 1 - wanted[::-1]
    wanted = wanted[wanted > 0]  # the first has nothing before it
    done = wanted[0] if len(wanted) else length
    while done < length:
        begin = max(0, min(done - limit // 2, length - limit - 1 + len(again)))
        before = again if begin else []
        end = min(length, begin + limit + 1 - len(before))
        here = wanted[(wanted >= done) & (wanted < end)]
        row, looked = np.concatenate([np.array(before, np.int64), ids[begin : end - 1]]), len(before) + here - 1 - begin
        if turned:
            row, looked = row[::-1], len(row) - 1 - looked
        where = length - 1 - here if turned else here
        yield _Window(text=number, ids=row.tolist(), looks={direction: (looked, ids[here], where)})
        done = end


def _windows_both(number: int, asked: _Asked, limit: int) -> Iterator[_Window]:
    """One reading serves both directions: what is far enough from its beginning, and what is from its end."""
    ids, last = np.array(asked.ids, dtype=np.int64), max(0, len(asked.ids) - limit)
    forward, backward = (np.array(asked.places[way], dtype=np.int64) for way in ("forward", "backward"))
    forward, backward = forward[forward > 0], backward[backward < len(ids) - 1]
    begins = [*range(0, last, limit // 2), last, len(ids)]
    done = 0
    for begin, following in itertools.pairwise(begins if len(ids) else ()):
        end = begin + limit
        ahead = forward[(forward >= done) & (forward < end)]
        behind = backward[(backward >= begin) & (backward < following)]
        looks: dict[Direction, tuple[Ids, Ids, Ids]] = {
            "forward": (ahead - 1 - begin, ids[ahead], ahead),
            "backward": (behind + 1 - begin, ids[behind], behind),
        }
        yield _Window(text=number, ids=ids[begin:end].tolist(), looks=looks)
        done = end


def _costs(
    encoder: Encoder,
    head: NextToken,
    asked: Sequence[_Asked],
    batch_tokens: int,
    again: list[int],
    top: int | None = None,
) -> tuple[dict[Direction, NDArray[np.float64]], NDArray[np.bool_], dict[Direction, Detail]]:
    """The nats of each text in each direction, whether all of its tokens were the likeliest, and their nats."""
    windows = [window for n, one in enumerate(asked) for window in _windows(n, one, encoder.config.max_length, again)]
    nats = {direction: np.zeros(len(asked)) for one in asked[:1] for direction in one.places}
    likeliest = np.ones(len(asked), dtype=np.bool_)
    details: dict[Direction, Detail] = {direction: {} for direction in nats}
    with torch.inference_mode():
        for group in by_length([len(window.ids) for window in windows], batch_tokens):
            read = [windows[number] for number in group]
            encoded = encoder(padded([window.ids for window in read], encoder.device))
            for direction, sums in nats.items():
                some = [(row, *window.looks[direction]) for row, window in enumerate(read) if direction in window.looks]
                if not some:
                    continue
                rows = np.repeat([row for row, *_ in some], [len(places) for _, places, *_ in some])
                where = [rows, np.concatenate([places for _, places, *_ in some])]
                targets = torch.from_numpy(np.concatenate([ids for *_, ids, _ in some])).to(encoder.device)
                read_from = head.read_back if isinstance(head, Forward) and direction == "backward" else head.read
                vectors = read_from(encoded)
                vectors = vectors[*map(torch.from_numpy, where)]
                costs, right = head.nats(encoder, vectors, targets)
                texts = np.array([window.text for window in read])[rows]
                if top is not None:
                    others = _alternatives(head.logits(encoder, vectors) if top else None, top, len(vectors))
                    wanted = np.concatenate([places for *_, places in some]).tolist()
                    told = zip(costs.tolist(), others, strict=True)
                    details[direction].update(zip(zip(texts.tolist(), wanted, strict=True), told, strict=True))
                np.add.at(sums, texts, costs.double().cpu().numpy())
                np.logical_and.at(likeliest, texts, right.cpu().numpy())
    return nats, likeliest, details


def _tokens(number: int, asked: _Asked, details: Mapping[Direction, Detail]) -> list[TokenScore]:
    """The tokens of a text; of both directions the mean, and what the first of them would have said instead."""
    tokens = []
    for place, (start, end) in enumerate(asked.spans):
        found = [of_direction[number, place] for of_direction in details.values() if (number, place) in of_direction]
        if end > start and found:
            mean = math.fsum(nats for nats, _ in found) / len(found)
            tokens.append(TokenScore(start=start, end=end, nats=mean, alternatives=found[0][1]))
    return tokens


def _scores(
    encoder: Encoder,
    head: NextToken,
    tokenizer: Tokenizer,
    asked: Sequence[_Asked],
    texts: Sequence[str],
    batch_tokens: int = BATCH_TOKENS,
    top: int | None = None,
) -> list[Score]:
    nats, likeliest, details = _costs(encoder, head, asked, batch_tokens, tokenizer.null, top)
    return [
        _score(
            "likelihood",
            tokenizer,
            text,
            {direction: float(sums[n]) for direction, sums in nats.items()},
            num_tokens=one.num_tokens,
            unknown=one.unknown,
            likeliest=bool(likeliest[n]) and not one.unknown,
            tokens=_tokens(n, one, details) if top is not None else (),
        )
        for n, (text, one) in enumerate(zip(texts, asked, strict=True))
    ]


def _score(
    kind: Kind,
    tokenizer: Tokenizer,
    text: str,
    nats: Mapping[str, float],
    *,
    num_tokens: int,
    unknown: Sequence[str],
    likeliest: bool = False,
    tokens: Sequence[TokenScore] = (),
) -> Score:
    spelling = _spell(tokenizer, unknown)
    directions = {direction: cost + spelling for direction, cost in nats.items()}
    return Score(
        kind=kind,
        nats=math.fsum(directions.values()) / len(directions),
        num_tokens=num_tokens,
        num_words=count_words(Text.of([text])),
        num_characters=len(text),
        num_unknown=len(unknown),
        spelling=spelling,
        directions=directions if len(directions) > 1 else {},
        likeliest=likeliest,
        tokens=tuple(tokens),
    )
