"""Labelled sets from docstrings, without labels of anybody: which package, which sentences belong together, parameters.

They are made from documents that no family has trained on, and divided again by document.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from polyseme.comparison.labelled import Task
from polyseme.comparison.splitting import position
from polyseme.text.docstrings import digest, parameters_of
from polyseme.text.forms import ClassifyExample, PairExample, TagExample
from polyseme.text.samples import sample
from polyseme.text.sentences import split_sentences

_PLACE = Path("docstrings")
_NUM_PACKAGES = 6
_A_DOCUMENT = 40  # sentences of one document, at most
_LENGTHS = 20, 250  # characters of a sentence
_SHARES = {"test": 0.25, "dev": 0.1}  # of documents; the others are learnt from
_FEWEST = 20  # examples to learn from


def docstring_tasks(documents: Iterable[str], *, seed: int) -> list[Task]:
    """The sets that documents give; those of too few examples are left out."""
    listed = (sample("docstrings") / "modules.tsv").read_text(encoding="utf-8")
    names = dict(line.split("\t") for line in listed.splitlines())
    texts = {names[key]: document for document in documents if (key := digest(document)) in names}
    found = [
        _task("package", "classify", _packages(texts, seed), "which package a sentence documents"),
        _task(
            "together",
            "pair",
            _neighbours(texts, seed),
            "whether two sentences stand next to each other in a docstring",
        ),
        _task("parameters", "tag", _parameters(texts), "names and types of parameters"),
    ]
    return [task for task in found if task is not None]


def _side(module: str) -> str:
    place = position(f"side of {module}")
    return "test" if place < _SHARES["test"] else "dev" if place < sum(_SHARES.values()) else "train"


def _task(name: str, kind: str, sides: Mapping[str, Sequence[Any]], about: str) -> Task | None:
    labels = {label for example in sides.get("train", ()) for label in example.labels}
    kept = {
        side: [example for example in sides.get(side, ()) if labels.issuperset(example.labels)]
        for side in ("train", "dev", "test")
    }
    if len(labels) < 2 or len(kept["train"]) < _FEWEST or min(len(kept["dev"]), len(kept["test"])) < 2:
        return None
    return Task(name=name, kind=kind, sides=kept, about=about, derived=True)


def _sentences(document: str) -> list[str]:
    least, most = _LENGTHS
    return [text for text in map(str.strip, split_sentences(document)) if least <= len(text) <= most]


def _packages(texts: Mapping[str, str], seed: int) -> dict[str, list[ClassifyExample]]:
    """Sentences of the packages that have the most documents, as many of each."""
    counts = Counter(package for module in texts if (package := _package(module)))
    packages = {package for package, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NUM_PACKAGES]}
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, document in sorted(texts.items()):
        if (package := _package(module)) in packages:
            sentences = _sentences(document)
            chosen = Random(f"{module} {seed}").sample(sentences, min(_A_DOCUMENT, len(sentences)))
            sides[_side(module)][package] += [text for text in chosen if package not in text.lower()]
    examples: dict[str, list[ClassifyExample]] = {}
    for side, by_package in sides.items():
        # The least frequent package gives a bound, so that saying one of them always is worth little.
        most = 3 * min(map(len, by_package.values()))
        rows = [(text, package) for package, found in sorted(by_package.items()) for text in found[: max(10, most)]]
        Random(f"packages {side} {seed}").shuffle(rows)
        examples[side] = [
            ClassifyExample(file=_PLACE, row=row, text=text, label=label) for row, (text, label) in enumerate(rows, 1)
        ]
    return examples


def _package(module: str) -> str:
    package, slash, _ = module.partition("/")
    return package if slash else ""


def _neighbours(texts: Mapping[str, str], seed: int) -> dict[str, list[PairExample]]:
    """Two sentences of one document, one after the other; or the second of another document of the same side."""
    sides: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for module, document in sorted(texts.items()):
        pairs = []
        for paragraph in document.split("\n"):
            sentences = _sentences(paragraph)
            pairs += list(zip(sentences[::2], sentences[1::2], strict=False))
        chosen = Random(f"{module} {seed}").sample(pairs, min(_A_DOCUMENT, len(pairs)))
        sides[_side(module)] += chosen
    examples: dict[str, list[PairExample]] = {}
    for side, pairs in sides.items():
        chance = Random(f"neighbours {side} {seed}")
        chance.shuffle(pairs)
        rows = []
        half = len(pairs) // 2
        seconds = [second for _, second in pairs[half:]]
        seconds = seconds[1:] + seconds[:1]  # each has that of another, so that all second sentences occur once
        rows += [(first, second, "together") for first, second in pairs[:half]]
        rows += [(first, second, "apart") for (first, _), second in zip(pairs[half:], seconds, strict=True)]
        chance.shuffle(rows)
        examples[side] = [
            PairExample(file=_PLACE, row=row, text_a=first, text_b=second, label=label)
            for row, (first, second, label) in enumerate(rows, 1)
        ]
    return examples


def _parameters(texts: Mapping[str, str]) -> dict[str, list[TagExample]]:
    """What docstrings say of parameters: a name, a type, and some words about it."""
    sides: dict[str, list[TagExample]] = defaultdict(list)
    for module, said in parameters_of(sorted(texts)):
        side = sides[_side(module)]
        seen = set()
        for name, kind, about in said[:_A_DOCUMENT]:
            tagged = [
                *_spans(name.split(), "NAME"),
                *_spans(kind.split(), "TYPE"),
                *((word, "O") for word in about.split()),
            ]
            words, tags = zip(*tagged, strict=True)
            if words not in seen:
                seen.add(words)
                side.append(TagExample(file=_PLACE, row=len(side) + 1, words=words, tags=tags))
    return sides


def _spans(words: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words):
        yield word, f"{'I' if number else 'B'}-{name}"
