"""How likely texts and their tokens are, as plain rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyseme.objectives.both_ways import Forward
from polyseme.pretrained import Pretrained
from polyseme.scoring import Score


def score_tokens(model: Pretrained, texts: Sequence[str], *, top: int) -> list[dict[str, Any]]:
    """The score of each text, with its tokens and `top` alternatives to each."""
    return [_row(model, text, score) for text, score in zip(texts, model.score(texts, top=top), strict=True)]


def _row(model: Pretrained, text: str, score: Score) -> dict[str, Any]:
    assert model.tokenizer is not None
    both = any(isinstance(part, Forward) for part in model.objective.parts)
    scale = "masked" if score.kind == "pseudo-likelihood" else "bidirectional" if both else "causal"
    bits = score.bits_per_character
    tokens = [
        {
            "text": text[token.start : token.end],
            "start": token.start,
            "end": token.end,
            "log_probability": -token.nats,
            "alternatives": [{"text": written(model, id), "log_probability": -nats} for id, nats in token.alternatives],
        }
        for token in score.tokens
    ]
    return {
        "log_probability": -score.nats,
        "bits_per_character": bits if math.isfinite(bits) else None,
        "scale": scale,
        "tokens": tokens,
    }


def written(model: Pretrained, id: int) -> str:
    """A token as a reader would write it, or its name where it is no text of its own."""
    assert model.tokenizer is not None
    return model.tokenizer.decode([id]) or model.tokenizer.token(id)
