"""An English corpus from the docstrings of the standard library and of Polyseme's dependencies.

Source files are read as text, never imported; code, tables and markup are removed.
"""

import hashlib
import importlib.metadata
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

MAX_WORDS = 2_200_000
_MAX_FILE_LENGTH = 1_500_000  # characters; longer files are generated code
_MIN_WORDS = 20  # of a document
_NOT_PROSE = {"test", "tests", "testing", "idle_test", "lib2to3", "turtledemo", "pydoc_data", "encodings"}
_NOT_PROSE |= {"site-packages", "dist-packages", "lib-dynload", "__pycache__"}
_NOT_PROSE |= {"_vendor", "_bundled", "third_party", "vendored_packages"}


def documents() -> Iterator[tuple[str, str]]:
    """Module paths and their docstrings as prose, one paragraph per line, in a fixed order that mixes the packages.

    At most about `MAX_WORDS` words are taken, evenly from all packages.
    """
    packages = {name: sorted(files, key=lambda file: _digest(file[0])) for name, files in _sources().items()}
    # Round-robin, so that the bound truncates the largest packages rather than the last of the alphabet.
    turns = zip_longest(*(packages[name] for name in sorted(packages)))
    seen: set[bytes] = set()
    taken: list[tuple[str, str]] = []
    num_words = 0
    for name, path in (file for turn in turns for file in turn if file):
        found = {_digest(paragraph): paragraph for text in _texts(path) for paragraph in extract_prose(text)}
        new = [paragraph for digest, paragraph in found.items() if digest not in seen]
        seen |= found.keys()
        length = sum(paragraph.count(" ") + 1 for paragraph in new)
        if length >= _MIN_WORDS:
            taken.append((name, "\n".join(new)))
            num_words += length
        if num_words >= MAX_WORDS:
            break
    yield from sorted(taken, key=lambda document: _digest(document[0]))


def parameter_docs(modules: Iterable[str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """The documented parameters of modules as (name, type, description), in NumPy or Google style."""
    paths = {name: path for files in _sources().values() for name, path in files}
    for module in modules:
        found = [
            (match[1], match[2], match[3])
            for text in (_texts(paths[module]) if module in paths else ())
            for match in (*_NUMPY.finditer(text), *_GOOGLE.finditer(text))
        ]
        cleaned = [tuple(" ".join(part.replace("`", "").split()) for part in parameter) for parameter in found]
        yield module, [(name, type, about) for name, type, about in cleaned if name and type and about]


def document_id(text: str) -> str:
    """A short hash that identifies a document."""
    return _digest(text.strip()).hex()


def source_versions() -> list[str]:
    """The packages that the text is taken from, as `name==version`; equal lists give equal text."""
    found = [f"{name}=={distribution.version}" for name, distribution in _distributions().items()]
    return [f"python=={'.'.join(map(str, sys.version_info[:3]))}", *sorted(found)]


def extract_prose(docstring: str) -> list[str]:
    """The paragraphs of a docstring that are English prose."""
    paragraphs: list[list[str]] = [[]]
    skip_deeper: int | None = None  # skip lines with more than this indentation, which are a block of code
    skip_section = skip_output = fenced = False
    lines = [line.rstrip() for line in docstring.expandtabs(4).splitlines()]
    for position, line in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith(("```", "~~~")):
            fenced = not fenced
            continue
        if not text:
            paragraphs.append([])
            skip_output = False
            continue
        if fenced or skip_output or (skip_deeper is not None and indent > skip_deeper):
            continue
        skip_deeper = None
        below = lines[position + 1].strip() if position + 1 < len(lines) else ""
        if _RULE.fullmatch(below) and not _RULE.fullmatch(text):
            skip_section = text.lower().rstrip(":") in _SKIPPED_SECTIONS
            continue
        if _RULE.fullmatch(text):
            paragraphs.append([])
            continue
        google = text.lower().rstrip(":") if text.endswith(":") and " " not in text else ""
        if google in _SKIPPED_SECTIONS:
            skip_deeper = indent
            continue
        if skip_section or google in _SECTION_TITLES:
            continue
        if text.startswith((">>>", "In [", "$ ")):
            skip_output = True
            continue
        if text.startswith(".. "):
            if not text.startswith(_ADMONITIONS):
                skip_deeper = indent
            paragraphs.append([])
            continue
        if text.endswith("::"):
            skip_deeper = indent
            text = text[:-1]
        starts = _ITEM.match(text) or _FIELD.match(text)
        if starts:
            paragraphs.append([])
            text = text[starts.end() :]
        elif _PARAMETER.match(text):
            paragraphs.append([])
            continue
        elif below and paragraphs[-1] and indent > len(lines[position - 1]) - len(lines[position - 1].lstrip()) + 3:
            paragraphs.append([])
        paragraphs[-1].append(text)
    return [text for lines in paragraphs if lines and (text := _sentences(" ".join(lines)))]


_RULE = re.compile(r"([-=~^*#+_\"'`.])\1{2,}[-=~^*#+ ]*")
_SKIPPED_SECTIONS = {"references", "reference", "see also", "methods", "usage", "authors"}
_SKIPPED_SECTIONS |= {"bibliography", "license", "copyright", "author", "table of contents", "contents", "doctests"}
_SECTION_TITLES = {"args", "arguments", "parameters", "params", "kwargs", "attributes", "inputs", "outputs", "options"}
_SECTION_TITLES |= {"returns", "return", "raises", "yields", "shape", "note", "notes", "warning", "example", "examples"}
_ADMONITIONS = (".. note::", ".. warning::", ".. important::", ".. tip::", ".. caution::", ".. attention::")
_ITEM = re.compile(r"(?:[-*+•]|\d{1,2}[.)]|\(\w\))\s+")
_FIELD = re.compile(
    r":\w+[^:`]{0,60}:\s+|\*{0,2}[\w.]+\*{0,2} \([^)]{1,80}\)\s*:\s+|`{0,2}\*{0,2}\w+`{0,2}\s*(?:--?|:)\s+(?=[A-Z])"
)
_PARAMETER = re.compile(r"[*`\w., {}']+ : \S|:\w+ ?\w*:$|[*\w]+ ?:$")
_MARKUP = [
    (re.compile(r"!?\[([^\]]+)\]\([^)]*\)"), r"\1"),  # Markdown links
    (re.compile(r":[\w:+-]+:`[~!]?([^`<]+?)(?:\s*<[^>]*>)?`"), r"\1"),  # reST roles
    (re.compile(r"`([^`<]+?)\s*<[^>]*>`_{0,2}"), r"\1"),
    (re.compile(r"\s?\[(?:\d+|\w*\d{4}\w?)\]_?"), ""),  # citations
    (re.compile(r"`+([^`]*)`+_?"), r"\1"),
    (re.compile(r"\*{1,2}(\w[^*]*)\*{1,2}"), r"\1"),
]
_MARKUP_SIGNS = frozenset("`*[")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<![ .][A-Z]\.)(?<!e\.g\.)(?<!i\.e\.) (?=[A-Z\"'(])|(?<=:) (?=[A-Z])")
_WORD = re.compile(r"[\"'(]*[A-Za-z]+(?:['-][A-Za-z]+)*[.,;:!?)\"']*|\d+[.,;:)]*|-{1,2}|–|—")
_COMMON = re.compile(
    r"\b(?:the|an?|of|to|is|are|in|for|and|that|be|with|by|this|it|from|if|on|as|or|which|was)\b", re.I
)
_REJECTED_SIGNS = re.compile(r"[{}<>|\\=@~^$]|\.\.")
_REJECTED_WORDS = re.compile(
    r"https?:|copyright|licen[sc]e|warrant|permission|all rights|merchantab|\(c\)|fixme|todo|xxx"
)


def _sentences(paragraph: str) -> str:
    if not _MARKUP_SIGNS.isdisjoint(paragraph):
        for pattern, replacement in _MARKUP:
            paragraph = pattern.sub(replacement, paragraph)
    paragraph = " ".join(paragraph.split())
    if paragraph.endswith(":"):  # it introduced a block of code
        paragraph = paragraph[: max(paragraph.rfind(end) for end in (". ", "! ", "? ")) + 1]
    elif paragraph and (paragraph[-1].isalnum() or paragraph[-1] in ")'"):
        paragraph += "."
    sentences = [sentence for sentence in _SENTENCE_END.split(paragraph) if _is_prose(sentence)]
    text = " ".join(sentences)
    return text[:1].upper() + text[1:]


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    if not 4 <= len(words) <= 80 or sentence[-1] not in ".!?:)\"'" or not sentence.isascii():
        return False
    if _REJECTED_SIGNS.search(sentence) or _REJECTED_WORDS.search(sentence.lower()):
        return False
    num_other = sum(not (word.isalpha() or _WORD.fullmatch(word)) for word in words)
    return num_other <= 0.17 * len(words) and len(_COMMON.findall(sentence)) * 12 >= len(words)


_NAME = r"\*{0,2}[A-Za-z_]\w*"
_NUMPY = re.compile(rf"^ *({_NAME}(?:, {_NAME})*) : ([^\n]{{2,60}})\n +([^\n]{{10,120}})", re.MULTILINE)
_GOOGLE = re.compile(rf"^ +({_NAME}) \(([^()\n]{{2,60}})\): +([^\n]{{10,120}})", re.MULTILINE)
_QUOTED = re.compile(r"(\"\"\"|''')(.*?)\1", re.DOTALL)


def _texts(path: str) -> Iterator[str]:
    """The docstrings of a file, and the texts passed to calls such as `add_docstr(torch.abs, ...)`.

    A regular expression is twenty times faster than `ast`; other strings that it matches are not prose and are dropped
    later.
    """
    try:
        source = Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return
    if len(source) > _MAX_FILE_LENGTH:
        return
    for match in _QUOTED.finditer(source):
        before = source[max(0, match.start() - 300) : match.start()].rstrip("rRuU").rstrip()
        if before.endswith((":", ",", "(")) or not before or before.rpartition("\n")[2].startswith("#"):
            yield inspect.cleandoc(match[2])


def _sources() -> dict[str, list[tuple[str, str]]]:
    """Module paths and files of every package, without tests and generated data."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    packages = {
        "python": [(f"python/{path.relative_to(standard).as_posix()}", path) for path in standard.rglob("*.py")]
    }
    for name, distribution in _distributions().items():
        files = [file for file in distribution.files or [] if file.suffix == ".py"]
        packages[name] = [(file.as_posix(), Path(str(distribution.locate_file(file)))) for file in files]
    return {
        package: [(name, str(path)) for name, path in files if _is_wanted(name)] for package, files in packages.items()
    }


def _is_wanted(name: str) -> bool:
    *folders, file = name.split("/")
    return ".." not in folders and _NOT_PROSE.isdisjoint(folders) and not file.startswith(("test_", "conftest"))


def _distributions() -> dict[str, importlib.metadata.Distribution]:
    """The installed dependencies of Polyseme, direct and indirect, without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    pending = ["polyseme"]
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        pending += [
            match[0]
            for requirement in found[name].requires or []
            if not re.search(r";.*\bextra\b", requirement) and (match := re.match(r"[\w.-]+", requirement))
        ]
    found.pop("polyseme", None)
    return dict(sorted(found.items()))


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()
