"""An ELMo from pretraining to inference."""

import numpy as np
import pytest
import torch

import polyseme
from polyseme.errors import ConfigError

SIZES = ["model.vocab_size=80", "model.width=16", "model.cell_width=24", "model.filters=[[1, 8], [2, 8]]"]
PLAN = ["data.sequence_length=16", "training.batch_tokens=128", "training.threads=1", "training.learning_rate=1e-2"]
SETTINGS = [*SIZES, *PLAN, "tokenizer.segmenter=none"]


@pytest.fixture(scope="module")
def model(corpus_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "elmo"
    return polyseme.pretrain(
        "elmo", size="tiny", corpus=corpus_file, dev=corpus_file, out=out, budget="100steps", settings=SETTINGS
    )


def test_both_perplexities_are_recorded(model):
    facts = polyseme.loading.describe(model.folder)
    for way in ("forward", "backward"):
        assert facts["dev"][f"{way}_perplexity"] == pytest.approx(np.exp(facts["dev"][way]))
        assert facts["dev"][f"{way}_perplexity"] < 80
    assert 0 < facts["dev"]["bits_per_character"] < 8


def test_out_of_vocabulary_words_have_vectors(model):
    known, new = model.encode(["the old bank", "the odd banc"])
    assert known.tokens == ["<S>", "the", "old", "bank", "</S>"] and len(known.layers) == 3
    assert np.array_equal(known.layers[0][1], new.layers[0][1])
    assert not np.allclose(known.layers[0][2:4], new.layers[0][2:4], atol=1e-4)
    assert model.embed(["他在苹果公司上班", ""]).shape == (2, 32)
    together = model.embed(["the old bank", "spring came late this year"])
    np.testing.assert_allclose(together[:1], model.embed(["the old bank"]), atol=1e-5)


def test_contextual_vectors_depend_on_the_position(model):
    layers = model.encode(["the old bank by the bank"])[0].layers
    assert np.array_equal(layers[0][3], layers[0][6]) and not np.allclose(layers[-1][3], layers[-1][6], atol=1e-3)


def test_scoring_and_generation(model):
    likely, unlikely = model.score(["the old bank by the river", "river the by bank old the"])
    assert likely.kind == "likelihood" and likely.nats < unlikely.nats
    written = model.generate("the old", max_tokens=5)
    assert written == model.generate(["the old"], max_tokens=5)[0] and written
    # A word at a time from a state is as likely as all at once.
    head, ids = model.objective.parts[0], model.tokenizer.encode("the old bank", specials=False).ids
    row = torch.tensor([[0, *ids]])
    whole = head.hidden_states(model.encoder(polyseme.batch.Batch.of(row)))
    state = model.encoder.new_state(1, 4)
    for place in range(4):
        encoded = model.encoder(polyseme.batch.Batch.of(row[:, place : place + 1]), state)
        state = encoded.state
        torch.testing.assert_close(head.hidden_states(encoded)[:, 0], whole[:, place])


def test_neighbours_and_missing_capabilities(model):
    assert len(model.neighbours("bank", top=3)) == 3
    with pytest.raises(ConfigError, match="cannot fill"):
        model.fill("the [MASK] bank")
    with pytest.raises(ConfigError, match="ONNX"):
        model.export(model.folder.parent / "graph", to="onnx", texts=["the old bank"])
    with pytest.raises(ConfigError, match="int8"):
        polyseme.load(model.folder, weights="int8")


def test_model_can_be_saved_and_adapted(model, corpus_file, tmp_path):
    model.save(tmp_path / "again")
    again = polyseme.load(tmp_path / "again")
    assert np.array_equal(again.embed(["the old bank"]), model.embed(["the old bank"]))
    adapted = polyseme.adapt(
        model.folder, corpus=corpus_file, dev=corpus_file, out=tmp_path / "adapted", budget="4steps"
    )
    assert torch.equal(adapted.encoder.tokens.vocabulary, model.encoder.tokens.vocabulary)
    assert adapted.score(["the old bank"])[0].nats != model.score(["the old bank"])[0].nats
