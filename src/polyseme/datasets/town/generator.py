"""Documents and labelled data about a synthetic town, in English and Chinese.

All texts are true of a world that is generated from a seed, so labels of every task are known without annotation, and
ambiguous words such as *bank* and 苹果 come with their senses.
"""

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from random import Random
from typing import Any

from polyseme.datasets.town.lexicon import (
    LANGUAGES,
    MARKUP,
    SENTENCE_SEPARATOR,
    Language,
    Word,
    as_sentence,
    fact_templates,
    fill_template,
    full_date,
    parse_markup,
    strip_markup,
    template_pairs,
    topics,
    word_forms,
)
from polyseme.datasets.town.world import NUM_DAYS, Event, Fact, Outing, Person, Place, World
from polyseme.errors import DataError

Row = dict[str, Any]
SPLITS = ("train", "dev", "test")

_ENGLISH_TOKEN = re.compile(r"'s|\w+(?:-\w+)*|[^\w\s]")
_CHINESE_TOKEN = re.compile(r"\S")


def split_of(key: str) -> str:
    """The split of all rows with this key: train for eight tenths, dev and test for one tenth each."""
    return (*("train",) * 8, "dev", "test")[zlib.crc32(key.encode()) % 10]


class Town(World):
    """A generated town with its documents and labelled rows."""

    def documents(self, count: int, language: Language = "en", *, split: str = "") -> Iterator[str]:
        """Generate documents of 5 to 15 sentences, each about one day of three people; splits have different days."""
        days = [day for day in range(NUM_DAYS) if not split or split_of(f"day {day}") == split]
        Random(f"town {self.seed} documents").shuffle(days)
        num_outings = len(self.people) // 3  # per day
        for number in range(count):
            turn, day_index = divmod(number, len(days))
            edition, index = divmod(turn, num_outings)
            yield strip_markup(self._document(days[day_index], index, language, edition))

    def _document(self, day: int, index: int, language: Language, edition: int) -> str:
        outing = self.outings[day][index]
        rng = Random(f"town {self.seed} document {language} {day} {index} {edition}")
        names = {person.number: "full" for person in outing.people}
        stated: set[Fact] = set()
        sentences = [self._framing_sentence(rng, "openings", outing, language, [])]
        last: Person | None = None  # the only person in the last sentence, who may be referred to by a pronoun

        def add_facts(subject: Person | Place) -> None:
            new = [fact for fact in self.facts_about(subject) if fact not in stated]
            if not new:
                return
            first, *others = rng.sample(new, len(new))
            name = names[subject.number] if isinstance(subject, Person) else "short"
            variant = rng.randrange(4)
            text = self.state(first, language, variant, name=name)
            stated.add(first)
            joins = others and isinstance(subject, Person) and rng.random() < 0.5
            if joins and _starts_with_subject(first, language, variant):
                # Join another fact with a pronoun as its subject.
                variants = [number for number in range(4) if _starts_with_subject(others[0], language, number)]
                other = self.state(others[0], language, rng.choice(variants), name="pronoun")
                text = text[:-1] + (f", and {other[0].lower()}{other[1:]}" if language == "en" else f"，{other}")
                stated.add(others[0])
            sentences.append(text)

        for event in outing.events:
            for person in event.people:
                if names[person.number] == "full" and rng.random() < 0.7:
                    add_facts(person)
                    names[person.number], last = "short", person
            frame = self.pick_frame(event, rng) if rng.random() < 0.7 else 5
            subject_of_event = event.people[0]
            repeated = last is subject_of_event and frame in (0, 5) and event.scene[0].startswith("{A} ")
            by_pronoun = repeated and rng.random() < 0.6
            references = {**names, subject_of_event.number: "pronoun"} if by_pronoun else names
            style = rng.choice(("that", "the", "the"))
            sentences.append(self.describe(event, language, frame=frame, style=style, names=references))
            mentioned = (*event.people, event.absent) if frame == 2 else event.people
            names |= {person.number: "short" for person in mentioned}
            last = subject_of_event if len(mentioned) == 1 else None
            if len(sentences) < 9 and rng.random() < 0.25:
                mentions = {*event.fillers.values(), *(person.job.place for person in event.people if person.job)}
                nearby = [place for place in self.places if place.word in mentions]
                subject: Person | Place = rng.choice(event.people)
                if nearby and rng.random() < 0.5:
                    subject = rng.choice(nearby)
                add_facts(subject)
                last = subject if isinstance(subject, Person) else None
        introduced = [person for person in outing.people if names[person.number] == "short"]
        if len(sentences) < 5 or rng.random() < 0.6:
            sentences.append(self._framing_sentence(rng, "closings", outing, language, introduced))
        return SENTENCE_SEPARATOR[language].join(sentences)

    def _framing_sentence(
        self, rng: Random, position: str, outing: Outing, language: Language, people: list[Person]
    ) -> str:
        """An opening or closing sentence that mentions none but these people."""
        fitting = [pair for pair in template_pairs(position) if ("{A}" in pair[0]) + ("{B}" in pair[0]) <= len(people)]
        template = rng.choice(fitting)[language == "zh"]
        slots = {"date": full_date(outing.day, language), "weather": self.weather[outing.day][language]}
        for name, word in self.choose_fillers(rng, template).items():
            slots |= word_forms(name, word, language)
        for role, person in zip("AB", people, strict=False):
            slots |= person.slots(role, language)
        return as_sentence(fill_template(template, slots), language)

    # Labelled rows

    def labelled_rows(self, kind: str, count: int, *, language: Language = "en", split: str = "train") -> Iterator[Row]:
        """Generate distinct rows of a kind of labelled data; splits are disjoint."""
        generate: Callable[[Random, Language, str, int], Row | None] = getattr(self, f"_{kind}")
        rng = Random(f"town {self.seed} {kind} {language} {split}")
        seen: set[str] = set()
        num_rejected = 0
        while len(seen) < count:
            row = generate(rng, language, split, len(seen))
            key = json.dumps({name: value for name, value in (row or {}).items() if name != "id"})
            if row is not None and key not in seen:
                seen.add(key)
                num_rejected = 0
                yield row
            elif (num_rejected := num_rejected + 1) == 2000:
                raise DataError(f"{kind}: only {len(seen):,} distinct {split} rows can be generated; request fewer")

    def _classify(self, rng: Random, language: Language, split: str, turn: int) -> Row | None:
        """The label is the topic of most sentences, but not necessarily of all."""
        outing = rng.choice(self._outings_by_topic[topics()[turn % len(topics())], split])
        sentences = [
            self.describe(event, language, frame=self.pick_frame(event, rng), style="the") for event in outing.events
        ]
        return {"text": strip_markup(SENTENCE_SEPARATOR[language].join(sentences)), "label": outing.topic}

    @cached_property
    def _outings_by_topic(self) -> dict[tuple[str, str], list[Outing]]:
        """Outings with a majority topic, by topic and split."""
        found = defaultdict(list)
        for outing in (outing for day in self.outings for outing in day):
            event_topics = [event.topic for event in outing.events]
            if len(event_topics) > 2 and 2 * event_topics.count(outing.topic) > len(event_topics):
                found[outing.topic, self._split(outing.events[0])].append(outing)
        return found

    def _tag(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        if turn % 3 == 2:
            people = self._unrelated_people(rng, split)
            facts = [self.facts.get((person, "job"), self.facts[person, "home"]) for person in people]
            marked = SENTENCE_SEPARATOR[language].join(self.state(fact, language, rng.randrange(4)) for fact in facts)
        else:
            marked = self._translation_pair(rng, rng.choice(self._events[split]))[language == "zh"]
        text, spans = parse_markup(marked)
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
        for event in (event for day in self.outings for outing in day for event in outing.events):
            events[self._split(event)].append(event)
        return events

    def _split(self, event: Event) -> str:
        # Equal sentences have equal keys, so splits share no sentence.
        return split_of(f"{event.people[0].full.en}: {event.scene[0]}")

    def _translation_pair(self, rng: Random, event: Event) -> tuple[str, str]:
        """A self-contained marked sentence in English and Chinese."""
        frame, style = self.pick_frame(event, rng), rng.choice(("weekday", "date"))
        names = {event.people[0].number: rng.choice(("full", "short"))}
        english, chinese = (self.describe(event, into, frame=frame, style=style, names=names) for into in LANGUAGES)
        return english, chinese

    def _unrelated_people(self, rng: Random, split: str) -> tuple[Person, Person]:
        """Two people of different families; each pair of people belongs to one split."""
        while True:
            first, second = rng.sample(self.people, 2)
            if first.family != second.family and split_of(f"{first.full.en} {second.full.en}") == split:
                return first, second

    def _pair(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        label = ("entailment", "contradiction", "neutral")[turn % 3]
        stated, unstated = [], []
        for person in self._unrelated_people(rng, split):
            facts = self.facts_about(person)
            rng.shuffle(facts)
            stated += facts[:2]
            # A job implies its workplace, so neither is neutral once the other is stated.
            implied = ("job", "workplace") if {fact.kind for fact in facts[:2]} & {"job", "workplace"} else ()
            unstated += [fact for fact in facts[2:] if fact.kind not in implied]
        variants = [rng.randrange(4) for _ in stated]
        premise = [self.state(fact, language, variant) for fact, variant in zip(stated, variants, strict=True)]
        index = rng.randrange(len(stated))
        fact, variant = stated[index], variants[index] + rng.randrange(1, 4)
        value: Word | None = rng.choice(self._other_values(fact))
        denied = rng.random() < 0.35
        if label == "neutral":
            fact = rng.choice(unstated)
            value = rng.choice((None, rng.choice(self._other_values(fact))))
        elif denied == (label == "contradiction"):
            value = None  # denying a true fact is a contradiction, stating it an entailment
        hypothesis = self.state(fact, language, -1 if denied else variant, value=value)
        text_a, text_b = strip_markup(SENTENCE_SEPARATOR[language].join(premise)), strip_markup(hypothesis)
        return {"text_a": text_a, "text_b": text_b, "label": label}

    def _other_values(self, fact: Fact) -> list[Word]:
        """Plausible wrong values: those of comparable people, since no child is married or has a job."""

        def comparable(other: Person | Place) -> bool:
            if isinstance(other, Place) or isinstance(fact.subject, Place):
                return True
            return other.adult == fact.subject.adult and (fact.kind != "spouse" or other.gender == fact.subject.gender)

        others = (other for other in self._facts_by_kind[fact.kind] if comparable(other.subject))
        return [value for value in dict.fromkeys(other.value for other in others) if value != fact.value]

    @cached_property
    def _facts_by_kind(self) -> dict[str, list[Fact]]:
        return {kind: [fact for fact in self.facts.values() if fact.kind == kind] for kind in fact_templates()}

    def _similarity(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        """Two facts in each text: 2.5 points for the same fact, fewer for the same person or kind of fact."""
        while True:
            first, second = rng.sample(self.people, 2)
            facts_a = rng.sample(self.facts_about(first), 2)
            # The second person may not be mentioned, so the split depends on the facts about the first.
            key = f"{first.full.en} {facts_a[0].kind} {facts_a[1].kind}"
            if first.family != second.family and split_of(key) == split:
                break
        rest = [fact for fact in self.facts_about(first) if fact not in facts_a]
        different = [fact for fact in self.facts_about(second) if fact.kind not in {fact.kind for fact in facts_a}]
        facts_b, score = [], 0.0
        for fact in facts_a:
            rival = self.facts.get((second, fact.kind))
            rivals = [rival] if rival and rival.value != fact.value else []
            options = {2.5: [fact], 1.0: rest, 0.5: rivals, 0.0: different}
            likely = [points for points, facts in options.items() for _ in range(1 + (points == 2.5)) if facts]
            points = rng.choice(likely)
            facts_b.append(rng.choice(options[points]))
            score += points
        variants = [rng.randrange(4) for _ in facts_a]
        texts_a = [self.state(fact, language, variant) for fact, variant in zip(facts_a, variants, strict=True)]
        texts_b = [self.state(fact, language, variant + 1) for fact, variant in zip(facts_b, variants, strict=True)]
        text_a, text_b = (strip_markup(SENTENCE_SEPARATOR[language].join(texts)) for texts in (texts_a, texts_b))
        return {"text_a": text_a, "text_b": text_b, "score": score}

    def _choice(self, rng: Random, language: Language, split: str, turn: int) -> Row | None:
        people = self._unrelated_people(rng, split)
        kinds = [kind for kind in fact_templates() if all((person, kind) in self.facts for person in people)]
        facts = [self.facts[person, kind] for kind in rng.sample(kinds, 2) for person in people]
        fact, rival = facts[:2]
        if fact.value == rival.value:
            return None
        rng.shuffle(facts)
        sentences = [strip_markup(self.state(fact, language, rng.randrange(4))) for fact in facts]
        # One wrong choice is the value of the other person in the passage.
        others = [value for value in self._other_values(fact) if value != rival.value]
        wrong = [rival.value, *rng.sample(others, 2)]
        choices = [self.answer(fact, language, value) for value in rng.sample(wrong, 3)]
        choices.insert(turn % 4, self.answer(fact, language))
        context = SENTENCE_SEPARATOR[language].join([*sentences, self.question(fact, language)])
        return {"context": context, "choices": choices, "answer": turn % 4}

    def _span(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        people = self._unrelated_people(rng, split)
        subjects: list[Person | Place] = [*people, rng.choice(self.places)]
        facts = [fact for subject in subjects for fact in rng.sample(self.facts_about(subject), 2)]
        missing = [fact for person in people for fact in self.facts_about(person) if fact not in facts]
        sentences = [strip_markup(self.state(fact, language, rng.randrange(4))) for fact in facts]
        index = rng.randrange(len(facts))
        answer = self.answer(facts[index], language)
        separator = SENTENCE_SEPARATOR[language]
        start = len(separator.join([*sentences[:index], ""])) + sentences[index].index(answer)
        event = strip_markup(self._translation_pair(rng, rng.choice(self._events[split]))[language == "zh"])
        impossible = turn % 4 == 3
        return {
            "id": f"town-{self.seed}-{language}-{split}-{turn}",
            "context": separator.join([*sentences, event]),
            "question": self.question(rng.choice(missing) if impossible else facts[index], language),
            "answers": [] if impossible else [{"text": answer, "answer_start": start}],
            "is_impossible": impossible,
        }

    def _translate(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        """Translation from `language` into the other one."""
        if turn % 4 == 3:
            people = self._unrelated_people(rng, split)
            stated = [(rng.choice(self.facts_about(person)), rng.randrange(4)) for person in people]
            texts = [
                SENTENCE_SEPARATOR[into].join(self.state(fact, into, variant) for fact, variant in stated)
                for into in LANGUAGES
            ]
        else:
            texts = list(self._translation_pair(rng, rng.choice(self._events[split])))
        source, target = texts if language == "en" else reversed(texts)
        return {"source": strip_markup(source), "target": strip_markup(target)}

    def _senses(self, rng: Random, language: Language, split: str, turn: int) -> Row:
        senses = self._events_by_sense[language, split]
        word, sense = sorted(senses)[turn % len(senses)]
        text, spans = parse_markup(self._translation_pair(rng, rng.choice(senses[word, sense]))[language == "zh"])
        span = next(span for span in spans if (text[span.start : span.end], span.label) == (word, sense))
        return {"text": text, "word": word, "start": span.start, "end": span.end, "sense": sense}

    @cached_property
    def _events_by_sense(self) -> dict[tuple[Language, str], dict[tuple[str, str], list[Event]]]:
        found: dict[tuple[Language, str], dict[tuple[str, str], list[Event]]] = {}
        for language in LANGUAGES:
            for split, events in self._events.items():
                senses = found[language, split] = defaultdict(list)
                for event in events:
                    # Some fillers are ambiguous words themselves.
                    fillers = [word[language] for word in event.fillers.values() if "[" in word[language]]
                    for match in MARKUP.finditer(event.scene[language == "zh"] + "".join(fillers)):
                        senses[match[1], match[2]].append(event)
        return found


def _starts_with_subject(fact: Fact, language: Language, variant: int) -> bool:
    """Whether the statement begins with its subject, so that a pronoun can replace it."""
    template = fact_templates()[fact.kind][language].statements[variant]
    return template.startswith("{A} " if language == "en" else "{A}") and "," not in template and "，" not in template
