"""The bilingual lexicon of the town: words, markup of names and senses, numbers and dates, templates."""

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, Language] = ("en", "zh")
TemplatePair = tuple[str, str]  # English, Chinese
SENTENCE_SEPARATOR = {"en": " ", "zh": ""}

MARKUP = re.compile(r"\[([^|\[\]]+)\|([^|\[\]]+)\]")
SLOT = re.compile(r"\{(\w+)([\w.]*)\}")


@dataclass(frozen=True)
class Word:
    """A word in both languages; its `label`, if any, is written into texts as [word|label]."""

    en: str
    zh: str
    plural: str = ""  # in English
    measure_word: str = ""  # in Chinese
    label: str = ""

    def __getitem__(self, language: Language) -> str:
        return self.en if language == "en" else self.zh

    def marked(self, language: Language) -> str:
        """The word with its markup."""
        return f"[{self[language]}|{self.label}]" if self.label else self[language]


@dataclass(frozen=True)
class Span:
    """A labelled span of a text in characters."""

    start: int
    end: int
    label: str


def parse_markup(marked: str) -> tuple[str, list[Span]]:
    """Text without its markup, and the labelled spans: names have labels in upper case, senses in lower case."""
    text, spans, position = "", [], 0
    for match in MARKUP.finditer(marked):
        text += marked[position : match.start()]
        spans.append(Span(len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        position = match.end()
    return text + marked[position:], spans


def strip_markup(marked: str) -> str:
    """Text without its markup."""
    return MARKUP.sub(r"\1", marked)


def fill_template(template: str, slots: Mapping[str, str]) -> str:
    """Replace the slots of a template."""
    return SLOT.sub(lambda match: slots[match[1] + match[2]], template)


def as_sentence(marked: str, language: Language) -> str:
    """A clause with a capital and a full stop."""
    first = marked.startswith("[")
    stop = "" if marked[-1] in ".。" else "." if language == "en" else "。"
    return marked[:first] + marked[first].upper() + marked[first + 1 :] + stop


def word_forms(name: str, word: Word, language: Language, number: int = 0) -> dict[str, str]:
    """The forms of a word that templates use as slots: {food}, {food.a}, {food.many}, {food.some}."""
    text, count = word.marked(language), words()["numbers"][number]
    if language == "zh":
        wrong = "张" if word.measure_word in ("只", "个", "匹", "头", "条") else "只"
        forms = {".unit": word.measure_word, ".wrong_unit": wrong, ".some": count.zh + word.measure_word + text}
    else:
        text = f"the {text}" if name in ("place", "river") else text
        article = "an" if word.en[0] in "aeiou" else "a"
        forms = {".a": f"{article} {text}", ".many": word.plural, ".some": f"{count.en} {word.plural}"}
    return {name: text, **{name + form: value for form, value in forms.items()}}


def time_expression(day: int, part: int, language: Language, style: str) -> str:
    """The time of an event; the style is "weekday", "date", or "that" or "the" for a day that is already known."""
    weekday, name = words()["weekdays"][day % 7][language], words()["parts_of_day"][part][language]
    date = _date_without_year(day, language)
    if language == "zh":
        known = {"weekday": weekday, "date": date, "that": "那天", "the": ""}
        return f"[{known[style]}{name}|TIME]"
    return {
        "weekday": f"on [{weekday} {name}|TIME]",
        "date": f"on the [{name} of {date}|TIME]",
        "that": f"that [{name}|TIME]",
        "the": f"in the [{name}|TIME]",
    }[style]


def full_date(day: int, language: Language) -> str:
    weekday, date = words()["weekdays"][day % 7][language], _date_without_year(day, language)
    return f"[{weekday}, {date}|TIME]" if language == "en" else f"[{date}{weekday}|TIME]"


def date_of(day: int) -> datetime.date:
    return datetime.date(2018, 1, 1) + datetime.timedelta(day)  # a year that begins on a Monday


def _date_without_year(day: int, language: Language) -> str:
    date = date_of(day)
    month = words()["months"][date.month - 1][language]
    return f"{date.day} {month}" if language == "en" else f"{month}{number_word(date.day).zh}日"


def number_word(number: int) -> Word:
    """The word of a number from 0 to 59."""
    cardinals = words()["cardinals"]
    if number < 20:
        return cardinals[number]
    tens, ones = cardinals[18 + number // 10], cardinals[number % 10]
    return Word(f"{tens.en}-{ones.en}", tens.zh + ones.zh) if number % 10 else tens


# Data files. Parsed lists are shared: copy before shuffling.


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("polyseme.datasets.town").joinpath(name).read_text("utf-8"))


@cache
def words() -> dict[str, list[Word]]:
    """Lists of words by name; those with singular names fill the slots of templates."""
    parsed = {}
    for kind, lists in _read_toml("words.toml").items():
        for name, text in lists.items():
            entries = [entry.strip() for entry in text.replace("\n", " ").split(",")]
            if kind == "nouns":
                parsed[name] = [Word(*entry.split()) for entry in entries]
            else:
                label = kind if kind.isupper() else ""
                pairs = (entry.rsplit(" ", 1) for entry in entries)
                parsed[name] = [Word(english, chinese, label=label) for english, chinese in pairs]
    return parsed


@cache
def templates() -> dict[str, Any]:
    """The content of `templates.toml`."""
    return _read_toml("templates.toml")


@cache
def template_pairs(*keys: str) -> list[TemplatePair]:
    """The pairs of alternating lines in a block of `templates.toml`, such as "scenes", "nature"."""
    block: Any = templates()
    for key in keys:
        block = block[key]
    lines = block.splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


@cache
def topics() -> list[str]:
    return list(templates()["scenes"])


@cache
def scenes() -> dict[tuple[str, int, bool], list[TemplatePair]]:
    """Scenes by topic, number of people and whether the first of them is an adult."""
    return {
        (topic, num_people, adult): [
            (english.lstrip("!"), chinese)
            for english, chinese in template_pairs("scenes", topic)
            if ("{B" in english) == (num_people == 2) and (adult or not english.startswith("!"))
        ]
        for topic in topics()
        for num_people in (1, 2)
        for adult in (False, True)
    }


@dataclass(frozen=True)
class Profession:
    """A profession with its workplace and a scene at work."""

    word: Word
    place: Word
    scene: TemplatePair


@cache
def jobs() -> list[Profession]:
    places = {word.en: word for word in words()["places"]}
    return [
        Profession(Word(english, chinese, label="JOB"), places[place], (*scene,))
        for english, chinese, place, *scene in templates()["jobs"]
    ]


@dataclass(frozen=True)
class FactTemplates:
    """How to state, deny and ask for a kind of fact in one language."""

    statements: list[str]
    denial: str
    question: str
    answer: str


@cache
def fact_templates() -> dict[str, dict[Language, FactTemplates]]:
    """Templates by kind of fact and language."""
    return {
        kind: {language: FactTemplates(**wordings[language]) for language in LANGUAGES}
        for kind, wordings in templates()["facts"].items()
    }
