"""Training steps of Polyseme and of transformers, side by side.

Same architecture, same rows of the same text, same batch, AdamW with clipping and a schedule on both sides. The peer is
what its user runs: its model, its data collator in a DataLoader, its loss. Two comparisons: `equal` gives both the same
dropout, `started` gives each the dropout it starts with (transformers 0.1, a small model here none). The rounds
alternate, and the best of each counts, because the machine is shared.

    python benchmarks/pretraining.py [--rounds 5] [--steps 4] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader

from polyseme.machine import processor
from polyseme.models import FAMILIES
from polyseme.objectives import OBJECTIVES, Source, Together, build_objective
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.store import Store, prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.learner import GradientLearner
from polyseme.train.plan import PlanConfig


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    name: str
    family: str
    tokenizer: TokenizerConfig
    model: dict[str, int]
    length: int
    num_rows: int


WORKLOADS = [
    Workload(
        "BERT MLM+NSP L4 H256 V30522, 32x128",
        "bert",
        TokenizerConfig(kind="wordpiece", specials="bert"),
        {"num_layers": 4, "width": 256, "num_heads": 4, "vocab_size": 30522, "max_length": 128},
        128,
        32,
    ),
    Workload(
        "GPT-2 L6 H384 V8192, 8x256",
        "gpt2",
        TokenizerConfig(kind="byte-bpe", specials="gpt2", lowercase=False),
        {"num_layers": 6, "width": 384, "num_heads": 6, "vocab_size": 8192, "max_length": 256},
        256,
        8,
    ),
]


def ours(workload: Workload, source: Source, tokenizer: Tokenizer, dropout: float) -> Callable[[], object]:
    """A step of Polyseme, as its learner makes it."""
    encoder_class = FAMILIES[workload.family]
    encoder = encoder_class(encoder_class.Config.parse({**workload.model, "dropout": dropout}, group="model"))
    kind = "masked" if workload.family == "bert" else "next_token"
    objective = build_objective(OBJECTIVES[kind][0](), encoder, tokenizer.specials)
    steps = GradientLearner(encoder, objective, source, PlanConfig(steps=10**6, rate=1e-4)).steps()
    return lambda: next(steps)


def theirs(
    workload: Workload, source: Source, tokenizer: Tokenizer, dropout: float, folder: Path
) -> Callable[[], object]:
    """A step of a plain transformers loop."""
    encoder_class = FAMILIES[workload.family]
    foreign = encoder_class.foreign
    assert foreign is not None
    config = encoder_class.Config.parse({**workload.model, "dropout": dropout}, group="model")
    settings: dict[str, Any] = foreign.settings_to(config.model_dump(), foreign.architectures)
    ends = {"bos_token_id": 0, "eos_token_id": 0} if workload.family == "gpt2" else {}
    architecture = getattr(transformers, settings["architectures"][0])
    model = architecture(transformers.AutoConfig.for_model(**{**settings, **ends}))
    tokenizer.save(folder)
    reader = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    if reader.pad_token is None:
        reader.pad_token = reader.eos_token
    masked = workload.family == "bert"
    collator = transformers.DataCollatorForLanguageModeling(reader, mlm=masked)
    examples: Any = list(_examples(workload, source, tokenizer))
    loader: DataLoader[Any] = DataLoader(examples, workload.num_rows, shuffle=True, collate_fn=collator)
    decayed = [w for w in model.parameters() if w.dim() > 1]
    plain = [w for w in model.parameters() if w.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=1e-4, fused=True
    )
    schedule: Any = transformers.get_linear_schedule_with_warmup(optimizer, 1000, 10**6)  # type: ignore[no-untyped-call]
    model.train()

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    stream = batches()

    def step() -> object:
        loss = model(**next(stream)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def _examples(workload: Workload, source: Source, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Rows as a user of transformers keeps them: tokenised, not yet masked."""
    encoder_class = FAMILIES[workload.family]
    with torch.device("meta"):
        encoder = encoder_class(encoder_class.Config.parse(workload.model, group="model"))
        kind = "masked" if workload.family == "bert" else "next_token"
        objective: Together = build_objective(OBJECTIVES[kind][0](), encoder, tokenizer.specials)
    for step in range(20):
        batch = objective.draw(source, seed=0, step=step)
        for row in range(len(batch.ids)):
            example: dict[str, Any] = {"input_ids": batch.ids[row].tolist()}
            if batch.segments is not None:
                example["token_type_ids"] = batch.segments[row].tolist()
                example["next_sentence_label"] = int(batch.labels["next"][row])
            yield example


def measure(step: Callable[[], object], num_steps: int) -> float:
    """Seconds a step."""
    started = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - started) / num_steps


def compare(
    workload: Workload, store: Store, tokenizer: Tokenizer, rounds: int, num_steps: int
) -> list[dict[str, Any]]:
    """Both sides in turns, the best of each."""
    source = Source(store, workload.length, workload.num_rows)
    tokens = workload.length * workload.num_rows
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "transformers": theirs(workload, source, tokenizer, 0.1, Path(folder)),
            "equal": ours(workload, source, tokenizer, 0.1),
            "started": ours(workload, source, tokenizer, 0.0),
        }
        for step in sides.values():
            measure(step, 2)
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(rounds):
            for name, step in sides.items():
                best[name] = min(best[name], measure(step, num_steps))
    return [
        {
            "workload": workload.name,
            "comparison": name,
            "transformers": round(tokens / best["transformers"]),
            "polyseme": round(tokens / best[name]),
            "ratio": round(best["transformers"] / best[name], 2),
        }
        for name in ("equal", "started")
    ]


def main() -> None:
    """Print the table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="text file; the docstrings sample unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    corpus = Corpus(arguments.corpus) if arguments.corpus else Corpus(*sample_text("docstrings").train)
    rows = []
    print(f"{'workload':<40}{'comparison':<12}{'transformers':>14}{'polyseme':>12}{'ratio':>8}   (tokens per second)")
    for workload in WORKLOADS:
        tokenizer = Tokenizer.train(workload.tokenizer, corpus, vocab_size=workload.model["vocab_size"])
        for row in compare(workload, prepare(corpus, tokenizer), tokenizer, arguments.rounds, arguments.steps):
            rows.append(row)
            print(
                f"{row['workload']:<40}{row['comparison']:<12}{row['transformers']:>14,}{row['polyseme']:>12,}"
                f"{row['ratio']:>7.2f}x"
            )
    machine = {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    machine |= {"transformers": transformers.__version__, "python": platform.python_version()}
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
