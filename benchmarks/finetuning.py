"""Fine-tuning against the Trainer of transformers with the same model, data, batch size, schedule and epochs.

    python benchmarks/finetuning.py --model FOLDER --train FILE --dev FILE [--task classify] [--epochs 1]
        [--learning-rate 5e-5] [--batch-size 32] [--labels 5000] [--seeds 1] [--json out.json]

Seconds are training time without the evaluation on the dev set, which both systems run once at the end. The Trainer
pads each batch to its longest sequence; Polyseme groups sequences of similar length.
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
from polyseme.datasets.labelled_files import find_labels, read_examples
from polyseme.tasks import TASKS
from polyseme.training.finetuning import SCORES
from polyseme.training.storage.history import read_history
from polyseme.training.storage.model_dir import read_json

MAX_LENGTH, WARMUP, WEIGHT_DECAY = 128, 0.1, 0.01


def finetune_polyseme(args: Namespace, train: Path, seed: int) -> tuple[float, float]:
    """Training seconds and final dev score of Polyseme."""
    settings = [
        f"training.learning_rate={args.learning_rate}",
        f"data.batch_size={args.batch_size}",
        f"data.sequence_length={MAX_LENGTH}",
        "finetuning.text_pairs=cross_encoder",
        "finetuning.patience=0",
        "training.evaluate_every=1000000",
        f"training.warmup_fraction={WARMUP}",
        f"training.weight_decay={WEIGHT_DECAY}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        budget = f"{args.epochs}epochs"
        files: dict[str, Any] = {"train": train, "dev": args.dev, "task": args.task}
        finetune(args.model, **files, budget=budget, seed=seed, settings=settings, out=out)
        return float(read_history(out)[-1]["seconds"]), float(read_json(out / SCORES)["dev"]["selection_metric"])


def finetune_transformers(args: Namespace, train: Path, seed: int) -> tuple[float, float]:
    """Training seconds and final dev score of transformers."""
    import transformers
    from scipy.stats import spearmanr

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    examples: list[list[Any]] = [read_examples(path, TASKS[args.task].Example) for path in (train, args.dev)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    regression = args.task == "similarity"
    labels = [] if regression else find_labels(examples[0])
    scores = [example.score for example in examples[0]] if regression else []
    mean, deviation = (statistics.mean(scores), statistics.pstdev(scores)) if regression else (0.0, 1.0)

    def target(example: Any) -> float:
        return (example.score - mean) / deviation if regression else labels.index(example.label)

    def encode(examples: list[Any]) -> list[dict[str, Any]]:
        texts = [list(column) for column in zip(*(example.texts for example in examples), strict=True)]
        encoded = tokenizer(*texts, truncation=True, max_length=MAX_LENGTH)
        return [
            {**{name: values[row] for name, values in encoded.items()}, "labels": target(example)}
            for row, example in enumerate(examples)
        ]

    transformers.set_seed(seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        args.model,
        num_labels=1 if regression else len(labels),
        problem_type="regression" if regression else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=64,
            num_train_epochs=args.epochs,
            learning_rate=args.learning_rate,
            warmup_steps=WARMUP,
            weight_decay=WEIGHT_DECAY,
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
            train_dataset=encode(examples[0]),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        predictions = np.asarray(trainer.predict(encode(examples[1])).predictions)  # type: ignore[arg-type]
    gold = np.array([target(example) for example in examples[1]])
    if regression:
        return seconds, float(spearmanr(predictions[:, 0], gold).statistic)
    return seconds, float((predictions.argmax(-1) == gold).mean())


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--task", default="classify", choices=["classify", "pair", "similarity"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--labels", type=int, default=0, help="number of training rows; 0: all")
    parser.add_argument("--seeds", type=int, default=1)
    args = parse_args()
    found: dict[str, list[tuple[float, float]]] = {"polyseme": [], "transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        train = args.train
        if args.labels:
            train = Path(folder) / args.train.name
            lines = args.train.read_text(encoding="utf-8").split("\n")
            train.write_text("\n".join(lines[: args.labels + 1]) + "\n", encoding="utf-8")
        for seed in range(args.seeds):
            for name, run in {"polyseme": finetune_polyseme, "transformers": finetune_transformers}.items():
                found[name].append(run(args, train, seed))
                print(f"{name} seed {seed}: {found[name][-1][0]:.1f} s, {found[name][-1][1]:.4f}", flush=True)
    rows: list[Row] = [
        {
            "system": name,
            "seconds": statistics.mean(seconds for seconds, _ in runs),
            "score": f"{statistics.mean(score for _, score in runs):.4f}",
        }
        for name, runs in found.items()
    ]
    rows[0]["ratio"] = rows[1]["seconds"] / rows[0]["seconds"]
    report(rows, args.json)


if __name__ == "__main__":
    main()
