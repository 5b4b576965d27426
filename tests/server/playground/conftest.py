"""A browser, and the playground of a server of all models."""

import pytest
from tests.browser import browsing
from tests.server.playground.page import Playground


@pytest.fixture(scope="module")
def browser():
    with browsing() as visit:
        visit.page.set_default_timeout(15_000)
        yield visit


@pytest.fixture
def playground(browser, server):
    browser.complaints.clear()
    browser.requests.clear()
    playground = Playground(browser, server.url)
    yield playground
    playground.check()
    browser.page.goto("about:blank")
