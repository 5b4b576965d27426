"""Minimal pairs: parsing, agreement with transformers, averages by set, phenomenon and field."""

import json
import math
from pathlib import Path

import pytest
import torch
from tests.evaluation.random_models import random_model

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.minimal_pairs import PairSet, read_pairs, sample_pairs, score_pairs
from polyseme.inference.scores import Score

BLIMP = Path(__file__).parents[3] / "shared/data/minimal_pairs/blimp"


def score(nats, num_oov=0):
    return Score(kind="likelihood", nats=nats, num_tokens=1, num_words=1, num_characters=1, num_oov=num_oov)


def row(good, bad, **names):
    return json.dumps({"sentence_good": good, "sentence_bad": bad, **names}) + "\n"


@pytest.fixture
def sets(tmp_path):
    """Three sets with two phenomena and two fields; each sentence is its own cost in nats."""
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
    return [score(float(one.rstrip("?")), num_oov="?" in one) for one in sentences]


def test_accuracy_by_set_phenomenon_and_field(sets):
    found = score_pairs("pairs", read_pairs(sets), by_number)
    assert [(one.name, one.section, one.metric, one.value, one.num_scored, one.num_items) for one in found] == [
        ("first", "", "accuracy", 0.5, 3, 3),  # correct, wrong, and a tie
        ("third", "", "accuracy", 0.5, 1, 2),
        ("second", "", "accuracy", 1.0, 1, 2),
        ("pairs", "phenomenon: agreement", "accuracy", 0.5, 1, 2),
        ("pairs", "phenomenon: islands", "accuracy", 0.75, 4, 5),
        ("pairs", "field: morphology", "accuracy", 0.5, 1, 2),
        ("pairs", "field: syntax", "accuracy", 0.75, 4, 5),
        ("pairs", "", "accuracy", pytest.approx(2 / 3), 5, 7),
        ("pairs", "", "accuracy, known words", pytest.approx(2.5 / 3), 5, 7),
    ]
    errors = [math.sqrt(0.25 / 3), 0.5, 0.0]  # standard deviations 0.5, 0.707 and 0 over the roots of 3, 2 and 2
    assert [one.standard_error for one in found[:3]] == pytest.approx(errors)
    assert found[-2].standard_error == pytest.approx(math.sqrt(errors[0] ** 2 + errors[1] ** 2) / 3)
    assert found[-1].standard_error is None, "one known pair has no standard error"


def test_single_set_has_no_averages(sets):
    (found,) = score_pairs("a", read_pairs(sets / "a.jsonl"), by_number)
    assert (found.name, found.value, found.num_items) == ("first", 0.5, 3)


def test_rounding_differences_are_ties(sets):
    wobbling = iter([1e-6, -1e-6] * 10)

    def nearly(sentences):
        return [score(50 + next(wobbling)) for _ in sentences]

    assert {one.value for one in score_pairs("pairs", read_pairs(sets), nearly)} == {0.5}


def test_set_is_scored_in_one_call(sets):
    calls = []

    def counting(sentences):
        calls.append(len(sentences))
        return by_number(sentences)

    score_pairs("pairs", read_pairs(sets), counting)
    assert calls == [6, 4, 4]


def test_sample_of_pairs_depends_on_the_seed():
    of = PairSet(name="of", phenomenon="", field="", pairs=[(str(n), str(n)) for n in range(100)])
    some = sample_pairs(of, 10, 0).pairs
    assert some == sample_pairs(of, 10, 0).pairs == sorted(some, key=lambda pair: int(pair[0])) and len(some) == 10
    assert sample_pairs(of, 10, 1).pairs != some and sample_pairs(of, 0, 0) == of and sample_pairs(of, 100, 0) == of


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "has no minimal pairs; give rows"),
        ('{"sentence_good": "a"}', "no column 'sentence_bad'"),
        ('{"sentence_good": "a", "sentence_bad": ""}', "line 1: the bad sentence is empty"),
        ('{"good": 3, "bad": "b"}', "line 1: the good sentence is empty"),
        ("{", "line 1: not JSON"),
    ],
)
def test_malformed_file_is_refused(tmp_path, content, why):
    (tmp_path / "pairs.jsonl").write_text(content)
    with pytest.raises(DataError, match=why):
        read_pairs(tmp_path / "pairs.jsonl")


def test_static_embeddings_are_refused(sets, tmp_path):
    (tmp_path / "vectors.txt").write_text("bank 1 2\nriver 3 4\n")
    with pytest.raises(ConfigError, match="cannot score"):
        ps.load(tmp_path / "vectors.txt").evaluate(sets, suite="minimal-pairs")


def some_pairs():
    """Five hundred pairs of BLiMP from all of its sets, or as many synthetic ones."""
    if BLIMP.is_dir():
        sets = read_pairs(BLIMP)
        return [pair for one in sets for pair in one.pairs[:8]][:500]
    nouns, verbs = ["bank", "river", "farmer", "mill", "spring"], ["lends", "sleeps", "broke", "came", "looked"]
    words = [(noun, verb, number) for noun in nouns for verb in verbs for number in range(20)]
    return [(f"The {noun} {verb} on day {n}.", f"The {noun} on {verb} day {n}.") for noun, verb, n in words]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_scores_agree_with_transformers(family, tmp_path):
    """A directory with random weights opened by both; transformers scores one sentence at a time, without padding."""
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
            if family == "gpt2":  # a document follows the end-of-text token
                whole = torch.cat([torch.tensor([tokenizer.eos_token_id]), ids])
                log_probabilities = theirs(whole[None]).logits[0, :-1].log_softmax(-1)
                expected.append(-log_probabilities[torch.arange(len(ids)), ids].double().sum().item())
                continue
            places = torch.arange(1, len(ids) - 1)
            rows = ids.repeat(len(places), 1)
            rows[torch.arange(len(places)), places] = tokenizer.mask_token_id
            log_probabilities = theirs(rows).prediction_logits[torch.arange(len(places)), places].log_softmax(-1)
            expected.append(-log_probabilities[torch.arange(len(places)), ids[places]].double().sum().item())
    scores = model.score(sentences)
    # Without the spelling cost of OOV words, which transformers does not have.
    assert [one.nats - one.oov_nats for one in scores] == pytest.approx(expected, abs=1e-4, rel=0)
    known = [good.num_oov + bad.num_oov == 0 for good, bad in zip(scores[::2], scores[1::2], strict=True)]
    assert sum(known) > 490 and (family == "bert" or all(known))
    pairs = [pair for pair, in_vocabulary in zip(pairs, known, strict=True) if in_vocabulary]
    costs = zip(expected[::2], expected[1::2], strict=True)
    nats = [cost for cost, in_vocabulary in zip(costs, known, strict=True) if in_vocabulary]
    right = [0.5 if abs(bad - good) < 1e-4 else float(bad > good) for good, bad in nats]
    (tmp_path / "pairs.jsonl").write_text("".join(row(*pair) for pair in pairs))
    (found,) = model.evaluate(tmp_path / "pairs.jsonl", suite="minimal-pairs")
    assert found.value == pytest.approx(sum(right) / len(right)) and found.num_scored == found.num_items == len(right)
