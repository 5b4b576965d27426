"""Dialogues: how turns become rows, and which of them are real."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rows import FIRST, SPECIALS, encoder_of, store_of

from polyseme.errors import ConfigError, DataError
from polyseme.objectives import Source, build_objective
from polyseme.objectives.dialogue import FAKE, REAL, RealDialogue
from polyseme.objectives.masked import MaskedConfig
from polyseme.tensors import IGNORED
from polyseme.text.dialogues import Dialogues
from polyseme.text.store import build_store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, UnitsConfig
from polyseme.text.vocabulary import TokenizerConfig

TURNS = [
    ["你好，请问图书馆在哪里？", "图书馆在银行的旁边。", "谢谢你，现在开门吗？", "已经关门了。明天早上九点开门。"],
    ["Where is the library?", "It is beside the bank. Go straight.", "Thank you! Is it open now?"],
    [
        "What will the weather be tomorrow?",
        "Sunny in the morning, and rain in the afternoon.",
        "Then I take an umbrella.",
    ]
    * 2,
] * 5


@pytest.fixture(params=["jsonl", "txt"])
def dialogues(request, tmp_path):
    path = tmp_path / f"talk.{request.param}"
    if request.param == "jsonl":
        path.write_text("\n".join(json.dumps({"turns": turns}, ensure_ascii=False) for turns in TURNS))
        return Dialogues(path, column="turns")
    path.write_text("\n\n".join("\n".join(turns) for turns in TURNS))
    return Dialogues(path)


@pytest.fixture
def tokenizer():
    config = TokenizerConfig(kind="wordpiece", specials="bert", min_count=1)
    return Tokenizer.train(config, ["\n".join(turns) for turns in TURNS], vocab_size=200)


def test_a_store_of_dialogues_has_turns_for_sentences(dialogues, tokenizer, tmp_path):
    store = build_store(dialogues, tokenizer, tmp_path / "store")
    assert np.diff(store.documents).tolist() == [len(turns) for turns in TURNS]
    turns = [turn for turns in TURNS for turn in turns]
    for number, turn in enumerate(turns):
        ids = store.tokens[store.sentences[number] : store.sentences[number + 1]].tolist()
        ends = [tokenizer.specials.end] if number + 1 in store.documents else []
        assert ids == tokenizer.encode(turn, specials=False).ids + ends


def test_turns_are_strings(tmp_path):
    (tmp_path / "talk.jsonl").write_text('{"turns": ["a", 1]}')
    with pytest.raises(DataError, match="line 1: 'turns' is not a string"):
        list(Dialogues(tmp_path / "talk.jsonl", column="turns"))


dialogue_lengths = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=6), min_size=2, max_size=6)


@settings(max_examples=60)
@given(dialogue_lengths, st.integers(16, 50), st.integers(1, 6), st.integers(0, 50))
def test_rows_are_three_turns_of_those_who_speak(lengths, row_length, num_rows, step):
    store = store_of(lengths)
    objective = RealDialogue(encoder_of(store), SPECIALS)
    batch = objective.batch(Source(store, row_length, num_rows), seed=1, step=step)
    longest = (row_length - 4) // 3
    owner = np.repeat(np.arange(store.num_documents), np.diff(store.documents))
    rows = zip(batch.ids.tolist(), batch.mask.tolist(), batch.segments.tolist(), strict=True)
    for (ids, mask, segments), label in zip(rows, batch.labels["dialogue"].tolist(), strict=True):
        end = sum(mask)
        assert ids[0] == 2 and ids[end - 1] == 3 and mask == [True] * end + [False] * (row_length - end)
        assert set(ids[end:]) <= {0}
        turns, roles, place = [], [], 1
        while place < end:
            stop = ids.index(3, place)
            part = [id - FIRST for id in ids[place:stop]]
            turn = int(np.searchsorted(store.sentences, part[0], side="right")) - 1
            whole = range(store.sentences[turn], store.sentences[turn + 1])
            assert part == list(whole[:longest])
            assert len(set(segments[place : stop + 1])) == 1
            turns.append(turn)
            roles.append(segments[place])
            place = stop + 1
        assert roles in ([0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1], [0])
        documents = [int(owner[turn]) for turn in turns]
        if label == REAL:
            assert len(set(documents)) == 1 and turns == sorted(turns)
            steps = np.diff(turns).tolist()
            assert steps == {(0, 1, 0): [1, 1], (0, 1, 1): [1, 2], (0, 0, 1): [2, 1]}.get(
                tuple(roles), [1] * len(steps)
            )
        else:
            strange = len(roles) - 1 - roles[::-1].index(1)
            assert documents.pop(strange) not in documents and len(set(documents)) == 1


def test_half_of_the_dialogues_are_real_and_all_forms_occur():
    store = store_of([[4] * 8 for _ in range(20)])
    objective = RealDialogue(encoder_of(store), SPECIALS)
    batches = [objective.batch(Source(store, 24, 50), seed=0, step=step) for step in range(10)]
    labels = np.concatenate([batch.labels["dialogue"].numpy() for batch in batches])
    assert set(labels.tolist()) == {REAL, FAKE} and 0.42 < labels.mean() < 0.58
    forms = {tuple(row[[1, 6, 11]].tolist()) for batch in batches for row in batch.segments}
    assert forms == {(0, 1, 0), (0, 1, 1), (0, 0, 1)}


@pytest.mark.parametrize("masking", ["token", "word"])
def test_what_is_hidden_is_a_share_of_what_is_said(dialogues, tokenizer, tmp_path, masking):
    store = build_store(dialogues, tokenizer, tmp_path / "store", units=Units(UnitsConfig()))
    encoder = encoder_of(store, num_segments=2)
    objective = build_objective(MaskedConfig(pairs="dialogue", masking=masking), encoder, tokenizer.specials)
    assert objective.names == ("dialogue", "masked")
    hidden = said = 0
    for step in range(40):
        batch = objective.batch(Source(store, 48, 8), seed=0, step=step)
        chosen = batch.labels["masked"] != IGNORED
        assert not bool((chosen & ~batch.mask).any())
        hidden, said = hidden + int(chosen.sum()), said + int(batch.mask.sum())
    assert hidden / said == pytest.approx(0.15, abs=0.006)
    outcome = objective(encoder, batch)
    assert set(outcome.losses) == {"dialogue", "masked"}


def test_families_without_segments_cannot_tell_who_speaks():
    store = store_of([[5, 5]])
    with pytest.raises(ConfigError, match=r"objective\.pairs: a dialogue needs segments"):
        RealDialogue(encoder_of(store, num_segments=1), SPECIALS)
