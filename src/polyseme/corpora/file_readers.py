"""Readers of text, JSON Lines, CSV, TSV and Parquet files, plain or compressed, in bounded memory."""

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from polyseme.config import suggest_name
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.errors import DataError
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import check_not_a_device

FORMATS = {".txt": "txt", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
IN_MEMORY = Path("input")
"""Stands for the file of rows that were passed as Python objects."""
MAX_LINE_LENGTH = 1_000_000  # characters; the tokenizers library needs 130 bytes for each
MAX_ROW_LENGTH = 16_000_000  # characters of a JSON or CSV row, which cannot be split
_BLOCK_SIZE = 1 << 18  # bytes read at a time
_MIN_JUDGED = 64_000  # characters after which the share of invalid bytes is judged
_ALWAYS_TOLERATED = 8  # invalid bytes, however small the file
_MAX_EXPANSION = 100  # of a compressed file; text expands to 3 to 30 times its size
_MIN_EXPANDED = 500_000  # bytes that may be repetitive
_INVALID = re.compile("[\0\ud800-\udfff]")
_BREAKS = " \n\t。！？；，、.!?;,"

Row = dict[str | None, Any]


class FileReader:
    """One pass over one file."""

    def __init__(self, file: Path, column: str = "text") -> None:
        self.file = file
        self.format = detect_format(file)
        self.column = column
        self.bytes_read = 0  # on disk
        self.num_characters = 0
        self.num_invalid = 0  # undecodable bytes, NULs and lone surrogates, replaced by U+FFFD

    def documents(self) -> Iterator[str]:
        """Documents in order, each of bounded length."""
        if self.format == "txt":
            yield from _join_lines((line for _, line in self._lines(longest=MAX_LINE_LENGTH)), blank_ends=True)
            return
        for text in self._values():
            if len(text) <= MAX_LINE_LENGTH:
                yield text
            else:
                lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
                yield from _join_lines(piece for number, line in lines for piece in self._split_line(number, line))

    def texts(self) -> Iterator[str]:
        """One text per line or row, never split, empty ones included."""
        with readable(self.file):
            if self.format == "txt":
                yield from (line for _, line in self._lines(longest=MAX_ROW_LENGTH))
            else:
                yield from self._values()

    def records(self, required: Iterable[str] = ()) -> Iterator[tuple[int, Row]]:
        """Rows of a table as column → value, each with its first line, or its number in a Parquet file.

        Missing fields are None; fields beyond the header are under the key None. The first row must have the required
        columns.
        """
        if self.format == "txt":
            raise DataError(f"{self.file} is not a table; write it as .tsv, .csv, .jsonl or .parquet")
        with readable(self.file):
            for index, (number, row) in enumerate(self._rows()):
                if not isinstance(row, dict):
                    raise DataError(f'{self.file}, line {number}: not a row with columns; write it as {{"text": …}}')
                for column in () if index else required:
                    if column not in row:
                        raise self.missing_column(column, filter(None, row))
                yield number, {name: self._cleaned(value) for name, value in row.items()}

    def json_content(self) -> Any:
        """The content of a file that is one JSON value."""
        with readable(self.file):
            return self._parse_json("".join(self._decoded()), 1)

    def replace_invalid(self, text: str) -> str:
        """Replace NULs and lone surrogates by U+FFFD, one character for one."""
        if "\0" in text or replace_surrogates(text) is not text:
            text, num_invalid = _INVALID.subn("\ufffd", text)
            self.num_invalid += num_invalid
        return text

    def missing_column(self, column: str, known: Iterable[str], location: str = "") -> DataError:
        """The error for a column that does not exist."""
        names = (" ".join(str(name).split()) for name in known)  # quoted names may contain line breaks
        return DataError(f"{self.file}{location}: no column {column!r}{suggest_name(column, names)}")

    def _values(self) -> Iterator[str]:
        """The column of every row, or what JSON Lines have in its place: a string or a list of strings."""
        for number, row in self._rows(self.column):
            value = row[self.column] if isinstance(row, dict) else row
            if isinstance(value, list) and all(isinstance(turn, str) for turn in value):
                value = "\n".join(" ".join(turn.split()) for turn in value)
            value = self._cleaned(value)
            if value is not None and not isinstance(value, str):
                raise DataError(
                    f"{row_location(self.file, number)}: {self.column!r} is not a string; "
                    "provide text or name another column"
                )
            yield value or ""

    def _rows(self, column: str | None = None) -> Iterator[tuple[int, Any]]:
        """Rows with all columns, or at least with one of them."""
        return {"jsonl": self._json_rows, "parquet": self._parquet_rows}.get(self.format, self._csv_rows)(column)

    def _json_rows(self, column: str | None) -> Iterator[tuple[int, Any]]:
        for number, line in self._lines(longest=MAX_ROW_LENGTH):
            if line and not line.isspace():
                row = self._parse_json(line, number)
                if isinstance(row, dict) and column is not None and column not in row:
                    raise self.missing_column(column, row, f", line {number}")
                yield number, row

    def _parse_json(self, text: str, number: int) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply"
            if isinstance(error, json.JSONDecodeError):
                reason, number = error.msg, number + error.lineno - 1
            raise DataError(f"{self.file}, line {number}: not JSON ({reason}); correct or delete the row") from None

    def _csv_rows(self, column: str | None) -> Iterator[tuple[int, Row]]:
        # The limit is global to the process; raising it is harmless.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_LENGTH))
        lines = (f"{line}\n" for _, line in self._lines(longest=MAX_ROW_LENGTH))
        # Quotes in TSV files are mostly plain text, and an unbalanced one would swallow the rest.
        is_tsv = self.format == "tsv"
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if is_tsv else csv.reader(lines)
        try:
            header = next(rows, [])
            if column is not None and column not in header:
                raise self.missing_column(column, header)
            index = header.index(column) if column is not None else 0
            number = rows.line_num + 1
            for row in rows:
                if column is not None:
                    yield number, {column: row[index] if index < len(row) else ""}
                elif row:
                    yield number, dict(zip_longest(header, row))
                number = rows.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{self.file}, line {rows.line_num}: not a CSV row ({error}); close the open quotation mark"
            ) from None

    def _parquet_rows(self, column: str | None) -> Iterator[tuple[int, Row]]:
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise DataError(f"{self.file}: reading Parquet needs pyarrow; pip install 'polyseme[data]'") from None
        size = self.file.stat().st_size
        try:
            with parquet.ParquetFile(self.file, buffer_size=_BLOCK_SIZE, pre_buffer=False) as table:
                names = table.schema_arrow.names
                if column is not None and column not in names:
                    raise self.missing_column(column, names)
                num_rows = max(table.metadata.num_rows, 1)
                number = 0
                for batch in table.iter_batches(batch_size=256, columns=names if column is None else [column]):
                    columns = [_as_bytes(values).to_pylist() for values in batch.columns]
                    for row in zip(*columns, strict=True):
                        number += 1
                        self.bytes_read = size * number // num_rows
                        yield number, dict(zip(batch.schema.names, row, strict=True))
        except arrow.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{self.file}: not a readable Parquet file ({reason:.120}); write it again") from None

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._cleaned(item) if isinstance(item, str | bytes) else item for item in value]
        if isinstance(value, bytes):
            content, value = value, value.decode("utf-8", "replace")
            self._count(value, content)
        return self.replace_invalid(value) if isinstance(value, str) else value

    def _lines(self, *, longest: int) -> Iterator[tuple[int, str]]:
        """Numbered lines; longer ones are split where a text may be split, and refused where not."""
        rest, number = "", 1
        for text in self._decoded():
            *lines, rest = (rest + text).replace("\r\n", "\n").split("\n")
            for line in lines:
                if len(line) <= longest:
                    yield number, line
                else:
                    yield from zip(repeat(number), self._split_line(number, line, longest), strict=False)
                number += 1
            *pieces, rest = self._split_line(number, rest, longest)
            yield from zip(repeat(number), pieces, strict=False)
        if rest:
            yield number, rest.removesuffix("\r")

    def _split_line(self, number: int, line: str, longest: int = MAX_LINE_LENGTH) -> Iterator[str]:
        while len(line) > longest:
            if longest == MAX_ROW_LENGTH:
                raise DataError(f"{self.file}, line {number}: a row of over 16 MB; split it into several documents")
            # White space first: a cut after the comma of "1,000" would be worse than one a little earlier.
            end = max(line.rfind(mark, longest // 2, longest) for mark in " \t") + 1
            end = end or max(line.rfind(mark, 0, longest) for mark in _BREAKS) + 1
            if end == 0:
                raise DataError(
                    f"{self.file}, line {number}: is not text (a million characters without space); remove it"
                )
            yield line[:end]
            line = line[end:]
        yield line

    def _decoded(self) -> Iterator[str]:
        """The decoded content, block by block."""
        decoder, sample = codecs.getincrementaldecoder("utf-8")("replace"), b""
        for block in chain(self._blocks(), [b""]):
            if not sample:
                if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    raise DataError(f"{self.file} is not UTF-8 but UTF-16; {_conversion_advice(self.file, 'utf-16')}")
                sample, block = block, block.removeprefix(codecs.BOM_UTF8)
            text = decoder.decode(block, final=not block)
            self._count(text, block)
            if self.num_characters > _MIN_JUDGED or not block:
                self._check_encoding(sample)
            yield self.replace_invalid(text) if "\0" in text else text  # surrogates come only from JSON escapes

    def _blocks(self) -> Iterator[bytes]:
        check_not_a_device(self.file)
        with self.file.open("rb") as raw, _decompressed(self.file, raw) as stream:
            num_bytes = 0
            while block := stream.read(_BLOCK_SIZE):
                self.bytes_read = raw.tell()
                num_bytes += len(block)
                if num_bytes > max(_MIN_EXPANDED, _MAX_EXPANSION * self.bytes_read):
                    raise DataError(
                        f"{self.file} expands to more than {_MAX_EXPANSION} times its size, which text does not; "
                        "decompress it first if it should be read"
                    )
                yield block

    def _count(self, text: str, source: bytes) -> None:
        self.num_characters += len(text)
        if not text.isascii():
            self.num_invalid += text.count("\ufffd") - source.count(b"\xef\xbf\xbd")

    def _check_encoding(self, sample: bytes) -> None:
        if self.num_invalid > max(_ALWAYS_TOLERATED, self.num_characters / 1000):
            try:
                codecs.getincrementaldecoder("gb18030")().decode(sample)
                encoding = "gb18030"
            except UnicodeDecodeError:
                encoding = "windows-1252"
            raise DataError(
                f"{self.file} is not UTF-8 ({self.num_invalid} invalid bytes of {self.num_characters}); "
                f"{_conversion_advice(self.file, encoding)}"
            )


class StdinReader(FileReader):
    """One pass over a stream: JSON Lines, a table whose first line names `columns`, or plain lines."""

    def __init__(self, stream: BinaryIO, columns: Collection[str]) -> None:
        super().__init__(Path("standard input"))
        self.stream = stream
        with readable(self.file):
            self.first_line = stream.readline(MAX_ROW_LENGTH)
        line = self.first_line.decode("utf-8-sig", "replace").rstrip("\r\n")
        if line.lstrip().startswith("{"):
            self.format = "jsonl"
        for format, delimiter in (("csv", ","), ("tsv", "\t")):
            if {*columns} <= {*line.split(delimiter)}:
                self.format = format

    def _blocks(self) -> Iterator[bytes]:
        block = self.first_line
        while block:
            yield block
            block = self.stream.read(_BLOCK_SIZE)


def detect_format(file: Path) -> str:
    """The format of a file, by its suffix; plain text if the suffix is unknown."""
    return FORMATS.get(uncompressed_name(file).suffix.lower(), "txt")


def detect_compression(file: Path) -> str:
    """The suffix of a compressed file, or an empty string."""
    suffix = file.suffix.lower()
    return suffix if suffix in (".gz", ".zst") else ""


def uncompressed_name(file: Path) -> Path:
    """The name of a file without the suffix of its compression."""
    return file.with_suffix("") if detect_compression(file) else file


def row_location(file: Path, number: int) -> str:
    """Where a row is, for error messages."""
    return f"{file}, {'row' if file == IN_MEMORY or detect_format(file) == 'parquet' else 'line'} {number}"


def _join_lines(lines: Iterable[str], *, blank_ends: bool = False) -> Iterator[str]:
    """Join lines to documents of bounded length; a blank line may end a document."""
    document: list[str] = []
    length = 0
    for line in lines:
        blank = blank_ends and (not line or line.isspace())
        if document and (blank or length + len(line) > MAX_LINE_LENGTH):
            yield "\n".join(document)
            document, length = [], 0
        if not blank:
            document.append(line)
            length += len(line) + 1
    if document:
        yield "\n".join(document)


def _as_bytes(column: Any) -> Any:
    """A Parquet column with its strings as bytes, because pyarrow rejects invalid UTF-8."""
    import pyarrow as arrow

    strings = (arrow.string(), arrow.large_string())
    if arrow.types.is_list(column.type) and column.type.value_type in strings:
        return column.cast(arrow.list_(arrow.large_binary()))
    return column.cast(arrow.large_binary()) if column.type in strings else column


def _decompressed(file: Path, raw: BinaryIO) -> BinaryIO:
    compression = detect_compression(file)
    if compression == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if compression == ".zst":
        try:
            import zstandard
        except ImportError:
            raise DataError(f"{file}: reading .zst needs zstandard; pip install 'polyseme[data]'") from None
        stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return cast(BinaryIO, io.BufferedReader(cast(Any, stream), _BLOCK_SIZE))
    return raw


def _conversion_advice(file: Path, encoding: str) -> str:
    return f"convert it, for example with: iconv -f {encoding} -t utf-8 {file} > {file}.utf8"
