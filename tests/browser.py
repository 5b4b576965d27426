"""A browser that looks at pages, where there is one: Debian's Chromium, driven by playwright."""

import shutil
from contextlib import contextmanager

import pytest

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--no-first-run", "--disable-quic"]


class Visit:
    """A page that is open, what it has complained about, and what it has asked a network for."""

    def __init__(self, page):
        self.page = page
        self.complaints, self.requests = [], []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path):
        """A file, which is all that may be asked for."""
        self.requests.clear()
        self.page.goto(path.as_uri())
        return self.page

    def check(self):
        """It has asked for nothing but itself, and found nothing wrong."""
        assert self.complaints == []
        assert [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))] == []


@contextmanager
def browsing(*, width=1280, height=900, dark=False):
    """A page in a browser of its own."""
    found = shutil.which("chromium")
    if not found:
        pytest.skip("there is no chromium; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        try:
            yield Visit(page)
        finally:
            browser.close()
