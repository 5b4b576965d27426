"""Attention as a page: lines between tokens, all heads at a glance, and the numbers of each.

Weights are kept as bytes, 255 times their root, so that small ones can still be told apart. Where all of them would
make a file too large to open at once, each token keeps the largest of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.inside.heads import EVEN, MOST, PARKED
from polyseme.pages import join_modules, page

if TYPE_CHECKING:
    from polyseme.inside.attention import Attention, Line

_WHOLE = 4_000_000  # weights of a page that are kept one and all
_BYTES = 8_000_000  # of the largest weights, where there are more
_KEPT = 3  # bytes of such a weight: its place and itself
_FEWEST = 4  # of each token

# Of each head, as the script shows them: a name, what it says, and whether it is a share of 1.
_COLUMNS = (
    ("first", "share of the weight on the first token", True),
    ("separators", "share on [CLS], [SEP] and their like, but for the first token", True),
    ("previous", "share on the token before", True),
    ("next", "share on the token behind", True),
    ("same", "share on the token itself", True),
    ("distance", "tokens between the one that looks and what it sees, on average", False),
    ("entropy", "of the weights of a token, in nats, on average", False),
    ("evenness", "entropy as a share of the largest that there can be: 1 is even, 0 a single token", True),
)

_STYLE = """
h1 { overflow-wrap: anywhere; }
#controls { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; position: sticky; top: 0; z-index: 2;
  background: var(--ground); padding: .5rem 0; border-bottom: 1px solid var(--line); }
#controls label { white-space: nowrap; }
.panels { scroll-margin-top: 4.5rem; display: grid; grid-template-columns: 1fr; gap: 1.5rem; }
@media (min-width: 900px) { .panels.two { grid-template-columns: 1fr 1fr; } }
.panel { min-width: 0; } .panel h3 { font-size: 1rem; margin: .3rem 0; overflow-wrap: anywhere; max-height: 4.5em;
  overflow-y: auto; }
#numbers td, #numbers th { white-space: nowrap; } #numbers th button { border: 0; padding: 0; background: none;
  font-weight: bold; cursor: pointer; }
#numbers td button { padding: 0 .4rem; cursor: pointer; }
#numbers .called { text-align: left; }
#numbers td.share { background: color-mix(in srgb, var(--colour-0) calc(var(--weight, 0) * 40%), transparent); }
#numbers tr.chosen td { border-bottom-color: var(--colour-1); }
"""


def attention_page(shown: Sequence[Attention]) -> str:
    """A page of the attention of one model to some texts, beside each other."""
    first = shown[0]
    budget = len(shown) + sum(attention.cross is not None for attention in shown)
    panels = [
        {
            "texts": attention.texts,
            "parts": [_part(part, budget) for part in (attention, attention.cross) if part is not None],
        }
        for attention in shown
    ]
    title = f"Attention in {first.model}"
    columns = [{"name": name, "says": says, "share": share} for name, says, share in _COLUMNS]
    body = _BODY.format(title=escape(title), notes="".join(f"<p>{escape(note)}</p>" for note in _notes(shown)))
    inside = resources.files("polyseme.inside")
    script = join_modules(inside, "drawing.js", "attention_weights.js", "attention_head.js", "attention.js")
    style = (inside / "attention_head.css").read_text(encoding="utf-8") + _STYLE
    return page(title, body, data={"columns": columns, "panels": panels}, script=script, style=style)


def _part(attention: Attention, budget: int) -> dict[str, Any]:
    """One set of maps as the script reads it."""
    num_layers, num_heads, _, _ = attention.maps.shape
    kept = _num_kept(attention, budget)
    whole = all(len(line.words) == len(line.tokens) for line in (attention.line, attention.seen))
    numbers = _numbers(attention)
    return {
        "name": attention.name,
        "causal": attention.causal,
        "layers": num_layers,
        "heads": num_heads,
        "line": _line(attention.line),
        "seen": None if attention.seen is attention.line else _line(attention.seen),
        "kept": kept,
        "maps": [_written(weights, kept) for layer in attention.maps for weights in layer],
        "numbers": [numbers, numbers if whole else _numbers(attention.by_word())],
    }


def _num_kept(attention: Attention, budget: int) -> int:
    """How many weights of each token there is room for, on a page with so many sets of maps."""
    num_columns = int(attention.maps.shape[-1])
    if attention.maps.size <= _WHOLE // budget:
        return num_columns
    num_rows = attention.maps.size // num_columns
    return min(num_columns, max(_FEWEST, _BYTES // (budget * _KEPT * num_rows)))


def _line(line: Line) -> dict[str, Any]:
    words = [first for first, _ in line.words]
    return {"tokens": line.tokens, "shown": line.shown, "words": words, "spelt": line.spelt}


def _numbers(attention: Attention) -> list[list[Any]]:
    names = [name for name, _, _ in _COLUMNS]
    return [[head.label, *(_rounded(getattr(head, name)) for name in names)] for head in attention.heads]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _written(weights: NDArray[np.float32], kept: int) -> str:
    """A map (T, S) in base 64: bytes row by row, or the places of the largest of each row and then their bytes."""
    in_bytes = np.rint(255 * np.sqrt(weights)).astype(np.uint8)
    if kept == weights.shape[1]:
        return base64.b64encode(in_bytes.tobytes()).decode()
    places = np.argpartition(weights, -kept, axis=1)[:, -kept:]
    largest = np.take_along_axis(in_bytes, places, axis=1)
    return base64.b64encode(places.astype("<u2").tobytes() + largest.tobytes()).decode()


def _notes(shown: Sequence[Attention]) -> Iterable[str]:
    """What to know of the numbers, and of heads that look at nothing."""
    first = shown[0]
    parts = [part for attention in shown for part in (attention, attention.cross) if part is not None]
    yield (
        "Numbers are means over the tokens that look; layers and heads are counted from 1. A head is called by what "
        f"has at least {MOST:.0%} of its weight; if there is no such thing, it is broad from an evenness of {EVEN:g} "
        "on, and mixed below."
    )
    if any(part.causal for part in parts):
        even = ", ".join(f"{attention.heads[0].first_if_even:.2f}" for attention in shown if attention.causal)
        yield (
            "A token sees itself and what came before it, so that early ones have little to choose from: if all looked "
            f"evenly, the first token would have {even} of the weight. Evenness takes that into account."
        )
    if first.seen is first.line:
        num_heads = sum(len(attention.heads) for attention in shown)
        num_parked = sum(head.label == PARKED for attention in shown for head in attention.heads)
        yield (
            f"{num_parked} of {num_heads} heads are parked: most of their weight lies on the first token, "
            f"“{first.line.shown[0]:.40}”. Vig (2019) takes that for having found nothing to look at; Clark et al. "
            "(2019) find the same of [SEP], where the gradients of such weights are near zero. A GPT or GPT-2 that is "
            "pretrained with --set data.start=null has a token for it: every row begins with one that means nothing."
        )
    for number, attention in enumerate(shown, start=1):
        if attention.left_out:
            which = f" of text {number}" if len(shown) > 1 else ""
            yield f"The model has no room for the last {attention.left_out:,} tokens{which}, which are left out."
    if any(_num_kept(part, len(parts)) < part.maps.shape[-1] for part in parts):
        yield "There are many tokens, so that each keeps only the largest of its weights here; the numbers count all."


_BODY = """<h1>{title}</h1>
<form id="controls" autocomplete="off"></form>
<h2>One head</h2>
<p class="faint">Choose a token on the left to see where it looks, on the right to see who looks at it. Keys: ↑ ↓
another token, ← → another head, Page Up and Page Down another layer, Escape all tokens.</p>
<div id="panels" class="panels"></div>
<h2>All heads</h2>
<p class="faint">A row for each layer, a column for each head; in each, a row for each token that looks. Choose one to
open it above.</p>
<div id="grids" class="panels"></div>
<h2>Numbers</h2>
{notes}
<div class="wide"><table id="numbers"></table></div>
<noscript><p>This page draws with a script, which this browser does not run.</p></noscript>"""
