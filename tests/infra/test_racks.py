"""Consumers in the racks of brokers read from these (KIP-392)."""

import pytest

from ackproof.infra.systems.properties import RACK, RACK_AWARE, SELECTOR, own_rack, racks_of

NODES = ("broker-1", "broker-2")


def test_brokers_get_racks_if_the_replica_selector_uses_them() -> None:
    assert own_rack("broker-2", {SELECTOR: RACK_AWARE}) == {RACK: "broker-2"}
    assert racks_of(NODES, {SELECTOR: RACK_AWARE}) == NODES


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {SELECTOR: "org.apache.kafka.common.replica.LeaderSelector"},
        {SELECTOR: RACK_AWARE, RACK: "one"},
    ],
    ids=["by default", "the leader's", "all in one"],
)
def test_brokers_get_no_racks_otherwise(properties: dict[str, str]) -> None:
    assert own_rack("broker-2", properties) == {}
    assert racks_of(NODES, properties) == ()


# tests/integration/test_reads_from_followers.py has consumers of each rack; which rack a reader of
# a campaign gets is above.
@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_each_replica_serves_the_reader_of_its_rack(inside) -> None:
    inside.check("cases_racks.py", "each_replica_serves_the_reader_of_its_rack")
