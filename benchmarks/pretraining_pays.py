"""The gain from pretraining: fine-tuning a pretrained model against the same network from random weights.

    python benchmarks/pretraining_pays.py --model RUN --train FILE --dev FILE [--test FILE] [--task tag] [--method mix]
        [--labels 500] [--seeds 3] [--set training.learning_rate=1e-3] [--json out.json]

The dev file selects the best checkpoint; scores are those of the test file, or of the dev file if there is none. A gain
is significant if it exceeds two standard errors of the difference.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path

from bench import Row, arguments, report
from polyseme import finetune


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--model", nargs="+", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--test")
    parser.add_argument("--task")
    parser.add_argument("--method", default="full")
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    args = parse_args()
    rows = []
    for model in args.model:
        scores: dict[str, list[float]] = {"pretrained": [], "random": []}
        for seed in range(args.seeds):
            for initialization, values in scores.items():
                with tempfile.TemporaryDirectory() as folder:
                    tuned = finetune(
                        model,
                        train=args.train,
                        dev=args.dev,
                        task=args.task,
                        method=args.method,
                        labels=args.labels,
                        seed=seed,
                        settings=[*args.settings, f"finetuning.initialization={initialization}"],
                        out=Path(folder) / "run",
                    )
                    (task,) = tuned.tasks.values()
                    values.append(tuned.score_task(args.test or args.dev)[task.selection_metric])
                print(f"{model} seed {seed} from {initialization} weights: {values[-1]:.4f}", flush=True)
        rows.append(_row(model, scores))
    report(rows, args.json)


def _row(model: str, scores: dict[str, list[float]]) -> Row:
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in scores.values() if len(values) > 1))
    means = {name: statistics.mean(values) for name, values in scores.items()}
    gain = means["pretrained"] - means["random"]
    columns = {f"from {name}": f"{value:.4f}" for name, value in means.items()}
    return {"model": Path(model).name, **columns, "gain": f"{gain:+.4f}", "standard error": f"{error:.4f}"}


if __name__ == "__main__":
    main()
