"""Next-sentence prediction: does the second part of a sequence follow the first (Devlin et al., 2018, section 3.1)?

Sequences have no padding: each is a span of text cut in two at a sentence boundary, and half of them get a second part
from elsewhere. Where the only boundary is the end of a document, another text follows, so that the label is ELSEWHERE;
the authors' code does the same with documents of one sentence.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from polyseme.arrays import Flags, Integers
from polyseme.batch import Batch, Encoded, LossOutput
from polyseme.datasets.token_store import TokenStore
from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, required_ids
from polyseme.objectives.sources import TokenSource, rng
from polyseme.tokenization.config import SpecialTokens

FOLLOWS, ELSEWHERE = 0, 1


@dataclass(frozen=True, kw_only=True)
class CutSpans:
    """Spans of text, one per sequence, each cut in two, and another place for a second part."""

    begin: Integers
    length: int
    cut: Integers  # length of the first part
    last_sentence: Integers  # length of the sentence before the cut
    at_end: Flags  # whether the cut is the end of a document
    elsewhere: Integers  # start of a sentence of another document


class NextSentence(Objective):
    """Binary classifier on the pooled sequence."""

    name: ClassVar[str] = "next_sentence"
    label_names = ("follows", "elsewhere")

    def __init__(self, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__()
        self.start, self.separator = required_ids(specials, "start", "separator")
        # A family without segments marks the boundary by a second separator (Liu et al., 2019).
        self.num_between = 1 if encoder.config.num_segments > 1 else 2
        self.output = nn.Linear(encoder.widths[-1], 2)
        self.apply(initialize)

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        generator = rng(seed, "rows", step)
        store, num_rows = source.store, source.num_rows
        inside = source.length - 2 - self.num_between  # [CLS] first [SEP] second [SEP]
        # Spans begin at the start of a sentence.
        starts = source.sequence_starts(inside, seed=seed, step=step)
        sentence = np.searchsorted(store.sentences, starts, side="right") - 1
        begin = store.sentences[sentence]
        # Cut at one of the sentence boundaries inside, or in the middle of a sentence that fills the span.
        last = np.searchsorted(store.sentences, begin + inside, side="left") - 1
        offset = (generator.random(num_rows) * np.maximum(last - sentence, 0)).astype(np.int64)
        cut_sentence = sentence + 1 + offset
        several = last > sentence
        cut = np.where(several, store.sentences[np.minimum(cut_sentence, last)], begin + inside // 2) - begin
        last_sentence = np.where(several, store.sentences[cut_sentence] - store.sentences[cut_sentence - 1], 1)
        at_end = several & (store.documents[np.searchsorted(store.documents, cut_sentence)] == cut_sentence)
        replace = generator.random(num_rows) < 0.5
        elsewhere = store.sentences[other_document(store, sentence, generator)]
        spans = CutSpans(
            begin=begin, length=inside, cut=cut, last_sentence=last_sentence, at_end=at_end, elsewhere=elsewhere
        )
        first, num_first, second, label = self.arrange(spans, replace, generator)

        column = np.arange(source.length)[None, :]
        end = num_first[:, None] + 1  # of the first part
        in_second = column >= end + self.num_between
        # A separator replaces the next token of the text: a unit cut there contains one and is not masked.
        positions = column - 1 + np.where(in_second, second[:, None] + 1 - end - self.num_between, first[:, None])
        ids = source.read(positions)
        ids[~in_second & (column >= end)] = ids[:, -1] = self.separator
        ids[:, 0] = self.start
        segments = torch.from_numpy(in_second.astype(np.int64)) if self.num_between == 1 else None
        batch = Batch.of(torch.from_numpy(ids), segments=segments, units=source.read_units(positions))
        return batch.with_labels(self.name, torch.from_numpy(label))

    def arrange(self, spans: CutSpans, changed: Flags, generator: np.random.Generator) -> tuple[Integers, ...]:
        """Begin and length of the first part, begin of the second part, and the label."""
        label = np.where(spans.at_end | changed, ELSEWHERE, FOLLOWS)
        second = np.where(label == ELSEWHERE, spans.elsewhere, spans.begin + spans.cut)
        return spans.begin, spans.cut, second, label

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        logits = self.output(encoder.pool(encoded))  # (B, 2)
        labels = batch.labels[self.name]
        loss = F.cross_entropy(logits, labels, reduction="sum")
        return LossOutput(losses={self.name: loss}, correct={self.name: (logits.argmax(-1) == labels).sum()})


def other_document(store: TokenStore, sentence: Integers, generator: np.random.Generator) -> Integers:
    """For each sentence, a sentence of another document in its language, or of the only document."""
    document = np.searchsorted(store.documents, sentence, side="right") - 1
    bounds = np.searchsorted(store.sentences, [*store.language_starts, store.num_tokens])
    firsts = np.searchsorted(store.documents, bounds)
    language = np.searchsorted(firsts, document, side="right") - 1
    first, number = firsts[language], np.diff(firsts)[language]  # of the documents of its language
    document = first + (document - first + 1 + generator.integers(np.maximum(1, number - 1))) % number
    first, end = store.documents[document], store.documents[document + 1]
    return np.asarray(first + (generator.random(len(sentence)) * (end - first)), dtype=np.int64)
