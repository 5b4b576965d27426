"""Pairs of sentences: all of a set scored at once, against one sentence at a time, by Polyseme and by transformers.

Models are given, or have random weights: a GPT-2, a BERT by pseudo-likelihood, an ELMo. All sides give the same nats to
1e-3, or the figure is refused. transformers scores a sentence of a GPT-2 in one call, and of a BERT all its masked rows
in one; it knows no ELMo. The rounds alternate, and the best of each counts.

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
from polyseme.evaluate.minimal_pairs import read_pairs
from polyseme.models import FAMILIES
from polyseme.objectives import build_objective
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe

RANDOM = ("gpt2", "bert", "elmo")


def made_up(number: int) -> list[str]:
    """Sentences of about the length of those in BLiMP."""
    nouns, verbs = ["bank", "river", "farmer", "mill", "spring", "watch"], ["lends", "sleeps", "breaks", "came"]
    words = itertools.product(["The", "Some", "This old"], nouns, verbs, nouns, ["by day", "on a Monday", "at last"])
    sentences = [f"{first} {noun} {verb} for every {other} {end}." for first, noun, verb, other, end in words]
    return list(itertools.islice(itertools.cycle(sentences), number))


def random_model(family: str, sentences: list[str], folder: Path) -> None:
    """A small model of a family as its preset has it, but for its training."""
    recipe = Recipe.preset(family, "small", [])
    tokenizer = Tokenizer.train(recipe.tokenizer, sentences, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model)  # as large a vocabulary as usual, though the tokenizer has less
    encoder.spell(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    model = ps.Pretrained(
        folder=folder, family=family, encoder=encoder, objective=objective, tokenizer=tokenizer, recipe=recipe
    )
    model.save(folder)


def theirs(folder: Path, family: str, sentences: Sequence[str]) -> Callable[[], list[float]]:
    """The nats of sentences by transformers, one after the other."""
    kind = transformers.AutoModelForCausalLM if family == "gpt2" else transformers.AutoModelForPreTraining
    model: Any = kind.from_pretrained(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)

    def score() -> list[float]:
        nats = []
        with torch.inference_mode():
            for sentence in sentences:
                ids = torch.tensor(tokenizer(sentence)["input_ids"])
                if family == "gpt2":
                    places = torch.arange(len(ids))
                    rows = torch.cat([torch.tensor([tokenizer.eos_token_id]), ids])[None]
                    chances = model(rows).logits[0, :-1].log_softmax(-1)
                else:
                    places = torch.arange(1, len(ids) - 1)
                    each = torch.arange(len(places))
                    rows = ids.repeat(len(places), 1)
                    rows[each, places] = tokenizer.mask_token_id
                    chances = model(rows).prediction_logits[each, places].log_softmax(-1)
                nats.append(-chances.gather(1, ids[places][:, None]).double().sum().item())
        return nats

    return score


def compare(folder: Path, sentences: list[str], rounds: int) -> Row:
    """All sides of one model."""
    model = ps.load(folder)
    sides: dict[str, Callable[[], list[float]]] = {
        "at once": lambda: [score.nats - score.spelling for score in model.score(sentences)],
        "one by one": lambda: [score.nats - score.spelling for one in sentences for score in model.score([one])],
    }
    if model.family in ("gpt2", "bert"):
        sides["transformers"] = theirs(folder, model.family, sentences)
    found = {name: side() for name, side in sides.items()}
    for name, nats in found.items():
        worst = max(abs(one - other) for one, other in zip(nats, found["at once"], strict=True))
        if worst > 1e-3:
            raise SystemExit(f"{folder}: {name} differs by {worst:.2g} nats")
    best = best_of(sides, rounds, warmup=0)
    row: Row = {"model": folder.name, "sentences": len(sentences)}
    row |= {f"{name}, a second": len(sentences) / seconds for name, seconds in best.items()}
    return row | {f"ratio to {name}": best[name] / best["at once"] for name in sides if name != "at once"}


def main() -> None:
    """Print the table, and write it as JSON where asked."""
    parser, read = arguments(__doc__, rounds=2, long_rounds=4)
    parser.add_argument("--models", type=Path, nargs="+", help="directories; else models of random weights")
    parser.add_argument("--data", type=Path, help="a set of pairs; else sentences are made up")
    parser.add_argument("--most", type=int, default=0, help="sentences (200, 2,000 with --long)")
    given = read()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    number = given.most or (2000 if given.long else 200)
    sentences = made_up(number)
    if given.data:
        sentences = [one for some in read_pairs(given.data) for pair in some.pairs for one in pair][:number]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for family in () if given.models else RANDOM:
            random_model(family, sentences, Path(place) / family)
        folders = given.models or [Path(place) / family for family in RANDOM]
        rows += [compare(folder, sentences, given.rounds) for folder in folders]
    report(rows, given.json)


if __name__ == "__main__":
    main()
