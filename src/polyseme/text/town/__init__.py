"""A little town, made up from a seed, that is written about in English and Chinese.

Everything said about it is true of it, so labels of every kind are read off instead of annotated, and words such as
*bank* and 苹果 come with their senses.
"""

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any, Literal

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.town import tables
from polyseme.text.town.words import (
    CLOSINGS,
    DRAWN,
    GLUE,
    JOBS,
    LANGUAGES,
    MARK,
    NUMBERS,
    OPENINGS,
    TOPICS,
    WEEKDAYS,
    WORDINGS,
    Language,
    Word,
    fill,
    full_date,
    plain,
    read_marks,
    sentence,
    word_slots,
    words,
)
from polyseme.text.town.world import NUM_DAYS, Company, Event, Fact, Person, Place, World

Row = dict[str, Any]
SPLITS = ("train", "dev", "test")

_ENGLISH_TOKEN = re.compile(r"'s|\w+(?:-\w+)*|[^\w\s]")
_CHINESE_TOKEN = re.compile(r"\S")


def split_of(key: str) -> str:
    """The split that everything made from `key` belongs to: eight tenths train, a tenth each for dev and test."""
    return (*("train",) * 8, "dev", "test")[zlib.crc32(key.encode()) % 10]


class Town(World):
    """A seeded world, its documents and its labelled rows."""

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
            edition, index = divmod(turn, per_day)
            yield plain(self._document(days[which], index, languages[number % len(languages)], edition))

    def _document(self, day: int, index: int, language: Language, edition: int) -> str:
        company = self.companies[day][index]
        stream = Random(f"town {self.seed} document {language} {day} {index} {edition}")
        names = {person.number: "full" for person in company.people}
        told: set[Fact] = set()
        sentences = [self._remark(stream, OPENINGS, company, language, [])]
        last: Person | None = None  # who alone the sentence before was about, and may be "he" or "she"

        def add_facts(subject: Person | Place) -> None:
            news = [fact for fact in self.facts_about(subject) if fact not in told]
            if not news:
                return
            first, *others = stream.sample(news, len(news))
            name = names[subject.number] if isinstance(subject, Person) else "short"
            wording = stream.randrange(4)
            text = self.state(first, language, wording, name=name)
            told.add(first)
            if others and isinstance(subject, Person) and stream.random() < 0.5 and _leads(first, language, wording):
                # Another fact in the same sentence, with a pronoun.
                wordings = [number for number in range(4) if _leads(others[0], language, number)]
                other = self.state(others[0], language, stream.choice(wordings), name="pronoun")
                joined = f", and {other[0].lower()}{other[1:]}" if language == "en" else f"，{other}"
                text = text[:-1] + joined
                told.add(others[0])
            sentences.append(text)

        for event in company.events:
            for person in event.people:
                if names[person.number] == "full" and stream.random() < 0.7:
                    add_facts(person)
                    names[person.number], last = "short", person
            frame = self.pick_frame(event, stream) if stream.random() < 0.7 else 5
            leads = event.people[0]
            again = last is leads and frame in (0, 5) and event.scene[0].startswith("{A} ") and stream.random() < 0.6
            called = {**names, leads.number: "pronoun"} if again else names
            style = stream.choice(("that", "the", "the"))
            sentences.append(self.tell(event, language, frame=frame, style=style, names=called))
            met = (*event.people, event.absent) if frame == 2 else event.people
            names |= {person.number: "short" for person in met}
            last = leads if len(met) == 1 else None
            if len(sentences) < 9 and stream.random() < 0.25:
                jobs = [person.job for person in event.people if person.job]
                words_near = {*event.drawn.values(), *(job.place for job in jobs)}
                near = [place for place in self.places if place.word in words_near]
                subject: Person | Place = stream.choice(event.people)
                if near and stream.random() < 0.5:
                    subject = stream.choice(near)
                add_facts(subject)
                last = subject if isinstance(subject, Person) else None
        acquainted = [person for person in company.people if names[person.number] == "short"]
        if len(sentences) < 5 or stream.random() < 0.6:
            sentences.append(self._remark(stream, CLOSINGS, company, language, acquainted))
        return GLUE[language].join(sentences)

    def _remark(
        self, stream: Random, table: list[tuple[str, str]], company: Company, language: Language, met: list[Person]
    ) -> str:
        fitting = [pair for pair in table if ("{A}" in pair[0]) + ("{B}" in pair[0]) <= len(met)]
        template = stream.choice(fitting)[language == "zh"]
        slots = {"date": full_date(company.day, language), "weather": self.weather(company.day)[language]}
        for name, word in self.draw(stream, template).items():
            slots |= word_slots(name, word, language)
        for letter, person in zip("AB", met, strict=False):
            slots |= person.slots(letter, language)
        return sentence(fill(template, slots), language)

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
        if split not in SPLITS:
            raise ConfigError(f"{split}: no such split{nearest(split, SPLITS)}")
        stream = Random(f"town {self.seed} {form} {language} {split}")
        seen: set[str] = set()
        num_misses = 0
        while len(seen) < count:
            row = makers[form](stream, language, split, len(seen))
            key = json.dumps({name: value for name, value in (row or {}).items() if name != "id"})
            if row is not None and key not in seen:
                seen.add(key)
                num_misses = 0
                yield row
            elif (num_misses := num_misses + 1) == 2000:
                raise DataError(f"{form}: the town has only {len(seen):,} {split} rows to give; ask for no more")

    def _classify(self, stream: Random, language: Language, split: str, turn: int) -> Row | None:
        """The label is the topic of most sentences, not of all."""
        company = stream.choice(self._companies_by_theme[TOPICS[turn % len(TOPICS)], split])
        told = [
            self.tell(event, language, frame=self.pick_frame(event, stream), style="the") for event in company.events
        ]
        return {"text": plain(GLUE[language].join(told)), "label": company.theme}

    @cached_property
    def _companies_by_theme(self) -> dict[tuple[str, str], list[Company]]:
        found = defaultdict(list)
        for company in (company for day in self.companies for company in day):
            topics = [event.topic for event in company.events]
            if len(topics) > 2 and 2 * topics.count(company.theme) > len(topics):
                found[company.theme, self._split(company.events[0])].append(company)
        return found

    def _tag(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        if turn % 3 == 2:
            people = self._strangers(stream, split)
            facts = [self.facts.get((person, "job"), self.facts[person, "home"]) for person in people]
            marked = GLUE[language].join(self.state(fact, language, stream.randrange(4)) for fact in facts)
        else:
            marked = self._parallel(stream, stream.choice(self._events[split]))[language == "zh"]
        text, spans = read_marks(marked)
        names = [span for span in spans if span.label.isupper()]
        tokens, tags = [], []
        for match in (_ENGLISH_TOKEN if language == "en" else _CHINESE_TOKEN).finditer(text):
            within = next((span for span in names if span.start <= match.start() < span.end), None)
            tokens.append(match[0])
            tags.append(f"{'B' if within.start == match.start() else 'I'}-{within.label}" if within else "O")
        return {"tokens": tokens, "tags": tags}

    @cached_property
    def _events(self) -> dict[str, list[Event]]:
        events: dict[str, list[Event]] = {split: [] for split in SPLITS}
        for event in (event for day in self.companies for company in day for event in company.events):
            events[self._split(event)].append(event)
        return events

    def _split(self, event: Event) -> str:
        # Equal sentences have equal keys, so splits share none.
        return split_of(f"{event.people[0].full.en}: {event.scene[0]}")

    def _parallel(self, stream: Random, event: Event) -> tuple[str, str]:
        """The same marked sentence in English and Chinese, to stand alone."""
        frame, style = self.pick_frame(event, stream), stream.choice(("weekday", "date"))
        names = {event.people[0].number: stream.choice(("full", "short"))}
        english, chinese = (self.tell(event, into, frame=frame, style=style, names=names) for into in LANGUAGES)
        return english, chinese

    def _strangers(self, stream: Random, split: str) -> tuple[Person, Person]:
        """Two people of different families; every two people belong to one split."""
        while True:
            first, second = stream.sample(self.people, 2)
            if first.family != second.family and split_of(f"{first.full.en} {second.full.en}") == split:
                return first, second

    def _pair(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        label = ("entailment", "contradiction", "neutral")[turn % 3]
        stated, unstated = [], []
        for person in self._strangers(stream, split):
            facts = self.facts_about(person)
            stream.shuffle(facts)
            stated += facts[:2]
            # A job gives its place away, so neither is open when the other is stated.
            closed = ("job", "workplace") if {fact.kind for fact in facts[:2]} & {"job", "workplace"} else ()
            unstated += [fact for fact in facts[2:] if fact.kind not in closed]
        wordings = [stream.randrange(4) for _ in stated]
        premise = [self.state(fact, language, wording) for fact, wording in zip(stated, wordings, strict=True)]
        which = stream.randrange(len(stated))
        fact, wording = stated[which], wordings[which] + stream.randrange(1, 4)
        value: Word | None = stream.choice(self._other_values(fact))
        denied = stream.random() < 0.35
        if label == "neutral":
            fact = stream.choice(unstated)
            value = stream.choice((None, stream.choice(self._other_values(fact))))
        elif denied == (label == "contradiction"):
            value = None  # to deny what is true contradicts, and to say what is true follows
        hypothesis = self.state(fact, language, -1 if denied else wording, value=value)
        return {"text_a": plain(GLUE[language].join(premise)), "text_b": plain(hypothesis), "label": label}

    def _other_values(self, fact: Fact) -> list[Word]:
        """Wrong values that others like the subject have: no child is married or has a job."""

        def alike(other: Person | Place) -> bool:
            if isinstance(other, Place) or isinstance(fact.subject, Place):
                return True
            return other.adult == fact.subject.adult and (fact.kind != "spouse" or other.gender == fact.subject.gender)

        others = (other for other in self._facts_by_kind[fact.kind] if alike(other.subject))
        return [value for value in dict.fromkeys(other.value for other in others) if value != fact.value]

    @cached_property
    def _facts_by_kind(self) -> dict[str, list[Fact]]:
        return {kind: [fact for fact in self.facts.values() if fact.kind == kind] for kind in WORDINGS}

    def _similarity(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        """Two facts a side: 2.5 for each that is the same, less for the same person or the same kind of fact."""
        while True:
            first, second = stream.sample(self.people, 2)
            ours = stream.sample(self.facts_about(first), 2)
            # The second person need not be named, so the split goes by what is said of the first.
            if first.family != second.family and split_of(f"{first.full.en} {ours[0].kind} {ours[1].kind}") == split:
                break
        rest = [fact for fact in self.facts_about(first) if fact not in ours]
        different = [fact for fact in self.facts_about(second) if fact.kind not in {fact.kind for fact in ours}]
        others, score = [], 0.0
        for fact in ours:
            rival = self.facts.get((second, fact.kind))
            options = {
                2.5: [fact],
                1.0: rest,
                0.5: [rival] if rival and rival.value != fact.value else [],
                0.0: different,
            }
            worth = stream.choice(
                [worth for worth, facts in options.items() for _ in range(1 + (worth == 2.5)) if facts]
            )
            others.append(stream.choice(options[worth]))
            score += worth
        wordings = [stream.randrange(4) for _ in ours]
        left = [self.state(fact, language, wording) for fact, wording in zip(ours, wordings, strict=True)]
        right = [self.state(fact, language, wording + 1) for fact, wording in zip(others, wordings, strict=True)]
        text_a, text_b = (plain(GLUE[language].join(side)) for side in (left, right))
        return {"text_a": text_a, "text_b": text_b, "score": score}

    def _choice(self, stream: Random, language: Language, split: str, turn: int) -> Row | None:
        people = self._strangers(stream, split)
        kinds = [kind for kind in WORDINGS if all((person, kind) in self.facts for person in people)]
        facts = [self.facts[person, kind] for kind in stream.sample(kinds, 2) for person in people]
        asked, rival = facts[:2]
        if asked.value == rival.value:
            return None
        stream.shuffle(facts)
        told = [plain(self.state(fact, language, stream.randrange(4))) for fact in facts]
        # One wrong choice is what the passage says of the other person.
        others = [value for value in self._other_values(asked) if value != rival.value]
        wrong = [rival.value, *stream.sample(others, 2)]
        choices = [self.answer(asked, language, value) for value in stream.sample(wrong, 3)]
        choices.insert(turn % 4, self.answer(asked, language))
        context = GLUE[language].join([*told, self.ask(asked, language)])
        return {"context": context, "choices": choices, "answer": turn % 4}

    def _span(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        people = self._strangers(stream, split)
        subjects: list[Person | Place] = [*people, stream.choice(self.places)]
        facts = [fact for subject in subjects for fact in stream.sample(self.facts_about(subject), 2)]
        missing = [fact for person in people for fact in self.facts_about(person) if fact not in facts]
        told = [plain(self.state(fact, language, stream.randrange(4))) for fact in facts]
        where = stream.randrange(len(facts))
        answer = self.answer(facts[where], language)
        start = sum(len(text) + len(GLUE[language]) for text in told[:where]) + told[where].index(answer)
        event = plain(self._parallel(stream, stream.choice(self._events[split]))[language == "zh"])
        impossible = turn % 4 == 3
        return {
            "id": f"town-{self.seed}-{language}-{split}-{turn}",
            "context": GLUE[language].join([*told, event]),
            "question": self.ask(stream.choice(missing) if impossible else facts[where], language),
            "answers": [] if impossible else [{"text": answer, "answer_start": start}],
            "is_impossible": impossible,
        }

    def _translate(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        """From `language` to the other one."""
        if turn % 4 == 3:
            said = [
                (stream.choice(self.facts_about(person)), stream.randrange(4))
                for person in self._strangers(stream, split)
            ]
            texts = [GLUE[into].join(self.state(fact, into, wording) for fact, wording in said) for into in LANGUAGES]
        else:
            texts = list(self._parallel(stream, stream.choice(self._events[split])))
        source, target = texts if language == "en" else reversed(texts)
        return {"source": plain(source), "target": plain(target)}

    def _senses(self, stream: Random, language: Language, split: str, turn: int) -> Row:
        senses = self._events_by_sense[language, split]
        word, sense = sorted(senses)[turn % len(senses)]
        text, spans = read_marks(self._parallel(stream, stream.choice(senses[word, sense]))[language == "zh"])
        span = next(span for span in spans if (text[span.start : span.end], span.label) == (word, sense))
        return {"text": text, "word": word, "start": span.start, "end": span.end, "sense": sense}

    @cached_property
    def _events_by_sense(self) -> dict[tuple[Language, str], dict[tuple[str, str], list[Event]]]:
        found: dict[tuple[Language, str], dict[tuple[str, str], list[Event]]] = {}
        for language in LANGUAGES:
            for split, events in self._events.items():
                senses = found[language, split] = defaultdict(list)
                for event in events:
                    # Some words that are drawn have marks of their own, and count where the scene names them.
                    drawn = {name: word[language] for name, word in event.drawn.items() if "[" in word[language]}
                    for match in MARK.finditer(event.scene[language == "zh"] + "".join(drawn.values())):
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
            chosen = stream.choice(templates)
            number = stream.randrange(len(NUMBERS))
            slots = {"n": NUMBERS[number][language]}
            for letter, person in zip("AB", stream.sample(self.people, 2), strict=True):
                slots |= person.slots(letter, language)
            for name, word in self.draw(stream, " ".join(chosen)).items():
                slots |= word_slots(name, word, language, number)
            good, bad = (plain(sentence(fill(template, slots), language)) for template in chosen)
            if good not in seen and good != bad:
                seen.add(good)
                yield {"good": good, "bad": bad, "field": "syntax", "term": phenomenon}

    # Words by themselves.

    def word_pairs(self, language: Language = "en") -> Iterator[Row]:
        """Pairs of the town's words, and how near they are from 0 to 10 by what they name."""
        groups = {name: DRAWN[name] for name in ("food", "animal", "pet", "thing", "tool", "colour")}
        groups |= {"job": [job.word for job in JOBS], "place": words(tables.PLACES), "weekday": WEEKDAYS}
        names = {group: [plain(word[language]) for word in found] for group, found in groups.items()}
        names = {group: [name for name in found if " " not in name] for group, found in names.items()}
        near = ({"animal", "pet"}, {"tool", "thing"}, {"job", "place"})
        scores = {tuple(sorted(pair)): 8.5 for pair in self._workplaces(language)}
        stream = Random(f"town words {language}")
        while len(scores) < 300:
            first = stream.choice(list(names))
            second = first if stream.random() < 0.3 else stream.choice(list(names))
            pair = tuple(sorted((stream.choice(names[first]), stream.choice(names[second]))))
            if pair[0] != pair[1]:
                scores.setdefault(pair, 7.0 if first == second else 5.0 if {first, second} in near else 0.5)
        for (word_a, word_b), score in scores.items():
            yield {"word_a": word_a, "word_b": word_b, "score": score}

    def analogies(self, language: Language = "en") -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """Sections of questions "a is to b as c is to d"."""
        pairs: dict[str, list[tuple[str, ...]]] = {
            "gender": [tuple(pair.split()) for pair in tables.GENDERS[language].split(", ")],
            "job-workplace": list(self._workplaces(language)),
            "husband-wife": [
                (person.short[language], self.people[person.spouse].short[language])
                for person in self.people
                if person.spouse is not None and person.gender == "man"
            ],
        }
        if language == "en":
            pairs["plural"] = [(word.en, word.many) for name in ("food", "animal", "tool") for word in DRAWN[name]]
        for section, table in pairs.items():
            yield section, [(*first, *second) for first, second in permutations(table, 2) if first[1] != second[1]]

    def _workplaces(self, language: Language) -> Iterator[tuple[str, str]]:
        for job in JOBS:
            if " " not in job.place[language]:
                yield job.word[language], job.place[language]


def write(
    folder: Path,
    seed: int = 0,
    *,
    languages: Sequence[Language] = LANGUAGES,
    num_documents: int = 2000,
    num_rows: int = 2000,
) -> None:
    """Text to learn from and labelled sets of every form; dev and test sets are an eighth of the train set."""
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
        bare, grammar = folder / f"words{suffix}", folder / f"minimal_pairs{suffix}"
        bare.mkdir()
        grammar.mkdir()
        (bare / "similarity.tsv").write_text(_tsv(list(town.word_pairs(language))), "utf-8")
        sections = (
            f": {name}\n" + "".join(" ".join(row) + "\n" for row in rows) for name, rows in town.analogies(language)
        )
        (bare / "analogies.txt").write_text("".join(sections), "utf-8")
        for name in tables.MINIMAL_PAIRS[language]:
            rows = list(town.minimal_pairs(name, num_rows // 10, language))
            (grammar / f"{name}.jsonl").write_text(_jsonl(rows), "utf-8")


def _leads(fact: Fact, language: Language, wording: int) -> bool:
    """Whether the sentence begins with its subject, so that a pronoun may take it up or stand for it."""
    template = WORDINGS[fact.kind][language].statements[wording]
    return template.startswith("{A} " if language == "en" else "{A}") and "," not in template and "，" not in template


def _tsv(rows: list[Row]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in ([*rows[0]], *([*row.values()] for row in rows)))


def _jsonl(rows: list[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _conll(rows: list[Row]) -> str:
    columns = (zip(row["tokens"], row["tags"], strict=True) for row in rows)
    return "\n".join("".join(f"{token}\t{tag}\n" for token, tag in column) for column in columns)


def _squad(rows: list[Row]) -> str:
    asked = ("id", "question", "answers", "is_impossible")
    paragraphs = [{"context": row["context"], "qas": [{name: row[name] for name in asked}]} for row in rows]
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
