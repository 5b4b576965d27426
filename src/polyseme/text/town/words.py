"""What the town's things are called: words in two languages, marks in text, numbers and dates."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from polyseme.text.town import tables

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, Language] = ("en", "zh")
GLUE = {"en": " ", "zh": ""}  # between sentences

MARK = re.compile(r"\[([^|\[\]]+)\|([^|\[\]]+)\]")
SLOT = re.compile(r"\{(\w+)([\w.]*)\}")


@dataclass(frozen=True)
class Word:
    """A thing with a name in both languages; `label` marks it where it stands in text."""

    en: str
    zh: str
    many: str = ""  # the English plural
    unit: str = ""  # the Chinese measure word
    label: str = ""

    def __getitem__(self, language: Language) -> str:
        return self.en if language == "en" else self.zh

    def marked(self, language: Language) -> str:
        return f"[{self[language]}|{self.label}]" if self.label else self[language]


@dataclass(frozen=True)
class Span:
    start: int
    end: int
    label: str


def read_marks(marked: str) -> tuple[str, list[Span]]:
    """Text without its marks, and where they stood: names in capitals, senses in small letters."""
    text, spans, position = "", [], 0
    for match in MARK.finditer(marked):
        text += marked[position : match.start()]
        spans.append(Span(len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        position = match.end()
    return text + marked[position:], spans


def plain(marked: str) -> str:
    """Text without its marks."""
    return MARK.sub(r"\1", marked)


def fill(template: str, slots: Mapping[str, str]) -> str:
    """Put words into the slots of a template."""
    return SLOT.sub(lambda match: slots[match[1] + match[2]], template)


def sentence(marked: str, language: Language) -> str:
    """Give a clause its capital and its full stop."""
    first = marked.startswith("[")
    stop = "" if marked[-1] in ".。" else "." if language == "en" else "。"
    return marked[:first] + marked[first].upper() + marked[first + 1 :] + stop


def word_slots(name: str, word: Word, language: Language, number: int = 0) -> dict[str, str]:
    """The forms of a word that templates may ask for: {food}, {food.a}, {food.many}, {food.some}."""
    text = word.marked(language)
    if language == "zh":
        wrong = "张" if word.unit in ("只", "个", "匹", "头", "条") else "只"
        forms = {".unit": word.unit, ".wrong_unit": wrong, ".some": NUMBERS[number].zh + word.unit + text}
    else:
        text = f"the {text}" if name in ("place", "river") else text
        article = "an" if word.en[0] in "aeiou" else "a"
        forms = {".a": f"{article} {text}", ".many": word.many, ".some": f"{NUMBERS[number].en} {word.many}"}
    return {name: text, **{name + form: value for form, value in forms.items()}}


def when(day: int, part: int, language: Language, style: str) -> str:
    """When something happened, by the `weekday`, by the `date`, or as `that` or `the` part of a day known already."""
    weekday, date, name = WEEKDAYS[day % 7], date_of(day), PARTS[part]
    if language == "zh":
        known = {"weekday": weekday.zh, "date": _chinese_date(date), "that": "那天", "the": ""}
        return f"[{known[style]}{name.zh}|TIME]"
    if style == "weekday":
        return f"on [{weekday.en} {name.en}|TIME]"
    if style == "date":
        return f"on the [{name.en} of {_english_date(date)}|TIME]"
    return f"that [{name.en}|TIME]" if style == "that" else f"in the [{name.en}|TIME]"


def full_date(day: int, language: Language) -> str:
    weekday, date = WEEKDAYS[day % 7], date_of(day)
    text = f"{weekday.en}, {_english_date(date)}" if language == "en" else f"{_chinese_date(date)}{weekday.zh}"
    return f"[{text}|TIME]"


def date_of(day: int) -> datetime.date:
    return datetime.date(2018, 1, 1) + datetime.timedelta(day)  # a year that begins on a Monday


def _english_date(date: datetime.date) -> str:
    return f"{date.day} {MONTHS[date.month - 1].en}"


def _chinese_date(date: datetime.date) -> str:
    return f"{MONTHS[date.month - 1].zh}{chinese_number(date.day)}日"


def english_number(number: int) -> str:
    """From 0 to 59."""
    tens, ones = divmod(number, 10)
    small = tables.SMALL_NUMBERS.split()
    if number < 20:
        return small[number]
    return ("twenty", "thirty", "forty", "fifty")[tens - 2] + (f"-{small[ones]}" if ones else "")


def chinese_number(number: int) -> str:
    """From 1 to 99."""
    tens, ones = divmod(number, 10)
    digits = list("零一二三四五六七八九")
    return (digits[tens] if tens > 1 else "") + ("十" if tens else "") + (digits[ones] if ones else "")


# The tables, parsed.


def words(table: str, label: str = "") -> list[Word]:
    """A table of English and Chinese names."""
    return [Word(*_cut(entry), label=label) for entry in _entries(table)]


def _nouns(table: str) -> list[Word]:
    rows = (entry.split() for entry in _entries(table))
    return [Word(one, chinese, many, unit) for one, many, chinese, unit in rows]


def _entries(table: str) -> list[str]:
    return [entry.strip() for entry in table.replace("\n", " ").split(",")]


def _cut(entry: str) -> tuple[str, str]:
    english, _, chinese = entry.rpartition(" ")
    return english.rstrip(":"), chinese


def _couples(table: str) -> list[tuple[str, str]]:
    lines = table.strip().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


NUMBERS, WEEKDAYS, MONTHS = words(tables.NUMBERS), words(tables.WEEKDAYS), words(tables.MONTHS)
PARTS = words(tables.PARTS)
FRAMES, OPENINGS, CLOSINGS = (_couples(table) for table in (tables.FRAMES, tables.OPENINGS, tables.CLOSINGS))
DRAWN = {
    "food": _nouns(tables.FOODS),
    "animal": _nouns(tables.ANIMALS),
    "pet": _nouns(tables.PETS),
    "thing": _nouns(tables.THINGS),
    "tool": _nouns(tables.TOOLS),
    "colour": words(tables.COLOURS),
    "hobby": words(tables.HOBBIES),
    "manner": words(tables.MANNERS),
}
TOPICS = list(tables.SCENES)
# By topic, number of people and whether the first of them is an adult.
SCENES = {
    (topic, num_people, adult): [
        (english.lstrip("!"), chinese)
        for english, chinese in _couples(table)
        if ("{B" in english) == (num_people == 2) and (adult or not english.startswith("!"))
    ]
    for topic, table in tables.SCENES.items()
    for num_people in (1, 2)
    for adult in (False, True)
}


@dataclass(frozen=True)
class Job:
    word: Word
    place: Word
    scene: tuple[str, str]


def _jobs() -> list[Job]:
    places = {word.en: word for word in words(tables.PLACES, "PLACE")}
    rows = (line.split(" | ") for line in tables.JOBS.strip().splitlines())
    return [
        Job(Word(*_cut(name), label="JOB"), places[place], ("{A} " + english, "{A}" + chinese))
        for name, place, english, chinese in rows
    ]


JOBS = _jobs()


@dataclass(frozen=True)
class Wording:
    """How a kind of fact is said, denied and asked about in one language."""

    statements: list[str]
    denial: str
    question: str
    answer: str


def _wordings(table: str) -> dict[Language, Wording]:
    lines = [line.split(" | ") for line in table.strip().splitlines()]
    return {language: Wording(lines[number], *lines[number + 2]) for number, language in enumerate(LANGUAGES)}


WORDINGS = {kind: _wordings(table) for kind, table in tables.FACTS.items()}
