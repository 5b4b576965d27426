"""Results that do not belong to the request, defaults, ties, unknown words, and runs that become models."""

import json

import pytest
from tests.server.client import serving
from tests.server.playground.page import wait_for

TOO_LONG = "the old bank by the river " * 40


@pytest.mark.parametrize(
    ("view", "values", "result", "field", "value", "button"),
    [
        ("tasks", {"task": "answer", "model": "tuned"}, ".results .paper", "Passage", "", "Run"),
        ("attention", {"model": "bert", "text": "the old bank"}, ".tokens", "Text", TOO_LONG, "Show"),
        ("senses", {"models": "bert"}, ".map .point", "Word", "nowhere", "Plot"),
    ],
)
def test_no_stale_results_under_an_error(playground, view, values, result, field, value, button):
    page = playground.open(view, values)
    wait_for(page, result)
    before = page.get_by_label(field, exact=True).input_value()
    page.get_by_label(field, exact=True).fill(value)
    page.get_by_role("button", name=button, exact=True).click()
    page.locator(".status.wrong").wait_for()
    assert not page.locator(result).first.is_visible()
    page.get_by_label(field, exact=True).fill(before)
    page.get_by_role("button", name=button, exact=True).click()
    page.locator(result).first.wait_for(state="visible")
    assert page.locator(".status.wrong").count() == 0
    playground.visit.complaints.clear()  # the browser reports status 422


def test_no_stale_predictions_without_a_server(playground):
    page = playground.open("fill", {"models": "bert"})
    wait_for(page, ".bars li")
    page.route("**/v1/fill", lambda route: route.abort())
    page.get_by_role("button", name="Predict").click()
    page.locator(".status.wrong").wait_for()
    assert not page.locator(".bars").first.is_visible()
    page.unroute_all()
    playground.visit.complaints.clear()


def test_partial_text_stays_after_an_error(playground):
    events = [{"choices": [{"text": "old", "logprobs": None}]}, {"error": {"message": "the server failed"}}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    playground.page.route("**/v1/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page = playground.open("generate", {"prompt": "the"})
    page.locator(".status.wrong", has_text="the server failed").wait_for()
    assert page.locator(".token").all_inner_texts() == ["old"] and page.locator(".token").is_visible()
    page.unroute_all()


def test_chinese_words_are_masked_whole(playground):
    page = playground.open("fill", {"lang": "zh", "models": "bert"})
    wait_for(page, ".bars li")
    assert page.get_by_role("button", name="银行").get_attribute("aria-pressed") == "true"
    titles = page.locator(".card h4").all_inner_texts()
    assert [title for title in titles if "银" in title or "行" in title] == titles and len(titles) == 2
    page.locator(".snippets summary").click()
    assert "他把钱存进了[MASK][MASK]。" in page.locator(".snippets pre").first.inner_text()
    page.get_by_role("button", name="银行").click()
    page.get_by_role("button", name="钱", exact=True).click()
    page.locator("h4", has_text="钱").wait_for()
    assert page.locator(".card h4").count() == 1


def test_default_of_masked_words_is_for_the_example_only(playground):
    page = playground.open("fill", {"models": "bert", "text": "the bank"})
    page.locator(".status", has_text="Mask a word first.").wait_for()


def test_a_static_and_contextual_models_are_chosen(playground):
    """The server has three static families, of which one is enough."""
    page = playground.open("senses")
    wait_for(page, ".map .point")
    families = page.locator(".models input:checked").evaluate_all("boxes => boxes.map(box => box.value)")
    static = {"onehot", "svd", "skipgram"}
    assert len(families) == 3 and len(static.intersection(families)) == 1


@pytest.mark.parametrize(("probabilities", "num_marked"), [([0.5, 0.5], 0), ([0.4, 0.6], 1)])
def test_ties_have_no_winner(playground, probabilities, num_marked):
    answer = {"model": "gpt2", "choice": probabilities.index(max(probabilities)), "method": "likelihood"}
    playground.page.route("**/v1/choose", lambda route: route.fulfill(json=answer | {"probabilities": probabilities}))
    page = playground.open("tasks", {"task": "choose", "choices": "one\ntwo"})
    wait_for(page, ".bars li")
    assert page.locator(".bars li.marked").count() == num_marked
    page.unroute_all()


@pytest.mark.parametrize(
    ("language", "message"),
    [("en", "“Zxqv” is not in the vocabulary of this model."), ("zh", "“Zxqv”不在该模型的词表中。")],
)
def test_the_unknown_word_of_an_analogy_is_named(playground, language, message):
    words = {"a": "old", "b": "Zxqv", "c": "bank"}
    page = playground.open("neighbours", {"kind": "analogy", "models": "skipgram", "lang": language, **words})
    page.locator(".card p").wait_for()
    assert page.locator(".card p").inner_text().startswith(message)
    page = playground.open("neighbours", {"models": "skipgram", "lang": language, "word": "bankk"})
    page.locator(".card p", has_text="bank" if language == "en" else "是否想查：bank").wait_for()
    playground.visit.complaints.clear()  # the browser reports status 422


def test_key_screen_is_in_the_language_of_the_page(playground, folders):
    with serving(folders["bert"], key="open sesame") as server:
        page = playground.open("fill", {"lang": "zh"}, address=server.url)
        page.locator("[role=alert]").wait_for()
        assert "API 密钥" in page.locator("[role=alert]").inner_text()
        assert "模型" not in page.locator("#footer").inner_text(), "no number of models that is not known"
        page.goto("about:blank")
    playground.visit.complaints.clear()


def test_a_run_becomes_a_model_without_reloading_the_page(playground):
    names, problems = ["bert"], {"gpt2": "it is being trained, and is served when the training ends"}

    def models(route):
        data = [{"id": name, "polyseme": {"family": name, "endpoints": ["completions"]}} for name in names]
        route.fulfill(json={"object": "list", "data": data})

    page = playground.page
    page.route("**/v1/models", models)
    page.route("**/ready", lambda route: route.fulfill(json={"problems": problems}))
    page.route("**/v1/runs", lambda route: route.fulfill(json=[]))
    page.clock.install()
    playground.open("runs")
    page.locator(".problems", has_text="being trained").wait_for()
    names.append("gpt2")
    problems.clear()
    page.clock.fast_forward(6000)
    page.locator(".loaded li", has_text="gpt2").wait_for(state="attached")
    assert page.locator(".problems").count() == 0
    page.unroute_all()
    page.clock.resume()
