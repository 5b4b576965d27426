"""Rows that begin with a token that means nothing: in training, and wherever the model reads after that."""

import copy

import numpy as np
import pytest
import torch

import polyseme as ps
from polyseme.errors import ConfigError
from polyseme.generation import Sampling, generate_ids
from polyseme.objectives import Source
from polyseme.objectives.next_token import NextToken
from polyseme.tasks.layout import Layout, add_marks
from polyseme.tensors import IGNORED, Batch
from polyseme.text.store import Store
from polyseme.text.tokenizer import NULL, Tokenizer
from polyseme.train.recipe import Recipe

TINY = ["model.vocab_size=400", "model.width=32", "model.max_length=24", "data.length=24", "plan.batch_tokens=240"]
TINY += ["plan.threads=1", "data.start=null"]
TEXT = "the old bank by the river lends money to every farmer who can swim"


@pytest.fixture(scope="module", params=["gpt2", "gpt"])
def model(request, corpus_file, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        given = {"corpus": corpus_file, "dev": corpus_file, "size": "tiny", "budget": "20steps"}
        return ps.pretrain(request.param, out=place / "run", settings=TINY, **given)


def test_rows_begin_with_it_and_nothing_is_asked_of_it():
    tokens = np.arange(5, 305, dtype=np.uint32)
    bounds = np.array([0, 300])
    rest = {"num_characters": 300, "num_words": 300, "unknown": 0, "fingerprint": ""}
    store = Store(tokens=tokens, sentences=bounds, documents=np.array([0, 1]), **rest)
    source = Source(store, 11, 3, before=(4,))
    seen = []
    for step in range(10):  # an epoch
        batch = NextToken().batch(source, seed=0, step=step)
        assert batch.ids.shape == (3, 11) and batch.counts["next_token"] == 30
        labels = batch.labels["next_token"]
        assert (batch.ids[:, 0] == 4).all() and (labels[:, 0] == IGNORED).all()
        assert ((labels[:, 1:] - 5) == (batch.ids[:, 1:] - 4) % 300).all()
        seen += labels[:, 1:].flatten().tolist()
    assert sorted(seen) == tokens.tolist(), "every token is asked for once"


def test_the_tokenizer_knows_it(model, tmp_path):
    tokenizer = model.tokenizer
    null, end = tokenizer.id(NULL), tokenizer.specials.end
    assert tokenizer.vocab_size == model.encoder.config.vocab_size <= 400 and null == tokenizer.vocab_size - 1
    assert (tokenizer.null, tokenizer.frame, tokenizer.opening) == ([null], ([null], []), [null, end])
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.null == [null] and again.encode(TEXT) == tokenizer.encode(TEXT)
    assert tokenizer.encode(TEXT).tokens[0] == NULL and NULL not in tokenizer.decode(tokenizer.encode(TEXT).ids)
    assert tokenizer.encode(TEXT, TEXT).tokens.count(NULL) == 1


def test_every_reading_begins_with_it(model):
    (encoding,) = model.encode([TEXT * 2])
    starts = [place for place, token in enumerate(encoding.tokens) if token == NULL]
    assert starts == list(range(0, len(encoding.tokens), 24)) and len(starts) > 1
    assert model.attention(TEXT).tokens[0] == NULL and model.attention(TEXT).line.marks[0]


@torch.inference_mode()
def nats(model, row, scored):
    """Of the last tokens of a row, each asked for alone."""
    logits = NextToken().logits(model.encoder, model.encoder(Batch.of(torch.tensor([row[:-1]]))).layers[-1][0])
    chances = logits.log_softmax(-1)
    return -sum(float(chances[place - 1, row[place]]) for place in range(len(row) - scored, len(row)))


def test_scores_by_hand(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("the old bank", specials=False).ids
    (score,) = model.score(["the old bank"])
    assert score.nats == pytest.approx(nats(model, tokenizer.opening + ids, len(ids)), rel=1e-5)
    assert score.num_tokens == len(ids)
    text = " ".join([TEXT] * 4)
    ids = tokenizer.opening + tokenizer.encode(text, specials=False).ids
    expected, done = nats(model, ids[:25], 23), 25
    while done < len(ids):
        begin = min(done - 12, len(ids) - 24)  # the last has as much before it as there is room for
        end = begin + 24
        expected += nats(model, tokenizer.null + ids[begin:end], end - done)
        done = end
    (score,) = model.score([text])
    assert score.nats == pytest.approx(expected, rel=1e-5) and score.num_tokens == len(ids) - 2


def test_writing_on_keeps_it_when_the_text_grows_too_long(model):
    limit, null = 24, model.tokenizer.null
    prompt = null + model.tokenizer.encode(TEXT, specials=False).ids[:5]
    head = model.objective.parts[0]
    written = list(generate_ids(model.encoder, head, prompt, Sampling(max_tokens=60), None, num_kept=1))
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


def test_a_task_reads_it_too(model):
    encoder = copy.deepcopy(model.encoder)
    tokenizer = add_marks(encoder, model.tokenizer)
    layout = Layout(encoder, tokenizer, max_length=24)
    ((row,),) = layout.rows([[("the old bank",)]])
    assert row.ids[:2] == [*tokenizer.null, tokenizer.id("<|start|>")]


def test_going_on_keeps_it(model, corpus_file, tmp_path):
    given = {"corpus": corpus_file, "budget": "2steps"}
    again = ps.adapt(model.folder, out=tmp_path / "again", settings=["plan.threads=1"], **given)
    assert again.tokenizer.null == model.tokenizer.null and again.recipe.data.start == "null"
    with pytest.raises(ConfigError, match=r"data\.start: the model has 'null' and keeps it"):
        ps.adapt(model.folder, out=tmp_path / "other", settings=["data.start=none"], **given)


def test_it_is_for_those_that_read_from_left_to_right():
    for family in ("bert", "ulmfit", "elmo", "transformer", "skipgram"):
        with pytest.raises(ConfigError, match=f"data.start: rows of a {family} begin as they do"):
            Recipe.preset(family, "tiny", ["data.start=null"])
    with pytest.raises(ConfigError, match=r"data.start: .*'none' or 'null'"):
        Recipe.preset("gpt2", "tiny", ["data.start=nothing"])
    assert Recipe.preset("gpt2", "tiny").data.start == "none"
