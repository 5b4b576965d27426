"""Reports of synthetic results: complete, offline, deterministic, and safe with any text."""

import json
import random
import re
from html.parser import HTMLParser

import pytest
from tests.browser import browsing
from tests.comparison.synthetic_results import (
    AMBIGUOUS,
    FAMILIES,
    HOSTILE,
    TASKS,
    comparison_row,
    family_rows,
    synthetic_rows,
    write_rows,
)

from polyseme.comparison.report.charts import draw_learning_curves
from polyseme.comparison.report.labels import format_budget, format_score, truncate
from polyseme.comparison.report.markdown import escape_markdown
from polyseme.comparison.report.page import write_report
from polyseme.comparison.report.pareto import find_pareto_front
from polyseme.comparison.report.results_view import group_rows, load_results
from polyseme.comparison.rows import ROWS
from polyseme.errors import DataError
from polyseme.system.formatting import enumerate_words, format_count, format_duration


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_rows(tmp_path_factory.mktemp("comparison"), synthetic_rows())
    assert write_report(folder) == folder / "report.html"
    return folder


class Balance(HTMLParser):
    """Checks that all elements are closed, and collects links."""

    VOID = ("meta",)

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], set(), []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.open += [] if tag in self.VOID else [tag]
        self.links += [value for key, value in attributes if key in ("href", "src", "action", "data")]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}>"


def check_html(page):
    found = Balance()
    found.feed(page)
    assert found.open == []
    assert "img" not in found.seen and "iframe" not in found.seen
    assert all(link.startswith("#") for link in found.links)
    assert "Content-Security-Policy" in page and len(page.encode()) < 5_000_000


def test_the_page_has_all_sections(folder):
    page = (folder / "report.html").read_text("utf-8")
    check_html(page)
    for title in ("Quality against cost", "Scores", "Costs", "Learning curves", "Scores by number of labels",
                  "Nearest neighbours", "Ambiguous words", "Generated text and predictions",
                  "Reproduction"):  # fmt: skip
        assert f"<h2>{title}</h2>" in page
    assert "With 2.1M words of your text and 5 minutes" in page and "polyseme pretrain bert" in page
    assert "9f9f9f" in page and "AMD EPYC" in page and "苹果" in page


def test_reports_are_deterministic(folder, tmp_path):
    first = [(folder / name).read_bytes() for name in ("report.html", "report.md")]
    write_report(folder)
    assert [(folder / name).read_bytes() for name in ("report.html", "report.md")] == first
    rows = synthetic_rows()
    write_report(write_rows(tmp_path, [*rows, *rows]))  # each row twice
    assert [(tmp_path / name).read_bytes() for name in ("report.html", "report.md")] == first


KINDS = [kind for kind in ROWS if kind != "done"]


@pytest.mark.parametrize("kind", KINDS)
def test_missing_rows(tmp_path, kind):
    write_report(write_rows(tmp_path, [row for row in synthetic_rows() if row["row"] != kind]))
    check_html((tmp_path / "report.html").read_text("utf-8"))


@pytest.mark.parametrize("rows", [[], [comparison_row()], ["nonsense", "[]", "3", '{"row": "task"', '{"row": 5}']])
def test_hardly_any_rows(tmp_path, rows):
    page = write_report(write_rows(tmp_path, rows))
    check_html(page.read_text("utf-8"))
    assert "othing has been evaluated yet" in page.read_text("utf-8")


def test_malformed_rows(tmp_path):
    """Missing keys and values of any type do not raise errors."""
    rng = random.Random(0)
    odd = [None, "text", -1, 0, 1e300, float("nan"), [], {}, [[]], [None], True, [HOSTILE, 1], {"train": "x"}, 10**400]
    for number in range(12):
        rows = [*synthetic_rows()]
        for row in rng.sample(rows, 60):
            key = rng.choice([*row])
            if rng.random() < 0.3:
                del row[key]
            else:
                row[key] = rng.choice(odd)
        folder = write_rows(tmp_path / str(number), rows)
        check_html(write_report(folder).read_text("utf-8"))


def test_a_single_family(tmp_path):
    write_report(write_rows(tmp_path, [comparison_row(families=["bert"]), *family_rows("bert")]))
    page = (tmp_path / "report.html").read_text("utf-8")
    check_html(page)
    assert "The only family" in page


def test_a_large_comparison_stays_small(tmp_path):
    families = [f"bert-{number}" for number in range(20)]
    rows = [comparison_row(families=families)]
    for family in families:
        for row in family_rows("bert"):
            if row["row"] == "sense_map":
                points = [[n, n % 7, f"{n} bank {'x' * 500}", 4, 8, n % 3] for n in range(150)]
                words = [f"{row['word']} {n}" for n in range(8)]
                rows += [row | {"family": family, "word": word, "points": points} for word in words]
            else:
                rows.append(row | {"family": family})
    page = write_report(write_rows(tmp_path, rows))
    assert 1_000_000 < page.stat().st_size < 5_000_000


def test_a_missing_results_file(tmp_path):
    with pytest.raises(DataError, match=r"results\.jsonl does not exist; pass the folder"):
        write_report(tmp_path)


def test_hostile_text_is_escaped(folder):
    page = (folder / "report.html").read_text("utf-8")
    assert "<img" not in page and "<b>bank" not in page and "\u202e" not in page
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert any("<b>bank</b>" in part for sentence in data["sentences"][0] for part in sentence)


def test_markdown(folder):
    text = (folder / "report.md").read_text("utf-8")
    assert text.startswith("# Which model for docstrings?\n\nWith 2.1M words")
    assert "<" not in re.sub(r"```.*?```", "", text, flags=re.S)
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) >= 4
    for block in blocks:  # every row has the same number of cells
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines() if line.startswith("|")}
        assert len(widths) == 1
    assert "```\npolyseme pretrain bert" in text and "CoVe failed" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b *c* [d](e) <f> `g` & _h_\nnext", r"a\|b \*c\* \[d\](e) &lt;f&gt; \`g\` &amp; \_h\_ next"),
        ("# no title - nor + list", r"\# no title - nor + list"),
        ("1. GPT-2", r"1\. GPT-2"),
        ("> no quote", "&gt; no quote"),
    ],
)
def test_markdown_is_escaped(text, written):
    assert escape_markdown(text) == written


def test_a_command_cannot_end_its_fence(tmp_path):
    write_report(write_rows(tmp_path, [comparison_row(command="run ```` it\n# big")]))
    assert "`````\nrun ```` it # big\n`````" in (tmp_path / "report.md").read_text("utf-8")


def test_significantly_best_scores_are_bold(folder):
    page = (folder / "report.html").read_text("utf-8")
    table = page[page.index('aria-label="Scores"') : page.index('aria-label="Costs"')]
    assert re.findall(r"<b>([\d.]+)", table) == ["0.883"]  # BERT's word senses; elsewhere it is tied with ELMo


def test_pareto_front():
    costs = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0, "e": 4.0}
    values = {"a": 0.5, "b": 0.4, "c": 0.7, "d": 0.7, "e": 0.9}
    assert find_pareto_front(costs, values) == ["a", "c", "e"]


def test_formats():
    assert [format_count(n) for n in (0, 812, 999.6, 35_210, 2_123_456, 3e9)] == [
        "0",
        "812",
        "1.0k",
        "35k",
        "2.1M",
        "3.0G",
    ]
    assert [format_duration(s) for s in (0.0123, 0.5, 12, 301, 7200)] == ["12 ms", "0.5 s", "12 s", "5.02 min", "2 h"]
    assert [format_budget(b) for b in ("5m", "1h", "90s", "500steps", "2Mtokens", "x")] == [
        "5 minutes", "1 hour", "90 seconds", "500 steps", "2M tokens", "x"]  # fmt: skip
    assert [enumerate_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert format_score(-0.0001, 0.01) == "0.000 ± 0.010" and truncate("a\n b" + "c" * 9, 6) == "a bcc…"


def test_results_view(folder):
    results = load_results(folder)
    assert list(results.families) == [*FAMILIES, "cove"] and "cove" not in results.trained
    assert set(results.tasks) == set(TASKS)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_interactions_in_a_browser(folder, width, dark):
    with browsing(width=width, dark=dark) as visit:
        page = visit.open(folder / "report.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"
        assert page.locator("img").count() == 0 and HOSTILE[:30] in page.inner_text("body")

        # Quality against cost: only the selected chart is visible.
        charts = page.locator("[data-chart]")
        assert charts.count() == 4 * page.locator("#quality option").count()
        page.select_option("#cost", "3")
        page.select_option("#quality", "1")
        assert [charts.nth(n).get_attribute("data-chart") for n in range(charts.count())
                if charts.nth(n).is_visible()] == ["1 3"]  # fmt: skip

        # Sorting by keyboard: missing values stay last, a second press reverses.
        names = "#scores tbody th"
        button = page.locator("#scores thead button").nth(1)
        button.focus()
        page.keyboard.press("Enter")
        assert page.locator(names).all_inner_texts()[0] == "BERT" and page.locator(names).last.inner_text() == "CoVe"
        page.keyboard.press("Enter")
        assert page.locator(names).all_inner_texts()[0] == "one-hot" and page.locator(names).last.inner_text() == "CoVe"
        assert page.locator("#scores thead th").nth(1).get_attribute("aria-sort") == "ascending"

        # Panels: one at a time.
        senses = page.locator("#senses .panel")
        assert [senses.nth(n).is_visible() for n in range(senses.count())] == [True] + [False] * (len(AMBIGUOUS) - 1)
        page.locator("#senses .tabs button").nth(1).click()
        assert senses.nth(1).is_visible() and not senses.nth(0).is_visible()

        # Sense maps: the selected sentence is shown below, and highlighted in every map.
        page.locator("#senses .map:visible").last.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        reading = page.locator("#senses .reading:visible")
        assert reading.inner_text().startswith("Sentence ") and "苹果" in reading.inner_text()
        assert (
            page.locator("#senses .map:visible use.selected").count()
            == page.locator("#senses .map:visible").count()
            == 5
        )
        before = reading.inner_text()
        markers = page.locator("#senses .map:visible").last.locator("use:not(.selected)")
        markers.nth(5).dispatch_event("pointerover")
        assert reading.inner_text() != before

        # A pressed legend entry dims the other families.
        page.locator("#labels .legend li").first.press("Enter")
        assert page.locator("#labels svg [data-series].dim").count() > 0

        page.locator("#reproduction .command button").first.click()
        page.wait_for_timeout(50)
        assert page.locator("#reproduction .command button").first.inner_text() in ("copied", "selected")
        visit.check()


def test_all_panels_are_printed(folder):
    with browsing() as visit:
        page = visit.open(folder / "report.html")
        page.emulate_media(media="print", color_scheme="dark")
        panels = page.locator(".panel")
        assert panels.count() > 5 and all(panels.nth(n).is_visible() for n in range(panels.count()))
        assert page.locator("[data-chart]:visible").count() == 1 and not page.locator("nav").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.locator("th:visible").first.evaluate("cell => getComputedStyle(cell).position") == "static"
        visit.check()


def test_learning_curves_of_lower_cased_text_have_their_own_chart():
    point = {"processor_seconds": 60, "tokens": 9, "bits_per_character": 2.0, "scale": "causal"}
    rows = [comparison_row()]
    for family, called in (("gpt", "dev text, uncased"), ("gpt2", "dev text"), ("ulmfit", "dev text")):
        rows += [
            {"row": "family", "family": family, "context": "left"},
            {"row": "learning_curve", "family": family, "name": called, "points": [point]},
        ]
    drawn = {title: chart for _, title, chart in draw_learning_curves(group_rows(rows))}
    assert list(drawn) == ["bits per character", "bits per character · uncased"]
    cased, uncased = drawn.values()
    assert "GPT-2" in cased and "ULMFiT" in cased and "GPT-2" not in uncased and "GPT" in uncased
