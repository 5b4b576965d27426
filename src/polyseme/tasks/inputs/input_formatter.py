"""Encode the texts of a task as token sequences, in the input format of each family.

cross_encoder  the format of pretraining: [CLS] a [SEP] b [SEP] (Devlin et al., 2018), or <s> a </s></s> b </s>
delimited      start a delimiter b extract, with three new tokens (Radford et al., 2018, section 3.3)
bi_encoder     each text as a sequence of its own, with its special tokens if it has any
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import nn

from polyseme.batch import Batch
from polyseme.models.base import Encoder
from polyseme.tokenization.templates import Template
from polyseme.tokenization.tokenizer import Tokenizer

DELIMITERS = ("<|start|>", "<|delimiter|>", "<|extract|>")
Token = tuple[int, tuple[int, int]]  # id and offsets


def add_delimiters(encoder: Encoder, tokenizer: Tokenizer) -> Tokenizer:
    """Add delimiter tokens to a tokenizer, and their embeddings to an encoder, if its input format needs them."""
    if encoder.input_format != "delimited" or all(tokenizer.id(token) is not None for token in DELIMITERS):
        return tokenizer
    tokenizer = tokenizer.with_specials(DELIMITERS)
    ids = _delimiter_ids(tokenizer)
    weight = encoder.tokens.weight.detach()
    missing = max(0, max(ids) + 1 - len(weight))
    weight = torch.cat([weight, weight.new_empty(missing, weight.shape[1])])
    weight[ids] = 0.02 * torch.randn(len(ids), weight.shape[1], device=weight.device)
    encoder.tokens = nn.Embedding(len(weight), weight.shape[1], _weight=weight)
    encoder.config = encoder.config.replace(vocab_size=len(weight))
    return tokenizer


def _delimiter_ids(tokenizer: Tokenizer) -> list[int]:
    return [id for token in DELIMITERS if (id := tokenizer.id(token)) is not None]


@dataclass(frozen=True, kw_only=True)
class EncodedRow:
    """A token sequence."""

    ids: list[int]
    segments: list[int]
    oov_words: Mapping[int, str] = field(default_factory=dict)  # out-of-vocabulary words by position


class InputFormatter:
    """Encodes the texts of a task for a model."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, *, max_length: int) -> None:
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_length = max_length if encoder.unlimited_length else min(max_length, encoder.config.max_length)
        self.joins_pairs = encoder.input_format != "bi_encoder"  # two texts form one sequence
        self.null_position = 0  # target of unanswerable questions
        self.single, self.pair = tokenizer.single_template, tokenizer.pair_template
        if encoder.input_format == "delimited":
            start, delimiter, extract = ([(id, 0)] for id in _delimiter_ids(tokenizer))
            start = [*((id, 0) for id in tokenizer.null_prefix), *start]  # as in pretraining
            self.single, self.pair = Template([start, extract], [0]), Template([start, delimiter, extract], [0, 0])
            self.null_position = -1  # the only token that has seen the whole sequence
        elif not self.joins_pairs:
            # A passage without its question, and a token after it as the target of unanswerable questions.
            before, after = self.single.added
            self.pair = Template([before, [], after or [(self.empty_id, 0)]], [0, 0])
            self.null_position = -1

    def rows(self, groups: Sequence[Sequence[tuple[str, ...]]]) -> list[list[EncodedRow]]:
        """Encode groups of one or two texts each; of two texts that are too long together, the longer is truncated."""
        texts = [text for group in groups for text in group]
        template = self.pair if texts and len(texts[0]) == 2 else self.single
        encoded = zip(texts, self.tokenizer.encode_rows(texts, template, max_length=self.max_length), strict=True)
        rows = (self.row(tokens.ids, tokens.segments, tokens.offsets, text[0]) for text, tokens in encoded)
        return [list(islice(rows, len(group))) for group in groups]

    def build_row(self, tokens: Sequence[Token], text: str) -> EncodedRow:
        """Add special tokens to the tokens of a text, as many as fit."""
        before, after = self.single.added
        tokens = tokens[: self.max_length - len(before) - len(after)]
        whole = [*before, *((id, self.single.segments[0]) for id, _ in tokens), *after]
        offsets = [*[(0, 0)] * len(before), *(offset for _, offset in tokens), *[(0, 0)] * len(after)]
        return self.row([id for id, _ in whole], [segment for _, segment in whole], offsets, text)

    def row(
        self, ids: Sequence[int], segments: Sequence[int], offsets: Sequence[tuple[int, int]], text: str
    ) -> EncodedRow:
        """Build a row from tokens and their offsets in a text; an empty one gets a placeholder token."""
        oov_words = {}
        if self.encoder.uses_characters:
            unknown = [position for position, id in enumerate(ids) if id == self.tokenizer.specials.unknown]
            oov_words = {position: self.tokenizer.normalize(text[slice(*offsets[position])]) for position in unknown}
        if not ids:
            ids, segments = [self.empty_id], [0]
        return EncodedRow(ids=list(ids), segments=list(segments), oov_words=oov_words)

    def batch(self, rows: Sequence[EncodedRow], *, rows_per_example: int = 1) -> Batch:
        """Pad rows to a batch."""
        lengths = np.array([len(row.ids) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids, segments = np.zeros((2, *mask.shape), np.int64)
        ids[mask] = np.concatenate([row.ids for row in rows])
        segments[mask] = np.concatenate([row.segments for row in rows])
        words: dict[str, int] = {}
        for number, row in enumerate(rows):
            for position, word in row.oov_words.items():
                ids[number, position] = words.setdefault(word, self.encoder.config.vocab_size + len(words))
        return Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(mask),
            segments=torch.from_numpy(segments) if segments.any() else None,
            oov_characters=self.encoder.oov_characters(list(words)) if words else None,
            rows_per_example=rows_per_example,
        )

    @property
    def empty_id(self) -> int:
        """Token of an empty text."""
        return self.tokenizer.specials.end or 0

    @property
    def unknown_id(self) -> int:
        """Token of a word that the tokenizer drops."""
        unknown = self.tokenizer.specials.unknown
        return self.empty_id if unknown is None else unknown
