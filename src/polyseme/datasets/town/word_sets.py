"""Evaluation sets of single words and of grammar: word similarity, analogies, minimal pairs."""

from collections.abc import Iterator
from itertools import permutations
from random import Random

from polyseme.datasets.town.generator import Row, Town
from polyseme.datasets.town.lexicon import (
    Language,
    as_sentence,
    fill_template,
    jobs,
    strip_markup,
    template_pairs,
    templates,
    word_forms,
    words,
)


def word_pairs(language: Language = "en") -> Iterator[Row]:
    """300 pairs of words with similarities from 0 to 10, which depend on the categories of the words."""
    groups = {name: words()[name] for name in ("food", "animal", "pet", "thing", "tool", "colour")}
    groups |= {"job": [job.word for job in jobs()], "place": words()["places"], "weekday": words()["weekdays"]}
    names = {
        group: [strip_markup(member[language]) for member in members if " " not in member[language]]
        for group, members in groups.items()
    }
    related = ({"animal", "pet"}, {"tool", "thing"}, {"job", "place"})
    scores = {tuple(sorted(pair)): 8.5 for pair in _workplaces(language)}
    rng = Random(f"town words {language}")
    while len(scores) < 300:
        first = rng.choice(list(names))
        second = first if rng.random() < 0.3 else rng.choice(list(names))
        pair = tuple(sorted((rng.choice(names[first]), rng.choice(names[second]))))
        if pair[0] != pair[1]:
            scores.setdefault(pair, 7.0 if first == second else 5.0 if {first, second} in related else 0.5)
    for (word_a, word_b), score in scores.items():
        yield {"word_a": word_a, "word_b": word_b, "score": score}


def analogies(town: Town, language: Language = "en") -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Sections of questions "a is to b as c is to d"."""
    pairs: dict[str, list[tuple[str, ...]]] = {
        "gender": [(male, female) for male, female in templates()["genders"][language]],
        "job-workplace": list(_workplaces(language)),
        "husband-wife": [
            (person.short[language], town.people[person.spouse].short[language])
            for person in town.people
            if person.spouse is not None and person.gender == "man"
        ],
    }
    if language == "en":
        pairs["plural"] = [(word.en, word.plural) for name in ("food", "animal", "tool") for word in words()[name]]
    for section, found in pairs.items():
        yield section, [(*first, *second) for first, second in permutations(found, 2) if first[1] != second[1]]


def minimal_pairs(town: Town, phenomenon: str, count: int, language: Language = "en") -> Iterator[Row]:
    """Grammatical and ungrammatical sentences that differ in one phenomenon."""
    rng = Random(f"town {town.seed} {phenomenon} {language}")
    seen: set[str] = set()
    while len(seen) < count:
        pair = rng.choice(template_pairs("minimal_pairs", language, phenomenon))
        number = rng.randrange(len(words()["numbers"]))
        slots = {"n": words()["numbers"][number][language]}
        for role, person in zip("AB", rng.sample(town.people, 2), strict=True):
            slots |= person.slots(role, language)
        for name, word in town.choose_fillers(rng, " ".join(pair)).items():
            slots |= word_forms(name, word, language, number)
        good, bad = (strip_markup(as_sentence(fill_template(template, slots), language)) for template in pair)
        if good not in seen and good != bad:
            seen.add(good)
            yield {"good": good, "bad": bad, "field": "syntax", "term": phenomenon}


def _workplaces(language: Language) -> Iterator[tuple[str, str]]:
    for job in jobs():
        if " " not in job.place[language]:
            yield job.word[language], job.place[language]
