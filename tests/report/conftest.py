from collections.abc import Iterator

import pytest

from tests.support.processes import browser


@pytest.fixture(scope="module")
def eyes() -> Iterator[browser.Eyes]:
    """Looks at pages in one Chromium for all tests of a module: it starts as slowly as several of
    them run."""
    with browser.eyes() as looking:
        yield looking
