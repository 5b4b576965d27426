"""The null token at the start of sequences, in training and inference."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

import polyseme as ps
from polyseme.batch import IGNORED, Batch
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import ConfigError
from polyseme.inference.generation import GenerationConfig, generate_batch
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.sources import TokenSource
from polyseme.tasks.inputs.input_formatter import InputFormatter, add_delimiters
from polyseme.tokenization.config import NULL_TOKEN
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

TINY = [
    "model.vocab_size=400",
    "model.width=32",
    "model.max_length=24",
    "data.sequence_length=24",
    "training.batch_tokens=240",
]
TINY += ["training.threads=1", "data.first_token=null"]
TEXT = "the old bank by the river lends money to every farmer who can swim"


@pytest.fixture(scope="module", params=["gpt2", "gpt"])
def model(request, corpus_file, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        given = {"corpus": corpus_file, "dev": corpus_file, "size": "tiny", "budget": "20steps"}
        return ps.pretrain(request.param, out=place / "run", settings=TINY, **given)


def test_sequences_start_with_the_null_token_which_is_not_a_target():
    tokens = np.arange(5, 305, dtype=np.uint32)
    bounds = np.array([0, 300])
    rest = {"num_characters": 300, "num_words": 300, "num_unknown": 0, "fingerprint": ""}
    store = TokenStore(tokens=tokens, sentences=bounds, documents=np.array([0, 1]), **rest)
    source = TokenSource(store, 11, 3, prefix_ids=(4,))
    seen = []
    for step in range(10):  # an epoch
        batch = CausalLm().batch(source, seed=0, step=step)
        assert batch.ids.shape == (3, 11) and batch.counts["causal_lm"] == 30
        labels = batch.labels["causal_lm"]
        assert (batch.ids[:, 0] == 4).all() and (labels[:, 0] == IGNORED).all()
        assert ((labels[:, 1:] - 5) == (batch.ids[:, 1:] - 4) % 300).all()
        seen += labels[:, 1:].flatten().tolist()
    assert sorted(seen) == tokens.tolist(), "every token is a target once"


def test_tokenizer_has_a_null_token(model, tmp_path):
    tokenizer = model.tokenizer
    null, end = tokenizer.id(NULL_TOKEN), tokenizer.specials.end
    assert tokenizer.vocab_size == model.encoder.config.vocab_size <= 400 and null == tokenizer.vocab_size - 1
    assert (tokenizer.null_prefix, tokenizer.special_template, tokenizer.generation_prefix) == (
        [null],
        ([null], []),
        [null, end],
    )
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.null_prefix == [null] and again.encode(TEXT) == tokenizer.encode(TEXT)
    assert tokenizer.encode(TEXT).tokens[0] == NULL_TOKEN and NULL_TOKEN not in tokenizer.decode(
        tokenizer.encode(TEXT).ids
    )
    assert tokenizer.encode(TEXT, TEXT).tokens.count(NULL_TOKEN) == 1


def test_inference_prepends_the_null_token(model):
    (encoding,) = model.encode([TEXT * 2])
    starts = [place for place, token in enumerate(encoding.tokens) if token == NULL_TOKEN]
    assert starts == list(range(0, len(encoding.tokens), 24)) and len(starts) > 1
    assert model.attention(TEXT).tokens[0] == NULL_TOKEN and model.attention(TEXT).queries.is_special[0]


@torch.inference_mode()
def token_nll(model, row, scored):
    """The NLL of each of the last tokens of a sequence."""
    logits = CausalLm().logits(model.encoder, model.encoder(Batch.of(torch.tensor([row[:-1]]))).layers[-1][0])
    probabilities = logits.log_softmax(-1)
    return -sum(float(probabilities[place - 1, row[place]]) for place in range(len(row) - scored, len(row)))


def test_scores_by_hand(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("the old bank", specials=False).ids
    (score,) = model.score(["the old bank"])
    assert score.nats == pytest.approx(token_nll(model, tokenizer.generation_prefix + ids, len(ids)), rel=1e-5)
    assert score.num_tokens == len(ids)
    text = " ".join([TEXT] * 4)
    ids = tokenizer.generation_prefix + tokenizer.encode(text, specials=False).ids
    expected, done = token_nll(model, ids[:25], 23), 25
    while done < len(ids):
        begin = min(done - 12, len(ids) - 24)  # the last has as much before it as there is room for
        end = begin + 24
        expected += token_nll(model, tokenizer.null_prefix + ids[begin:end], end - done)
        done = end
    (score,) = model.score([text])
    assert score.nats == pytest.approx(expected, rel=1e-5) and score.num_tokens == len(ids) - 2


def test_generation_keeps_the_null_token_in_truncated_contexts(model):
    limit, null = 24, model.tokenizer.null_prefix
    prompt = null + model.tokenizer.encode(TEXT, specials=False).ids[:5]
    head = model.objective.parts[0]
    endless = dataclasses.replace(model.language_model, end=None)
    written = [token for (token,) in generate_batch(endless, [prompt], GenerationConfig(max_tokens=60))]
    text, start = list(prompt), 1
    with torch.inference_mode():
        while len(text) < len(prompt) + 60:
            if len(text) - start + 1 > limit:
                start = len(text) - limit // 2
            hidden = model.encoder(Batch.of(torch.tensor([null + text[start:]]))).layers[-1][0, -1]
            text.append(int(head.logits(model.encoder, hidden).argmax()))
    assert written == text[len(prompt) :]
    assert model.generate("the old", max_tokens=3) and isinstance(model.generate("", max_tokens=3), str)
    long = model.generate([TEXT * 3, "the"], max_tokens=4)
    assert long[0] == model.generate(TEXT * 3, max_tokens=4)


def test_fine_tuning_prepends_the_null_token(model):
    encoder = copy.deepcopy(model.encoder)
    tokenizer = add_delimiters(encoder, model.tokenizer)
    layout = InputFormatter(encoder, tokenizer, max_length=24)
    ((row,),) = layout.rows([[("the old bank",)]])
    assert row.ids[:2] == [*tokenizer.null_prefix, tokenizer.id("<|start|>")]


def test_adapted_model_keeps_the_null_token(model, corpus_file, tmp_path):
    given = {"corpus": corpus_file, "budget": "2steps"}
    again = ps.adapt(model.folder, out=tmp_path / "again", settings=["training.threads=1"], **given)
    assert again.tokenizer.null_prefix == model.tokenizer.null_prefix and again.recipe.data.first_token == "null"
    with pytest.raises(ConfigError, match=r"data\.first_token: the base model has 'null'"):
        ps.adapt(model.folder, out=tmp_path / "other", settings=["data.first_token=none"], **given)


def test_null_token_needs_a_causal_model():
    for family in ("bert", "ulmfit", "elmo", "transformer", "skipgram"):
        with pytest.raises(ConfigError, match=f"data.first_token: not available for {family}"):
            Recipe.preset(family, "tiny", ["data.first_token=null"])
    with pytest.raises(ConfigError, match=r"data.first_token: .*'none' or 'null'"):
        Recipe.preset("gpt2", "tiny", ["data.first_token=nothing"])
    assert Recipe.preset("gpt2", "tiny").data.first_token == "none"
