"""States of all partitions at the end of the recovery, in the history."""

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from ackproof.harness.interruption import Interruption
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.orchestrator import carry_out
from ackproof.harness.running.servers import AllBrokersEnded
from ackproof.harness.running.steps import recovery
from ackproof.harness.running.steps.catalogue import STEPS, RunStep
from ackproof.history import reader
from ackproof.infra.api.interface import ProcessState
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.interface import Plan, Target
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryProcess
from ackproof.workloads.interface import Client, ClientRole
from tests.support.fakes.remote_probe import put_into_pods


def deadline(run: Run, seconds: float = 1000.0) -> Deadline:
    return Deadline.after(run.clock, seconds)


def rows(run: Run) -> list[dict[str, object]]:
    return reader.read(run.history, "recovery").to_pylist()


def test_recovered_every_partition_is_whole_and_the_tail_passes(run: Run) -> None:
    recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(5.0)
    assert {(row["topic"], row["partition"]) for row in rows(run)} == {
        partition for cell in run.cells for partition in cell.topic_partitions
    }
    assert all(row["whole"] and row["leader"] > 0 for row in rows(run))
    assert all(len(row["isr"]) == 3 for row in rows(run))


def test_recovery_timeout_names_the_incomplete_partition(run: Run, memory: Memory) -> None:
    memory.system.brokers[2].process.current = ProcessState.EXITED
    with pytest.raises(StepTimeout, match=r"acks-0-minisr-1-0 has the ISR \[1, 2\]"):
        recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(60.0, abs=1.0), "limits.recover"
    assert not any(row["whole"] for row in rows(run))
    assert {tuple(row["isr"]) for row in rows(run)} == {(1, 2), (2, 1)}


def end_all(memory: Memory) -> None:
    for server in memory.system.brokers:
        server.process.current = ProcessState.EXITED


def test_recovering_ends_at_once_when_no_broker_is_left(run: Run, memory: Memory) -> None:
    end_all(memory)
    with pytest.raises(AllBrokersEnded, match="all brokers have ended permanently"):
        recovery.recover(run, deadline(run))
    assert run.clock.monotonic() < 1
    assert {(row["leader"], row["whole"]) for row in rows(run)} == {(-1, False)}


def test_recovering_ends_when_the_last_broker_ends_meanwhile(run: Run, memory: Memory) -> None:
    acks(run)
    says(run, "member-0", lambda now: ends_at(20, now, memory), "g")
    with pytest.raises(AllBrokersEnded):
        recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(20, abs=1.0)
    assert all(row["whole"] for row in rows(run)), "what they were when they were looked at"


def ends_at(seconds: float, now: float, memory: Memory) -> Mapping[str, int]:
    """Return the figures of a member without reads; end all brokers at that time."""
    if now >= seconds:
        end_all(memory)
    return {"assigned": PARTITIONS, "shown": 0}


@dataclass(slots=True)
class Eventful:
    """The run's clock. ``happens`` is called in the midst of the first tail."""

    run: Run
    happens: Callable[[], None] | None

    def monotonic(self) -> float:
        return self.run.clock.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if seconds == TAIL and self.happens is not None:
            happens, self.happens = self.happens, None
            seconds /= 2
            self.run.clock.wait(event, seconds)
            happens()
        return self.run.clock.wait(event, seconds)


def test_restart_by_others_in_the_tail_is_recovered_from(run: Run, memory: Memory) -> None:
    put_into_pods(memory, 3).operator = "paused"
    run.pod_restarts.look()
    broker = memory.system.brokers[0]

    def restarted() -> None:
        broker.process.signal(signal.SIGTERM)
        run.pod_restarts.look()
        broker.start()
        run.pod_restarts.look()

    recovery.recover(run, Deadline.after(Eventful(run, restarted), 1000.0))
    times = [row["time"] for row in rows(run)]
    faults = reader.read(run.history, "faults").to_pylist()
    (healed,) = [row["time"] for row in faults if row["event"] == "healed"]
    partitions = sum(cell.partitions for cell in run.cells)
    assert len(times) == 2 * partitions
    assert run.clock.monotonic() == pytest.approx(2 * TAIL, abs=1.0), "the tail passes again"
    assert [time >= healed for time in times] == [False] * partitions + [True] * partitions


def test_stale_metadata_do_not_make_a_cluster_without_brokers_whole(
    run: Run, memory: Memory
) -> None:
    """No controller is left to write that a leader is gone."""
    run.system.view()
    end_all(memory)
    assert all(view.leader > 0 for view in run.system.view().partitions.values())
    with pytest.raises(AllBrokersEnded):
        recovery.recover(run, deadline(run))
    assert not any(row["whole"] for row in rows(run))


def test_recovery_is_unknown_if_zookeeper_does_not_answer(run: Run, memory: Memory) -> None:
    memory.system.zookeepers[0].process.current = ProcessState.STOPPED
    with pytest.raises(StepTimeout, match="the metadata cannot be read"):
        recovery.recover(run, deadline(run))
    assert rows(run) == []


def test_run_reads_back_after_a_failed_recovery(run: Run, memory: Memory) -> None:
    memory.system.brokers[2].process.current = ProcessState.EXITED
    recover = next(step for step in STEPS if step.name == "recover")
    later = [name for name in ("flush", "final-read", "collect") if name]
    done: list[str] = []
    following = [
        RunStep(
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


Figures = Callable[[float], Mapping[str, int]]
"""What a client's progress file says at a time, in seconds."""


@dataclass(frozen=True, slots=True)
class Saying(ClientProcess):
    """A client that says what it says when it is asked."""

    run: Run
    figures: Figures

    def counts(self) -> Mapping[str, int]:
        return self.figures(self.run.clock.monotonic())


def says(run: Run, name: str, figures: Figures, group: str | None = None) -> None:
    member = {"group": group, "delivery": "at-least-once", "consumer_config": {}}
    client = Client(
        name=name,
        module="m",
        role=ClientRole.PRODUCER if group is None else ClientRole.CONSUMER,
        cell=run.cells[0].name,
        node="client-1",
        specification={} if group is None else member,
    )
    run.running.append(Saying(client, MemoryProcess(name), run.progress_files / name, run, figures))


def acks(run: Run) -> None:
    says(run, "producer", lambda now: {"acked": int(10 * now)})


PARTITIONS = 3
TAIL = 5
GROUPS_LIMIT = 60 + 10 + 300 + 10
"""``limits.recover``, a session, the time between two polls, and slack."""


def test_groups_that_go_on_are_waited_for(run: Run) -> None:
    acks(run)
    for number, many in enumerate((2, 1)):
        says(
            run,
            f"member-{number}",
            lambda now, many=many: {"assigned": many if now > 20 else 0, "shown": int(now)},
            "g",
        )
    recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(20 + TAIL, abs=1.0)
    assert run.findings == []


@pytest.mark.parametrize(
    "figures",
    [
        {"assigned": PARTITIONS - 1},
        {"assigned": 0},
        {"assigned": PARTITIONS, "shown": 7},
    ],
)
def test_stalled_group_gets_its_full_time_and_is_a_finding(
    run: Run, figures: Mapping[str, int]
) -> None:
    acks(run)
    says(run, "member-0", lambda now: {"shown": int(now), **figures}, "g")
    says(run, "member-1", lambda now: {"assigned": PARTITIONS, "shown": int(now)}, "other")
    recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(GROUPS_LIMIT + TAIL, abs=1.0)
    assert run.findings == ["run 1, recover: groups that make no progress: g"]
    assert all(row["whole"] for row in rows(run))


def test_its_time_is_the_steps_too(run: Run) -> None:
    recover = next(step for step in STEPS if step.name == "recover")
    without = recover.limit_s(run)
    says(run, "member-0", lambda _: {}, "g")
    assert recover.limit_s(run) == without + GROUPS_LIMIT


def test_recovery_without_acks_waits_for_no_read(run: Run) -> None:
    says(run, "producer", lambda _: {"acked": 5})
    says(run, "member-0", lambda _: {"assigned": PARTITIONS, "shown": 5}, "g")
    recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(10 + TAIL, abs=1.0)
    assert run.findings == []


def test_recovery_does_not_wait_for_groups_during_an_unhealed_fault(run: Run) -> None:
    acks(run)
    says(run, "member-0", lambda _: {"assigned": 0}, "g")
    target = Target(expression="clients", nodes=("client-1",))
    plan = Plan(effects=())
    run.ledger.open(
        OpenFault(fault_id=1, fault=FAULTS["pause-client"], target=target, plan=plan, hold_ms=0)
    )
    recovery.recover(run, deadline(run))
    assert run.clock.monotonic() == pytest.approx(TAIL, abs=1.0)
