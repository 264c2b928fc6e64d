"""Faults are written down before they strike, proven, healed by the ledger, and recorded."""

import json
import random
from pathlib import Path

from memory_cluster import Memory

from harness.running.context import Run
from harness.running.deadline import Deadline
from harness.running.steps import nemesis as steps
from history import reader
from infra.interface import ProcessState
from nemesis import FAULTS
from nemesis.targets import parse, resolve


def deadline(run: Run, seconds: float = 1000.0) -> Deadline:
    return Deadline.after(run.clock, seconds)


def events(run: Run, fault: str) -> list[tuple[str, bool | None]]:
    table = reader.read(run.history, "faults").to_pylist()
    return [(row["event"], row["proven"]) for row in table if row["fault"] == fault]


def test_every_fault_strikes_is_proven_and_healed(run: Run, memory: Memory) -> None:
    began = run.clock.monotonic()
    steps.faults(run, deadline(run))
    for fault in ("kill", "pause"):
        assert events(run, fault) == [
            ("inject", None),
            ("injected", None),
            ("verified", True),
            ("heal", None),
            ("healed", True),
        ]
    assert sum(server.starts for server in memory.system.brokers) == 1
    assert run.ledger.still_open() == ()
    planned_s = (run.plan[-1].start_ms + run.plan[-1].hold_ms) / 1000
    assert run.clock.monotonic() - began >= planned_s - 1


def test_what_is_recorded_of_a_fault(run: Run) -> None:
    steps.faults(run, deadline(run))
    rows = reader.read(run.history, "faults").to_pylist()
    verified = next(r for r in rows if r["fault"] == "kill" and r["event"] == "verified")
    assert verified["target"] == "leader(acks-1-minisr-1, any)"
    assert verified["servers"][0].startswith("broker-")
    assert -9 in json.loads(verified["evidence"])["exit_codes"].values()


def test_the_ledger_has_the_intent_before_the_injection(run: Run, tmp_path: Path) -> None:
    steps.faults(run, deadline(run))
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["open", "close", "open", "close"]


def test_an_injection_that_fails_is_recorded_and_healed(run: Run, memory: Memory) -> None:
    leader = memory.system.brokers[0]
    for server in memory.system.brokers:
        server.process.current, server.process.code = ProcessState.EXITED, 1
    leader.process.current = ProcessState.RUNNING
    target = resolve(parse("all"), run.cluster, random.Random(1))
    run.ledger.open(9, FAULTS["kill"], target)
    steps.heal(run, deadline(run))
    assert events(run, "kill") == [("heal", None), ("healed", True)]
    assert run.ledger.still_open() == ()
    assert not run.findings


def test_a_heal_that_is_not_proven_is_a_finding(run: Run, memory: Memory) -> None:
    target = resolve(parse("zookeeper"), run.cluster, random.Random(1))
    FAULTS["pause"].inject(run.cluster, target)
    memory.system.zookeepers[0].process.deaf = True
    run.ledger.open(1, FAULTS["pause"], target)
    steps.heal(run, deadline(run, seconds=0.0))
    assert events(run, "pause") == [("heal", None), ("healed", False)]
    assert run.findings == ["run 1, heal: pause#1 is not proven to be healed"]


def test_a_server_that_died_by_itself_is_a_finding(run: Run, memory: Memory) -> None:
    memory.system.brokers[1].process.current = ProcessState.EXITED
    memory.system.brokers[1].process.code = 70
    steps.heal(run, deadline(run))
    assert run.findings == ["run 1, heal: broker-2 is not running: it ended with status 70"]


def test_a_target_that_names_nobody_is_recorded_as_failed(run: Run, memory: Memory) -> None:
    memory.system.topics = {}
    steps.faults(run, deadline(run))
    assert events(run, "kill") == [("failed", None)]
    assert run.ledger.still_open() == ()
