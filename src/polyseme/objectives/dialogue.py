"""Tell a real dialogue from one with a response from elsewhere (Sun et al., 2019, section 4.2).

A row has three turns: query, response, query; or two responses, or two queries, by leaving out the turn between.
Segments say who speaks. Rows are padded, because what is said is mostly short.
"""

from __future__ import annotations

import numpy as np
import torch

from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.base import Source, generator, required
from polyseme.objectives.next_sentence import NextSentence, another
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Specials

REAL, FAKE = 0, 1
QUERY, RESPONSE = 0, 1

# Which of four turns in a row, and who speaks them: QRQ, QRR, QQR.
_TURNS = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3]])
_ROLES = np.array([[QUERY, RESPONSE, QUERY], [QUERY, RESPONSE, RESPONSE], [QUERY, QUERY, RESPONSE]])


class RealDialogue(NextSentence):
    """Two scores from the summary of the row: real, fake."""

    name = "dialogue"
    answers = ("real", "fake")

    def __init__(self, encoder: Encoder, specials: Specials) -> None:
        super().__init__(encoder, specials)
        (self.pad,) = required(specials, "pad")
        self.end = specials.end
        if encoder.config.num_segments < 2:
            raise ConfigError("objective.pairs: a dialogue needs segments for who speaks; set model.num_segments=2")

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        chance = generator(seed, "rows", step)
        store, num_rows = source.store, source.num_rows
        longest = (source.length - 4) // 3  # [CLS] turn [SEP] turn [SEP] turn [SEP]
        turn = np.searchsorted(store.sentences, source.starts(source.length, seed=seed, step=step), side="right") - 1
        dialogue = np.searchsorted(store.documents, turn, side="right") - 1
        first, end = store.documents[dialogue], store.documents[dialogue + 1]
        # A dialogue of three turns has no turn to leave out; one of fewer has fewer.
        kind = np.where(end - first > 3, chance.integers(3, size=num_rows), 0)
        begin = np.maximum(first, np.minimum(turn, end - 3 - (kind > 0)))
        turns, roles = begin[:, None] + _TURNS[kind], _ROLES[kind]  # (B, 3)
        there = turns < end[:, None]
        response = 2 - roles[:, ::-1].argmax(axis=1)  # the last one
        rows = np.arange(num_rows)
        fake = (chance.random(num_rows) < 0.5) & there[rows, response]
        turns[rows, response] = np.where(fake, another(store, begin, chance), turns[rows, response])

        turns = np.minimum(turns, store.num_sentences - 1)
        starts, ends = store.sentences[turns], store.sentences[turns + 1]
        closed = (source.read(ends - 1) == self.end) & (ends - starts > 1)  # by the end of its document
        lengths = np.where(there, np.minimum(ends - closed - starts, longest), -1)
        stops = np.cumsum(lengths + 1, axis=1)  # where each separator stands
        column = np.arange(source.length)
        ids = np.full((num_rows, source.length), self.pad, dtype=np.int64)
        units = torch.zeros(ids.shape, dtype=torch.uint8)
        segments = np.zeros_like(ids)
        for number in range(3):
            stop = stops[:, number, None]
            mine = (column >= stop - lengths[:, number, None]) & (column <= stop) & there[:, number, None]
            places = (starts[:, number, None] + column - stop + lengths[:, number, None])[mine]
            ids[mine] = source.read(places)
            segments[mine] = np.broadcast_to(roles[:, number, None], mine.shape)[mine]
            bits = source.read_units(places)
            if bits is not None:
                units[torch.from_numpy(mine)] = bits
            ids[mine & (column == stop)] = self.separator
        ids[:, 0] = self.start
        batch = Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(column <= stops[:, -1:]),
            segments=torch.from_numpy(segments),
            units=None if store.units is None else units,
        )
        return batch.labelled(self.name, torch.from_numpy(np.where(fake, FAKE, REAL)))
