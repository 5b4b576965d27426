"""Training steps of Polyseme, of transformers and of a GPT-2 written by hand in torch, side by side.

All have the same architecture, rows of the same text, the same batch, and AdamW with clipping. transformers is what its
user runs: its model, its data collator in a DataLoader, its loss, and the fused AdamW that its Trainer takes. There are
two comparisons:

    started   each side with the dropout it starts with (transformers 0.1, the others none) and the memory as it comes;
              the command line of Polyseme keeps the memory that it frees, the others do not
    equal     dropout of 0.1 and freed memory kept on every side

Each side has a process of its own, because keeping memory is a matter of the process. They take turns, and the best
turn of each counts, because the machine is shared.

    python benchmarks/pretraining.py [--long] [--only "BERT L8"] [--corpus TEXT] [--rounds 3] [--json out.json]
"""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import bench
from plain_gpt import PlainGpt, plain_step
from polyseme.machine import keep_freed_memory
from polyseme.models import FAMILIES
from polyseme.objectives import OBJECTIVES, Source, Together, build_objective
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.store import Store, build_store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.learner import GradientLearner
from polyseme.train.plan import PlanConfig
from polyseme.train.recipe import read_preset

MASKED = 0.15  # share of the tokens that masked families are asked for
SHORT = 128  # width of ALBERT's words
PAIRS = {"next": "next_sentence_label", "order": "sentence_order_label"}  # what transformers calls our labels
TITLES = {
    "bert": "BERT",
    "mbert": "mBERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "ernie": "ERNIE",
    "gpt": "GPT",
    "gpt2": "GPT-2",
}


@dataclass(frozen=True)
class Workload:
    """What is trained: a few lines of the table."""

    family: str
    num_layers: int
    width: int
    vocab_size: int
    length: int
    num_rows: int
    num_steps: int = 1  # of a turn
    long: bool = True  # only with --long

    @property
    def name(self) -> str:
        return (
            f"{TITLES[self.family]} L{self.num_layers} H{self.width} V{self.vocab_size}, {self.num_rows}x{self.length}"
        )

    @property
    def model(self) -> dict[str, Any]:
        """The settings of the model; heads are of 64 numbers."""
        return {
            "num_layers": self.num_layers,
            "width": self.width,
            "num_heads": self.width // 64,
            "vocab_size": self.vocab_size,
            "max_length": self.length,
        }

    @property
    def causal(self) -> bool:
        """Whether only the past is seen, and every token asked for."""
        return FAMILIES[self.family].context == "left"

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.length * self.num_rows

    def operations(self) -> float:
        """Multiplications and additions that a step cannot do without.

        A matrix costs 2 operations a parameter and token forwards and 4 backwards. A block has 12 D² parameters in
        matrices, so 72 L D² a token. Attention multiplies with T keys and T values of D numbers: 12 L T D a token,
        half of it where only the past is seen. The head costs 6 V D, and BERT's 6 D² more, at scored tokens alone;
        where words have a width E of their own, 6 V E and 6 D E, and all tokens cost 6 D E more. Embeddings, norms,
        activations, softmax and the optimizer count for nothing.
        """
        scored = self.tokens if self.causal else self.num_rows * round(MASKED * self.length)
        short = SHORT if self.family == "albert" else self.width
        blocks = self.tokens * self.num_layers * 72 * self.width**2
        attention = self.tokens * self.num_layers * (6 if self.causal else 12) * self.length * self.width
        head = scored * 6 * short * (self.vocab_size + (0 if self.causal else self.width))
        widening = self.tokens * 6 * short * self.width if short < self.width else 0
        return float(blocks + attention + head + widening)


WORKLOADS = [
    Workload("bert", 4, 256, 30522, length=128, num_rows=32, long=False),
    Workload("bert", 8, 512, 30522, length=128, num_rows=16),
    Workload("bert", 12, 768, 30522, length=128, num_rows=8),
    Workload("bert", 2, 128, 8192, length=128, num_rows=8, num_steps=20),
    Workload("gpt2", 6, 384, 8192, length=256, num_rows=8, long=False),
    Workload("gpt2", 4, 256, 50257, length=256, num_rows=8),
    Workload("gpt2", 2, 192, 8192, length=128, num_rows=8, num_steps=8),
    Workload("mbert", 4, 256, 119547, length=128, num_rows=32),
    Workload("roberta", 4, 256, 50265, length=128, num_rows=32),
    Workload("albert", 4, 256, 30000, length=128, num_rows=32),
    Workload("ernie", 4, 256, 18000, length=128, num_rows=32),
    Workload("gpt", 4, 256, 40478, length=256, num_rows=8),
]


@dataclass(frozen=True)
class Side:
    """Who trains, and how."""

    tool: str
    dropout: float
    keeps_memory: bool


COMPARISONS = {
    "started": (Side("polyseme", 0.0, True), Side("transformers", 0.1, False), Side("plain torch", 0.0, False)),
    "equal": (Side("polyseme", 0.1, True), Side("transformers", 0.1, True), Side("plain torch", 0.1, True)),
}


def polyseme_step(workload: Workload, folder: Path, dropout: float) -> Callable[[], object]:
    """A step of Polyseme, as its learner makes it."""
    source, tokenizer = open_text(workload, folder)
    family = FAMILIES[workload.family]
    encoder = family(family.Config.parse({**workload.model, "dropout": dropout}, group="model"))
    objective = ask(workload, encoder, tokenizer)
    steps = GradientLearner(encoder, objective, source, PlanConfig(steps=10**6, rate=1e-4)).steps()
    return lambda: next(steps)


def transformers_step(workload: Workload, folder: Path, dropout: float) -> Callable[[], object]:
    """A step of a plain transformers loop."""
    import transformers

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    source, tokenizer = open_text(workload, folder)
    family = FAMILIES[workload.family]
    assert family.foreign is not None
    config = family.Config.parse({**workload.model, "dropout": dropout}, group="model")
    settings = family.foreign.settings_to(config.model_dump(), family.foreign.architectures)
    ends = {"bos_token_id": 0, "eos_token_id": 0} if workload.causal else {}
    model = getattr(transformers, settings["architectures"][0])(
        transformers.AutoConfig.for_model(**{**settings, **ends})
    )
    model.train()
    reader = transformers.PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer")
    reader.pad_token = reader.pad_token or reader.eos_token or reader.unk_token
    collator = transformers.DataCollatorForLanguageModeling(reader, mlm=not workload.causal, mlm_probability=MASKED)
    examples: Any = list(itertools.islice(rows(workload, source, tokenizer), 20 * workload.num_rows))
    loader: DataLoader[Any] = DataLoader(examples, workload.num_rows, shuffle=True, collate_fn=collator)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
    schedule: Any = transformers.get_linear_schedule_with_warmup(optimizer, 1000, 10**6)  # type: ignore[no-untyped-call]

    def step() -> object:
        loss = model(**next(batches)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def plain_torch_step(workload: Workload, folder: Path, dropout: float) -> Callable[[], object]:
    """A step of the GPT-2 written by hand, on the batches that Polyseme draws."""
    source, tokenizer = open_text(workload, folder)
    objective = ask(workload, None, tokenizer)
    drawn = (objective.batch(source, seed=0, step=number) for number in itertools.count())
    batches = ((batch.ids, batch.labels["next_token"]) for batch in drawn)
    return plain_step(PlainGpt(**workload.model, dropout=dropout), batches)


STEPS = {"polyseme": polyseme_step, "transformers": transformers_step, "plain torch": plain_torch_step}


def write_text(workload: Workload, corpus: Corpus, folder: Path) -> None:
    """Prepare the text for every process of a workload."""
    config = TokenizerConfig.parse(read_preset(workload.family, "base")["tokenizer"], group="tokenizer")
    tokenizer = Tokenizer.train(config, corpus, vocab_size=workload.vocab_size)
    tokenizer.save(folder / "tokenizer")
    build_store(corpus, tokenizer, folder / "store")


def open_text(workload: Workload, folder: Path) -> tuple[Source, Tokenizer]:
    """The rows to train on."""
    source = Source(Store.open(folder / "store"), workload.length, workload.num_rows)
    return source, Tokenizer.load(folder / "tokenizer")


def ask(workload: Workload, encoder: Any, tokenizer: Tokenizer) -> Together:
    """What is asked of the rows, of masked ones token by token: transformers knows no other way."""
    usual = read_preset(workload.family, "base")["objective"]
    settings = {} if workload.causal else {"rate": MASKED, "pairs": usual["pairs"]}
    config = OBJECTIVES[usual["kind"]][0].parse(settings, group="objective")
    return build_objective(config, encoder, tokenizer.specials)


def rows(workload: Workload, source: Source, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Rows as a user of transformers keeps them: tokenised, not yet masked."""
    family = FAMILIES[workload.family]
    with torch.device("meta"):
        objective = ask(workload, family(family.Config.parse(workload.model, group="model")), tokenizer)
    for step in itertools.count():
        batch = objective.draw(source, seed=0, step=step)
        for row in range(len(batch.ids)):
            example: dict[str, Any] = {"input_ids": batch.ids[row].tolist()}
            if batch.segments is not None:
                example["token_type_ids"] = batch.segments[row].tolist()
            for name, theirs in PAIRS.items():
                if name in batch.labels:
                    example[theirs] = int(batch.labels[name][row])
            yield example


def serve(turns: Connection, side: Side, workload: Workload, folder: Path) -> None:
    """The process of a side: a turn for each message."""
    if side.keeps_memory:
        keep_freed_memory()
    step = STEPS[side.tool](workload, folder, side.dropout)
    while turns.recv():
        for _ in range(workload.num_steps):
            step()
        turns.send(True)


@contextmanager
def process(side: Side, workload: Workload, folder: Path) -> Iterator[Callable[[], object]]:
    """A function that lets a side take its turn."""
    turns, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")  # a fork would inherit the memory of this process
    worker = context.Process(target=serve, args=(theirs, side, workload, folder), daemon=True)
    worker.start()
    theirs.close()  # so that a worker that fails ends the wait

    def turn() -> object:
        turns.send(True)
        return turns.recv()

    try:
        yield turn
    finally:
        worker.terminate()
        worker.join()


def compare(workload: Workload, folder: Path, comparison: str, rounds: int) -> list[bench.Row]:
    """All sides in turns, and large products as the limit; the best of each."""
    gemm = bench.Gemm()
    sides = [side for side in COMPARISONS[comparison] if workload.family == "gpt2" or side.tool != "plain torch"]
    with ExitStack() as stack:
        turns = {side.tool: stack.enter_context(process(side, workload, folder)) for side in sides}
        best = bench.best_of({"": gemm, **turns}, rounds)
    peak = gemm.operations / best.pop("")
    return [
        {
            "workload": workload.name,
            "comparison": comparison,
            "tool": tool,
            "tokens/s": workload.tokens * workload.num_steps / seconds,
            "polyseme": f"{seconds / best['polyseme']:.2f}x",
            "of peak": f"{workload.operations() * workload.num_steps / seconds / peak:.0%}",
            "peak GFLOP/s": round(peak / 1e9),
        }
        for tool, seconds in best.items()
    ]


def main() -> None:
    """Print the table, and write it as JSON where asked."""
    parser, read = bench.arguments(__doc__, rounds=3, long_rounds=3)
    parser.add_argument(
        "--only", default="", help='workloads whose name has this, such as "BERT L8"; all are looked at'
    )
    parser.add_argument("--corpus", help="text file; the docstrings sample unless given")
    given = read()
    corpus = Corpus(given.corpus) if given.corpus else Corpus(*sample_text("docstrings").train)
    table: list[bench.Row] = []
    for workload in WORKLOADS:
        if given.only not in workload.name or (workload.long and not given.long and not given.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_text(workload, corpus, Path(folder))
            for comparison in COMPARISONS:
                table += compare(workload, Path(folder), comparison, given.rounds)
    bench.report(table, given.json)


if __name__ == "__main__":
    main()
