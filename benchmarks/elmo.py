"""Training steps of an ELMo beside the same model as one writes it by hand in torch.

The other side has `torch.nn.LSTM(proj_size=…)` for each layer and direction, which cannot clip, reads every word of a
row by its letters, and scores all words of the vocabulary; AdamW and clipping of the gradient are the same. Both read
the same rows of a text with as many words as are asked for, drawn as often as words of a text are.

    python benchmarks/elmo.py [--long] [--words 50000] [--rounds 3] [--json out.json]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench import Row, arguments, best_of, report
from polyseme.models.elmo import Elmo, ElmoConfig, SpelledWords
from polyseme.objectives import OBJECTIVES, Source, build_objective
from polyseme.tensors import IGNORED, Batch
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials
from polyseme.train.learner import GradientLearner
from polyseme.train.plan import PlanConfig
from polyseme.train.recipe import read_preset

SPECIALS = Specials(start=0, separator=1, unknown=2, end=1)
NUM_TOKENS = 400_000
SENTENCE = 25  # words


class PlainElmo(nn.Module):
    """From a batch to the mean loss of both directions."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.words = SpelledWords(config)  # whose parts are used below, for each word of a row
        self.lstms = nn.ModuleList(
            nn.ModuleList(nn.LSTM(config.width, config.cell_width, proj_size=config.width) for _ in range(2))
            for _ in range(config.num_layers)
        )
        self.output = nn.Linear(config.width, config.vocab_size)

    def forward(self, batch: Batch) -> Tensor:
        losses = []
        for side, (ids, name) in enumerate(((batch.ids, "forwards"), (batch.mirrored, "backwards"))):
            assert ids is not None
            x = self.words.read(self.words.spelling[ids.T.flatten()]).view(*ids.T.shape, -1)
            for number, lstms in enumerate(self.lstms):
                y, _ = lstms[side](x)  # type: ignore[index]
                x = y + x if number else y
            labels = batch.labels[name].T.flatten()
            losses.append(F.cross_entropy(self.output(x).flatten(0, 1), labels, ignore_index=IGNORED))
        return torch.stack(losses).mean()


def some_store(num_words: int) -> Store:
    """Words by Zipf's law."""
    chance = np.random.default_rng(0)
    tokens = np.exp(chance.random(NUM_TOKENS) * np.log(num_words - 3)).astype(np.uint32) + 2
    sentences = np.arange(0, NUM_TOKENS + 1, SENTENCE)
    return Store(
        tokens=tokens,
        sentences=sentences,
        documents=np.array([0, len(sentences) - 1]),
        num_characters=6 * NUM_TOKENS,
        num_words=NUM_TOKENS,
        unknown=0,
        fingerprint="",
    )


def sides_of(size: str, num_words: int) -> tuple[dict[str, Callable[[], object]], int]:
    """A step of each side, and the words that it reads, in each direction."""
    preset = read_preset("elmo", size)
    config = ElmoConfig.parse(preset["model"], group="model").replace(vocab_size=num_words)
    length, num_rows = preset["data"]["length"], preset["plan"]["batch_tokens"] // preset["data"]["length"]
    source = Source(some_store(num_words), length, num_rows)
    objective_config = OBJECTIVES["both_ways"][0].parse(preset["objective"], group="objective")
    encoder = Elmo(config)
    objective = build_objective(objective_config, encoder, SPECIALS)
    learner = GradientLearner(encoder, objective, source, PlanConfig(steps=1_000_000))
    steps = learner.steps()

    plain = PlainElmo(config)
    optimizer = torch.optim.AdamW(plain.parameters(), fused=True)
    batch = objective.batch(source, seed=0, step=0)

    def plain_step() -> None:
        optimizer.zero_grad()
        plain(batch).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    return {"plain": plain_step, "ours": lambda: next(steps)}, length * num_rows


def main() -> None:
    parser, read = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--words", type=int, default=50_000, help="of the vocabulary")
    given = read()
    warnings.filterwarnings("ignore", message="LSTM with projections")
    rows: list[Row] = []
    for size in ("tiny", "small", "medium") if given.long else ("small",):
        sides, num_words = sides_of(size, given.words)
        seconds = best_of(sides, given.rounds)
        rows.append(
            {
                "size": size,
                "words a step": num_words,
                "plain words/s": num_words / seconds["plain"],
                "ours words/s": num_words / seconds["ours"],
                "ratio": seconds["plain"] / seconds["ours"],
            }
        )
    report(rows, given.json)


if __name__ == "__main__":
    main()
