"""The world of the town: its places and people, what is true of them, and what they do on every day of a year.

All of it follows from the seed, and what is told is looked up here; so no two sentences contradict each other.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal

from polyseme.text.town import tables
from polyseme.text.town.words import (
    DRAWN,
    FRAMES,
    JOBS,
    NUMBERS,
    PARTS,
    SCENES,
    SLOT,
    TOPICS,
    WORDINGS,
    Job,
    Language,
    Word,
    chinese_number,
    date_of,
    english_number,
    fill,
    plain,
    sentence,
    when,
    word_slots,
    words,
)

NUM_DAYS = 365
NUM_FAMILIES = 12
Gender = Literal["man", "woman"]

# Where a clause follows, a time at the end of the sentence would be taken for the clause's own.
_CLAUSES = re.compile(r",| (?:that|because|so|when|while|whether|why|where|since|before|after|as|not) ")


@dataclass(frozen=True, eq=False)
class Person:
    number: int
    full: Word
    short: Word
    gender: Gender
    family: int
    age: int
    home: Word
    thing: Word
    colour: Word
    pet: Word
    food: Word
    hobby: Word
    job: Job | None = None
    spouse: int | None = None
    mother: int | None = None

    @property
    def adult(self) -> bool:
        return self.age >= 18

    def slots(self, letter: str, language: Language, name: str = "short") -> dict[str, str]:
        """The forms that templates may ask for; the `name` is the full one, the short one or a pronoun."""
        man = self.gender == "man"
        if language == "en":
            he, his, him = ("he", "his", "him") if man else ("she", "her", "her")
            own, wrong = ("himself", "herself") if man else ("herself", "himself")
            child, other_half = ("son", "wife") if man else ("daughter", "husband")
        else:
            he = him = "他" if man else "她"
            his, own, wrong = f"{he}的", "自己", "自己"
            child, other_half = ("儿子", "妻子") if man else ("女儿", "丈夫")
        called = he if name == "pronoun" else (self.full if name == "full" else self.short).marked(language)
        forms = {"": called, ".he": he, ".his": his, ".him": him, ".self": own, ".wrong_self": wrong}
        forms |= {".child": child, ".other_half": other_half}
        slots = {letter + form: value for form, value in forms.items()}
        return slots | word_slots(f"{letter}.thing", self.thing, language)


@dataclass(frozen=True, eq=False)
class Place:
    word: Word
    street: Word
    opposite: Word
    year: int


@dataclass(frozen=True)
class Fact:
    """Something that stays true: of every kind in the table, a subject has one value."""

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


class World:
    """A town as it is."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        stream = Random(f"town {seed}")
        self.name = stream.choice(words(tables.TOWNS, "PLACE"))
        self.river = stream.choice(words(tables.RIVERS, "PLACE"))
        self.hill = stream.choice(words(tables.HILLS, "PLACE"))
        self.streets = stream.sample(words(tables.STREETS, "PLACE"), 4)
        self.places = self._build(stream)
        self.people = self._settle(stream)
        self.facts = {(fact.subject, fact.kind): fact for fact in self._find_facts()}

    def _build(self, stream: Random) -> list[Place]:
        found = words(tables.PLACES, "PLACE")
        stream.shuffle(found)
        # Places come in twos that face each other, six to a street.
        faces = [word for left, right in zip(found[::2], found[1::2], strict=True) for word in (right, left)]
        return [
            Place(word, self.streets[number * len(self.streets) // len(found)], face, stream.randrange(1850, 2020))
            for number, (word, face) in enumerate(zip(found, faces, strict=True))
        ]

    def _settle(self, stream: Random) -> list[Person]:
        given: dict[tuple[str, Gender], list[Word]] = {
            ("west", "man"): words(tables.MEN, "PERSON"),
            ("west", "woman"): words(tables.WOMEN, "PERSON"),
            ("east", "man"): words(tables.CHINESE_MEN, "PERSON"),
            ("east", "woman"): words(tables.CHINESE_WOMEN, "PERSON"),
        }
        surnames = {"west": words(tables.SURNAMES), "east": words(tables.CHINESE_SURNAMES)}
        jobs = list(JOBS)
        for table in (*given.values(), *surnames.values(), jobs):
            stream.shuffle(table)  # type: ignore[arg-type]
        homes = self.streets * (NUM_FAMILIES // len(self.streets))
        stream.shuffle(homes)
        people: list[Person] = []

        def add(origin: str, gender: Gender, surname: Word, **details: Any) -> None:
            short = given[origin, gender].pop()
            if origin == "west":
                full = Word(f"{short.en} {surname.en}", f"{short.zh}·{surname.zh}", label="PERSON")
            else:
                full = Word(f"{surname.en} {short.en}", surname.zh + short.zh, label="PERSON")
            details |= {name: stream.choice(DRAWN[name]) for name in ("thing", "colour", "pet", "food", "hobby")}
            people.append(Person(len(people), full, short, gender, **details))

        for family in range(NUM_FAMILIES):
            origin = ("west", "east")[family % 2]
            father = surnames[origin].pop()
            mother = father if origin == "west" else surnames[origin].pop()  # Chinese wives keep their own name
            first, age = len(people), stream.randrange(36, 50)
            shared = {"family": family, "home": homes[family]}
            work = [jobs[(2 * family + number) % len(jobs)] for number in range(2)]
            add(origin, "man", father, age=age, job=work[0], spouse=first + 1, **shared)
            add(origin, "woman", mother, age=age - stream.randrange(6), job=work[1], spouse=first, **shared)
            for age in stream.sample(range(7, 17), stream.choice((1, 1, 2, 3))):
                add(origin, "man" if stream.random() < 0.5 else "woman", father, age=age, mother=first + 1, **shared)
        return people

    def _find_facts(self) -> Iterator[Fact]:
        for person in self.people:
            if person.job:
                yield Fact("job", person, person.job.word)
                yield Fact("workplace", person, person.job.place)
            if person.mother is not None:
                yield Fact("mother", person, self.people[person.mother].full)
            if person.spouse is not None:
                yield Fact("spouse", person, self.people[person.spouse].full)
            yield Fact("age", person, Word(english_number(person.age), chinese_number(person.age)))
            for kind in ("home", "colour", "pet", "food", "hobby"):
                yield Fact(kind, person, getattr(person, kind))
        for place in self.places:
            yield Fact("street", place, place.street)
            yield Fact("opposite", place, place.opposite)
            yield Fact("year", place, Word(str(place.year), str(place.year), label="TIME"))

    def facts_about(self, subject: Person | Place) -> list[Fact]:
        return [self.facts[subject, kind] for kind in WORDINGS if (subject, kind) in self.facts]

    def weather(self, day: int) -> Word:
        return self._weather[day]

    @cached_property
    def _weather(self) -> list[Word]:
        stream = Random(f"town {self.seed} weather")
        seasons = [words(tables.WEATHER[season]) for season in ("winter", "spring", "summer", "autumn")]
        return [stream.choice(seasons[date_of(day).month % 12 // 3]) for day in range(NUM_DAYS)]

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
        theme = stream.choice(TOPICS)
        events: list[Event] = []
        used: set[tuple[str, str]] = set()
        for part in range(len(PARTS)):
            first, second, third = stream.sample(people, 3)
            pair, one, other = (first, second), (first,), (second,)
            for group in stream.choice(((pair, (third,)), (one, other), (pair,), (one,))):
                topic = theme if stream.random() < 0.65 else stream.choice(TOPICS)
                fitting = SCENES[topic, len(group), group[0].adult]
                job = group[0].job
                if job and len(group) == 1 and part < 2 and day % 7 < 5 and stream.random() < 0.3:
                    topic, fitting = "work", [job.scene]
                scene = stream.choice([scene for scene in fitting if scene not in used] or fitting)
                used.add(scene)
                absent = next(person for person in (third, second) if person not in group)
                drawn = self.draw(stream, " ".join(scene))
                events.append(Event(day, part, topic, scene, group, absent, stream.randrange(len(NUMBERS)), drawn))
        return Company(day, people, theme, tuple(events))

    def draw(self, stream: Random, template: str) -> dict[str, Word]:
        """Words for the slots of a template that are not people."""
        own = {"river": self.river, "hill": self.hill, "town": self.name}
        choices = {**DRAWN, "place": [place.word for place in self.places], "street": self.streets}
        slots = {match[1] for match in SLOT.finditer(template)}
        return {name: own.get(name) or stream.choice(choices[name]) for name in sorted(slots & {*own, *choices})}

    # How it is told.

    def tell(
        self, event: Event, language: Language, *, frame: int, style: str, names: Mapping[int, str] | None = None
    ) -> str:
        """One marked sentence; `names` says how each person is called, by number, where not by the short name."""
        slots = {"n": NUMBERS[event.number][language], "town": self.name.marked(language)}
        for letter, person in (*zip("AB", event.people, strict=False), ("C", event.absent)):
            slots |= person.slots(letter, language, (names or {}).get(person.number, "short"))
        for name, word in event.drawn.items():
            slots |= word_slots(name, word, language, event.number)
        style = "the" if style == "that" and "{when_inside}" in FRAMES[frame][0] else style  # not "said that that"
        time = when(event.day, event.part, language, style)
        slots |= {"when": time, "when_inside": f"{time} ", "weather": self.weather(event.day)[language]}
        slots["scene"] = fill(event.scene[language == "zh"], slots)
        return sentence(fill(FRAMES[frame][language == "zh"], slots), language)

    def pick_frame(self, event: Event, stream: Random) -> int:
        """A frame that fits the scene; what everyone knew and what others said comes seldom."""
        last = [0] * 4 if _CLAUSES.search(event.scene[0]) else [1] * 4
        return stream.choice([0, 0, 0, 0, *last, 2, 3, 3, 4] if event.part < 2 else [0, 0, 0, 0, *last, 2, 3])

    def state(
        self, fact: Fact, language: Language, wording: int, *, name: str = "full", value: Word | None = None
    ) -> str:
        """A marked sentence that says the fact, or says it of another value; wording -1 denies it."""
        said = WORDINGS[fact.kind][language]
        template = said.denial if wording < 0 else said.statements[wording % len(said.statements)]
        return sentence(fill(template, self._fact_slots(fact, language, name, value)), language)

    def ask(self, fact: Fact, language: Language) -> str:
        return plain(fill(WORDINGS[fact.kind][language].question, self._fact_slots(fact, language)))

    def answer(self, fact: Fact, language: Language, value: Word | None = None) -> str:
        return plain(fill(WORDINGS[fact.kind][language].answer, self._fact_slots(fact, language, value=value)))

    def _fact_slots(
        self, fact: Fact, language: Language, name: str = "full", value: Word | None = None
    ) -> dict[str, str]:
        slots = word_slots("x", value or fact.value, language)
        if isinstance(fact.subject, Person):
            return slots | fact.subject.slots("A", language, name)
        return slots | {"A": word_slots("place", fact.subject.word, language)["place"]}
