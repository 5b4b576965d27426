"""Interactive prompting: the user's own questions with the templates of the prompting suite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field
from scipy.special import softmax

from polyseme.config import Config
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.prompting.few_shot import count_tokens, score_choices
from polyseme.evaluation.prompting.items import PromptItem, PromptSet, make_item, read_prompts, translation_language
from polyseme.evaluation.prompting.templates import detect_language
from polyseme.inference.model import LoadedModel
from polyseme.inference.scores import Score


class AskConfig(Config):
    """Task, context and solved examples of a prompt."""

    task: Literal["answer", "summarise", "translate", "choose"] = "answer"
    passage: str = ""  # the text questions are about; may be empty
    choices: tuple[str, ...] = ()  # to choose from
    shots: str = ""  # a file of solved examples, in the formats of `evaluate --suite prompts`
    most: int = Field(5, ge=1)  # number of solved examples, from the top of the file; fewer if the context is too short
    language: Literal["auto", "en", "zh"] = "auto"  # of the templates; auto: detected
    max_tokens: int = Field(0, ge=0)  # generated at most; 0: the default of the task
    seed: int = Field(0, ge=0)


@dataclass(frozen=True, kw_only=True)
class AskResult:
    """A prompt and the answer of the model."""

    text: str
    prompt: str
    answer: str
    num_shots: int = 0  # solved examples in the prompt
    choices: Mapping[str, float] = field(default_factory=dict)  # probability of each, from log-likelihood per token


def ask(model: LoadedModel, texts: Sequence[str], config: AskConfig) -> list[AskResult]:
    """Prompt a model with each text: a question, a text to summarise or to translate, or a context with choices."""
    model.score([], after=[])  # fails early for a model that is not a causal language model
    if config.task == "choose" and len(config.choices) < 2:
        raise ConfigError("there is nothing to choose from; give at least two choices")
    pool = read_prompts(config.shots, config.language) if config.shots else None
    if pool and pool.task != config.task:
        raise DataError(f"{pool.file} has examples of {pool.task}, not of {config.task}; use --task {pool.task}")
    items = [_make_item(text, config, pool) for text in texts]
    examples = [item for item in pool.items if item.answers][: config.most] if pool else []
    fitted = [_fit_prompt(model, item, examples) for item in items]
    prompts = [prompt for prompt, _ in fitted]
    if config.task == "choose":
        scored = score_choices(model, items, prompts)
        answers = [_choose(item, scores) for item, scores in zip(items, scored, strict=True)]
    else:
        generated = [
            model.generate([prompt], **item.template.generation_options(config.seed))[0]
            for item, prompt in zip(items, prompts, strict=True)
        ]
        answers = [(item.template.cut(text), {}) for item, text in zip(items, generated, strict=True)]
    return [
        AskResult(text=text, prompt=prompt, num_shots=num_shots, answer=answer, choices=choices)
        for text, (prompt, num_shots), (answer, choices) in zip(texts, fitted, answers, strict=True)
    ]


def _make_item(text: str, config: AskConfig, pool: PromptSet | None) -> PromptItem:
    if config.task == "translate":
        # Without examples, the target language is English.
        language = translation_language(config.language, detect_language([text]), pool.language if pool else "en")
        values = {"source": text}
    else:
        language = detect_language([config.passage + text]) if config.language == "auto" else config.language
        values = {"choose": {"context": text}, "summarise": {"text": text}}.get(
            config.task, {"passage": config.passage, "question": text}
        )
    item = make_item(config.task, language, values, choices=config.choices)
    return replace(item, template=item.template.replace(max_tokens=config.max_tokens)) if config.max_tokens else item


def _fit_prompt(model: LoadedModel, item: PromptItem, examples: Sequence[PromptItem]) -> tuple[str, int]:
    """The question after the last examples that leave room for the answer in the context; and how many these are."""
    limit = model.encoder.config.max_length
    for num_shots in range(len(examples), -1, -1):
        shown = examples[len(examples) - num_shots :]
        prompt = item.template.join((one.example for one in shown), item.question)
        if count_tokens(model, [prompt])[0] <= limit - min(limit // 4, item.template.max_tokens):
            break
    return prompt, num_shots


def _choose(item: PromptItem, scores: Sequence[Score]) -> tuple[str, dict[str, float]]:
    """The most likely choice, and the probability of each."""
    logits = [-score.nats / max(1, score.num_tokens) for score in scores]
    probabilities = dict(zip(item.choices, softmax(logits).tolist(), strict=True))
    return max(probabilities, key=probabilities.__getitem__), probabilities
