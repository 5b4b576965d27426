"""Word sense disambiguation by the nearest labelled occurrence of the word, for each layer of several models.

Scores are balanced accuracies, the mean recall of all senses. Static embeddings, which ignore the context, score one
over the number of senses (first row); the last column counts the words that exceed that by more than two standard
errors.

    python benchmarks/senses.py --data FOLDER --models RUN [RUN …] [--words bank apple] [--most 2000] [--json out.json]

The folder has WORD.train.tsv and WORD.test.tsv with the columns text, index (of the word among those separated by
spaces) and sense; `polyseme evaluate RUN --suite senses --data FOLDER` reports the standard errors as well.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from bench import Row, arguments, report
from polyseme import load
from polyseme.evaluation.word_senses import find_sets, read_words, score_word
from polyseme.system.formatting import shortest_names


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--words", nargs="+", help="words to evaluate (default: all of the folder)")
    parser.add_argument("--most", type=int, default=0, help="occurrences of a word in each split; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample of occurrences")
    args = parse_args()
    sets = [found for found in find_sets(args.data) if not args.words or found.name in args.words]
    rows: list[Row] = []
    for name, path in zip(shortest_names([*map(Path, args.models)]), args.models, strict=True):
        model = load(path)
        words = [score_word(model, *word) for chosen in sets for word in read_words(chosen, args.most, args.seed)]
        static, *layers = (
            dict(zip((metric.name for metric in row), row, strict=True)) for row in zip(*words, strict=True)
        )
        if not rows:
            rows.append({"model": "static", "layer": None, **{word: metric.value for word, metric in static.items()}})
        for number, layer in enumerate(layers):
            values = {word: metric.value or 0.0 for word, metric in layer.items()}
            above = [
                word
                for word, metric in layer.items()
                if values[word] > (static[word].value or 0.0) + 2 * (metric.standard_error or 0.0)
            ]
            rows.append(
                {"model": name, "layer": number, **values, "mean": fmean(values.values()), "significant": len(above)}
            )
    report(rows, args.json)


if __name__ == "__main__":
    main()
