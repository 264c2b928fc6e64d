"""Where backends are tried, and whole families of faults let loose on real clusters (fixture
``place``)."""

from collections.abc import Callable, Sequence

import pytest


def places(rootless: pytest.MarkDecorator):
    """Every backend, as values of the fixture; ``rootless``: what marks the local one without
    privileges."""
    return [
        pytest.param("ourselves", id="local", marks=pytest.mark.integration),
        pytest.param("unprivileged", id="local-unprivileged", marks=rootless),
        pytest.param("docker", id="docker", marks=pytest.mark.docker),
        pytest.param("ssh", id="ssh", marks=pytest.mark.ssh),
    ]


# Without privileges, minutes that say little: what differs there are the agent's verbs, and these
# are tried by themselves.
ON_CLUSTERS = pytest.mark.parametrize("place", places(rootless=pytest.mark.long), indirect=True)
"""On every backend; without privileges in ``make test-long`` alone."""


def cases(
    found: Sequence[Callable[..., None]], long: Sequence[Callable[..., None]] = ()
) -> pytest.MarkDecorator:
    """A test of each. ``long``: those among them that take a minute and more, for ``make
    test-long``."""
    marks = {case.__name__: [pytest.mark.long] if case in long else [] for case in found}
    return pytest.mark.parametrize(
        "case", [pytest.param(name, marks=those) for name, those in marks.items()]
    )
