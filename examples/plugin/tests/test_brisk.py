"""The system keeps the contract of a system: the conformance kit proves it on a real cluster."""

import pytest

from ackproof.infra.systems import parse
from ackproof.testing.systems import check_system


def test_brisk_deploys_survives_a_kill_and_loses_nothing() -> None:
    check_system("brisk:2")


def test_brisk_has_a_short_session() -> None:
    assert parse("brisk").defaults == {"zookeeper.session.timeout.ms": "4000"}


@pytest.mark.parametrize("name", ["brisk:", "brisk:1", "brisk:61", "brisk:soon", "brisk:-3"])
def test_session_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a session of 2 to 60 seconds"):
        parse(name)
