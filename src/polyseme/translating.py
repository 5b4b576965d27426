"""Translating: the likeliest translation is searched for among several that are written side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from polyseme.config import Config
from polyseme.models.base import Encoder
from polyseme.objectives.translation import Translation
from polyseme.reading import BATCH_TOKENS, by_length, padded
from polyseme.tensors import Batch


class Beam(Config):
    """How a translation is searched for; the defaults are those of Vaswani et al. (2017)."""

    size: int = Field(4, ge=1, le=100)  # translations of a text that are followed at once; 1: always the likeliest word
    length_penalty: float = Field(0.6, ge=0, le=10)  # above 0, longer ones are preferred (Wu et al., 2016)
    max_extra: int = Field(50, ge=0)  # tokens that a translation may have more than its source


def translate_ids(encoder: Encoder, head: Translation, rows: Sequence[Sequence[int]], beam: Beam) -> list[list[int]]:
    """The translation of each row, those of similar length together."""
    found: list[list[int]] = [[] for _ in rows]
    for group in by_length([len(row) for row in rows], max(1, BATCH_TOKENS // beam.size)):
        batch = padded([rows[number] for number in group], encoder.device)
        for number, translation in zip(group, _search(encoder, head, batch, beam), strict=True):
            found[number] = translation
    return found


@torch.inference_mode()
def _search(encoder: Encoder, head: Translation, batch: Batch, beam: Beam) -> list[list[int]]:
    size, device = beam.size, batch.ids.device
    limits = (batch.mask.sum(1) + beam.max_extra).clamp(max=encoder.config.max_length).tolist()
    writing = head.decoder.begin(encoder(batch), max(limits))
    writing.select(torch.arange(len(batch.ids), device=device).repeat_interleave(size))
    never = torch.tensor([head.pad, head.unknown, head.start], device=device)
    rows = list(range(len(batch.ids)))  # that have not ended
    ended: list[list[tuple[float, list[int]]]] = [[] for _ in rows]
    texts = torch.full((len(rows), size, 1), head.start, device=device)
    scores = torch.full((len(rows), size), float("-inf"), device=device)
    scores[:, 0] = 0.0  # all begin alike, and only one of them counts
    for length in range(1, max(limits) + 1):
        hidden = head.decoder(encoder, texts[:, :, -1:].flatten(0, 1), writing).hidden[:, -1]
        nats = head.logits(encoder, hidden).log_softmax(-1)  # (rows · size, V)
        nats[:, never] = float("-inf")
        vocab_size = nats.shape[-1]
        sums = (scores[..., None] + nats.view(len(rows), size, -1)).flatten(1)
        best = sums.topk(2 * size)  # of which at least half go on
        before, token = best.indices // vocab_size, best.indices % vocab_size
        ends = token == head.end
        penalty = ((5 + length) / 6) ** beam.length_penalty
        for row, place in (ends & best.values.isfinite())[:, :size].nonzero().tolist():
            text = texts[row, before[row, place], 1:].tolist()
            ended[rows[row]].append((float(best.values[row, place]) / penalty, text))
        kept = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # the best that have not ended
        scores, before, token = (part.gather(1, kept) for part in (best.values, before, token))
        texts = torch.cat([texts.take_along_dim(before[..., None], 1), token[..., None]], -1)
        for row, number in enumerate(rows):
            if length == limits[number] and not ended[number]:
                ended[number].append((0.0, texts[row, 0, 1:].tolist()))
        going = [row for row, number in enumerate(rows) if len(ended[number]) < size and length < limits[number]]
        if not going:
            break
        chosen = torch.tensor(going, device=device)
        rows, texts, scores = [rows[row] for row in going], texts[chosen], scores[chosen]
        writing.select((size * chosen[:, None] + before[chosen]).flatten())
    return [max(translations)[1] for translations in ended]


@torch.inference_mode()
def attention(encoder: Encoder, head: Translation, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """How much each token of a translation looked at each of its source while it was written, (T, S)."""
    device = encoder.device
    encoded = encoder(Batch.of(torch.tensor([list(source)], device=device)))
    before = torch.tensor([[head.start, *target]], device=device)  # the last of which is asked for no more
    return head.decoder(encoder, before, head.decoder.begin(encoded)).attention[0, :-1]  # type: ignore[no-any-return]
