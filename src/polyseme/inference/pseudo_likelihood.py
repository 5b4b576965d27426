"""Pseudo-likelihood of masked language models (Salazar et al., 2020): each token is masked in turn and predicted."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch

from polyseme.inference.batching import pack, packed_batch, tokenize_windows
from polyseme.inference.scores import Score, TokenScore, find_oov_words, make_score, top_alternatives
from polyseme.layers.linear_cross_entropy import token_nll
from polyseme.models.base import Encoder
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.tokenization.tokenizer import Tokenizer


@torch.inference_mode()
def score_pseudo_likelihood(
    encoder: Encoder, head: MaskedLm, tokenizer: Tokenizer, texts: Sequence[str], *, top: int | None = None
) -> list[Score]:
    """Score texts by masking one token at a time; with `top`, score each token and list alternatives."""
    nats, lengths = [0.0] * len(texts), [0] * len(texts)
    oov_words: list[list[str]] = [[] for _ in texts]
    tokens: list[list[TokenScore]] = [[] for _ in texts]
    masked = []  # (window, position) of each masked token
    for window in tokenize_windows(tokenizer, texts, encoder.config.max_length):
        positions = [position for position, (first, last) in enumerate(window.offsets) if last > first]
        masked += [(window, position) for position in positions]
        lengths[window.text] += len(positions)
        oov_words[window.text] += find_oov_words(tokenizer, texts[window.text], window.ids, window.offsets)
    for group in pack([len(window.ids) for window, _ in masked]):
        batch = packed_batch([np.array(masked[index][0].ids) for index in group], encoder.device)
        assert batch.packed_lengths is not None
        starts = itertools.accumulate(batch.packed_lengths, initial=0)
        places = [start + masked[index][1] for start, index in zip(starts, group, strict=False)]
        targets = batch.ids[0, places]
        batch.ids[0, places] = head.mask
        hidden = encoder(batch).layers[-1][0, places]
        costs = token_nll(head.transform(hidden), encoder.tokens.weight, head.bias, targets)[0].double()
        alternatives = top_alternatives(head.logits(encoder, hidden), top) if top else [()] * len(group)
        for index, cost, others in zip(group, costs.tolist(), alternatives, strict=True):
            window, position = masked[index]
            nats[window.text] += cost
            if top is not None:
                start, end = window.offsets[position]
                tokens[window.text].append(TokenScore(start=start, end=end, nats=cost, alternatives=others))
    return [
        make_score(
            "pseudo-likelihood",
            tokenizer,
            text,
            {"both": nats[n]},
            num_tokens=lengths[n],
            oov_words=oov_words[n],
            tokens=sorted(tokens[n], key=lambda token: (token.start, token.end)),
        )
        for n, text in enumerate(texts)
    ]
