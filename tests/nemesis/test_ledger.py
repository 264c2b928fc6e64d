import json
import random
from pathlib import Path

import pytest
from memory_cluster import Memory

from nemesis import FAULTS
from nemesis.ledger import Ledger
from nemesis.targets import parse, resolve


def test_open_until_closed_newest_first(memory: Memory, tmp_path: Path) -> None:
    target = resolve(parse("controller"), memory.cluster, random.Random(0))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.open(1, FAULTS["kill"], target)
    ledger.open(2, FAULTS["pause"], target)
    assert [fault.fault_id for fault in ledger.still_open()] == [2, 1]
    ledger.close(2)
    assert [fault.fault_id for fault in ledger.still_open()] == [1]


def test_the_intent_is_on_disk_before_open_returns(memory: Memory, tmp_path: Path) -> None:
    target = resolve(parse("leader(orders, 0)"), memory.cluster, random.Random(0))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.open(7, FAULTS["isolate"], target)
    entry = json.loads((tmp_path / "ledger.jsonl").read_text())
    assert entry["open"] == 7
    assert (entry["fault"], entry["target"]) == ("isolate", "leader(orders, 0)")
    assert entry["servers"] == ["broker-1"]
    ledger.close(7)
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 2


def test_a_number_is_used_once(memory: Memory, tmp_path: Path) -> None:
    target = resolve(parse("controller"), memory.cluster, random.Random(0))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.open(1, FAULTS["kill"], target)
    with pytest.raises(ValueError, match="open already"):
        ledger.open(1, FAULTS["kill"], target)
