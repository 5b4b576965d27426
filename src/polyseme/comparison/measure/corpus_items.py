"""Evaluation items derived from the text itself, without annotation: word order, pseudo-words and word forms.

Pseudo-words (Gale, Church and Yarowsky, 1992; Schütze, 1992) simulate ambiguity: all occurrences of two words are
replaced by the first one, and the task is to recover which of the two it was. Static vectors score at chance level.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import Self

from polyseme.analysis.occurrences import Occurrence
from polyseme.comparison.measure.stop_words import FUNCTION_WORDS
from polyseme.corpora.scripts import IDEOGRAPHS
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.evaluation.minimal_pairs import PairSet
from polyseme.evaluation.word_similarity import WordSet
from polyseme.tokenization.masking_units import WORD, MaskingUnits, MaskingUnitsConfig

_MAX_SENTENCE = 300  # characters
_MIN_WORDS, _MAX_WORDS = 5, 30  # of a sentence whose words are swapped
_CONTENT_WORD = re.compile(rf"[^\W\d_]{{3,}}|[{IDEOGRAPHS}]{{2,}}")
_MAX_DOCUMENT_FREQUENCY = 0.35  # of a content word, as a share of the documents
_BURSTY = 0.9  # of the expected document frequency
_MAX_FREQUENCY_RATIO = 1.5  # of the two words of a pseudo-word
_MIN_OCCURRENCES, _MAX_OCCURRENCES = 12, 60  # of each word of a pseudo-word
_MIN_PAIRS = 10  # of sentences
_MIN_FORMS, _MAX_FORMS = 5, 40  # pairs of word forms
_MAX_ANALOGIES = 800


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence and the spans of its words."""

    text: str
    spans: list[tuple[int, int]]

    def word(self, number: int) -> str:
        """A word by its number."""
        return self.text[slice(*self.spans[number])]


@dataclass(kw_only=True)
class WordIndex:
    """An inverted index of the words of a text, lower-cased."""

    sentences: list[Sentence] = field(default_factory=list)
    positions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # word → (sentence, word number)
    document_frequency: Counter[str] = field(default_factory=Counter)
    num_documents: int = 0

    @classmethod
    def of(cls, documents: Iterable[str], *, most_characters: int) -> Self:
        """Index documents up to a number of characters."""
        units, index = MaskingUnits(MaskingUnitsConfig()), cls()
        characters = 0
        for document in documents:
            seen: set[str] = set()
            for text in split_sentences(document):
                text = text.strip()
                if not 0 < len(text) <= _MAX_SENTENCE:
                    continue
                sentence = Sentence(text=text, spans=units.find(text)[WORD])
                for number in range(len(sentence.spans)):
                    word = sentence.word(number).lower()
                    index.positions.setdefault(word, []).append((len(index.sentences), number))
                    seen.add(word)
                index.sentences.append(sentence)
            index.document_frequency.update(seen)
            index.num_documents += 1
            characters += len(document)
            if characters > most_characters:
                break
        return index

    def count(self, word: str) -> int:
        """The number of occurrences of a word."""
        return len(self.positions.get(word, ()))

    def content_words(self, *, min_count: int, most: int, bursty: bool = False) -> list[str]:
        """The most frequent content words: neither function words nor in most documents.

        Bursty words are topical with certainty: they occur in clearly fewer documents than a Poisson distribution of
        their occurrences predicts (Church and Gale, 1995). In short documents no word is bursty.
        """
        words = []
        for word, positions in self.positions.items():
            if len(positions) < min_count or not _CONTENT_WORD.fullmatch(word) or word in FUNCTION_WORDS:
                continue
            share = self.document_frequency[word] / self.num_documents
            expected = 1 - math.exp(-len(positions) / self.num_documents)
            if share < _MAX_DOCUMENT_FREQUENCY and (not bursty or share < _BURSTY * expected):
                words.append((-len(positions), word))
        return [word for _, word in sorted(words)[:most]]

    def is_name(self, word: str) -> bool:
        """Whether a word is mostly capitalized inside sentences."""
        forms = [self.sentences[one].word(number) for one, number in self.positions.get(word, ()) if number]
        return sum(form[:1].isupper() for form in forms) > len(forms) / 2

    def occurrences(
        self, word: str, *, most: int, seed: int = 0, replacement: str = "", sense: str = ""
    ) -> list[Occurrence]:
        """A sample of the occurrences of a word, which may be replaced by another word in the text."""
        positions = self.positions.get(word, [])
        chosen = Random(f"{word} {seed}").sample(range(len(positions)), min(most, len(positions)))
        occurrences = []
        for number, position in (positions[index] for index in sorted(chosen)):
            sentence, form = self.sentences[number], self.sentences[number].word(position)
            start, end = sentence.spans[position]
            form = _match_case(replacement, form) if replacement else form
            text = sentence.text[:start] + form + sentence.text[end:]
            occurrences.append(Occurrence(text=text, start=start, end=start + len(form), sense=sense))
        return occurrences


def _match_case(word: str, form: str) -> str:
    """A word in the capitalization of another."""
    return word.upper() if form.isupper() and len(form) > 1 else word.capitalize() if form[:1].isupper() else word


@dataclass(frozen=True, kw_only=True)
class PseudoWord:
    """Two words written as the first one, and their labelled occurrences."""

    name: str
    train: list[Occurrence]
    test: list[Occurrence]


def make_pseudo_words(index: WordIndex, *, most: int, seed: int) -> list[PseudoWord]:
    """Pair content words of similar frequency, the most frequent first."""
    words = index.content_words(min_count=_MIN_OCCURRENCES, most=4 * most)
    waiting, pseudo_words = list(words), list[PseudoWord]()
    rng = Random(f"pseudo-words {seed}")
    while waiting and len(pseudo_words) < most:
        first = waiting.pop(0)
        partners = [word for word in waiting if _can_pair(index, first, word)][:8]
        if not partners:
            continue
        second = rng.choice(partners)
        waiting.remove(second)
        train: list[Occurrence] = []
        test: list[Occurrence] = []
        number = min(_MAX_OCCURRENCES, index.count(first), index.count(second))
        for sense in (first, second):
            # The second half is from other documents, so that repetitions do not reveal the answer.
            occurrences = index.occurrences(sense, most=number, seed=seed, replacement=first, sense=sense)
            half = len(occurrences) // 2
            train += occurrences[:half]
            test += occurrences[half:]
        pseudo_words.append(PseudoWord(name=f"{first}/{second}", train=train, test=test))
    return pseudo_words


def _can_pair(index: WordIndex, first: str, second: str) -> bool:
    counts = index.count(first), index.count(second)
    same_script = first.isascii() == second.isascii()
    similar = max(counts) <= _MAX_FREQUENCY_RATIO * min(counts)
    return same_script and similar and first not in second and second not in first


def word_order(index: WordIndex, *, most: int, seed: int) -> PairSet | None:
    """Minimal pairs of a sentence and the same sentence with two adjacent words swapped."""
    rng = Random(f"word order {seed}")
    pairs, seen = [], set()
    for sentence in rng.sample(index.sentences, len(index.sentences)):
        if not _MIN_WORDS <= len(sentence.spans) <= _MAX_WORDS or sentence.text in seen:
            continue
        swapped = _swap_words(sentence, rng)
        if swapped is not None:
            seen.add(sentence.text)
            pairs.append((sentence.text, swapped))
        if len(pairs) == most:
            break
    return PairSet(name="word order", phenomenon="", field="", pairs=pairs) if len(pairs) >= _MIN_PAIRS else None


def _swap_words(sentence: Sentence, rng: Random) -> str | None:
    """The sentence with two adjacent words swapped; the first and the last word stay in place."""
    spans, text = sentence.spans, sentence.text
    candidates = [
        number
        for number in range(1, len(spans) - 1)
        if text[spans[number][1] : spans[number + 1][0]] in ("", " ")
        and all(sentence.word(one).isalpha() for one in (number, number + 1))
        and sentence.word(number).lower() != sentence.word(number + 1).lower()
    ]
    if not candidates:
        return None
    number = rng.choice(candidates)
    (start, middle), (gap, end) = spans[number], spans[number + 1]
    return text[:start] + text[gap:end] + text[middle:gap] + text[start:middle] + text[end:]


def word_forms(index: WordIndex, *, seed: int) -> WordSet | None:
    """Analogies of frequent English words and their inflected forms in -s."""
    words = [word for word in index.content_words(min_count=5, most=2000) if word.isascii()]
    pairs = [(word, form) for word in words for form in _inflect(word) if index.count(form) >= 5][:_MAX_FORMS]
    if len(pairs) < _MIN_FORMS:
        return None
    analogies = [[*first, *second] for first, second in permutations(pairs, 2)]
    if len(analogies) > _MAX_ANALOGIES:
        analogies = Random(f"word forms {seed}").sample(analogies, _MAX_ANALOGIES)
    return WordSet(name="inflection in -s", sections={"": analogies}, scores=[])


def _inflect(word: str) -> Sequence[str]:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return (f"{word}es",)
    return (f"{word[:-1]}ies",) if word.endswith("y") and word[-2] not in "aeiou" else (f"{word}s",)
