"""What minutes of pretraining achieve: dev loss below the unigram entropy, and gains in sequence labelling.

Trains BERT and GPT-2 of `--size small` for a given time, compares their dev loss with the unigram cross-entropy at
the same positions, and fine-tunes BERT and the same network with random weights as taggers on 500 sentences. Both are
trained for the same number of steps, with the learning rate that is best on the dev set.

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
from polyseme.batch import IGNORED
from polyseme.families import FAMILIES
from polyseme.inference.batching import padded_batch
from polyseme.models.base import Encoder
from polyseme.tokenization.tokenizer import Tokenizer
from time_to_quality import Task, train_polyseme, unigram_entropy

LEARNING_RATES = (3e-4, 1e-3, 3e-3)
EPOCHS = 20
BATCH_SIZE = 16

Sentence = tuple[list[str], list[str]]  # words, tags


def read_tags(path: Path) -> list[Sentence]:
    """Read sentences with a word and its tag per line, separated by blank lines."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    pairs = [[line.rsplit(None, 1) for line in block.splitlines()] for block in blocks]
    return [([word for word, _ in block], [tag for _, tag in block]) for block in pairs]


class Tagger(nn.Module):
    """A linear classifier on the first token of each word."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, tags: list[str]) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.tags = encoder, tokenizer, tags
        self.output = nn.Linear(encoder.widths[-1], len(tags))

    def rows(self, sentences: list[Sentence]) -> list[tuple[list[int], list[int], Sentence]]:
        """Token ids, the position of the first token of each word, and the sentence."""
        before, after = self.tokenizer.special_template
        limit, rows = self.encoder.config.max_length - len(before) - len(after), []
        for words, tags in sentences:
            tokens = [encoding.ids[:limit] or [0] for encoding in self.tokenizer.encode_batch(words, specials=False)]
            starts = [len(before) + sum(map(len, tokens[:word])) for word in range(len(tokens))]
            ids = [*before, *[id for word in tokens for id in word][:limit], *after]
            rows.append((ids, [min(start, len(ids) - 1) for start in starts], (words, tags)))
        return rows

    def forward(self, rows: list[tuple[list[int], list[int], Sentence]]) -> tuple[Tensor, Tensor]:
        """Scores of all tags for each word, and the gold tags; IGNORED after the end of a sentence."""
        longest = max(len(starts) for _, starts, _ in rows)
        starts = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), longest), IGNORED)
        for number, (_, positions, (_, tags)) in enumerate(rows):
            starts[number, : len(positions)] = torch.tensor(positions)
            # Tags that do not occur in training are ignored by the loss, but count as errors in the evaluation.
            known = [self.tags.index(tag) if tag in self.tags else IGNORED for tag in tags]
            labels[number, : len(positions)] = torch.tensor(known)
        hidden = self.encoder(padded_batch([ids for ids, _, _ in rows], torch.device("cpu"))).layers[-1]
        return self.output(hidden[torch.arange(len(rows))[:, None], starts]), labels


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Entities of a BIO tag sequence."""
    found, start, kind = set(), None, ""
    for index, tag in enumerate([*tags, "O"]):
        if start is not None and (not tag.startswith("I-") or tag[2:] != kind):
            found.add((start, index, kind))
            start = None
        if start is None and tag != "O":
            start, kind = index, tag[2:]
    return found


def f1(tagger: Tagger, sentences: list[Sentence]) -> float:
    """Entity-level F1."""
    tagger.eval()
    num_correct = num_predicted = num_gold = 0
    rows = tagger.rows(sentences)
    with torch.inference_mode():
        for start in range(0, len(rows), 64):
            predictions = tagger(rows[start : start + 64])[0].argmax(-1).tolist()
            for (_, _, (words, tags)), predicted in zip(rows[start : start + 64], predictions, strict=True):
                found, gold = spans([tagger.tags[tag] for tag in predicted[: len(words)]]), spans(tags)
                num_correct += len(found & gold)
                num_predicted += len(found)
                num_gold += len(gold)
    return 2 * num_correct / max(1, num_predicted + num_gold)


def fine_tune(encoder: Encoder, tokenizer: Tokenizer, folder: Path, seed: int, labels: int = 500) -> float:
    """Test F1 with the learning rate that is best on the dev set."""
    train, dev, test = (read_tags(folder / f"{split}.conll") for split in ("train", "dev", "test"))
    train, dev = train[:labels], dev[:labels]
    tags = sorted({tag for _, sentence_tags in train for tag in sentence_tags})
    outcomes = []
    for learning_rate in LEARNING_RATES:
        torch.manual_seed(seed)
        tagger = Tagger(copy.deepcopy(encoder), tokenizer, tags)
        rows, steps = tagger.rows(train), EPOCHS * -(-len(train) // BATCH_SIZE)
        optimizer = torch.optim.AdamW(tagger.parameters(), lr=learning_rate, weight_decay=0.01, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, learning_rate, steps, pct_start=0.1, anneal_strategy="linear"
        )
        for _ in range(EPOCHS):
            tagger.train()
            order = torch.randperm(len(rows)).tolist()
            for start in range(0, len(rows), BATCH_SIZE):
                scores, labels_of_batch = tagger([rows[index] for index in order[start : start + BATCH_SIZE]])
                loss = F.cross_entropy(scores.flatten(0, 1), labels_of_batch.flatten(), ignore_index=IGNORED)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        outcomes.append((f1(tagger, dev), f1(tagger, test)))
    return max(outcomes)[1]


def main() -> None:
    parser, parse_args = bench.arguments(__doc__, rounds=1, long_rounds=2)
    parser.add_argument("--corpus", default="docstrings", help="training text")
    parser.add_argument("--dev", help="dev text")
    parser.add_argument("--tags", type=Path, help="folder with train.conll, dev.conll and test.conll")
    parser.add_argument("--seconds", type=float, help="training time of each model (30, 300 with --long)")
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    args = parse_args()
    args.seconds = args.seconds or (300 if args.long else 30)
    rows: list[bench.Row] = []
    for family in ("bert", "gpt2"):
        for seed in range(args.rounds):
            args.family, args.seed = family, seed
            task = Task.of(args)
            session, curve = train_polyseme(task)
            unigram, loss = unigram_entropy(task), curve[-1][1]
            row: bench.Row = {"family": family, "seed": seed, "seconds": round(curve[-1][0]), "dev loss": loss}
            row |= {"unigram entropy": unigram, "gain": unigram - loss}
            if args.tags and family == "bert":
                torch.manual_seed(1000 + seed)
                fresh = FAMILIES[family](session.recipe.model)
                row["slot filling F1"] = fine_tune(session.encoder, task.tokenizer, args.tags, seed)
                row["F1 from random weights"] = fine_tune(fresh, task.tokenizer, args.tags, seed)
            rows.append(row)
    bench.report(rows, args.json)


if __name__ == "__main__":
    main()
