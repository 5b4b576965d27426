"""The report of a comparison that never was: whole, offline, the same each time, and safe with any text."""

import json
import random
import re
from html.parser import HTMLParser

import pytest
from made_up_results import AMBIGUOUS, FAMILIES, HOSTILE, TASKS, comparison_row, family_rows, made_up_rows, write_rows

from browser import browsing
from polyseme.comparison.report import write_report
from polyseme.comparison.report_markdown import plain
from polyseme.comparison.report_plots import draw_learning, find_front
from polyseme.comparison.report_rows import gather, read_rows
from polyseme.comparison.report_words import budget, cut, duration, listed, scored, short
from polyseme.errors import DataError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_rows(tmp_path_factory.mktemp("comparison"), made_up_rows())
    assert write_report(folder) == folder / "report.html"
    return folder


class Balance(HTMLParser):
    """Whether all that is opened is closed."""

    VOID = ("meta",)

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.places = [], set(), []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.open += [] if tag in self.VOID else [tag]
        self.places += [value for key, value in attributes if key in ("href", "src", "action", "data")]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}>"


def check(page):
    found = Balance()
    found.feed(page)
    assert found.open == []
    assert "img" not in found.seen and "iframe" not in found.seen
    assert all(place.startswith("#") for place in found.places)
    assert "Content-Security-Policy" in page and len(page.encode()) < 5_000_000


def test_the_page_is_whole_and_small(folder):
    page = (folder / "report.html").read_text("utf-8")
    check(page)
    for title in ("Quality against cost", "What each family scored", "What each family cost", "While they learnt",
                  "What labels are worth", "Neighbours of words", "Words with several meanings", "What they write",
                  "How to do it again"):  # fmt: skip
        assert f"<h2>{title}</h2>" in page
    assert "With your 2.1M words and 5 minutes" in page and "polyseme pretrain bert" in page
    assert "9f9f9f" in page and "AMD EPYC" in page and "苹果" in page


def test_the_same_rows_give_the_same_bytes(folder, tmp_path):
    first = [(folder / name).read_bytes() for name in ("report.html", "report.md")]
    write_report(folder)
    assert [(folder / name).read_bytes() for name in ("report.html", "report.md")] == first
    rows = made_up_rows()
    write_report(write_rows(tmp_path, [*rows, *rows]))  # each row twice
    assert [(tmp_path / name).read_bytes() for name in ("report.html", "report.md")] == first


KINDS = ("comparison", "family", "curve", "figure", "task", "neighbours", "ambiguous", "senses", "example", "failure")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_rows(tmp_path, kind):
    write_report(write_rows(tmp_path, [row for row in made_up_rows() if row["row"] != kind]))
    check((tmp_path / "report.html").read_text("utf-8"))


@pytest.mark.parametrize("rows", [[], [comparison_row()], ["nonsense", "[]", "3", '{"row": "task"', '{"row": 5}']])
def test_next_to_nothing(tmp_path, rows):
    page = write_report(write_rows(tmp_path, rows))
    check(page.read_text("utf-8"))
    assert "othing has been measured yet" in page.read_text("utf-8")


def test_rows_of_any_shape(tmp_path):
    """Keys go missing, and values become something else, without an error."""
    chance = random.Random(0)
    odd = [None, "text", -1, 0, 1e300, float("nan"), [], {}, [[]], [None], True, [HOSTILE, 1], {"train": "x"}, 10**400]
    for number in range(12):
        rows = [*made_up_rows()]
        for row in chance.sample(rows, 60):
            key = chance.choice([*row])
            if chance.random() < 0.3:
                del row[key]
            else:
                row[key] = chance.choice(odd)
        folder = write_rows(tmp_path / str(number), rows)
        check(write_report(folder).read_text("utf-8"))


def test_one_family_alone(tmp_path):
    write_report(write_rows(tmp_path, [comparison_row(families=["bert"]), *family_rows("bert")]))
    page = (tmp_path / "report.html").read_text("utf-8")
    check(page)
    assert "The only family" in page


def test_a_large_comparison_stays_small(tmp_path):
    families = [f"bert-{number}" for number in range(20)]
    rows = [comparison_row(families=families)]
    for family in families:
        for row in family_rows("bert"):
            if row["row"] == "senses":
                points = [[n, n % 7, f"{n} bank {'x' * 500}", 4, 8, n % 3] for n in range(150)]
                words = [f"{row['word']} {n}" for n in range(8)]
                rows += [row | {"family": family, "word": word, "points": points} for word in words]
            else:
                rows.append(row | {"family": family})
    page = write_report(write_rows(tmp_path, rows))
    assert 1_000_000 < page.stat().st_size < 5_000_000


def test_no_rows_at_all(tmp_path):
    with pytest.raises(DataError, match=r"results\.jsonl cannot be read .*; give the folder of a comparison"):
        write_report(tmp_path)


def test_hostile_texts_are_texts(folder):
    page = (folder / "report.html").read_text("utf-8")
    assert "<img" not in page and "<b>bank" not in page and "\u202e" not in page
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert any("<b>bank</b>" in part for sentence in data["sentences"][0] for part in sentence)


def test_markdown(folder):
    text = (folder / "report.md").read_text("utf-8")
    assert text.startswith("# Which representation for docstrings?\n\nWith your 2.1M words")
    assert "<" not in re.sub(r"```.*?```", "", text, flags=re.S)
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) >= 4
    for block in blocks:  # as many cells in each row as in the first
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
def test_texts_that_mean_nothing_to_markdown(text, written):
    assert plain(text) == written


def test_a_command_cannot_end_its_fence(tmp_path):
    write_report(write_rows(tmp_path, [comparison_row(command="say ```` it\n# big")]))
    assert "`````\nsay ```` it # big\n`````" in (tmp_path / "report.md").read_text("utf-8")


def test_a_bold_figure_is_better_beyond_noise(folder):
    page = (folder / "report.html").read_text("utf-8")
    table = page[page.index('aria-label="Scores"') : page.index('aria-label="Costs"')]
    assert re.findall(r"<b>([\d.]+)", table) == ["0.883"]  # BERT's senses; elsewhere ELMo is within noise


def test_the_front():
    costs = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0, "e": 4.0}
    values = {"a": 0.5, "b": 0.4, "c": 0.7, "d": 0.7, "e": 0.9}
    assert find_front(costs, values) == ["a", "c", "e"]


def test_words_for_numbers():
    assert [short(n) for n in (0, 812, 999.6, 35_210, 2_123_456, 3e9)] == ["0", "812", "1.0k", "35k", "2.1M", "3.0G"]
    assert [duration(s) for s in (0.0123, 0.5, 12, 301, 7200)] == ["12 ms", "0.5 s", "12 s", "5.02 min", "2 h"]
    assert [budget(b) for b in ("5m", "1h", "90s", "500steps", "2Mtokens", "x")] == [
        "5 minutes", "1 hour", "90 seconds", "500 steps", "2M tokens", "x"]  # fmt: skip
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert scored(-0.0001, 0.01) == "0.000 ± 0.010" and cut("a\n b" + "c" * 9, 6) == "a bcc…"


def test_the_rows_that_are_read(folder):
    rows = read_rows(folder)
    assert list(rows.families) == [*FAMILIES, "cove"] and "cove" not in rows.trained
    assert set(rows.tasks()) == set(TASKS)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_a_browser_shows_it(folder, width, dark):
    with browsing(width=width, dark=dark) as visit:
        page = visit.open(folder / "report.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "it scrolls to the side"
        assert page.locator("img").count() == 0 and HOSTILE[:30] in page.inner_text("body")

        # Quality against cost: the drawing that is chosen, and no other.
        drawings = page.locator("[data-front]")
        assert drawings.count() == 4 * page.locator("#quality option").count()
        page.select_option("#cost", "3")
        page.select_option("#quality", "1")
        assert [drawings.nth(n).get_attribute("data-front") for n in range(drawings.count())
                if drawings.nth(n).is_visible()] == ["1 3"]  # fmt: skip

        # A table, by key: what is missing stays below, once more turns it about.
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

        # A map, by keys and by pointing: the sentence below, and its mark in every map.
        page.locator("#senses .map:visible").last.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        reading = page.locator("#senses .reading:visible")
        assert reading.inner_text().startswith("Sentence ") and "苹果" in reading.inner_text()
        assert page.locator("#senses .map:visible use.now").count() == page.locator("#senses .map:visible").count() == 5
        before = reading.inner_text()
        marks = page.locator("#senses .map:visible").last.locator("use:not(.now)")
        marks.nth(5).dispatch_event("pointerover")
        assert reading.inner_text() != before

        # A legend dims the others.
        page.locator("#labels .legend li").first.press("Enter")
        assert page.locator("#labels svg [data-thing].dim").count() > 0

        page.locator("#again .command button").first.click()
        page.wait_for_timeout(50)
        assert page.locator("#again .command button").first.inner_text() in ("copied", "selected")
        visit.check()


def test_paper_has_every_panel(folder):
    with browsing() as visit:
        page = visit.open(folder / "report.html")
        page.emulate_media(media="print", color_scheme="dark")
        panels = page.locator(".panel")
        assert panels.count() > 5 and all(panels.nth(n).is_visible() for n in range(panels.count()))
        assert page.locator("[data-front]:visible").count() == 1 and not page.locator("nav").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.locator("th:visible").first.evaluate("cell => getComputedStyle(cell).position") == "static"
        visit.check()


def test_learning_curves_without_capitals_are_drawn_apart():
    point = {"processor_seconds": 60, "tokens": 9, "bits_per_character": 2.0, "scale": "causal"}
    rows = [comparison_row()]
    for family, called in (("gpt", "dev text, uncased"), ("gpt2", "dev text"), ("ulmfit", "dev text")):
        rows += [
            {"row": "family", "family": family},
            {"row": "curve", "family": family, "name": called, "points": [point]},
        ]
    drawn = {title: drawing for _, title, drawing in draw_learning(gather(rows))}
    assert list(drawn) == ["bits per character", "bits per character · uncased"]
    together, apart = drawn.values()
    assert "GPT-2" in together and "ULMFiT" in together and "GPT-2" not in apart and "GPT" in apart
