"""Masked-token prediction (fill-mask)."""

from dataclasses import dataclass

import torch

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.words import MASK, mask_word

_MAX_EXAMPLE = 200  # characters of a text that is quoted in an error


@dataclass(frozen=True, kw_only=True)
class MaskPrediction:
    """A candidate for a masked token."""

    token: str
    probability: float


@torch.inference_mode()
def fill_masks(
    encoder: Encoder, head: MaskedLm, tokenizer: Tokenizer, text: str, *, top: int
) -> list[list[MaskPrediction]]:
    """The most probable tokens for each [MASK] of a text, each read in the window around it."""
    ids = tokenizer.encode(text.replace(MASK, tokenizer.token(head.mask))).ids
    masks = [position for position, id in enumerate(ids) if id == head.mask]
    if not masks:
        raise ConfigError(
            f"the text has no {MASK}; write it in place of each token to predict{_example(text, tokenizer)}"
        )
    limit = encoder.config.max_length
    starts = [max(0, min(position - limit // 2, len(ids) - limit)) for position in masks]
    predictions = []
    for start in dict.fromkeys(starts):
        positions = [position - start for position, other in zip(masks, starts, strict=True) if other == start]
        encoded = encoder(Batch.of(torch.tensor([ids[start : start + limit]], device=encoder.device)))
        probabilities = head.logits(encoder, encoded.layers[-1][0, positions]).softmax(-1)  # (masks, V)
        best = probabilities.topk(min(max(1, top), probabilities.shape[-1]))
        for row in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            candidates = zip(*row, strict=True)
            predictions.append([MaskPrediction(token=tokenizer.token(id), probability=p) for p, id in candidates])
    return predictions


def _example(text: str, tokenizer: Tokenizer) -> str:
    masked = mask_word(text, tokenizer) if len(text) <= _MAX_EXAMPLE else None
    return f": {masked}" if masked else ""
