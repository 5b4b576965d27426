"""What pretraining is worth: the same network, with the same head and the same labels, from a model and from chance.

    python benchmarks/pretraining_pays.py --model RUN --train FILE --dev FILE [--task tag] [--method mix] [--labels 500]
        [--seeds 3] [--set plan.rate=1e-3] [--json out.json]

A gain is worth something where it is larger than two standard errors of the difference.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path

from bench import Row, arguments, report
from polyseme import finetune
from polyseme.models.directory import read_json
from polyseme.train.finetuning import SCORES


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", nargs="+", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--task")
    parser.add_argument("--method", default="full")
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    given = read()
    rows = []
    for model in given.model:
        merits: dict[str, list[float]] = {"model": [], "chance": []}
        for seed in range(given.seeds):
            for start, found in merits.items():
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "run"
                    finetune(
                        model,
                        train=given.train,
                        dev=given.dev,
                        task=given.task,
                        method=given.method,
                        labels=given.labels,
                        seed=seed,
                        settings=[*given.settings, f"tuning.start={start}"],
                        out=out,
                    )
                    found.append(read_json(out / SCORES)["dev"]["merit"])
                print(f"{model} seed {seed} from {start}: {found[-1]:.4f}", flush=True)
        rows.append(_row(model, merits))
    report(rows, given.json)


def _row(model: str, merits: dict[str, list[float]]) -> Row:
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in merits.values() if len(values) > 1))
    means = {start: statistics.mean(values) for start, values in merits.items()}
    gain = means["model"] - means["chance"]
    figures = {f"from {start}": f"{value:.4f}" for start, value in means.items()}
    return {"model": Path(model).name, **figures, "gain": f"{gain:+.4f}", "standard error": f"{error:.4f}"}


if __name__ == "__main__":
    main()
