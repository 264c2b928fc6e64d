"""One simulated cluster for the tests of a module, which are its clients."""

from collections.abc import Iterator

import pytest

from tests.support.worlds.wire_cluster import WireCluster


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[WireCluster]:
    """Three brokers, with the ``PROPERTIES`` of the module."""
    made = WireCluster(getattr(request.module, "PROPERTIES", None))
    yield made
    made.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test alone."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)
