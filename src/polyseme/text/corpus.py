"""Corpora: restartable, streamed readers of text files, whatever is in them."""

import codecs
import csv
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from polyseme.config import nearest
from polyseme.errors import DataError
from polyseme.text.sentences import split_sentences

FORMATS = {
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
GIVEN = Path("given")
"""Where rows are that stand in no file."""
LONGEST_LINE = 1_000_000  # characters; the tokenizers library needs 130 bytes for each
LONGEST_ROW = 16_000_000  # characters of a JSON or CSV row, which cannot be cut
_BLOCK = 1 << 18
_ENOUGH = 64_000  # characters after which the share of bad ones is judged
_FEW = 8  # bad bytes that even the smallest file may have
_UNFIT = re.compile("[\0\ud800-\udfff]")
_BREAKS = " \n\t。！？；，、.!?;,"


@dataclass
class Tally:
    """What one pass over a corpus has met."""

    documents: int = 0
    empty: int = 0  # documents of white space only, skipped
    characters: int = 0
    replaced: int = 0  # undecodable bytes, NULs and lone surrogates, read as U+FFFD
    split_lines: int = 0  # cuts made in lines that were too long


class Corpus:
    """Documents from files, folders and glob patterns, read from the start at every iteration."""

    split = staticmethod(split_sentences)  # a document into what a row may begin with

    def __init__(self, *paths: str | Path, column: str = "text") -> None:
        self.column = column
        self.files = [file for path in paths for file in _find(str(path))]
        if not self.files:
            raise DataError("no corpus was named; give a file, a folder or a pattern such as 'text/*.txt'")
        self.tally = Tally()
        self.bytes_read = 0
        self._fingerprint = ""

    @property
    def parts(self) -> list["Corpus"]:
        """Its languages, one after the other."""
        return [self]

    @property
    def num_bytes(self) -> int:
        """The size of all files on disk."""
        return sum(file.stat().st_size for file in self.files)

    def fingerprint(self) -> str:
        """A checksum of the contents and of how they are read, whatever the files are called."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for file in self.files:
                digest.update(f"{format_of(file)} {_packing(file)} {self.column} {file.stat().st_size}\n".encode())
                with readable(file), file.open("rb") as stream:
                    while block := stream.read(_BLOCK):
                        digest.update(block)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def __iter__(self) -> Iterator[str]:
        tally = self.tally = Tally()
        before = self.bytes_read = 0
        for file in self.files:
            reader = Reader(file, self.column, tally)
            with readable(file):
                for document in reader.documents():
                    self.bytes_read = before + reader.position
                    if document and not document.isspace():
                        tally.documents += 1
                        tally.characters += len(document)
                        yield document
                    else:
                        tally.empty += 1
            before += file.stat().st_size
            self.bytes_read = before
        if tally.documents == 0:
            names = ", ".join(map(str, self.files[:3])) + (", …" if len(self.files) > 3 else "")
            raise DataError(f"{names} holds no text; give files with at least one document")


class Reader:
    """One pass over one file."""

    def __init__(self, file: Path, column: str = "text", tally: Tally | None = None) -> None:
        self.file = file
        self.format = format_of(file)
        self.column = column
        self.tally = tally or Tally()
        self.position = 0  # bytes on disk
        self.num_characters = 0
        self.num_bad = 0

    def documents(self) -> Iterator[str]:
        """Documents in order, none too long."""
        if self.format == "txt":
            return self._paragraphs(self._lines(longest=LONGEST_LINE))
        return self._cut(self._values())

    def rows(self) -> Iterator[str]:
        """One text a line or row, whole, the empty ones too."""
        with readable(self.file):
            if self.format == "txt":
                yield from (line for _, line in self._lines(longest=LONGEST_ROW))
            else:
                yield from map(self.mend, self._values())

    def records(self) -> Iterator[tuple[int, dict[str | None, Any]]]:
        """The rows of a table by the names of its columns, each with the line it begins at, or its number in Parquet.

        Fields that a line lacks are none; those that it has beyond its names are under no name.
        """
        records = {"jsonl": self._json_records, "csv": self._csv_records, "tsv": self._csv_records}
        if self.format == "txt":
            raise DataError(f"{self.file} is not a table; write it as .tsv, .csv, .jsonl or .parquet")
        with readable(self.file):
            for number, record in records.get(self.format, self._parquet_records)():
                yield number, {name: self._mended(value) for name, value in record.items()}

    def content(self) -> Any:
        """What a file that is JSON as a whole holds."""
        with readable(self.file):
            return self._parse("".join(self._texts()), 1)

    def _values(self) -> Iterator[str]:
        values = {"jsonl": self._json_values, "csv": self._csv_values, "tsv": self._csv_values}
        return values.get(self.format, self._parquet_values)()

    def _cut(self, values: Iterable[str]) -> Iterator[str]:
        for value in values:
            text = self.mend(value)
            if len(text) <= LONGEST_LINE:
                yield text
            else:
                lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
                yield from _gather(piece for number, line in lines for piece in self._split(number, line))

    def _paragraphs(self, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
        return _gather((line for _, line in lines), blank_ends=True)

    def _json_values(self) -> Iterator[str]:
        for number, row in self._json_rows():
            if isinstance(row, dict):
                if self.column not in row:
                    raise self.no_column(self.column, row, f", line {number}")
                row = row[self.column]
            if isinstance(row, list) and all(isinstance(turn, str) for turn in row):
                row = "\n".join(" ".join(turn.split()) for turn in row)
            yield self._string(number, row)

    def _json_records(self) -> Iterator[tuple[int, dict[str | None, Any]]]:
        for number, row in self._json_rows():
            if not isinstance(row, dict):
                raise DataError(f'{self.file}, line {number}: not a row with columns; write it as {{"text": …}}')
            yield number, row

    def _json_rows(self) -> Iterator[tuple[int, Any]]:
        for number, line in self._lines(longest=LONGEST_ROW):
            if line and not line.isspace():
                yield number, self._parse(line, number)

    def _parse(self, text: str, number: int) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            why = "nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                why, number = error.msg, number + error.lineno - 1
            raise DataError(f"{self.file}, line {number}: not JSON ({why}); mend the row or delete it") from None

    def _csv_values(self) -> Iterator[str]:
        rows = self._csv_rows()
        _, header = next(rows, (1, []))
        if self.column not in header:
            raise self.no_column(self.column, header)
        index = header.index(self.column)
        for _, row in rows:
            yield row[index] if index < len(row) else ""

    def _csv_records(self) -> Iterator[tuple[int, dict[str | None, Any]]]:
        rows = self._csv_rows()
        _, header = next(rows, (1, []))
        return ((number, dict(zip_longest(header, row))) for number, row in rows if row)

    def _csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        # The limit belongs to the whole process; raising it harms nobody.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
        lines = (f"{line}\n" for _, line in self._lines(longest=LONGEST_ROW))
        # Quotes in TSV files are mostly plain text, and one left open would swallow the rest.
        tabbed = self.format == "tsv"
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if tabbed else csv.reader(lines)
        number = 1
        try:
            for row in rows:
                yield number, row
                number = rows.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{self.file}, line {rows.line_num}: not a CSV row ({error}); look for a quotation mark left open"
            ) from None

    def _parquet_values(self) -> Iterator[str]:
        return (self._string(number, row[self.column]) for number, row in self._parquet_records(self.column))

    def _parquet_records(self, column: str | None = None) -> Iterator[tuple[int, dict[str | None, Any]]]:
        """Rows with all columns, or with one of them."""
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise DataError(f"{self.file}: reading Parquet needs pyarrow; pip install 'polyseme[data]'") from None
        size = self.file.stat().st_size
        try:
            with parquet.ParquetFile(self.file, buffer_size=_BLOCK, pre_buffer=False) as table:
                names = table.schema_arrow.names
                if column is not None and column not in names:
                    raise self.no_column(column, names)
                num_rows = max(table.metadata.num_rows, 1)
                number = 0
                for batch in table.iter_batches(batch_size=256, columns=names if column is None else [column]):
                    parts = [_raw(part).to_pylist() for part in batch.columns]
                    for row in zip(*parts, strict=True):
                        number += 1
                        self.position = size * number // num_rows
                        yield number, dict(zip(batch.schema.names, row, strict=True))
        except arrow.ArrowException as error:
            why = str(error).splitlines()[0]
            raise DataError(f"{self.file}: not a readable Parquet file ({why:.120}); write it again") from None

    def _string(self, number: int, value: Any) -> str:
        if isinstance(value, bytes):
            return self._decode(value)
        if value is not None and not isinstance(value, str):
            raise DataError(
                f"{place_of(self.file, number)}: {self.column!r} is not a string; give text, or name another column"
            )
        return value or ""

    def _mended(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._mended(part) if isinstance(part, str | bytes) else part for part in value]
        if isinstance(value, bytes):
            value = self._decode(value)
        return self.mend(value) if isinstance(value, str) else value

    def _decode(self, data: bytes) -> str:
        text = data.decode("utf-8", "replace")
        self._count(text, text.count("\ufffd") - data.count(b"\xef\xbf\xbd") if not text.isascii() else 0)
        return text

    def _lines(self, *, longest: int) -> Iterator[tuple[int, str]]:
        """Numbered lines; those over `longest` are cut where they may be, and refused where not."""
        rest, number = "", 1
        for text in self._texts():
            *lines, rest = (rest + text).replace("\r\n", "\n").split("\n")
            for line in lines:
                if len(line) <= longest:
                    yield number, line
                else:
                    for piece in self._split(number, line, longest):
                        yield number, piece
                number += 1
            while len(rest) > longest:
                end = self._break(number, rest, longest)
                yield number, rest[:end]
                rest = rest[end:]
        if rest:
            yield number, rest.removesuffix("\r")

    def _split(self, number: int, line: str, longest: int = LONGEST_LINE) -> Iterator[str]:
        while len(line) > longest:
            end = self._break(number, line, longest)
            yield line[:end]
            line = line[end:]
        yield line

    def _break(self, number: int, line: str, longest: int) -> int:
        if longest == LONGEST_ROW:
            raise DataError(f"{self.file}, line {number}: a row of over 16 MB; split it into several documents")
        # White space first: a cut after a comma of "1,000" would be worse than one a little earlier.
        end = max(line.rfind(mark, longest // 2, longest) for mark in " \t") + 1
        end = end or max(line.rfind(mark, 0, longest) for mark in _BREAKS) + 1
        if end == 0:
            raise DataError(
                f"{self.file}, line {number}: is not text (a million characters without a space); leave it out"
            )
        self.tally.split_lines += 1
        return end

    def _texts(self) -> Iterator[str]:
        """The decoded content, block by block."""
        decoder, sample = codecs.getincrementaldecoder("utf-8")("replace"), b""
        for block in self._blocks():
            if not sample:
                if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise DataError(f"{self.file} is not UTF-8 but UTF-16; {_advice(self.file, 'utf-16')}")
                sample, block = block, block.removeprefix(codecs.BOM_UTF8)
            text = decoder.decode(block)
            self._count(text, 0 if text.isascii() else text.count("\ufffd") - block.count(b"\xef\xbf\xbd"))
            if self.num_characters > _ENOUGH:
                self._judge(sample)
            yield self.mend(text) if "\0" in text else text  # surrogates come only out of JSON escapes
        tail = decoder.decode(b"", final=True)
        self._count(tail, len(tail))
        self._judge(sample)
        if tail:
            yield tail

    def _blocks(self) -> Iterator[bytes]:
        with self.file.open("rb") as raw, _unpacked(self.file, raw) as stream:
            while block := stream.read(_BLOCK):
                self.position = raw.tell()
                yield block

    def _count(self, text: str, num_bad: int) -> None:
        self.num_characters += len(text)
        self.num_bad += num_bad
        self.tally.replaced += num_bad

    def mend(self, text: str) -> str:
        """Replace what no encoding knows, one character for one."""
        if "\0" in text or not (text.isascii() or _encodable(text)):
            text, num_bad = _UNFIT.subn("\ufffd", text)
            self._count("", num_bad)
        return text

    def _judge(self, sample: bytes) -> None:
        if self.num_bad > max(_FEW, self.num_characters / 1000):
            share = f"{self.num_bad} bad bytes of {self.num_characters}"
            raise DataError(f"{self.file} is not UTF-8 ({share}); {_advice(self.file, _guess(sample))}")

    def no_column(self, column: str, known: Iterable[str], place: str = "") -> DataError:
        """The complaint about a column that is not there."""
        shown = (" ".join(str(name).split()) for name in known)  # quoted, a name may run over lines
        return DataError(f"{self.file}{place}: no column {column!r}{nearest(column, shown)}")


class Piped(Reader):
    """One pass over what is piped in: JSON, a table that begins with the names of its columns, or plain lines."""

    def __init__(self, stream: BinaryIO, columns: Collection[str]) -> None:
        super().__init__(Path("standard input"))
        self.stream = stream
        with readable(self.file):
            self.first = stream.readline(LONGEST_ROW)
        line = self.first.decode("utf-8-sig", "replace").rstrip("\r\n")
        if line.lstrip().startswith("{"):
            self.format = "jsonl"
        for format, mark in (("csv", ","), ("tsv", "\t")):
            if {*columns} <= {*line.split(mark)}:
                self.format = format

    def _blocks(self) -> Iterator[bytes]:
        block = self.first
        while block:
            yield block
            block = self.stream.read(_BLOCK)


def _gather(lines: Iterable[str], *, blank_ends: bool = False) -> Iterator[str]:
    """Join lines to documents; one that grows too long ends at a line's end."""
    held: list[str] = []
    length = 0
    for line in lines:
        blank = blank_ends and (not line or line.isspace())
        if held and (blank or length + len(line) > LONGEST_LINE):
            yield "\n".join(held)
            held, length = [], 0
        if not blank:
            held.append(line)
            length += len(line) + 1
    if held:
        yield "\n".join(held)


def _find(path: str) -> list[Path]:
    """The files that a path or pattern stands for, in order."""
    place = Path(path).expanduser()
    try:
        if place.is_file():
            return [place]
        if place.is_dir():
            return _inside(place, place.rglob("*"), "folder")
        if any(mark in path for mark in "*?["):
            root = Path(place.anchor)
            return _inside(place, root.glob(str(place.relative_to(root))), "pattern")
        if place.exists():
            return [place]
        names = [entry.name for entry in place.parent.iterdir()] if place.parent.is_dir() else []
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; check the path and its permissions") from None
    except ValueError as error:
        raise DataError(f"{path!r}: not a path ({error}); give a file, a folder or a pattern") from None
    hint = nearest(place.name, names)
    hint = hint if hint.startswith("; did") else "; check the path"
    raise DataError(f"{path}: no such file{hint}")


def _inside(place: Path, entries: Iterable[Path], kind: str) -> list[Path]:
    base = place if kind == "folder" else place.parent

    def hidden(entry: Path) -> bool:
        parts = entry.relative_to(base).parts if kind == "folder" else (entry.name,)
        return any(part.startswith(".") for part in parts)

    found = sorted(entry for entry in entries if not hidden(entry) and entry.is_file())
    known = [entry for entry in found if _stem(entry).suffix.lower() in FORMATS]
    if kind == "pattern":
        known = found  # whoever writes a pattern has named the files
    if not known:
        endings = ", ".join(FORMATS)
        raise DataError(f"{place}: no readable files in this {kind}; give {endings} (or .txt.gz, .txt.zst …)")
    return known


def _packing(file: Path) -> str:
    ending = file.suffix.lower()
    return ending if ending in (".gz", ".zst") else ""


def _stem(file: Path) -> Path:
    return file.with_suffix("") if _packing(file) else file


def format_of(file: Path) -> str:
    """How a file is read, by its ending."""
    return FORMATS.get(_stem(file).suffix.lower(), "txt")


def _raw(part: Any) -> Any:
    """A stretch of a Parquet column with its text as bytes, because what is not UTF-8 would be an error."""
    import pyarrow as arrow

    texts = (arrow.string(), arrow.large_string())
    if arrow.types.is_list(part.type) and part.type.value_type in texts:
        return part.cast(arrow.list_(arrow.large_binary()))
    return part.cast(arrow.large_binary()) if part.type in texts else part


def place_of(file: Path, number: int) -> str:
    """Where a row is, as a message says it."""
    return f"{file}, {'row' if file == GIVEN or format_of(file) == 'parquet' else 'line'} {number}"


def _unpacked(file: Path, raw: BinaryIO) -> BinaryIO:
    packing = _packing(file)
    if packing == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if packing == ".zst":
        try:
            import zstandard
        except ImportError:
            raise DataError(f"{file}: reading .zst needs zstandard; pip install 'polyseme[data]'") from None
        stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return cast(BinaryIO, io.BufferedReader(cast(Any, stream), _BLOCK))
    return raw


class readable:  # noqa: N801 - reads as a phrase: with readable(file)
    """Turn what the system and the decompressors raise about a file into one line."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        broken = isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)) or type(error).__name__ == "ZstdError"
        if broken:
            raise DataError(f"{self.file}: broken or cut short ({error}); fetch or compress it again") from None
        if isinstance(error, OSError):
            raise DataError(f"{self.file}: {error.strerror or error}; check the file and its permissions") from None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _guess(sample: bytes) -> str:
    try:
        codecs.getincrementaldecoder("gb18030")().decode(sample)
        return "gb18030"
    except UnicodeDecodeError:
        return "windows-1252"


def _advice(file: Path, kind: str) -> str:
    return f"convert it, for example with: iconv -f {kind} -t utf-8 {file} > {file}.utf8"
