"""The simulated world of the town: places, people, facts about them, and the events of every day of a year.

Everything follows from the seed, and all texts are generated from this state, so they never contradict each other.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal

from polyseme.datasets.town.lexicon import (
    SLOT,
    Language,
    Profession,
    TemplatePair,
    Word,
    as_sentence,
    date_of,
    fact_templates,
    fill_template,
    jobs,
    number_word,
    scenes,
    strip_markup,
    template_pairs,
    time_expression,
    topics,
    word_forms,
    words,
)

NUM_DAYS = 365
NUM_FAMILIES = 12
Gender = Literal["man", "woman"]

# After these a time at the end of the sentence would be understood as that of the subordinate clause.
_CLAUSES = re.compile(r",| (?:that|because|so|when|while|whether|why|where|since|before|after|as|not) ")

_FORM_NAMES = (".he", ".his", ".him", ".self", ".wrong_self", ".child", ".other_half")
_FORMS = {
    ("en", "man"): ("he", "his", "him", "himself", "herself", "son", "wife"),
    ("en", "woman"): ("she", "her", "her", "herself", "himself", "daughter", "husband"),
    ("zh", "man"): ("他", "他的", "他", "自己", "自己", "儿子", "妻子"),
    ("zh", "woman"): ("她", "她的", "她", "自己", "自己", "女儿", "丈夫"),
}


@dataclass(frozen=True, eq=False)
class Person:
    """An inhabitant; spouse and mother are given by number."""

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
    job: Profession | None = None
    spouse: int | None = None
    mother: int | None = None

    @property
    def adult(self) -> bool:
        return self.age >= 18

    def slots(self, role: str, language: Language, name: str = "short") -> dict[str, str]:
        """Values of the slots of this person as A, B or C; `name` is "full", "short" or "pronoun"."""
        forms = dict(zip(_FORM_NAMES, _FORMS[language, self.gender], strict=True))
        references = {"full": self.full.marked(language), "pronoun": forms[".he"]}
        forms[""] = references.get(name, self.short.marked(language))
        forms |= word_forms(".thing", self.thing, language)
        return {role + form: value for form, value in forms.items()}


@dataclass(frozen=True, eq=False)
class Place:
    """A building, its street, the building opposite and the year it was built."""

    word: Word
    street: Word
    opposite: Word
    year: int


@dataclass(frozen=True)
class Fact:
    """A permanent fact; a subject has at most one value of each kind."""

    kind: str
    subject: Person | Place
    value: Word


@dataclass(frozen=True)
class Event:
    """Something that happened once: a scene with one or two people in a part of a day."""

    day: int
    part: int
    topic: str
    scene: TemplatePair
    people: tuple[Person, ...]
    absent: Person
    number: int  # index of the number word in the scene
    fillers: Mapping[str, Word] = field(hash=False)


@dataclass(frozen=True)
class Outing:
    """A day that three people spend together; most of its events share a topic."""

    day: int
    people: tuple[Person, ...]
    topic: str
    events: tuple[Event, ...]


class World:
    """The state of the town."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        rng = Random(f"town {seed}")
        self.name, self.river, self.hill = (rng.choice(words()[name]) for name in ("towns", "rivers", "hills"))
        self.streets = rng.sample(words()["streets"], 4)
        self.places = self._build(rng)
        self.people = self._settle(rng)
        self.facts = {(fact.subject, fact.kind): fact for fact in self._find_facts()}

    def _build(self, rng: Random) -> list[Place]:
        names = [*words()["places"]]
        rng.shuffle(names)
        # Six places to a street, in pairs opposite each other.
        return [
            Place(name, self.streets[number // 6], names[number ^ 1], rng.randrange(1850, 2020))
            for number, name in enumerate(names)
        ]

    def _settle(self, rng: Random) -> list[Person]:
        tables = ("men", "women", "chinese_men", "chinese_women", "surnames", "chinese_surnames")
        names = {table: [*words()[table]] for table in tables}
        all_jobs = [*jobs()]
        for shuffled in (*names.values(), all_jobs):
            rng.shuffle(shuffled)  # type: ignore[arg-type]
        homes = self.streets * (NUM_FAMILIES // len(self.streets))
        rng.shuffle(homes)
        people: list[Person] = []

        def add(origin: str, gender: Gender, surname: Word, **details: Any) -> None:
            short = names[f"{origin}men" if gender == "man" else f"{origin}women"].pop()
            if origin:
                full = Word(f"{surname.en} {short.en}", surname.zh + short.zh, label="PERSON")
            else:
                full = Word(f"{short.en} {surname.en}", f"{short.zh}·{surname.zh}", label="PERSON")
            details |= {name: rng.choice(words()[name]) for name in ("thing", "colour", "pet", "food", "hobby")}
            people.append(Person(len(people), full, short, gender, **details))

        for family in range(NUM_FAMILIES):
            origin = ("", "chinese_")[family % 2]
            father = names[f"{origin}surnames"].pop()
            mother = names["chinese_surnames"].pop() if origin else father  # Chinese wives keep their own name
            first, age = len(people), rng.randrange(36, 50)
            shared = {"family": family, "home": homes[family]}
            work = [all_jobs[(2 * family + number) % len(all_jobs)] for number in range(2)]
            add(origin, "man", father, age=age, job=work[0], spouse=first + 1, **shared)
            add(origin, "woman", mother, age=age - rng.randrange(6), job=work[1], spouse=first, **shared)
            for age in rng.sample(range(7, 17), rng.choice((1, 1, 2, 3))):
                add(origin, "man" if rng.random() < 0.5 else "woman", father, age=age, mother=first + 1, **shared)
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
            yield Fact("age", person, number_word(person.age))
            for kind in ("home", "colour", "pet", "food", "hobby"):
                yield Fact(kind, person, getattr(person, kind))
        for place in self.places:
            yield Fact("street", place, place.street)
            yield Fact("opposite", place, place.opposite)
            yield Fact("year", place, Word(str(place.year), str(place.year), label="TIME"))

    def facts_about(self, subject: Person | Place) -> list[Fact]:
        """All facts about a person or place."""
        return [self.facts[subject, kind] for kind in fact_templates() if (subject, kind) in self.facts]

    @cached_property
    def weather(self) -> list[Word]:
        """The weather of every day of the year."""
        rng = Random(f"town {self.seed} weather")
        seasons = ("winter", "spring", "summer", "autumn")
        return [rng.choice(words()[seasons[date_of(day).month % 12 // 3]]) for day in range(NUM_DAYS)]

    # Events

    @cached_property
    def outings(self) -> list[list[Outing]]:
        """The outings of every day of the year."""
        return [self._plan_day(day) for day in range(NUM_DAYS)]

    def _plan_day(self, day: int) -> list[Outing]:
        rng = Random(f"town {self.seed} day {day}")
        people = rng.sample(self.people, len(self.people))
        groups = [tuple(people[start : start + 3]) for start in range(0, len(people) - 2, 3)]
        return [self._plan_outing(day, group, rng) for group in groups]

    def _plan_outing(self, day: int, people: tuple[Person, ...], rng: Random) -> Outing:
        main_topic = rng.choice(topics())
        events: list[Event] = []
        used: set[TemplatePair] = set()
        for part in range(len(words()["parts_of_day"])):
            first, second, third = rng.sample(people, 3)
            pair, one, other = (first, second), (first,), (second,)
            for group in rng.choice(((pair, (third,)), (one, other), (pair,), (one,))):
                topic = main_topic if rng.random() < 0.65 else rng.choice(topics())
                fitting = scenes()[topic, len(group), group[0].adult]
                job = group[0].job
                if job and len(group) == 1 and part < 2 and day % 7 < 5 and rng.random() < 0.3:
                    topic, fitting = "work", [job.scene]
                scene = rng.choice([scene for scene in fitting if scene not in used] or fitting)
                used.add(scene)
                absent = next(person for person in (third, second) if person not in group)
                fillers = self.choose_fillers(rng, " ".join(scene))
                number = rng.randrange(len(words()["numbers"]))
                events.append(Event(day, part, topic, scene, group, absent, number, fillers))
        return Outing(day, people, main_topic, tuple(events))

    def choose_fillers(self, rng: Random, template: str) -> dict[str, Word]:
        """Random words for the slots of a template, except those of people."""
        own = {"river": self.river, "hill": self.hill, "town": self.name}
        choices = {**words(), "place": [place.word for place in self.places], "street": self.streets}
        slots = {match[1] for match in SLOT.finditer(template)}
        return {name: own.get(name) or rng.choice(choices[name]) for name in sorted(slots & {*own, *choices})}

    # Sentences

    def describe(
        self, event: Event, language: Language, *, frame: int, style: str, names: Mapping[int, str] | None = None
    ) -> str:
        """A marked sentence about an event; `names` maps people who are not called by their short name to a form."""
        slots = {"n": words()["numbers"][event.number][language], "town": self.name.marked(language)}
        for role, person in (*zip("AB", event.people, strict=False), ("C", event.absent)):
            slots |= person.slots(role, language, (names or {}).get(person.number, "short"))
        for name, word in event.fillers.items():
            slots |= word_forms(name, word, language, event.number)
        around = template_pairs("frames")[frame]
        style = "the" if style == "that" and "{when_inside}" in around[0] else style  # avoid "that that"
        time = time_expression(event.day, event.part, language, style)
        slots |= {"when": time, "when_inside": f"{time} ", "weather": self.weather[event.day][language]}
        slots["scene"] = fill_template(event.scene[language == "zh"], slots)
        return as_sentence(fill_template(around[language == "zh"], slots), language)

    def pick_frame(self, event: Event, rng: Random) -> int:
        """A random frame that fits the scene; reported speech is rare."""
        last = [0] * 4 if _CLAUSES.search(event.scene[0]) else [1] * 4
        return rng.choice([0, 0, 0, 0, *last, 2, 3, 3, 4] if event.part < 2 else [0, 0, 0, 0, *last, 2, 3])

    def state(
        self, fact: Fact, language: Language, variant: int, *, name: str = "full", value: Word | None = None
    ) -> str:
        """A marked sentence that states a fact, optionally with another value; variant -1 denies it."""
        wordings = fact_templates()[fact.kind][language]
        template = wordings.denial if variant < 0 else wordings.statements[variant % len(wordings.statements)]
        return as_sentence(_fill_fact(template, fact, language, name, value), language)

    def question(self, fact: Fact, language: Language) -> str:
        """A question that the value of a fact answers."""
        return strip_markup(_fill_fact(fact_templates()[fact.kind][language].question, fact, language))

    def answer(self, fact: Fact, language: Language, value: Word | None = None) -> str:
        """The answer to the question about a fact, optionally with another value."""
        return strip_markup(_fill_fact(fact_templates()[fact.kind][language].answer, fact, language, value=value))


def _fill_fact(template: str, fact: Fact, language: Language, name: str = "full", value: Word | None = None) -> str:
    slots = word_forms("x", value or fact.value, language)
    if isinstance(fact.subject, Person):
        slots |= fact.subject.slots("A", language, name)
    else:
        slots["A"] = word_forms("place", fact.subject.word, language)["place"]
    return fill_template(template, slots)
