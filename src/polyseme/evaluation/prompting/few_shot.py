"""Zero-shot (Radford et al., 2019) and few-shot (Brown et al., 2020) prompting of causal language models.

Choices and missing words are scored by their likelihood; everything else is generated and compared with the reference.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from polyseme.evaluation.bleu import Bleu
from polyseme.evaluation.prompting.items import PromptItem, PromptSet, read_prompts
from polyseme.evaluation.results import MetricResult, mean_result, perplexity_result
from polyseme.evaluation.rouge import rouge
from polyseme.inference.model import LoadedModel
from polyseme.inference.scores import Score
from polyseme.tasks.metrics import score_answer


def score_prompts(
    model: LoadedModel,
    path: Path,
    *,
    shots: int = 0,
    examples: str = "",
    most: int = 0,
    seed: int = 0,
    language: str = "auto",
) -> list[MetricResult]:
    """Evaluate prompting on the questions of a file, with solved examples from the same file or from `examples`."""
    model.score([], after=[])  # fails early for a model that is not a causal language model
    questions = read_prompts(path, language)
    pool = read_prompts(examples, language) if examples else questions
    sampled = questions.sample(most, seed)
    prompts = sampled.prompts(pool, shots, seed)
    score = {"complete": _complete, "choose": _choose}.get(sampled.task, _generate)
    results = score(model, sampled, prompts, seed)
    num_fitting = sum(length <= model.encoder.config.max_length for length in count_tokens(model, prompts))
    name, section = sampled.file.stem, f"{sampled.task}, {shots}-shot"
    return [replace(one, name=name, section=section, num_scored=num_fitting, num_items=len(prompts)) for one in results]


def score_choices(model: LoadedModel, items: Sequence[PromptItem], prompts: Sequence[str]) -> list[list[Score]]:
    """Score each choice of each item as the continuation of its prompt."""
    pairs = [
        (prompt, item.template.format_answer(choice))
        for item, prompt in zip(items, prompts, strict=True)
        for choice in item.choices
    ]
    scores = iter(model.score([answer for _, answer in pairs], after=[prompt for prompt, _ in pairs]))
    return [[next(scores) for _ in item.choices] for item in items]


def count_tokens(model: LoadedModel, prompts: Sequence[str]) -> list[int]:
    """Number of tokens of each prompt, including the prefix of the model."""
    assert model.tokenizer is not None
    return [len(ids) + len(model.tokenizer.generation_prefix) for ids in model.tokenizer.encode_ids(prompts)]


def _complete(model: LoadedModel, questions: PromptSet, prompts: Sequence[str], seed: int) -> list[MetricResult]:
    words = [item.template.format_answer(item.answers[0]) for item in questions.items]
    scores = model.score(words, after=prompts)
    nats = mean_result("", [score.nats for score in scores], metric="perplexity of the word")
    accuracy = mean_result("", [float(score.is_greedy) for score in scores], metric="accuracy")
    return [accuracy, perplexity_result(nats)]


def _choose(model: LoadedModel, questions: PromptSet, prompts: Sequence[str], seed: int) -> list[MetricResult]:
    costs_by_metric: dict[str, Callable[[Score], float]] = {
        "accuracy per token": lambda score: score.nats / max(1, score.num_tokens),
        "accuracy per character": lambda score: score.nats / max(1, score.num_characters),
        "accuracy in total": lambda score: score.nats,
    }
    scored = score_choices(model, questions.items, prompts)
    results = []
    for metric, cost in costs_by_metric.items():
        points = []
        for item, scores in zip(questions.items, scored, strict=True):
            costs = [cost(score) for score in scores]
            best = [choice for choice, one in zip(item.choices, costs, strict=True) if one == min(costs)]
            points.append((item.answers[0] in best) / len(best))
        results.append(mean_result("", points, metric=metric))
    return results


def _generate(model: LoadedModel, questions: PromptSet, prompts: Sequence[str], seed: int) -> list[MetricResult]:
    template = questions.items[0].template  # all items share it
    answers = [template.cut(text) for text in model.generate(prompts, **template.generation_options(seed))]
    if questions.task == "translate":
        references = [item.answers[0] for item in questions.items]
        return [Bleu(language=questions.language).score("", answers, references)]
    pairs = list(zip(questions.items, answers, strict=True))
    if questions.task == "summarise":
        scores = [rouge(item.answers[0], text) for item, text in pairs]
        return [mean_result("", [score[metric] for score in scores], metric=metric) for metric in scores[0]]
    matches = [score_answer(item.answers, text, questions.language) for item, text in pairs]
    return [mean_result("", [getattr(match, name) for match in matches], metric=name) for name in ("f1", "exact")]
