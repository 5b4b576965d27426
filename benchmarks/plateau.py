"""Whether minutes of pretraining are worth anything: below the unigram plateau, and better than no pretraining.

Trains `--size small` of both families for the given time, says how far their dev loss is below that of knowing only how
frequent each token is (on the same positions), and fine-tunes the BERT and the same network with random weights as
taggers of 500 sentences. Both get the same steps, and the best of the same rates by dev score.

    python benchmarks/plateau.py --corpus text.txt --dev dev.txt --tags snips/ [--seconds 300]
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bench
from polyseme.models import FAMILIES
from polyseme.models.base import Encoder
from polyseme.reading import padded
from polyseme.tensors import IGNORED
from polyseme.text.tokenizer import Tokenizer
from time_to_quality import Task, train_ours, unigram_nats

RATES = (3e-4, 1e-3, 3e-3)
EPOCHS = 20
ROWS = 16

Sentence = tuple[list[str], list[str]]  # words, tags


def read_tags(path: Path) -> list[Sentence]:
    """Sentences of `word <tab> tag` lines, with empty lines between."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    pairs = [[line.rsplit(None, 1) for line in block.splitlines()] for block in blocks]
    return [([word for word, _ in block], [tag for _, tag in block]) for block in pairs]


class Tagger(nn.Module):
    """A linear layer on the first piece of each word."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, tags: list[str]) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.tags = encoder, tokenizer, tags
        self.output = nn.Linear(encoder.widths[-1], len(tags))

    def rows(self, sentences: list[Sentence]) -> list[tuple[list[int], list[int], Sentence]]:
        """Pieces, where words begin, and the sentence itself."""
        before, after = self.tokenizer.frame
        limit, rows = self.encoder.config.max_length - len(before) - len(after), []
        for words, tags in sentences:
            pieces = [one.ids[:limit] or [0] for one in self.tokenizer.encode_batch(words, specials=False)]
            starts = [len(before) + sum(map(len, pieces[:place])) for place in range(len(pieces))]
            ids = [*before, *[id for piece in pieces for id in piece][:limit], *after]
            rows.append((ids, [min(start, len(ids) - 1) for start in starts], (words, tags)))
        return rows

    def forward(self, rows: list[tuple[list[int], list[int], Sentence]]) -> tuple[Tensor, Tensor]:
        """Scores of every tag for every word, and the right tags; IGNORED beyond a sentence."""
        longest = max(len(starts) for _, starts, _ in rows)
        starts = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), longest), IGNORED)
        for number, (_, places, (_, tags)) in enumerate(rows):
            starts[number, : len(places)] = torch.tensor(places)
            # A tag that the 500 sentences do not have cannot be learnt; it counts as wrong when scored.
            known = [self.tags.index(tag) if tag in self.tags else IGNORED for tag in tags]
            labels[number, : len(places)] = torch.tensor(known)
        hidden = self.encoder(padded([ids for ids, _, _ in rows], torch.device("cpu"))).layers[-1]
        return self.output(hidden[torch.arange(len(rows))[:, None], starts]), labels


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Entities of BIO tags."""
    found, start, kind = set(), None, ""
    for place, tag in enumerate([*tags, "O"]):
        if start is not None and (not tag.startswith("I-") or tag[2:] != kind):
            found.add((start, place, kind))
            start = None
        if start is None and tag != "O":
            start, kind = place, tag[2:]
    return found


def f1(tagger: Tagger, sentences: list[Sentence]) -> float:
    """Of whole entities."""
    tagger.eval()
    right = said = true = 0
    rows = tagger.rows(sentences)
    with torch.inference_mode():
        for start in range(0, len(rows), 64):
            best = tagger(rows[start : start + 64])[0].argmax(-1).tolist()
            for (_, _, (words, tags)), guess in zip(rows[start : start + 64], best, strict=True):
                guessed, wanted = spans([tagger.tags[tag] for tag in guess[: len(words)]]), spans(tags)
                right, said, true = right + len(guessed & wanted), said + len(guessed), true + len(wanted)
    return 2 * right / max(1, said + true)


def fine_tune(encoder: Encoder, tokenizer: Tokenizer, folder: Path, seed: int, labels: int = 500) -> float:
    """Test F1 of the rate that is best on dev sentences."""
    train, dev, test = (read_tags(folder / f"{part}.conll") for part in ("train", "dev", "test"))
    train, dev = train[:labels], dev[:labels]
    tags = sorted({tag for _, some in train for tag in some})
    outcomes = []
    for rate in RATES:
        torch.manual_seed(seed)
        tagger = Tagger(copy.deepcopy(encoder), tokenizer, tags)
        rows, steps = tagger.rows(train), EPOCHS * -(-len(train) // ROWS)
        optimizer = torch.optim.AdamW(tagger.parameters(), lr=rate, weight_decay=0.01, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1, anneal_strategy="linear")
        for _ in range(EPOCHS):
            tagger.train()
            order = torch.randperm(len(rows)).tolist()
            for start in range(0, len(rows), ROWS):
                scores, answers = tagger([rows[number] for number in order[start : start + ROWS]])
                loss = F.cross_entropy(scores.flatten(0, 1), answers.flatten(), ignore_index=IGNORED)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        outcomes.append((f1(tagger, dev), f1(tagger, test)))
    return max(outcomes)[1]


def main() -> None:
    """Train, measure, fine-tune."""
    parser, read = bench.arguments(__doc__, rounds=1, long_rounds=2)
    parser.add_argument("--corpus", default="docstrings", help="text to learn from")
    parser.add_argument("--dev", help="text to measure on")
    parser.add_argument("--tags", type=Path, help="folder with train.conll, dev.conll and test.conll")
    parser.add_argument("--seconds", type=float, help="of each training (30, 300 with --long)")
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    given = read()
    given.seconds = given.seconds or (300 if given.long else 30)
    rows: list[bench.Row] = []
    for family in ("bert", "gpt2"):
        for seed in range(given.rounds):
            given.family, given.seed = family, seed
            task = Task.of(given)
            training, curve = train_ours(task)
            unigram, loss = unigram_nats(task), curve[-1][1]
            row: bench.Row = {"family": family, "seed": seed, "seconds": round(curve[-1][0]), "dev nats": loss}
            row |= {"unigram nats": unigram, "below": unigram - loss}
            if given.tags and family == "bert":
                torch.manual_seed(1000 + seed)
                fresh = FAMILIES[family](training.recipe.model)
                row["tagging F1"] = fine_tune(training.encoder, task.tokenizer, given.tags, seed)
                row["F1 from random weights"] = fine_tune(fresh, task.tokenizer, given.tags, seed)
            rows.append(row)
    bench.report(rows, given.json)


if __name__ == "__main__":
    main()
