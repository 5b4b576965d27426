import pytest
from families import Tiny

from polyseme.models import FAMILIES


@pytest.fixture(scope="session", params=list(FAMILIES))
def tiny(request: pytest.FixtureRequest, documents: list[str]) -> Tiny:
    return Tiny(request.param, documents)


@pytest.fixture
def encoder(tiny: Tiny):
    return tiny.build()[0].eval()
