"""The HTML page of attention weights: one head in detail, an overview of all heads, and a table of statistics.

Weights are stored as bytes, 255 times their square root, which keeps small ones distinguishable. If there are too many
for a page, only the largest of each query are stored.
"""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from polyseme.analysis.attention import ATTENTION_SINK, BROAD_THRESHOLD, LABEL_THRESHOLD, Attention, TokenSequence
from polyseme.arrays import Floats
from polyseme.rendering.html import bundle_modules, page, read_asset
from polyseme.system.formatting import enumerate_words

_MAX_DENSE = 4_000_000  # weights of a page that are all stored
_MAX_SPARSE_BYTES = 8_000_000  # of the largest weights of a page with more
_SPARSE_BYTES = 3  # of one such weight: two for its index and one for its value
_MIN_SPARSE = 4  # weights per query

# Statistics in the table: field, description, and whether it is a fraction of 1.
_COLUMNS = (
    ("first", "weight on the first token", True),
    ("separators", "weight on [CLS], [SEP] and their equivalents, without the first token", True),
    ("previous", "weight on the previous token", True),
    ("next", "weight on the next token", True),
    ("same", "weight on the token itself", True),
    ("distance", "mean distance in tokens between query and key", False),
    ("entropy", "mean entropy of the weights of a query, in nats", False),
    ("evenness", "entropy relative to its maximum: 1 is uniform, 0 a single token", True),
)


def attention_page(results: Sequence[Attention]) -> str:
    """A stand-alone page with the attention of one model for one or several texts."""
    budget = len(results) + sum(attention.cross is not None for attention in results)
    panels = [
        {
            "texts": attention.texts,
            "parts": [_part_json(part, budget) for part in (attention, attention.cross) if part is not None],
        }
        for attention in results
    ]
    title = f"Attention in {results[0].model}"
    columns = [dict(zip(("name", "description", "share"), column, strict=True)) for column in _COLUMNS]
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(results))
    script = bundle_modules("dom.js", "attention_weights.js", "attention_head.js", "attention_page.js")
    style = read_asset("attention_head.css") + read_asset("attention_page.css")
    body = _BODY.format(title=escape(title), notes=notes)
    return page(title, body, data={"columns": columns, "panels": panels}, script=script, style=style)


def _part_json(attention: Attention, budget: int) -> dict[str, Any]:
    """One set of weights in the format of the script."""
    num_layers, num_heads, _, _ = attention.weights.shape
    num_stored = _num_stored(attention, budget)
    words_are_tokens = all(len(part.word_spans) == len(part.tokens) for part in (attention.queries, attention.keys))
    statistics = _statistics(attention)
    return {
        "name": attention.name,
        "causal": attention.causal,
        "layers": num_layers,
        "heads": num_heads,
        "queries": _sequence_json(attention.queries),
        "keys": None if attention.keys is attention.queries else _sequence_json(attention.keys),
        "num_stored": num_stored,
        "maps": [_encode(weights, num_stored) for layer in attention.weights for weights in layer],
        "statistics": [statistics, statistics if words_are_tokens else _statistics(attention.by_word())],
    }


def _num_stored(attention: Attention, budget: int) -> int:
    """The number of weights stored per query, on a page with `budget` sets of weights."""
    num_keys = int(attention.weights.shape[-1])
    if attention.weights.size <= _MAX_DENSE // budget:
        return num_keys
    num_rows = attention.weights.size // num_keys
    return min(num_keys, max(_MIN_SPARSE, _MAX_SPARSE_BYTES // (budget * _SPARSE_BYTES * num_rows)))


def _sequence_json(sequence: TokenSequence) -> dict[str, Any]:
    return {
        "tokens": sequence.tokens,
        "display": sequence.display,
        "word_starts": [first for first, _ in sequence.word_spans],
        "word_texts": sequence.word_texts,
    }


def _statistics(attention: Attention) -> list[list[Any]]:
    rows = []
    for head in attention.heads:
        values = [getattr(head, name) for name, _, _ in _COLUMNS]
        rows.append([head.label, *(value if value is None else round(value, 4) for value in values)])
    return rows


def _encode(weights: Floats, num_stored: int) -> str:
    """Weights (T, S) in base64: bytes row by row, or the indices of the largest of each row and then their bytes."""
    in_bytes = np.rint(255 * np.sqrt(weights)).astype(np.uint8)
    if num_stored == weights.shape[1]:
        return base64.b64encode(in_bytes.tobytes()).decode()
    indices = np.argpartition(weights, -num_stored, axis=1)[:, -num_stored:]
    largest = np.take_along_axis(in_bytes, indices, axis=1)
    return base64.b64encode(indices.astype("<u2").tobytes() + largest.tobytes()).decode()


def _notes(results: Sequence[Attention]) -> Iterable[str]:
    """Explanations below the table."""
    first = results[0]
    parts = [part for attention in results for part in (attention, attention.cross) if part is not None]
    yield (
        "Statistics are means over the query tokens; layers and heads are numbered from 1. A head is labelled by the "
        f"pattern with at least {LABEL_THRESHOLD:.0%} of its weight; without one, it is broad from an evenness of "
        f"{BROAD_THRESHOLD:g} and mixed below."
    )
    if any(part.causal for part in parts):
        uniform = ", ".join(f"{attention.heads[0].first_if_uniform:.2f}" for attention in results if attention.causal)
        yield (
            "The model is causal: a token attends to itself and to earlier tokens, so early tokens have few choices. "
            f"Under uniform attention, the weight on the first token would be {uniform}. Evenness takes this into "
            "account."
        )
    if first.keys is first.queries:
        counts = [sum(head.label == ATTENTION_SINK for head in attention.heads) for attention in results]
        several = " in each text" if len(results) > 1 else ""
        yield (
            f"{enumerate_words([f'{count}' for count in counts])} of {len(first.heads)} heads{several} use the first "
            f"token, “{first.queries.display[0]:.40}”, as an attention sink: most of their weight is on it. Vig (2019) "
            "interprets this as attention without a target; Clark et al. (2019) find the same for [SEP], where "
            "gradients with respect to these weights are close to zero."
        )
        if first.causal:
            yield (
                "A GPT or GPT-2 pretrained with --set data.first_token=null has a token for it at the start of every "
                "sequence."
            )
    for number, attention in enumerate(results, start=1):
        if attention.num_truncated:
            which = f"Text {number}" if len(results) > 1 else "The text"
            yield f"{which} is longer than the model allows; its last {attention.num_truncated:,} tokens are omitted."
    if any(_num_stored(part, len(parts)) < part.weights.shape[-1] for part in parts):
        yield "The page contains only the largest weights of each token; the statistics use all of them."


_BODY = """<h1>{title}</h1>
<form id="controls" autocomplete="off"></form>
<h2>One head</h2>
<p class="faint">Select a token on the left to see what it attends to, on the right to see what attends to it. Keys: ↑ ↓
token, ← → head, Page Up and Page Down layer, Escape all tokens.</p>
<div id="panels" class="panels"></div>
<h2>All heads</h2>
<p class="faint">One row per layer and one column per head; in each map, one row per query token. Select a map to open
it above.</p>
<div id="grids" class="panels"></div>
<h2>Head statistics</h2>
{notes}
<div class="wide"><table id="statistics"></table></div>
<noscript><p>This page needs JavaScript.</p></noscript>"""
