"""Tell whether the second half of a row follows the first (Devlin et al., 2018, section 3.1).

Rows are filled to the last token: a row is a stretch of text cut in two at a sentence end, and for half of
the rows the second part is taken from elsewhere. Where the only cut is the end of a document, what follows
is another text, so the pair counts as not following; the paper's code does the same with lone sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, Source, generator, required
from polyseme.tensors import Batch, Encoded, Outcome
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials
from polyseme.text.utf16 import Flags, Numbers

FOLLOWS, ELSEWHERE = 0, 1


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Stretches of text, one a row, each cut in two, and where else a second part could come from."""

    begin: Numbers
    length: int
    cut: Numbers  # the length of the first part
    last: Numbers  # the length of the sentence before the cut
    apart: Flags  # cut at the end of a document
    elsewhere: Numbers  # where a sentence of another document begins


class NextSentence(Objective):
    """Two scores from the summary of the row: it follows, it does not."""

    name: ClassVar[str] = "next"
    answers = ("follows", "elsewhere")

    def __init__(self, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        self.start, self.separator = required(specials, "start", "separator")
        # A family without segments tells the parts apart by a second separator (Liu et al., 2019).
        self.num_between = 1 if encoder.config.num_segments > 1 else 2
        self.output = nn.Linear(encoder.widths[-1], 2)
        self.apply(initialize)

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        chance = generator(seed, "rows", step)
        store, num_rows = source.store, source.num_rows
        inside = source.length - 2 - self.num_between  # [CLS] first [SEP] second [SEP]
        # Rows begin where a sentence does.
        sentence = np.searchsorted(store.sentences, source.starts(inside, seed=seed, step=step), side="right") - 1
        begin = store.sentences[sentence]
        # Cut at one of the sentence ends inside the row, or in the middle of a sentence that fills it.
        last = np.searchsorted(store.sentences, begin + inside, side="left") - 1
        cut_sentence = sentence + 1 + (chance.random(num_rows) * np.maximum(last - sentence, 0)).astype(np.int64)
        whole = last > sentence
        cut = np.where(whole, store.sentences[np.minimum(cut_sentence, last)], begin + inside // 2) - begin
        before = np.where(whole, store.sentences[cut_sentence] - store.sentences[cut_sentence - 1], 1)
        apart = whole & (store.documents[np.searchsorted(store.documents, cut_sentence)] == cut_sentence)
        changed = chance.random(num_rows) < 0.5
        elsewhere = store.sentences[another(store, sentence, chance)]
        cuts = Cuts(begin=begin, length=inside, cut=cut, last=before, apart=apart, elsewhere=elsewhere)
        first, num_first, second, label = self.arrange(cuts, changed, chance)

        column = np.arange(source.length)[None, :]
        end = num_first[:, None] + 1  # of the first part
        behind = column >= end + self.num_between
        # A separator stands where the text would go on: a unit that is cut there then holds a special token.
        places = column - 1 + np.where(behind, second[:, None] + 1 - end - self.num_between, first[:, None])
        ids = source.read(places)
        ids[~behind & (column >= end)] = ids[:, -1] = self.separator
        ids[:, 0] = self.start
        segments = torch.from_numpy(behind.astype(np.int64)) if self.num_between == 1 else None
        batch = Batch.of(torch.from_numpy(ids), segments=segments, units=source.read_units(places))
        return batch.labelled(self.name, torch.from_numpy(label))

    def arrange(
        self, cuts: Cuts, changed: Flags, chance: np.random.Generator
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Where the first part begins and how long it is, where the second begins, and the label."""
        label = np.where(cuts.apart | changed, ELSEWHERE, FOLLOWS)
        return cuts.begin, cuts.cut, np.where(label == ELSEWHERE, cuts.elsewhere, cuts.begin + cuts.cut), label

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        scores = self.output(encoder.summarize(encoded))  # (B, 2)
        labels = batch.labels[self.name]
        loss = F.cross_entropy(scores, labels, reduction="sum")
        return Outcome(losses={self.name: loss}, correct={self.name: (scores.argmax(-1) == labels).sum()})


def another(store: Store, sentence: Numbers, chance: np.random.Generator) -> Numbers:
    """A sentence of another document of its language for each, or any sentence of the only one."""
    document = np.searchsorted(store.documents, sentence, side="right") - 1
    firsts = np.searchsorted(store.documents, np.searchsorted(store.sentences, [*store.languages, store.num_tokens]))
    language = np.searchsorted(firsts, document, side="right") - 1
    first, number = firsts[language], np.diff(firsts)[language]  # of the documents of its language
    document = first + (document - first + 1 + chance.integers(np.maximum(1, number - 1))) % number
    first, end = store.documents[document], store.documents[document + 1]
    return np.asarray(first + (chance.random(len(sentence)) * (end - first)), dtype=np.int64)
