"""Training time to a given dev loss: Polyseme, the Trainer of transformers, and plain training loops.

Architecture (that of `--size small`), tokenizer, text, machine and dev positions are the same for all. The systems:

  trainer  the Trainer of transformers with the defaults of its run_mlm and run_clm examples: learning rate 5e-5 with
           linear decay, batch size 8, dropout 0.1, masking probability 0.15
  tuned    a plain loop with transformers, AdamW and the searched hyperparameters in TUNED
  nano     GPT-2 only: plain PyTorch model and loop with the hyperparameters of nanoGPT for small models on a CPU
  fast     `polyseme pretrain --recipe fast`

The peers train for the full time with a learning rate schedule of that length. Polyseme trains for a third of it and,
if that does not reach the lowest loss of the peers, for three fifths. Seconds are training time; evaluation on the
dev text is not counted. Each system runs in its own process, one after the other on all cores. With --parallel, seeds
run in parallel on one core each and seconds are CPU time, which does not depend on the load of the machine.

    python benchmarks/time_to_quality.py --corpus text.txt --dev dev.txt [--long] [--parallel] [--plot FOLDER]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch.utils.data import Dataset

import bench
from plain_gpt import PlainGpt
from polyseme.batch import Batch
from polyseme.datasets.token_store import TokenStore, build_or_load_store
from polyseme.families import FAMILIES, build_objective
from polyseme.objectives.causal_lm import CausalLmConfig
from polyseme.objectives.masked_lm import MaskedLmConfig
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.data_pipeline import open_corpora, train_tokenizer
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

DEV_TOKENS = 65_536
NUM_EVALUATIONS = 12
TIME_FRACTIONS = (1 / 3, 0.6)

TUNED: dict[str, dict[str, Any]] = {
    "bert": {
        "learning_rate": 2e-3,
        "batch_size": 4,
        "mask_probability": 0.4,
        "betas": (0.9, 0.98),
        "weight_decay": 0.01,
        "schedule": "linear",
    },
    "gpt2": {
        "learning_rate": 2e-3,
        "batch_size": 4,
        "betas": (0.9, 0.95),
        "weight_decay": 0.1,
        "schedule": "cosine",
    },
}
"""The best of a search over learning rates, batch sizes and masking probabilities, see docs/decisions/0006."""

NANO: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_size": 12,
    "betas": (0.9, 0.99),
    "weight_decay": 0.1,
    "schedule": "cosine",
}
PEERS = {"bert": ("trainer", "tuned"), "gpt2": ("trainer", "tuned", "nano")}

Curve = list[tuple[float, float]]  # training seconds, dev loss


@dataclasses.dataclass(frozen=True)
class Task:
    """Family, data, time and seed of a run."""

    family: str
    recipe: Recipe
    tokenizer: Tokenizer
    store: TokenStore
    dev: TokenStore
    seconds: float
    seed: int

    @classmethod
    def of(cls, args: argparse.Namespace) -> Task:
        """The task described by the command line."""
        corpora = {"corpus": [args.corpus], "dev": [args.dev] if args.dev else []}
        recipe = Recipe.preset(args.family, "small", args.set, data=corpora, training={"seed": args.seed})
        corpus, dev = open_corpora(recipe)
        if dev is None:
            raise SystemExit("no dev text; pass --dev")
        tokenizer = train_tokenizer(recipe, corpus)
        recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
        return cls(
            args.family,
            recipe,
            tokenizer,
            build_or_load_store(corpus, tokenizer),
            build_or_load_store(dev, tokenizer),
            args.seconds,
            args.seed,
        )

    def objective_and_source(self, store: TokenStore, batch_size: int) -> tuple[Any, TokenSource]:
        """Masked or causal language modelling without sentence pairs, as in the examples of transformers."""
        config = MaskedLmConfig(pairs="none") if self.family == "bert" else CausalLmConfig()
        encoder = FAMILIES[self.family](self.recipe.model)
        return build_objective(config, encoder, self.tokenizer.specials), TokenSource(
            store, self.recipe.data.sequence_length, batch_size
        )

    def dev_batches(self) -> list[Batch]:
        """The dev batches of all systems, with the same 15 % of the tokens masked."""
        batch_size = 4096 // self.recipe.data.sequence_length
        objective, source = self.objective_and_source(self.dev, batch_size)
        return [objective.batch(source, seed=0, step=step) for step in range(DEV_TOKENS // 4096)]


def unigram_entropy(task: Task) -> float:
    """The dev cross-entropy of the unigram distribution of the training text."""
    counts = np.bincount(np.asarray(task.store.tokens), minlength=task.tokenizer.vocab_size) + 0.1
    nats = -np.log(counts / counts.sum())
    labels = [next(iter(batch.labels.values())).flatten() for batch in task.dev_batches()]
    return float(nats[torch.cat([label[label >= 0] for label in labels]).numpy()].mean())


def dev_loss(batches: list[Batch], summed_loss: Callable[[Batch], Any]) -> float:
    """The mean loss of all predicted positions, given a function for the sum of a batch."""
    with torch.inference_mode():
        total = sum(float(summed_loss(batch)) for batch in batches)
    return total / sum(sum(batch.counts.values()) for batch in batches)


def transformers_loss(model: Any, batch: Batch) -> Any:
    """The summed loss of a transformers model on a batch."""
    model.eval()
    (labels,) = batch.labels.values()
    predicted = labels >= 0
    logits = model(input_ids=batch.ids).logits
    model.train()
    return F.cross_entropy(logits[predicted], labels[predicted], reduction="sum")


def polyseme_loss(session: PretrainingSession, batch: Batch) -> Any:
    """The summed loss of a Polyseme model on a batch."""
    part = session.objective.parts[-1].eval()
    (loss,) = part(session.encoder.eval(), batch).losses.values()
    return loss


class TrainingTimer:
    """Measures training time and records the dev loss at regular intervals, excluding the time of evaluation."""

    def __init__(self, seconds: float, evaluate: Callable[[], float], *, spent: float = 0.0) -> None:
        self.seconds, self.evaluate = seconds, evaluate
        self.curve: Curve = []
        self.trained = spent  # seconds
        self.clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        self.started = self.clock()

    def step(self) -> None:
        """Record the end of a training step."""
        self.trained += self.clock() - self.started
        number = len(self.curve) + 1
        if number < NUM_EVALUATIONS and self.trained >= self.seconds * number / NUM_EVALUATIONS:
            self.curve.append((self.trained, self.evaluate()))
        self.started = self.clock()

    def end(self) -> Curve:
        """Evaluate once more and return the curve."""
        self.curve.append((self.trained, self.evaluate()))
        return self.curve


def train_fast(task: Task) -> Curve:
    """Train with the fast recipe of Polyseme."""
    return train_polyseme(task)[1]


def train_polyseme(task: Task) -> tuple[PretrainingSession, Curve]:
    """Train with the fast recipe and return the session and its curve."""
    batches = task.dev_batches()
    recipe = dataclasses.replace(task.recipe, training=task.recipe.training.replace(budget=f"{task.seconds:g}s"))
    with tempfile.TemporaryDirectory() as folder:
        session = PretrainingSession.start(
            dataclasses.replace(recipe, data=recipe.data.replace(dev=())), Path(folder) / "run"
        )
        timer = TrainingTimer(
            task.seconds,
            lambda: dev_loss(batches, lambda batch: polyseme_loss(session, batch)),
            spent=session.start_seconds,
        )
        for _ in session.learner.steps():
            timer.step()
        session.pause()
    return session, timer.end()


class Sequences(Dataset[dict[str, Any]]):
    """Training sequences in the format of transformers: token ids before masking."""

    def __init__(self, task: Task) -> None:
        objective, source = task.objective_and_source(task.store, 1)
        self.get_ids: Callable[[int], torch.Tensor] = lambda step: objective.draw_batch(
            source, seed=task.seed, step=step
        ).ids[0]
        self.num_sequences = task.store.num_tokens // task.recipe.data.sequence_length

    def __len__(self) -> int:
        return self.num_sequences

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.get_ids(index)}


def build_transformers(task: Task, dropout: float, folder: str, mask_probability: float) -> tuple[Any, Any]:
    """A new transformers model of the same size, and its data collator."""
    torch.manual_seed(task.seed)
    hf_mapping = FAMILIES[task.family].hf_mapping
    assert hf_mapping is not None
    settings: dict[str, Any] = hf_mapping.settings_to(task.recipe.model.replace(dropout=dropout).model_dump(), {})
    config = transformers.AutoConfig.for_model(**settings)
    bert = task.family == "bert"
    architecture: Any = transformers.BertForMaskedLM if bert else transformers.GPT2LMHeadModel
    model = architecture(config)
    task.tokenizer.save(Path(folder))
    hf_tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    if hf_tokenizer.pad_token is None:
        hf_tokenizer.pad_token = hf_tokenizer.eos_token
    return model, transformers.DataCollatorForLanguageModeling(
        hf_tokenizer, mlm=bert, mlm_probability=mask_probability if bert else None
    )


def train_trainer(task: Task) -> Curve:
    """Train with the Trainer and the defaults of its examples, with a number of steps that fits the time."""
    batches = task.dev_batches()
    with tempfile.TemporaryDirectory() as folder:

        def trainer(steps: int, timer: TrainingTimer | None = None) -> Any:
            model, collator = build_transformers(task, 0.1, folder, 0.15)
            if timer is not None:
                timer.evaluate = lambda: dev_loss(batches, lambda batch: transformers_loss(model, batch))
            settings = transformers.TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=8,
                max_steps=steps,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                use_cpu=not torch.cuda.is_available(),
                seed=task.seed,
            )
            return transformers.Trainer(
                model=model,
                args=settings,
                data_collator=collator,
                train_dataset=Sequences(task),
                callbacks=[_callback(timer)] if timer else None,
            )

        trainer(5).train()
        trial = trainer(30)  # measures the step time
        timer = TrainingTimer(task.seconds, lambda: math.nan)
        trial.train()
        run = trainer(round(30 * task.seconds / (timer.clock() - timer.started)), timer)
        timer.started = timer.clock()
        run.train()
    return timer.end()


def _callback(timer: TrainingTimer) -> Any:
    class Callback(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            timer.step()

    return Callback()


def train_tuned(task: Task) -> Curve:
    """Train a transformers model in a plain loop with searched hyperparameters."""
    settings, dev = TUNED[task.family], task.dev_batches()
    with tempfile.TemporaryDirectory() as folder:
        model, collator = build_transformers(task, 0.0, folder, settings.get("mask_probability", 0.15))
    loader: Any = torch.utils.data.DataLoader(
        Sequences(task), settings["batch_size"], shuffle=True, collate_fn=collator
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    timer = TrainingTimer(task.seconds, lambda: dev_loss(dev, lambda batch: transformers_loss(model, batch)))
    model.train()
    return train_loop(model, (lambda: model(**next(batches)).loss), timer, settings)


def train_nano(task: Task) -> Curve:
    """Train the GPT-2 in plain PyTorch with the hyperparameters of nanoGPT."""
    torch.manual_seed(task.seed)
    names = ("vocab_size", "max_length", "width", "num_layers", "num_heads")
    model = PlainGpt(**{name: getattr(task.recipe.model, name) for name in names}, dropout=0.0)
    objective, source = task.objective_and_source(task.store, NANO["batch_size"])
    batches = (objective.batch(source, seed=task.seed, step=step) for step in itertools.count())

    def loss(batch: Batch) -> torch.Tensor:
        return model(batch.ids, batch.labels["causal_lm"])  # type: ignore[no-any-return]

    dev = task.dev_batches()
    timer = TrainingTimer(task.seconds, lambda: dev_loss(dev, lambda batch: loss(batch) * batch.counts["causal_lm"]))
    return train_loop(model, (lambda: loss(next(batches))), timer, NANO)


def train_loop(
    model: torch.nn.Module, loss: Callable[[], Any], timer: TrainingTimer, settings: dict[str, Any]
) -> Curve:
    """Train with AdamW, gradient clipping, a warmup of 6 % of the time and a decay to its end."""
    decayed = [w for w in model.parameters() if w.dim() > 1]
    plain = [w for w in model.parameters() if w.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": settings["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=settings["betas"], fused=True)
    timer.started = timer.clock()
    while (progress := timer.trained / timer.seconds) < 1:
        decay = 1 - progress if settings["schedule"] == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = settings["learning_rate"] * min(1.0, (progress + 1e-3) / 0.06, decay)
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        timer.step()
    return timer.end()


SYSTEMS: dict[str, Callable[[Task], Curve]] = {
    "trainer": train_trainer,
    "tuned": train_tuned,
    "nano": train_nano,
    "fast": train_fast,
}


def run_system(args: argparse.Namespace, system: str, seconds: float) -> list[Curve]:
    """Run a system with each seed in a new process."""
    command = [sys.executable, __file__, "--system", system, "--family", args.family, "--corpus", args.corpus]
    command += ["--dev", args.dev] if args.dev else []
    command += ["--seconds", f"{seconds:g}", *(word for setting in args.set for word in ("--set", setting))]
    environment = os.environ | ({"OMP_NUM_THREADS": "1"} if args.parallel else {})

    def run(seed: int) -> Curve:
        done = subprocess.run(
            [*command, "--seed", str(seed)], check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        curve: Curve = json.loads(done.stdout.splitlines()[-1])
        message = f"{args.family} {system} {seconds:g}s seed {seed}: {curve[-1][0]:.0f}s, dev loss {curve[-1][1]:.3f}"
        print(message, file=sys.stderr, flush=True)
        return curve

    with ThreadPoolExecutor(args.rounds if args.parallel else 1) as pool:
        return list(pool.map(run, range(args.rounds)))


def mean(curves: list[Curve]) -> Curve:
    """The mean curve over seeds."""
    points = zip(*curves, strict=False)
    return [(fmean(seconds for seconds, _ in seeds), fmean(loss for _, loss in seeds)) for seeds in points]


def reached(curve: Curve, loss: float) -> float | None:
    """Seconds after which a curve stays at or below a loss."""
    above = [index for index, (_, value) in enumerate(curve) if value > loss]
    index = above[-1] + 1 if above else 0
    return curve[index][0] if index < len(curve) else None


def compare(args: argparse.Namespace) -> tuple[list[bench.Row], dict[str, Curve]]:
    """Run all systems of a family, and compute the fraction of the peers' time that Polyseme needs."""
    peers = {system: mean(run_system(args, system, args.seconds)) for system in PEERS[args.family]}
    lowest, ours = min(curve[-1][1] for curve in peers.values()), {}
    for fraction in TIME_FRACTIONS:
        curve = mean(run_system(args, "fast", fraction * args.seconds))
        ours[f"fast, {fraction * args.seconds:.0f} s"] = curve
        if curve[-1][1] <= lowest:
            break
    task = Task.of(args)
    unigram = unigram_entropy(task)
    bits_per_character = task.dev.num_tokens / task.dev.num_characters / math.log(2)  # of one nat/token
    rows: list[bench.Row] = []
    for system, curve in (peers | ours).items():
        loss = curve[-1][1]
        row: bench.Row = {
            "system": f"{args.family} {system}",
            "seconds": round(curve[-1][0]),
            "dev loss": f"{loss:.3f}",
        }
        row["below unigram"] = f"{unigram - loss:.3f}"
        row["bits/character"] = f"{loss * bits_per_character:.3f}" if args.family == "gpt2" else None
        for peer in peers if system in ours else ():
            seconds = reached(curve, peers[peer][-1][1])
            row[f"reaches {peer}"] = f"{seconds / args.seconds:.0%}" if seconds else "not reached"
        rows.append(row)
    return rows, peers | ours


def plot(curves: dict[str, Curve], title: str) -> str:
    """An SVG chart of the curves."""
    width, height, left, top = 640, 360, 60, 40
    points = [point for line in curves.values() for point in line]
    right_end = max(x for x, _ in points)
    low, high = min(y for _, y in points) - 0.05, min(9.5, max(y for _, y in points)) + 0.05

    def coordinates(x: float, y: float) -> str:
        return f"{left + x / right_end * width:.1f},{top + (high - y) / (high - low) * height:.1f}"

    colours = {"trainer": "#8c8c8c", "tuned": "#d98a00", "nano": "#3a9d5d"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 170} {top + height + 50}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="22" font-size="15">{title}</text>',
    ]
    for tick in np.linspace(low, high, 6):
        y = top + (high - tick) / (high - low) * height
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/><text x="12" y="{y + 4:.1f}">{tick:.2f}</text>')
    for tick in np.linspace(0, right_end, 6):
        x = left + tick / right_end * width
        parts.append(f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{tick:.0f}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">training seconds</text>')
    for number, (name, line) in enumerate(curves.items()):
        colour = colours.get(name, "#0b4fb3")
        path = " ".join(coordinates(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        y = top + 20 * number + 10
        parts.append(f'<path d="M{left + width + 15} {y}h24" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{left + width + 45}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser, parse_args = bench.arguments(__doc__, rounds=1, long_rounds=2)
    parser.add_argument("--family", choices=sorted(TUNED), help="bert or gpt2 (default: both)")
    parser.add_argument("--corpus", default="docstrings", help="training text")
    parser.add_argument("--dev", help="dev text")
    parser.add_argument("--seconds", type=float, help="training time of each peer (30, 300 with --long)")
    parser.add_argument("--set", action="append", default=[], help="change a setting of the recipe")
    parser.add_argument("--parallel", action="store_true", help="run seeds in parallel, on one core each")
    parser.add_argument("--plot", type=Path, help="folder for charts of the curves")
    parser.add_argument("--system", choices=sorted(SYSTEMS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    args = parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if args.system:
        print(json.dumps(SYSTEMS[args.system](Task.of(args))))
        return
    args.seconds = args.seconds or (300 if args.long else 30)
    rows: list[bench.Row] = []
    for family in [args.family] if args.family else sorted(TUNED):
        args.family = family
        family_rows, curves = compare(args)
        rows += family_rows
        if args.plot:
            args.plot.mkdir(parents=True, exist_ok=True)
            name = f"{family}-{Path(args.corpus).stem.partition('.')[0]}"
            (args.plot / f"{name}.svg").write_text(plot(curves, f"{name}: dev loss in nats/token"))
    bench.report(rows, args.json)


if __name__ == "__main__":
    main()
