"""Every endpoint returns what the library returns, or an error if the model does not support it."""

import base64
import html
import json
import re
import shlex

import numpy as np
import pytest
from tests.server.client import serving

import polyseme as ps

TEXTS = ["the old bank by the river", "a bat slept in the barn 杜鹃", ""]
REQUESTS = {
    "embeddings": {"input": TEXTS},
    "similarity": {"pairs": [["the old bank", "the river"], ["a bat", "a bat"]]},
    "completions": {"prompt": "the old bank", "max_tokens": 4, "temperature": 0},
    "fill": {"input": ["the [MASK] bank", "[MASK] by the [MASK]"], "top": 3},
    "score": {"input": ["the old bank by the river", ""], "top": 2},
    "translate": {"input": ["the old bank", "a bat"]},
    "choose": {"context": "the old bank", "choices": ["is wet", "is rich", "is"]},
    "neighbours": {"word": "the", "top": 4},
    "analogy": {"a": "the", "b": "in", "c": "by", "top": 4},
    "attention": {"input": "the old bank by the river"},
    "senses": {"word": "bank", "texts": ["the old bank by the river", "the new bank, a bank in town"]},
    "classify": {"task": "my-classify", "input": ["the old bank", "in the city"]},
    "pair": {"task": "my-pair", "pairs": [["the old bank", "in the city"]]},
    "tag": {"task": "my-tag", "input": ["Ada saw New York.", "他去北京"]},
    "answer": {"task": "my-span", "question": "where is the bank", "passage": "the old bank by the river"},
}


@pytest.fixture(scope="module")
def models(server):
    return {entry["id"]: entry["polyseme"] for entry in server.get("/v1/models").json["data"]}


def test_models_are_listed(server, folders, models):
    assert models.keys() == folders.keys()
    for name, info in models.items():
        model = ps.load(folders[name])
        assert info["family"] == model.family and info["context"] == model.encoder.context
        assert info["parameters"] == sum(weight.numel() for weight in model.encoder.parameters())
        assert info["layers"] == len(model.encoder.widths) - 1
        assert server.get(f"/v1/models/{name}").json["polyseme"] == info
    assert models["tuned"]["tasks"] == {f"my-{kind}": kind for kind in sorted(k[3:] for k in models["tuned"]["tasks"])}
    assert models["tuned"]["labels"]["my-classify"] == ["city", "river"]
    assert server.get("/v1/models/nobody").status == 404


def test_supported_endpoints(models):
    def supporting(endpoint):
        return {name for name, info in models.items() if endpoint in info["endpoints"]}

    assert supporting("embeddings") == supporting("neighbours") == supporting("senses") == models.keys()
    assert supporting("completions") == {"gpt", "gpt2", "elmo", "ulmfit", "nnlm"}
    assert supporting("fill") == {"bert", "roberta"}
    assert supporting("translate") == {"transformer"}
    assert supporting("attention") == {"bert", "roberta", "gpt", "gpt2", "transformer", "tuned"}
    for endpoint in ("classify", "pair", "tag", "answer"):
        assert supporting(endpoint) == {"tuned"}


@pytest.mark.parametrize("endpoint", REQUESTS)
def test_every_model_answers_or_lists_its_endpoints(server, models, endpoint):
    for name, info in models.items():
        reply = server.post(endpoint, model=name, **REQUESTS[endpoint])
        if endpoint in info["endpoints"]:
            if endpoint in ("neighbours", "analogy") and reply.status == 422:
                assert reply.error["code"] == "unknown_word"  # a word of two tokens
                continue
            assert reply.status == 200, (name, reply.body)
            assert reply.headers["content-type"] == "application/json"
        else:
            assert reply.status == 422 and reply.error["code"] == "unsupported"
            assert name in reply.error["message"] and "embeddings" in reply.error["message"]


@pytest.mark.parametrize("name", ["bert", "gpt2", "elmo", "skipgram", "transformer"])
def test_embeddings(server, folders, name):
    model = ps.load(folders[name])
    reply = server.post("embeddings", model=name, input=TEXTS).json
    vectors = np.array([row["embedding"] for row in reply["data"]], np.float32)
    np.testing.assert_allclose(vectors, model.embed(TEXTS), atol=1e-5)
    assert [row["index"] for row in reply["data"]] == [0, 1, 2]
    assert reply["usage"]["prompt_tokens"] == sum(model.embed_with_counts(TEXTS)[1])
    packed = server.post("embeddings", model=name, input=TEXTS[0], encoding_format="base64", layer=0, pool="max").json
    vector = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(vector, model.embed(TEXTS[:1], layer=0, pool="max")[0], atol=1e-5)
    width = model.encoder.widths[-1]
    assert server.post("embeddings", model=name, input="a", dimensions=width).status == 200
    assert server.post("embeddings", model=name, input="a", dimensions=width + 1).error["code"] == "invalid_dimensions"
    assert server.post("embeddings", model=name, input="a", layer=9).error["code"] == "invalid_layer"


def test_token_ids_are_refused(server):
    for tokens in ([1, 2, 3], [[1, 2], [3]]):
        reply = server.post("embeddings", model="bert", input=tokens)
        assert reply.status == 422 and reply.error["param"] == "input"


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_fill(server, folders, name):
    model = ps.load(folders[name])
    text = "the [MASK] bank by the [MASK]"
    (row,) = server.post("fill", model=name, input=text, top=3).json["data"]
    assert [text[mask["start"] : mask["end"]] for mask in row["masks"]] == ["[MASK]", "[MASK]"]
    for mask, predictions in zip(row["masks"], model.fill(text, top=3), strict=True):
        assert [one["probability"] for one in mask["candidates"]] == pytest.approx([p.probability for p in predictions])
    own = model.tokenizer.token(model.tokenizer.specials.mask)
    assert server.post("fill", model=name, input=f"the {own} bank").json["data"][0]["masks"][0]["start"] == 4
    assert server.post("fill", model=name, input="no mask").error["code"] == "no_mask"


def test_candidates_and_alternatives_have_no_replacement_characters(server):
    """Single bytes of a byte-level vocabulary are shown as such."""
    (row,) = server.post("fill", model="roberta", input="the <mask>", top=100).json["data"]
    texts = [candidate["text"] for candidate in row["masks"][0]["candidates"]]
    (row,) = server.post("score", model="gpt2", input="the old bank 杜", top=20).json["data"]
    texts += [one["text"] for token in row["tokens"] for one in token["alternatives"]]
    reply = server.post("completions", model="gpt2", prompt="the", max_tokens=20, logprobs=20, seed=1).json
    texts += [text for top in reply["choices"][0]["logprobs"]["top_logprobs"] for text in top]
    assert not any("\ufffd" in text or "Ġ" in text for text in texts)
    assert any(re.fullmatch("<[0-9A-F]{2}>", text) for text in texts)


@pytest.mark.parametrize("name", ["bert", "gpt", "gpt2", "elmo", "ulmfit"])
def test_score(server, folders, name):
    model = ps.load(folders[name])
    text = "the old bank by the river. it was day 3 and 杜鹃 sang " + "on and on " * 12
    (row,) = server.post("score", model=name, input=text, top=2).json["data"]
    (score,) = model.score([text])
    assert row["log_probability"] == pytest.approx(-score.nats, abs=1e-3)
    assert row["scale"] == {"bert": "masked", "elmo": "bidirectional"}.get(name, "causal")
    assert all(text[token["start"] : token["end"]] == token["text"] for token in row["tokens"])
    assert all(len(token["alternatives"]) == 2 for token in row["tokens"])
    if name != "elmo" and not score.num_oov:  # where ends of sentences count too
        assert sum(token["log_probability"] for token in row["tokens"]) == pytest.approx(-score.nats, abs=1e-3)
    best = [max(one["log_probability"] for one in token["alternatives"]) for token in row["tokens"]]
    if name != "elmo":
        assert all(token["log_probability"] <= top + 1e-5 for token, top in zip(row["tokens"], best, strict=True))


@pytest.mark.parametrize("name", ["gpt", "gpt2", "elmo", "ulmfit", "nnlm"])
def test_completions_equal_the_library(server, folders, name):
    model = ps.load(folders[name])
    prompts = ["the old bank", "a bat slept in the barn while the boys looked for their other bat " * 3]
    reply = server.post("completions", model=name, prompt=prompts, max_tokens=60, temperature=0).json
    assert [choice["text"] for choice in reply["choices"]] == model.generate(prompts, max_tokens=60)
    sampled = server.post("completions", model=name, prompt=prompts[0], max_tokens=9, temperature=0.9, seed=7).json
    assert sampled["choices"][0]["text"] == model.generate(prompts[0], max_tokens=9, temperature=0.9, seed=7)
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"]


def test_tasks(server, folders):
    model = ps.load(folders["tuned"])
    rows = server.post("classify", model="tuned", task="my-classify", input=["the river", "the city"]).json["data"]
    for row, one in zip(rows, model.predict(["the river", "the city"], task="my-classify"), strict=True):
        assert row["label"] == one.label and row["probabilities"] == pytest.approx(dict(one.probabilities), abs=1e-5)
    (row,) = server.post("pair", model="tuned", pairs=[["the river", "the city"]]).json["data"]
    (one,) = model.predict([("the river", "the city")], task="my-pair")
    assert row["probabilities"] == pytest.approx(dict(one.probabilities), abs=1e-5)
    reply = server.post("similarity", model="tuned", pairs=[["the river", "the city"]]).json
    (rated,) = model.predict([("the river", "the city")], task="my-similarity")
    assert reply["method"] == "head" and reply["data"][0]["score"] == pytest.approx(rated.score, abs=1e-5)
    text = "Ada saw New York. 他去北京"
    (row,) = server.post("tag", model="tuned", input=text).json["data"]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in row["spans"])
    (tagged,) = model.predict([text], task="my-tag")
    assert [(span["label"], span["start"], span["end"]) for span in row["spans"]] == tagged.entities
    reply = server.post("choose", model="tuned", context="the bank", choices=["is wet", "is rich"]).json
    assert reply["method"] == "head" and sum(reply["probabilities"]) == pytest.approx(1)


def test_answer_may_be_null(server, folders, tmp_path):
    model = ps.load(folders["tuned"])
    passage = "the old bank by the river"
    reply = server.post("answer", model="tuned", question="where is the bank", passage=passage).json
    (found,) = model.predict([{"question": "where is the bank", "passage": passage}], task="my-span")
    if found.chosen:
        assert reply["answer"] == passage[reply["start"] : reply["end"]] == found.text
    else:
        assert reply["answer"] is reply["start"] is reply["end"] is None
    assert reply["probability"] == pytest.approx(found.probability, abs=1e-5)
    assert 0 <= reply["null_probability"] <= 1


def test_similarity_and_choice_without_fine_tuning(server, folders):
    reply = server.post("similarity", model="gpt2", pairs=[["the river", "the river"], ["a", "the city"]]).json
    first, second = ps.load(folders["gpt2"]).embed(["a", "the city"])
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert reply["method"] == "cosine"
    assert [row["score"] for row in reply["data"]] == pytest.approx([1, cosine], abs=1e-5)
    model = ps.load(folders["gpt2"])
    reply = server.post("choose", model="gpt2", context="the old bank", choices=["is wet", "in town"]).json
    nats = [score.nats for score in model.score([" is wet", " in town"], after=["the old bank"] * 2)]
    assert reply["method"] == "likelihood" and reply["choice"] == int(np.argmin(nats))
    assert reply["probabilities"][0] == pytest.approx(1 / (1 + np.exp(nats[0] - nats[1])), abs=1e-4)


def test_attention(server, folders):
    model = ps.load(folders["bert"])
    reply = server.post("attention", model="bert", input="the old bank", text_pair="it was day").json
    maps = np.array(reply["weights"])
    np.testing.assert_allclose(maps, model.attention("the old bank", "it was day").weights, atol=6e-5)
    assert maps.shape == (reply["layers"], reply["heads"], len(reply["tokens"]), len(reply["tokens"]))
    surfaces = [
        ("it was day" if token["segment"] else "the old bank")[token["start"] : token["end"]]
        for token in reply["tokens"]
        if token["end"] > token["start"]
    ]
    assert "".join(surfaces) == "theoldbankitwasday"
    assert len(reply["head_statistics"]) == reply["layers"] * reply["heads"]
    assert server.post("attention", model="gpt2", input="a", text_pair="b").error["code"] == "unsupported_value"
    assert server.post("attention", model="bert", input="a b c d " * 40).error["code"] == "text_too_long"
    cross = server.post("attention", model="transformer", input="the old bank").json["cross_attention"]
    if cross:
        assert len(cross["weights"][0][0][0]) == len(cross["key_tokens"])


def test_senses(server, folders):
    model = ps.load(folders["bert"])
    texts = ["the old bank by the river", "the new bank, a bank in town", "none here"]
    reply = server.post("senses", model="bert", word="bank", texts=texts).json
    found = model.senses("bank", texts, max_occurrences=0)
    for layer, expected in zip(reply["layers"], found.layers, strict=True):
        assert [point["text"] for point in layer["points"]] == [0, 1, 1]
        assert all(texts[p["text"]][p["start"] : p["end"]] == "bank" for p in layer["points"])
        np.testing.assert_allclose([[p["x"], p["y"]] for p in layer["points"]], expected.points, atol=1e-4)
    assert server.post("senses", model="bert", word="bank", texts=["none"]).error["code"] == "unknown_word"


def test_neighbours(server, folders):
    (first, *_) = server.post("neighbours", model="skipgram", word="bank").json["data"]
    assert first["text"] == ps.load(folders["skipgram"]).neighbours("bank")[0].word


def test_errors_do_not_echo_the_request(server):
    word = "Zxqvzxqv"
    bodies = [
        ("neighbours", {"model": "bert", "word": word}),
        ("analogy", {"model": "skipgram", "a": word, "b": word, "c": word}),
        ("senses", {"model": "bert", "word": word, "texts": ["a"]}),
        ("embeddings", {"model": word, "input": "a"}),
        ("embeddings", {"model": "bert", "input": "a", f"<{word}>": 1}),
        ("embeddings", {"model": "bert", "input": "a", word * 10: 1}),
        ("embeddings", {"model": "bert", "input": {word: word}}),
        ("classify", {"model": "tuned", "input": "a", "task": word}),
        ("completions", {"model": "gpt2", "logit_bias": {word: 1}}),
        ("completions", {"model": "gpt2", "stream_options": {word: True}}),
        ("fill", {"model": "bert", "input": word}),
        ("answer", {"model": "tuned", "question": word, "passage": ""}),
    ]
    for endpoint, body in bodies:
        reply = server.post(endpoint, **body)
        assert 400 <= reply.status < 500 and word not in reply.body.decode(), (endpoint, reply.body)
        assert set(reply.error) == {"message", "type", "code", "param"}
    assert word not in server.get(f"/{word}").body.decode()
    assert word not in server.get(f"/v1/models/{word}").body.decode()


INVALID = {
    # endpoint, body, start of the message
    "too many texts": ("embeddings", {"input": ["a"] * 2049}, "input: should have at most 2048 items, not 2049"),
    "no texts": ("embeddings", {"input": []}, "input: should have at least 1 item, not 0"),
    "a number": ("embeddings", {"input": 5}, "input: should be a valid string or a valid array"),
    "token ids": ("embeddings", {"input": [1, 2, 3]}, "input: token ids are not supported; send text"),
    "lists of token ids": ("embeddings", {"input": [[1, 2], [3]]}, "input: token ids are not supported; send text"),
    "token ids as prompt": ("completions", {"prompt": [1, 2]}, "prompt: token ids are not supported; send text"),
    "a number among texts": ("embeddings", {"input": ["a", None]}, "input: should be a valid string"),
    "one choice": ("choose", {"context": "a", "choices": ["b"]}, "choices: should have at least 2 items, not 1"),
    "an empty passage": ("answer", {"question": "a", "passage": ""}, "passage: should have at least 1 character"),
    "biased logits": (
        "completions",
        {"prompt": "a", "logit_bias": {"5": 1}},
        "logit_bias: should have at most 0 items",
    ),
    "an unknown field": (
        "embeddings",
        {"input": "a", "service_tier": "auto"},
        "unknown field: service_tier; remove it",
    ),
    "no input": ("embeddings", {}, "input: is required"),
}


@pytest.mark.parametrize("case", INVALID)
def test_errors_of_invalid_bodies(server, case):
    endpoint, body, expected = INVALID[case]
    reply = server.post(endpoint, model="bert", **body)
    assert reply.status == 422 and reply.error["message"].startswith(expected), reply.error
    assert reply.error["param"] == (expected.split(":")[0] if "unknown" not in case else "service_tier")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/moderations", "/v1/nothing", "/nothing"]
)
def test_unknown_paths_are_not_found_with_any_method(server, method, path):
    reply = server.request(method, path, "{}" if method != "GET" else None, {"content-type": "application/json"})
    assert reply.status == 404 and reply.error["code"] == "unknown_url"
    is_dialogue = path in ("/v1/chat/completions", "/v1/responses")
    assert ("use /v1/completions" if is_dialogue else "see /docs") in reply.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/embeddings", "POST"), ("DELETE", "/v1/models/bert", "GET"), ("POST", "/index.html", "GET")],
)
def test_known_paths_with_another_method(server, method, path, allowed):
    reply = server.request(method, path)
    assert reply.status == 405 and reply.headers["allow"] == allowed


def test_model_is_optional_for_a_single_model(folders):
    with serving(folders["bert"]) as alone:
        assert alone.post("embeddings", input="a").status == 200
        assert alone.post("embeddings", input="a", model="gpt2").error["code"] == "model_not_found"


def test_model_is_required_for_several_models(server):
    reply = server.post("embeddings", input="a")
    assert reply.status == 422 and reply.error["code"] == "model_required" and "gpt2" in reply.error["message"]


def test_int8_weights(folders):
    with serving(folders["gpt2"], folders["elmo"], weights="int8") as quantized:
        names = [entry["id"] for entry in quantized.get("/v1/models").json["data"]]
        assert names == ["gpt2", "elmo"]  # whose weights cannot be quantized
        reply = quantized.post("embeddings", model="gpt2", input="the old bank").json
        vector, own = np.array(reply["data"][0]["embedding"]), ps.load(folders["gpt2"]).embed(["the old bank"])[0]
        cosine = vector @ own / np.linalg.norm(vector) / np.linalg.norm(own)
        assert 0.98 < cosine < 0.9999999
        assert quantized.post("completions", model="gpt2", prompt="the", max_tokens=5, temperature=0).status == 200


def test_non_finite_numbers_are_an_error(folders):
    with serving(folders["bert"]) as server:
        assert server.post("attention", input="NaN -Infinity").status == 200
        weight = next(server.server.service.models.models[0].model.encoder.parameters())
        weight.data.fill_(float("nan"))
        reply = server.post("embeddings", input="the old bank")
        assert reply.status == 422 and reply.error["code"] == "non_finite"


def test_every_endpoint_has_an_example(server):
    paths = server.document["paths"]
    for path, methods in paths.items():
        if "post" in methods:
            content = methods["post"]["requestBody"]["content"]["application/json"]
            assert content["example"]["model"], path
    assert {f"/v1/{endpoint}" for endpoint in REQUESTS} == {
        path for path, methods in paths.items() if "post" in methods
    }
    text = server.get("/docs").body.decode()
    assert all(f"/v1/{endpoint}" in text for endpoint in REQUESTS)
    assert "http" not in text.replace(server.url, "").replace("http-equiv", "").replace("http://localhost", "")
    json.dumps(server.document, allow_nan=False)


def test_examples_name_served_models(folders):
    def examples(server):
        commands = re.findall(r"<pre>(curl .*?)</pre>", server.get("/docs").body.decode(), flags=re.S)
        return [shlex.split(html.unescape(command).replace("\\\n", "")) for command in commands]

    with serving(folders["svd"], folders["transformer"]) as server:
        named = {}
        for _, url, *words in examples(server):
            if "-d" in words:
                named[url.rpartition("/")[2]] = json.loads(words[-1])
        supported = {one["id"]: one["polyseme"]["endpoints"] for one in server.get("/v1/models").json["data"]}
        for endpoint, body in named.items():
            serving_it = [name for name, endpoints in supported.items() if endpoint in endpoints]
            assert body["model"] in (serving_it or ["MODEL"])
            if endpoint in ("embeddings", "similarity", "senses", "translate"):
                assert server.post(endpoint, **body).status == 200
        assert "No served model supports this endpoint" in server.get("/docs").body.decode()
    with serving(folders["svd"], key="a-secret-of-ours") as server:
        commands = examples(server)
        assert all("Authorization: Bearer KEY" in words for words in commands)
        assert all(json.loads(words[-1])["model"] == "MODEL" for words in commands if "-d" in words)
