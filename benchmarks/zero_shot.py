"""Zero-shot cross-lingual transfer: a bilingual model is fine-tuned on English labels and tested in Chinese.

    python benchmarks/zero_shot.py --model RUN [--adapt 5000steps] [--method mix] [--tasks classify,tag] [--seeds 3]

No Chinese labels are used; the best checkpoint is selected on English dev files. `--adapt` first continues
pretraining on the two texts of the town, which describe the same days, with sentences of both languages alternating
in each document. The same network is also fine-tuned from random weights, because some tasks need little knowledge of
a language, such as recognizing that two texts share their words. "majority" is the baseline of predicting the most
frequent English label.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bench import Row, arguments, report
from every_task import METRICS, file_of, majority
from polyseme import adapt, finetune
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_folder
from polyseme.tasks import TASKS


def mixed_documents() -> Iterator[str]:
    """Documents of the town with alternating English and Chinese sentences about the same day."""
    texts = (sample_folder("town") / f"{language}.train.txt" for language in ("en", "zh"))
    for day in zip(*(text.read_text("utf-8").strip().split("\n\n") for text in texts), strict=True):
        both = [[sentence.strip() for sentence in split_sentences(document)] for document in day]
        # Sentences are ordered by their relative position in their own document.
        ranked = (((index / len(one), sentence) for index, sentence in enumerate(one)) for one in both)
        yield " ".join(sentence for _, sentence in sorted(chain(*ranked)))


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapt", help="budget of continued pretraining on the town")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--method", default="full")
    parser.add_argument("--budget", help="budget of each fine-tuning run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="folder to keep the adapted model in; an existing one is resumed")
    args = parse_args()
    threads = f"training.threads={args.threads}"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        model, runs = args.model, args.runs or Path(folder)
        if args.adapt:
            runs.mkdir(parents=True, exist_ok=True)
            text = runs / "mixed.txt"
            text.write_text("\n\n".join(mixed_documents()), "utf-8")
            model = runs / "adapted"
            adapt(args.model, corpus=text, budget=args.adapt, settings=[threads], out=model, resume=True)
        for kind in args.tasks.split(","):
            metric = METRICS.get(kind, "accuracy")
            found: dict[str, list[float]] = {"English": [], "Chinese": [], "Chinese, random weights": []}
            for run in range(2 * args.seeds):
                seed, random_weights = run // 2, run % 2
                tuned = finetune(
                    model,
                    task=kind,
                    train=file_of(kind, "train"),
                    dev=file_of(kind, "dev"),
                    out=Path(folder) / f"{kind}-{run}",
                    method=args.method,
                    budget=args.budget,
                    seed=seed,
                    settings=[threads, f"finetuning.initialization={'random' if random_weights else 'pretrained'}"],
                )
                chinese = tuned.score_task(file_of(f"{kind}_zh", "test"))[metric]
                found["Chinese, random weights" if random_weights else "Chinese"].append(chinese)
                if not random_weights:
                    found["English"].append(tuned.score_task(file_of(kind, "test"))[metric])
            row = {"model": Path(model).name, "task": f"{kind} ({metric})", "majority": f"{majority(kind, '_zh'):.3f}"}
            rows.append(row | {name: summarize(values) for name, values in found.items()})
            print(rows[-1], flush=True)
    report(rows, args.json)


def summarize(values: list[float]) -> str:
    """Mean and standard deviation over seeds."""
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{deviation}"


if __name__ == "__main__":
    main()
