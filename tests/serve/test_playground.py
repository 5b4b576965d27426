"""The playground in a browser: every view in both languages on wide and narrow screens, by keys, and by its address."""

import json
import re
import shlex
from importlib.resources import files
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from asking import serving

from browser import browsing
from polyseme import pages
from polyseme.inside.heads import LABELS

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e<b>bank</b>'\""
WEB = files("polyseme.serve") / "web"

# Of each view: what stands in its address with a hostile text, and what shows that it has been answered.
VIEWS = {
    "write": ({"prompt": HOSTILE, "length": "8"}, ".token"),
    "fill": ({"text": f"[MASK] {HOSTILE}", "blanks": ""}, ".bars li"),
    "senses": ({"word": "bank", "texts": f"The bank lends.\n\n{HOSTILE}"}, ".map .point"),
    "attention": ({"text": "<b>bank</b> <img src=x>"}, ".lines path"),
    "layers": ({}, ".notice code, .probe svg"),
    "tasks": ({"task": "classify", "text": HOSTILE}, ".results .bars li"),
    "neighbours": ({"word": "bank", "models": "skipgram"}, ".bars li"),
    "runs": ({}, "tbody tr"),
}
NAMES = {
    "write": ("Write", "续写"),
    "fill": ("Fill", "填空"),
    "senses": ("Senses", "词义"),
    "attention": ("Attention", "注意力"),
    "layers": ("Layers", "各层"),
    "tasks": ("Tasks", "任务"),
    "neighbours": ("Neighbours", "近邻"),
    "runs": ("Runs", "训练"),
}


@pytest.fixture(scope="module")
def browser():
    with browsing() as visit:
        visit.page.set_default_timeout(15_000)
        yield visit


class Playing:
    """The playground in a browser, which has nothing to complain about and asks nobody but its own server."""

    def __init__(self, visit, address):
        self.visit, self.page, self.address = visit, visit.page, address

    def open(self, view, values=None, *, width=1280, address=None):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto("about:blank")  # else only the part behind # would change
        query = "&".join(f"{name}={quote(value)}" for name, value in (values or {}).items())
        self.page.goto(f"{address or self.address}/#{view}?{query}")
        return self.page

    def check(self):
        assert self.visit.complaints == []
        own = ("http://127.0.0.1:", "about:blank", "data:")
        assert [url for url in self.visit.requests if not url.startswith(own)] == []


@pytest.fixture
def play(browser, server):
    browser.complaints.clear()
    browser.requests.clear()
    playing = Playing(browser, server.url)
    yield playing
    playing.check()
    browser.page.goto("about:blank")


def answered(page, selector):
    page.locator(selector).first.wait_for(state="attached")


def fits(page):
    wide, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return wide <= screen


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view(play, view, language, width):
    values, shown = VIEWS[view]
    page = play.open(view, {**values, "lang": language}, width=width)
    answered(page, shown)
    assert page.locator("h1").inner_text() == NAMES[view][language == "zh"]
    assert page.locator("nav [aria-current=page]").inner_text() == NAMES[view][language == "zh"]
    assert page.locator("html").get_attribute("lang") == {"en": "en", "zh": "zh-Hans"}[language]
    assert page.locator(".status.wrong").count() == 0
    assert fits(page), "nothing sticks out"
    assert page.locator("img").count() == 1, "the sign in the corner, and none that a text has brought"
    page.locator(".calls summary").click()
    lines = page.locator(".calls pre").all_inner_texts()
    assert lines[0].startswith(f"curl {'-N ' * (view == 'write')}{play.address}/v1/") and "import" in lines[1]
    assert fits(page)
    assert page.locator("body script, main style").count() == 0


@pytest.mark.parametrize("task", ["classify", "tag", "pair", "similarity", "answer", "choose", "translate", "score"])
def test_each_task(play, task):
    page = play.open(
        "tasks", {"task": task, "text": HOSTILE, "passage": HOSTILE, "first": HOSTILE, "choices": f"{HOSTILE}\na"}
    )
    answered(page, ".results > *")
    assert page.locator("[role=tab][aria-selected=true]").inner_text().lower() == task
    assert page.locator(".status.wrong").count() == 0 and page.locator("img").count() == 1
    page.set_viewport_size({"width": 400, "height": 800})
    assert fits(page)


PROGRAMS = [
    ("write", {"prompt": 'it\'s a "bank"', "length": "3"}, ".token"),
    ("fill", {"text": "it's a [MASK] \\n 银行", "blanks": "", "models": "bert"}, ".bars li"),
    ("senses", {"word": "bank", "texts": "a bank\nthe 'bank'", "models": "skipgram"}, ".point"),
    ("attention", {"text": "it's", "model": "bert", "second": "two"}, ".lines path"),
    ("neighbours", {"word": "bank", "models": "skipgram"}, ".bars li"),
    ("neighbours", {"kind": "analogy", "a": "old", "b": "bank", "c": "new", "models": "skipgram"}, ".bars li"),
    *(("tasks", {"task": task, "model": "tuned"}, ".results > *") for task in ("classify", "tag", "pair", "answer")),
    *(("tasks", {"task": task, "model": "tuned"}, ".results > *") for task in ("choose", "similarity")),
    *(("tasks", {"task": task, "model": "gpt2"}, ".results > *") for task in ("choose", "similarity", "score")),
    ("tasks", {"task": "translate", "model": "transformer"}, ".results > *"),
    ("runs", {}, "tbody tr"),
]


def test_programs_do_the_same(play, capsys):
    """The lines for shell and Python are run as they stand there."""
    for view, values, shown in PROGRAMS:
        page = play.open(view, values)
        answered(page, shown)
        page.locator(".calls summary").click()
        shell, python = page.locator(".calls pre").all_inner_texts()
        sent = shlex.split(shell)
        assert sent[0] == "curl"
        if "-d" in sent:
            request = Request(next(word for word in sent if "://" in word), sent[-1].encode())
            request.add_header(*sent[sent.index("-H") + 1].split(": "))
            with urlopen(request) as answer:
                assert answer.status == 200
        exec(python, {})
    capsys.readouterr()


def test_whatever_models_say_is_text(play):
    """Also what a model or a run of somebody else's might hold."""
    guesses = [{"text": HOSTILE, "probability": 0.5}]
    answer = {"model": "bert", "data": [{"index": 0, "blanks": [{"start": 0, "end": 6, "candidates": guesses}]}]}
    play.page.route("**/v1/fill", lambda route: route.fulfill(json=answer))
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><foreignObject/>'
    drawing += '<text style="color: red">chart</text><image href="http://elsewhere.test/"/></svg>'
    runs = [{"name": HOSTILE, "family": HOSTILE, "steps": 1, "done": 1, "training": False, "figures": []}]
    play.page.route("**/v1/runs", lambda route: route.fulfill(json=runs))
    play.page.route("**/v1/runs/*", lambda route: route.fulfill(json={"history": [], "probe": drawing}))
    page = play.open("fill")
    answered(page, ".bars li")
    assert page.locator(".bars .name").first.inner_text() == HOSTILE
    page = play.open("layers")
    answered(page, ".probe svg")
    inside = page.evaluate("document.querySelector('.probe').innerHTML")
    assert "chart" in inside and not re.search("script|onload|foreign|image|style", inside)
    page = play.open("runs")
    answered(page, "tbody tr")
    assert HOSTILE in page.locator("tbody").inner_text() and page.locator("img").count() == 1
    play.page.unroute_all()
    assert all("has been blocked" in complaint for complaint in play.visit.complaints), "what the drawing tried"
    play.visit.complaints.clear()


def test_charts_of_layers_are_as_large_as_they_were_drawn(play):
    """One task does not fill the page; several that stand side by side are scrolled where there is no room."""
    runs = [{"name": "bert", "family": "bert", "steps": 1, "done": 1, "training": False, "figures": []}]
    play.page.route("**/v1/runs", lambda route: route.fulfill(json=runs))
    for drawn, width, least, most in ((330, 1280, 330, 400), (330, 400, 290, 368), (1650, 1280, 1450, 1650)):
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawn} 300"><text y="20">weights</text></svg>'
        body = {"history": [], "probe": svg}
        play.page.route("**/v1/runs/*", lambda route, _, body=body: route.fulfill(json=body))
        page = play.open("layers", width=width)
        answered(page, ".probe svg")
        assert least <= page.locator(".probe svg").bounding_box()["width"] <= most
        assert fits(page)
    play.page.unroute_all()


def test_what_heads_are_called_is_said_in_the_language_of_the_page(play):
    known = set(re.findall(r'"([^"]+)":|(\w+): "head', (WEB / "views" / "attention.js").read_text("utf-8")))
    assert {*LABELS.values(), "broad", "mixed"} <= {name or word for name, word in known}
    page = play.open("attention", {"lang": "zh", "model": "bert"})
    answered(page, ".lines path")
    assert not re.search("[a-z]", page.locator(".card .tag").first.inner_text())


# --- by keys alone ---------------------------------------------------------------------------------------------------


def test_keys_write(play):
    page = play.open("write", {"length": "12", "temperature": "0"})
    page.get_by_label("Text to go on from").fill("the old bank")
    page.keyboard.press("Control+Enter")
    answered(page, ".token >> nth=2")
    page.locator(".status", has_text="tokens").wait_for()
    page.get_by_role("group", name="tokens").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".token[aria-current]").count() == 1
    assert page.locator(".close-look .bars li").count() >= 8
    before = page.get_by_label("Text to go on from").input_value()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    after = page.get_by_label("Text to go on from").input_value()
    assert after.startswith(before) and len(after) > len(before), "an alternative is gone on from"


ENDLESS = """
  const ordinary = fetch;
  window.fetch = (address, options = {}) => {
    if (!String(address).endsWith("/v1/completions")) return ordinary(address, options);
    const logprobs = {tokens: [" on"], token_logprobs: [-1], top_logprobs: [{" on": -1}]};
    const event = {choices: [{text: " on", logprobs}]};
    const body = new ReadableStream({
      start: (to) => options.signal.addEventListener("abort", () => to.error(options.signal.reason)),
      pull: async (to) => {
        await new Promise((done) => setTimeout(done, 20));
        if (!options.signal.aborted) to.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\\n\\n`));
      },
    });
    return Promise.resolve(new Response(body));
  };
"""


def test_what_never_ends_is_stopped(play):
    page = play.page.context.browser.new_page()
    page.add_init_script(ENDLESS)
    page.goto(f"{play.address}/#write?prompt=on")
    answered(page, ".token >> nth=5")
    page.get_by_role("button", name="Stop").press("Enter")
    page.locator(".status", has_text="Stopped.").wait_for()
    written = page.locator(".token").count()
    page.wait_for_timeout(100)
    assert page.locator(".token").count() == written
    assert page.get_by_role("button", name="Stop").is_disabled()
    page.close()


def test_keys_fill(play):
    page = play.open("fill", {"text": "the old bank lends money", "blanks": ""})
    page.locator(".status", has_text="Blank a word first.").wait_for()
    page.get_by_role("button", name="bank").press("Enter")
    answered(page, ".bars li")
    assert page.get_by_role("button", name="bank").get_attribute("aria-pressed") == "true"
    assert page.locator(".bars").first.locator("li").count() == 8
    assert "blanks=4" in page.url


def test_keys_senses(play):
    page = play.open("senses", {"models": "skipgram,bert"})
    answered(page, ".map .point")
    places = "[...document.querySelectorAll('.card:nth-child(2) .point')].map(point => point.style.translate)"
    before = page.evaluate(places)
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    bottom = page.evaluate(places)
    page.keyboard.press("ArrowRight")
    assert len({str(each) for each in (before, bottom, page.evaluate(places))}) == 3 and "layer=1" in page.url
    still = page.evaluate("[...document.querySelectorAll('.card:first-child .point')].map(p => p.style.translate)")
    assert len(set(still)) == 1, "a static model has one place for all"
    page.locator(".map").nth(1).focus()
    page.keyboard.press("End")
    assert page.locator(".sentences li").last.get_attribute("class") == "now"


def test_keys_attention(play):
    page = play.open("attention", {"text": "The old bank", "model": "bert"})
    answered(page, ".lines path")
    page.locator("[role=listbox]").first.focus()
    page.keyboard.press("ArrowDown")
    assert "looks at:" in page.locator(".said").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    assert "layer=2" in page.url and "head=2" in page.url
    assert page.locator(".grid [aria-pressed=true]").get_attribute("aria-label").startswith("layer 2, head 2")


def test_keys_tasks(play):
    page = play.open("tasks", {"task": "classify"})
    answered(page, ".results .bars li")
    page.get_by_role("tab", name="Classify").focus()
    page.keyboard.press("ArrowRight")
    answered(page, ".results .tagged")
    assert "task=tag" in page.url
    page.go_back()
    answered(page, ".results .bars li")


def test_keys_neighbours(play):
    page = play.open("neighbours", {"models": "skipgram", "word": "bank", "a": "old", "b": "bank", "c": "new"})
    answered(page, ".bars li")
    first = page.locator(".bars .name").first
    word = first.inner_text()
    first.press("Enter")
    page.wait_for_timeout(200)
    assert page.get_by_label("Word", exact=True).input_value() == word
    page.get_by_role("tab", name="Analogies").press("Enter")
    assert page.get_by_label("its partner").is_visible()
    answered(page, ".bars li")


def test_runs_by_keys_and_live(play):
    done = [2]  # steps that the run which trains has made

    def runs(route):
        told = {"family": "bert", "steps": 9, "figures": ["masked"]}
        ended = {"name": "ended", "done": 9, "training": False, **told}
        route.fulfill(json=[ended, {"name": "going", "done": done[0], "training": True, **told}])

    def history(route):
        num_rows = 9 if route.request.url.endswith("ended") else done[0]
        rows = [{"step": step, "tokens": 10 * step, "masked": 9 - step / 2} for step in range(1, num_rows + 1)]
        rows[-1]["dev"] = {"masked": 5.0}
        route.fulfill(json={"name": "run", "history": rows, "probe": {}})

    play.page.route("**/v1/runs", runs)
    play.page.route("**/v1/runs/*", history)
    page = play.open("runs", {"figure": "masked"})
    answered(page, ".chart")
    assert page.locator(".legend li").all_inner_texts() == ["ended", "going"]
    assert "follow" in page.locator(".status").inner_text()
    points = "[...document.querySelectorAll('.curve')].map(curve => curve.points.length)"
    assert page.evaluate(points) == [9, 2]
    done[0] = 5
    page.get_by_role("row", name="going").get_by_text("5 / 9").wait_for()
    assert page.evaluate(points) == [9, 5]
    page.get_by_label("Over").select_option("tokens")
    page.get_by_label("Figure").select_option("dev masked")
    assert page.locator(".chart .dot").count() == 2
    page.get_by_label("Show ended").press("Space")
    assert page.locator(".legend li").all_inner_texts() == ["going"]
    assert all(part in page.url for part in ("without=ended", "figure=dev+masked", "across=tokens"))
    page.get_by_label("Show going").press("Space")
    assert page.locator(".chart").count() == 0 and page.get_by_text("No run that is shown").is_visible()
    play.page.unroute_all()


def test_what_is_not_served_is_told(play, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    with serving(folders["skipgram"], tmp_path / "empty") as little:
        page = play.open("runs", address=little.url)
        page.get_by_text("not served").wait_for()
        assert page.locator(".unserved li").inner_text().startswith("empty: ")
    with serving(tmp_path / "empty") as nothing:
        page = play.open("runs", address=nothing.url)
        page.get_by_text("not served").wait_for()
        page.goto("about:blank")
    play.visit.complaints.clear()  # a browser counts 503 among them


def test_a_report_is_shown_and_reaches_nothing_of_ours(play, folders, tmp_path):
    script = "document.body.append(String(window.origin)); try { parent.document.title = 'taken' } catch {}"
    report = tmp_path / "report.html"
    report.write_text(pages.page("report", "<h1>All families</h1>", script=script))
    with serving(folders["skipgram"], reports={"all families": report}) as little:
        page = play.open("runs", address=little.url)
        page.get_by_role("button", name="Show here").press("Enter")
        framed = page.frame_locator("iframe")
        framed.get_by_text("null").wait_for()  # the origin of what is kept apart
        assert framed.locator("h1").inner_text() == "All families"
        assert page.title() == "Runs · Polyseme"
        link = page.get_by_role("link", name="all families")
        assert link.get_attribute("href") == f"{little.url}/v1/reports/all%20families"
        page.goto("about:blank")


def test_views_by_keys(play):
    page = play.open("fill", {"lang": "zh"})
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.get_by_role("link", name="词义").press("Enter")
    answered(page, ".map")
    assert page.evaluate("document.activeElement.id") == "view" and "lang=zh" in page.url


# --- the address, languages, light, keys and errors ------------------------------------------------------------------


def test_the_address_says_it_all(play):
    page = play.open("write")
    page.get_by_label("Text to go on from").fill("a bat\nslept & 银行 100%?#")
    page.get_by_label("Seed").fill("7")
    page.get_by_role("spinbutton", name="Tokens").fill("9")
    page.get_by_role("button", name="Write").click()
    page.locator(".status", has_text="tokens").wait_for()
    shared, written = page.url, page.locator(".shaded").inner_text()
    page.goto("about:blank")
    page.goto(shared)
    page.locator(".status", has_text="tokens").wait_for()
    assert page.get_by_label("Text to go on from").input_value() == "a bat\nslept & 银行 100%?#"
    assert (page.get_by_label("Seed").input_value(), page.get_by_role("spinbutton", name="Tokens").input_value()) == (
        "7",
        "9",
    )
    assert page.locator(".shaded").inner_text() == written, "the same seed writes the same"
    page.get_by_label("Text to go on from").fill("again")
    page.get_by_role("button", name="Write").click()
    page.locator(".given", has_text="again").wait_for()
    page.go_back()
    page.locator(".given", has_text="a bat").wait_for()
    page.go_forward()
    page.locator(".given", has_text="again").wait_for()


def test_language_and_light_stay(play):
    page = play.open("fill")
    page.get_by_role("button", name="中文").click()
    assert page.locator("h1").inner_text() == "填空" and "lang=zh" in page.url
    page.get_by_label("浅色或深色").select_option("dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(22, 24, 27)"
    page.get_by_role("link", name="训练").click()
    answered(page, "tbody tr")
    assert "lang=zh" in page.url and "theme=dark" in page.url
    page.route("**/v1/models", lambda route: None)  # which never answers: a dark page is dark before it is asked
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.unroute_all()


def test_a_key_is_asked_for(play, folders):
    with serving(folders["bert"], key="open sesame") as locked:
        page = play.open("fill", address=locked.url)
        page.get_by_label("API key").fill("wrong")
        page.keyboard.press("Enter")
        page.locator("[role=alert]", has_text="another one").wait_for()
        page.get_by_label("API key").fill("open sesame")
        page.get_by_role("button", name="Use key").click()
        answered(page, ".bars li")
        page.locator(".calls summary").click()
        assert "$POLYSEME_API_KEY" in page.locator("pre").first.inner_text()
        assert "sesame" not in page.url + page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        )
        assert all("401" in complaint for complaint in play.visit.complaints), "a browser tells of every refusal"
        play.visit.complaints.clear()
        page.goto("about:blank")


def test_what_no_model_can(play, folders):
    with serving(folders["skipgram"]) as little:
        page = play.open("fill", address=little.url)
        assert "bert, roberta" in page.locator(".notice").inner_text()
        assert "polyseme pretrain bert" in page.locator(".notice code").inner_text()
        assert page.locator("nav .unable").count() >= 3
        page = play.open("write", {"lang": "zh"}, address=little.url)
        assert "从左往右" in page.locator(".notice").inner_text()
        page.goto("about:blank")


def test_errors_are_one_line(play):
    refusal = {"error": {"message": "name a model: <b>bert</b>", "type": "x", "code": "model"}}
    for answer, said in (
        ({"status": 422, "json": refusal}, "name a model: <b>bert</b>"),
        ({"status": 429, "json": refusal}, "busy"),
        ({"status": 500, "body": "<html>"}, "error (500)"),
    ):
        play.page.route("**/v1/fill", lambda route, _, answer=answer: route.fulfill(**answer))
        page = play.open("fill")
        page.locator(".status.wrong", has_text=said).wait_for()
        play.page.unroute_all()
    play.page.route("**/v1/fill", lambda route: route.abort())
    play.open("fill").locator(".status.wrong", has_text="does not answer").wait_for()
    play.page.unroute_all()
    assert all("Failed to load resource" in complaint for complaint in play.visit.complaints)
    play.visit.complaints.clear()


# --- without a browser -----------------------------------------------------------------------------------------------


def sources():
    return {
        path.name: path.read_text() for folder in (WEB, WEB / "views") for path in folder.iterdir() if path.is_file()
    }


def test_every_string_has_both_languages():
    table = re.findall(r'^  (\w+): \[\s*("(?:[^"\\]|\\.)*"),\s*("(?:[^"\\]|\\.)*")\],$', sources()["strings.js"], re.M)
    strings = {name: (json.loads(english), json.loads(chinese)) for name, english, chinese in table}
    assert len(strings) > 150
    for name, (english, chinese) in strings.items():
        assert english and chinese
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), name
    used = {name for text in sources().values() for name in re.findall(r'\bsay\("(\w+)"', text)}
    assert used <= strings.keys()
    for view in VIEWS:
        assert {view, f"{view}About"} <= strings.keys()


def test_colours_are_those_of_pages():
    style = sources()["style.css"]
    light, dark = pages.COLOURS, pages._LIGHTER
    assert all(f"--colour-{number}: {colour};" in style for number, colour in enumerate(light))
    assert all(style.count(f"--colour-{number}: {colour};") == 2 for number, colour in enumerate(dark))


def test_no_text_becomes_markup():
    """The page's policy would refuse a script, but not a picture or a form."""
    for name, text in sources().items():
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
            assert len(text.splitlines()) < 300
        assert not re.search(r"https?://(?!www\.w3\.org)", text), name
