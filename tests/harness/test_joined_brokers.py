"""Evidence of an added broker: its log, its end, and, if it does not leave, all leftovers of the
others."""

import dataclasses
from typing import Any

import pytest

from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.harness.running import servers
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps import closing, injection
from ackproof.harness.running.steps import nemesis as steps
from ackproof.history import reader, storage
from ackproof.nemesis import FAULTS
from ackproof.testing.memory.cluster import Memory


@pytest.fixture
def joined(run: Run) -> Run:
    """A run with one fault, by which a broker joins."""
    planned = ScheduledFault(
        fault_id=7,
        fault="add-broker",
        target="partition(acks-1-minisr-1, 0)",
        parameters=FAULTS["add-broker"].parameters(),
        start_ms=0,
        gap_ms=None,
        hold_ms=1000,
        seed=1,
    )
    made = dataclasses.replace(run, plan=[planned])
    servers.attend_joining(made)
    return made


def deadline(run: Run) -> Deadline:
    return Deadline.after(run.clock, 1000)


def of_broker_4(run: Run) -> list[tuple[str, int | None, int | None]]:
    rows: list[dict[str, Any]] = reader.read(run.history, "servers").to_pylist()
    return [(r["event"], r["exit_code"], r["fault_id"]) for r in rows if r["server"] == "broker-4"]


def test_removed_broker_leaves_its_log_and_exit_status(joined: Run, memory: Memory) -> None:
    steps.faults(joined, deadline(joined))
    assert not joined.ledger.still_open()
    assert of_broker_4(joined) == [("started", None, None), ("ended", 0, 7)]
    assert (joined.directory / "logs" / "broker-4" / "broker-4.log").read_text() == "hello"
    assert not memory.system.added.there
    assert "broker-4" not in joined.watches
    collected = reader.read(joined.history, "collected").column("file").to_pylist()
    assert "logs/broker-4/broker-4.log" in collected, "a check would not read it"
    assert not joined.findings
    assert not joined.leaving


def test_added_broker_that_ends_by_itself_is_recorded(joined: Run, memory: Memory) -> None:
    memory.system.added.stillborn = True
    steps.faults(joined, deadline(joined))
    assert of_broker_4(joined) == [("started", None, None), ("ended", 1, None)]
    assert joined.ended_by_themselves == ["broker-4"]


def test_everything_of_a_broker_that_did_not_leave_is_collected(joined: Run) -> None:
    """Here there is nothing of its replicas to be fetched, which is told of each broker."""
    joined.executor.inject(injection._aimed(joined, joined.plan[0], deadline(joined)))
    joined.ended_well["deploy"] = True
    closing.collect(joined, deadline(joined))
    assert (joined.directory / "logs" / "broker-4").is_dir()
    lacking = [one for one in joined.findings if "could not be fetched" in one]
    assert [one for one in lacking if "/none of broker-4" in one]
    digests = {
        row["file"]: row["digest"] for row in reader.read(joined.history, "collected").to_pylist()
    }
    log = "logs/broker-4/broker-4.log"
    assert digests[log] == storage.digest(joined.directory / log)
    assert of_broker_4(joined) == [("started", None, None)]
