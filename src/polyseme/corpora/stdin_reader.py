"""Reader of piped input."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from polyseme.corpora.file_readers import BLOCK_SIZE, MAX_ROW_LENGTH, FileReader
from polyseme.system.io_errors import readable


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
            block = self.stream.read(BLOCK_SIZE)
