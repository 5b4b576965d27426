"""Scoring the sentences of minimal pairs: in batches against one at a time, in Polyseme and in transformers.

By default the models have random weights: GPT-2, BERT (pseudo-log-likelihood) and ELMo. All scores must agree to 1e-3
nats, otherwise the benchmark fails. transformers scores a sentence in one call: of BERT with a batch of all masked
copies; it has no ELMo. The systems run in turn, and the best time of each counts.

    python benchmarks/minimal_pairs.py [--models runs/gpt2 …] [--data blimp/adjunct_island.jsonl] [--json out.json]
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

import polyseme as ps
from bench import Row, arguments, best_of, report
from polyseme.evaluation.minimal_pairs import read_pairs
from polyseme.families import FAMILIES, build_objective
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

FAMILIES_SCORED = ("gpt2", "bert", "elmo")


def generate_sentences(number: int) -> list[str]:
    """Sentences of about the length of those in BLiMP."""
    nouns, verbs = ["bank", "river", "farmer", "mill", "spring", "watch"], ["lends", "sleeps", "breaks", "came"]
    words = itertools.product(["The", "Some", "This old"], nouns, verbs, nouns, ["by day", "on a Monday", "at last"])
    sentences = [f"{first} {noun} {verb} for every {other} {end}." for first, noun, verb, other, end in words]
    return list(itertools.islice(itertools.cycle(sentences), number))


def random_model(family: str, sentences: list[str], folder: Path) -> None:
    """Save a small model with random weights."""
    recipe = Recipe.preset(family, "small", [])
    tokenizer = Tokenizer.train(recipe.tokenizer, sentences, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](
        recipe.model
    )  # with the vocabulary size of the preset, though the tokenizer has fewer tokens
    encoder.set_tokenizer(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    model = ps.Pretrained(
        folder=folder, family=family, encoder=encoder, objective=objective, tokenizer=tokenizer, recipe=recipe
    )
    model.save(folder)


def score_transformers(folder: Path, family: str, sentences: Sequence[str]) -> Callable[[], list[float]]:
    """A function that scores sentences one by one with transformers, in nats."""
    kind = transformers.AutoModelForCausalLM if family == "gpt2" else transformers.AutoModelForPreTraining
    model: Any = kind.from_pretrained(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)

    def score() -> list[float]:
        nats = []
        with torch.inference_mode():
            for sentence in sentences:
                ids = torch.tensor(tokenizer(sentence)["input_ids"])
                if family == "gpt2":
                    positions = torch.arange(len(ids))
                    rows = torch.cat([torch.tensor([tokenizer.eos_token_id]), ids])[None]
                    log_probs = model(rows).logits[0, :-1].log_softmax(-1)
                else:
                    positions = torch.arange(1, len(ids) - 1)
                    copies = torch.arange(len(positions))
                    rows = ids.repeat(len(positions), 1)
                    rows[copies, positions] = tokenizer.mask_token_id
                    log_probs = model(rows).prediction_logits[copies, positions].log_softmax(-1)
                nats.append(-log_probs.gather(1, ids[positions][:, None]).double().sum().item())
        return nats

    return score


def compare(folder: Path, sentences: list[str], rounds: int) -> Row:
    """Compare the systems on one model."""
    model = ps.load(folder)
    systems: dict[str, Callable[[], list[float]]] = {
        "batched": lambda: [score.nats - score.oov_nats for score in model.score(sentences)],
        "one by one": lambda: [
            score.nats - score.oov_nats for sentence in sentences for score in model.score([sentence])
        ],
    }
    if model.family in ("gpt2", "bert"):
        systems["transformers"] = score_transformers(folder, model.family, sentences)
    found = {name: score() for name, score in systems.items()}
    for name, nats in found.items():
        worst = max(abs(one - other) for one, other in zip(nats, found["batched"], strict=True))
        if worst > 1e-3:
            raise SystemExit(f"{folder}: {name} differs by {worst:.2g} nats")
    best = best_of(systems, rounds, warmup=0)
    row: Row = {"model": folder.name, "sentences": len(sentences)}
    row |= {f"{name}, sentences/s": len(sentences) / seconds for name, seconds in best.items()}
    return row | {f"speed-up over {name}": best[name] / best["batched"] for name in systems if name != "batched"}


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=2, long_rounds=4)
    parser.add_argument("--models", type=Path, nargs="+", help="model directories (default: random weights)")
    parser.add_argument("--data", type=Path, help="file of minimal pairs (default: generated sentences)")
    parser.add_argument("--sentences", type=int, default=0, help="number of sentences (200, 2,000 with --long)")
    args = parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    number = args.sentences or (2000 if args.long else 200)
    sentences = generate_sentences(number)
    if args.data:
        sentences = [sentence for group in read_pairs(args.data) for pair in group.pairs for sentence in pair][:number]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        for family in () if args.models else FAMILIES_SCORED:
            random_model(family, sentences, Path(scratch) / family)
        folders = args.models or [Path(scratch) / family for family in FAMILIES_SCORED]
        rows += [compare(folder, sentences, args.rounds) for folder in folders]
    report(rows, args.json)


if __name__ == "__main__":
    main()
