"""What pretraining is worth: the same network, with the same head and the same labels, from a model and from chance.

    python benchmarks/pretraining_pays.py --model RUN --train FILE --dev FILE [--test FILE] [--task tag] [--method mix]
        [--labels 500] [--seeds 3] [--set plan.rate=1e-3] [--json out.json]

The dev file says which weights are kept; figures are those of the test file, or of the dev file where there is none.
A gain is worth something where it is larger than two standard errors of the difference.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path

from bench import Row, arguments, report
from polyseme import finetune


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", nargs="+", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--test")
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
                    tuned = finetune(
                        model,
                        train=given.train,
                        dev=given.dev,
                        task=given.task,
                        method=given.method,
                        labels=given.labels,
                        seed=seed,
                        settings=[*given.settings, f"tuning.start={start}"],
                        out=Path(folder) / "run",
                    )
                    (task,) = tuned.tasks.values()
                    found.append(tuned.score_task(given.test or given.dev)[task.criterion])
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
