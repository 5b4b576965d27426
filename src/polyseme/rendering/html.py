"""Stand-alone HTML pages: one file with its style, script and data, and no request to any server."""

import json
import re
from html import escape
from importlib.resources import files
from typing import Any

COLOURS = ("#0b4fb3", "#d98a00", "#3a9d5d", "#b3261e", "#7b4fb3", "#008a8a", "#6b6b6b")
"""The colours of series on white; in a page they are --colour-0 to --colour-6, lighter in the dark theme."""

DARK_COLOURS = ("#7fb0ff", "#f0b64a", "#74cf94", "#ff8f86", "#c3a1f0", "#5fd0d0", "#b0b0b0")

_LIGHT_THEME = "--ground: #fff; --ink: #1c1c1c; --faint: #666; --line: #ddd; --panel: #f6f6f4; " + " ".join(
    f"--colour-{number}: {colour};" for number, colour in enumerate(COLOURS)
)

_THEMES = f"""
:root {{ color-scheme: light dark; {_LIGHT_THEME} }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #16181b; --ink: #e8e6e3; --faint: #a0a0a0; --line: #3a3d42;
  --panel: #1f2226; {" ".join(f"--colour-{number}: {colour};" for number, colour in enumerate(DARK_COLOURS))} }} }}
@media print {{ :root {{ color-scheme: light; {_LIGHT_THEME} --ink: #000; }} body {{ max-width: none; padding: 0; }} }}
"""

# Browsers block and report every request.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str, *, data: Any = None, script: str = "", style: str = "") -> str:
    """A page with some HTML; its script finds the data as JSON in the element with the id `data`."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{read_asset('page.css')}{_THEMES}{style}</style></head><body>",
        body,
    ]
    if data is not None:
        parts.append(f'<script type="application/json" id="data">{_embed_json(data)}</script>')
    if script:
        parts.append(f'<script type="module">{script}</script>')
    return "\n".join([*parts, "</body></html>", ""])


def read_asset(name: str) -> str:
    """Read a script or style sheet of `assets/`."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def bundle_modules(*names: str) -> str:
    """Concatenate JavaScript modules, whose order replaces their imports, for a page that cannot fetch them."""
    return re.sub(r"^import .*\n", "", "".join(map(read_asset, names)), flags=re.MULTILINE)


def _embed_json(data: Any) -> str:
    """JSON that cannot close the element it is embedded in, whatever strings it contains."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def table(header: list[str], rows: list[list[str]]) -> str:
    """An HTML table; cells are escaped."""
    tagged = [("th", header), *(("td", row) for row in rows)]
    lines = [f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>" for tag, row in tagged]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'
