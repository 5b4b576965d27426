"""Writing on, a token at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from polyseme.config import Config
from polyseme.models.base import Encoder
from polyseme.objectives.next_token import NextToken
from polyseme.tensors import Batch


class Sampling(Config):
    """How the next token is chosen; the defaults take the likeliest."""

    max_tokens: int = Field(50, ge=1)  # to write at most
    temperature: float = Field(0.0, ge=0, le=1000)  # 0: always the likeliest; 1: as likely as the model says
    top_k: int = Field(0, ge=0)  # choose among so many of the likeliest; 0: all
    top_p: float = Field(1.0, gt=0, le=1)  # choose among the likeliest that make up this share
    repetition_penalty: float = Field(1.0, gt=0)  # above 1, what was written already becomes less likely
    seed: int = Field(0, ge=0, lt=2**63)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # texts at which to end


def generate_ids(
    encoder: Encoder, objective: NextToken, prompt: list[int], sampling: Sampling, end: int | None
) -> Iterator[int]:
    """The tokens after `prompt`, until `end` or the limit.

    Past the model's length the older half of the text is forgotten and the rest read again.
    """
    limit = encoder.config.max_length
    chance = torch.Generator().manual_seed(sampling.seed)
    seen = list(prompt)
    unread = seen[-(limit - 1) :] if len(seen) >= limit else seen
    state = encoder.begin(1, min(limit, len(unread) + sampling.max_tokens))
    for _ in range(sampling.max_tokens):
        if state is not None and state.room is not None and state.length + len(unread) > state.room:
            unread = seen[-(limit // 2) :]
            state = encoder.begin(1, limit)
        with torch.inference_mode():
            encoded = encoder(Batch.of(torch.tensor([unread])), state)
            logits = objective.logits(encoder, encoded.layers[-1][0, -1])
            state = encoded.state
            token = choose(logits, seen, sampling, chance)
        if token == end:
            return
        yield token
        seen.append(token)
        unread = [token]


def choose(logits: Tensor, seen: list[int], sampling: Sampling, chance: torch.Generator) -> int:
    """One token from the scores of all, (V,)."""
    if sampling.repetition_penalty != 1.0 and seen:
        logits = logits.clone()
        before = torch.tensor(sorted(set(seen)))
        scores = logits[before]
        # Keskar et al., 2019: divide what speaks for a token, multiply what speaks against it.
        penalty = sampling.repetition_penalty
        logits[before] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if sampling.temperature < 1e-4:  # dividing by less would overflow
        return int(logits.argmax())
    logits = logits / sampling.temperature
    if sampling.top_k:
        least = logits.topk(min(sampling.top_k, len(logits))).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if sampling.top_p < 1:
        ordered, order = logits.softmax(-1).sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= sampling.top_p  # the one that crosses the share still counts
        logits = logits.index_fill(0, order[beyond], float("-inf"))
    return int(torch.multinomial(logits.softmax(-1), 1, generator=chance))
