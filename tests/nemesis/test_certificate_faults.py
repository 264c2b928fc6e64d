"""Faults on the certificates of brokers, in a cluster in memory."""

from pathlib import Path

import pytest

from ackproof.nemesis.effects import EffectNotBegun
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.cluster import memory_cluster


@pytest.fixture
def nemesis(tmp_path: Path) -> Nemesis:
    return Nemesis(memory_cluster(), tmp_path / "ledger.jsonl")


def test_rotation_is_proven_by_the_serial_number_of_each_broker(nemesis: Nemesis) -> None:
    entry = nemesis.aim("rotate-certificates", "all", hold_ms=0)
    assert not nemesis.bitten(entry).proven
    nemesis.executor.inject(entry)
    proof = nemesis.bitten(entry)
    assert proof.proven
    shown = dict.fromkeys(("broker-1", "broker-2", "broker-3"), "serial numbers CLIENTS 1")
    assert proof.observations["new certificate shown"] == shown
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven
    assert nemesis.memory.disturbances == []


def test_rotation_without_effect_is_not_proven(nemesis: Nemesis) -> None:
    nemesis.memory.deafen()
    proof = nemesis.bitten(nemesis.strike("rotate-certificates", "broker-1", hold_ms=0))
    assert not proof.proven
    assert proof.observations["missing"] == {"new certificate shown": ["broker-1"]}


def test_bad_certificate_that_clients_accept_is_not_proven(nemesis: Nemesis) -> None:
    entry = nemesis.strike("bad-certificate", "broker-1", problem="foreign")
    proof = nemesis.bitten(entry)
    assert proof.observations["handshake refused"] == {"broker-1": "the certificate is foreign"}
    nemesis.memory.system.certificates.loaded["broker-1"] = (1, None)
    assert not nemesis.bitten(entry).proven


def test_healed_broker_must_show_the_new_certificate(nemesis: Nemesis) -> None:
    entry = nemesis.strike("bad-certificate", "broker-1")
    nemesis.memory.system.certificates.deaf = True
    nemesis.executor.heal(entry)
    proof = nemesis.healed(entry)
    assert not proof.proven
    assert "another certificate" in str(proof.observations["certificate accepted"])
    assert proof.owed


def test_certificate_of_a_broker_that_is_down_is_left_alone(nemesis: Nemesis) -> None:
    nemesis.strike("kill", "broker-1")
    entry = nemesis.aim("rotate-certificates", "broker-1", hold_ms=0)
    with pytest.raises(EffectNotBegun, match="broker-1 is exited by another fault"):
        nemesis.executor.inject(entry)
    assert nemesis.memory.system.certificates.given == {}


def test_broker_that_is_down_reads_the_good_certificate_when_it_starts(nemesis: Nemesis) -> None:
    entry = nemesis.strike("bad-certificate", "broker-1")
    nemesis.strike("kill", "broker-1")
    nemesis.memory.system.certificates.silent = True
    nemesis.executor.heal(entry)
    proof = nemesis.healed(entry)
    assert proof.observations["not observed"] == {
        "certificate accepted": {"broker-1": "kill#2 is active"},
        "running": {"broker-1": "kill#2 is active"},
    }


def test_rotation_is_not_looked_for_where_another_fault_spoils_the_certificate(
    nemesis: Nemesis,
) -> None:
    rotation = nemesis.strike("rotate-certificates", "broker-1 + broker-2", hold_ms=0)
    nemesis.strike("bad-certificate", "broker-1")
    proof = nemesis.bitten(rotation)
    assert proof.proven
    assert list(proof.observations["new certificate shown"]) == ["broker-2"]
    left_out = proof.observations["not observed"]["new certificate shown"]  # type: ignore[index]
    assert left_out == {"broker-1": "bad-certificate#2 is active"}
