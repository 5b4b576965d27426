"""From texts to rows of tokens, as each family reads them.

framed    the frame of pretraining: [CLS] a [SEP] b [SEP] (Devlin et al., 2018), or <s> a </s></s> b </s>
marked    start a delimiter b extract, by three tokens that the task brings along (Radford et al., 2018, section 3.3)
apart     each text in a row of its own, with its frame if it has one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import nn

from polyseme.models.base import Encoder
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Template, Tokenizer

MARKS = ("<|start|>", "<|delimiter|>", "<|extract|>")
Token = tuple[int, tuple[int, int]]  # its id and its characters


def add_marks(encoder: Encoder, tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer with the marks of a task, for which the encoder gets new vectors; others need nothing."""
    if encoder.layout != "marked" or all(tokenizer.id(mark) is not None for mark in MARKS):
        return tokenizer
    tokenizer = tokenizer.with_specials(MARKS)
    ids = _mark_ids(tokenizer)
    weight = encoder.tokens.weight.detach()
    missing = max(0, max(ids) + 1 - len(weight))
    weight = torch.cat([weight, weight.new_empty(missing, weight.shape[1])])
    weight[ids] = 0.02 * torch.randn(len(ids), weight.shape[1], device=weight.device)
    encoder.tokens = nn.Embedding(len(weight), weight.shape[1], _weight=weight)
    encoder.config = encoder.config.replace(vocab_size=len(weight))
    return tokenizer


def _mark_ids(tokenizer: Tokenizer) -> list[int]:
    return [id for mark in MARKS if (id := tokenizer.id(mark)) is not None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Tokens that are read together."""

    ids: list[int]
    segments: list[int]
    offsets: list[tuple[int, int]]  # in the characters of their text; special tokens have none
    unknown: Mapping[int, str] = field(default_factory=dict)  # words to read by their letters, by place


class Layout:
    """How a model reads the texts of a task."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, *, max_length: int) -> None:
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_length = max_length if encoder.any_length else min(max_length, encoder.config.max_length)
        self.joins = encoder.layout != "apart"  # two texts make one row
        self.null = 0  # the place that stands for no answer
        self.single, self.pair = tokenizer.single_template, tokenizer.pair_template
        if encoder.layout == "marked":
            start, delimiter, extract = ([(id, 0)] for id in _mark_ids(tokenizer))
            start = [*((id, 0) for id in tokenizer.null), *start]  # as in pretraining
            self.single, self.pair = Template([start, extract], [0]), Template([start, delimiter, extract], [0, 0])
            self.null = -1  # only it has seen the whole row
        elif not self.joins:
            # Of a question and its passage, the passage alone; a token behind it says that it has no answer.
            before, after = self.single.added
            self.pair = Template([before, [], after or [(self.nothing, 0)]], [0, 0])
            self.null = -1

    def rows(self, groups: Sequence[Sequence[tuple[str, ...]]]) -> list[list[Row]]:
        """Groups of rows of one or two texts each; of two that are too long for a row, the longer is cut."""
        texts = [row for group in groups for row in group]
        template = self.pair if texts and len(texts[0]) == 2 else self.single
        found = zip(texts, self.tokenizer.encode_rows(texts, template, max_length=self.max_length), strict=True)
        rows = (self.row(tokens.ids, tokens.segments, tokens.offsets, text[0]) for text, tokens in found)
        return [list(islice(rows, len(group))) for group in groups]

    def framed(self, tokens: Sequence[Token], text: str) -> Row:
        """A row of some tokens of a text, as many as fit."""
        before, after = self.single.added
        tokens = tokens[: self.max_length - len(before) - len(after)]
        whole = [*before, *((id, self.single.segments[0]) for id, _ in tokens), *after]
        offsets = [*[(0, 0)] * len(before), *(offset for _, offset in tokens), *[(0, 0)] * len(after)]
        return self.row([id for id, _ in whole], [segment for _, segment in whole], offsets, text)

    def row(self, ids: Sequence[int], segments: Sequence[int], offsets: Sequence[tuple[int, int]], text: str) -> Row:
        """A row of tokens of a text; there is always something to read."""
        unknown = {}
        if self.encoder.reads_letters:
            places = [place for place, id in enumerate(ids) if id == self.tokenizer.specials.unknown]
            unknown = {place: self.tokenizer.normalize(text[slice(*offsets[place])]) for place in places}
        if not ids:
            ids, segments, offsets = [self.nothing], [0], [(0, 0)]
        return Row(ids=list(ids), segments=list(segments), offsets=list(offsets), unknown=unknown)

    def batch(self, rows: Sequence[Row], *, group: int = 1) -> Batch:
        """Rows of different lengths together; what stands in the padding is never seen."""
        lengths = np.array([len(row.ids) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids, segments = np.zeros((2, *mask.shape), np.int64)
        ids[mask] = np.concatenate([row.ids for row in rows])
        segments[mask] = np.concatenate([row.segments for row in rows])
        words: dict[str, int] = {}
        for number, row in enumerate(rows):
            for place, word in row.unknown.items():
                ids[number, place] = words.setdefault(word, self.encoder.config.vocab_size + len(words))
        return Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask),
            segments=torch.from_numpy(segments) if segments.any() else None,
            letters=self.encoder.letters(list(words)) if words else None,
            group=group,
        )

    @property
    def nothing(self) -> int:
        """What an empty text consists of."""
        return self.tokenizer.specials.end or 0

    @property
    def unknown(self) -> int:
        """What a word consists of that the tokenizer passes over."""
        unknown = self.tokenizer.specials.unknown
        return self.nothing if unknown is None else unknown
