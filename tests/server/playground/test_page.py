"""The page around the views: address, language, theme, API key and errors."""

from tests.server.client import serving
from tests.server.playground.page import wait_for


def test_address_restores_the_state(playground):
    page = playground.open("generate")
    page.get_by_label("Prompt").fill("a bat\nslept & 银行 100%?#")
    page.get_by_label("Random seed").fill("7")
    page.get_by_role("spinbutton", name="Max tokens").fill("9")
    page.get_by_role("button", name="Generate").click()
    page.locator(".status", has_text="tokens/s").wait_for()
    shared, generated = page.url, page.locator(".shaded").inner_text()
    page.goto("about:blank")
    page.goto(shared)
    page.locator(".status", has_text="tokens/s").wait_for()
    assert page.get_by_label("Prompt").input_value() == "a bat\nslept & 银行 100%?#"
    assert (
        page.get_by_label("Random seed").input_value(),
        page.get_by_role("spinbutton", name="Max tokens").input_value(),
    ) == (
        "7",
        "9",
    )
    assert page.locator(".shaded").inner_text() == generated, "same seed, same text"
    page.get_by_label("Prompt").fill("again")
    page.get_by_role("button", name="Generate").click()
    page.locator(".prompt", has_text="again").wait_for()
    page.go_back()
    page.locator(".prompt", has_text="a bat").wait_for()
    page.go_forward()
    page.locator(".prompt", has_text="again").wait_for()


def test_language_and_theme_persist(playground):
    page = playground.open("fill")
    page.get_by_role("button", name="中文").click()
    assert page.locator("h1").inner_text() == "掩码预测" and "lang=zh" in page.url
    page.get_by_label("配色主题").select_option("dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(22, 24, 27)"
    page.get_by_role("link", name="训练记录").click()
    wait_for(page, "tbody tr")
    assert "lang=zh" in page.url and "theme=dark" in page.url
    page.route("**/v1/models", lambda route: None)  # never fulfilled: the theme is applied before the first response
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.unroute_all()


def test_api_key(playground, folders):
    with serving(folders["bert"], key="open sesame") as server:
        page = playground.open("fill", address=server.url)
        page.get_by_label("API key").fill("wrong")
        page.keyboard.press("Enter")
        page.locator("[role=alert]", has_text="another one").wait_for()
        page.get_by_label("API key").fill("open sesame")
        page.get_by_role("button", name="Use key").click()
        wait_for(page, ".bars li")
        page.locator(".snippets summary").click()
        assert "$POLYSEME_API_KEY" in page.locator("pre").first.inner_text()
        assert "sesame" not in page.url + page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        )
        assert all("401" in complaint for complaint in playground.visit.complaints), "the browser reports every 401"
        playground.visit.complaints.clear()
        page.goto("about:blank")


def test_unsupported_views(playground, folders):
    with serving(folders["skipgram"]) as server:
        page = playground.open("fill", address=server.url)
        assert "such as bert" in page.locator(".notice").inner_text()
        assert "polyseme pretrain bert" in page.locator(".notice code").inner_text()
        assert page.locator("nav .unsupported").count() >= 3
        page = playground.open("generate", {"lang": "zh"}, address=server.url)
        assert "从左到右" in page.locator(".notice").inner_text()
        page.goto("about:blank")


def test_errors_are_one_line(playground):
    error = {"error": {"message": "give a model: <b>bert</b>", "type": "x", "code": "model_required"}}
    for response, message in (
        ({"status": 422, "json": error}, "give a model: <b>bert</b>"),
        ({"status": 429, "json": error}, "busy"),
        ({"status": 500, "body": "<html>"}, "error (500)"),
    ):
        playground.page.route("**/v1/fill", lambda route, _, response=response: route.fulfill(**response))
        page = playground.open("fill")
        page.locator(".status.wrong", has_text=message).wait_for()
        playground.page.unroute_all()
    playground.page.route("**/v1/fill", lambda route: route.abort())
    playground.open("fill").locator(".status.wrong", has_text="does not respond").wait_for()
    playground.page.unroute_all()
    assert all("Failed to load resource" in complaint for complaint in playground.visit.complaints)
    playground.visit.complaints.clear()
