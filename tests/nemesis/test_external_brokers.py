"""Faults on brokers that were not deployed here are proven by what is seen of them from outside."""

import pytest

from ackproof.testing.faults import Nemesis
from tests.support.fakes.remote_probe import FromOutside


@pytest.fixture
def outside(nemesis: Nemesis) -> dict[str, FromOutside]:
    """Every broker was there before."""
    seen = {}
    for server in nemesis.memory.system.brokers:
        server.distant = seen[server.name] = FromOutside(server)
    return seen


CLAIMS = {
    "kill": "refuses connections",
    "terminate": "refuses connections",
    "restart": "refuses connections",
    "pause": "does not answer",
}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("hold_ms", [None, 0])
def test_fault_on_an_external_cluster_takes_effect_and_heals(
    nemesis: Nemesis, outside: dict[str, FromOutside], name: str, hold_ms: int | None
) -> None:
    entry = nemesis.strike(name, "leader(orders, 0)", hold_ms=hold_ms)
    proof = nemesis.bitten(entry)
    assert proof.proven, proof.observations
    assert CLAIMS[name] in proof.observations
    counted_out = "registration expired" in proof.observations
    assert counted_out == (hold_ms is None and name != "restart")
    assert not nemesis.healed(entry).proven
    nemesis.executor.heal(entry)
    healed = nemesis.healed(entry)
    assert healed.proven, healed.observations
    assert healed.observations["answers"] == dict.fromkeys(entry.target.servers, "answers")
    assert not nemesis.bitten(entry).proven
    assert outside.keys() >= set(entry.target.servers)


@pytest.mark.parametrize("name", CLAIMS)
def test_server_that_continues_to_serve_was_not_affected(
    nemesis: Nemesis, outside: dict[str, FromOutside], name: str
) -> None:
    """Whatever the command said that was to end it."""
    outside["broker-1"].unmoved = True
    entry = nemesis.strike(name, "broker-1", hold_ms=0)
    proof = nemesis.bitten(entry)
    assert not proof.proven
    assert proof.observations["missing"] == {CLAIMS[name]: ["broker-1"]}


def test_quorum_that_stops_is_silent_and_all_brokers_come_back(
    nemesis: Nemesis, outside: dict[str, FromOutside]
) -> None:
    for keeper in nemesis.memory.system.zookeepers:
        keeper.distant = FromOutside(keeper)
    entry = nemesis.strike("kill", "quorum")
    proof = nemesis.bitten(entry)
    assert proof.proven, proof.observations
    assert proof.observations["refuses connections"] == {"zookeeper-1": "refuses"}
    assert "registration expired" not in proof.observations
    assert not nemesis.healed(entry).proven
    nemesis.executor.heal(entry)
    healed = nemesis.healed(entry)
    assert healed.proven, healed.observations
    assert healed.observations["answers"] == {"zookeeper-1": "answers"}
    assert healed.observations["counted in"] == dict.fromkeys(outside, True)


def test_server_that_was_already_down_was_not_killed(
    nemesis: Nemesis, outside: dict[str, FromOutside]
) -> None:
    first = nemesis.strike("kill", "broker-1", hold_ms=0)
    again = nemesis.strike("kill", "broker-1", hold_ms=0)
    assert nemesis.bitten(first).proven
    assert not nemesis.bitten(again).proven
    assert outside["broker-1"].accepts() is False
