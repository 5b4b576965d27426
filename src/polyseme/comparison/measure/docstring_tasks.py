"""Labelled datasets derived from docstrings: package classification, sentence adjacency and parameter labelling.

They are derived from documents of the test split, which no family has trained on, and split again by document.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_folder
from polyseme.datasets.docstrings import document_id, parameter_docs
from polyseme.datasets.records import Example
from polyseme.datasets.splits import hash_fraction
from polyseme.datasets.task_schemas import ClassifyExample, PairExample, TagExample

_SOURCE = Path("docstrings")
_NUM_PACKAGES = 6
_MAX_PER_DOCUMENT = 40  # examples
_MIN_LENGTH, _MAX_LENGTH = 20, 250  # characters of a sentence
_SHARES = {"test": 0.25, "dev": 0.1}  # of the documents; the others are for training
_MIN_TRAIN = 20  # examples


def docstring_tasks(documents: Iterable[str], *, seed: int) -> list[LabelledDataset]:
    """Derive datasets from documents; those with too few examples are omitted."""
    listed = (sample_folder("docstrings") / "modules.tsv").read_text(encoding="utf-8")
    modules = dict(line.split("\t") for line in listed.splitlines())
    texts = {modules[key]: document for document in documents if (key := document_id(document)) in modules}
    datasets = [
        _dataset("package", "classify", _packages(texts, seed), "which package a sentence documents"),
        _dataset("together", "pair", _adjacency(texts, seed), "whether two sentences are adjacent in a docstring"),
        _dataset("parameters", "tag", _parameters(texts), "names and types of parameters"),
    ]
    return [dataset for dataset in datasets if dataset is not None]


def _split_of(module: str) -> str:
    fraction = hash_fraction(f"side of {module}")
    return "test" if fraction < _SHARES["test"] else "dev" if fraction < sum(_SHARES.values()) else "train"


def _dataset(name: str, kind: str, splits: Mapping[str, Sequence[Any]], about: str) -> LabelledDataset | None:
    labels = {label for example in splits.get("train", ()) for label in example.labels}
    usable: dict[str, list[Any]] = {}
    seen: set[str] = set()  # packages repeat some descriptions word for word; no text may be in two splits
    for split in ("train", "dev", "test"):
        usable[split] = [
            example
            for example in splits.get(split, ())
            if labels.issuperset(example.labels) and seen.isdisjoint(_texts(example))
        ]
        seen.update(text for example in usable[split] for text in _texts(example))
    if len(labels) < 2 or len(usable["train"]) < _MIN_TRAIN or min(len(usable["dev"]), len(usable["test"])) < 2:
        return None
    return LabelledDataset(name=name, kind=kind, splits=usable, about=about, derived=True)


def _texts(example: Example) -> Sequence[str]:
    return [" ".join(example.words)] if isinstance(example, TagExample) else example.texts


def _sentences(document: str) -> list[str]:
    return [text for text in map(str.strip, split_sentences(document)) if _MIN_LENGTH <= len(text) <= _MAX_LENGTH]


def _packages(texts: Mapping[str, str], seed: int) -> dict[str, list[ClassifyExample]]:
    """Sentences from the packages with the most documents, roughly balanced."""
    counts = Counter(package for module in texts if (package := _package_of(module)))
    packages = {package for package, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NUM_PACKAGES]}
    splits: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, document in sorted(texts.items()):
        if (package := _package_of(module)) in packages:
            sentences = _sentences(document)
            chosen = Random(f"{module} {seed}").sample(sentences, min(_MAX_PER_DOCUMENT, len(sentences)))
            splits[_split_of(module)][package] += [text for text in chosen if package not in text.lower()]
    examples: dict[str, list[ClassifyExample]] = {}
    for split, by_package in splits.items():
        # At most three times as many as of the rarest package, so that the majority baseline stays low.
        most = max(10, 3 * min(map(len, by_package.values())))
        rows = [(text, package) for package, some in sorted(by_package.items()) for text in some[:most]]
        Random(f"packages {split} {seed}").shuffle(rows)
        examples[split] = [
            ClassifyExample(file=_SOURCE, row=row, text=text, label=label) for row, (text, label) in enumerate(rows, 1)
        ]
    return examples


def _package_of(module: str) -> str:
    package, slash, _ = module.partition("/")
    return package if slash else ""


def _adjacency(texts: Mapping[str, str], seed: int) -> dict[str, list[PairExample]]:
    """Adjacent sentences of a document, and sentences paired with one from another document of the same split."""
    splits: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for module, document in sorted(texts.items()):
        pairs = []
        for paragraph in document.split("\n"):
            sentences = _sentences(paragraph)
            pairs += list(zip(sentences[::2], sentences[1::2], strict=False))
        splits[_split_of(module)] += Random(f"{module} {seed}").sample(pairs, min(_MAX_PER_DOCUMENT, len(pairs)))
    examples: dict[str, list[PairExample]] = {}
    for split, pairs in splits.items():
        rng = Random(f"neighbours {split} {seed}")
        rng.shuffle(pairs)
        half = len(pairs) // 2
        seconds = [second for _, second in pairs[half:]]
        seconds = seconds[1:] + seconds[:1]  # shifted, so that each second sentence occurs once
        rows = [(first, second, "together") for first, second in pairs[:half]]
        rows += [(first, second, "apart") for (first, _), second in zip(pairs[half:], seconds, strict=True)]
        rng.shuffle(rows)
        examples[split] = [
            PairExample(file=_SOURCE, row=row, text_a=first, text_b=second, label=label)
            for row, (first, second, label) in enumerate(rows, 1)
        ]
    return examples


def _parameters(texts: Mapping[str, str]) -> dict[str, list[TagExample]]:
    """Parameter descriptions: a name, a type and an explanation."""
    splits: dict[str, list[TagExample]] = defaultdict(list)
    for module, parameters in parameter_docs(sorted(texts)):
        split = splits[_split_of(module)]
        seen = set()
        for name, kind, about in parameters[:_MAX_PER_DOCUMENT]:
            tagged = [
                *_bio_tags(name.split(), "NAME"),
                *_bio_tags(kind.split(), "TYPE"),
                *((word, "O") for word in about.split()),
            ]
            words, tags = zip(*tagged, strict=True)
            if words not in seen:
                seen.add(words)
                split.append(TagExample(file=_SOURCE, row=len(split) + 1, words=words, tags=tags))
    return splits


def _bio_tags(words: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words):
        yield word, f"{'I' if number else 'B'}-{name}"
