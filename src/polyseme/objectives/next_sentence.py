"""Tell whether the second half of a row follows the first (Devlin et al., 2018, section 3.1).

Rows are filled to the last token: a row is a stretch of text cut in two at a sentence end, and for half of
the rows the second part is taken from elsewhere. Where the only cut is the end of a document, what follows
is another text, so the pair counts as not following; the paper's code does the same with lone sentences.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, Source, generator, required
from polyseme.tensors import Batch, Encoded, Outcome
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

FOLLOWS, ELSEWHERE = 0, 1


class NextSentence(Objective):
    """Two scores from the summary of the row: it follows, it does not."""

    def __init__(self, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        self.start, self.separator = required(specials, "start", "separator")
        self.output = nn.Linear(encoder.widths[-1], 2)
        self.apply(initialize)

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        chance = generator(seed, "rows", step)
        store, num_rows = source.store, source.num_rows
        inside = source.length - 3  # [CLS] first [SEP] second [SEP]
        # Rows begin where a sentence does.
        sentence = np.searchsorted(store.sentences, source.starts(inside, seed=seed, step=step), side="right") - 1
        begin = store.sentences[sentence]
        # Cut at one of the sentence ends inside the row, or in the middle of a sentence that fills it.
        last = np.searchsorted(store.sentences, begin + inside, side="left") - 1
        cut_sentence = sentence + 1 + (chance.random(num_rows) * np.maximum(last - sentence, 0)).astype(np.int64)
        whole = last > sentence
        cut = np.where(whole, store.sentences[np.minimum(cut_sentence, last)], begin + inside // 2) - begin
        at_document = store.documents[np.searchsorted(store.documents, cut_sentence)] == cut_sentence
        label = np.where(at_document & whole | (chance.random(num_rows) < 0.5), ELSEWHERE, FOLLOWS)
        other = store.sentences[_another(store, sentence, chance)]

        place = np.arange(inside)[None, :]  # in the row, special tokens left out
        second = place >= cut[:, None]
        follows = begin[:, None] + place
        elsewhere = other[:, None] + place - cut[:, None]
        text = source.read(np.where(second & (label == ELSEWHERE)[:, None], elsewhere, follows))

        ids = np.full((num_rows, source.length), self.separator, dtype=np.int64)
        ids[:, 0] = self.start
        segments = np.zeros_like(ids)
        rows = np.arange(num_rows)[:, None]
        ids[rows, place + 1 + second] = text
        segments[rows, place + 1 + second] = second
        segments[:, -1] = 1
        batch = Batch.of(torch.from_numpy(ids), segments=torch.from_numpy(segments))
        return batch.labelled("next", torch.from_numpy(label))

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        scores = self.output(encoder.summarize(encoded))  # (B, 2)
        labels = batch.labels["next"]
        loss = F.cross_entropy(scores, labels, reduction="sum")
        return Outcome(losses={"next": loss}, correct={"next": (scores.argmax(-1) == labels).sum()})


def _another(store: Store, sentence: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """A sentence of another document for each, or any sentence of the only one."""
    document = np.searchsorted(store.documents, sentence, side="right") - 1
    if store.num_documents > 1:
        document = (document + 1 + chance.integers(store.num_documents - 1, size=len(sentence))) % store.num_documents
    first, end = store.documents[document], store.documents[document + 1]
    return np.asarray(first + (chance.random(len(sentence)) * (end - first)), dtype=np.int64)
