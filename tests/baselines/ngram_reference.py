"""Interpolated modified Kneser–Ney smoothing in float64, with dicts, as Chen and Goodman (1999) define it."""

from collections import Counter, defaultdict
from functools import cache


class ReferenceNgrams:
    """p(w | h) of documents of ids, each of which follows the `end` id of another one and ends with it."""

    def __init__(self, documents, *, vocab_size, order, end):
        self.vocab_size, self.order = vocab_size, order
        occurrences = Counter(
            tuple(text[start : start + length])
            for text in ([end, *document, end] for document in documents)
            for length in range(1, order + 1)
            for start in range(len(text) - length + 1)
        )
        preceding = defaultdict(set)
        for ngram in occurrences:
            preceding[ngram[1:]].add(ngram[0])
        self.counts = {}
        for ngram, number in occurrences.items():
            begins_document = ngram[0] == end and len(ngram) > 1
            whole = len(ngram) == order or begins_document
            self.counts[ngram] = number if whole else len(preceding[ngram])
        self.discounts = {length: self._discounts(length) for length in range(1, order + 1)}
        self.following = defaultdict(list)
        for ngram, count in self.counts.items():
            self.following[ngram[:-1]].append(count)
        self.probability = cache(self._probability)

    def _discounts(self, length):
        number = Counter(count for ngram, count in self.counts.items() if len(ngram) == length)
        try:
            y = number[1] / (number[1] + 2 * number[2])
            found = [count - (count + 1) * y * number[count + 1] / number[count] for count in (1, 2, 3)]
        except ZeroDivisionError:
            return 0.5, 1.0, 1.5
        return tuple(found) if all(0 < one <= count for count, one in enumerate(found, 1)) else (0.5, 1.0, 1.5)

    def _probability(self, context, word):
        """p(word | context), with a context of any length up to order - 1."""
        lower = self._probability(context[1:], word) if context else 1 / self.vocab_size
        following = self.following[context]
        if not sum(following):
            return lower
        discounts = (0.0, *self.discounts[len(context) + 1])
        count = self.counts.get((*context, word), 0)
        freed = sum(discounts[min(count, 3)] for count in following)
        return (count - discounts[min(count, 3)] + freed * lower) / sum(following)
