"""The playground in a browser, and what tests wait for and measure there."""

from urllib.parse import quote


class Playground:
    """The playground in a browser; it must report no errors and request nothing from other hosts."""

    def __init__(self, visit, address):
        self.visit, self.page, self.address = visit, visit.page, address

    def open(self, view, values=None, *, width=1280, address=None):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto("about:blank")  # else only the fragment would change
        query = "&".join(f"{name}={quote(value)}" for name, value in (values or {}).items())
        self.page.goto(f"{address or self.address}/#{view}?{query}")
        return self.page

    def check(self):
        assert self.visit.complaints == []
        own = ("http://127.0.0.1:", "about:blank", "data:")
        assert [url for url in self.visit.requests if not url.startswith(own)] == []


def wait_for(page, selector):
    page.locator(selector).first.wait_for(state="attached")


def fits(page):
    """Whether nothing overflows the page horizontally."""
    width, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return width <= screen
