"""Compatibility with the official client of OpenAI's API."""

import numpy as np
import openai
import pytest
import torch
from tests.server.client import serving

import polyseme as ps
from polyseme.batch import Batch


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models(client, folders):
    assert [model.id for model in client.models.list()] == list(folders)
    assert client.models.retrieve("bert").owned_by == "polyseme"
    with pytest.raises(openai.NotFoundError, match="choose from bert"):
        client.models.retrieve("nobody")


def test_embeddings_in_base64_and_floats(client, folders):
    texts = ["the old bank", "a bat slept"]
    found = client.embeddings.create(model="bert", input=texts)
    vectors = np.array([row.embedding for row in found.data])
    np.testing.assert_allclose(vectors, ps.load(folders["bert"]).embed(texts), atol=1e-5)
    plain = client.embeddings.create(model="bert", input=texts, encoding_format="float")
    np.testing.assert_allclose(np.array([row.embedding for row in plain.data]), vectors, atol=1e-6)
    assert found.usage.total_tokens > 4


def test_completions(client, folders):
    model = ps.load(folders["gpt2"])
    whole = client.completions.create(model="gpt2", prompt="the old bank", max_tokens=12, temperature=0)
    assert whole.choices[0].text == model.generate("the old bank", max_tokens=12)
    assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 12
    several = client.completions.create(model="gpt2", prompt=["the", "a bat"], n=2, max_tokens=5, seed=3)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    again = client.completions.create(model="gpt2", prompt=["the", "a bat"], n=2, max_tokens=5, seed=3)
    assert [choice.text for choice in several.choices] == [choice.text for choice in again.choices]
    echo = client.completions.create(model="gpt2", prompt="the old bank", max_tokens=3, temperature=0, echo=True)
    assert echo.choices[0].text == "the old bank" + model.generate("the old bank", max_tokens=3)


@pytest.mark.parametrize("name", ["gpt", "gpt2", "elmo"])
def test_stream_equals_whole_text(client, folders, name):
    pieces, usage = [], None
    settings = {"prompt": "the old bank", "max_tokens": 20, "temperature": 0}
    for part in client.completions.create(model=name, stream=True, stream_options={"include_usage": True}, **settings):
        pieces += [choice.text for choice in part.choices]
        usage = part.usage or usage
    whole = client.completions.create(model=name, **settings)
    assert len(pieces) > 5 and "".join(pieces) == whole.choices[0].text
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_stop_strings(client):
    settings = {"model": "gpt2", "prompt": "the old bank", "max_tokens": 30, "temperature": 0}
    text = client.completions.create(**settings).choices[0].text
    stop = text[12:15]
    for stream in (False, True):
        found = client.completions.create(**settings, stop=[stop, "never"], stream=stream)
        choices = [choice for part in found for choice in part.choices] if stream else found.choices
        assert "".join(choice.text for choice in choices) == text[: text.index(stop)]
        assert choices[-1].finish_reason == "stop"


def test_logprobs(client, folders):
    model = ps.load(folders["gpt2"])
    settings = {"model": "gpt2", "prompt": "the old bank", "max_tokens": 10, "temperature": 0, "logprobs": 3}
    (choice,) = client.completions.create(**settings).choices
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:index])) for index in range(len(logprobs.tokens))]
    for chosen, top in zip(logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert len(top) == 3 and chosen == pytest.approx(max(top.values()), abs=1e-6)  # greedy
    ids = model.prompt_ids("the old bank")
    with torch.inference_mode():
        encoded = model.encoder(Batch.of(torch.tensor([ids])))
        expected = model.objective.parts[0].logits(model.encoder, encoded.layers[-1][0, -1]).log_softmax(-1)
    assert logprobs.token_logprobs[0] == pytest.approx(expected.max().item(), abs=1e-4)
    parts = list(client.completions.create(**settings, stream=True))
    offsets = [offset for part in parts for one in part.choices for offset in one.logprobs.text_offset]
    assert offsets == logprobs.text_offset


def test_errors_are_raised_by_the_client(client):
    with pytest.raises(openai.UnprocessableEntityError, match="does not support completions"):
        client.completions.create(model="bert", prompt="a")
    with pytest.raises(openai.UnprocessableEntityError, match="max_tokens"):
        client.completions.create(model="gpt2", prompt="a", max_tokens=0)
    with pytest.raises(openai.UnprocessableEntityError, match="echo"):
        client.completions.create(model="gpt2", prompt="a", echo=True, logprobs=1)


def test_api_key(folders):
    with serving(folders["bert"], key="a-secret-of-ours") as server:
        base = f"{server.url}/v1"
        with openai.OpenAI(base_url=base, api_key="a-secret-of-ours", max_retries=0) as client:
            assert client.embeddings.create(model="bert", input="a").data
        for wrong in ("a-secret-of-our", "a-secret-of-ours2", "A-secret-of-ours"):
            with (
                openai.OpenAI(base_url=base, api_key=wrong, max_retries=0) as client,
                pytest.raises(openai.AuthenticationError),
            ):
                client.models.list()
        assert server.request("GET", "/v1/models", headers={"authorization": ""}).status == 401
        assert server.request("GET", "/metrics", headers={"authorization": "Basic a-secret-of-ours"}).status == 401
        for path in ("/health", "/docs", "/openapi.json"):
            assert server.request("GET", path, headers={"authorization": ""}).status == 200
        ready = server.request("GET", "/ready", headers={"authorization": ""})
        assert ready.status == 200 and b"bert" not in ready.body
