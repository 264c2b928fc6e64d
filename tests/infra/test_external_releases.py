"""The release of an external cluster's brokers by their features."""

import socket

import pytest

from ackproof.infra.systems.external.releases import release_of, releases_of
from ackproof.infra.systems.wire import in_the_clear


@pytest.mark.parametrize(
    ("level", "release"),
    [(7, "3.3"), (12, "3.6"), (14, "3.6"), (21, "3.9"), (22, "4.0"), (30, "4.3"), (33, "4.4")],
)
def test_level_belongs_to_the_release_that_finished_it(level: int, release: str) -> None:
    assert release_of(level) == release


def test_level_of_a_later_release_is_not_named_after_a_known_one() -> None:
    assert release_of(34) == "newer than 4.4 (level 34 of metadata.version)"


def test_broker_that_does_not_answer_has_no_release() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    assert releases_of({1: address}, in_the_clear) == {}
