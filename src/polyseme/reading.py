"""Texts of any length into batches that fit a model: cut in windows, grouped by length, padded little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from polyseme.tensors import Batch
from polyseme.text.tokenizer import Tokenizer

BATCH_TOKENS = 4096
"""Tokens that go through a model at once while it is used; more is not faster on a CPU."""


@dataclass(frozen=True)
class Row:
    """A stretch of a text that fits the model, special tokens included."""

    text: int  # which text it is of
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # in the text's characters; special tokens are empty


def read(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[Row]:
    """Cut texts into rows of at most `limit` tokens, each with the special tokens that the model expects."""
    before, after = tokenizer.frame
    room = limit - len(before) - len(after)
    names = {id: tokenizer.token(id) for id in before + after}
    rows = []
    for number, tokens in enumerate(tokenizer.encode_batch(texts, specials=False)):
        for start in range(0, max(1, len(tokens.ids)), room):
            part = slice(start, start + room)
            ids = [*before, *tokens.ids[part], *after]
            if not ids:  # an empty text still has to be something
                ids = [tokenizer.specials.end or 0]
                rows.append(Row(number, ids, [tokenizer.token(ids[0])], [(0, 0)]))
                continue
            around = [names[id] for id in before], [names[id] for id in after]
            first = tokens.offsets[start][0] if tokens.ids else 0
            last = tokens.offsets[part][-1][1] if tokens.ids else 0
            offsets = [*[(first, first)] * len(before), *tokens.offsets[part], *[(last, last)] * len(after)]
            rows.append(Row(number, ids, [*around[0], *tokens.tokens[part], *around[1]], offsets))
    return rows


def by_length(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Groups of rows of similar length, the longest first, so that too little memory shows at once."""
    group: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if group and (len(group) + 1) * lengths[group[0]] > batch_tokens:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> Batch:
    """Rows of different lengths as one batch; what stands in the padding is never seen."""
    length = max(map(len, rows))
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    mask = torch.zeros((len(rows), length), dtype=torch.bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = True
    return Batch(ids=ids, mask=mask).to(device)
