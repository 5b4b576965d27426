"""Labelled spans for edge probing (Tenney et al., ICLR 2019): one or two spans of a sentence and their labels.

Kinds of annotation and the files they are read from:

pos, dependencies   CoNLL-U: every word, or every head with its dependent
tag, classify       labelled files: every word, or the whole text
edges               JSON lines with spans counted in white-space separated words:
                    {"text": "Ann met Bo", "targets": [{"span1": [0, 1], "span2": [2, 3], "label": "met"}]}
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from polyseme.config import suggest_name
from polyseme.corpora.file_readers import FileReader, detect_format, row_location
from polyseme.datasets.labelled_files import column_names, find_file, read_examples
from polyseme.datasets.records import Record, RowError
from polyseme.datasets.task_schemas import ClassifyExample, TagExample
from polyseme.errors import ConfigError, DataError

KINDS = ("pos", "dependencies", "tag", "classify", "edges")
_CONLLU_KINDS = ("pos", "dependencies")
_CONLLU_COLUMNS = 10
_NOT_A_WORD = re.compile(r"\d+[-.]\d+")  # ids of multiword tokens such as 3-4 and of empty nodes such as 5.1

Span = tuple[int, int]  # start and end offset in characters


@dataclass(frozen=True, kw_only=True)
class SpanTarget:
    """One or two spans of a sentence and their labels."""

    spans: tuple[Span, ...]
    labels: tuple[str, ...]  # one; any number if the file has lists of labels


@dataclass(frozen=True, kw_only=True)
class ProbingSentence:
    """A sentence and its targets for each kind of annotation."""

    text: str
    targets: Mapping[str, Sequence[SpanTarget]]


def read_sentences(
    path: str | Path, kinds: Sequence[str] = (), *, columns: Mapping[str, str] | None = None
) -> list[ProbingSentence]:
    """Read the sentences of a file with their targets; by default the kinds are inferred from the file."""
    file = find_file(path)
    kinds = [_check_kind(kind) for kind in kinds] or _infer_kinds(file)
    tagged = kinds == ["pos"] and not _is_conllu(file)  # part-of-speech tags in the last column of a CoNLL file
    if columns and (not set(kinds) <= {"tag", "classify"}) and not tagged:
        raise ConfigError(f"{', '.join(kinds)}: these files have fixed columns; omit --column")
    if set(kinds) <= {*_CONLLU_KINDS} and not tagged:
        sentences = list(_read_conllu(file, kinds))
    elif len(kinds) > 1:
        raise ConfigError(f"{file} has one kind of annotation; choose one of {', '.join(kinds)}")
    elif kinds == ["edges"]:
        sentences = list(_read_edges(file))
    elif kinds == ["classify"]:
        sentences = [_of_text(example) for example in read_examples(file, ClassifyExample, columns=columns)]
    else:
        sentences = [_of_tags(example, kinds[0]) for example in read_examples(file, TagExample, columns=columns)]
    if not sentences:
        raise DataError(f"{file} holds no sentences; give at least one")
    return sentences


def _check_kind(kind: str) -> str:
    if kind.lower() not in KINDS:
        raise ConfigError(f"unknown probing task {kind!r}{suggest_name(kind.lower(), KINDS)}")
    return kind.lower()


def _is_conllu(file: Path) -> bool:
    return ".conllu" in file.suffixes


def _infer_kinds(file: Path) -> list[str]:
    if _is_conllu(file):
        return [*_CONLLU_KINDS]
    if detect_format(file) == "jsonl" and "targets" in column_names(file):
        return ["edges"]
    return ["tag"] if detect_format(file) == "txt" else ["classify"]


def _of_text(example: ClassifyExample) -> ProbingSentence:
    target = SpanTarget(spans=((0, len(example.text)),), labels=example.labels)
    return ProbingSentence(text=example.text, targets={"classify": [target]})


def _of_tags(example: TagExample, kind: str) -> ProbingSentence:
    targets = [
        SpanTarget(spans=((start, end),), labels=(tag,))
        for (_, start, end), tag in zip(example.spans, example.tags, strict=True)
    ]
    return ProbingSentence(text=example.text, targets={kind: targets})


class _Word(NamedTuple):
    """A word line of CoNLL-U."""

    location: str
    form: str
    part_of_speech: str
    head: str
    relation: str
    space_after: str


def _read_conllu(file: Path, kinds: Sequence[str]) -> Iterator[ProbingSentence]:
    words: list[_Word] = []
    for number, line in enumerate([*FileReader(file).texts(), ""], start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if words:
                yield _of_words(words, kinds)
            words = []
            continue
        fields, location = line.split("\t"), row_location(file, number)
        if len(fields) != _CONLLU_COLUMNS:
            found = f"{len(fields)} instead of {_CONLLU_COLUMNS}"
            raise RowError(location, "not the columns of CoNLL-U", "separate them by tabs", found=found)
        if _NOT_A_WORD.fullmatch(fields[0]):
            continue
        if fields[0] != str(len(words) + 1):
            remedy = "number words from 1, with a blank line after each sentence"
            raise RowError(location, "words are not numbered consecutively", remedy, found=f"{fields[0]!r:.20}")
        _, form, _, part_of_speech, _, _, head, relation, _, misc = map(str.strip, fields)
        if not form:
            raise RowError(location, "the word is empty", "write it, or remove the line")
        space_after = "" if "SpaceAfter=No" in misc.split("|") else " "
        words.append(_Word(location, form, part_of_speech, head, relation, space_after))


def _of_words(words: Sequence[_Word], kinds: Sequence[str]) -> ProbingSentence:
    text = "".join(word.form + word.space_after for word in words).rstrip()
    starts = accumulate((len(word.form + word.space_after) for word in words), initial=0)
    spans = [(start, start + len(word.form)) for start, word in zip(starts, words, strict=False)]
    targets = {"pos": _pos_targets, "dependencies": _dependency_targets}
    return ProbingSentence(text=text, targets={kind: list(targets[kind](words, spans)) for kind in kinds})


def _pos_targets(words: Sequence[_Word], spans: Sequence[Span]) -> Iterator[SpanTarget]:
    for word, span in zip(words, spans, strict=True):
        if word.part_of_speech == "_":
            remedy = "fill in column 4, or choose --task dependencies"
            raise RowError(word.location, "the word has no part of speech", remedy)
        yield SpanTarget(spans=(span,), labels=(word.part_of_speech,))


def _dependency_targets(words: Sequence[_Word], spans: Sequence[Span]) -> Iterator[SpanTarget]:
    for word, span in zip(words, spans, strict=True):
        if not word.head.isdecimal() or int(word.head) > len(words) or word.relation == "_":
            found = f"{word.head!r:.20} {word.relation!r:.20}"
            remedy = "fill in columns 7 and 8, or choose --task pos"
            raise RowError(word.location, "the word has no valid head and relation", remedy, found=found)
        if int(word.head):  # the root has no head
            yield SpanTarget(spans=(spans[int(word.head) - 1], span), labels=(word.relation,))


def _read_edges(file: Path) -> Iterator[ProbingSentence]:
    num_spans: set[int] = set()
    for row, values in FileReader(file).records():
        record = Record(file, row, values, {})
        if isinstance(text := record.value("text"), list):
            text = " ".join(record.texts("text"))
        if not isinstance(text, str) or not text.strip():
            raise record.error("the text is neither a text nor a list of words", "write either")
        words = [match.span() for match in re.finditer(r"\S+", text)]
        targets = values.get("targets")
        if not isinstance(targets, list):
            raise record.error("no list of targets", 'write "targets": [{"span1": [0, 1], "label": …}]')
        parsed = [_parse_target(record, target, words) for target in targets]
        num_spans |= {len(target.spans) for target in parsed}
        if len(num_spans) > 1:
            raise record.error("some targets have one span and some two", "give the same number to all targets")
        yield ProbingSentence(text=text, targets={"edges": parsed})


def _parse_target(record: Record, target: Any, words: Sequence[Span]) -> SpanTarget:
    if not isinstance(target, dict) or "span1" not in target or "label" not in target:
        raise record.error("a target without span1 or label", 'write {"span1": [0, 1], "label": …}')
    spans = []
    for name in ("span1", "span2"):
        if (span := target.get(name)) is None:
            continue
        is_pair = isinstance(span, list) and len(span) == 2 and all(type(index) is int for index in span)
        if not is_pair or not 0 <= span[0] < span[1] <= len(words):
            remedy = f"write the index of its first word and the end index, at most {len(words)}"
            raise record.error(f"{name} is not a valid span", remedy, found=f"{span!r:.40}")
        spans.append((words[span[0]][0], words[span[1] - 1][1]))
    label = target["label"]
    labels = label if isinstance(label, list) else [label]
    if not all(isinstance(name, str | int | float) and str(name).strip() for name in labels):
        raise record.error("a label is neither a word nor a number", "write one, or a list", found=f"{label!r:.40}")
    return SpanTarget(spans=tuple(spans), labels=tuple(str(name).strip() for name in labels))
