"""Static files of the playground: web/, and the scripts and styles it shares with stand-alone pages."""

import hashlib
import re
from pathlib import Path

from polyseme.server.endpoint import HttpResponse

_WEB_FOLDER = Path(__file__).parent / "web"
_SHARED_FOLDER = Path(__file__).parents[1] / "rendering" / "assets"  # under the path shared/
_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "object-src 'none'; frame-ancestors 'none'"
)
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class StaticFiles:
    """Files of a folder, cached until they change on disk."""

    def __init__(self, folder: Path = _WEB_FOLDER) -> None:
        self.folder = folder
        self._cache: dict[str, tuple[tuple[int, int], HttpResponse]] = {}

    def find(self, path: str) -> HttpResponse | None:
        """The response with the file at a URL path, or None."""
        name = path.strip("/") or "index.html"
        parts = name.split("/")
        content_type = _CONTENT_TYPES.get(Path(name).suffix)
        if content_type is None or not all(map(_NAME.fullmatch, parts)):
            return None
        shared = parts[0] == "shared"
        folder = _SHARED_FOLDER if shared else self.folder
        file = folder.joinpath(*parts[shared:])
        try:
            if not file.resolve().is_relative_to(folder.resolve()):
                return None
            stat = file.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            if name in self._cache and self._cache[name][0] == version:
                return self._cache[name][1]
            content = file.read_bytes()
        except OSError:
            return None
        headers = {
            "content-type": content_type,
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "cache-control": "no-cache",
            "content-security-policy": _POLICY,
        }
        found = HttpResponse(body=content, headers=headers)
        self._cache[name] = (version, found)
        return found


def matches_etag(if_none_match: str, etag: str) -> bool:
    """Whether an If-None-Match header contains an entity tag."""
    tags = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return "*" in tags or etag in tags
