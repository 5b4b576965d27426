"""Display names and number formats of reports."""

import re
from collections.abc import Sequence
from html import escape

from polyseme.system.formatting import enumerate_words
from polyseme.training.recipes.presets import display_name

BASELINES = {"tfidf": "TF-IDF", "bm25": "BM25", "ngram": "n-gram model"}
"""Simple methods that take part in every comparison; the recommendation prefers them."""

METHODS = {
    "linear_probe": "linear probe",
    "linear_probe_with_tfidf": "linear probe with TF-IDF",
    "fine_tuning": "fine-tuned",
}
SUITES = {
    "words": "word similarity",
    "analogies": "word analogies",
    "senses": "word senses",
    "minimal-pairs": "minimal pairs",
    "retrieval": "retrieval",
}
SCALES = {
    "causal": "bits per character",
    "bidirectional": "bidirectional bits per character",
    "masked": "pseudo-bits per character",
}
METRICS = {"f1": "F1", "spearman": "Spearman ρ", "pearson": "Pearson r", "matthews": "MCC"}

# Control characters, bidirectional overrides and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNITS = {"s": "second", "m": "minute", "h": "hour", "steps": "step", "epochs": "epoch", "tokens": "token"}


def likelihood_name(scale: str, text: str) -> str:
    """The name of a likelihood metric: its scale, and the language or lower-casing of the text if it matters."""
    part = re.sub("^(?:test|dev)(?: text)?", "", text).strip(", ")
    return " · ".join(filter(None, [SCALES.get(scale, scale or "bits per character"), part]))


def family_name(family: str) -> str:
    """The display name of a family."""
    return display_name(family) or BASELINES.get(family) or truncate(family, 40)


def family_names(families: Sequence[str]) -> str:
    """An enumeration of display names."""
    return enumerate_words([family_name(family) for family in families])


def metric_name(metric: str) -> str:
    """The display name of a metric."""
    return METRICS.get(metric, metric)


def capitalize(sentence: str) -> str:
    """A sentence with an upper-case first character and the rest unchanged."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def format_budget(text: str) -> str:
    """A budget in words: 5m is 5 minutes."""
    match = re.fullmatch(r"([\d.]+)([kM]?)([a-z]+)", text)
    if not match or match[3] not in _UNITS:
        return text
    return f"{match[1]}{match[2]} {_UNITS[match[3]]}{'s' * (match[1] != '1' or bool(match[2]))}"


def format_score(value: float, standard_error: float | None = None) -> str:
    """A score, with its standard error if known."""
    score = f"{round(value, 3) + 0.0:.3f}"  # no negative zero
    return score if standard_error is None else f"{score} ± {standard_error:.3f}"


def truncate(text: str, most: int) -> str:
    """A text on one line without unprintable characters, of at most `most` characters."""
    text = " ".join(_UNPRINTABLE.sub("", text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def escape_text(text: str, most: int) -> str:
    """A truncated text, escaped for HTML."""
    return escape(truncate(text, most))
