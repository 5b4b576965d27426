"""Training throughput of ELMo against a plain PyTorch implementation of the same model.

The plain model has a `torch.nn.LSTM(proj_size=…)` for each layer and direction, which cannot clip its cell states, runs
the character CNN on every word of a sequence, and computes the softmax over the full vocabulary; AdamW and gradient
clipping are the same. Both train on the same sequences of random words with Zipfian frequencies.

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
from polyseme.batch import IGNORED, Batch
from polyseme.datasets.token_store import TokenStore
from polyseme.families import OBJECTIVES, build_objective
from polyseme.models.elmo import CharacterCnn, Elmo, ElmoConfig
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.presets import read_preset

SPECIALS = SpecialTokens(start=0, separator=1, unknown=2, end=1)
NUM_TOKENS = 400_000
SENTENCE = 25  # words


class PlainElmo(nn.Module):
    """Maps a batch to the mean loss of both directions."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.words = CharacterCnn(config)
        self.lstms = nn.ModuleList(
            nn.ModuleList(nn.LSTM(config.width, config.cell_width, proj_size=config.width) for _ in range(2))
            for _ in range(config.num_layers)
        )
        self.output = nn.Linear(config.width, config.vocab_size)

    def forward(self, batch: Batch) -> Tensor:
        losses = []
        for direction, (ids, name) in enumerate(((batch.ids, "forward"), (batch.backward_ids, "backward"))):
            assert ids is not None
            x = self.words.encode(self.words.vocabulary[ids.T.flatten()]).view(*ids.T.shape, -1)
            for number, lstms in enumerate(self.lstms):
                y, _ = lstms[direction](x)  # type: ignore[index]
                x = y + x if number else y
            labels = batch.labels[name].T.flatten()
            losses.append(F.cross_entropy(self.output(x).flatten(0, 1), labels, ignore_index=IGNORED))
        return torch.stack(losses).mean()


def random_store(num_words: int) -> TokenStore:
    """Random words with Zipfian frequencies."""
    rng = np.random.default_rng(0)
    tokens = np.exp(rng.random(NUM_TOKENS) * np.log(num_words - 3)).astype(np.uint32) + 2
    sentences = np.arange(0, NUM_TOKENS + 1, SENTENCE)
    return TokenStore(
        tokens=tokens,
        sentences=sentences,
        documents=np.array([0, len(sentences) - 1]),
        num_characters=6 * NUM_TOKENS,
        num_words=NUM_TOKENS,
        num_unknown=0,
        fingerprint="",
    )


def training_steps(size: str, num_words: int) -> tuple[dict[str, Callable[[], object]], int]:
    """The training step of each implementation, and the number of words in a batch."""
    preset = read_preset("elmo", size)
    config = ElmoConfig.parse(preset["model"], group="model").replace(vocab_size=num_words)
    length = preset["data"]["sequence_length"]
    num_rows = preset["training"]["batch_tokens"] // length
    source = TokenSource(random_store(num_words), length, num_rows)
    objective_config = OBJECTIVES["bidirectional_lm"][0].parse(preset["objective"], group="objective")
    encoder = Elmo(config)
    objective = build_objective(objective_config, encoder, SPECIALS)
    learner = GradientLearner(encoder, objective, source, TrainingConfig(steps=1_000_000))
    steps = learner.steps()

    plain = PlainElmo(config)
    optimizer = torch.optim.AdamW(plain.parameters(), fused=True)
    batch = objective.batch(source, seed=0, step=0)

    def plain_step() -> None:
        optimizer.zero_grad()
        plain(batch).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    return {"plain PyTorch": plain_step, "polyseme": lambda: next(steps)}, length * num_rows


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=3, long_rounds=6)
    parser.add_argument("--words", type=int, default=50_000, help="vocabulary size")
    args = parse_args()
    warnings.filterwarnings("ignore", message="LSTM with projections")
    rows: list[Row] = []
    for size in ("tiny", "small", "medium") if args.long else ("small",):
        functions, num_words = training_steps(size, args.words)
        seconds = best_of(functions, args.rounds)
        rows.append(
            {
                "size": size,
                "words/step": num_words,
                "plain PyTorch words/s": num_words / seconds["plain PyTorch"],
                "polyseme words/s": num_words / seconds["polyseme"],
                "ratio": seconds["plain PyTorch"] / seconds["polyseme"],
            }
        )
    report(rows, args.json)


if __name__ == "__main__":
    main()
