"""Sentence-order prediction: are the two parts of a sequence swapped (Lan et al., 2019, section 3.1)?

Harder than next-sentence prediction, which the topics of the two parts give away. Where the cut is the end of a
document, the other part comes from elsewhere and the label is SWAPPED, as in the authors' code.

Sequences have no padding, so that the later part ends in the middle of a sentence. The earlier part is truncated too:
otherwise its complete last sentence would reveal the order (96 % accuracy after three minutes).
"""

import numpy as np

from polyseme.arrays import Flags, Integers
from polyseme.objectives.next_sentence import CutSpans, NextSentence

IN_ORDER, SWAPPED = 0, 1


class SentenceOrder(NextSentence):
    """Binary classifier on the pooled sequence."""

    name = "sentence_order"
    label_names = ("in order", "swapped")

    def arrange(self, spans: CutSpans, changed: Flags, generator: np.random.Generator) -> tuple[Integers, ...]:
        swapped = changed & ~spans.at_end
        begin, middle = spans.begin, spans.begin + spans.cut
        num_truncated = (generator.random(len(begin)) * spans.last_sentence).astype(np.int64)
        length = spans.cut - num_truncated  # of the earlier part
        first = np.where(swapped, middle, begin)
        num_first = np.where(swapped, spans.length - length, length)
        second = np.where(spans.at_end, spans.elsewhere, np.where(swapped, begin, middle))
        return first, num_first, second, np.where(spans.at_end | changed, SWAPPED, IN_ORDER)
