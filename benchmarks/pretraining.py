"""Training throughput of Polyseme, transformers and a minimal GPT-2 in plain PyTorch.

All use the same architecture, sequences of the same text, batch size, and AdamW with gradient clipping. transformers
runs its own model, data collator in a DataLoader, loss, and the fused AdamW of its Trainer. There are two
comparisons:

    default   the default dropout of each system (transformers 0.1, the others 0) and memory allocation: the command
              line of Polyseme retains freed memory, the others return it to the operating system
    equal     dropout of 0.1 and retained memory for all systems

Each system runs in its own process, because memory retention is set per process. They run in turn, and the best time of
each counts, because the load of the machine varies.

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
from polyseme.corpora.corpus import Corpus
from polyseme.datasets.builtin import sample_text
from polyseme.datasets.token_store import TokenStore, build_store
from polyseme.families import FAMILIES, OBJECTIVES, build_objective
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.system.hardware import keep_freed_memory
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.presets import read_preset

MASK_PROBABILITY = 0.15
EMBEDDING_WIDTH = 128  # of ALBERT
PAIRS = {
    "next_sentence": "next_sentence_label",
    "sentence_order": "sentence_order_label",
}  # names of labels in transformers
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
    """A model and its batches: a few rows of the table."""

    family: str
    num_layers: int
    width: int
    vocab_size: int
    length: int
    num_rows: int
    num_steps: int = 1  # per measurement
    long: bool = True  # only with --long

    @property
    def name(self) -> str:
        return (
            f"{TITLES[self.family]} L{self.num_layers} H{self.width} V{self.vocab_size}, {self.num_rows}x{self.length}"
        )

    @property
    def model(self) -> dict[str, Any]:
        """Settings of the model; attention heads have 64 dimensions."""
        return {
            "num_layers": self.num_layers,
            "width": self.width,
            "num_heads": self.width // 64,
            "vocab_size": self.vocab_size,
            "max_length": self.length,
        }

    @property
    def causal(self) -> bool:
        """Whether attention is causal and every token is predicted."""
        return FAMILIES[self.family].context == "left"

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.length * self.num_rows

    def operations(self) -> float:
        """Necessary floating-point operations of a step.

        A matrix costs 2 operations per parameter and token in the forward pass and 4 in the backward pass. A block has
        12 D² parameters in matrices, hence 72 L D² per token. Attention to T keys and values of D dimensions costs
        12 L T D per token, half of it if causal. The output layer costs 6 V D, in BERT 6 D² more, for predicted tokens
        only; with a separate embedding width E it costs 6 V E + 6 D E, and every token 6 D E more. Embeddings, norms,
        activations, softmax and the optimizer are not counted.
        """
        predicted = self.tokens if self.causal else self.num_rows * round(MASK_PROBABILITY * self.length)
        embedding_width = EMBEDDING_WIDTH if self.family == "albert" else self.width
        blocks = self.tokens * self.num_layers * 72 * self.width**2
        attention = self.tokens * self.num_layers * (6 if self.causal else 12) * self.length * self.width
        head = predicted * 6 * embedding_width * (self.vocab_size + (0 if self.causal else self.width))
        projection = self.tokens * 6 * embedding_width * self.width if embedding_width < self.width else 0
        return float(blocks + attention + head + projection)


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
class System:
    """A system with its dropout and memory setting."""

    name: str
    dropout: float
    retains_memory: bool


COMPARISONS = {
    "default": (System("polyseme", 0.0, True), System("transformers", 0.1, False), System("plain PyTorch", 0.0, False)),
    "equal": (System("polyseme", 0.1, True), System("transformers", 0.1, True), System("plain PyTorch", 0.1, True)),
}


def polyseme_step(workload: Workload, folder: Path, dropout: float) -> Callable[[], object]:
    """A training step of Polyseme."""
    source, tokenizer = open_source(workload, folder)
    family = FAMILIES[workload.family]
    encoder = family(family.Config.parse({**workload.model, "dropout": dropout}, group="model"))
    objective = workload_objective(workload, encoder, tokenizer)
    steps = GradientLearner(encoder, objective, source, TrainingConfig(steps=10**6, learning_rate=1e-4)).steps()
    return lambda: next(steps)


def transformers_step(workload: Workload, folder: Path, dropout: float) -> Callable[[], object]:
    """A training step of a plain loop with transformers."""
    import transformers

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    source, tokenizer = open_source(workload, folder)
    family = FAMILIES[workload.family]
    assert family.hf_mapping is not None
    config = family.Config.parse({**workload.model, "dropout": dropout}, group="model")
    settings = family.hf_mapping.settings_to(config.model_dump(), ("causal_lm", "masked_lm", *PAIRS))
    special_ids = {"bos_token_id": 0, "eos_token_id": 0} if workload.causal else {}
    model = getattr(transformers, settings["architectures"][0])(
        transformers.AutoConfig.for_model(**{**settings, **special_ids})
    )
    model.train()
    hf_tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer")
    hf_tokenizer.pad_token = hf_tokenizer.pad_token or hf_tokenizer.eos_token or hf_tokenizer.unk_token
    collator = transformers.DataCollatorForLanguageModeling(
        hf_tokenizer, mlm=not workload.causal, mlm_probability=MASK_PROBABILITY
    )
    examples: Any = list(itertools.islice(examples_of(workload, source, tokenizer), 20 * workload.num_rows))
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
    """A training step of the GPT-2 in plain PyTorch, on the batches of Polyseme."""
    source, tokenizer = open_source(workload, folder)
    objective = workload_objective(workload, None, tokenizer)
    our_batches = (objective.batch(source, seed=0, step=number) for number in itertools.count())
    batches = ((batch.ids, batch.labels["causal_lm"]) for batch in our_batches)
    return plain_step(PlainGpt(**workload.model, dropout=dropout), batches)


STEPS = {"polyseme": polyseme_step, "transformers": transformers_step, "plain PyTorch": plain_torch_step}


def write_text(workload: Workload, corpus: Corpus, folder: Path) -> None:
    """Write the tokenizer and the token store of a workload."""
    config = TokenizerConfig.parse(read_preset(workload.family, "base")["tokenizer"], group="tokenizer")
    tokenizer = Tokenizer.train(config, corpus, vocab_size=workload.vocab_size)
    tokenizer.save(folder / "tokenizer")
    build_store(corpus, tokenizer, folder / "store", fingerprint="")


def open_source(workload: Workload, folder: Path) -> tuple[TokenSource, Tokenizer]:
    """Open the training data of a workload."""
    source = TokenSource(TokenStore.open(folder / "store"), workload.length, workload.num_rows)
    return source, Tokenizer.load(folder / "tokenizer")


def workload_objective(workload: Workload, encoder: Any, tokenizer: Tokenizer) -> JointObjective:
    """The objective of a family with token-wise masking, the only kind that transformers supports."""
    preset = read_preset(workload.family, "base")["objective"]
    settings = {} if workload.causal else {"mask_probability": MASK_PROBABILITY, "pairs": preset["pairs"]}
    config = OBJECTIVES[preset["kind"]][0].parse(settings, group="objective")
    return build_objective(config, encoder, tokenizer.specials)


def examples_of(workload: Workload, source: TokenSource, tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Training examples in the format of transformers: token ids before masking."""
    family = FAMILIES[workload.family]
    with torch.device("meta"):
        objective = workload_objective(workload, family(family.Config.parse(workload.model, group="model")), tokenizer)
    for step in itertools.count():
        batch = objective.draw_batch(source, seed=0, step=step)
        for row in range(len(batch.ids)):
            example: dict[str, Any] = {"input_ids": batch.ids[row].tolist()}
            if batch.segments is not None:
                example["token_type_ids"] = batch.segments[row].tolist()
            for name, hf_name in PAIRS.items():
                if name in batch.labels:
                    example[hf_name] = int(batch.labels[name][row])
            yield example


def run_worker(connection: Connection, system: System, workload: Workload, folder: Path) -> None:
    """The process of a system: runs the steps of one measurement for each message."""
    if system.retains_memory:
        keep_freed_memory()
    step = STEPS[system.name](workload, folder, system.dropout)
    while connection.recv():
        for _ in range(workload.num_steps):
            step()
        connection.send(True)


@contextmanager
def worker_process(system: System, workload: Workload, folder: Path) -> Iterator[Callable[[], object]]:
    """A function that runs one measurement in the process of a system."""
    connection, child_connection = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")  # fork would inherit the memory of this process
    worker = context.Process(target=run_worker, args=(child_connection, system, workload, folder), daemon=True)
    worker.start()
    child_connection.close()  # so that recv raises if the worker fails

    def measure() -> object:
        connection.send(True)
        return connection.recv()

    try:
        yield measure
    finally:
        worker.terminate()
        worker.join()


def compare(workload: Workload, folder: Path, comparison: str, rounds: int) -> list[bench.Row]:
    """The best times of all systems, and of large matrix products as the upper limit."""
    gemm = bench.Gemm()
    systems = [
        system for system in COMPARISONS[comparison] if workload.family == "gpt2" or system.name != "plain PyTorch"
    ]
    with ExitStack() as stack:
        workers = {system.name: stack.enter_context(worker_process(system, workload, folder)) for system in systems}
        best = bench.best_of({"": gemm, **workers}, rounds)
    peak = gemm.operations / best.pop("")
    return [
        {
            "workload": workload.name,
            "comparison": comparison,
            "system": name,
            "tokens/s": workload.tokens * workload.num_steps / seconds,
            "speed-up of polyseme": f"{seconds / best['polyseme']:.2f}x",
            "of peak": f"{workload.operations() * workload.num_steps / seconds / peak:.0%}",
            "peak GFLOP/s": round(peak / 1e9),
        }
        for name, seconds in best.items()
    ]


def main() -> None:
    parser, parse_args = bench.arguments(__doc__, rounds=3, long_rounds=3)
    parser.add_argument(
        "--only", default="", help='run the workloads whose name contains this, such as "BERT L8", long ones included'
    )
    parser.add_argument("--corpus", help="text file (default: the docstrings sample)")
    args = parse_args()
    corpus = Corpus(args.corpus) if args.corpus else Corpus(*sample_text("docstrings").train)
    table: list[bench.Row] = []
    for workload in WORKLOADS:
        if args.only not in workload.name or (workload.long and not args.long and not args.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_text(workload, corpus, Path(folder))
            for comparison in COMPARISONS:
                table += compare(workload, Path(folder), comparison, args.rounds)
    bench.report(table, args.json)


if __name__ == "__main__":
    main()
