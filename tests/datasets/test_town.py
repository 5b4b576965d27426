"""The town is deterministic and consistent, and its labels are correct."""

import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from polyseme.datasets.town.generator import SPLITS, Town
from polyseme.datasets.town.lexicon import (
    LANGUAGES,
    MARKUP,
    SLOT,
    fact_templates,
    parse_markup,
    scenes,
    strip_markup,
    templates,
    words,
)
from polyseme.datasets.town.word_sets import analogies, minimal_pairs, word_pairs
from polyseme.datasets.town.world import Person
from polyseme.datasets.town.writers import write_town
from polyseme.errors import DataError

KINDS = ("classify", "tag", "pair", "similarity", "choice", "span", "translate", "senses")


def scene_templates():
    return sorted({scene for pairs in scenes().values() for scene in pairs})


@pytest.fixture(scope="module")
def town():
    return Town(0)


@pytest.fixture(scope="module")
def rows(town):
    """A few hundred rows of each kind, language and split."""
    sizes = {"train": 320, "dev": 80, "test": 80}
    return {
        (kind, language, split): list(town.labelled_rows(kind, sizes[split], language=language, split=split))
        for kind in KINDS
        for language in LANGUAGES
        for split in SPLITS
    }


def test_deterministic_across_processes(town):
    code = """
import json
from polyseme.datasets.town.generator import Town
town = Town(0)
rows = [*town.documents(6), *town.labelled_rows("pair", 5), *town.labelled_rows("senses", 5, language="zh")]
print(json.dumps(rows))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": "7"})
    here = [*town.documents(6), *town.labelled_rows("pair", 5), *town.labelled_rows("senses", 5, language="zh")]
    assert json.loads(out.stdout) == here


def test_seeds_give_different_towns(town):
    assert list(Town(1).documents(3)) != list(town.documents(3))


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_seed_generates_every_kind(seed):
    other = Town(seed)
    for kind in KINDS:
        for language in LANGUAGES:
            assert len(list(other.labelled_rows(kind, 30, language=language, split="dev"))) == 30


def test_templates_have_the_same_slots_in_both_languages():
    for english, chinese in scene_templates():
        assert {match[1] for match in SLOT.finditer(english)} == {match[1] for match in SLOT.finditer(chinese)}, english
        assert not re.search(r"\ban? \{", english), "write {slot.a} instead of an article before a slot"
    for wordings in fact_templates().values():
        assert len(wordings["en"].statements) == len(wordings["zh"].statements) == 4


@pytest.mark.parametrize(("column", "num_words"), [(0, 12), (1, 8)])
def test_ambiguous_words_have_several_contexts_per_sense(column, num_words):
    contexts = Counter(match.groups() for scene in scene_templates() for match in MARKUP.finditer(scene[column]))
    senses = Counter(word for word, _ in contexts)
    assert len(senses) >= num_words
    assert min(senses.values()) >= 2
    assert min(contexts.values()) >= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_documents_are_short_clean_and_varied(town, language):
    documents = list(town.documents(400, language))
    assert len(set(documents)) == 400
    end = r"(?<=\.) " if language == "en" else r"(?<=。)(?=.)"
    sentences = [re.split(end, document) for document in documents]
    assert all(5 <= len(document) <= 15 for document in sentences)
    assert not any(
        re.search(r"[\[\]{}|\n!]|  |that that|\ba [aeiou]|\ban [^aeiou]", document) for document in documents
    )
    flat = [sentence for document in sentences for sentence in document]
    assert len(set(flat)) > 0.8 * len(flat)
    if language == "en":
        assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in flat)
        assert len(set(re.findall(r"[a-z]+", " ".join(documents)))) > 600


def test_document_splits_have_different_days(town):
    def days(split):
        return {re.search(r"\d+ [A-Z]\w+", text)[0] for text in town.documents(300, split=split)}

    assert days("train").isdisjoint(days("dev"))


def test_world_is_consistent(town):
    assert (
        len({person.short.en for person in town.people})
        == len({person.short.zh for person in town.people})
        == len(town.people)
    )
    for person in town.people:
        if person.spouse is not None:
            spouse = town.people[person.spouse]
            assert town.people[spouse.spouse] is person and spouse.home == person.home
        if person.mother is not None:
            mother = town.people[person.mother]
            assert mother.age >= person.age + 14 and mother.home == person.home and person.job is None
    opposite = {place.word: place.opposite for place in town.places}
    streets = {place.word: place.street for place in town.places}
    for place, other in opposite.items():
        assert opposite[other] == place and streets[other] == streets[place]
    for day in town.outings:
        # Nobody has two outings on a day, or two events in one part of it.
        assert max(Counter(person.number for outing in day for person in outing.people).values()) == 1
        events = [event for outing in day for event in outing.events]
        assert max(Counter((person.number, event.part) for event in events for person in event.people).values()) == 1
        assert all(event.absent not in event.people for event in events)


def test_documents_state_true_facts(town):
    text = " ".join(town.documents(800))
    people = {person.full.en: person for person in town.people}
    places = {place.word.en: place for place in town.places}
    worked = re.findall(r"(\w+ \w+) works at the ([\w ]+)[.,]", text)
    facing = re.findall(r"The ([a-z ]+) is opposite the ([a-z ]+)\.", text)
    ages = re.findall(r"([A-Z]\w+ [A-Z]\w+) is ([\w-]+) years old", text)
    assert min(map(len, (worked, facing, ages))) > 5
    for name, place in worked:
        if name in people:
            assert people[name].job.place.en == place
    for place, other in facing:
        assert places[place].opposite.en == other
    for name, age in ages:
        assert town.facts[people[name], "age"].value.en == age


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_distinct_within_and_between_splits(rows, kind, language):
    def key(row):
        return json.dumps({name: value for name, value in row.items() if name != "id"})

    keys = {split: [key(row) for row in rows[kind, language, split]] for split in SPLITS}
    assert all(len(set(found)) == len(found) for found in keys.values())
    assert set(keys["train"]).isdisjoint(keys["dev"]) and set(keys["train"]).isdisjoint(keys["test"])
    assert set(keys["dev"]).isdisjoint(keys["test"])
    lead = {"pair": "text_a", "similarity": "text_a", "span": "context", "classify": "text", "senses": "text"}.get(kind)
    if lead:
        inputs = [{row[lead] for row in rows[kind, language, split]} for split in SPLITS]
        assert not (inputs[0] & inputs[1] or inputs[0] & inputs[2] or inputs[1] & inputs[2])


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_are_balanced(rows, language):
    for kind, label, num_labels in (("classify", "label", 7), ("pair", "label", 3), ("choice", "answer", 4)):
        counts = Counter(row[label] for row in rows[kind, language, "train"])
        assert len(counts) == num_labels and max(counts.values()) - min(counts.values()) <= 1
    scores = Counter(row["score"] for row in rows["similarity", language, "train"])
    assert len(scores) > 6 and min(scores) == 0 and max(scores) == 5 and max(scores.values()) < 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_tags_are_valid_bio_and_cover_names(town, rows, language):
    found = Counter()
    names = {word[language] for person in town.people for word in (person.full, person.short)}
    for row in rows["tag", language, "train"]:
        assert len(row["tokens"]) == len(row["tags"])
        before, entity = "O", []
        for token, tag in [*zip(row["tokens"], row["tags"], strict=True), ("", "O")]:
            assert tag == "O" or tag[:2] in ("B-", "I-")
            if tag.startswith("I-"):
                assert before[2:] == tag[2:]
            elif before == "O" or tag != before:
                if before.endswith("PERSON"):
                    assert (" " if language == "en" else "").join(entity) in names
                entity = []
            entity.append(token)
            found[tag[2:]] += tag.startswith("B-")
            before = tag
    assert min(found[label] for label in ("PERSON", "PLACE", "TIME", "JOB")) > 30


@pytest.mark.parametrize("language", LANGUAGES)
def test_answer_offsets(rows, language):
    found = rows["span", language, "train"]
    for row in found:
        assert row["is_impossible"] == (not row["answers"])
        for answer in row["answers"]:
            assert row["context"][answer["answer_start"] :].startswith(answer["text"])
    assert sum(row["is_impossible"] for row in found) == len(found) // 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_sense_offsets_and_coverage(rows, language):
    for split in SPLITS:
        for row in rows["senses", language, split]:
            assert row["text"][row["start"] : row["end"]] == row["word"]
    senses = {match.groups() for scene in scene_templates() for match in MARKUP.finditer(scene[language == "zh"])}
    assert {(row["word"], row["sense"]) for row in rows["senses", language, "train"]} == senses


def possible_statements(town, language):
    """Every sentence that states or denies a fact, with the fact, the value and whether it is a denial."""
    meaning = {}
    values = {kind: {fact.value for fact in town.facts.values() if fact.kind == kind} for kind in fact_templates()}
    for fact in town.facts.values():
        if isinstance(fact.subject, Person):
            for value in values[fact.kind]:
                for variant in range(-1, 4):
                    text = strip_markup(town.state(fact, language, variant, value=value))
                    meaning[text] = (fact, value, variant < 0)
    return meaning


@pytest.mark.parametrize("language", LANGUAGES)
def test_entailment_labels(town, rows, language):
    meaning = possible_statements(town, language)
    for row in rows["pair", language, "train"]:
        fact, value, denied = meaning[row["text_b"]]
        end = r"(?<=\.) " if language == "en" else r"(?<=。)(?=.)"
        premise = [meaning[sentence] for sentence in re.split(end, row["text_a"])]
        assert all(known.value == stated and not denial for known, stated, denial in premise)
        if fact not in [known for known, _, _ in premise]:
            expected = "neutral"
        else:
            expected = "entailment" if (value == fact.value) != denied else "contradiction"
        assert row["label"] == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_choices_are_distinct_and_the_answer_is_in_the_context(rows, language):
    for row in rows["choice", language, "train"]:
        assert len(set(row["choices"])) == 4
        assert row["choices"][row["answer"]] in row["context"]


def test_translations_mention_the_same_people(town, rows):
    for row in rows["translate", "en", "train"]:
        for person in town.people:
            assert (person.short.en in row["source"].split()) <= (person.short.zh in row["target"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_minimal_pairs_differ(town, language):
    for phenomenon in templates()["minimal_pairs"][language]:
        for row in minimal_pairs(town, phenomenon, 100, language):
            assert row["good"] != row["bad"] and row["good"][-1] == row["bad"][-1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_word_sets_use_words_of_the_corpus(town, language):
    text = " ".join(town.documents(2000, language))
    known = set(re.findall(r"[\w]+", text)) if language == "en" else text
    pairs = list(word_pairs(language))
    assert len(pairs) == len({(row["word_a"], row["word_b"]) for row in pairs}) == 300
    assert {row["score"] for row in pairs} == {0.5, 5.0, 7.0, 8.5}
    found = {word for _, section in analogies(town, language) for row in section for word in row}
    found |= {row[name] for row in pairs for name in ("word_a", "word_b")}
    assert {word for word in found if word not in known} == set()


def test_markup_is_parsed_into_spans():
    text, spans = parse_markup("[Anna|PERSON] sat on the [bank|river].")
    assert text == "Anna sat on the bank."
    assert [(text[span.start : span.end], span.label) for span in spans] == [("Anna", "PERSON"), ("bank", "river")]


def test_nouns_have_plurals_and_measure_words():
    assert all(
        word.plural and word.measure_word
        for name in ("food", "animal", "pet", "thing", "tool")
        for word in words()[name]
    )


def test_file_formats(tmp_path):
    write_town(tmp_path, num_documents=64, num_rows=160)
    for suffix in ("", "_zh"):
        for kind, header in (
            ("classify", "text\tlabel"),
            ("pair", "text_a\ttext_b\tlabel"),
            ("similarity", "text_a\ttext_b\tscore"),
            ("translate", "source\ttarget"),
            ("senses", "text\tword\tstart\tend\tsense"),
        ):
            lines = (tmp_path / f"{kind}{suffix}" / "train.tsv").read_text("utf-8").splitlines()
            assert lines[0] == header and len(lines) == 161
            assert all(line.count("\t") == header.count("\t") for line in lines)
        sentences = (tmp_path / f"tag{suffix}" / "dev.conll").read_text("utf-8").split("\n\n")
        assert len(sentences) == 20 and all(line.count("\t") == 1 for line in sentences[0].splitlines())
        squad = json.loads((tmp_path / f"span{suffix}" / "test.json").read_text("utf-8"))
        assert squad["version"] == "v2.0" and len(squad["data"][0]["paragraphs"]) == 20
        row = json.loads((tmp_path / f"choice{suffix}" / "dev.jsonl").read_text("utf-8").splitlines()[0])
        assert list(row) == ["context", "choices", "answer"]
    assert (tmp_path / "en.train.txt").read_text("utf-8").count("\n\n") == 63


def test_requesting_too_many_rows(monkeypatch):
    town = Town(0)
    monkeypatch.setattr(town, "_pair", lambda *_: {"text_a": "a", "text_b": "b", "label": "neutral"})
    with pytest.raises(DataError, match="only 1 distinct train rows"):
        list(town.labelled_rows("pair", 2))
