"""Labelled spans of sentences, one or two to a label, as edge probing asks about them (Tenney et al., ICLR 2019).

pos, dependencies   the columns of CoNLL-U: every word, or every head with its dependent
tag, classify       labelled files: every word, or the whole text
edges               lines of JSON, whose spans count words between white space:
                    {"text": "Ann met Bo", "targets": [{"span1": [0, 1], "span2": [2, 3], "label": "met"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import Reader, format_of, place_of
from polyseme.text.forms import ClassifyExample, TagExample
from polyseme.text.labelled import find_file, guess_task, read_examples
from polyseme.text.records import Record, RowError

KINDS = ("pos", "dependencies", "tag", "classify", "edges")
_OF_CONLLU = ("pos", "dependencies")
_COLUMNS = 10  # of CoNLL-U
_NO_WORD = re.compile(r"\d+[-.]\d+")  # 3-4 is written as one but read as two, 5.1 is not written at all

Span = tuple[int, int]  # characters: the first, and the one behind the last


@dataclass(frozen=True, kw_only=True)
class Target:
    """Spans of a sentence, and what they are."""

    spans: tuple[Span, ...]
    labels: tuple[str, ...]  # one; or any number where the file has lists


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A text, and what is asked about it, by kind."""

    text: str
    targets: Mapping[str, Sequence[Target]]


def read_sentences(
    path: str | Path, kinds: Sequence[str] = (), *, columns: Mapping[str, str] | None = None
) -> list[Sentence]:
    """The sentences of a file with what is asked of each kind; where none is named, the file tells."""
    file = find_file(path)
    kinds = [_known(kind) for kind in kinds] or _guess(file, columns)
    tagged = kinds == ["pos"] and not _is_conllu(file)  # the last column of other files
    if columns and (not set(kinds) <= {"tag", "classify"}) and not tagged:
        raise ConfigError(f"{', '.join(kinds)}: there are no columns to name; leave --column out")
    if set(kinds) <= {*_OF_CONLLU} and not tagged:
        found = list(_read_conllu(file, kinds))
    elif len(kinds) > 1:
        raise ConfigError(f"{file} is read in one way; say one of {', '.join(kinds)}")
    elif kinds == ["edges"]:
        found = list(_read_edges(file))
    elif kinds == ["classify"]:
        found = [_whole(example) for example in read_examples(file, ClassifyExample, columns=columns)]
    else:
        found = [_tagged(example, kinds[0]) for example in read_examples(file, TagExample, columns=columns)]
    if not found:
        raise DataError(f"{file} holds no sentences; give at least one")
    return found


def _known(kind: str) -> str:
    if kind.lower() not in KINDS:
        raise ConfigError(f"{kind!r} is nothing to probe for{nearest(kind.lower(), KINDS)}")
    return kind.lower()


def _is_conllu(file: Path) -> bool:
    return ".conllu" in file.suffixes


def _guess(file: Path, columns: Mapping[str, str] | None) -> list[str]:
    if _is_conllu(file):
        return [*_OF_CONLLU]
    if format_of(file) == "jsonl" and "targets" in next(Reader(file).records(), (0, {}))[1]:
        return ["edges"]
    kind = guess_task(file, columns=columns)
    if kind not in KINDS:
        raise DataError(f"{file} is of the form {kind}, which has no spans; say one of {', '.join(KINDS)}")
    return [kind]


def _whole(example: ClassifyExample) -> Sentence:
    target = Target(spans=((0, len(example.text)),), labels=example.labels)
    return Sentence(text=example.text, targets={"classify": [target]})


def _tagged(example: TagExample, kind: str) -> Sentence:
    targets = [
        Target(spans=((start, end),), labels=(tag,))
        for (_, start, end), tag in zip(example.spans, example.tags, strict=True)
    ]
    return Sentence(text=example.text, targets={kind: targets})


@dataclass(frozen=True, kw_only=True)
class _Word:
    """A line of CoNLL-U."""

    place: str
    form: str
    part: str
    head: str
    relation: str
    joined: bool  # to the word behind it

    @classmethod
    def of(cls, file: Path, number: int, fields: Sequence[str]) -> _Word:
        _, form, _, part, _, _, head, relation, _, rest = map(str.strip, fields)
        joined = "SpaceAfter=No" in rest.split("|")
        return cls(place=place_of(file, number), form=form, part=part, head=head, relation=relation, joined=joined)


def _read_conllu(file: Path, kinds: Sequence[str]) -> Iterator[Sentence]:
    words: list[_Word] = []
    for number, line in enumerate([*Reader(file).rows(), ""], start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if words:
                yield _sentence(words, kinds)
            words = []
            continue
        fields, place = line.split("\t"), place_of(file, number)
        if len(fields) != _COLUMNS:
            found = f"{len(fields)} of {_COLUMNS}"
            raise RowError(place, "not the columns of CoNLL-U", "write them with tabs between", found=found)
        if _NO_WORD.fullmatch(fields[0]):
            continue
        if fields[0] != str(len(words) + 1):
            remedy = "number words from 1, with a blank line after a sentence"
            raise RowError(place, "words are not numbered one by one", remedy, found=f"{fields[0]!r:.20}")
        if not fields[1].strip():
            raise RowError(place, "the word is empty", "write it, or drop the line")
        words.append(_Word.of(file, number, fields))


def _sentence(words: Sequence[_Word], kinds: Sequence[str]) -> Sentence:
    text = "".join(word.form + ("" if word.joined else " ") for word in words).rstrip()
    ends = accumulate(len(word.form) + (not word.joined) for word in words)
    starts = [0, *ends]
    spans = [(start, start + len(word.form)) for start, word in zip(starts, words, strict=False)]
    makers = {"pos": _parts, "dependencies": _dependencies}
    return Sentence(text=text, targets={kind: list(makers[kind](words, spans)) for kind in kinds})


def _parts(words: Sequence[_Word], spans: Sequence[Span]) -> Iterator[Target]:
    for word, span in zip(words, spans, strict=True):
        if word.part == "_":
            raise RowError(word.place, "a word has no part of speech", "fill column 4, or say --task dependencies")
        yield Target(spans=(span,), labels=(word.part,))


def _dependencies(words: Sequence[_Word], spans: Sequence[Span]) -> Iterator[Target]:
    for word, span in zip(words, spans, strict=True):
        if not word.head.isdecimal() or int(word.head) > len(words) or word.relation == "_":
            found = f"{word.head!r:.20} {word.relation!r:.20}"
            remedy = "fill columns 7 and 8, or say --task pos"
            raise RowError(word.place, "a word has no head or no relation to it", remedy, found=found)
        if int(word.head):  # the root hangs from nothing
            yield Target(spans=(spans[int(word.head) - 1], span), labels=(word.relation,))


def _read_edges(file: Path) -> Iterator[Sentence]:
    num_spans = 0
    for row, values in Reader(file).records():
        record = Record(file, row, values, {})
        if isinstance(text := record.value("text"), list):
            text = " ".join(record.texts("text"))
        if not isinstance(text, str) or not text.strip():
            raise record.fault("the text is neither a text nor a list of words", "write either")
        words = [match.span() for match in re.finditer(r"\S+", text)]
        given = values.get("targets")
        if not isinstance(given, list):
            raise record.fault("no list of targets", 'write "targets": [{"span1": [0, 1], "label": …}]')
        targets = [_target(record, target, words) for target in given]
        for target in targets:
            num_spans = num_spans or len(target.spans)
            if len(target.spans) != num_spans:
                raise record.fault("some targets have one span and some two", "give all the same number")
        yield Sentence(text=text, targets={"edges": targets})


def _target(record: Record, given: Any, words: Sequence[Span]) -> Target:
    if not isinstance(given, dict) or "span1" not in given or "label" not in given:
        raise record.fault("a target without span1 or label", 'write {"span1": [0, 1], "label": …}')
    spans = []
    for name in ("span1", "span2"):
        if (span := given.get(name)) is None:
            continue
        whole = isinstance(span, list) and len(span) == 2 and all(type(place) is int for place in span)
        if not whole or not 0 <= span[0] < span[1] <= len(words):
            remedy = f"write the first word and the one behind the last, from 0 to {len(words)}"
            raise record.fault(f"{name} is no span of the words", remedy, found=f"{span!r:.40}")
        spans.append((words[span[0]][0], words[span[1] - 1][1]))
    label = given["label"]
    labels = label if isinstance(label, list) else [label]
    if not all(isinstance(name, str | int | float) and str(name).strip() for name in labels):
        raise record.fault("a label is neither a word nor a number", "write one, or a list", found=f"{label!r:.40}")
    return Target(spans=tuple(spans), labels=tuple(str(name).strip() for name in labels))
