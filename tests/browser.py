"""Pages in a browser, if Chromium is installed, driven by playwright."""

import shutil
from contextlib import contextmanager

import pytest

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--no-first-run", "--disable-quic"]


class Visit:
    """An open page with its error messages and its requests."""

    def __init__(self, page):
        self.page = page
        self.complaints, self.requests = [], []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path):
        """Open a file."""
        self.requests.clear()
        self.page.goto(path.as_uri())
        return self.page

    def check(self):
        """Assert that the page requested only itself and reported no error."""
        assert self.complaints == []
        assert [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))] == []


@contextmanager
def browsing(*, width=1280, height=900, dark=False):
    """A page in a new browser."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        try:
            yield Visit(page)
        finally:
            browser.close()
