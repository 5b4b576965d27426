"""Files of the town: a corpus, labelled data for every task, and evaluation sets."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from polyseme.datasets.town.generator import SPLITS, Row, Town
from polyseme.datasets.town.lexicon import LANGUAGES, Language, templates
from polyseme.datasets.town.word_sets import analogies, minimal_pairs, word_pairs


def write_town(
    folder: Path,
    seed: int = 0,
    *,
    languages: Sequence[Language] = LANGUAGES,
    num_documents: int = 2000,
    num_rows: int = 2000,
) -> None:
    """Write text and labelled data to a folder; dev and test sets have an eighth of the rows of the training set."""
    town = Town(seed)
    for language in languages:
        suffix = "" if language == "en" else "_zh"
        for split, number in (("train", num_documents), ("dev", num_documents // 16)):
            text = "\n\n".join(town.documents(number, language, split=split))
            (folder / f"{language}.{split}.txt").write_text(text + "\n", "utf-8")
        for kind, (ending, render) in _FORMATS.items():
            subfolder = folder / f"{kind}{suffix}"
            subfolder.mkdir()
            for split in SPLITS:
                number = num_rows if split == "train" else num_rows // 8
                rows = list(town.labelled_rows(kind, number, language=language, split=split))
                (subfolder / f"{split}.{ending}").write_text(render(rows), "utf-8")
        words, grammar = folder / f"words{suffix}", folder / f"minimal_pairs{suffix}"
        words.mkdir()
        grammar.mkdir()
        (words / "similarity.tsv").write_text(_tsv(list(word_pairs(language))), "utf-8")
        lines = (" ".join(row) for name, rows in analogies(town, language) for row in ((":", name), *rows))
        (words / "analogies.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for phenomenon in templates()["minimal_pairs"][language]:
            rows = list(minimal_pairs(town, phenomenon, num_rows // 10, language))
            (grammar / f"{phenomenon}.jsonl").write_text(_jsonl(rows), "utf-8")


def _tsv(rows: list[Row]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in ([*rows[0]], *([*row.values()] for row in rows)))


def _jsonl(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _conll(rows: list[Row]) -> str:
    columns = (zip(row["tokens"], row["tags"], strict=True) for row in rows)
    return "\n".join("".join(f"{token}\t{tag}\n" for token, tag in column) for column in columns)


def _squad(rows: list[Row]) -> str:
    fields = ("id", "question", "answers", "is_impossible")
    paragraphs = [{"context": row["context"], "qas": [{name: row[name] for name in fields}]} for row in rows]
    return json.dumps({"version": "v2.0", "data": [{"title": "town", "paragraphs": paragraphs}]}, ensure_ascii=False)


_FORMATS: dict[str, tuple[str, Callable[[list[Row]], str]]] = {
    **dict.fromkeys(("classify", "pair", "similarity", "translate", "senses"), ("tsv", _tsv)),
    "tag": ("conll", _conll),
    "choice": ("jsonl", _jsonl),
    "span": ("json", _squad),
}
