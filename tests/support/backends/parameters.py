"""Places for tests of backends, and for whole families of faults on real clusters (fixture
``place``)."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest

from ackproof.infra.api.interface import Backend

Case = Callable[[Backend, Path], None]


def places(rootless: pytest.MarkDecorator):
    """Every backend, as values of the fixture; ``rootless``: what marks the local one without
    privileges."""
    return [
        pytest.param("ourselves", id="local", marks=pytest.mark.integration),
        pytest.param("unprivileged", id="local-unprivileged", marks=rootless),
        pytest.param("docker", id="docker", marks=pytest.mark.docker),
        pytest.param("ssh", id="ssh", marks=pytest.mark.ssh),
        pytest.param("kubernetes", id="kubernetes", marks=pytest.mark.kubernetes),
    ]


# Without privileges, minutes that say little: what differs there are the agent's verbs, and these
# are tried by themselves.
ON_CLUSTERS = pytest.mark.parametrize("place", places(rootless=pytest.mark.long), indirect=True)
"""On every backend; without privileges in ``make test-long`` alone."""


def on_every_backend(cases: Sequence[Case], *, rootless: Collection[Case]) -> pytest.MarkDecorator:
    """Parametrize a test by backend (``place``) and case. Without privileges ``make test`` runs
    ``rootless`` alone: one case of each mechanism that works another way there (namespaces of a
    user, disks, clocks, control groups). The others differ in nothing but the user."""
    return pytest.mark.parametrize(
        ("place", "case"),
        [
            pytest.param(
                *place.values, case.__name__, id=f"{place.id}-{case.__name__}", marks=marks
            )
            for case in cases
            for place in places(rootless=pytest.mark.integration)
            for marks in [_marks(place, long=case not in rootless)]
        ],
        indirect=["place"],
    )


def _marks(place, *, long: bool):
    alone = long and place.id == "local-unprivileged"
    return [*place.marks, pytest.mark.long] if alone else place.marks


def cases(found: Sequence[Case], long: Sequence[Case] = ()) -> pytest.MarkDecorator:
    """A test of each. ``long``: those among them that take a minute and more, for ``make
    test-long``."""
    marks = {case.__name__: [pytest.mark.long] if case in long else [] for case in found}
    return pytest.mark.parametrize(
        "case", [pytest.param(name, marks=those) for name, those in marks.items()]
    )
