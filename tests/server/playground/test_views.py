"""Every view in both languages on wide and narrow screens; hostile text; the code snippets."""

import re
import shlex
from importlib.resources import files
from urllib.request import Request, urlopen

import pytest
from tests.server.playground.page import fits, wait_for

from polyseme.analysis.attention import LABELS

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e<b>bank</b>'\""
WEB = files("polyseme.server") / "web"

# Of each view: the values of its address, with hostile text, and an element of the result.
VIEWS = {
    "generate": ({"prompt": HOSTILE, "max_tokens": "8"}, ".token"),
    "fill": ({"text": f"[MASK] {HOSTILE}", "masks": ""}, ".bars li"),
    "senses": ({"word": "bank", "texts": f"The bank lends.\n\n{HOSTILE}"}, ".map .point"),
    "attention": ({"text": "<b>bank</b> <img src=x>"}, ".lines path"),
    "layers": ({}, ".notice code, .probe svg"),
    "tasks": ({"task": "classify", "text": HOSTILE}, ".results .bars li"),
    "neighbours": ({"word": "bank", "models": "skipgram"}, ".bars li"),
    "runs": ({}, "tbody tr"),
}
NAMES = {
    "generate": ("Text generation", "文本生成"),
    "fill": ("Masked-token prediction", "掩码预测"),
    "senses": ("Word senses", "词义"),
    "attention": ("Attention", "注意力"),
    "layers": ("Layers", "逐层探针"),
    "tasks": ("Tasks", "下游任务"),
    "neighbours": ("Nearest neighbours", "词向量"),
    "runs": ("Training runs", "训练记录"),
}
TASKS = {
    "classify": "Text classification",
    "tag": "Sequence labelling",
    "pair": "Sentence-pair classification",
    "similarity": "Semantic similarity",
    "answer": "Question answering",
    "choose": "Multiple choice",
    "translate": "Translation",
    "score": "Log-likelihood",
}


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view(playground, view, language, width):
    values, result = VIEWS[view]
    page = playground.open(view, {**values, "lang": language}, width=width)
    wait_for(page, result)
    assert page.locator("h1").inner_text() == NAMES[view][language == "zh"]
    assert page.locator("nav [aria-current=page]").inner_text() == NAMES[view][language == "zh"]
    assert page.locator("html").get_attribute("lang") == {"en": "en", "zh": "zh-Hans"}[language]
    assert page.locator(".status.wrong").count() == 0
    assert fits(page)
    assert page.locator("img").count() == 1, "the logo, and none from a text"
    page.locator(".snippets summary").click()
    lines = page.locator(".snippets pre").all_inner_texts()
    assert lines[0].startswith(f"curl {'-N ' * (view == 'generate')}{playground.address}/v1/") and "import" in lines[1]
    assert fits(page)
    assert page.locator("body script, main style").count() == 0


@pytest.mark.parametrize("task", TASKS)
def test_each_task(playground, task):
    page = playground.open(
        "tasks", {"task": task, "text": HOSTILE, "passage": HOSTILE, "first": HOSTILE, "choices": f"{HOSTILE}\na"}
    )
    wait_for(page, ".results > *")
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == TASKS[task]
    assert page.locator(".status.wrong").count() == 0 and page.locator("img").count() == 1
    page.set_viewport_size({"width": 400, "height": 800})
    assert fits(page)


SNIPPETS = [
    ("generate", {"prompt": 'it\'s a "bank"', "max_tokens": "3"}, ".token"),
    ("fill", {"text": "it's a [MASK] \\n 银行", "masks": "", "models": "bert"}, ".bars li"),
    ("senses", {"word": "bank", "texts": "a bank\nthe 'bank'", "models": "skipgram"}, ".point"),
    ("attention", {"text": "it's", "model": "bert", "text_pair": "two"}, ".lines path"),
    ("neighbours", {"word": "bank", "models": "skipgram"}, ".bars li"),
    ("neighbours", {"kind": "analogy", "a": "old", "b": "bank", "c": "new", "models": "skipgram"}, ".bars li"),
    *(("tasks", {"task": task, "model": "tuned"}, ".results > *") for task in ("classify", "tag", "pair", "answer")),
    *(("tasks", {"task": task, "model": "tuned"}, ".results > *") for task in ("choose", "similarity")),
    *(("tasks", {"task": task, "model": "gpt2"}, ".results > *") for task in ("choose", "similarity", "score")),
    ("tasks", {"task": "translate", "model": "transformer"}, ".results > *"),
    ("runs", {}, "tbody tr"),
]


def test_snippets_run(playground, folders, monkeypatch, capsys):
    """The code for shell and Python is executed unchanged, where the models are."""
    monkeypatch.chdir(folders["bert"].parent)
    for view, values, result in SNIPPETS:
        page = playground.open(view, values)
        wait_for(page, result)
        page.locator(".snippets summary").click()
        shell, python = page.locator(".snippets pre").all_inner_texts()
        words = shlex.split(shell)
        assert words[0] == "curl"
        if "-d" in words:
            request = Request(next(word for word in words if "://" in word), words[-1].encode())
            request.add_header(*words[words.index("-H") + 1].split(": "))
            with urlopen(request) as response:
                assert response.status == 200
        exec(python, {})
    capsys.readouterr()


def test_model_output_is_never_markup(playground):
    """Nor are names and charts of untrusted models and runs."""
    candidates = [{"text": HOSTILE, "probability": 0.5}]
    answer = {"model": "bert", "data": [{"index": 0, "masks": [{"start": 0, "end": 6, "candidates": candidates}]}]}
    playground.page.route("**/v1/fill", lambda route: route.fulfill(json=answer))
    chart = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><foreignObject/>'
    chart += '<text style="color: red">chart</text><image href="http://elsewhere.test/"/></svg>'
    runs = [{"name": HOSTILE, "family": HOSTILE, "total_steps": 1, "steps_done": 1, "training": False, "metrics": []}]
    playground.page.route("**/v1/runs", lambda route: route.fulfill(json=runs))
    playground.page.route(
        "**/v1/runs/*", lambda route: route.fulfill(json={"history": [], "probe_charts": {"probe.svg": chart}})
    )
    page = playground.open("fill")
    wait_for(page, ".bars li")
    assert page.locator(".bars .name").first.inner_text() == HOSTILE
    page = playground.open("layers")
    wait_for(page, ".probe svg")
    inside = page.evaluate("document.querySelector('.probe').innerHTML")
    assert "chart" in inside and not re.search("script|onload|object|image|style", inside, re.I)
    page = playground.open("runs")
    wait_for(page, "tbody tr")
    assert HOSTILE in page.locator("tbody").inner_text() and page.locator("img").count() == 1
    playground.page.unroute_all()
    assert all("has been blocked" in complaint for complaint in playground.visit.complaints), "attempts of the chart"
    playground.visit.complaints.clear()


def test_probe_charts_keep_their_size(playground):
    """A narrow chart does not fill the page, and a wide one scrolls."""
    runs = [{"name": "bert", "family": "bert", "total_steps": 1, "steps_done": 1, "training": False, "metrics": []}]
    playground.page.route("**/v1/runs", lambda route: route.fulfill(json=runs))
    for chart_width, width, least, most in ((330, 1280, 330, 400), (330, 400, 290, 368), (1650, 1280, 1450, 1650)):
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart_width} 300"><text y="20">weights</text></svg>'
        )
        body = {"history": [], "probe_charts": {"probe.svg": svg}}
        playground.page.route("**/v1/runs/*", lambda route, _, body=body: route.fulfill(json=body))
        page = playground.open("layers", width=width)
        wait_for(page, ".probe svg")
        assert least <= page.locator(".probe svg").bounding_box()["width"] <= most
        assert fits(page)
    playground.page.unroute_all()


def test_head_labels_are_translated(playground):
    known = set(re.findall(r'"([^"]+)":|(\w+): "head', (WEB / "views" / "attention.js").read_text("utf-8")))
    assert {*LABELS.values(), "broad", "mixed"} <= {name or word for name, word in known}
    page = playground.open("attention", {"lang": "zh", "model": "bert"})
    wait_for(page, ".lines path")
    label = page.locator(".card .tag").first.inner_text()
    assert not re.search("[a-z]", re.sub("（.*）", "", label)), "English terms are in brackets"
