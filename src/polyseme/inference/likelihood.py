"""Log-likelihood of texts under language models, in nats.

A causal model gives the sum of -ln p(token | all tokens before it), the first token given the end of another document;
a backward model the same from the other side; a bidirectional model (ELMo) the mean of its two directions, sentence by
sentence as in training, the ends of sentences included. OOV words are charged for their token and for their spelling
(`tokenization/oov_model.py`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from polyseme.arrays import Doubles, Flags
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.inference.batching import bucket_by_length, padded_batch
from polyseme.inference.scores import Alternatives, Score, TokenScore, find_oov_words, make_score, top_alternatives
from polyseme.inference.windows import Direction, ScoringRequest, scoring_windows
from polyseme.models.base import Encoder
from polyseme.objectives.bidirectional_lm import BidirectionalLm
from polyseme.objectives.causal_lm import CausalLm
from polyseme.tokenization.tokenizer import Tokenizer

_MAX_LOGITS = 1 << 24
TokenDetails = dict[tuple[int, int], tuple[float, Alternatives]]  # nats and alternatives by text and position


def score_texts(
    encoder: Encoder, head: CausalLm, tokenizer: Tokenizer, texts: Sequence[str], *, top: int | None = None
) -> list[Score]:
    """Score texts by a language model; with `top`, score each token and list alternatives."""
    if isinstance(head, BidirectionalLm):
        requests = list(_sentence_requests(tokenizer, texts))
    else:
        requests = list(_document_requests(tokenizer, texts, backward=encoder.context == "right"))
    return _score(encoder, head, tokenizer, requests, texts, top)


def score_continuations(
    encoder: Encoder, head: CausalLm, tokenizer: Tokenizer, contexts: Sequence[str], texts: Sequence[str]
) -> list[Score]:
    """Score texts as continuations of contexts, each with the space before it."""
    # Context and text are tokenized together, as the model would read them; a token that spans both is scored.
    joined = [context + text for context, text in zip(contexts, texts, strict=True)]
    requests = _document_requests(tokenizer, joined, ends_of_context=list(map(len, contexts)))
    return _score(encoder, head, tokenizer, list(requests), texts)


def _document_requests(
    tokenizer: Tokenizer, texts: Sequence[str], *, ends_of_context: Sequence[int] = (), backward: bool = False
) -> Iterator[ScoringRequest]:
    """Each text after the end of another document; for backward models, before the beginning of one.

    Tokens that end within the context, if there is one, are read but not scored.
    """
    prefix = tokenizer.generation_prefix
    encoded = tokenizer.encode_batch(texts, specials=False)
    for text, context, tokens in zip(texts, ends_of_context or [-1] * len(texts), encoded, strict=True):
        scored = next((index for index, (_, end) in enumerate(tokens.offsets) if end > context), len(tokens.ids))
        no_offsets, first = [(0, 0)] * len(prefix), 0 if backward else len(prefix)
        yield ScoringRequest(
            ids=tokens.ids + prefix if backward else prefix + tokens.ids,
            targets={"backward" if backward else "forward": range(first + scored, first + len(tokens.ids))},
            oov_words=find_oov_words(tokenizer, text, tokens.ids[scored:], tokens.offsets[scored:]),
            offsets=tokens.offsets + no_offsets if backward else no_offsets + tokens.offsets,
        )


def _sentence_requests(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[ScoringRequest]:
    """Each text sentence by sentence; each direction predicts the boundary that it arrives at, not the other one."""
    before, after = tokenizer.special_template
    sentences = [split_sentences(text) for text in texts]
    encoded = iter(tokenizer.encode_batch([one for some in sentences for one in some], specials=False))
    for text, some in zip(texts, sentences, strict=True):
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        end = 0
        targets: dict[Direction, list[int]] = {"forward": [], "backward": []}
        oov_words: list[str] = []
        for sentence, tokens in zip(some, encoded, strict=False):
            begin = max(end, text.find(sentence, end))
            end = begin + len(sentence)
            if not tokens.ids:
                continue
            inside = [(begin + start, begin + stop) for start, stop in tokens.offsets]
            offsets += [*[(0, 0)] * len(before), *inside, *[(0, 0)] * len(after)]
            first = len(ids) + len(before)
            targets["backward"] += range(len(ids), first + len(tokens.ids))
            ids += [*before, *tokens.ids, *after]
            targets["forward"] += range(first, len(ids))
            oov_words += find_oov_words(tokenizer, sentence, tokens.ids, tokens.offsets)
        yield ScoringRequest(ids=ids, targets=targets, oov_words=oov_words, offsets=offsets)


def _score(
    encoder: Encoder,
    head: CausalLm,
    tokenizer: Tokenizer,
    requests: Sequence[ScoringRequest],
    texts: Sequence[str],
    top: int | None = None,
) -> list[Score]:
    nats, greedy, details = _token_costs(encoder, head, requests, tokenizer.null_prefix, top)
    return [
        make_score(
            "likelihood",
            tokenizer,
            text,
            {direction: float(sums[n]) for direction, sums in nats.items()},
            num_tokens=len(next(iter(request.targets.values()))),
            oov_words=request.oov_words,
            is_greedy=bool(greedy[n]) and not request.oov_words,
            tokens=_token_scores(n, request, details) if top is not None else (),
        )
        for n, (text, request) in enumerate(zip(texts, requests, strict=True))
    ]


@torch.inference_mode()
def _token_costs(
    encoder: Encoder, head: CausalLm, requests: Sequence[ScoringRequest], prefix: list[int], top: int | None
) -> tuple[dict[Direction, Doubles], Flags, dict[Direction, TokenDetails]]:
    """The nats of each text in each direction, whether every token was the most probable, and costs by token."""
    max_length = encoder.config.max_length
    windows = [window for n, one in enumerate(requests) for window in scoring_windows(n, one, max_length, prefix)]
    nats = {direction: np.zeros(len(requests)) for one in requests[:1] for direction in one.targets}
    greedy = np.ones(len(requests), dtype=np.bool_)
    details: dict[Direction, TokenDetails] = {direction: {} for direction in nats}
    for group in bucket_by_length([len(window.ids) for window in windows]):
        batch = [windows[index] for index in group]
        encoded = encoder(padded_batch([window.ids for window in batch], encoder.device))
        for direction, sums in nats.items():
            targets = [window.targets[direction] for window in batch]
            rows = np.repeat(np.arange(len(batch)), [len(some.ids) for some in targets])
            sources = np.concatenate([some.sources for some in targets])
            ids = torch.from_numpy(np.concatenate([some.ids for some in targets])).to(encoder.device)
            if isinstance(head, BidirectionalLm) and direction == "backward":
                hidden = head.backward_hidden_states(encoded)
            else:
                hidden = head.hidden_states(encoded)
            hidden = hidden[torch.from_numpy(rows), torch.from_numpy(sources)]
            costs, correct = head.token_nll(encoder, hidden, ids)
            texts = np.array([window.text for window in batch])[rows]
            if top is not None:
                alternatives = _alternatives(encoder, head, hidden, top) if top else [()] * len(hidden)
                positions = np.concatenate([some.positions for some in targets]).tolist()
                of_token = zip(costs.tolist(), alternatives, strict=True)
                details[direction].update(zip(zip(texts.tolist(), positions, strict=True), of_token, strict=True))
            np.add.at(sums, texts, costs.double().cpu().numpy())
            np.logical_and.at(greedy, texts, correct.cpu().numpy())
    return nats, greedy, details


def _alternatives(encoder: Encoder, head: CausalLm, hidden: Tensor, top: int) -> list[Alternatives]:
    """The most probable tokens by hidden states (N, D), without holding all logits of a large vocabulary at once."""
    parts = torch.split(hidden, max(1, _MAX_LOGITS // encoder.config.vocab_size))
    return [one for part in parts for one in top_alternatives(head.logits(encoder, part), top)]


def _token_scores(text: int, request: ScoringRequest, details: Mapping[Direction, TokenDetails]) -> list[TokenScore]:
    """The scores of the tokens of a text; of two directions the mean, with the alternatives of the first."""
    tokens = []
    for position, (start, end) in enumerate(request.offsets):
        found = [costs[text, position] for costs in details.values() if (text, position) in costs]
        if end > start and found:
            mean = math.fsum(nats for nats, _ in found) / len(found)
            tokens.append(TokenScore(start=start, end=end, nats=mean, alternatives=found[0][1]))
    return tokens
