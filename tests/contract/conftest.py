import pytest
from families import Tiny

from polyseme.models import FAMILIES


@pytest.fixture(scope="session", params=list(FAMILIES))
def tiny(request: pytest.FixtureRequest, documents: list[str]) -> Tiny:
    return Tiny(request.param, documents)


@pytest.fixture
def drawing(tiny: Tiny) -> Tiny:
    """A family that learns from batches."""
    if not tiny.by_gradient:
        pytest.skip("it learns without gradients, from the running text")
    return tiny


@pytest.fixture
def encoder(tiny: Tiny):
    return tiny.build()[0].eval()
