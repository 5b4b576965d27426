"""Pairs of sentences: read in every form, scored as the transformers library would, counted by set and phenomenon."""

import json
import math
from pathlib import Path

import pytest
import torch
from random_models import random_model

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.minimal_pairs import PairSet, drawn, read_pairs, score_pairs
from polyseme.scoring import Score

BLIMP = Path(__file__).parents[3] / "shared/data/minimal_pairs/blimp"


def score(nats, num_unknown=0):
    return Score(kind="likelihood", nats=nats, num_tokens=1, num_words=1, num_characters=1, num_unknown=num_unknown)


def row(good, bad, **names):
    return json.dumps({"sentence_good": good, "sentence_bad": bad, **names}) + "\n"


@pytest.fixture
def sets(tmp_path):
    """Three sets of two phenomena and two fields; how likely a sentence is, its number tells."""
    folder = tmp_path / "pairs"
    folder.mkdir()
    names = {"field": "syntax", "linguistics_term": "islands"}
    (folder / "a.jsonl").write_text(
        row("1", "2", UID="first", **names) + row("5", "3", UID="first", **names) + row("4", "4", UID="first", **names)
    )
    (folder / "second.jsonl").write_text(
        '{"good": "1", "bad": "7?", "field": "syntax", "term": "islands"}\n{"good": "1", "bad": "8"}\n'
    )
    names = {"field": "morphology", "linguistics_term": "agreement"}
    (folder / "c.jsonl").write_text(row("9", "2?", UID="third", **names) + row("3", "9", UID="third", **names))
    (folder / "README.md").write_text("not a set")
    return folder


def by_number(sentences):
    return [score(float(one.rstrip("?")), num_unknown="?" in one) for one in sentences]


def test_by_hand(sets):
    found = score_pairs("pairs", read_pairs(sets), by_number)
    assert [(one.name, one.section, one.measure, one.value, one.num_found, one.num_items) for one in found] == [
        ("first", "", "accuracy", 0.5, 3, 3),  # right, wrong, and a tie
        ("third", "", "accuracy", 0.5, 1, 2),
        ("second", "", "accuracy", 1.0, 1, 2),
        ("pairs", "phenomenon: agreement", "accuracy", 0.5, 1, 2),
        ("pairs", "phenomenon: islands", "accuracy", 0.75, 4, 5),
        ("pairs", "field: morphology", "accuracy", 0.5, 1, 2),
        ("pairs", "field: syntax", "accuracy", 0.75, 4, 5),
        ("pairs", "", "accuracy", pytest.approx(2 / 3), 5, 7),
        ("pairs", "", "accuracy, known words", pytest.approx(2.5 / 3), 5, 7),
    ]
    errors = [math.sqrt(0.25 / 3), 0.5, 0.0]  # deviations 0.5, 0.707 and 0 over the roots of 3, 2 and 2
    assert [one.error for one in found[:3]] == pytest.approx(errors)
    assert found[-2].error == pytest.approx(math.sqrt(errors[0] ** 2 + errors[1] ** 2) / 3)
    assert found[-1].error is None, "of one known pair nothing can be told"


def test_a_single_set_is_all_there_is(sets):
    (found,) = score_pairs("a", read_pairs(sets / "a.jsonl"), by_number)
    assert (found.name, found.value, found.num_items) == ("first", 0.5, 3)


def test_differences_that_are_none(sets):
    wobbling = iter([1e-6, -1e-6] * 10)

    def nearly(sentences):
        return [score(50 + next(wobbling)) for _ in sentences]

    assert {one.value for one in score_pairs("pairs", read_pairs(sets), nearly)} == {0.5}


def test_a_set_is_scored_at_once(sets):
    calls = []

    def counting(sentences):
        calls.append(len(sentences))
        return by_number(sentences)

    score_pairs("pairs", read_pairs(sets), counting)
    assert calls == [6, 4, 4]


def test_pairs_are_drawn_by_seed():
    of = PairSet(name="of", phenomenon="", field="", pairs=[(str(n), str(n)) for n in range(100)])
    some = drawn(of, 10, 0).pairs
    assert some == drawn(of, 10, 0).pairs == sorted(some, key=lambda pair: int(pair[0])) and len(some) == 10
    assert drawn(of, 10, 1).pairs != some and drawn(of, 0, 0) is of and drawn(of, 100, 0) is of


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "holds no pairs; give rows with sentence_good and sentence_bad"),
        ('{"sentence_good": "a"}', "no column 'sentence_bad'"),
        ('{"sentence_good": "a", "sentence_bad": ""}', "line 1: the bad sentence is no text"),
        ('{"good": 3, "bad": "b"}', "line 1: the good sentence is no text"),
        ("{", "line 1: not JSON"),
    ],
)
def test_files_that_are_broken(tmp_path, content, why):
    (tmp_path / "pairs.jsonl").write_text(content)
    with pytest.raises(DataError, match=why):
        read_pairs(tmp_path / "pairs.jsonl")


def test_models_that_score_nothing(sets, tmp_path):
    (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
    with pytest.raises(ConfigError, match="cannot score text"):
        ps.load(tmp_path / "vectors.txt").evaluate(sets, suite="minimal-pairs")


def some_pairs():
    """Five hundred pairs of BLiMP from all of its sets, or as many made up."""
    if BLIMP.is_dir():
        sets = read_pairs(BLIMP)
        return [pair for one in sets for pair in one.pairs[:8]][:500]
    nouns, verbs = ["bank", "river", "farmer", "mill", "spring"], ["lends", "sleeps", "broke", "came", "looked"]
    words = [(noun, verb, number) for noun in nouns for verb in verbs for number in range(20)]
    return [(f"The {noun} {verb} on day {n}.", f"The {noun} on {verb} day {n}.") for noun, verb, n in words]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_scores_agree_with_transformers(family, tmp_path):
    """A directory of random weights, opened by both; theirs reads one sentence after the other, without padding."""
    import transformers

    pairs = some_pairs()
    assert len(pairs) == 500
    sentences = [sentence for pair in pairs for sentence in pair]
    random_model(family, sentences, "model.max_length=128", "model.vocab_size=2000", folder=tmp_path / family)
    model = ps.load(tmp_path / family)
    kind = transformers.AutoModelForCausalLM if family == "gpt2" else transformers.AutoModelForPreTraining
    theirs = kind.from_pretrained(tmp_path / family).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / family)
    expected = []
    with torch.inference_mode():
        for sentence in sentences:
            ids = torch.tensor(tokenizer(sentence)["input_ids"])
            if family == "gpt2":  # a document begins after the end of another
                whole = torch.cat([torch.tensor([tokenizer.eos_token_id]), ids])
                chances = theirs(whole[None]).logits[0, :-1].log_softmax(-1)
                expected.append(-chances[torch.arange(len(ids)), ids].double().sum().item())
                continue
            places = torch.arange(1, len(ids) - 1)
            rows = ids.repeat(len(places), 1)
            rows[torch.arange(len(places)), places] = tokenizer.mask_token_id
            chances = theirs(rows).prediction_logits[torch.arange(len(places)), places].log_softmax(-1)
            expected.append(-chances[torch.arange(len(places)), ids[places]].double().sum().item())
    scores = model.score(sentences)
    # But for the letters of words that a BERT calls unknown, which the other library gives away.
    assert [one.nats - one.spelling for one in scores] == pytest.approx(expected, abs=1e-4, rel=0)
    known = [good.num_unknown + bad.num_unknown == 0 for good, bad in zip(scores[::2], scores[1::2], strict=True)]
    assert sum(known) > 490 and (family == "bert" or all(known))
    pairs = [pair for pair, told in zip(pairs, known, strict=True) if told]
    nats = [cost for cost, told in zip(zip(expected[::2], expected[1::2], strict=True), known, strict=True) if told]
    right = [0.5 if abs(bad - good) < 1e-4 else float(bad > good) for good, bad in nats]
    (tmp_path / "pairs.jsonl").write_text("".join(row(*pair) for pair in pairs))
    (found,) = model.evaluate(tmp_path / "pairs.jsonl", suite="minimal-pairs")
    assert found.value == pytest.approx(sum(right) / len(right)) and found.num_found == found.num_items == len(right)
