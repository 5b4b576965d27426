"""Tell whether the two halves of a row have been swapped (Lan et al., 2019, section 3.1).

Harder than telling whether they belong together, which their topics give away. Where a document ends at the cut,
there is only one half: the other is taken from elsewhere, and the pair counts as swapped, as in the paper's code.

A row is full, so that its later half ends in the middle of a sentence. The earlier one is cut short too: if it ended
with its sentence, that alone would give the order away (it did: 96 % after three minutes).
"""

from __future__ import annotations

import numpy as np

from polyseme.objectives.next_sentence import Cuts, NextSentence
from polyseme.text.utf16 import Flags, Numbers

IN_ORDER, SWAPPED = 0, 1


class SentenceOrder(NextSentence):
    """Two scores from the summary of the row: in order, swapped."""

    name = "order"
    answers = ("in order", "swapped")

    def arrange(
        self, cuts: Cuts, changed: Flags, chance: np.random.Generator
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        swapped = changed & ~cuts.apart
        begin, middle = cuts.begin, cuts.begin + cuts.cut
        length = cuts.cut - (chance.random(len(begin)) * cuts.last).astype(np.int64)  # of the earlier half
        first = np.where(swapped, middle, begin)
        num_first = np.where(swapped, cuts.length - length, length)
        second = np.where(cuts.apart, cuts.elsewhere, np.where(swapped, begin, middle))
        return first, num_first, second, np.where(cuts.apart | changed, SWAPPED, IN_ORDER)
