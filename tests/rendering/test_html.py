"""Stand-alone pages escape every text they contain, and request nothing."""

import json
import re

from tests.browser import browsing

from polyseme.rendering.html import page, table

HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028\"'"


def test_texts_are_escaped():
    whole = page(HOSTILE, table([HOSTILE], [[HOSTILE]]), data={"text": HOSTILE}, script="let x = 1 < 2")
    assert "<img" not in whole and whole.count("</script>") == 2
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', whole)[1]
    assert json.loads(embedded) == {"text": HOSTILE}
    assert "default-src 'none'" in whole


def test_page_without_script():
    assert "<script" not in page("title", "<p>text</p>")


def test_page_in_a_browser(tmp_path):
    script = "document.body.append(JSON.parse(document.getElementById('data').textContent).text)"
    (tmp_path / "page.html").write_text(page("title", "<p>text</p>", data={"text": HOSTILE}, script=script))
    with browsing(width=400) as visit:
        shown = visit.open(tmp_path / "page.html")
        assert HOSTILE[:30] in shown.inner_text("body") and shown.locator("img").count() == 0
        visit.check()
        shown.evaluate("fetch('http://127.0.0.1:1/').catch(() => {})")
        shown.wait_for_timeout(100)
        assert visit.complaints, "the policy reports a request"
