"""The words in which a model is asked, kept as data in `templates.toml`."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from polyseme.config import Config
from polyseme.text.sentences import split_sentences
from polyseme.text.vocabulary import IDEOGRAPHS

Language = Literal["en", "zh"]
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_ENOUGH = 100  # texts by which a language is told


class Template(Config):
    """How a task is put to a model, and where what it writes ends."""

    prompt: str
    answer: str
    between: str = "\n\n"
    stop: str = ""
    max_tokens: int = Field(50, ge=1)
    top_k: int = Field(0, ge=0)  # 0: the likeliest token, always
    sentences: int = Field(0, ge=0)  # that are kept; 0: all

    def join(self, examples: Iterable[str], question: str) -> str:
        """Examples and then a question, up to where the model goes on."""
        return self.between.join([*examples, question])

    def question(self, **values: str) -> str:
        """A question; what it is not told leaves no blank lines."""
        return self.prompt.format(**{name: value.strip() for name, value in values.items()}).lstrip("\n")

    def reply(self, answer: str) -> str:
        """What comes behind a question, with its space where the language has one."""
        return self.answer.format(answer=answer.strip())

    def sampling(self, seed: int) -> dict[str, Any]:
        """The settings by which a model writes on."""
        drawn = {"temperature": 1.0, "top_k": self.top_k} if self.top_k else {"temperature": 0.0}
        return {"max_tokens": self.max_tokens, "seed": seed, "stop": (self.stop,) if self.stop else (), **drawn}

    def cut(self, written: str) -> str:
        """What counts of that."""
        text = written.strip()
        return "".join(split_sentences(text)[: self.sentences]).strip() if self.sentences else text


def template(task: str, language: str) -> Template:
    """The template of a task in a language."""
    return _templates()[task][language]


def language_of(texts: Iterable[str]) -> Language:
    """Chinese if a third of the characters is, as for answers; all else is asked in English."""
    letters = "".join(text for text, _ in zip(texts, range(_ENOUGH), strict=False))
    return "zh" if len(_IDEOGRAPH.findall(letters)) > len(letters) / 3 else "en"


def between(source: Language, target: Language) -> str:
    """By which template to translate: in Chinese from and to Chinese, else by the sign of equality alone."""
    return f"{source}-{target}" if source != target else "en"


@functools.cache
def _templates() -> dict[str, dict[str, Template]]:
    content = tomllib.loads((files("polyseme.evaluate") / "templates.toml").read_text(encoding="utf-8"))
    return {
        task: {name: Template.parse(values, group=f"{task}.{name}") for name, values in languages.items()}
        for task, languages in content.items()
    }
