"""Machine translation with a Transformer and with the translation model of CoVe: BLEU as defined by sacreBLEU.

CoVe uses skip-gram vectors that are first trained on the source sentences and on any additional text; the budget
applies to the translation model only.

    python benchmarks/translation.py --data FOLDER [--family transformer cove] [--budget 30m] [--size small]

The folder has train.tsv, dev.tsv and test.tsv with the columns source and target.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench import Row, arguments, report
from polyseme import load
from polyseme.api import open_recipe_embeddings, pretrain
from polyseme.corpora.corpus import ParallelCorpus
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe


def train_vectors(folder: Path, data: Path, corpus: list[str]) -> Path:
    """Train cased skip-gram vectors."""
    text = folder / "source.txt"
    text.write_text(
        "\n\n".join(source for source, _ in ParallelCorpus(data / "train.tsv").sentence_pairs()), encoding="utf-8"
    )
    settings = [
        "tokenizer.lowercase=false",
        "tokenizer.min_count=2",
        "training.budget=10epochs",
        "training.batch_tokens=16384",
    ]
    pretrain("skipgram", corpus=[str(text), *corpus], out=folder / "vectors", settings=settings)
    return folder / "vectors"


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--data", type=Path, required=True, help="folder of train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--family", nargs="+", default=["transformer", "cove"])
    parser.add_argument("--corpus", nargs="*", default=[], help="additional text for the vectors of CoVe")
    parser.add_argument("--budget", help="training budget of each model (3m; 30m with --long)")
    parser.add_argument("--size", default="small")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="such as training.learning_rate=1e-3")
    parser.add_argument("--keep", type=Path, help="folder to keep the models in")
    args = parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for family in args.family:
            settings = list(args.settings)
            if family == "cove":
                settings.append(f"model.vectors={train_vectors(folder, args.data, args.corpus)}")
            data: dict[str, Any] = {"corpus": [str(args.data / "train.tsv")], "dev": [str(args.data / "dev.tsv")]}
            changes = {"budget": args.budget or ("30m" if args.long else "3m")}
            recipe = Recipe.preset(family, args.size, settings, data=data, training=changes)
            started = time.process_time(), time.perf_counter()
            session = PretrainingSession.start(recipe, folder / family, vectors=open_recipe_embeddings(recipe))
            for progress in session.steps():
                if progress.dev:
                    print(family, progress.step.number, progress.dev, flush=True)
            session.finish()
            seconds = time.process_time() - started[0], time.perf_counter() - started[1]
            model = load(folder / family)
            translation_start = time.perf_counter()
            (score,) = model.evaluate(args.data / "test.tsv", suite="translation")
            translation_seconds = time.perf_counter() - translation_start
            examples = [source for source, _ in ParallelCorpus(args.data / "test.tsv").sentence_pairs()][:5]
            for source, translation in zip(examples, model.translate(examples), strict=True):
                print(f"  {source}\n  {translation}")
            rows.append(
                {
                    "family": family,
                    "steps": session.total_steps,
                    "minutes": seconds[1] / 60,
                    "CPU minutes": seconds[0] / 60,
                    "dev loss": (progress.dev or {}).get("translation"),
                    "BLEU": score.value,
                    "sentences/s": score.num_items / translation_seconds,
                }
            )
    report(rows, args.json)


if __name__ == "__main__":
    main()
