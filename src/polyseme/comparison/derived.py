"""What a text itself can be asked, with nobody's labels: the order of words, words written as others, word forms.

Pseudo-words (Gale, Church and Yarowsky, 1992; Schütze, 1992): all occurrences of two words are written as the first of
them, and the sense to be found is which of the two it was. A vector that knows nothing of the context has no chance.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from random import Random

from polyseme.comparison.function_words import FUNCTION_WORDS
from polyseme.evaluate.minimal_pairs import PairSet
from polyseme.evaluate.word_sets import WordSet
from polyseme.inside.occurrences import Occurrence
from polyseme.text.sentences import split_sentences
from polyseme.text.units import WORD, Units, UnitsConfig
from polyseme.text.vocabulary import IDEOGRAPHS

_LONGEST = 300  # characters of a sentence that is looked at
_FEWEST_WORDS, _MOST_WORDS = 5, 30
_LETTERS = re.compile(rf"[^\W\d_]{{3,}}|[{IDEOGRAPHS}]{{2,}}")  # what may be a content word
_EVERYWHERE = 0.35  # share of the documents in which no content word stands
_BURSTY = 0.9  # of the share of documents that chance would give
_ALIKE = 1.5  # how much more often one of two words of a pair may stand than the other
_PAIRED = (12, 60)  # fewest and most occurrences of each word of a pair
_FEWEST_PAIRS = 10  # of sentences
_FORMS = 40  # pairs of word forms
_QUESTIONS = 800
_FEWEST_FORMS = 5


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence and its words."""

    text: str
    document: int
    spans: list[tuple[int, int]]

    def word(self, number: int) -> str:
        return self.text[slice(*self.spans[number])]


@dataclass(kw_only=True)
class Lexicon:
    """The words of a text, how often and in how many documents they stand, and where."""

    sentences: list[Sentence] = field(default_factory=list)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # sentence, and which of its words
    documents: Counter[str] = field(default_factory=Counter)
    num_documents: int = 0

    @classmethod
    def of(cls, documents: Iterable[str], *, most_characters: int) -> Lexicon:
        """Read so much of some documents."""
        units, found = Units(UnitsConfig()), cls()
        characters = 0
        for document in documents:
            seen: set[str] = set()
            for text in split_sentences(document):
                text = text.strip()
                if not 0 < len(text) <= _LONGEST:
                    continue
                sentence = Sentence(text=text, document=found.num_documents, spans=units.find(text)[WORD])
                for number in range(len(sentence.spans)):
                    word = sentence.word(number).lower()
                    found.places.setdefault(word, []).append((len(found.sentences), number))
                    seen.add(word)
                found.sentences.append(sentence)
            found.documents.update(seen)
            found.num_documents += 1
            characters += len(document)
            if characters > most_characters:
                break
        return found

    def count(self, word: str) -> int:
        return len(self.places.get(word, ()))

    def content_words(self, *, least: int, most: int, bursty: bool = False) -> list[str]:
        """Words that may say what a text is about, the most frequent first: neither function words nor everywhere.

        Those that surely do are bursty: they stand in clearly fewer documents than chance would put so many
        occurrences in (Church and Gale, 1995); in short documents none is.
        """
        found = []
        for word, places in self.places.items():
            if len(places) < least or not _LETTERS.fullmatch(word) or word in FUNCTION_WORDS:
                continue
            share = self.documents[word] / self.num_documents
            by_chance = 1 - math.exp(-len(places) / self.num_documents)
            if share < _EVERYWHERE and (not bursty or share < _BURSTY * by_chance):
                found.append((-len(places), word))
        return [word for _, word in sorted(found)[:most]]

    def is_name(self, word: str) -> bool:
        """Whether it has a capital wherever a sentence does not begin with it."""
        forms = [self.sentences[number].word(place) for number, place in self.places.get(word, ()) if place]
        return sum(form[:1].isupper() for form in forms) > len(forms) / 2

    def occurrences(
        self, word: str, *, most: int, seed: int = 0, written: str = "", sense: str = ""
    ) -> list[Occurrence]:
        """Where a word stands, or so many of these places, perhaps written as another word."""
        places = self.places.get(word, [])
        if len(places) > most:
            chosen = Random(f"{word} {seed}").sample(range(len(places)), most)
            places = [places[number] for number in sorted(chosen)]
        found = []
        for number, place in places:
            sentence = self.sentences[number]
            start, end = sentence.spans[place]
            form = _like(written, sentence.text[start:end]) if written else sentence.text[start:end]
            text = sentence.text[:start] + form + sentence.text[end:]
            found.append(Occurrence(text=text, start=start, end=start + len(form), sense=sense))
        return found


def _like(word: str, form: str) -> str:
    """A word with the capitals of another."""
    return word.upper() if form.isupper() and len(form) > 1 else word.capitalize() if form[:1].isupper() else word


@dataclass(frozen=True, kw_only=True)
class PseudoWord:
    """Two words that are written as the first, and where they stand: to learn from, and to be told."""

    name: str
    known: list[Occurrence]
    asked: list[Occurrence]


def pseudo_words(lexicon: Lexicon, *, most: int, seed: int) -> list[PseudoWord]:
    """Pairs of content words that stand about as often as each other, the most frequent first."""
    least, most_places = _PAIRED
    words = lexicon.content_words(least=least, most=4 * most)
    waiting, found = list(words), list[PseudoWord]()
    chance = Random(f"pseudo-words {seed}")
    while waiting and len(found) < most:
        first = waiting.pop(0)
        alike = [word for word in waiting if _fit(lexicon, first, word)][:8]
        if not alike:
            continue
        second = chance.choice(alike)
        waiting.remove(second)
        known: list[Occurrence] = []
        asked: list[Occurrence] = []
        number = min(most_places, lexicon.count(first), lexicon.count(second))
        for sense in (first, second):
            # The second half is of other documents, so that no repetition gives the answer away.
            places = lexicon.occurrences(sense, most=number, seed=seed, written=first, sense=sense)
            half = len(places) // 2
            known += places[:half]
            asked += places[half:]
        found.append(PseudoWord(name=f"{first}/{second}", known=known, asked=asked))
    return found


def _fit(lexicon: Lexicon, first: str, second: str) -> bool:
    counts = lexicon.count(first), lexicon.count(second)
    same_script = first.isascii() == second.isascii()
    return same_script and max(counts) <= _ALIKE * min(counts) and first not in second and second not in first


def word_order(lexicon: Lexicon, *, most: int, seed: int) -> PairSet | None:
    """Sentences, and the same with two neighbouring words swapped."""
    chance = Random(f"word order {seed}")
    pairs, seen = [], set()
    for sentence in chance.sample(lexicon.sentences, len(lexicon.sentences)):
        if not _FEWEST_WORDS <= len(sentence.spans) <= _MOST_WORDS or sentence.text in seen:
            continue
        swapped = _swap(sentence, chance)
        if swapped is not None:
            seen.add(sentence.text)
            pairs.append((sentence.text, swapped))
        if len(pairs) == most:
            break
    return PairSet(name="word order", phenomenon="", field="", pairs=pairs) if len(pairs) >= _FEWEST_PAIRS else None


def _swap(sentence: Sentence, chance: Random) -> str | None:
    """The sentence with two words inside it exchanged; its first keeps its place, and its capital."""
    spans, text = sentence.spans, sentence.text
    able = [
        number
        for number in range(1, len(spans) - 1)
        if text[spans[number][1] : spans[number + 1][0]] in ("", " ")
        and all(sentence.word(place).isalpha() for place in (number, number + 1))
        and sentence.word(number).lower() != sentence.word(number + 1).lower()
    ]
    if not able:
        return None
    number = chance.choice(able)
    (start, middle), (gap, end) = spans[number], spans[number + 1]
    return text[:start] + text[gap:end] + text[middle:gap] + text[start:middle] + text[end:]


def word_forms(lexicon: Lexicon, *, seed: int) -> WordSet | None:
    """Analogies of English words and their forms with -s, among the frequent words of the text."""
    words = [word for word in lexicon.content_words(least=5, most=2000) if word.isascii()]
    pairs = [(word, form) for word in words for form in _with_s(word) if lexicon.count(form) >= 5][:_FORMS]
    if len(pairs) < _FEWEST_FORMS:
        return None
    questions = [[*first, *second] for first, second in permutations(pairs, 2)]
    if len(questions) > _QUESTIONS:
        questions = Random(f"word forms {seed}").sample(questions, _QUESTIONS)
    return WordSet(name="words and forms with -s", sections={"": questions}, scores=[])


def _with_s(word: str) -> Sequence[str]:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return (f"{word}es",)
    return (f"{word[:-1]}ies",) if word.endswith("y") and word[-2] not in "aeiou" else (f"{word}s",)
