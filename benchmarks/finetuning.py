"""Fine-tuning against transformers' Trainer: the same model, rows, batch size, rate, schedule and number of epochs.

    python benchmarks/finetuning.py --model FOLDER --train FILE --dev FILE [--task classify] [--epochs 1] [--rate 5e-5]
        [--batch 32] [--labels 5000] [--seeds 1] [--json out.json]

Seconds are those of learning, without the looks at the dev set, which both take once at the end. The Trainer pads each
batch to its longest row; our batches are of rows of about the same length.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from bench import Row, arguments, report
from polyseme import finetune
from polyseme.models.directory import read_json
from polyseme.text.forms import TASKS
from polyseme.text.labelled import find_labels, read_examples
from polyseme.train.finetuning import SCORES
from polyseme.train.run import read_history

LENGTH, WARMUP, DECAY = 128, 0.1, 0.01


def ours(given: Namespace, train: Path, seed: int) -> tuple[float, float]:
    """Seconds of learning, and the score in the end."""
    settings = [f"plan.rate={given.rate}", f"data.num_rows={given.batch}", f"data.length={LENGTH}"]
    settings += [
        "tuning.texts=together",
        "tuning.patience=0",
        "plan.evaluate_every=1000000",
        f"plan.warmup={WARMUP}",
        f"plan.decay={DECAY}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        budget = f"{given.epochs}epochs"
        files: dict[str, Any] = {"train": train, "dev": given.dev, "task": given.task}
        finetune(given.model, **files, budget=budget, seed=seed, settings=settings, out=out)
        return float(read_history(out)[-1]["seconds"]), float(read_json(out / SCORES)["dev"]["merit"])


def theirs(given: Namespace, train: Path, seed: int) -> tuple[float, float]:
    """The same of the Trainer."""
    import transformers
    from scipy.stats import spearmanr

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    examples: list[list[Any]] = [read_examples(path, TASKS[given.task]) for path in (train, given.dev)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    regression = given.task == "similarity"
    labels = [] if regression else find_labels(examples[0])
    scores = [example.score for example in examples[0]] if regression else []
    mean, deviation = (statistics.mean(scores), statistics.pstdev(scores)) if regression else (0.0, 1.0)

    def right(example: Any) -> float:
        return (example.score - mean) / deviation if regression else labels.index(example.label)

    def rows(some: list[Any]) -> list[dict[str, Any]]:
        texts = [[example.texts[place] for example in some] for place in range(len(some[0].texts))]
        read = tokenizer(*texts, truncation=True, max_length=LENGTH)
        return [
            {**{name: values[place] for name, values in read.items()}, "labels": right(example)}
            for place, example in enumerate(some)
        ]

    transformers.set_seed(seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        given.model,
        num_labels=1 if regression else len(labels),
        problem_type="regression" if regression else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=given.batch,
            per_device_eval_batch_size=64,
            num_train_epochs=given.epochs,
            learning_rate=given.rate,
            warmup_steps=WARMUP,
            weight_decay=DECAY,
            adam_epsilon=1e-6,
            save_strategy="no",
            eval_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=seed,
        )
        trainer = transformers.Trainer(
            model=model,
            args=settings,
            train_dataset=rows(examples[0]),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        said = np.asarray(trainer.predict(rows(examples[1])).predictions)  # type: ignore[arg-type]
    gold = np.array([right(example) for example in examples[1]])
    if regression:
        return seconds, float(spearmanr(said[:, 0], gold).statistic)
    return seconds, float((said.argmax(-1) == gold).mean())


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--task", default="classify", choices=["classify", "pair", "similarity"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    given = read()
    found: dict[str, list[tuple[float, float]]] = {"polyseme": [], "transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        train = given.train
        if given.labels:  # the same rows for both
            train = Path(folder) / given.train.name
            lines = given.train.read_text(encoding="utf-8").split("\n")
            train.write_text("\n".join(lines[: given.labels + 1]) + "\n", encoding="utf-8")
        for seed in range(given.seeds):
            for name, side in {"polyseme": ours, "transformers": theirs}.items():
                found[name].append(side(given, train, seed))
                print(f"{name} seed {seed}: {found[name][-1][0]:.1f} s, {found[name][-1][1]:.4f}", flush=True)
    rows: list[Row] = [
        {
            "side": name,
            "seconds": statistics.mean(seconds for seconds, _ in runs),
            "score": f"{statistics.mean(score for _, score in runs):.4f}",
        }
        for name, runs in found.items()
    ]
    rows[0]["faster"] = rows[1]["seconds"] / rows[0]["seconds"]
    report(rows, given.json)


if __name__ == "__main__":
    main()
