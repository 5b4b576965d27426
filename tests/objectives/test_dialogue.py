"""The dialogue response objective."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.objectives.test_sources import FIRST, SPECIALS, encoder_of, store_of

from polyseme.batch import IGNORED
from polyseme.corpora.corpus import DialogueCorpus
from polyseme.datasets.token_store import build_store
from polyseme.errors import ConfigError, DataError
from polyseme.families import build_objective
from polyseme.objectives.dialogue import FAKE, REAL, DialogueResponse
from polyseme.objectives.masked_lm import MaskedLmConfig
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.masking_units import MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer

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
        return DialogueCorpus(path, column="turns")
    path.write_text("\n\n".join("\n".join(turns) for turns in TURNS))
    return DialogueCorpus(path)


@pytest.fixture
def tokenizer():
    config = TokenizerConfig(kind="wordpiece", specials="bert", min_count=1)
    return Tokenizer.train(config, ["\n".join(turns) for turns in TURNS], vocab_size=200)


def test_turns_are_the_sentences_of_the_store(dialogues, tokenizer, tmp_path):
    store = build_store(dialogues, tokenizer, tmp_path / "store", fingerprint="-")
    assert np.diff(store.documents).tolist() == [len(turns) for turns in TURNS]
    turns = [turn for turns in TURNS for turn in turns]
    for number, turn in enumerate(turns):
        ids = store.tokens[store.sentences[number] : store.sentences[number + 1]].tolist()
        ends = [tokenizer.specials.end] if number + 1 in store.documents else []
        assert ids == tokenizer.encode(turn, specials=False).ids + ends


def test_turns_must_be_strings(tmp_path):
    (tmp_path / "talk.jsonl").write_text('{"turns": ["a", 1]}')
    with pytest.raises(DataError, match="line 1: 'turns' is not a string"):
        list(DialogueCorpus(tmp_path / "talk.jsonl", column="turns"))


dialogue_lengths = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=6), min_size=2, max_size=6)


@settings(max_examples=60)
@given(dialogue_lengths, st.integers(16, 50), st.integers(1, 6), st.integers(0, 50))
def test_sequences_are_three_turns_with_their_speakers(lengths, row_length, num_rows, step):
    store = store_of(lengths)
    objective = DialogueResponse(encoder_of(store), SPECIALS)
    batch = objective.batch(TokenSource(store, row_length, num_rows), seed=1, step=step)
    longest = (row_length - 4) // 3
    owner = np.repeat(np.arange(store.num_documents), np.diff(store.documents))
    rows = zip(batch.ids.tolist(), batch.mask.tolist(), batch.segments.tolist(), strict=True)
    for (ids, mask, segments), label in zip(rows, batch.labels["dialogue"].tolist(), strict=True):
        end = sum(mask)
        assert ids[0] == 2 and ids[end - 1] == 3 and mask == [True] * end + [False] * (row_length - end)
        assert set(ids[end:]) <= {0}
        turns, roles, start = [], [], 1
        while start < end:
            stop = ids.index(3, start)
            part = [id - FIRST for id in ids[start:stop]]
            turn = int(np.searchsorted(store.sentences, part[0], side="right")) - 1
            whole = range(store.sentences[turn], store.sentences[turn + 1])
            assert part == list(whole[:longest])
            assert len(set(segments[start : stop + 1])) == 1
            turns.append(turn)
            roles.append(segments[start])
            start = stop + 1
        assert roles in ([0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1], [0])
        documents = [int(owner[turn]) for turn in turns]
        if label == REAL:
            assert len(set(documents)) == 1 and turns == sorted(turns)
            steps = np.diff(turns).tolist()
            assert steps == {(0, 1, 0): [1, 1], (0, 1, 1): [1, 2], (0, 0, 1): [2, 1]}.get(
                tuple(roles), [1] * len(steps)
            )
        else:
            replaced = len(roles) - 1 - roles[::-1].index(1)
            assert documents.pop(replaced) not in documents and len(set(documents)) == 1


def test_labels_are_balanced_and_all_role_patterns_occur():
    store = store_of([[4] * 8 for _ in range(20)])
    objective = DialogueResponse(encoder_of(store), SPECIALS)
    batches = [objective.batch(TokenSource(store, 24, 50), seed=0, step=step) for step in range(10)]
    labels = np.concatenate([batch.labels["dialogue"].numpy() for batch in batches])
    assert set(labels.tolist()) == {REAL, FAKE} and 0.42 < labels.mean() < 0.58
    patterns = {tuple(row[[1, 6, 11]].tolist()) for batch in batches for row in batch.segments}
    assert patterns == {(0, 1, 0), (0, 1, 1), (0, 0, 1)}


@pytest.mark.parametrize("masking", ["token", "word"])
def test_masking_selects_15_percent_of_the_real_tokens(dialogues, tokenizer, tmp_path, masking):
    store = build_store(
        dialogues, tokenizer, tmp_path / "store", fingerprint="-", units=MaskingUnits(MaskingUnitsConfig())
    )
    encoder = encoder_of(store, num_segments=2)
    objective = build_objective(MaskedLmConfig(pairs="dialogue", masking=masking), encoder, tokenizer.specials)
    assert objective.names == ("dialogue", "masked_lm")
    num_masked = num_real = 0
    for step in range(40):
        batch = objective.batch(TokenSource(store, 48, 8), seed=0, step=step)
        masked = batch.labels["masked_lm"] != IGNORED
        assert not bool((masked & ~batch.mask).any())
        num_masked, num_real = num_masked + int(masked.sum()), num_real + int(batch.mask.sum())
    assert num_masked / num_real == pytest.approx(0.15, abs=0.006)
    output = objective(encoder, batch)
    assert set(output.losses) == {"dialogue", "masked_lm"}


def test_families_without_segments_are_rejected():
    store = store_of([[5, 5]])
    with pytest.raises(ConfigError, match=r"model\.num_segments=2"):
        DialogueResponse(encoder_of(store, num_segments=1), SPECIALS)
