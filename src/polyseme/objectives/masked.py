"""Predict tokens that were hidden, from both sides (Devlin et al., 2018, section 3.1).

Of the chosen tokens 80 % become [MASK], 10 % another token and 10 % stay, so that the encoder
cannot tell which ones it will be asked about. The choice is drawn afresh for every batch.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.layers.blocks import activate
from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, Source, generator, required
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome
from polyseme.text.tokenizer import Specials

MEASURED_RATE = 0.15
"""Share of the tokens asked for on dev text: the paper's, whatever is trained with, so that losses can be compared."""


class MaskedConfig(Config):
    """What is hidden, and what else is asked of a row."""

    kind: Literal["masked"] = "masked"
    masking: Literal["token"] = "token"  # what is hidden together
    rate: float = Field(0.15, gt=0, lt=1)  # share of the tokens that are asked for while learning
    pairs: Literal["none", "next"] = "next"  # whether rows are pairs, and what is asked of them
    pairs_weight: float = Field(1.0, ge=0)  # of that question, where a masked token counts 1


class MaskedTokens(Objective):
    """The head is a dense layer and a norm, then the embedding turned round, with a bias of its own."""

    def __init__(self, config: MaskedConfig, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.start, self.separator, self.mask = required(specials, "start", "separator", "mask")
        vocab_size, width = encoder.tokens.weight.shape
        self.dense = nn.Linear(encoder.widths[-1], width)
        self.norm = nn.LayerNorm(width, eps=encoder.config.epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.activation = encoder.config.activation
        self.choosable = np.ones(vocab_size, dtype=bool)
        self.choosable[[id for id in dataclasses.asdict(specials).values() if id is not None]] = False
        self.apply(initialize)

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        inside = source.length - 2
        starts = source.starts(inside, seed=seed, step=step)
        ids = np.full((source.num_rows, source.length), self.start, dtype=np.int64)
        ids[:, 1:-1] = source.read(starts[:, None] + np.arange(inside))
        ids[:, -1] = self.separator
        return Batch.of(torch.from_numpy(ids))

    def label(self, batch: Batch, source: Source, *, seed: int, step: int) -> Batch:
        chance = generator(seed, "masks", step)
        ids = batch.ids.numpy()
        num_rows, length = ids.shape
        rate = MEASURED_RATE if source.measuring else self.config.rate
        num_chosen = max(1, round(rate * length))
        lot = chance.random((num_rows, length), dtype=np.float32)
        lot[~self.choosable[ids]] = 2.0  # never drawn, unless nothing else is left
        places = np.argpartition(lot, num_chosen - 1, axis=1)[:, :num_chosen]  # (B, chosen)
        rows = np.arange(num_rows)[:, None]
        answers = ids[rows, places]
        kept = lot[rows, places] < 2.0

        fate = chance.random(places.shape, dtype=np.float32)
        others = chance.integers(len(self.choosable), size=places.shape)
        others = np.where(self.choosable[others], others, answers)
        shown = np.where(fate < 0.8, self.mask, np.where(fate < 0.9, others, answers))
        hidden, labels = ids.copy(), np.full_like(ids, IGNORED)
        hidden[rows, places] = np.where(kept, shown, answers)
        labels[rows, places] = np.where(kept, answers, IGNORED)
        shown_batch = dataclasses.replace(batch, ids=torch.from_numpy(hidden))
        return shown_batch.labelled("masked", torch.from_numpy(labels))

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        # The vocabulary is scored only where something was hidden: a seventh of the row.
        labels = batch.labels["masked"].flatten()
        places = (labels != IGNORED).nonzero().squeeze(1)
        hidden = self.transform(encoded.layers[-1].flatten(0, 1)[places])  # (hidden tokens, D)
        if self.training:
            loss = linear_cross_entropy(hidden, encoder.tokens.weight, self.bias, labels[places])
            return Outcome(losses={"masked": loss})
        nats, right = token_nats(hidden, encoder.tokens.weight, self.bias, labels[places])
        return Outcome(losses={"masked": nats.sum()}, correct={"masked": right.sum()})

    def transform(self, hidden: Tensor) -> Tensor:
        """What is compared with the embedding of every token."""
        return self.norm(activate(self.dense(hidden), self.activation))  # type: ignore[no-any-return]

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Scores of every token in a place, (…, V)."""
        return F.linear(self.transform(hidden), encoder.tokens.weight, self.bias)
