"""A Transformer and the translation model of CoVe on the same pairs: BLEU on a test set, as sacrebleu has it.

CoVe reads words by vectors of a skip-gram of our own, learnt from the source side and from any other text that is
given, and as long as it takes; the budget is that of the translation model.

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
from polyseme.making import given_vectors, pretrain
from polyseme.text.parallel import Parallel
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe


def vectors_of(folder: Path, data: Path, corpus: list[str]) -> Path:
    """A skip-gram with capitals, since translations have them."""
    text = folder / "source.txt"
    text.write_text("\n\n".join(source for source, _ in Parallel(data / "train.tsv").rows()), encoding="utf-8")
    settings = ["tokenizer.lowercase=false", "tokenizer.min_count=2", "plan.budget=10epochs", "plan.batch_tokens=16384"]
    pretrain("skipgram", corpus=[str(text), *corpus], out=folder / "vectors", settings=settings)
    return folder / "vectors"


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--data", type=Path, required=True, help="folder of train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--family", nargs="+", default=["transformer", "cove"])
    parser.add_argument("--corpus", nargs="*", default=[], help="more text for the vectors of CoVe")
    parser.add_argument("--budget", help="of each (3m; 30m with --long)")
    parser.add_argument("--size", default="small")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="such as plan.rate=1e-3")
    parser.add_argument("--keep", type=Path, help="where to leave the models")
    given = read()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = given.keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        for family in given.family:
            settings = list(given.settings)
            if family == "cove":
                settings.append(f"model.vectors={vectors_of(place, given.data, given.corpus)}")
            data: dict[str, Any] = {"corpus": [str(given.data / "train.tsv")], "dev": [str(given.data / "dev.tsv")]}
            plan = {"budget": given.budget or ("30m" if given.long else "3m")}
            recipe = Recipe.preset(family, given.size, settings, data=data, plan=plan)
            started = time.process_time(), time.perf_counter()
            training = Pretraining.start(recipe, place / family, vectors=given_vectors(recipe))
            for progress in training.steps():
                if progress.dev:
                    print(family, progress.step.number, progress.dev, flush=True)
            training.finish()
            seconds = time.process_time() - started[0], time.perf_counter() - started[1]
            model = load(place / family)
            translating = time.perf_counter()
            (score,) = model.evaluate(given.data / "test.tsv", suite="translate")
            translating = time.perf_counter() - translating
            examples = [source for source, _ in Parallel(given.data / "test.tsv").rows()][:5]
            for source, translation in zip(examples, model.translate(examples), strict=True):
                print(f"  {source}\n  {translation}")
            rows.append(
                {
                    "family": family,
                    "steps": training.total,
                    "minutes": seconds[1] / 60,
                    "core minutes": seconds[0] / 60,
                    "dev nats": (progress.dev or {}).get("translation"),
                    "BLEU": score.value,
                    "sentences a second": score.num_items / translating,
                }
            )
    report(rows, given.json)


if __name__ == "__main__":
    main()
