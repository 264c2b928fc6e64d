"""Cases inside fresh namespaces, as the user we are and as one without privileges."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.namespaces import Inside, inside_as


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    wait_until(condition, timeout, what)


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., None]:
    return wait_for


# What differs without privileges is how a run begins, ends and is cleaned up after: tests of that
# are marked AS_EACH_USER, and the others run twice in make test-long alone.
@pytest.fixture(params=["ourselves", pytest.param("unprivileged", marks=pytest.mark.long)])
def inside(request: pytest.FixtureRequest) -> Iterator[Inside]:
    with inside_as(request.param, Path(__file__).parent) as case:
        yield case


@pytest.fixture
def executable() -> Callable[[Path, str], None]:
    """Writes a program."""

    def write(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    return write
