"""The attention page in a browser: content, keyboard and mouse control, no network requests."""

import base64
import json
import re

import numpy as np
import pytest
from tests.attention_models import model_of
from tests.browser import browsing

from polyseme.analysis import attention_page
from polyseme.analysis.attention import Attention, TokenSequence

HOSTILE = "</script><img src=x onerror=alert(1)> & \u2028 <b>bank</b> \u202e evil"


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


@pytest.fixture(scope="module")
def bert():
    return model_of("bert")


@pytest.fixture(scope="module")
def short(bert):
    return bert.attention("The old bank by the river lends money.")


def test_heads_are_counted_once_for_several_texts(bert):
    found = [bert.attention(text) for text in ("The old bank.", "A bat slept in the barn.")]
    counts = [sum("sink" in head.label for head in attention.heads) for attention in found]
    page = found[0].page(found[1])
    assert f"{counts[0]} and {counts[1]} of 6 heads in each text use the first token" in page
    assert f"{counts[0]} of 6 heads use the first token" in found[0].page() and "first_token=null" not in page


def long_attention(num_layers=12, num_heads=12, length=512):
    """Peaked weights with the size of a large model and a long text."""
    scores = np.random.default_rng(0).standard_normal((1, num_heads, length, length), dtype=np.float32)
    weights = np.exp(3 * scores)
    weights = np.repeat(weights / weights.sum(-1, keepdims=True), num_layers, axis=0)
    tokens = [f"word{number}" for number in range(length)]
    sequence = TokenSequence(
        tokens=tokens,
        display=tokens,
        word_spans=[(n, n + 1) for n in range(length)],
        word_texts=tokens,
        is_special=[False] * length,
    )
    return Attention(
        model="model",
        name="self-attention",
        texts=[" ".join(tokens)],
        queries=sequence,
        keys=sequence,
        weights=weights,
        causal=False,
    )


@pytest.fixture(scope="module")
def browser():
    with browsing() as visit:
        yield visit


@pytest.fixture
def visit(browser):
    """A shared browser; console errors fail the test."""
    browser.complaints.clear()
    show(browser)
    yield browser
    browser.check()


def show(visit, *, width=1280, dark=False):
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.page.emulate_media(color_scheme="dark" if dark else "light")


def write_page(path, page):
    path.write_text(page, encoding="utf-8")
    return path


def ready(visit, path):
    page = visit.open(path)
    until(page, "performance.getEntriesByName('ready').length > 0")
    return page


def until(page, condition):
    """Wait for a condition; playwright's wait_for_function needs eval, which the page forbids."""
    for _ in range(30):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(condition)


def test_weights_are_stored_as_square_roots_in_bytes(short):
    part = data_of(short.page())["panels"][0]["parts"][0]
    length = len(short.tokens)
    assert part["num_stored"] == length and len(part["maps"]) == part["layers"] * part["heads"]
    stored = np.frombuffer(base64.b64decode(part["maps"][4]), np.uint8).reshape(length, length)
    np.testing.assert_allclose((stored / 255) ** 2, short.weights[1, 1], atol=1 / 255)
    assert [row[0] for row in part["statistics"][0]] == [head.label for head in short.heads]


def test_only_the_largest_of_many_weights_are_stored():
    attention = long_attention(num_layers=2, num_heads=2, length=512)
    whole = data_of(attention.page())["panels"][0]["parts"][0]
    assert whole["num_stored"] == 512
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_page, "_MAX_DENSE", 1000)
        patch.setattr(attention_page, "_MAX_SPARSE_BYTES", 4 * 512 * 3 * 7)
        page = attention.page()
    part = data_of(page)["panels"][0]["parts"][0]
    assert part["num_stored"] == 7 and "only the largest weights" in page
    stored = base64.b64decode(part["maps"][3])
    indices = np.frombuffer(stored[: 2 * 7 * 512], "<u2").reshape(512, 7).astype(int)
    largest = np.sort(attention.weights[1, 1], axis=1)[:, -7:]
    np.testing.assert_array_equal(np.sort(np.take_along_axis(attention.weights[1, 1], indices, 1), axis=1), largest)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_page_opens_at_any_width(visit, tmp_path, short, width, dark):
    path = write_page(tmp_path / "page.html", short.page())
    show(visit, width=width, dark=dark)
    page = ready(visit, path)
    assert page.locator("#statistics tbody tr").count() == page.locator("#grids button").count() == 6
    assert page.locator("[role=listbox]").first.inner_text().split() == short.queries.display
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no horizontal overflow"
    page.locator("#grids").scroll_into_view_if_needed()
    drawn = "[...document.querySelectorAll('#grids canvas')].every(c => c.width === c.height && c.width < 41)"
    until(page, drawn)


def test_keyboard_and_mouse(visit, tmp_path, short):
    page = ready(visit, write_page(tmp_path / "page.html", short.page()))
    summary, left = page.locator(".head-status"), page.locator("[role=listbox]").nth(0)
    assert summary.inner_text() == "All tokens are shown."
    left.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert left.locator("[aria-selected=true]").inner_text() == "The"
    best = short.queries.display[int(short.weights[0, 0, 1].argmax())]
    assert summary.inner_text().startswith(f"“The” attends to: {best} {short.weights[0, 0, 1].max():.2f}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    assert (page.input_value("#layer"), page.input_value("#head")) == ("1", "1")
    best = short.queries.display[int(short.weights[1, 1, 1].argmax())]
    assert summary.inner_text().startswith(f"“The” attends to: {best} {short.weights[1, 1, 1].max():.2f}")
    page.keyboard.press("Escape")
    assert left.locator("[aria-selected=true]").count() == 0
    right = page.locator("[role=listbox]").nth(1)
    right.get_by_text("old", exact=True).click()
    best = short.queries.display[int(short.weights[1, 1, :, 2].argmax())]
    assert summary.inner_text().startswith(f"“old” is attended to by: {best} ")
    page.select_option("#layer", "0")
    page.get_by_label("layer 2, head 3").click()
    assert (page.input_value("#layer"), page.input_value("#head")) == ("1", "2")
    assert page.locator("#grids [aria-pressed=true]").get_attribute("title").startswith("layer 2, head 3: ")
    page.locator("#statistics tbody button").first.click()
    assert (page.input_value("#layer"), page.input_value("#head")) == ("0", "0")


def test_statistics_are_sortable(visit, tmp_path, short):
    shown = "[...document.querySelectorAll('#statistics tbody tr')].map(row => row.cells[2].textContent)"
    page = ready(visit, write_page(tmp_path / "page.html", short.page()))
    firsts = [f"{head.first:.2f}" for head in short.heads]
    assert page.evaluate(shown) == firsts
    page.get_by_role("button", name="first", exact=True).click()
    assert page.evaluate(shown) == sorted(firsts, reverse=True)
    page.get_by_role("button", name="first ↓").click()
    assert page.evaluate(shown) == sorted(firsts)


def test_word_attention_matches_python(visit, tmp_path, bert):
    attention = bert.attention("unbelievable farmers in the townhall")
    words = attention.by_word()
    assert len(words.tokens) < len(attention.tokens)
    page = ready(visit, write_page(tmp_path / "page.html", attention.page()))
    page.check("#words")
    left = page.locator("[role=listbox]").nth(0)
    assert left.locator("[role=option]").all_inner_texts() == words.tokens
    left.get_by_text("farmers", exact=True).click()
    row = words.weights[0, 0, words.tokens.index("farmers")]
    weights = (
        page.locator("[role=listbox]")
        .nth(1)
        .locator("[role=option]")
        .evaluate_all("tokens => tokens.map(token => Number(token.style.getPropertyValue('--weight')))")
    )
    np.testing.assert_allclose(weights, row, atol=0.02)


def test_comparison_of_two_texts(visit, tmp_path, bert):
    texts = ["The bank lends money. She", "The bank lends money. He waits there"]
    first, second = map(bert.attention, texts)
    page = ready(visit, write_page(tmp_path / "page.html", first.page(second)))
    boxes = [section.bounding_box() for section in page.locator("#panels > section").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    page.locator("[role=listbox]").first.focus()
    page.keyboard.press("ArrowRight")
    for section, attention in zip(page.locator("#panels > section").all(), (first, second), strict=True):
        last = len(attention.tokens) - 1
        section.locator("[role=listbox]").nth(0).locator("[role=option]").nth(last).click()
        best = attention.queries.display[int(attention.weights[0, 1, last].argmax())]
        assert section.locator(".head-status").inner_text().startswith(f"“[SEP]” attends to: {best} ")
    assert page.locator("#statistics tbody tr").count() == 12
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_cross_attention_of_a_translation(visit, tmp_path):
    attention = model_of("transformer").attention("the old bank by the river")
    show(visit, width=400)
    page = ready(visit, write_page(tmp_path / "page.html", attention.page()))
    page.select_option("#part", label="translation to source")
    columns = page.locator("[role=listbox]").all()
    shown = [column.locator("[role=option]").count() for column in columns]
    assert shown == [len(attention.cross.tokens), len(attention.tokens)]
    assert "–" in page.locator("#statistics tbody tr").first.inner_text()


def test_notebook_representation_opens(visit, tmp_path, short):
    page = visit.open(write_page(tmp_path / "notebook.html", f"<!doctype html><body>{short._repr_html_()}</body>"))
    frame = page.frame_locator("iframe")
    frame.locator("[role=option]").nth(1).click()
    assert frame.locator(".head-status").inner_text().startswith("“The” attends to: ")


def test_hostile_text_is_escaped(visit, tmp_path):
    attention = model_of("gpt2").attention(HOSTILE)
    page = attention.page()
    assert "<img" not in page and page.count("</script>") == 2
    opened = ready(visit, write_page(tmp_path / "page.html", page))
    assert "<b>bank</b>" in opened.locator("h3").inner_text() and opened.locator("img, b").count() == 0
    opened.check("#words")
    opened.locator("[role=option]").nth(3).click()


def test_long_text_opens_quickly(visit, tmp_path):
    page = long_attention().page()
    assert len(page.encode()) < 15_000_000
    opened = ready(visit, write_page(tmp_path / "page.html", page))
    assert opened.evaluate("performance.getEntriesByName('ready')[0].startTime") < 3000
    assert opened.locator("svg path").count() < 512, "lines of a single token"
    opened.locator("#grids button").first.scroll_into_view_if_needed()
    until(opened, "document.querySelector('#grids canvas').width === 40")
    opened.get_by_label("layer 1, head 2").click()
    assert "attends to" in opened.locator(".head-status").inner_text()
