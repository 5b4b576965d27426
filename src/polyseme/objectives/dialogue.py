"""Dialogue language modelling: is the response real or from another dialogue (Sun et al., 2019, section 4.2)?

A sequence has three turns: query, response, query (QRQ); or QRR or QQR, which skip the turn between. Segments mark the
speaker. Sequences are padded, because turns are short.
"""

import numpy as np
import torch

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.base import required_ids
from polyseme.objectives.next_sentence import NextSentence, other_document
from polyseme.objectives.sources import TokenSource, rng
from polyseme.tokenization.config import SpecialTokens

REAL, FAKE = 0, 1
QUERY, RESPONSE = 0, 1

# Indices among four successive turns, and their speakers, of QRQ, QRR and QQR.
_TURNS = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3]])
_ROLES = np.array([[QUERY, RESPONSE, QUERY], [QUERY, RESPONSE, RESPONSE], [QUERY, QUERY, RESPONSE]])


class DialogueResponse(NextSentence):
    """Binary classifier on the pooled sequence."""

    name = "dialogue"
    label_names = ("real", "fake")

    def __init__(self, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__(encoder, specials)
        (self.pad,) = required_ids(specials, "pad")
        self.end = specials.end
        if encoder.config.num_segments < 2:
            raise ConfigError("objective.pairs=dialogue marks speakers by segments; set model.num_segments=2")

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        generator = rng(seed, "rows", step)
        store, num_rows = source.store, source.num_rows
        longest = (source.length - 4) // 3  # [CLS] turn [SEP] turn [SEP] turn [SEP]
        starts = source.sequence_starts(source.length, seed=seed, step=step)
        turn = np.searchsorted(store.sentences, starts, side="right") - 1
        dialogue = np.searchsorted(store.documents, turn, side="right") - 1
        first, end = store.documents[dialogue], store.documents[dialogue + 1]
        # A dialogue of three turns has none to skip; shorter ones give fewer turns.
        kind = np.where(end - first > 3, generator.integers(3, size=num_rows), 0)
        begin = np.maximum(first, np.minimum(turn, end - 3 - (kind > 0)))
        turns, roles = begin[:, None] + _TURNS[kind], _ROLES[kind]  # (B, 3)
        present = turns < end[:, None]
        response = 2 - roles[:, ::-1].argmax(axis=1)  # the last one
        rows = np.arange(num_rows)
        fake = (generator.random(num_rows) < 0.5) & present[rows, response]
        turns[rows, response] = np.where(fake, other_document(store, begin, generator), turns[rows, response])

        turns = np.minimum(turns, store.num_sentences - 1)
        starts, ends = store.sentences[turns], store.sentences[turns + 1]
        closed = (source.read(ends - 1) == self.end) & (ends - starts > 1)  # with the end token of its document
        lengths = np.where(present, np.minimum(ends - closed - starts, longest), -1)
        stops = np.cumsum(lengths + 1, axis=1)  # positions of the separators
        column = np.arange(source.length)
        number = (column > stops[:, :2, None]).sum(axis=1)  # of the turn of each token, (B, T)
        begin, stop, role = (np.take_along_axis(of_turn, number, axis=1) for of_turn in (stops - lengths, stops, roles))
        inside = (column >= begin) & (column <= stop)
        positions = np.take_along_axis(starts, number, axis=1) + column - begin
        ids = np.where(inside, source.read(positions), self.pad)
        ids[inside & (column == stop)] = self.separator
        ids[:, 0] = self.start
        units = source.read_units(positions)
        batch = Batch(
            ids=torch.from_numpy(ids),
            mask=torch.from_numpy(column <= stops[:, -1:]),
            segments=torch.from_numpy(np.where(inside, role, 0)),
            units=None if units is None else units * torch.from_numpy(inside),
        )
        return batch.with_labels(self.name, torch.from_numpy(np.where(fake, FAKE, REAL)))
