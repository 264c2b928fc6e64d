"""What each partition has come to when recovering is over is in the history."""

import pytest
from memory_cluster import Memory

from harness.running.context import Run
from harness.running.deadline import Deadline, StepTimeout
from harness.running.interruption import Interruption
from harness.running.orchestrator import carry_out
from harness.running.steps import recovering
from harness.running.steps.catalogue import STEPS, Step
from history import reader
from infra.interface import ProcessState


def deadline(run: Run, seconds: float = 1000.0) -> Deadline:
    return Deadline.after(run.clock, seconds)


def rows(run: Run) -> list[dict[str, object]]:
    return reader.read(run.history, "recovery").to_pylist()


def test_recovered_every_partition_is_whole_and_the_tail_passes(run: Run) -> None:
    recovering.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(5.0)
    assert {(row["topic"], row["partition"]) for row in rows(run)} == {
        partition for cell in run.cells for partition in cell.topic_partitions
    }
    assert all(row["whole"] and row["leader"] > 0 for row in rows(run))
    assert all(len(row["isr"]) == 3 for row in rows(run))


def test_no_recovery_in_time_says_what_is_missing(run: Run, memory: Memory) -> None:
    memory.system.brokers[2].process.current = ProcessState.EXITED
    with pytest.raises(StepTimeout, match=r"acks-0-minisr-1-0 has the ISR \[1, 2\]"):
        recovering.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(60.0, abs=1.0), "limits.recover"
    assert not any(row["whole"] for row in rows(run))
    assert {tuple(row["isr"]) for row in rows(run)} == {(1, 2), (2, 1)}


def test_a_partition_that_nobody_leads(run: Run, memory: Memory) -> None:
    for server in memory.system.brokers:
        server.process.current = ProcessState.EXITED
    with pytest.raises(StepTimeout, match="has no leader"):
        recovering.recover(run, deadline(run))
    assert {(row["leader"], row["whole"]) for row in rows(run)} == {(-1, False)}


def test_of_a_zookeeper_that_does_not_answer_nobody_knows(run: Run, memory: Memory) -> None:
    memory.system.zookeepers[0].process.current = ProcessState.STOPPED
    with pytest.raises(StepTimeout, match="the metadata cannot be read"):
        recovering.recover(run, deadline(run))
    assert rows(run) == []


def test_after_it_failed_the_run_goes_on_to_read(run: Run, memory: Memory) -> None:
    memory.system.brokers[2].process.current = ProcessState.EXITED
    recover = next(step for step in STEPS if step.name == "recover")
    later = [name for name in ("flush", "final-read", "collect") if name]
    done: list[str] = []
    following = [
        Step(
            name=step.name,
            act=lambda _run, _deadline, name=step.name: done.append(name),
            limit_s=lambda _: 10.0,
            needs=step.needs,
        )
        for step in STEPS
        if step.name in later
    ]
    run.ended_well["ready"] = True
    carry_out(run, Interruption(), [recover, *following])
    assert done == later
    assert not run.ended_well["recover"]
