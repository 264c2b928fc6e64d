import json
from pathlib import Path

import pytest

from ackproof.testing.faults import Nemesis


def test_open_until_closed_newest_first(nemesis: Nemesis) -> None:
    nemesis.strike("kill", "controller")
    nemesis.strike("pause", "broker-2")
    assert [fault.fault_id for fault in nemesis.ledger.still_open()] == [2, 1]
    nemesis.ledger.close(2)
    nemesis.ledger.close(2)
    assert [fault.fault_id for fault in nemesis.ledger.still_open()] == [1]


def test_the_intent_is_on_disk_before_open_returns(nemesis: Nemesis, tmp_path: Path) -> None:
    entry = nemesis.aim("isolate", "leader(orders, 0)")
    nemesis.ledger.open(entry)
    written = json.loads((tmp_path / "ledger.jsonl").read_text())
    assert written["open"] == 1
    assert (written["fault"], written["target"]) == ("isolate", "leader(orders, 0)")
    assert written["servers"] == ["broker-1"]
    assert "cut broker-1->zookeeper-1" in written["effects"]
    nemesis.ledger.close(1)
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 2


def test_a_number_is_used_once(nemesis: Nemesis) -> None:
    entry = nemesis.strike("kill", "controller")
    with pytest.raises(ValueError, match="already open"):
        nemesis.ledger.open(entry)
    nemesis.ledger.close(1)
    with pytest.raises(ValueError, match="already open"):
        nemesis.ledger.open(entry)


def test_effects_of_other_faults_belong_to_them_until_healed(nemesis: Nemesis) -> None:
    killed = nemesis.strike("kill", "broker-1")
    other = nemesis.strike("pause", "broker-2")
    assert [one.label for one in nemesis.ledger.others(other.fault_id)] == ["kill#1"]
    nemesis.executor.heal(killed)
    assert [one.label for one in nemesis.ledger.others(other.fault_id)] == ["kill#1"]
    nemesis.ledger.close(killed.fault_id)
    assert nemesis.ledger.others(other.fault_id) == ()
