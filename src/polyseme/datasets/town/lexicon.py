"""The bilingual lexicon of the town: words, markup of names and senses, numbers and dates, parsed templates."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from polyseme.datasets.town import templates

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
    text = word.marked(language)
    if language == "zh":
        wrong = "张" if word.measure_word in ("只", "个", "匹", "头", "条") else "只"
        forms = {
            ".unit": word.measure_word,
            ".wrong_unit": wrong,
            ".some": numbers()[number].zh + word.measure_word + text,
        }
    else:
        text = f"the {text}" if name in ("place", "river") else text
        article = "an" if word.en[0] in "aeiou" else "a"
        forms = {".a": f"{article} {text}", ".many": word.plural, ".some": f"{numbers()[number].en} {word.plural}"}
    return {name: text, **{name + form: value for form, value in forms.items()}}


def time_expression(day: int, part: int, language: Language, style: str) -> str:
    """The time of an event; the style is "weekday", "date", or "that" or "the" for a day that is already known."""
    weekday, date, name = weekdays()[day % 7], date_of(day), parts_of_day()[part]
    if language == "zh":
        known = {"weekday": weekday.zh, "date": _chinese_date(date), "that": "那天", "the": ""}
        return f"[{known[style]}{name.zh}|TIME]"
    if style == "weekday":
        return f"on [{weekday.en} {name.en}|TIME]"
    if style == "date":
        return f"on the [{name.en} of {_english_date(date)}|TIME]"
    return f"that [{name.en}|TIME]" if style == "that" else f"in the [{name.en}|TIME]"


def full_date(day: int, language: Language) -> str:
    weekday, date = weekdays()[day % 7], date_of(day)
    text = f"{weekday.en}, {_english_date(date)}" if language == "en" else f"{_chinese_date(date)}{weekday.zh}"
    return f"[{text}|TIME]"


def date_of(day: int) -> datetime.date:
    return datetime.date(2018, 1, 1) + datetime.timedelta(day)  # a year that begins on a Monday


def _english_date(date: datetime.date) -> str:
    return f"{date.day} {months()[date.month - 1].en}"


def _chinese_date(date: datetime.date) -> str:
    return f"{months()[date.month - 1].zh}{chinese_number(date.day)}日"


def english_number(number: int) -> str:
    """From 0 to 59."""
    tens, ones = divmod(number, 10)
    small = templates.SMALL_NUMBERS.split()
    if number < 20:
        return small[number]
    return ("twenty", "thirty", "forty", "fifty")[tens - 2] + (f"-{small[ones]}" if ones else "")


def chinese_number(number: int) -> str:
    """From 1 to 99."""
    tens, ones = divmod(number, 10)
    digits = list("零一二三四五六七八九")
    return (digits[tens] if tens > 1 else "") + ("十" if tens else "") + (digits[ones] if ones else "")


# Parsed tables. The lists are shared: copy before shuffling.


def parse_words(table: str, label: str = "") -> list[Word]:
    """Parse a table of English and Chinese names."""
    return [Word(*_split_entry(entry), label=label) for entry in _entries(table)]


def _parse_nouns(table: str) -> list[Word]:
    rows = (entry.split() for entry in _entries(table))
    return [Word(singular, chinese, plural, measure_word) for singular, plural, chinese, measure_word in rows]


def _entries(table: str) -> list[str]:
    return [entry.strip() for entry in table.replace("\n", " ").split(",")]


def _split_entry(entry: str) -> tuple[str, str]:
    english, _, chinese = entry.rpartition(" ")
    return english.rstrip(":"), chinese


def _parse_line_pairs(table: str) -> list[TemplatePair]:
    lines = table.strip().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


@cache
def numbers() -> list[Word]:
    """Numbers from two to nine."""
    return parse_words(templates.NUMBERS)


@cache
def weekdays() -> list[Word]:
    return parse_words(templates.WEEKDAYS)


@cache
def months() -> list[Word]:
    return parse_words(templates.MONTHS)


@cache
def parts_of_day() -> list[Word]:
    return parse_words(templates.PARTS_OF_DAY)


@cache
def frames() -> list[TemplatePair]:
    """Sentences around a scene."""
    return _parse_line_pairs(templates.FRAMES)


@cache
def openings() -> list[TemplatePair]:
    """First sentences of documents."""
    return _parse_line_pairs(templates.OPENINGS)


@cache
def closings() -> list[TemplatePair]:
    """Last sentences of documents."""
    return _parse_line_pairs(templates.CLOSINGS)


@cache
def slot_fillers() -> dict[str, list[Word]]:
    """Words by the slot that they may fill."""
    nouns = {
        "food": templates.FOODS,
        "animal": templates.ANIMALS,
        "pet": templates.PETS,
        "thing": templates.THINGS,
        "tool": templates.TOOLS,
    }
    others = {"colour": templates.COLOURS, "hobby": templates.HOBBIES, "manner": templates.MANNERS}
    return {name: _parse_nouns(table) for name, table in nouns.items()} | {
        name: parse_words(table) for name, table in others.items()
    }


@cache
def topics() -> list[str]:
    return list(templates.SCENES)


@cache
def scenes() -> dict[tuple[str, int, bool], list[TemplatePair]]:
    """Scenes by topic, number of people and whether the first of them is an adult."""
    return {
        (topic, num_people, adult): [
            (english.lstrip("!"), chinese)
            for english, chinese in _parse_line_pairs(table)
            if ("{B" in english) == (num_people == 2) and (adult or not english.startswith("!"))
        ]
        for topic, table in templates.SCENES.items()
        for num_people in (1, 2)
        for adult in (False, True)
    }


@dataclass(frozen=True)
class Job:
    """A job with its workplace and a scene at work."""

    word: Word
    place: Word
    scene: TemplatePair


@cache
def jobs() -> list[Job]:
    places = {word.en: word for word in parse_words(templates.PLACES, "PLACE")}
    rows = (line.split(" | ") for line in templates.JOBS.strip().splitlines())
    return [
        Job(Word(*_split_entry(name), label="JOB"), places[place], ("{A} " + english, "{A}" + chinese))
        for name, place, english, chinese in rows
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
    return {kind: _parse_fact_templates(table) for kind, table in templates.FACTS.items()}


def _parse_fact_templates(table: str) -> dict[Language, FactTemplates]:
    lines = [line.split(" | ") for line in table.strip().splitlines()]
    return {language: FactTemplates(lines[n], *lines[n + 2]) for n, language in enumerate(LANGUAGES)}
