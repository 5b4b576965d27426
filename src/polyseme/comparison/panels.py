"""What is shown rather than counted: neighbours of words, maps of their occurrences, examples of writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from polyseme.comparison.ambiguity import Ambiguous
from polyseme.comparison.derived import Lexicon
from polyseme.comparison.measuring import Questions, scale_of
from polyseme.comparison.results import Row
from polyseme.errors import DataError
from polyseme.inside.nearness import unit
from polyseme.inside.project import project
from polyseme.inside.senses import read_vectors
from polyseme.pretrained import Pretrained

_NEIGHBOURS = 8
_SHOWN_PLACES = 50
_TOKENS = 24  # that a model writes


def neighbour_rows(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """The words nearest to a few frequent ones."""
    for word in questions.frequent:
        try:
            near = model.neighbours(word, top=_NEIGHBOURS)
        except DataError:
            continue  # of more than one token
        near = [neighbour for neighbour in near if neighbour.score]
        if near:
            yield {
                "row": "neighbours",
                "word": word,
                "neighbours": [[_shown(model, neighbour.word), round(neighbour.score, 4)] for neighbour in near],
            }


def example_rows(model: Pretrained, questions: Questions, *, seed: int) -> Iterator[Row]:
    """How a model goes on from a few words, or what it puts into blanks."""
    scale = scale_of(model)
    if scale == "masked":
        for blank in questions.blanks:
            (guesses,) = model.fill(blank, top=5)
            filled = [[_shown(model, guess.token), round(guess.probability, 4)] for guess in guesses]
            yield {"row": "example", "kind": "fill", "prompt": blank, "filled": filled}
    elif scale and model.encoder.context != "right":
        for prompt in questions.prompts:
            written = model.generate(prompt, max_tokens=_TOKENS, seed=seed, temperature=0.8, top_p=0.9)
            yield {"row": "example", "kind": "generate", "prompt": prompt, "texts": [written]}


def _shown(model: Pretrained, token: str) -> str:
    """A token as a person reads it, without the marks of a tokenizer; a piece that continues a word keeps its own."""
    tokenizer = model.tokenizer
    id = None if tokenizer is None or token.startswith("##") else tokenizer.id(token)
    text = tokenizer.decode([id]).strip() if tokenizer and id is not None else token
    return text if text and "\ufffd" not in text else token


def choose_prompts(lexicon: Lexicon, frequent: Sequence[str], *, number: int, seed: int) -> tuple[list[str], list[str]]:
    """Beginnings of sentences to go on from, and sentences of which a content word is hidden."""
    chance = Random(f"prompts {seed}")
    fitting = [sentence for sentence in lexicon.sentences if 8 <= len(sentence.spans) <= 20]
    chosen = chance.sample(fitting, min(number, len(fitting)))
    prompts = [sentence.text[: sentence.spans[3][1]] for sentence in chosen]
    blanks = []
    for word in frequent:
        places = [
            (one, place)
            for sentence, place in lexicon.places[word]
            if 6 <= len((one := lexicon.sentences[sentence]).spans) <= 20 and place
        ]
        if places:
            sentence, place = chance.choice(places)
            start, end = sentence.spans[place]
            blanks.append(f"{sentence.text[:start]}[MASK]{sentence.text[end:]}")
        if len(blanks) == number:
            break
    return prompts, blanks


def map_row(model: Pretrained, one: Ambiguous, layer: int) -> Row:
    """The occurrences of a word on a plane, as a model sees them."""
    shown = slice(0, _SHOWN_PLACES)
    occurrences = one.occurrences[shown]
    points, _ = project(unit(read_vectors(model, occurrences).layers[layer]))
    return {
        "row": "senses",
        "word": one.word,
        "layer": layer,
        "points": [
            [round(float(x), 4), round(float(y), 4), place.text, place.start, place.end, group]
            for (x, y), place, group in zip(points, occurrences, one.groups[shown], strict=True)
        ],
    }
