"""Pages hold whatever texts they are given, as texts."""

import json
import re

from polyseme.pages import page, table

HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028\"'"


def test_texts_stay_texts():
    whole = page(HOSTILE, table([HOSTILE], [[HOSTILE]]), data={"text": HOSTILE}, script="let x = 1 < 2")
    assert "<img" not in whole and whole.count("</script>") == 2
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', whole)[1]
    assert json.loads(held) == {"text": HOSTILE}
    assert "default-src 'none'" in whole


def test_a_page_without_a_program_has_none():
    assert "<script" not in page("title", "<p>text</p>")
