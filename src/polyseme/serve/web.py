"""The playground's files, as they lie in web/, and the drawings that it shares with the pages of polyseme.inside."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "web"
_SHARED = {
    f"inside/{name}": Path(__file__).parents[1] / "inside" / name
    for name in (
        "attention_head.css",
        "attention_head.js",
        "attention_weights.js",
        "drawing.js",
        "word_map.css",
        "word_map.js",
    )
}
POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "object-src 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to send."""

    content: bytes
    headers: dict[str, str]

    @property
    def tag(self) -> str:
        return self.headers["etag"]


class Web:
    """Reads files once, and again when they change."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._kept: dict[str, tuple[tuple[int, int], File]] = {}

    def find(self, path: str) -> File | None:
        """The file at a path of the address, if there is one."""
        name = path.strip("/") or "index.html"
        parts = name.split("/")
        kind = _TYPES.get(Path(name).suffix)
        if kind is None or not all(map(_NAME.fullmatch, parts)):
            return None
        file = _SHARED.get(name) or self.folder.joinpath(*parts)
        try:
            if name not in _SHARED and not file.resolve().is_relative_to(self.folder.resolve()):
                return None
            state = file.stat()
            seen = (state.st_mtime_ns, state.st_size)
            if name in self._kept and self._kept[name][0] == seen:
                return self._kept[name][1]
            content = file.read_bytes()
        except OSError:
            return None
        headers = {
            "content-type": kind,
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "cache-control": "no-cache",
            "content-security-policy": POLICY,
        }
        found = File(content=content, headers=headers)
        self._kept[name] = (seen, found)
        return found


def unchanged(given: str, tag: str) -> bool:
    """Whether a client says that it has this already."""
    tags = [part.strip().removeprefix("W/") for part in given.split(",")]
    return "*" in tags or tag in tags
