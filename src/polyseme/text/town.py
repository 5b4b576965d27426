"""A little town, made up from a seed, that is written about in English and Chinese.

Everything said about it is true of it: who works where, what stands opposite what, who did what on which day. So labels
of every kind can be read off instead of annotated, and words such as *bank* and 苹果 come with their senses.
"""

import datetime
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count as count_up
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any, Literal

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text import town_tables as tables

Language = Literal["en", "zh"]
Row = dict[str, Any]

LANGUAGES: tuple[Language, Language] = ("en", "zh")
SPLITS = ("train", "dev", "test")
NUM_DAYS = 365


@dataclass(frozen=True)
class Word:
    """A thing with a name in both languages; `label` marks it where it stands in text."""

    en: str
    zh: str
    many: str = ""
    unit: str = ""
    label: str = ""

    def __getitem__(self, language: Language) -> str:
        return self.en if language == "en" else self.zh


@dataclass(frozen=True)
class Person:
    number: int
    full: Word
    short: Word
    gender: Literal["man", "woman"]
    family: int
    age: int
    home: Word
    thing: Word
    colour: Word
    pet: Word
    food: Word
    hobby: Word
    job: str = ""
    spouse: int | None = None
    mother: int | None = None

    @property
    def adult(self) -> bool:
        return self.age >= 18


@dataclass(frozen=True)
class Place:
    word: Word
    street: Word
    opposite: Word
    year: int


@dataclass(frozen=True)
class Fact:
    """Something that stays true: the `kind` is one of the table's, the subject has one value of each kind."""

    kind: str
    subject: Person | Place
    value: Word


@dataclass(frozen=True)
class Event:
    """Something that happened once: to whom, on which day, in which part of it."""

    day: int
    part: int
    topic: str
    scene: tuple[str, str]  # English, Chinese
    people: tuple[Person, ...]
    absent: Person
    number: int
    drawn: Mapping[str, Word] = field(hash=False)


@dataclass(frozen=True)
class Company:
    """Three people who spend a day together, and what they do; most of it has one theme."""

    day: int
    people: tuple[Person, ...]
    theme: str
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Span:
    start: int
    end: int
    label: str


def read_marks(marked: str) -> tuple[str, list[Span]]:
    """Text without its marks, and where they stood: names in capitals, senses in small letters."""
    text, spans, position = "", [], 0
    for match in _MARK.finditer(marked):
        text += marked[position : match.start()]
        spans.append(Span(len(text), len(text) + len(match[1]), match[2]))
        text += match[1]
        position = match.end()
    return text + marked[position:], spans


def plain(marked: str) -> str:
    """Text without its marks."""
    return _MARK.sub(r"\1", marked)


def split_of(key: str) -> str:
    """The split that everything made from `key` belongs to: eight tenths train, a tenth each for dev and test."""
    return (*("train",) * 8, "dev", "test")[zlib.crc32(key.encode()) % 10]


class Town:
    """A seeded world, its documents and its labelled rows."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        stream = Random(f"town {seed}")
        self.name = stream.choice(_words(tables.TOWNS, "PLACE"))
        self.river = stream.choice(_words(tables.RIVERS, "PLACE"))
        self.hill = stream.choice(_words(tables.HILLS, "PLACE"))
        self.streets = stream.sample(_words(tables.STREETS, "PLACE"), 4)
        self.places = self._build(stream)
        self.people = self._settle(stream)
        self.facts = {(fact.subject, fact.kind): fact for fact in self._find_facts()}

    def _build(self, stream: Random) -> list[Place]:
        words = _words(tables.PLACES, "PLACE")
        stream.shuffle(words)
        # Places come in twos that face each other, six to a street.
        faces = [word for left, right in zip(words[::2], words[1::2], strict=True) for word in (right, left)]
        return [
            Place(word, self.streets[number * len(self.streets) // len(words)], face, stream.randrange(1850, 2020))
            for number, (word, face) in enumerate(zip(words, faces, strict=True))
        ]

    def _settle(self, stream: Random) -> list[Person]:
        names = {
            (origin, gender): stream.sample(_words(table, "PERSON"), 20)
            for origin, gender, table in (
                ("west", "man", tables.MEN),
                ("west", "woman", tables.WOMEN),
                ("east", "man", tables.CHINESE_MEN),
                ("east", "woman", tables.CHINESE_WOMEN),
            )
        }
        surnames = {"west": _words(tables.SURNAMES), "east": _words(tables.CHINESE_SURNAMES)}
        jobs = [job for job, *_ in _JOBS]
        stream.shuffle(jobs)
        people: list[Person] = []

        def add(origin: str, gender: Literal["man", "woman"], surname: Word, **details: Any) -> None:
            short = names[origin, gender].pop()
            full = (
                Word(f"{short.en} {surname.en}", f"{short.zh}·{surname.zh}", label="PERSON")
                if origin == "west"
                else Word(f"{surname.en} {short.en}", surname.zh + short.zh, label="PERSON")
            )
            tastes = {name: stream.choice(_DRAWN[name]) for name in ("thing", "colour", "pet", "food", "hobby")}
            people.append(Person(len(people), full, short, gender, **tastes, **details))

        for family in range(12):
            origin = ("west", "east")[family % 2]
            stream.shuffle(surnames[origin])
            father_name = surnames[origin].pop()
            mother_name = father_name if origin == "west" else surnames[origin].pop()  # Chinese wives keep their names
            home, age, first = stream.choice(self.streets), stream.randrange(32, 48), len(people)
            shared = {"family": family, "home": home}
            add(origin, "man", father_name, age=age, job=jobs[2 * family % 23], spouse=first + 1, **shared)
            age -= stream.randrange(6)
            add(origin, "woman", mother_name, age=age, job=jobs[(2 * family + 1) % 23], spouse=first, **shared)
            for age in stream.sample(range(7, 17), stream.choice((1, 1, 2, 3))):
                gender = stream.choice(("man", "woman"))
                add(origin, gender, father_name, age=min(age, people[-1].age), mother=first + 1, **shared)
        return people

    def _find_facts(self) -> Iterator[Fact]:
        for person in self.people:
            if person.job:
                yield Fact("job", person, _JOB_WORDS[person.job])
                yield Fact("workplace", person, _WORKPLACES[person.job])
            if person.mother is not None:
                yield Fact("mother", person, self.people[person.mother].full)
            if person.spouse is not None:
                yield Fact("spouse", person, self.people[person.spouse].full)
            yield Fact("age", person, Word(_english_number(person.age), _chinese_number(person.age)))
            yield Fact("home", person, person.home)
            for kind in ("colour", "pet", "food", "hobby"):
                yield Fact(kind, person, getattr(person, kind))
        for place in self.places:
            yield Fact("street", place, place.street)
            yield Fact("opposite", place, place.opposite)
            yield Fact("year", place, Word(str(place.year), str(place.year), label="TIME"))

    def facts_about(self, subject: Person | Place) -> list[Fact]:
        return [self.facts[subject, kind] for kind in tables.FACTS if (subject, kind) in self.facts]

    # What happens.

    @cached_property
    def companies(self) -> list[list[Company]]:
        """For every day of the year, who kept company with whom."""
        return [self._plan(day) for day in range(NUM_DAYS)]

    def _plan(self, day: int) -> list[Company]:
        stream = Random(f"town {self.seed} day {day}")
        people = stream.sample(self.people, len(self.people))
        groups = [tuple(people[start : start + 3]) for start in range(0, len(people) - 2, 3)]
        return [self._spend_day(day, group, stream) for group in groups]

    def _spend_day(self, day: int, people: tuple[Person, ...], stream: Random) -> Company:
        theme = stream.choice(list(tables.SCENES))
        events: list[Event] = []
        used: set[tuple[str, str]] = set()
        for part in range(len(_PARTS)):
            first, second, third = stream.sample(people, 3)
            groups = stream.choice(
                (((first, second), (third,)), ((first,), (second,)), ((first, second),), ((first,),))
            )
            for group in groups:
                topic = theme if stream.random() < 0.65 else stream.choice(list(tables.SCENES))
                scenes = [scene for scene in _SCENES[topic, len(group), group[0].adult] if scene not in used]
                if group[0].job and len(group) == 1 and part < 2 and day % 7 < 5 and stream.random() < 0.3:
                    topic, scenes = "work", [_WORK[group[0].job]]
                scene = stream.choice(scenes)
                used.add(scene)
                absent = next(person for person in (third, second) if person not in group)
                drawn = self._draw(stream, " ".join(scene))
                events.append(Event(day, part, topic, scene, group, absent, stream.randrange(len(_NUMBERS)), drawn))
        return Company(day, people, theme, tuple(events))

    def _draw(self, stream: Random, template: str) -> dict[str, Word]:
        slots = {match[1] for match in _SLOT.finditer(template)}
        own = {"river": self.river, "hill": self.hill, "town": self.name}
        choices = {**_DRAWN, "place": [place.word for place in self.places], "street": self.streets}
        return {name: own.get(name) or stream.choice(choices[name]) for name in sorted(slots & {*own, *choices})}

    @cached_property
    def _events(self) -> dict[str, list[Event]]:
        """The events of the year by split; equal sentences have equal keys, so splits share none."""
        events: dict[str, list[Event]] = {split: [] for split in SPLITS}
        for event in (event for day in self.companies for company in day for event in company.events):
            events[self._split(event)].append(event)
        return events

    def _split(self, event: Event) -> str:
        return split_of(f"{event.people[0].full.en}: {event.scene[0]}")

    def weather(self, day: int) -> Word:
        season = ("winter", "spring", "summer", "autumn")[_date(day).month % 12 // 3]
        return Random(f"town {self.seed} weather {day}").choice(_words(tables.WEATHER[season]))

    # How it is told.

    def tell(
        self,
        event: Event,
        language: Language,
        *,
        frame: int,
        dated: int | None = None,
        names: Mapping[int, str] | None = None,
    ) -> str:
        """One marked sentence; `dated` chooses how the day is named, None means that it is known already.

        `names` says who is called by the full name, the short one or a pronoun: by person number, else the short one.
        """
        how = names or {}
        slots = _number_slots(event.number, language)
        for letter, person in zip("ABC", (*event.people, event.absent)[: len(event.people)], strict=False):
            slots |= _person_slots(letter, person, language, how.get(person.number, "short"))
        slots |= _person_slots("C", event.absent, language, how.get(event.absent.number, "short"))
        for name, word in event.drawn.items():
            slots |= _word_slots(name, word, language, event.number)
        scene = _fill(event.scene[language == "zh"], slots)
        when = _when(event.day, event.part, language, dated)
        slots |= {"scene": scene, "when": when, "when_inside": f"{when} ", "weather": self.weather(event.day)[language]}
        slots["town"] = _mark(self.name, language)
        return _end(_fill(_FRAMES[frame][language == "zh"], slots), language)

    def pick_frame(self, event: Event, stream: Random) -> int:
        """A frame that fits: time comes last only in a sentence of one clause."""
        fitting = [0, 0, 2, 3, 4] if _CLAUSES.search(event.scene[0]) else [0, 1, 1, 2, 3, 4]
        return stream.choice(fitting)

    def state(
        self, fact: Fact, language: Language, wording: int, *, name: str = "full", value: Word | None = None
    ) -> str:
        """A marked sentence that says the fact, or says it of another value; wording -1 denies it."""
        statements, denials = _FACTS[fact.kind][language]
        template = denials[0] if wording < 0 else statements[wording % len(statements)]
        return _end(_fill(template, self._fact_slots(fact, language, name, value)), language)

    def ask(self, fact: Fact, language: Language) -> str:
        return plain(_fill(_FACTS[fact.kind][language][1][1], self._fact_slots(fact, language, "full", None)))

    def answer(self, fact: Fact, language: Language, value: Word | None = None) -> str:
        return plain(_fill(_FACTS[fact.kind][language][1][2], self._fact_slots(fact, language, "full", value)))

    def _fact_slots(self, fact: Fact, language: Language, name: str, value: Word | None) -> dict[str, str]:
        slots = _word_slots("x", value or fact.value, language, 0)
        if isinstance(fact.subject, Person):
            return slots | _person_slots("A", fact.subject, language, name)
        return slots | {"A": ("the " if language == "en" else "") + _mark(fact.subject.word, language)}

    def documents(
        self, count: int, language: Language | Literal["both"] = "en", *, split: str | None = None
    ) -> Iterator[str]:
        """Documents of 5 to 15 sentences, each about three people and a day; a split has its own days."""
        days = [day for day in range(NUM_DAYS) if split is None or split_of(f"day {day}") == split]
        Random(f"town {self.seed} documents").shuffle(days)
        per_day = len(self.people) // 3
        languages = LANGUAGES if language == "both" else (language,)
        for number in range(count):
            turn, which = divmod(number // len(languages), len(days))
            company = self.companies[days[which]][turn % per_day]
            yield plain(self._document(company, languages[number % len(languages)], turn // per_day))

    def _document(self, company: Company, language: Language, edition: int) -> str:
        index = self.companies[company.day].index(company)
        stream = Random(f"town {self.seed} document {language} {company.day} {index} {edition}")
        names: dict[int, str] = {person.number: "full" for person in company.people}
        told: set[Fact] = set()
        sentences = [self._remark(stream, _OPENINGS, company, language, names)]
        last: Person | None = None

        def add_fact(subject: Person | Place, name: str) -> None:
            news = [fact for fact in self.facts_about(subject) if fact not in told]
            fact = stream.choice(news)
            told.add(fact)
            sentences.append(self.state(fact, language, stream.randrange(4), name=name))

        for event in company.events:
            for person in event.people:
                if names[person.number] == "full" and stream.random() < 0.7:
                    add_fact(person, "full")
                    names[person.number], last = "short", person
            frame = self.pick_frame(event, stream) if stream.random() < 0.7 else 5
            leads = event.people[0]
            again = (
                frame in (0, 5)
                and last is leads
                and event.scene[0].startswith("{A} ")
                and names[leads.number] == "short"
            )
            called = {**names, leads.number: "pronoun"} if again and stream.random() < 0.6 else names
            sentences.append(self.tell(event, language, frame=frame, names=called))
            names |= {person.number: "short" for person in (*event.people, *[event.absent] * (frame == 2))}
            last = leads if len(event.people) == 1 and frame != 2 else None
            if stream.random() < 0.25:
                visited = [place for place in self.places if place.word in event.drawn.values()]
                person = stream.choice(event.people)
                add_fact(stream.choice(visited) if visited else person, names[person.number])
                last = None
        if len(sentences) < 5 or stream.random() < 0.6:
            sentences.append(self._remark(stream, _CLOSINGS, company, language, names))
        while len(sentences) < 5:
            person = stream.choice(company.people)
            add_fact(person, names[person.number])
            sentences[-2:] = reversed(sentences[-2:])
        return (" " if language == "en" else "").join(sentences)

    def _remark(
        self, stream: Random, table: list[tuple[str, str]], company: Company, language: Language, names: dict[int, str]
    ) -> str:
        met = [person for person in company.people if names[person.number] == "short"]
        fitting = [pair for pair in table if ("{B}" not in pair[0] or len(met) > 1) and ("{A}" not in pair[0] or met)]
        template = stream.choice(fitting)[language == "zh"]
        slots = {name: _mark(word, language) for name, word in self._draw(stream, template).items()}
        if language == "en":
            slots = {name: slot if name == "town" or name == "hill" else f"the {slot}" for name, slot in slots.items()}
        slots |= {"date": _full_date(company.day, language), "weather": self.weather(company.day)[language]}
        for letter, person in zip("AB", met, strict=False):
            slots |= _person_slots(letter, person, language, "short")
        return _end(_fill(template, slots), language)

    # Labelled rows.

    def labelled(self, form: str, count: int, *, language: Language = "en", split: str = "train") -> Iterator[Row]:
        """Rows of a task form with gold labels; no row stands in two splits, nor twice in one."""
        makers: dict[str, Callable[[Random, Language, str, int], Row | None]] = {
            "classify": self._classify,
            "tag": self._tag,
            "pair": self._pair,
            "similarity": self._similarity,
            "choice": self._choice,
            "span": self._span,
            "translate": self._translate,
            "senses": self._senses,
        }
        if form not in makers:
            raise ConfigError(f"{form}: no such form of labelled data{nearest(form, makers)}")
        stream = Random(f"town {self.seed} {form} {language} {split}")
        seen: set[str] = set()
        for _ in range(100 * count):
            if len(seen) == count:
                return
            row = makers[form](stream, language, split, len(seen))
            key = json.dumps(row, ensure_ascii=False)
            if row is not None and key not in seen:
                seen.add(key)
                yield row
        if len(seen) < count:
            raise DataError(
                f"{form}: the town has only {len(seen):,} different {split} rows; ask for no more than that"
            )

    def _classify(self, stream: Random, language: Language, split: str, turn: int) -> Row | None:
        company = stream.choice(stream.choice(self.companies))
        topics = [event.topic for event in company.events]
        share = topics.count(company.theme) / len(topics)
        wanted = sorted(tables.SCENES)[turn % len(tables.SCENES)]
        if company.theme != wanted or not 0.5 < share or len(topics) < 3 or self._split(company.events[0]) != split:
            return None
        sentences = [self.tell(event, language, frame=self.pick_frame(event, stream)) for event in company.events]
        return {"text": plain((" " if language == "en" else "").join(sentences)), "label": company.theme}

    def _tag(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        if turn % 3 == 2:
            subjects = self._strangers(stream, split)
            facts = [self.facts.get((person, "job"), self.facts[person, "home"]) for person in subjects]
            sentences = [self.state(fact, language, stream.randrange(4)) for fact in facts]
            marked = (" " if language == "en" else "").join(sentences)
        else:
            marked = self._sentence(stream, stream.choice(self._events[split]), language)
        text, spans = read_marks(marked)
        tokens, tags = [], []
        for match in (_TOKEN if language == "en" else _CHARACTER).finditer(text):
            label = next(
                (span for span in spans if span.start <= match.start() < span.end and span.label.isupper()), None
            )
            tokens.append(match[0])
            tags.append("O" if label is None else f"{'B' if label.start == match.start() else 'I'}-{label.label}")
        return {"tokens": tokens, "tags": tags}

    def _sentence(self, stream: Random, event: Event, language: Language) -> str:
        return self._parallel(stream, event)[language == "zh"]

    def _parallel(self, stream: Random, event: Event) -> tuple[str, str]:
        frame, dated, name = (
            self.pick_frame(event, stream),
            stream.randrange(2),
            stream.choice(("full", "short", "short")),
        )
        names = {event.people[0].number: name}
        english, chinese = (self.tell(event, language, frame=frame, dated=dated, names=names) for language in LANGUAGES)
        return english, chinese

    def _strangers(self, stream: Random, split: str) -> tuple[Person, Person]:
        """Two people of different families; every pair of people belongs to one split."""
        while True:
            first, second = stream.sample(self.people, 2)
            if first.family != second.family and split_of(f"{first.full.en} {second.full.en}") == split:
                return first, second

    def _pair(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        label = ("entailment", "contradiction", "neutral")[turn % 3]
        stated, unstated = [], []
        for person in self._strangers(stream, split):
            facts = stream.sample(self.facts_about(person), len(self.facts_about(person)))
            stated += facts[:2]
            # A job gives its place away, so neither is unstated when the other is stated.
            work = any(fact.kind in ("job", "workplace") for fact in facts[:2])
            unstated += [fact for fact in facts[2:] if not (work and fact.kind in ("job", "workplace"))]
        wordings = [stream.randrange(4) for _ in stated]
        premise = [self.state(fact, language, wording) for fact, wording in zip(stated, wordings, strict=True)]
        which = stream.randrange(len(stated))
        fact, wording = stated[which], wordings[which] + stream.randrange(1, 4)
        value: Word | None = self._another_value(stream, fact)
        denied = stream.random() < 0.35
        if label == "neutral":
            fact = stream.choice(unstated)
            value = stream.choice((None, self._another_value(stream, fact)))
        elif denied == (label == "contradiction"):
            value = None  # what is denied must be true to contradict; what is said must be true to follow
        hypothesis = self.state(fact, language, -1 if denied else wording, value=value)
        glue = " " if language == "en" else ""
        return {"text_a": plain(glue.join(premise)), "text_b": plain(hypothesis), "label": label}

    def _another_value(self, stream: Random, fact: Fact) -> Word:
        """A wrong value that somebody of the same kind might have."""
        subject = fact.subject
        return stream.choice(
            [
                other.value
                for other in self.facts.values()
                if other.kind == fact.kind
                and other.value != fact.value
                and (isinstance(subject, Place) or _alike(subject, other.subject, fact.kind))
            ]
        )

    def _similarity(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        first, second = self._strangers(stream, split)
        ours = stream.sample(self.facts_about(first), 2)
        rest = [fact for fact in self.facts_about(first) if fact not in ours]
        theirs = self.facts_about(second)
        others = []
        for fact in ours:
            same_kind = [other for other in theirs if other.kind == fact.kind and other.value != fact.value]
            different = [other for other in theirs if other.kind not in (ours[0].kind, ours[1].kind)]
            options = [[fact], [fact], rest, same_kind or different, different]
            others.append(stream.choice(stream.choice(options)))
        wordings = [(stream.randrange(4), stream.randrange(1, 4)) for _ in ours]
        texts = [
            [self.state(fact, language, wording) for fact, (wording, _) in zip(ours, wordings, strict=True)],
            [self.state(fact, language, sum(wording)) for fact, wording in zip(others, wordings, strict=True)],
        ]
        score = sum(_likeness(*facts) for facts in zip(ours, others, strict=True))
        text_a, text_b = (plain((" " if language == "en" else "").join(text)) for text in texts)
        return {"text_a": text_a, "text_b": text_b, "score": score}

    def _choice(self, stream: Random, language: Language, split: str, turn: int) -> Row | None:
        people = self._strangers(stream, split)
        kinds = [kind for kind in tables.FACTS if all((person, kind) in self.facts for person in people)]
        kind, other = stream.sample(kinds, 2)
        facts = [self.facts[person, each] for each in (kind, other) for person in people]
        asked, rival = facts[:2]
        if asked.value == rival.value:
            return None
        stream.shuffle(facts)
        context = [self.state(fact, language, stream.randrange(4)) for fact in facts]
        wrong = [rival.value]
        while len(wrong) < 3:
            value = self._another_value(stream, asked)
            wrong += [value] * (value not in wrong)
        choices = [self.answer(asked, language, value) for value in stream.sample(wrong, 3)]
        choices.insert(turn % 4, self.answer(asked, language))
        glue = " " if language == "en" else ""
        return {
            "context": plain(glue.join([*context, self.ask(asked, language)])),
            "choices": choices,
            "answer": turn % 4,
        }

    def _span(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        first, second = self._strangers(stream, split)
        places = stream.sample(self.places, 1)
        facts = [fact for subject in (first, second, *places) for fact in stream.sample(self.facts_about(subject), 2)]
        asked = stream.choice(facts)
        missing = [fact for fact in (*self.facts_about(first), *self.facts_about(second)) if fact not in facts]
        sentences = [self.state(fact, language, stream.randrange(4)) for fact in facts]
        where = facts.index(asked)
        event = stream.choice(self._events[split])
        sentences.insert(4, self._sentence(stream, event, language))  # between the people and the place
        texts = [plain(sentence) for sentence in sentences]
        glue = " " if language == "en" else ""
        answer = self.answer(asked, language)
        position = where + (where >= 4)
        start = len(glue.join([*texts[:position], ""])) + texts[position].index(answer)
        impossible = turn % 4 == 3
        return {
            "id": f"town-{self.seed}-{language}-{split}-{turn}",
            "context": glue.join(texts),
            "question": self.ask(stream.choice(missing) if impossible else asked, language),
            "answers": [] if impossible else [{"text": answer, "answer_start": start}],
            "is_impossible": impossible,
        }

    def _translate(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        """From `language` to the other one."""
        if turn % 4 == 3:
            facts = [stream.choice(self.facts_about(person)) for person in self._strangers(stream, split)]
            wordings = [stream.randrange(4) for _ in facts]
            texts = [
                glue.join(self.state(fact, into, wording) for fact, wording in zip(facts, wordings, strict=True))
                for into, glue in zip(LANGUAGES, (" ", ""), strict=True)
            ]
        else:
            texts = list(self._parallel(stream, stream.choice(self._events[split])))
        source, target = texts if language == "en" else texts[::-1]
        return {"source": plain(source), "target": plain(target)}

    def _senses(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        senses = self._events_by_sense[language, split]
        word, sense = sorted(senses)[turn % len(senses)]
        text, spans = read_marks(self._sentence(stream, stream.choice(senses[word, sense]), language))
        span = next(span for span in spans if (text[span.start : span.end], span.label) == (word, sense))
        return {"text": text, "word": word, "start": span.start, "end": span.end, "sense": sense}

    @cached_property
    def _events_by_sense(self) -> dict[tuple[Language, str], dict[tuple[str, str], list[Event]]]:
        found: dict[tuple[Language, str], dict[tuple[str, str], list[Event]]] = {}
        for language in LANGUAGES:
            for split, events in self._events.items():
                senses = found[language, split] = defaultdict(list)
                for event in events:
                    words = "".join(word[language] for word in event.drawn.values())
                    for match in _MARK.finditer(event.scene[language == "zh"] + words):
                        senses[match[1], match[2]].append(event)
        return found

    def minimal_pairs(self, phenomenon: str, count: int, language: Language = "en") -> Iterator[Row]:
        """Good and bad sentences that differ in one point of grammar."""
        table = tables.MINIMAL_PAIRS[language]
        if phenomenon not in table:
            raise ConfigError(f"{phenomenon}: no such point of grammar{nearest(phenomenon, table)}")
        templates = [line.split(" | ") for line in table[phenomenon].strip().splitlines()]
        stream = Random(f"town {self.seed} {phenomenon} {language}")
        seen: set[str] = set()
        while len(seen) < count:
            templates_now = stream.choice(templates)
            number = stream.randrange(len(_NUMBERS))
            slots = _number_slots(number, language)
            for letter, person in zip("AB", stream.sample(self.people, 2), strict=True):
                slots |= _person_slots(letter, person, language, "short")
            for name, word in self._draw(stream, " ".join(templates_now)).items():
                slots |= _word_slots(name, word, language, number)
            good, bad = (plain(_end(_fill(template, slots), language)) for template in templates_now)
            if good not in seen and good != bad:
                seen.add(good)
                yield {"good": good, "bad": bad, "field": "syntax", "term": phenomenon}


def word_pairs(language: Language) -> Iterator[Row]:
    """Pairs of the town's words, and how near they are from 0 to 10, by what they name."""
    stream = Random(f"town words {language}")
    groups = {name: [plain(word[language]) for word in words] for name, words in _DRAWN.items() if name != "manner"}
    groups |= {"job": [word[language] for word in _JOB_WORDS.values()]}
    groups |= {"place": [word[language] for word in _words(tables.PLACES)], "weekday": [w[language] for w in _WEEKDAYS]}
    groups = {name: [word for word in words if " " not in word] for name, words in groups.items()}
    seen: set[tuple[str, ...]] = set()
    for job, place in ((_JOB_WORDS[job][language], place[language]) for job, place in _WORKPLACES.items()):
        if " " not in place:
            yield {"word_a": job, "word_b": place, "score": 8.5}
            seen.add(tuple(sorted((job, place))))
    near = ({"animal", "pet"}, {"tool", "thing"}, {"job", "place"})
    for turn in range(360):
        first = stream.choice([name for name in sorted(groups) if len(groups[name]) > 1])
        second = first if turn % 3 == 0 else stream.choice(sorted(groups))
        word_a, word_b = stream.choice(groups[first]), stream.choice(groups[second] or [""])
        pair = tuple(sorted((word_a, word_b)))
        if word_a == word_b or not word_b or pair in seen:
            continue
        seen.add(pair)
        yield {
            "word_a": word_a,
            "word_b": word_b,
            "score": 7.0 if first == second else 5.0 if {first, second} in near else 0.5,
        }


def analogies(language: Language) -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    """Sections of questions "a is to b as c is to d"."""
    pairs = {
        name: [tuple(pair.split()) for pair in table.split(", ")] for name, table in tables.ANALOGIES[language].items()
    }
    places = [(_JOB_WORDS[job][language], place[language]) for job, place in _WORKPLACES.items()]
    pairs["job-place"] = [pair for pair in places if " " not in pair[1]]
    if language == "en":
        pairs["plural"] = [(word.en, word.many) for name in ("food", "animal", "tool") for word in _DRAWN[name]]
    for name, table in pairs.items():
        yield name, [(*first, *second) for first, second in permutations(table, 2) if first[1] != second[1]]  # type: ignore[misc]


def write(
    folder: Path,
    seed: int = 0,
    *,
    languages: Sequence[Language] = LANGUAGES,
    num_documents: int = 2000,
    num_rows: int = 2000,
) -> None:
    """Text to learn from and labelled sets of every form: the dev and test sets are an eighth of the train set."""
    town = Town(seed)
    for language in languages:
        suffix = "" if language == "en" else "_zh"
        for split, num in (("train", num_documents), ("dev", num_documents // 16)):
            text = "\n\n".join(town.documents(num, language, split=split))
            (folder / f"{language}.{split}.txt").write_text(text + "\n", "utf-8")
        for form, (ending, render) in _FORMATS.items():
            into = folder / f"{form}{suffix}"
            into.mkdir()
            for split in SPLITS:
                num = num_rows if split == "train" else num_rows // 8
                rows = list(town.labelled(form, num, language=language, split=split))
                (into / f"{split}.{ending}").write_text(render(rows), "utf-8")
        words, grammar = folder / f"words{suffix}", folder / f"minimal_pairs{suffix}"
        words.mkdir()
        grammar.mkdir()
        (words / "similarity.tsv").write_text(_tsv(list(word_pairs(language))), "utf-8")
        sections = [f": {name}\n" + "\n".join(map(" ".join, rows)) for name, rows in analogies(language)]
        (words / "analogies.txt").write_text("\n".join(sections) + "\n", "utf-8")
        for name in tables.MINIMAL_PAIRS[language]:
            rows = list(town.minimal_pairs(name, num_rows // 10, language))
            (grammar / f"{name}.jsonl").write_text(_jsonl(rows), "utf-8")


def _tsv(rows: list[Row]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in (list(rows[0]), *(row.values() for row in rows)))


def _jsonl(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _conll(rows: list[Row]) -> str:
    sentences = (
        "".join(f"{token}\t{tag}\n" for token, tag in zip(row["tokens"], row["tags"], strict=True)) for row in rows
    )
    return "\n".join(sentences)


def _squad(rows: list[Row]) -> str:
    paragraphs = []
    for row in rows:
        question = {name: row[name] for name in ("id", "question", "answers", "is_impossible")}
        paragraphs.append({"context": row["context"], "qas": [question]})
    return json.dumps({"version": "v2.0", "data": [{"title": "town", "paragraphs": paragraphs}]}, ensure_ascii=False)


_FORMATS: dict[str, tuple[str, Callable[[list[Row]], str]]] = {
    "classify": ("tsv", _tsv),
    "tag": ("conll", _conll),
    "pair": ("tsv", _tsv),
    "similarity": ("tsv", _tsv),
    "choice": ("jsonl", _jsonl),
    "span": ("json", _squad),
    "translate": ("tsv", _tsv),
    "senses": ("tsv", _tsv),
}


def _alike(person: Person, other: Person | Place, kind: str) -> bool:
    # Nobody is said to be married to a child, nor a child to have a job.
    return (
        isinstance(other, Person)
        and other.adult == person.adult
        and (kind != "spouse" or other.gender == person.gender)
    )


def _likeness(ours: Fact, theirs: Fact) -> float:
    if ours == theirs:
        return 2.5
    return 1.0 if ours.subject == theirs.subject else 0.5 if ours.kind == theirs.kind else 0.0


# Words in their places.

_MARK = re.compile(r"\[([^|\[\]]+)\|([^|\[\]]+)\]")
_SLOT = re.compile(r"\{(\w+)[\w.]*\}")
_FULL_SLOT = re.compile(r"\{([\w.]+)\}")
_TOKEN = re.compile(r"'s|\w+(?:-\w+)*|[^\w\s]")
_CHARACTER = re.compile(r"\S")
_CLAUSES = re.compile(r",| (?:that|because|so|when|while|whether|why|where|since|before|after|as|still) ")


def _fill(template: str, slots: Mapping[str, str]) -> str:
    return _FULL_SLOT.sub(lambda match: slots[match[1]], template)


def _mark(word: Word, language: Language) -> str:
    return f"[{word[language]}|{word.label}]" if word.label else word[language]


def _end(marked: str, language: Language) -> str:
    """A sentence with its capital and its full stop."""
    first = marked.startswith("[")
    stop = "" if marked[-1] in ".。？?" else "." if language == "en" else "。"
    return marked[:first] + marked[first : first + 1].upper() + marked[first + 1 :] + stop


def _word_slots(name: str, word: Word, language: Language, number: int) -> dict[str, str]:
    text = _mark(word, language)
    if language == "zh":
        wrong = "张" if word.unit in ("只", "个", "匹", "头", "条") else "只"
        units = {"": text, ".unit": word.unit, ".wrong_unit": wrong, ".some": _NUMBERS[number].zh + word.unit + text}
        return {name + form: value for form, value in {**units, ".a": text, ".many": text}.items()}
    if name in ("place", "river"):
        return {name: f"the {text}"}
    article = "an" if word.en[0] in "aeiou" else "a"
    forms = {"": text, ".a": f"{article} {text}", ".many": word.many, ".some": f"{_NUMBERS[number].en} {word.many}"}
    return {name + form: value for form, value in forms.items()}


def _number_slots(number: int, language: Language) -> dict[str, str]:
    return {"n": _NUMBERS[number][language]}


def _person_slots(letter: str, person: Person, language: Language, how: str) -> dict[str, str]:
    man = person.gender == "man"
    if language == "en":
        he, his, him = ("he", "his", "him") if man else ("she", "her", "her")
        own, wrong = ("himself", "herself") if man else ("herself", "himself")
        child, other_half = ("son", "wife") if man else ("daughter", "husband")
    else:
        he = him = "他" if man else "她"
        his, own, wrong = f"{he}的", "自己", "自己"
        child, other_half = ("儿子", "妻子") if man else ("女儿", "丈夫")
    name = he if how == "pronoun" else _mark(person.full if how == "full" else person.short, language)
    forms = {"": name, ".he": he, ".his": his, ".him": him, ".self": own, ".wrong_self": wrong}
    forms |= {".child": child, ".other_half": other_half}
    return {letter + form: value for form, value in forms.items()} | _word_slots(
        f"{letter}.thing", person.thing, language, 0
    )


def _when(day: int, part: int, language: Language, dated: int | None) -> str:
    weekday, date, name = _WEEKDAYS[day % 7], _date(day), _PARTS[part]
    if language == "zh":
        named = (weekday.zh, _MONTHS[date.month - 1].zh + _chinese_number(date.day) + "日")
        return f"[{'' if dated is None else named[dated]}{name.zh}|TIME]"
    if dated is None:
        return f"in the [{name.en}|TIME]"
    return (f"on [{weekday.en} {name.en}|TIME]", f"on the [{name.en} of {date.day} {_MONTHS[date.month - 1].en}|TIME]")[
        dated
    ]


def _full_date(day: int, language: Language) -> str:
    weekday, date = _WEEKDAYS[day % 7], _date(day)
    if language == "zh":
        return f"[{_MONTHS[date.month - 1].zh}{_chinese_number(date.day)}日{weekday.zh}|TIME]"
    return f"[{weekday.en}, {date.day} {_MONTHS[date.month - 1].en}|TIME]"


def _date(day: int) -> datetime.date:
    return datetime.date(2018, 1, 1) + datetime.timedelta(day)  # a year that begins on a Monday


def _english_number(number: int) -> str:
    tens, ones = divmod(number, 10)
    small = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
    )
    small += ["seventeen", "eighteen", "nineteen"]
    if number < 20:
        return small[number]
    return ("twenty", "thirty", "forty", "fifty")[tens - 2] + (f"-{small[ones]}" if ones else "")


def _chinese_number(number: int) -> str:
    tens, ones = divmod(number, 10)
    digits = "零一二三四五六七八九"
    return ("" if tens == 0 else "十" if tens == 1 else f"{digits[tens]}十") + (
        digits[ones] if ones or not tens else ""
    )


def _words(table: str, label: str = "") -> list[Word]:
    return [Word(*_cut(entry), label=label) for entry in _entries(table)]


def _cut(entry: str) -> tuple[str, str]:
    english, _, chinese = entry.rpartition(" ")
    return english.rstrip(":"), chinese


def _nouns(table: str) -> list[Word]:
    rows = (entry.split() for entry in _entries(table))
    return [Word(one, chinese, many, unit) for one, many, chinese, unit in rows]


def _entries(table: str) -> list[str]:
    return [entry.strip() for entry in table.replace("\n", " ").split(",")]


def _couples(table: str) -> list[tuple[str, str]]:
    lines = table.strip().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


_NUMBERS = _words(tables.NUMBERS)
_WEEKDAYS = _words(tables.WEEKDAYS)
_MONTHS = _words(tables.MONTHS)
_PARTS = _words(tables.PARTS)
_FRAMES, _OPENINGS, _CLOSINGS = (_couples(table) for table in (tables.FRAMES, tables.OPENINGS, tables.CLOSINGS))
_DRAWN = {
    "food": _nouns(tables.FOODS),
    "animal": _nouns(tables.ANIMALS),
    "pet": _nouns(tables.PETS),
    "thing": _nouns(tables.THINGS),
    "tool": _nouns(tables.TOOLS),
    "colour": _words(tables.COLOURS),
    "hobby": _words(tables.HOBBIES),
    "manner": _words(tables.MANNERS),
}
_JOBS = [tuple(line.split(" | ")) for line in tables.JOBS.strip().splitlines()]
_JOB_WORDS = {job: Word(*_cut(job), label="JOB") for job, *_ in _JOBS}
_WORKPLACES = {job: next(w for w in _words(tables.PLACES, "PLACE") if w.en == place) for job, place, *_ in _JOBS}
_WORK = {job: ("{A} " + english, "{A}" + chinese) for job, _, english, chinese in _JOBS}
_SCENES = {
    (topic, num_people, adult): [
        (english.lstrip("!"), chinese)
        for english, chinese in _couples(table)
        if ("{B" in english) == (num_people == 2) and (adult or not english.startswith("!"))
    ]
    for topic, table in tables.SCENES.items()
    for num_people in (1, 2)
    for adult in (False, True)
}
_FACTS = {
    kind: {
        language: (lines[number].split(" | "), lines[number + 2].split(" | "))
        for number, language in enumerate(LANGUAGES)
    }
    for kind, lines in ((kind, table.strip().splitlines()) for kind, table in tables.FACTS.items())
}
