"""Synthetic results of a comparison: rows of every kind, with missing, malformed, hostile and Chinese values."""

import json
import math
import random

HOSTILE = "</script><img src=x onerror=alert(1)> & | `code` \u2028 <b>bank</b> \u202e \"'"
FAMILIES = {
    # family: context, parameters, embedding seconds, quality from 0 to 1, scale
    "onehot": ("none", 0, 0.11, 0.10, None),
    "svd": ("none", 1_050_000, 0.24, 0.35, None),
    "skipgram": ("none", 2_100_000, 0.13, 0.50, None),
    "elmo": ("both", 5_400_000, 9.2, 0.75, "bidirectional"),
    "bert": ("both", 1_500_000, 3.4, 0.85, "masked"),
    "gpt2": ("left", 1_700_000, 2.9, 0.60, "causal"),
    "ulmfit": ("left", 4_100_000, 5.1, 0.55, "causal"),
}
TASKS = {
    "topics": ("classify", "accuracy", 0.31, 0.45, 0.35, "which package a sentence documents"),
    "together": ("pair", "accuracy", 0.50, 0.50, 0.22, "whether two sentences belong together"),
    "parameters": ("tag", "f1", 0.0, 0.30, 0.45, "parameter names and types"),
    HOSTILE: ("choice", "accuracy", 0.25, 0.245, 0.01, HOSTILE),
}
WORDS = ["array", "file", "index", "苹果", HOSTILE]
AMBIGUOUS = ["index", "苹果"]
COUNTS = (50, 200, 1000)


def comparison_row(**changes):
    return {
        "row": "comparison",
        "corpus": "docstrings",
        "documents": {"train": 9000, "dev": 500, "test": 500},
        "characters": {"train": 12_400_000, "dev": 690_000, "test": 701_000},
        "words": {"train": 2_100_000, "dev": 110_000, "test": 112_000},
        "budget": "5m",
        "processor_seconds": 600.0,
        "cores": 2,
        "seeds": 3,
        "families": [*FAMILIES, "cove"],
        "scored_characters": 20_000,
        "scored_sha256": "9f" * 32,
        "machine": {"processor": "AMD EPYC", "threads": 2, "memory_bytes": 8_200_000_000},
        "versions": {"polyseme": "0.1.0", "torch": "2.8.0", "python": "3.12.3"},
        "date": "2026-11-17",
        "command": "polyseme compare --corpus docstrings --families onehot,svd --budget 5m --out 'a & b'",
        "tasks": [
            {"name": task, "kind": kind, "metric": metric, "train": 1000, "test": 800, "derived": True,
             "about": about, "majority_baseline": majority}
            for task, (kind, metric, majority, _, _, about) in TASKS.items()
        ],
    } | changes  # fmt: skip


def family_rows(family, seed=0):
    """All rows of one family."""
    context, parameters, seconds, quality, scale = FAMILIES[family]
    rng = random.Random(f"{family} {seed}")
    static = context == "none"
    yield {
        "row": "family", "family": family, "context": context, "size": "small",
        "size_reason": "the largest that sees the text four times in the budget", "parameters": parameters,
        "steps": 0 if family == "onehot" else 4000 + rng.randrange(900), "tokens": 4_300_000, "epochs": 1.7,
        "tokens_per_second": 14_000.0, "preparation_seconds": 12.3, "processor_seconds": 8.0 if static else 598.0,
        "seconds": 5.0 if static else 301.0, "stopped_by": "completion" if static else "budget",
        "peak_memory_bytes": 510_000_000 + parameters * 16, "disk_bytes": 300_000 + 4 * parameters,
        "embedding_seconds": seconds, "command": f"polyseme pretrain {family} --corpus 'a & b' --out runs/{family}",
        "directory": f"runs/{family}",
    }  # fmt: skip
    if scale:
        points = [(60 * n, 2.0 + 2.2 / math.sqrt(n) - 0.4 * quality) for n in range(1, 11)]
        yield {"row": "learning_curve", "family": family, "points": [
            {"processor_seconds": x, "tokens": 7000 * x, "bits_per_character": y, "scale": scale} for x, y in points
        ]}  # fmt: skip
        yield {"row": "metric", "family": family, "suite": "likelihood", "name": "test", "scale": scale,
               "value": points[-1][1] + 0.02, "standard_error": 0.012, "count": 500, "better": "lower"}  # fmt: skip
        yield {"row": "metric", "family": family, "suite": "minimal-pairs", "name": "word order",
               "value": 0.5 + 0.4 * quality, "standard_error": 0.02, "count": 400, "better": "higher"}  # fmt: skip
    yield {"row": "metric", "family": family, "suite": "words", "name": "wordsim353",
           "value": round(0.5 * (1 - abs(quality - 0.5)), 4), "count": 201, "better": "higher"}  # fmt: skip
    yield {"row": "metric", "family": family, "suite": "senses", "name": "pseudo-words", "layer": 0 if static else 2,
           "value": 0.5 if static else 0.5 + 0.45 * quality, "standard_error": 0.015, "count": 600,
           "better": "higher"}  # fmt: skip
    for task, (kind, metric, _, low, gain, _) in TASKS.items():
        for method in ("linear_probe", "fine_tuning"):
            for index, num_labels in enumerate(COUNTS):
                if static and method == "fine_tuning":
                    continue
                score = low + gain * quality * (0.4 + 0.3 * index) + (0.02 if method == "fine_tuning" else 0)
                values = [score + rng.gauss(0, 0.008) for _ in range(3)]
                mean = sum(values) / 3
                yield {"row": "task", "family": family, "task": task, "kind": kind, "method": method,
                       "num_labels": num_labels, "metric": metric, "values": values, "mean": mean, "std": 0.008,
                       "seconds": 2.0}  # fmt: skip
    for word in WORDS:
        yield {"row": "neighbours", "family": family, "word": word, "neighbours": [
            [f"{word} {n}" if word == HOSTILE else near, 0.9 - 0.07 * n]
            for n, near in enumerate(["list", "vector", "数组", "matrix", "sequence", "tuple", HOSTILE])
        ]}  # fmt: skip
    for word in AMBIGUOUS:
        points = []
        for n in range(40):
            group = n % 2
            text = f"Sentence {n} has the {word} of a {'book' if group else 'list'} {HOSTILE if n == 3 else ''}"
            start = text.index(word)
            x, y = (0, 0) if static else (rng.gauss(3 * group * quality, 1), rng.gauss(0, 1))
            points.append([x, y, text, start, start + len(word), group])
        yield {"row": "sense_map", "family": family, "word": word, "layer": 2, "points": points}
    if context == "left":
        for prompt in ("The index of", HOSTILE):
            yield {"row": "example", "family": family, "kind": "generate", "prompt": prompt,
                   "texts": [f"The index of the {family} is a list. {HOSTILE}"]}  # fmt: skip
    if scale == "masked":
        yield {"row": "example", "family": family, "kind": "fill", "prompt": "Returns the [MASK] of the array.",
               "predictions": [["length", 0.31], ["index", 0.22], [HOSTILE, 0.1]]}  # fmt: skip


def synthetic_rows():
    """All rows of the comparison, in the order of a results file."""
    rows = [comparison_row()]
    for family in FAMILIES:
        rows += family_rows(family)
    rows.append({"row": "ambiguous_words", "found_by": "bert", "method": "words with the widest spread",
                 "words": [{"word": word, "spread": 0.6 - 0.1 * n, "count": 212 - n}
                           for n, word in enumerate(AMBIGUOUS)]})  # fmt: skip
    rows.append({"row": "failure", "family": "cove", "stage": "training", "message": f"no pairs in {HOSTILE}"})
    rows.append({"row": "something new", "family": "bert"})
    return rows


def write_rows(folder, rows):
    """Write rows to the results file of a comparison."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
