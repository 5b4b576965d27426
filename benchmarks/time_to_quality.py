"""How soon a dev loss is reached: by Polyseme, by the transformers Trainer, by loops with settings of their own.

Architecture (that of `--size small`), tokenizer, text, machine and dev positions are the same for all. The sides:

  trainer  transformers' Trainer with the defaults of its run_mlm and run_clm examples: rate 5e-5 falling to zero,
           8 rows a step, dropout 0.1, 15 % masked
  tuned    a plain transformers loop with AdamW and the settings in TUNED, which were searched for (see there)
  nano     GPT-2 only: a hand-written model and loop with the settings that nanoGPT has for small models on a CPU
  fast     `polyseme pretrain --recipe fast`

The peers train for the whole time and decay their rate to its end. Polyseme trains for a third of it and for three
fifths; what counts is whether the first ends below the trainer's last loss and the second, unless the first does so
already, below those of the loops.
Seconds are of learning; looks at the dev text are not counted for anyone. Each side is a process of its own, one after
another on all cores. With --parallel the seeds run side by side on a core each, and seconds are of processor time, so
that other work on the machine does not count.

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
from polyseme.models import FAMILIES
from polyseme.objectives import Source, build_objective
from polyseme.objectives.masked import MaskedConfig
from polyseme.objectives.next_token import NextTokenConfig
from polyseme.tensors import Batch
from polyseme.text.store import Store, prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe
from polyseme.train.texts import open_corpora, train_tokenizer

DEV_TOKENS = 65_536
LOOKS = 12
SHARES = (1 / 3, 0.6)

TUNED: dict[str, dict[str, Any]] = {
    "bert": {"rate": 2e-3, "rows": 4, "masked": 0.4, "betas": (0.9, 0.98), "decay": 0.01, "schedule": "linear"},
    "gpt2": {"rate": 2e-3, "rows": 4, "betas": (0.9, 0.95), "decay": 0.1, "schedule": "cosine"},
}
"""The best of a search over rates, rows a step and masking rates; docs/decisions/0006 has the figures."""

NANO: dict[str, Any] = {"rate": 1e-3, "rows": 12, "betas": (0.9, 0.99), "decay": 0.1, "schedule": "cosine"}
PEERS = {"bert": ("trainer", "tuned"), "gpt2": ("trainer", "tuned", "nano")}

Curve = list[tuple[float, float]]  # seconds of learning, dev loss


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on what."""

    family: str
    recipe: Recipe
    tokenizer: Tokenizer
    store: Store
    dev: Store
    seconds: float
    seed: int

    @classmethod
    def of(cls, given: argparse.Namespace) -> Task:
        """The task that the command line describes."""
        corpora = {"corpus": [given.corpus], "dev": [given.dev] if given.dev else []}
        recipe = Recipe.preset(given.family, "small", given.set, data=corpora, plan={"seed": given.seed})
        corpus, dev = open_corpora(recipe)
        assert dev is not None, "give --dev"
        tokenizer = train_tokenizer(recipe, corpus)
        recipe = dataclasses.replace(recipe, model=recipe.model.replace(vocab_size=tokenizer.vocab_size))
        return cls(
            given.family,
            recipe,
            tokenizer,
            prepare(corpus, tokenizer),
            prepare(dev, tokenizer),
            given.seconds,
            given.seed,
        )

    def rows(self, store: Store, num_rows: int) -> tuple[Any, Source]:
        """Plain rows, without sentence pairs: what the examples of transformers train on."""
        config = MaskedConfig(pairs="none") if self.family == "bert" else NextTokenConfig()
        encoder = FAMILIES[self.family](self.recipe.model)
        return build_objective(config, encoder, self.tokenizer.specials), Source(
            store, self.recipe.data.length, num_rows
        )

    def dev_batches(self) -> list[Batch]:
        """What everyone is measured on: the same rows, the same 15 % of them hidden."""
        num_rows = 4096 // self.recipe.data.length
        objective, source = self.rows(self.dev, num_rows)
        return [objective.batch(source, seed=0, step=step) for step in range(DEV_TOKENS // 4096)]


def unigram_nats(task: Task) -> float:
    """The dev loss of knowing nothing but how frequent each token is."""
    counts = np.bincount(np.asarray(task.store.tokens), minlength=task.tokenizer.vocab_size) + 0.1
    nats = -np.log(counts / counts.sum())
    labels = [next(iter(batch.labels.values())).flatten() for batch in task.dev_batches()]
    return float(nats[torch.cat([some[some >= 0] for some in labels]).numpy()].mean())


def dev_loss(batches: list[Batch], nats: Callable[[Batch], Any]) -> float:
    """Mean nats at the scored positions, of a function that sums them over a batch."""
    with torch.inference_mode():
        total = sum(float(nats(batch)) for batch in batches)
    return total / sum(sum(batch.counts.values()) for batch in batches)


def transformers_nats(model: Any, batch: Batch) -> Any:
    """The sum over a batch, of a transformers model."""
    model.eval()
    (labels,) = batch.labels.values()
    scored = labels >= 0
    logits = model(input_ids=batch.ids).logits
    model.train()
    return F.cross_entropy(logits[scored], labels[scored], reduction="sum")


def our_nats(training: Pretraining, batch: Batch) -> Any:
    """The same of one of ours."""
    part = training.objective.parts[-1].eval()
    (loss,) = part(training.encoder.eval(), batch).losses.values()
    return loss


class Watch:
    """Seconds of learning, and a dev loss now and then, whose time does not count."""

    def __init__(self, seconds: float, measure: Callable[[], float], *, spent: float = 0.0) -> None:
        self.seconds, self.measure = seconds, measure
        self.curve: Curve = []
        self.learnt = spent  # before the first step
        self.clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        self.started = self.clock()

    def step(self) -> None:
        """Called after every step."""
        self.learnt += self.clock() - self.started
        number = len(self.curve) + 1
        if number < LOOKS and self.learnt >= self.seconds * number / LOOKS:
            self.curve.append((self.learnt, self.measure()))
        self.started = self.clock()

    def end(self) -> Curve:
        """The curve with its last point."""
        self.curve.append((self.learnt, self.measure()))
        return self.curve


def train_fast(task: Task) -> Curve:
    """What a user of Polyseme gets."""
    return train_ours(task)[1]


def train_ours(task: Task) -> tuple[Pretraining, Curve]:
    """The training, and its curve."""
    batches = task.dev_batches()
    recipe = dataclasses.replace(task.recipe, plan=task.recipe.plan.replace(budget=f"{task.seconds:g}s"))
    with tempfile.TemporaryDirectory() as folder:
        training = Pretraining.start(
            dataclasses.replace(recipe, data=recipe.data.replace(dev=())), Path(folder) / "run"
        )
        watch = Watch(
            task.seconds,
            lambda: dev_loss(batches, lambda batch: our_nats(training, batch)),
            spent=training.start_seconds,
        )
        for _ in training.learner.steps():
            watch.step()
        training.pause()
    return training, watch.end()


class Rows(Dataset[dict[str, Any]]):
    """Rows of a store as the examples of transformers keep them: tokenised, not yet masked."""

    def __init__(self, task: Task) -> None:
        objective, source = task.rows(task.store, 1)
        self.draw: Callable[[int], torch.Tensor] = lambda step: objective.draw(source, seed=task.seed, step=step).ids[0]
        self.num_rows = task.store.num_tokens // task.recipe.data.length

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"input_ids": self.draw(number)}


def build_peer(task: Task, dropout: float, folder: str, masked: float) -> tuple[Any, Any]:
    """A fresh model of transformers with our sizes, and its collator."""
    torch.manual_seed(task.seed)
    foreign = FAMILIES[task.family].foreign
    assert foreign is not None
    settings: dict[str, Any] = foreign.settings_to(task.recipe.model.replace(dropout=dropout).model_dump(), {})
    config = transformers.AutoConfig.for_model(**settings)
    bert = task.family == "bert"
    architecture: Any = transformers.BertForMaskedLM if bert else transformers.GPT2LMHeadModel
    model = architecture(config)
    task.tokenizer.save(Path(folder))
    reader = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    if reader.pad_token is None:
        reader.pad_token = reader.eos_token
    return model, transformers.DataCollatorForLanguageModeling(
        reader, mlm=bert, mlm_probability=masked if bert else None
    )


def train_trainer(task: Task) -> Curve:
    """The Trainer with the defaults of the examples; its number of steps is set so that its decay ends in time."""
    batches = task.dev_batches()
    with tempfile.TemporaryDirectory() as folder:

        def trainer(steps: int, watch: Watch | None = None) -> Any:
            model, collator = build_peer(task, 0.1, folder, 0.15)
            if watch is not None:
                watch.measure = lambda: dev_loss(batches, lambda batch: transformers_nats(model, batch))
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
                train_dataset=Rows(task),
                callbacks=[_callback(watch)] if watch else None,
            )

        trainer(5).train()
        trial = trainer(30)
        watch = Watch(task.seconds, lambda: math.nan)
        trial.train()
        real = trainer(round(30 * task.seconds / (watch.clock() - watch.started)), watch)
        watch.started = watch.clock()
        real.train()
    return watch.end()


def _callback(watch: Watch) -> Any:
    class Callback(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch.step()

    return Callback()


def train_tuned(task: Task) -> Curve:
    """A plain loop around the transformers model, with settings that were searched for."""
    tuned, dev = TUNED[task.family], task.dev_batches()
    with tempfile.TemporaryDirectory() as folder:
        model, collator = build_peer(task, 0.0, folder, tuned.get("masked", 0.15))
    loader: Any = torch.utils.data.DataLoader(Rows(task), tuned["rows"], shuffle=True, collate_fn=collator)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    watch = Watch(task.seconds, lambda: dev_loss(dev, lambda batch: transformers_nats(model, batch)))
    model.train()
    return descend(model, (lambda: model(**next(batches)).loss), watch, tuned)


def train_nano(task: Task) -> Curve:
    """The GPT-2 written by hand, as nanoGPT trains small ones."""
    torch.manual_seed(task.seed)
    names = ("vocab_size", "max_length", "width", "num_layers", "num_heads")
    model = PlainGpt(**{name: getattr(task.recipe.model, name) for name in names}, dropout=0.0)
    objective, source = task.rows(task.store, NANO["rows"])
    drawn = (objective.batch(source, seed=task.seed, step=step) for step in itertools.count())

    def loss(batch: Batch) -> torch.Tensor:
        return model(batch.ids, batch.labels["next_token"])  # type: ignore[no-any-return]

    dev = task.dev_batches()
    watch = Watch(task.seconds, lambda: dev_loss(dev, lambda batch: loss(batch) * batch.counts["next_token"]))
    return descend(model, (lambda: loss(next(drawn))), watch, NANO)


def descend(model: torch.nn.Module, loss: Callable[[], Any], watch: Watch, settings: dict[str, Any]) -> Curve:
    """AdamW with clipping, a warm-up of 6 % of the time and a decay to its end."""
    decayed = [w for w in model.parameters() if w.dim() > 1]
    plain = [w for w in model.parameters() if w.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": settings["decay"]}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=settings["betas"], fused=True)
    watch.started = watch.clock()
    while (share := watch.learnt / watch.seconds) < 1:
        falling = 1 - share if settings["schedule"] == "linear" else 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = settings["rate"] * min(1.0, (share + 1e-3) / 0.06, falling)
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        watch.step()
    return watch.end()


SIDES: dict[str, Callable[[Task], Curve]] = {
    "trainer": train_trainer,
    "tuned": train_tuned,
    "nano": train_nano,
    "fast": train_fast,
}


def run_side(given: argparse.Namespace, side: str, seconds: float) -> list[Curve]:
    """One side with each seed, in processes of their own."""
    command = [sys.executable, __file__, "--side", side, "--family", given.family, "--corpus", given.corpus]
    command += ["--dev", given.dev] if given.dev else []
    command += ["--seconds", f"{seconds:g}", *(word for one in given.set for word in ("--set", one))]
    environment = os.environ | ({"OMP_NUM_THREADS": "1"} if given.parallel else {})

    def run(seed: int) -> Curve:
        done = subprocess.run(
            [*command, "--seed", str(seed)], check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        curve: Curve = json.loads(done.stdout.splitlines()[-1])
        said = f"{given.family} {side} {seconds:g}s seed {seed}: {curve[-1][0]:.0f}s, {curve[-1][1]:.3f} nats"
        print(said, file=sys.stderr, flush=True)
        return curve

    with ThreadPoolExecutor(given.rounds if given.parallel else 1) as pool:
        return list(pool.map(run, range(given.rounds)))


def mean(curves: list[Curve]) -> Curve:
    """The curve of the average over seeds."""
    together = zip(*curves, strict=False)
    return [(fmean(seconds for seconds, _ in looks), fmean(loss for _, loss in looks)) for looks in together]


def reached(curve: Curve, loss: float) -> float | None:
    """Seconds after which a curve is at a loss or below, for good."""
    above = [place for place, (_, one) in enumerate(curve) if one > loss]
    place = above[-1] + 1 if above else 0
    return curve[place][0] if place < len(curve) else None


def compare(given: argparse.Namespace) -> tuple[list[bench.Row], dict[str, Curve]]:
    """All sides of one family, and how much of the peers' time ours takes."""
    peers = {side: mean(run_side(given, side, given.seconds)) for side in PEERS[given.family]}
    lowest, ours = min(curve[-1][1] for curve in peers.values()), {}
    for share in SHARES:
        curve = mean(run_side(given, "fast", share * given.seconds))
        ours[f"fast, {share * given.seconds:.0f} s"] = curve
        if curve[-1][1] <= lowest:
            break
    task = Task.of(given)
    unigram = unigram_nats(task)
    bits_a_nat = task.dev.num_tokens / task.dev.num_characters / math.log(2)  # for each character of the dev text
    rows: list[bench.Row] = []
    for side, curve in (peers | ours).items():
        loss = curve[-1][1]
        row: bench.Row = {"side": f"{given.family} {side}", "seconds": round(curve[-1][0]), "dev nats": f"{loss:.3f}"}
        row["below unigram"] = f"{unigram - loss:.3f}"
        row["bits/character"] = f"{loss * bits_a_nat:.3f}" if given.family == "gpt2" else None
        for peer in peers if side in ours else ():
            when = reached(curve, peers[peer][-1][1])
            row[f"reaches {peer}"] = f"{when / given.seconds:.0%}" if when else "no"
        rows.append(row)
    return rows, peers | ours


def plot(curves: dict[str, Curve], title: str) -> str:
    """The curves as a drawing."""
    width, height, left, top = 640, 360, 60, 40
    points = [point for line in curves.values() for point in line]
    right_end = max(x for x, _ in points)
    low, high = min(y for _, y in points) - 0.05, min(9.5, max(y for _, y in points)) + 0.05

    def place(x: float, y: float) -> str:
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
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">seconds of learning</text>'
    )
    for number, (name, line) in enumerate(curves.items()):
        colour = colours.get(name, "#0b4fb3")
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        y = top + 20 * number + 10
        parts.append(f'<path d="M{left + width + 15} {y}h24" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{left + width + 45}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Compare, or run one side for the process that compares."""
    parser, read = bench.arguments(__doc__, rounds=1, long_rounds=2)
    parser.add_argument("--family", choices=sorted(TUNED), help="bert or gpt2; both unless given")
    parser.add_argument("--corpus", default="docstrings", help="text to learn from")
    parser.add_argument("--dev", help="text to measure on")
    parser.add_argument("--seconds", type=float, help="of each peer (30, 300 with --long)")
    parser.add_argument("--set", action="append", default=[], help="change a setting of the recipe")
    parser.add_argument("--parallel", action="store_true", help="seeds side by side, on a core each")
    parser.add_argument("--plot", type=Path, help="folder to draw the curves in")
    parser.add_argument("--side", choices=sorted(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = read()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if given.side:
        print(json.dumps(SIDES[given.side](Task.of(given))))
        return
    given.seconds = given.seconds or (300 if given.long else 30)
    rows: list[bench.Row] = []
    for family in [given.family] if given.family else sorted(TUNED):
        given.family = family
        some, curves = compare(given)
        rows += some
        if given.plot:
            given.plot.mkdir(parents=True, exist_ok=True)
            name = f"{family}-{Path(given.corpus).stem.partition('.')[0]}"
            (given.plot / f"{name}.svg").write_text(plot(curves, f"{name}: dev loss in nats"))
    bench.report(rows, given.json)


if __name__ == "__main__":
    main()
