"""Writing on, a token at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from polyseme.config import Config
from polyseme.models.base import Encoder
from polyseme.objectives.next_token import NextToken
from polyseme.tensors import Batch

MOST_TOGETHER = 8
"""Prompts that are gone on from at once; with more, those that have ended hold up the others."""


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
    encoder: Encoder,
    objective: NextToken,
    prompt: Sequence[int],
    sampling: Sampling,
    end: int | None,
    *,
    num_kept: int = 0,
) -> Iterator[int]:
    """The tokens after `prompt`, until `end` or the limit."""
    for (token,) in generate_together(encoder, objective, [prompt], sampling, end, num_kept=num_kept):
        if token is not None:
            yield token


@dataclass(kw_only=True)
class _Row:
    """A text that is being gone on from."""

    text: list[int]
    place: int  # up to where it was read
    num_left: int  # tokens to write at most
    chance: torch.Generator

    def write(self, logits: Tensor, sampling: Sampling, end: int | None) -> int | None:
        """One token more, where all was read and it has not ended."""
        if self.place < len(self.text):
            return None
        token = choose(logits, self.text, sampling, self.chance) if self.num_left else 0
        self.text.append(token)  # after the end too: rows stay together
        written = token if self.num_left and token != end else None
        self.num_left = 0 if written is None else self.num_left - 1
        return written


def generate_together(
    encoder: Encoder,
    objective: NextToken,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    end: int | None,
    *,
    num_kept: int = 0,
) -> Iterator[list[int | None]]:
    """Step by step the next token after each of `prompts`; None for one that has ended or is still being read.

    All rows are at the same place, so that none is padded: while the shortest prompt is gone on from, the rest of the
    longer ones is read. Past the model's length the older half of the text is forgotten and the rest read again, after
    the first `num_kept` tokens, which are the same in all.
    """
    limit, device = encoder.config.max_length, encoder.device
    rows = [
        _Row(
            text=list(prompt),
            place=max(num_kept, len(prompt) - limit + 1 + num_kept),
            num_left=sampling.max_tokens,
            chance=torch.Generator().manual_seed(sampling.seed),
        )
        for prompt in prompts
    ]
    lengths = [len(row.text) - row.place for row in rows]
    kept, num_new = list(prompts[0][:num_kept]), min(lengths)
    state = encoder.begin(len(rows), min(limit, num_kept + max(lengths) + sampling.max_tokens))
    while any(row.num_left for row in rows):
        if state is not None and state.room is not None and state.length + num_new > state.room:
            for row in rows:
                row.place += num_new - limit // 2
            kept, num_new = list(prompts[0][:num_kept]), limit // 2
            state = encoder.begin(len(rows), limit)
        ids = [kept + row.text[row.place : row.place + num_new] for row in rows]
        kept = []
        with torch.inference_mode():
            encoded = encoder(Batch.of(torch.tensor(ids, device=device)), state)
            logits = objective.logits(encoder, objective.read(encoded)[:, -1]).cpu()  # (B, V)
        state = encoded.state
        for row in rows:
            row.place += num_new
        num_new = 1
        yield [row.write(scores, sampling, end) for row, scores in zip(rows, logits, strict=True)]


def together(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Which prompts of so many tokens to go on from at once: none adds more steps than it saves."""
    group: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) == MOST_TOGETHER or lengths[number] > lengths[group[0]] + max_tokens):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


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
        return int(logits.numpy().argmax())  # five times quicker than torch's
    order = None
    if sampling.top_k:
        logits, order = logits.topk(min(sampling.top_k, len(logits)))
    chances = (logits / sampling.temperature).softmax(-1)
    if sampling.top_p < 1:
        chances, likeliest = _likeliest(chances, sampling.top_p)
        order = likeliest if order is None else order[likeliest]
    # Where a number drawn between 0 and 1 falls: one draw, while torch's own way draws a number for each token.
    sums = chances.cumsum(-1, dtype=torch.float64)
    drawn = torch.rand((), dtype=torch.float64, generator=chance) * sums[-1]
    place = min(int(torch.searchsorted(sums, drawn, right=True)), len(sums) - 1)
    return place if order is None else int(order[place])


def _likeliest(chances: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The fewest that make up `share`, and which they are; mostly a few, so that sorting all would be a waste."""
    number = 64
    while True:
        values, order = chances.topk(min(number, len(chances)))
        before = values.cumsum(-1) - values
        num_kept = max(1, int((before < share).sum()))  # the one that crosses the share still counts
        if num_kept < number:
            return values[:num_kept], order[:num_kept]
        number *= 8
