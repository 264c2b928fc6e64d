"""Consumers in the racks of brokers read from these (KIP-392)."""

import pytest

from ackproof.infra.systems.properties import (
    RACK,
    RACK_AWARE,
    SELECTOR,
    racks_of,
    racks_of_consumers,
)

NODES = ("broker-1", "broker-2")


def test_brokers_get_racks_if_the_replica_selector_uses_them() -> None:
    properties = {SELECTOR: RACK_AWARE}
    racks = racks_of(NODES, properties)
    assert racks == {"broker-1": "broker-1", "broker-2": "broker-2"}
    assert racks_of_consumers(racks, properties) == NODES


def test_brokers_take_given_racks_in_turn() -> None:
    brokers = [f"broker-{number}" for number in range(1, 6)]
    assert list(racks_of(brokers, {}, ("a", "b", "c")).values()) == ["a", "b", "c", "a", "b"]


def test_consumers_take_each_rack_once_if_the_replica_selector_uses_racks() -> None:
    racks = {"broker-1": "a", "broker-2": "b", "broker-3": "a"}
    assert racks_of_consumers(racks, {SELECTOR: RACK_AWARE}) == ("a", "b")
    assert racks_of_consumers(racks, {}) == ()


@pytest.mark.parametrize(
    ("properties", "racks"),
    [
        ({}, {}),
        ({SELECTOR: "org.apache.kafka.common.replica.LeaderSelector"}, {}),
        ({SELECTOR: RACK_AWARE, RACK: "one"}, dict.fromkeys(NODES, "one")),
    ],
    ids=["by default", "the leader's", "all in one"],
)
def test_brokers_get_no_racks_of_their_own_otherwise(
    properties: dict[str, str], racks: dict[str, str]
) -> None:
    assert racks_of(NODES, properties) == racks


# tests/integration/test_reads_from_followers.py has consumers of each rack; which rack a reader of
# a campaign gets is above.
@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_each_replica_serves_the_reader_of_its_rack(inside) -> None:
    inside.check("cases_racks.py", "each_replica_serves_the_reader_of_its_rack")
