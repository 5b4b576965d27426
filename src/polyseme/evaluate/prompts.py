"""What a model does that was only ever taught to go on: asked in words, after examples or none.

Zero-shot as in Radford et al. (2019), with a few examples before each question as in Brown et al. (2020). Nothing is
learnt on the way. Where there are choices, or a word to come, these are scored; else the model writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from polyseme.evaluate.figures import Figure, exponential_figure, mean_figure
from polyseme.evaluate.overlap import rouge
from polyseme.evaluate.questions import Item, Questions, read_questions
from polyseme.evaluate.translation import Bleu
from polyseme.models.base import Encoder
from polyseme.scoring import Score
from polyseme.tasks.metrics import score_answer
from polyseme.text.tokenizer import Tokenizer


class Writer(Protocol):
    """What prompts ask of a model."""

    @property
    def encoder(self) -> Encoder: ...

    @property
    def tokenizer(self) -> Tokenizer | None: ...

    def score(self, texts: Sequence[str], *, after: Sequence[str] | None = None) -> list[Score]: ...

    def generate(self, prompt: Sequence[str], **sampling: Any) -> list[str]: ...


def score_prompts(
    model: Writer,
    path: Path,
    *,
    shots: int = 0,
    examples: str = "",
    most: int = 0,
    seed: int = 0,
    language: str = "auto",
) -> list[Figure]:
    """How well the questions of a file are answered after so many examples, of the same file or of another."""
    model.score([], after=[])  # which says at once if it cannot
    every = read_questions(path, language)
    pool = read_questions(examples, language) if examples else every
    asked = every.drawn(most, seed)
    prompts = asked.prompts(pool, shots, seed)
    figures = _TASKS[asked.task](model, asked, prompts, seed)
    num_whole = sum(length <= model.encoder.config.max_length for length in count_tokens(model, prompts))
    return [
        replace(
            figure,
            name=asked.file.stem,
            section=f"{asked.task}, {shots}-shot",
            num_found=num_whole,
            num_items=len(prompts),
        )
        for figure in figures
    ]


def write(model: Writer, items: Sequence[Item], prompts: Sequence[str], seed: int) -> list[str]:
    """What a model writes after each prompt, as far as it counts; all are asked by one template."""
    words = items[0].template
    return [words.cut(text) for text in model.generate(prompts, **words.sampling(seed))]


def weigh(model: Writer, items: Sequence[Item], prompts: Sequence[str]) -> list[list[Score]]:
    """How likely each choice of each item is to come behind its prompt."""
    pairs = [
        (prompt, item.template.reply(choice))
        for item, prompt in zip(items, prompts, strict=True)
        for choice in item.choices
    ]
    scores = iter(model.score([reply for _, reply in pairs], after=[prompt for prompt, _ in pairs]))
    return [[next(scores) for _ in item.choices] for item in items]


def count_tokens(model: Writer, prompts: Sequence[str]) -> list[int]:
    """Tokens of each prompt, with what comes before it."""
    assert model.tokenizer is not None
    return [len(ids) + len(model.tokenizer.opening) for ids in model.tokenizer.encode_ids(prompts)]


def _complete(model: Writer, asked: Questions, prompts: Sequence[str], seed: int) -> list[Figure]:
    words = [item.template.reply(item.answers[0]) for item in asked.items]
    scores = model.score(words, after=prompts)
    nats = mean_figure("", [score.nats for score in scores], measure="perplexity of the word", num_items=0)
    right = mean_figure("", [float(score.likeliest) for score in scores], measure="accuracy", num_items=0)
    return [right, exponential_figure(nats)]


def _choose(model: Writer, asked: Questions, prompts: Sequence[str], seed: int) -> list[Figure]:
    ways: dict[str, Callable[[Score], float]] = {
        "accuracy per token": lambda score: score.nats / max(1, score.num_tokens),
        "accuracy per character": lambda score: score.nats / max(1, score.num_characters),
        "accuracy of the whole": lambda score: score.nats,
    }
    found = weigh(model, asked.items, prompts)
    figures = []
    for measure, cost in ways.items():
        points = []
        for item, scores in zip(asked.items, found, strict=True):
            costs = [cost(score) for score in scores]
            best = [choice for choice, one in zip(item.choices, costs, strict=True) if one == min(costs)]
            points.append((item.answers[0] in best) / len(best))
        figures.append(mean_figure("", points, measure=measure, num_items=0))
    return figures


def _answer(model: Writer, asked: Questions, prompts: Sequence[str], seed: int) -> list[Figure]:
    written = write(model, asked.items, prompts, seed)
    scores = [score_answer(one.answers, text, asked.language) for one, text in zip(asked.items, written, strict=True)]
    return [
        mean_figure("", [score.f1 for score in scores], measure="f1", num_items=0),
        mean_figure("", [score.exact for score in scores], measure="exact", num_items=0),
    ]


def _summarise(model: Writer, asked: Questions, prompts: Sequence[str], seed: int) -> list[Figure]:
    written = write(model, asked.items, prompts, seed)
    scores = [rouge(item.answers[0], text) for item, text in zip(asked.items, written, strict=True)]
    return [
        mean_figure("", [score[measure] for score in scores], measure=measure, num_items=0) for measure in scores[0]
    ]


def _translate(model: Writer, asked: Questions, prompts: Sequence[str], seed: int) -> list[Figure]:
    bleu = Bleu(language=asked.language)
    written = write(model, asked.items, prompts, seed)
    return [bleu.figure("", written, [item.answers[0] for item in asked.items])]


_TASKS: dict[str, Callable[[Writer, Questions, Sequence[str], int], list[Figure]]] = {
    "complete": _complete,
    "choose": _choose,
    "answer": _answer,
    "summarise": _summarise,
    "translate": _translate,
}
