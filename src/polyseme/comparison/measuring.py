"""What a trained model is asked on text that no family has learnt from; each answer becomes rows."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyseme.comparison.derived import Lexicon, PseudoWord
from polyseme.comparison.results import Row
from polyseme.evaluate.figures import Figure
from polyseme.evaluate.likelihood import case_of, score_documents
from polyseme.evaluate.minimal_pairs import PairSet, score_pairs
from polyseme.evaluate.senses import SenseSet, are_pairs, find_sets, words_of
from polyseme.evaluate.senses import score_pairs as score_same_sense
from polyseme.evaluate.word_sets import WordSet, score_words
from polyseme.inside.nearness import tell_senses, unit
from polyseme.inside.occurrences import Occurrence
from polyseme.inside.senses import read_vectors
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.objectives.both_ways import Forward
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.pretrained import Pretrained
from polyseme.text.sentences import split_sentences

_DOCUMENT = 600  # characters of a document that are scored, at most
_SENTENCES = 1000  # that are embedded
_MOST_OCCURRENCES = 300  # of a word of a given set, on either side


@dataclass(frozen=True, kw_only=True)
class Questions:
    """All that is asked of each family, the same of all."""

    texts: list[tuple[str, str]]  # language and text that is scored
    sentences: list[str]  # that are embedded
    pairs: list[tuple[str, list[PairSet]]]  # sets of minimal pairs by name
    words: list[WordSet]
    pseudo_words: list[PseudoWord]
    senses: list[Path]  # folders
    prompts: list[str] = field(default_factory=list)
    blanks: list[str] = field(default_factory=list)
    frequent: list[str] = field(default_factory=list)  # words whose neighbours are shown

    @property
    def sha256(self) -> str:
        """A checksum of exactly the characters that are scored."""
        return hashlib.sha256("\0".join(text for _, text in self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def num_characters(self) -> int:
        return sum(len(text) for _, text in self.texts)


def choose_texts(documents: Iterable[tuple[str, str]], *, most: int) -> list[tuple[str, str]]:
    """Whole sentences from the beginnings of documents, of each language as much."""
    found: dict[str, list[str]] = {}
    for language, document in documents:
        found.setdefault(language, []).append(document)
    texts = []
    for language, some in found.items():
        room = most // len(found)
        for document in some:
            text = ""
            for sentence in split_sentences(document):
                if len(text) + len(sentence) > min(_DOCUMENT, room):
                    break
                text += sentence
            if text.strip():
                texts.append((language, text.strip()))
                room -= len(text)
            if room < 100:
                break
    return texts


def choose_sentences(lexicon: Lexicon) -> list[str]:
    """Sentences to embed; where there are too few, some of them again."""
    texts = [sentence.text for sentence in lexicon.sentences]
    return [texts[number % len(texts)] for number in range(_SENTENCES)] if texts else []


def scale_of(model: Pretrained) -> str | None:
    """On which scale a model says how likely text is; none where it cannot."""
    for part in model.objective.parts:
        if isinstance(part, Forward):
            return "bidirectional"
        if isinstance(part, NextToken):
            return "causal"
        if isinstance(part, MaskedTokens):
            return "masked"
    return None


def measure_likelihood(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """Bits a character of the test text, and of each of its languages."""
    scale = scale_of(model)
    if scale is None:
        return
    scores = model.score([text for _, text in questions.texts])
    languages = list(dict.fromkeys(language for language, _ in questions.texts))
    for language in ["", *(languages if len(languages) > 1 else ())]:
        some = [
            score
            for score, (other, _) in zip(scores, questions.texts, strict=True)
            if not language or other == language
        ]
        bits, *_ = score_documents(language, some, model.tokenizer)
        name = f"test text{f', {language}' if language else ''}{case_of(model.tokenizer)}"
        yield _row("likelihood", name, bits, better="lower", scale=scale)


def measure_pairs(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """How often what was written, or what people accept, is likelier."""
    if scale_of(model) is None:
        return
    for name, sets in questions.pairs:
        figures = score_pairs(name, sets, model.score, most=0)
        # Of several sets the mean of all comes last but for that of known words.
        whole = [figure for figure in figures if figure.measure == "accuracy" and not figure.section]
        yield _row("minimal-pairs", name, replace(whole[-1], num_found=whole[-1].num_items))


def measure_words(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """How far vectors of words agree with people, and how analogies go on."""
    for words in questions.words:
        figure = score_words(model.space, [words])[-1]
        if figure.measure == "spearman":
            yield _row("words", words.name, figure, error=_spearman_error(figure))
        else:
            yield _row("analogies", words.name, figure)


def _spearman_error(figure: Figure) -> float | None:
    """The standard error of a rank correlation (Bonett and Wright, 2000), brought back from Fisher's scale."""
    value, number = figure.value, figure.num_found
    if value is None or number <= 3:
        return None
    return (1 - value**2) * math.sqrt((1 + value**2 / 2) / (number - 3))


def measure_senses(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """How far the nearest occurrence of a word has its sense; the layer is chosen where senses are known."""
    if questions.pseudo_words:
        words = [(word.known, word.asked) for word in questions.pseudo_words]
        yield from _sense_row(model, "pseudo-words", words)
    for name, sets in _sense_sets(questions.senses):
        if are_pairs(sets):
            figures = list(score_same_sense(model, name, sets[0], 2 * _MOST_OCCURRENCES, 0))
            layers = [figure.value for figure in figures[1:-1]]
            layer = int(figures[-1].section.split(",")[0].removeprefix("layer "))
            yield _row("senses", name, figures[-1], layer=layer, layers=layers)
            continue
        given = [(known, asked) for chosen in sets for _, known, asked in words_of(chosen, _MOST_OCCURRENCES, seed=0)]
        yield from _sense_row(model, name, given)


def ambiguous_words(folders: Sequence[Path]) -> set[str]:
    """The words that given sets have several senses of."""
    every = [sets for _, sets in _sense_sets(folders) if not are_pairs(sets)]
    return {word.lower() for sets in every for chosen in sets for word, _, _ in words_of(chosen, 1, seed=0)}


def _sense_sets(folders: Sequence[Path]) -> Iterator[tuple[str, list[SenseSet]]]:
    """The sets of folders, and of the folders in them, by name."""
    for folder in folders:
        for place in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
            if sets := find_sets(place):
                yield place.name, sets


def _sense_row(
    model: Pretrained, name: str, words: Sequence[tuple[list[Occurrence], list[Occurrence]]]
) -> Iterator[Row]:
    """Balanced accuracy of the nearest known occurrence, the mean over words, each counting alike."""
    learnt, told, errors, num_items = [], [], [], 0
    for known, asked in words:
        read = read_vectors(model, [*known, *asked]).layers
        senses = np.array([occurrence.sense for occurrence in [*known, *asked]], dtype=np.str_)
        cut = len(known)
        units = [unit(layer) for layer in read]
        within = [tell_senses(layer[:cut], senses[:cut]) for layer in units]
        found = [tell_senses(layer[cut:], senses[cut:], layer[:cut], senses[:cut]) for layer in units]
        if any(figure is None for figure in [*within, *found]):
            continue
        learnt.append([figure.value for figure in within if figure])
        told.append([figure.value for figure in found if figure])
        errors.append([figure.error or 0.0 for figure in found if figure])
        num_items += found[0].num_items if found[0] else 0
    if not told:
        return
    layer = int(np.argmax(np.mean(learnt, axis=0)))
    layers = np.mean(told, axis=0)
    figure = Figure(
        name=name,
        measure="balanced 1-NN accuracy",
        value=float(layers[layer]),
        error=float(math.hypot(*(row[layer] for row in errors)) / len(errors)),
        num_found=num_items,
        num_items=num_items,
    )
    yield _row("senses", name, figure, layer=layer, layers=layers.tolist())


def _row(measure: str, name: str, figure: Figure, *, better: str = "higher", **facts: Any) -> Row:
    """A figure as it is kept; one that could not be had has no value."""
    return {
        "row": "figure",
        "measure": measure,
        "name": name,
        "scale": facts.pop("scale", None),
        "value": figure.value,
        "error": facts.pop("error", figure.error),
        "count": figure.num_found,
        "items": figure.num_items,
        "better": better,
        **facts,
    }


def embedding_seconds(model: Pretrained, sentences: Sequence[str], *, threads: int) -> float | None:
    """Seconds of a thousand sentences with so many threads, once warm."""
    if not sentences:
        return None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model.embed(sentences[:50])
        started = time.perf_counter()
        model.embed(sentences)
        return (time.perf_counter() - started) * 1000 / len(sentences)
    finally:
        torch.set_num_threads(before)


def disk_bytes(folder: Path) -> int:
    """What a model takes to be kept and used, without what it was trained with."""
    names = (CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json")
    if folder.is_file():
        return folder.stat().st_size
    found = sum((folder / name).stat().st_size for name in names if (folder / name).exists())
    return found or sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
