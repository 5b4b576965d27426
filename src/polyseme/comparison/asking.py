"""The questions of a comparison: chosen once, by the text and the seed, and put to all families alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polyseme.comparison.derived import Lexicon, pseudo_words, word_forms, word_order
from polyseme.comparison.measuring import Questions, choose_sentences, choose_texts
from polyseme.comparison.panels import choose_prompts
from polyseme.comparison.settings import Bounds
from polyseme.evaluate.minimal_pairs import PairSet, drawn, read_pairs
from polyseme.evaluate.word_sets import WordSet, read_sets

_FREQUENT, _PROMPTS = 6, 3
_FEWEST = 5  # pairs of a set


def ask(
    documents: Sequence[tuple[str, str]],
    lexicon: Lexicon,
    suites: Mapping[str, Sequence[Path]],
    bounds: Bounds,
    *,
    seed: int,
) -> Questions:
    """What documents and folders of sets give to ask."""
    frequent = lexicon.content_words(least=5, most=_FREQUENT, bursty=True)
    frequent += lexicon.content_words(least=5, most=_FREQUENT - len(frequent))
    prompts, blanks = choose_prompts(lexicon, frequent, number=_PROMPTS, seed=seed)
    order, forms = word_order(lexicon, most=bounds.num_pairs, seed=seed), word_forms(lexicon, seed=seed)
    pairs = [_given_pairs(folder, most=2 * bounds.num_pairs, seed=seed) for folder in suites.get("minimal-pairs", ())]
    words = [one for folder in suites.get("words", ()) for one in _given_words(folder)]
    return Questions(
        texts=choose_texts(documents, most=bounds.scored_characters),
        sentences=choose_sentences(lexicon),
        pairs=[*pairs, *([("word order", [order])] if order else ())],
        words=[*words, *([forms] if forms else ())],
        pseudo_words=pseudo_words(lexicon, most=bounds.num_pseudo_words, seed=seed),
        senses=list(suites.get("senses", ())),
        prompts=prompts,
        blanks=blanks,
        frequent=frequent,
    )


def _given_pairs(folder: Path, *, most: int, seed: int) -> tuple[str, list[PairSet]]:
    """The sets of minimal pairs in a folder, so many pairs of all of them together."""
    sets = read_pairs(folder)
    return folder.name.replace("_", " "), [drawn(one, max(_FEWEST, most // len(sets)), seed) for one in sets]


def _given_words(folder: Path) -> list[WordSet]:
    """The sets of words in a folder; those of another language have its name."""
    ending = " zh" if folder.name.endswith("_zh") else ""
    return [
        WordSet(name=words.name + ending, sections=words.sections, scores=words.scores) for words in read_sets(folder)
    ]
