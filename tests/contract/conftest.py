import pytest
from tests.contract.families import Tiny

from polyseme.families import FAMILIES


@pytest.fixture(scope="session", params=list(FAMILIES))
def tiny(request: pytest.FixtureRequest, documents: list[str]) -> Tiny:
    return Tiny(request.param, documents)


@pytest.fixture
def gradient_family(tiny: Tiny) -> Tiny:
    """A family trained by gradient descent."""
    if not tiny.by_gradient:
        pytest.skip("not trained by gradient descent")
    return tiny


@pytest.fixture
def encoder(tiny: Tiny):
    return tiny.build()[0].eval()
