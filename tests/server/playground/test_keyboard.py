"""Every view by keyboard, and the views that update live."""

from tests.server.client import serving
from tests.server.playground.page import wait_for

from polyseme.rendering import html as pages


def test_generate(playground):
    page = playground.open("generate", {"max_tokens": "12", "temperature": "0"})
    page.get_by_label("Prompt").fill("the old bank")
    page.keyboard.press("Control+Enter")
    wait_for(page, ".token >> nth=2")
    page.locator(".status", has_text="tokens/s").wait_for()
    page.get_by_role("group", name="tokens").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".token[aria-current]").count() == 1
    assert page.locator(".token-details .bars li").count() >= 8
    before = page.get_by_label("Prompt").input_value()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    after = page.get_by_label("Prompt").input_value()
    assert after.startswith(before) and len(after) > len(before), "generation continues from the alternative"


ENDLESS_STREAM = """
  const originalFetch = fetch;
  window.fetch = (url, options = {}) => {
    if (!String(url).endsWith("/v1/completions")) return originalFetch(url, options);
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


def test_generation_can_be_stopped(playground):
    page = playground.page.context.browser.new_page()
    page.add_init_script(ENDLESS_STREAM)
    page.goto(f"{playground.address}/#generate?prompt=on")
    wait_for(page, ".token >> nth=5")
    page.get_by_role("button", name="Stop").press("Enter")
    page.locator(".status", has_text="Stopped.").wait_for()
    num_tokens = page.locator(".token").count()
    page.wait_for_timeout(100)
    assert page.locator(".token").count() == num_tokens
    assert page.get_by_role("button", name="Stop").is_disabled()
    page.close()


def test_fill(playground):
    page = playground.open("fill", {"text": "the old bank lends money", "masks": ""})
    page.locator(".status", has_text="Mask a word first.").wait_for()
    page.get_by_role("button", name="bank").press("Enter")
    wait_for(page, ".bars li")
    assert page.get_by_role("button", name="bank").get_attribute("aria-pressed") == "true"
    assert page.locator(".bars").first.locator("li").count() == 8
    assert "masks=4" in page.url


def test_senses(playground):
    page = playground.open("senses", {"models": "skipgram,bert"})
    wait_for(page, ".map .point")
    positions = "[...document.querySelectorAll('.card:nth-child(2) .point')].map(point => point.style.translate)"
    before = page.evaluate(positions)
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    bottom = page.evaluate(positions)
    page.keyboard.press("ArrowRight")
    assert len({str(each) for each in (before, bottom, page.evaluate(positions))}) == 3 and "layer=1" in page.url
    static = page.evaluate("[...document.querySelectorAll('.card:first-child .point')].map(p => p.style.translate)")
    assert len(set(static)) == 1, "a static model has one position for all"
    page.locator(".map").nth(1).focus()
    page.keyboard.press("End")
    assert page.locator(".sentences li").last.get_attribute("class") == "now"


def test_attention(playground):
    page = playground.open("attention", {"text": "The old bank", "model": "bert"})
    wait_for(page, ".lines path")
    page.locator("[role=listbox]").first.focus()
    page.keyboard.press("ArrowDown")
    assert "attends to:" in page.locator(".head-status").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    assert "layer=2" in page.url and "head=2" in page.url
    assert page.locator(".grid [aria-pressed=true]").get_attribute("aria-label").startswith("layer 2, head 2")


def test_tasks(playground):
    page = playground.open("tasks", {"task": "classify"})
    wait_for(page, ".results .bars li")
    page.get_by_role("tab", name="Text classification").focus()
    page.keyboard.press("ArrowRight")
    wait_for(page, ".results .tagged")
    assert "task=tag" in page.url
    page.go_back()
    wait_for(page, ".results .bars li")


def test_neighbours(playground):
    page = playground.open("neighbours", {"models": "skipgram", "word": "bank", "a": "old", "b": "bank", "c": "new"})
    wait_for(page, ".bars li")
    first = page.locator(".bars .name").first
    word = first.inner_text()
    first.press("Enter")
    page.wait_for_timeout(200)
    assert page.get_by_label("Word", exact=True).input_value() == word
    page.get_by_role("tab", name="Analogies").press("Enter")
    assert page.get_by_label("related word (b)").is_visible()
    wait_for(page, ".bars li")


def test_runs_are_updated_live(playground):
    done = [2]  # steps of the run that is training

    def runs(route):
        common = {"family": "bert", "total_steps": 9, "metrics": ["masked_lm"]}
        finished = {"name": "finished", "steps_done": 9, "training": False, **common}
        route.fulfill(json=[finished, {"name": "active", "steps_done": done[0], "training": True, **common}])

    def history(route):
        num_rows = 9 if route.request.url.endswith("finished") else done[0]
        rows = [{"step": step, "tokens": 10 * step, "masked_lm": 9 - step / 2} for step in range(1, num_rows + 1)]
        rows[-1]["dev"] = {"masked_lm": 5.0}
        route.fulfill(json={"name": "run", "history": rows, "probe_charts": {}})

    playground.page.route("**/v1/runs", runs)
    playground.page.route("**/v1/runs/*", history)
    page = playground.open("runs", {"metric": "masked_lm"})
    wait_for(page, ".chart")
    assert page.locator(".legend li").all_inner_texts() == ["finished", "active"]
    assert "updated live" in page.locator(".status").inner_text()
    points = "[...document.querySelectorAll('.curve')].map(curve => curve.points.length)"
    assert page.evaluate(points) == [9, 2]
    done[0] = 5
    page.get_by_role("row", name="active").get_by_text("5 / 9").wait_for()
    assert page.evaluate(points) == [9, 5]
    page.get_by_label("x-axis").select_option("tokens")
    page.get_by_label("Metric").select_option("dev masked_lm")
    assert page.locator(".chart .dot").count() == 2
    page.get_by_label("Show finished").press("Space")
    assert page.locator(".legend li").all_inner_texts() == ["active"]
    assert all(part in page.url for part in ("hidden=finished", "metric=dev+masked_lm", "x=tokens"))
    page.get_by_label("Show active").press("Space")
    assert page.locator(".chart").count() == 0 and page.get_by_text("None of the selected runs").is_visible()
    playground.page.unroute_all()


def test_problems_are_listed(playground, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    with serving(folders["skipgram"], tmp_path / "empty") as server:
        page = playground.open("runs", address=server.url)
        page.get_by_text("could not be loaded").wait_for()
        assert page.locator(".problems li").inner_text().startswith("empty: ")
    with serving(tmp_path / "empty") as empty:
        page = playground.open("runs", address=empty.url)
        page.get_by_text("could not be loaded").wait_for()
        page.goto("about:blank")
    playground.visit.complaints.clear()  # the browser reports status 503


def test_report_is_sandboxed(playground, folders, tmp_path):
    script = "document.body.append(String(window.origin)); try { parent.document.title = 'taken' } catch {}"
    report = tmp_path / "report.html"
    report.write_text(pages.page("report", "<h1>All families</h1>", script=script))
    with serving(folders["skipgram"], reports={"all families": report}) as server:
        page = playground.open("runs", address=server.url)
        page.get_by_role("button", name="Show here").press("Enter")
        framed = page.frame_locator("iframe")
        framed.get_by_text("null").wait_for()  # the opaque origin of a sandbox
        assert framed.locator("h1").inner_text() == "All families"
        assert page.title() == "Training runs · Polyseme"
        link = page.get_by_role("link", name="all families")
        assert link.get_attribute("href") == f"{server.url}/v1/reports/all%20families"
        page.goto("about:blank")


def test_navigation(playground):
    page = playground.open("fill", {"lang": "zh"})
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.get_by_role("link", name="词义").press("Enter")
    wait_for(page, ".map")
    assert page.evaluate("document.activeElement.id") == "view" and "lang=zh" in page.url
