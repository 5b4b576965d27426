"""Numbers and names as people say them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

NAMES = {
    "onehot": "one-hot",
    "wordclass": "word classes",
    "svd": "SVD",
    "nnlm": "NNLM",
    "cbow": "CBOW",
    "skipgram": "skip-gram",
    "glove": "GloVe",
    "cove": "CoVe",
    "transformer": "Transformer",
    "elmo": "ELMo",
    "ulmfit": "ULMFiT",
    "gpt": "GPT",
    "gpt2": "GPT-2",
    "bert": "BERT",
    "mbert": "mBERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "ernie": "ERNIE",
}
"""Families as their authors write them."""

METHODS = {
    "linear": "linear probe",
    "full": "fine-tuned",
    "frozen": "LSTMs above it",
    "mix": "mix of its layers",
    "gradual": "unfrozen gradually",
    "cvt": "cross-view",
}
"""How a head learns from labels."""

MEASURES = {
    "words": "likeness of words",
    "analogies": "analogies",
    "senses": "senses",
    "minimal-pairs": "minimal pairs",
}
SCALES = {"causal": "bits per character", "bidirectional": "bits, both ways", "masked": "pseudo-bits"}

_TURNING = re.compile("[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNITS = {"s": "second", "m": "minute", "h": "hour", "steps": "step", "epochs": "epoch", "tokens": "token"}


def likelihood(scale: str, called: str) -> str:
    """What a likelihood is called: its scale, and perhaps a language, or that it is without capitals."""
    part = re.sub("^(?:test|dev)(?: text)?", "", called).strip(", ")
    return " · ".join(filter(None, [SCALES.get(scale, scale or "bits per character"), part]))


def name(family: str) -> str:
    """What a family is called."""
    return NAMES.get(family) or cut(family, 40)


def method(key: str) -> str:
    """What a method is called."""
    return METHODS.get(key, key or "learnt")


def listed(words: Sequence[str]) -> str:
    """Words in a row: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def short(count: float) -> str:
    """A count in three or four signs: 812, 35k, 2.1M."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{sign}" if count < 9.95 * size else f"{count / size:.0f}{sign}"
    return f"{count:.0f}"


def duration(seconds: float) -> str:
    """Seconds, or minutes, or hours."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    if seconds < 5970:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def budget(text: str) -> str:
    """A budget as it is spoken: 5m is 5 minutes."""
    found = re.fullmatch(r"([\d.]+)([kM]?)([a-z]+)", text)
    if not found or found[3] not in _UNITS:
        return text
    return f"{found[1]}{found[2]} {_UNITS[found[3]]}{'s' * (found[1] != '1' or bool(found[2]))}"


def scored(value: float, error: float | None = None) -> str:
    """A score with its standard error, where it has one."""
    return f"{round(value, 3) + 0.0:.3f}" + ("" if error is None else f" ± {error:.3f}")  # 0 has no sign


def cut(text: str, most: int) -> str:
    """A text in one line, no longer than it may be, without signs that would turn around what stands beside it."""
    text = " ".join(_TURNING.sub("", text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(text: str, most: int) -> str:
    """The same in a page, where it means nothing but itself."""
    return escape(cut(text, most))
