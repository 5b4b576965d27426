"""Prompt templates, stored as data in `templates.toml`."""

import functools
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from polyseme.config import Config
from polyseme.corpora.scripts import is_chinese
from polyseme.corpora.sentence_splitting import split_sentences

Language = Literal["en", "zh"]
_NUM_DETECTION_TEXTS = 100  # used to detect the language


class PromptTemplate(Config):
    """The prompt of a task, and where the generated answer ends."""

    prompt: str
    answer: str
    between: str = "\n\n"
    stop: str = ""
    max_tokens: int = Field(50, ge=1)
    top_k: int = Field(0, ge=0)  # 0: greedy decoding
    sentences: int = Field(0, ge=0)  # of the generated text that count; 0: all

    def join(self, examples: Iterable[str], question: str) -> str:
        """Solved examples followed by a question."""
        return self.between.join([*examples, question])

    def question(self, **values: str) -> str:
        """Fill in the question; an empty first field leaves no blank lines."""
        return self.prompt.format(**{name: value.strip() for name, value in values.items()}).lstrip("\n")

    def format_answer(self, answer: str) -> str:
        """The answer as it follows the question, with the space that the language needs."""
        return self.answer.format(answer=answer.strip())

    def generation_options(self, seed: int) -> dict[str, Any]:
        """Options for `LoadedModel.generate`."""
        decoding = {"temperature": 1.0, "top_k": self.top_k} if self.top_k else {"temperature": 0.0}
        return {"max_tokens": self.max_tokens, "seed": seed, "stop": (self.stop,) if self.stop else (), **decoding}

    def cut(self, generated: str) -> str:
        """The part of the generated text that counts."""
        text = generated.strip()
        return "".join(split_sentences(text)[: self.sentences]).strip() if self.sentences else text


def detect_language(texts: Iterable[str]) -> Language:
    """Chinese if a third of the characters are; otherwise English."""
    sample = "".join(text for text, _ in zip(texts, range(_NUM_DETECTION_TEXTS), strict=False))
    return "zh" if is_chinese(sample) else "en"


@functools.cache
def prompt_templates() -> dict[str, dict[str, PromptTemplate]]:
    """The templates by task and language."""
    content = tomllib.loads((files(__package__) / "templates.toml").read_text(encoding="utf-8"))
    return {
        task: {name: PromptTemplate.parse(values, group=f"{task}.{name}") for name, values in languages.items()}
        for task, languages in content.items()
    }
