"""From one language to another: a model of both, tuned on the town's English labels, asked in Chinese.

    python benchmarks/zero_shot.py --model RUN [--adapt 5000steps] [--method mix] [--tasks classify,tag] [--seeds 3]

No Chinese label is seen: English dev files say which weights are kept. `--adapt` goes on with the town's two texts
first, which tell of the same days: each document then has a sentence of one language after one of the other. The same
network from random weights is asked too, since some tasks need no language: whether two texts share their words can be
learnt from any. The column "majority" is what it scores to say of every Chinese example what most English ones say.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bench import Row, arguments, report
from every_task import FIGURES, file_of, majority
from polyseme import adapt, finetune
from polyseme.text.forms import TASKS
from polyseme.text.samples import sample
from polyseme.text.sentences import split_sentences


def beside() -> Iterator[str]:
    """The documents of the town's two texts, day by day, sentence by sentence."""
    texts = (sample("town") / f"{language}.train.txt" for language in ("en", "zh"))
    for day in zip(*(text.read_text("utf-8").strip().split("\n\n") for text in texts), strict=True):
        both = [[sentence.strip() for sentence in split_sentences(document)] for document in day]
        # Where one language has more of them, they stand as far from the beginning as they stood in their own text.
        places = (((place / len(one), sentence) for place, sentence in enumerate(one)) for one in both)
        yield " ".join(sentence for _, sentence in sorted(chain(*places)))


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapt", help="a budget, to go on with the town's texts first")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--method", default="full")
    parser.add_argument("--budget", help="of each tuning; it has a default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="keep the adapted model here, or go on with what is there")
    given = read()
    threads = f"plan.threads={given.threads}"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        model, runs = given.model, given.runs or Path(folder)
        if given.adapt:
            runs.mkdir(parents=True, exist_ok=True)
            text = runs / "beside.txt"
            text.write_text("\n\n".join(beside()), "utf-8")
            model = runs / "adapted"
            adapt(given.model, corpus=text, budget=given.adapt, settings=[threads], out=model, resume=True)
        for kind in given.tasks.split(","):
            figure = FIGURES.get(kind, "accuracy")
            found: dict[str, list[float]] = {"English": [], "Chinese": [], "Chinese, from chance": []}
            for run in range(2 * given.seeds):
                seed, chance = run // 2, run % 2
                tuned = finetune(
                    model,
                    task=kind,
                    train=file_of(kind, "train"),
                    dev=file_of(kind, "dev"),
                    out=Path(folder) / f"{kind}-{run}",
                    method=given.method,
                    budget=given.budget,
                    seed=seed,
                    settings=[threads, f"tuning.start={'chance' if chance else 'model'}"],
                )
                chinese = tuned.score_task(file_of(f"{kind}_zh", "test"))[figure]
                found["Chinese, from chance" if chance else "Chinese"].append(chinese)
                if not chance:
                    found["English"].append(tuned.score_task(file_of(kind, "test"))[figure])
            row = {"model": Path(model).name, "task": f"{kind} ({figure})", "majority": f"{majority(kind, '_zh'):.3f}"}
            rows.append(row | {name: spread(values) for name, values in found.items()})
            print(rows[-1], flush=True)
    report(rows, given.json)


def spread(values: list[float]) -> str:
    """Mean and deviation of seeds."""
    around = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{around}"


if __name__ == "__main__":
    main()
