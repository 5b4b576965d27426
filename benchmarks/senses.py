"""Whether the vector of a word tells its sense: that of the nearest labelled occurrence of the word, layer by layer.

Figures are balanced accuracies, the mean of the recalls of all senses, so that a vector that is the same in every
context earns one over their number, which is the first row; the last column counts the words that are above that by
more than two standard errors.

    python benchmarks/senses.py --data FOLDER --models RUN [RUN …] [--words bank apple] [--most 2000] [--json out.json]

The folder has WORD.train.tsv and WORD.test.tsv with the columns text, index (of the word, among those between spaces)
and sense; `polyseme evaluate RUN --suite senses --data FOLDER` says the same of one model, with its standard errors.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from bench import Row, arguments, report
from polyseme import load
from polyseme.cli.senses import names_of
from polyseme.evaluate.senses import find_sets, score_words


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--words", nargs="+", help="all that the folder has, if none is named")
    parser.add_argument("--most", type=int, default=0, help="occurrences of a word on either side; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="by which they are drawn")
    given = read()
    sets = [found for found in find_sets(given.data) if not given.words or found.name in given.words]
    rows: list[Row] = []
    for name, path in zip(names_of(given.models), given.models, strict=True):
        words = score_words(load(path), sets, most=given.most, seed=given.seed).values()
        static, *layers = (dict(zip((f.name for f in row), row, strict=True)) for row in zip(*words, strict=True))
        if not rows:
            rows.append({"model": "static", "layer": None, **{word: figure.value for word, figure in static.items()}})
        for number, layer in enumerate(layers):
            values = {word: figure.value or 0.0 for word, figure in layer.items()}
            above = [
                word
                for word, figure in layer.items()
                if values[word] > (static[word].value or 0.0) + 2 * (figure.error or 0.0)
            ]
            rows.append({"model": name, "layer": number, **values, "mean": fmean(values.values()), "above": len(above)})
    report(rows, given.json)


if __name__ == "__main__":
    main()
