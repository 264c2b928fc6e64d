"""Faults are written down before they strike, proven, healed by the ledger, and recorded."""

import dataclasses
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.context.steps import fault_findings
from ackproof.harness.campaign.plan.faults import ScheduledFault, lanes
from ackproof.harness.report import timeline
from ackproof.harness.running import servers
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Cancelled, Deadline, SystemClock
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.running.servers import AllBrokersEnded
from ackproof.harness.running.steps import closing, injection
from ackproof.harness.running.steps import nemesis as steps
from ackproof.harness.running.steps.catalogue import STEPS
from ackproof.history import reader
from ackproof.infra.api.interface import InfraError, Node, ProcessState
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import ProcessKill
from ackproof.nemesis.execution import HealingBegun, OpenFault
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import Count, resolve
from ackproof.testing.memory.cluster import Memory
from ackproof.testing.memory.servers import MemoryBackend, MemoryProcess, MemoryServer
from tests.support.fakes.jumping_clock import JumpingClock
from tests.support.faults.own_commands import by_file
from tests.support.processes.deadlines import PATIENCE_S


def deadline(run: Run, seconds: float = 1000.0) -> Deadline:
    return Deadline.after(run.clock, seconds)


def rows(run: Run) -> list[dict[str, Any]]:
    return reader.read(run.history, "faults").to_pylist()


def events(run: Run, fault: str) -> list[tuple[str, bool | None]]:
    return [(row["event"], row["proven"]) for row in rows(run) if row["fault"] == fault]


def opened(run: Run, name: str, expression: str) -> OpenFault:
    """A fault in the ledger, of which nothing was done yet."""
    target = resolve(parse(expression), run.cluster, 1)
    fault, members = FAULTS[name], run.cluster.members
    plan = fault.plan(members, target, fault.parameters(), random.Random(1))
    return OpenFault(fault_id=9, fault=fault, target=target, plan=plan, hold_ms=3_000)


def at(
    fault_id: int, fault: str, target: str, start_s: float, hold_s: float, **own: object
) -> ScheduledFault:
    return ScheduledFault(
        fault_id=fault_id,
        fault=fault,
        target=target,
        parameters=FAULTS[fault].parameters.model_validate(own),
        start_ms=int(start_s * 1000),
        gap_ms=None,
        hold_ms=int(hold_s * 1000),
        seed=fault_id,
    )


@pytest.fixture
def overlapping(run: Run, tmp_path: Path) -> Callable[..., Run]:
    """The run with other faults, all of which have a time, and a clock that several threads can
    wait on."""

    def made(*plan: ScheduledFault) -> Run:
        clock = JumpingClock(len(list(lanes(plan))))
        recorder = RunRecorder(tmp_path / "history", clock)
        return dataclasses.replace(run, plan=plan, clock=clock, recorder=recorder)

    return made


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
    assert run.clock.monotonic() - began >= run.plan[-1].end_ms / 1000 - 1


def test_display_names_the_server_that_each_fault_affects(run: Run) -> None:
    steps.faults(run, deadline(run))
    (killed,) = {
        row["servers"][0] for row in rows(run) if row["fault"] == "kill" and row["servers"]
    }
    assert f"kill#1 verified on {killed}" in run.progress.said
    assert f"kill#1 healed on {killed}" in run.progress.said
    assert "pause#2 verified on zookeeper-1" in run.progress.said


def test_rows_of_a_fault_record_target_facts_and_evidence(run: Run) -> None:
    steps.faults(run, deadline(run))
    verified = next(r for r in rows(run) if r["fault"] == "kill" and r["event"] == "verified")
    assert verified["target"] == "leader(acks-1-minisr-1, any)"
    assert verified["servers"][0].startswith("broker-")
    assert len(verified["partitions"]) == 18
    assert verified["destroys"] is None
    facts = json.loads(verified["facts"])
    (partition,) = facts["partitions"]
    assert partition.startswith("acks-1-minisr-1-")
    assert -9 in json.loads(verified["evidence"])["ended by signal 9"].values()


def test_the_ledger_has_the_intent_before_the_injection(run: Run, tmp_path: Path) -> None:
    steps.faults(run, deadline(run))
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["open", "doing", "undone", "close"] * 2


def test_a_hold_shorter_than_the_session_is_kept_to(run: Run, memory: Memory) -> None:
    memory.system.lingering = {1, 2, 3}
    plan = [dataclasses.replace(f, hold_ms=100, fault="pause", target="one") for f in run.plan]
    short = dataclasses.replace(run, plan=plan[:1])
    steps.faults(short, deadline(short))
    assert events(short, "pause")[2:] == [("verified", True), ("heal", None), ("healed", True)]
    assert run.clock.monotonic() == pytest.approx(plan[0].start_ms / 1000 + 0.1)


def unsettled(run: Run, settle: int) -> Run:
    """Return the run with one fault, before which it waits ``settle`` ms for a full ISR."""
    planned = dataclasses.replace(run.plan[0], fault="pause", target="zookeeper")
    schedule = run.campaign.schedule.model_copy(update={"settle": settle})
    campaign = run.campaign.model_copy(update={"schedule": schedule})
    return dataclasses.replace(run, plan=(planned,), campaign=campaign)


def test_fault_that_strikes_before_the_cluster_has_settled_says_so(
    run: Run, memory: Memory
) -> None:
    memory.system.admin.isrs["acks-1-minisr-1", 0] = [1, 2]
    run = unsettled(run, 10_000)
    steps.faults(run, deadline(run))
    (struck,) = [row for row in rows(run) if row["event"] == "inject"]
    missing = "acks-1-minisr-1-0 has the ISR [1, 2]"
    assert json.loads(struck["evidence"]) == {"not settled after 10 s": missing}
    label = f"pause#{run.plan[0].fault_id}"
    assert f"{label}: the cluster did not settle within 10 s: {missing}" in run.progress.said
    assert list(fault_findings(rows(run))) == [f"{label}: injected before the cluster had settled"]
    (span,) = timeline.read(run.history).faults
    assert span.evidence["not settled after 10 s"] == missing
    assert run.ended_well == {}


@pytest.mark.parametrize(("isr", "settle"), [([1, 2, 3], 10_000), ([1, 2], 0)])
def test_settled_cluster_and_a_campaign_that_does_not_wait_are_not_reported(
    run: Run, memory: Memory, isr: list[int], settle: int
) -> None:
    memory.system.admin.isrs["acks-1-minisr-1", 0] = isr
    run = unsettled(run, settle)
    steps.faults(run, deadline(run))
    assert not list(fault_findings(rows(run)))
    assert not [said for said in run.progress.said if "settled" in said]


class TestOverlapping:
    def test_each_strikes_and_heals_at_its_time(self, overlapping, memory: Memory) -> None:
        run = overlapping(
            at(1, "isolate", "broker-1", 5, 20),
            at(2, "kill", "broker-2", 8, 7),
            at(3, "pause", "zookeeper", 30, 1),
        )
        steps.faults(run, deadline(run))
        seen = {(r["fault"], r["event"]): (r["time"] / 1e9, r["proven"]) for r in rows(run)}
        assert len(seen) == 15
        for fault, start, end in (("isolate", 5, 25), ("kill", 8, 15), ("pause", 30, 31)):
            assert seen[fault, "inject"] == (start, None)
            assert seen[fault, "verified"][1] is True
            assert seen[fault, "heal"] == (end, None)
            assert seen[fault, "healed"][1] is True
        assert not memory.backend.links_cut
        assert [broker.starts for broker in memory.system.brokers] == [0, 1, 0]

    def test_overlapping_faults_share_links_and_processes(
        self, overlapping, memory: Memory
    ) -> None:
        run = overlapping(
            at(1, "isolate", "broker-1", 1, 9),
            at(2, "cut", "broker-1 <-> zookeeper", 3, 20),
            at(3, "kill", "broker-3", 4, 10),
            at(4, "pause", "broker-3", 5, 20),
        )
        healed: dict[str, int] = {}
        memory.backend.servers["broker-3"].__class__ = Counting
        memory.backend.servers["broker-3"].__dict__.update(clock=run.clock, starts_at=healed)
        steps.faults(run, deadline(run))
        assert healed == {"broker-3": 25}
        links = [call[1:] for call in memory.backend.calls]
        assert len(links) == len(set(links)) * 2
        assert not memory.backend.links_cut
        assert run.ledger.still_open() == ()

    def test_unplannable_fault_waits_for_its_chance(self, overlapping) -> None:
        """Test a partition without another in-sync replica that could be preferred."""
        partition = "acks-1-minisr-1, 0"
        run = overlapping(
            at(1, "kill", f"partition({partition}) - leader({partition})", 1, 20),
            at(2, "elect-preferred", f"partition({partition})", 5, 0),
        )
        steps.faults(run, deadline(run))
        assert events(run, "elect-preferred")[2:] == [
            ("verified", True),
            ("heal", None),
            ("healed", True),
        ]
        times = {(row["fault"], row["event"]): row["time"] / 1e9 for row in rows(run)}
        assert 21 <= times["elect-preferred", "inject"] < 22

    def test_exception_in_one_fault_does_not_end_the_others(
        self, overlapping, memory: Memory
    ) -> None:
        run = overlapping(
            at(1, "cut", "broker-1 -> broker-2", 1, 5), at(2, "kill", "broker-3", 2, 5)
        )
        memory.backend.__class__ = Raising
        memory.backend.__dict__.update(verb="cut", number=0)
        steps.faults(run, deadline(run))
        assert [event for event, _ in events(run, "cut")] == ["inject", "failed", "heal", "healed"]
        assert events(run, "kill")[-1] == ("healed", True)


class Counting(MemoryServer):
    """Says when it was started."""

    def start(self) -> MemoryProcess:
        self.starts_at[self.name] = self.clock.monotonic()  # type: ignore[attr-defined]
        return MemoryServer.start(self)


class Raising(MemoryBackend):
    """Raises an unexpected error at the given call of one of its verbs."""

    def cut(self, source: Node, target: Node) -> None:
        self._perhaps("cut")
        MemoryBackend.cut(self, source, target)

    def heal(self, source: Node, target: Node) -> None:
        self._perhaps("heal")
        MemoryBackend.heal(self, source, target)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        if self.links_cut:
            self._perhaps("reaches")
        return MemoryBackend.reaches(self, source, target, port, timeout)

    def _perhaps(self, verb: str) -> None:
        if verb == self.verb:  # type: ignore[attr-defined]
            self.number -= 1  # type: ignore[attr-defined]
            if self.number == -1:  # type: ignore[attr-defined]
                raise KeyError("an unexpected error")


class TestRaising:
    """Whatever an injection, a proof or a heal raises half-way: healed, closed, recorded."""

    def broken(self, run: Run, memory: Memory, verb: str, number: int) -> Run:
        planned = dataclasses.replace(
            run.plan[0],
            fault="isolate",
            target="broker-1",
            parameters=FAULTS["isolate"].parameters(),
        )
        memory.backend.__class__ = Raising
        memory.backend.__dict__.update(verb=verb, number=number)
        return dataclasses.replace(run, plan=(planned,))

    @pytest.mark.parametrize("number", range(6))
    def test_each_effect_in_turn(self, run: Run, memory: Memory, number: int) -> None:
        run = self.broken(run, memory, "cut", number)
        steps.faults(run, deadline(run))
        assert events(run, "isolate") == [
            ("inject", None),
            ("failed", None),
            ("heal", None),
            ("healed", True),
        ]
        failed = next(row for row in rows(run) if row["event"] == "failed")
        assert json.loads(failed["evidence"]) == {"error": "KeyError: 'an unexpected error'"}
        assert not memory.backend.links_cut
        assert run.ledger.still_open() == ()

    def test_the_proof(self, run: Run, memory: Memory) -> None:
        run = self.broken(run, memory, "reaches", 0)
        steps.faults(run, deadline(run))
        assert [event for event, _ in events(run, "isolate")] == [
            "inject",
            "injected",
            "failed",
            "heal",
            "healed",
        ]
        assert run.ledger.still_open() == ()

    @pytest.mark.parametrize("number", range(6))
    def test_each_heal_in_turn(self, run: Run, memory: Memory, number: int) -> None:
        run = self.broken(run, memory, "heal", number)
        steps.faults(run, deadline(run))
        assert events(run, "isolate")[-2:] == [("heal", None), ("failed", None)]
        assert len(run.ledger.still_open()) == 1
        steps.heal(run, deadline(run))
        assert events(run, "isolate")[-2:] == [("heal", None), ("healed", True)]
        assert run.ledger.still_open() == ()
        assert not memory.backend.links_cut
        assert not run.findings


def test_fault_that_was_never_injected_is_healed(run: Run) -> None:
    run.ledger.open(opened(run, "kill", "all"))
    steps.heal(run, deadline(run))
    assert events(run, "kill") == [("heal", None), ("healed", True)]
    assert run.ledger.still_open() == ()
    assert not run.findings


def test_several_are_healed_newest_first(run: Run) -> None:
    for number, name in enumerate(("pause", "kill"), start=1):
        entry = dataclasses.replace(opened(run, name, f"broker-{number}"), fault_id=number)
        run.executor.inject(entry)
    steps.heal(run, deadline(run))
    assert [row["fault"] for row in rows(run) if row["event"] == "healed"] == ["kill", "pause"]
    assert not run.findings


def test_a_heal_that_is_not_proven_is_a_finding(run: Run, memory: Memory) -> None:
    run.executor.inject(opened(run, "pause", "zookeeper"))
    memory.system.zookeepers[0].process.deaf = True
    steps.heal(run, deadline(run, seconds=0.0))
    assert events(run, "pause") == [("heal", None), ("healed", False)]
    assert run.findings == ["run 1, heal: pause#9 is not proven to be healed"]


def test_broker_that_does_not_return_is_distinguished_from_an_unhealed_fault(
    run: Run, memory: Memory
) -> None:
    run.executor.inject(opened(run, "kill", "broker-1"))
    memory.system.lingering = {1}
    steps.heal(run, deadline(run, seconds=0.0))
    assert events(run, "kill") == [("heal", None), ("healed", False), ("lifted", False)]
    assert run.findings == ["run 1, heal: kill#9 is not proven to be healed"]


def test_a_server_that_died_by_itself_does_not_fail_the_heal(run: Run, memory: Memory) -> None:
    # Its end is judged as what it is (servers-stay-up); a failed step would cost every cell.
    memory.system.brokers[1].process.current = ProcessState.EXITED
    memory.system.brokers[1].process.code = 70
    steps.heal(run, deadline(run))
    assert not run.findings


def test_unresolved_target_is_recorded_as_failed(run: Run, memory: Memory) -> None:
    memory.system.topics = {}
    steps.faults(run, deadline(run))
    assert events(run, "kill") == [("failed", None)]
    failed = next(row for row in rows(run) if row["fault"] == "kill")
    assert "it has no leader" in failed["evidence"]
    assert failed["servers"] is None
    assert run.ledger.still_open() == ()


def test_a_fault_that_can_never_be_made_says_why_in_the_end(run: Run, memory: Memory) -> None:
    memory.system.admin.isrs["acks-1-minisr-1", 0] = [1]
    run = dataclasses.replace(
        run, plan=(at(1, "elect-preferred", "partition(acks-1-minisr-1, 0)", 5, 0),)
    )
    steps.faults(run, deadline(run))
    (failed,) = rows(run)
    assert failed["event"] == "failed"
    assert "its ISR has only the leader broker-1" in failed["evidence"]


class Blocking(MemoryProcess):
    """Hangs in SIGKILL until it is released, and dies then."""

    def signal(self, signal_number: int) -> None:
        if signal_number == 9:
            self.reached.set()  # type: ignore[attr-defined]
            assert self.released.wait(PATIENCE_S)  # type: ignore[attr-defined]
        MemoryProcess.signal(self, signal_number)


@pytest.fixture(params=["all", "broker-1"])
def hanging(
    run: Run, memory: Memory, request: pytest.FixtureRequest
) -> Iterator[tuple[Run, threading.Event, threading.Event]]:
    """A run whose first fault kills all brokers, or the first alone, and hangs at the first; set
    when it hangs, to be set when it shall not."""
    reached, released = threading.Event(), threading.Event()
    first = memory.system.brokers[0]
    first.process = Blocking(first.name)
    first.process.__dict__.update(reached=reached, released=released)
    planned = at(1, "kill", request.param, 0, 3)
    other = at(2, "pause", "zookeeper", 500, 3)
    run = dataclasses.replace(run, plan=(planned, other), clock=SystemClock())
    yield run, reached, released
    released.set()


def test_an_injection_that_is_left_behind_breaks_nothing_after_the_heal(
    hanging, memory: Memory
) -> None:
    run, reached, released = hanging
    limit = deadline(run)
    ends: list[BaseException] = []

    def strike() -> None:
        try:
            steps.faults(run, limit)
        except Cancelled as cancelled:
            ends.append(cancelled)

    step = threading.Thread(target=strike)
    step.start()
    assert reached.wait(PATIENCE_S)
    limit.cancelled.set()
    step.join(PATIENCE_S)
    assert ends, "the step does not end while a fault of it hangs"

    healing = threading.Thread(target=steps.heal, args=(run, deadline(run)))
    healing.start()
    wait_until(lambda: ("heal", None) in events(run, "kill"), PATIENCE_S, "the heal to begin")
    released.set()
    healing.join(3 * PATIENCE_S)
    left = [t for t in threading.enumerate() if t.name.startswith("faults-")]
    for thread in left:
        thread.join(PATIENCE_S)
    # The first was killed by the effect that hung, and started again; no other was touched.
    states = [server.process.state() for server in memory.system.brokers]
    assert states == [ProcessState.RUNNING] * 3
    assert [server.starts for server in memory.system.brokers] == [1, 0, 0]
    assert run.ledger.done(1) == (ProcessKill("broker-1"),)
    assert events(run, "kill") == [("inject", None), ("heal", None), ("healed", True)]
    assert not events(run, "pause")
    assert run.ledger.still_open() == ()


def test_nothing_strikes_after_the_heal(run: Run, memory: Memory) -> None:
    steps.heal(run, deadline(run))
    with pytest.raises(HealingBegun):
        steps.faults(run, deadline(run))
    assert {row["event"] for row in rows(run)} == {"inject"}
    assert all(s.process.state() is ProcessState.RUNNING for s in memory.backend.servers.values())
    assert run.ledger.still_open() == ()


class TestRoom:
    """No more suffer at once than may, whatever the plan said."""

    def crowded(self, overlapping, *affected: int) -> Run:
        faults = [
            dataclasses.replace(at(n, "kill", f"broker-{n}", n, 10), affected=Count(affected))
            for n, affected in enumerate(affected, start=1)
        ]
        return dataclasses.replace(overlapping(*faults), room=Count(brokers=2))

    def test_fault_beyond_the_limit_waits(self, overlapping) -> None:
        run = self.crowded(overlapping, 1, 1, 1)
        steps.faults(run, deadline(run))
        healed = [r["time"] for r in rows(run) if r["event"] == "healed" and r["fault_id"] < 3]
        struck = {r["fault_id"]: r["time"] for r in rows(run) if r["event"] == "inject"}
        assert struck[1] == 1e9
        assert struck[2] == 2e9
        assert min(healed) <= struck[3] <= min(healed) + 1e9
        assert len([r for r in rows(run) if r["event"] == "healed"]) == 3

    def test_unhealed_fault_takes_room(self, overlapping, memory: Memory) -> None:
        run = self.crowded(overlapping, 2, 1)
        process = memory.system.brokers[0]
        process.__class__ = Lame
        steps.faults(run, deadline(run))
        (why,) = [json.loads(r["evidence"]) for r in rows(run) if r["fault_id"] == 2]
        assert why == {"error": "NoRoom: kill#1 left no room for kill#2"}
        # Twice as long as a heal may take, not as long as all that is planned.
        tries = [r["time"] for r in rows(run) if r["fault_id"] == 1 and r["event"] == "heal"]
        assert len(tries) == 2

    def test_fault_healed_late_makes_room_for_the_next(self, overlapping, memory: Memory) -> None:
        run = self.crowded(overlapping, 2, 1, 2)
        memory.system.brokers[0].__class__ = Late
        steps.faults(run, deadline(run))
        healed = [(r["fault_id"], r["proven"]) for r in rows(run) if r["event"] == "healed"]
        assert sorted(healed) == [(1, True), (2, True), (3, True)]
        (why,) = [json.loads(r["evidence"]) for r in rows(run) if r["event"] == "failed"]
        assert "its machine does not answer" in why["error"]


class Lame(MemoryServer):
    """Cannot be started again."""

    def start(self) -> MemoryProcess:
        return self.process


class Late(MemoryServer):
    """Is started only when it is asked to for the second time."""

    asked = 0

    def start(self) -> MemoryProcess:
        self.asked += 1
        if self.asked == 1:
            raise InfraError("its machine does not answer")
        return super().start()


def test_no_more_faults_once_a_server_has_ended_by_itself(run: Run, memory: Memory) -> None:
    schedule = run.campaign.schedule.model_copy(update={"until": "first-broken-guarantee"})
    run = dataclasses.replace(run, campaign=run.campaign.model_copy(update={"schedule": schedule}))
    run.ended_by_themselves.append("broker-2")
    steps.faults(run, deadline(run))
    assert [row["event"] for row in rows(run)] == ["failed", "failed"]
    assert all("broker-2 had ended by itself" in row["evidence"] for row in rows(run))
    assert all(server.starts == 0 for server in memory.system.brokers)


def end_all(memory: Memory) -> None:
    for broker in memory.system.brokers:
        broker.process.current, broker.process.code = ProcessState.EXITED, 1


def test_no_fault_waits_for_brokers_that_have_all_ended_for_good(run: Run, memory: Memory) -> None:
    end_all(memory)
    began = run.clock.monotonic()
    steps.faults(run, deadline(run))
    assert [row["event"] for row in rows(run)] == ["failed", "failed"]
    assert all("nothing is left to test" in row["evidence"] for row in rows(run))
    assert run.clock.monotonic() - began < 1
    with pytest.raises(AllBrokersEnded):
        closing.final_read(run, deadline(run))


def test_no_fault_follows_one_after_which_no_broker_comes_up(run: Run, memory: Memory) -> None:
    for broker in memory.system.brokers:
        broker.__class__ = Lame
    end_all(memory)
    memory.system.brokers[0].process.current = ProcessState.RUNNING
    run.executor.inject(entry := opened(run, "kill", "broker-1"))
    assert not servers.brokers_are_gone(run), "the fault will start its broker"
    assert not injection.heal(run, entry, deadline(run))
    assert servers.brokers_are_gone(run)


def test_faults_continue_after_a_server_ends_if_no_stop_is_configured(run: Run) -> None:
    run.ended_by_themselves.append("broker-2")
    steps.faults(run, deadline(run))
    assert events(run, "kill")[-1] == ("healed", True)


def test_fault_follows_at_once_without_a_settle_time(run: Run, memory: Memory) -> None:
    """With settle 0 the step does not wait for the replicas: here none is ever in sync."""
    schedule = run.campaign.schedule.model_copy(update={"settle": 0})
    plan = [dataclasses.replace(one, gap_ms=0, start_ms=0, hold_ms=0) for one in run.plan]
    campaign = run.campaign.model_copy(update={"schedule": schedule})
    run = dataclasses.replace(run, campaign=campaign, plan=plan)
    memory.system.replicas = {number: [1, 2, 3, 9] for number in range(3)}
    steps.faults(run, deadline(run))
    healed = next(r["time"] for r in rows(run) if r["event"] == "healed")
    struck = [r["time"] for r in rows(run) if r["event"] == "inject"][1]
    assert (struck - healed) / 1e9 <= 0.5


def test_steps_give_commands_their_time(run: Run, tmp_path: Path) -> None:
    """Four of them while it strikes, two while what is left open is healed."""
    limits = {step.name: step.limit_s for step in STEPS}
    own = by_file(tmp_path / "mark", within_ms=7_000)
    other = dataclasses.replace(run, plan=[at(1, "kill", "broker-1", 1, 1)])
    run = dataclasses.replace(run, plan=[at(1, "command", "broker-1", 1, 1, **own)])
    assert limits["faults"](run) - limits["faults"](other) == 28
    assert limits["heal"](run) - limits["heal"](other) == 14


def test_faults_step_gives_each_server_of_a_roll_its_time(run: Run) -> None:
    limit = {step.name: step.limit_s for step in STEPS}["faults"]
    own = {"within_ms": 2_000, "pause_ms": 500}
    other = dataclasses.replace(run, plan=[at(1, "kill", "broker-1", 1, 1)])
    roll = dataclasses.replace(run, plan=[at(1, "downgrade", "broker-1", 1, 1, **own)])
    servers = len(run.system.brokers) + len(run.system.zookeepers)
    assert limit(roll) - limit(other) == servers * (3 * 2 + 0.5)


def test_commands_are_recorded_as_any_fault(run: Run, tmp_path: Path) -> None:
    own = by_file(tmp_path / "mark", effects=["loses-unsynced"])
    run = dataclasses.replace(run, plan=[at(1, "command", "broker-1", 1, 1, **own)])
    steps.faults(run, deadline(run))
    told = rows(run)
    assert [row["event"] for row in told] == ["inject", "injected", "verified", "heal", "healed"]
    assert {row["destroys"] for row in told} == {"unsynced"}
    assert all(row["proven"] for row in told if row["event"] in ("verified", "healed"))
    assert not (tmp_path / "mark").exists()
