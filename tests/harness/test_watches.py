"""Watches over processes: one that ends by itself is reported at once by its name, one that a fault
ended is not, and a silent host has not ended."""

import dataclasses
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest

from ackproof.harness.directory import LIVE_LOGS
from ackproof.harness.running import clients, servers
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.processes import ProcessWatch
from ackproof.harness.running.servers import remove_live_logs
from ackproof.harness.running.steps import closing, setup
from ackproof.history import reader
from ackproof.infra.api.capabilities import ClockReading
from ackproof.infra.api.interface import DeploymentError, InfraError, ProcessState, SchedulingTimes
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import ClientCrash, ProcessKill
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.interface import Plan, Target
from ackproof.testing.memory.cluster import Memory, MemorySystem
from ackproof.testing.memory.servers import MemoryNode, MemoryProcess
from ackproof.workloads.interface import Client, ClientRole
from tests.support.processes.deadlines import PATIENCE_S


@dataclass
class SilentProcess(MemoryProcess):
    """On a host that may be silent."""

    silent: bool = False

    def state(self) -> ProcessState:
        if self.silent:
            raise InfraError(f"the host of {self.name} does not answer")
        return super().state()

    def signal(self, signal_number: int) -> None:
        if self.silent:
            raise InfraError(f"the host of {self.name} does not answer")
        super().signal(signal_number)


@pytest.fixture
def watched(run: Run, memory: Memory) -> Callable[[], list[tuple[str, int | None, int | None]]]:
    """Looks at broker-1 when called: what was recorded of it so far."""
    one = servers._WatchedServer(run, memory.system.brokers[0])

    def look() -> list[tuple[str, int | None, int | None]]:
        one.look()
        rows = reader.read(run.history, "servers").to_pylist()
        return [(row["event"], row["exit_code"], row["fault_id"]) for row in rows]

    return look


def hold(run: Run, fault_id: int) -> None:
    """A fault that is about to kill broker-1."""
    effect = ProcessKill("broker-1")
    run.ledger.open(
        OpenFault(
            fault_id=fault_id,
            fault=FAULTS["kill"],
            target=Target(expression="one", nodes=("broker-1",), servers=("broker-1",)),
            plan=Plan(effects=(effect,)),
            hold_ms=3_000,
        )
    )
    run.ledger.doing(fault_id, effect)


def is_killed_and_back(run: Run, memory: Memory) -> None:
    """End the server by fault 3 and close the fault afterwards."""
    server = memory.system.brokers[0]
    server.process.signal(signal.SIGKILL)
    server.start()
    run.ledger.close(3)


def test_a_start_is_recorded_once(watched) -> None:
    watched()
    assert watched() == [("started", None, None)]


def test_an_end_that_no_fault_accounts_for_is_a_finding(run: Run, memory: Memory, watched) -> None:
    watched()
    process = memory.system.brokers[0].process
    process.current, process.code = ProcessState.EXITED, 70
    watched()
    assert watched() == [("started", None, None), ("ended", 70, None)]
    assert run.findings == ["run 1, servers: broker-1 ended by itself, status 70"]
    assert run.ended_by_themselves == ["broker-1"]


def test_how_long_a_server_waited_for_a_processor_is_recorded(
    run: Run, memory: Memory, watched
) -> None:
    process = memory.system.brokers[0].process
    for times in [(10, 5), (30, 12), None, (31, 12), (40, 10), (50, 20)]:
        process.times = None if times is None else SchedulingTimes(*times)
        watched()
    memory.system.brokers[0].start()  # another process counts from 0
    memory.system.brokers[0].process.times = SchedulingTimes(1, 1)
    watched()
    rows = reader.read(run.history, "scheduling").to_pylist()
    assert [(row["server"], row["ran_ns"], row["waited_ns"]) for row in rows] == [
        ("broker-1", 20, 7),
        ("broker-1", 9, 0),  # a thread that ended took its times with it
        ("broker-1", 10, 10),
    ]
    assert all(row["span_ns"] > 0 for row in rows)


def test_newest_lines_of_a_watched_server_are_copied_without_secrets(
    run: Run, memory: Memory, watched
) -> None:
    log = {"content": b"one\nsasl.password=hunter2\n"}
    broker = memory.system.brokers[0]
    broker.node = MemoryNode("broker-1", "broker-1")
    broker.node.read = lambda _: log["content"]
    for _ in range(2):
        watched()
    copied = run.directory / LIVE_LOGS / "broker-1.log"
    assert copied.read_text() == "one\n[hidden]"
    log["content"] += b"two\n"
    for _ in range(2):
        watched()
    assert copied.read_text() == "one\n[hidden]\ntwo"
    remove_live_logs(run)
    assert not copied.parent.exists()


class Logged(MemoryNode):
    """A node on which every process has logged the same."""

    def read(self, path: PurePosixPath) -> bytes:  # noqa: ARG002
        return b"INFO starting\nERROR no security protocol for PLAINTEXT\n... 6 more\n"


LOGGED = "ERROR no security protocol for PLAINTEXT"


def test_end_of_a_server_quotes_the_last_error_of_its_log(
    run: Run, memory: Memory, watched
) -> None:
    watched()
    broker = memory.system.brokers[0]
    broker.node = Logged("broker-1", "broker-1")
    broker.process.current, broker.process.code = ProcessState.EXITED, 1
    watched()
    path = "logs/broker-1/broker-1.log"
    told = f"run 1, servers: broker-1 ended by itself, status 1; the last error in {path}: {LOGGED}"
    assert run.findings == [told]


class Unable(MemorySystem):
    """Its first broker ends as soon as it is started."""

    def deploy(self) -> None:
        words = "broker-1 ended with status 1 before it is registered\n... 6 more"
        raise DeploymentError(words, self.brokers[0])


def test_failed_deploy_quotes_the_last_error_of_the_log(run: Run, memory: Memory) -> None:
    memory.system.__class__ = Unable
    memory.system.brokers[0].node = Logged("broker-1", "broker-1")
    told = "broker-1 ended with status 1 before it is registered; the last error in "
    with pytest.raises(DeploymentError, match=f"^{told}logs/broker-1/broker-1.log: {LOGGED}$"):
        setup.deploy(run, Deadline.after(run.clock, 60))


def test_end_of_a_client_quotes_the_last_error_of_its_log(run: Run) -> None:
    node = Logged("client-1", "client-1")
    run = dataclasses.replace(run, client_nodes=[node])
    ended = Ended()
    run.running.append(ended.client(run))
    run.watches[setup.CLIENTS] = ProcessWatch("none", lambda: None)
    ended.process.current, ended.process.code = ProcessState.EXITED, 1
    setup._look_after_clients(run)
    path = "logs/client-1/producer-t.log"
    (told,) = run.findings
    assert told.endswith(f"ended by itself, status 1; the last error in {path}: {LOGGED}")
    (row,) = reader.read(run.history, "clients").to_pylist()
    assert row["detail"] in told


def test_an_end_under_a_fault_is_that_faults(run: Run, memory: Memory, watched) -> None:
    watched()
    hold(run, 3)
    memory.system.brokers[0].process.signal(signal.SIGKILL)
    assert watched() == [("started", None, None), ("ended", -9, 3)]
    assert not run.findings


def test_kill_and_return_between_two_looks_belongs_to_the_fault(
    run: Run, memory: Memory, watched
) -> None:
    hold(run, 3)
    watched()
    is_killed_and_back(run, memory)
    assert watched() == [("started", None, None), ("ended", -9, 3), ("started", None, None)]
    assert not run.findings


def test_a_fault_that_came_and_was_healed_between_two_looks_is_not_missed(
    run: Run, memory: Memory, watched
) -> None:
    """A restart while ZooKeeper is cut off: the watch does not wait for its registration."""
    watched()
    hold(run, 3)
    is_killed_and_back(run, memory)
    assert watched() == [("started", None, None), ("ended", -9, 3), ("started", None, None)]
    assert not run.findings


def test_after_a_proven_heal_an_end_is_the_servers_own(run: Run, memory: Memory, watched) -> None:
    """The counter-example: a broker that dies in the second after its fault was healed."""
    hold(run, 3)
    watched()
    run.ledger.close(3)
    process = memory.system.brokers[0].process
    process.current, process.code = ProcessState.EXITED, 1
    assert watched()[-1] == ("ended", 1, None)
    assert run.findings


def test_crash_of_a_restarted_broker_is_its_own_while_its_fault_is_still_open(
    run: Run, memory: Memory, watched
) -> None:
    """It was killed by a fault, and started again; it exits before it is registered."""
    server = memory.system.brokers[0]
    watched()
    hold(run, 3)
    server.process.signal(signal.SIGKILL)
    watched()
    server.start()
    run.ledger.undone(3)
    watched()
    server.process.current, server.process.code = ProcessState.EXITED, 1
    assert watched()[-3:] == [("ended", -9, 3), ("started", None, None), ("ended", 1, None)]
    assert run.findings == ["run 1, servers: broker-1 ended by itself, status 1"]
    assert run.ledger.still_open()


def test_a_silent_host_is_no_end(run: Run, memory: Memory, watched) -> None:
    server = memory.system.brokers[0]
    server.process = process = SilentProcess("broker-1")
    watched()
    hold(run, 4)
    process.signal(signal.SIGKILL)
    process.silent = True
    with pytest.raises(InfraError):
        watched()
    server.start()
    run.ledger.close(4)
    process.silent = False
    assert watched() == [("started", None, None), ("ended", -9, 4), ("started", None, None)]
    assert not run.findings


def test_every_server_is_watched_until_the_end(run: Run, memory: Memory) -> None:
    servers.watch(run)
    names = {server.name for server in (*memory.system.brokers, *memory.system.zookeepers)}
    assert run.watches.keys() == names
    wait_until(
        lambda: len(reader.read(run.history, "servers")) == len(names), PATIENCE_S, "all to be seen"
    )
    process = memory.system.zookeepers[0].process
    process.current, process.code = ProcessState.EXITED, 1
    closing.collect(run, Deadline.after(run.clock, 60))
    assert "run 1, servers: zookeeper-1 ended by itself, status 1" in run.findings
    assert not run.watches


def test_a_watch_goes_on_whatever_a_look_raises() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise (InfraError("silent") if len(looks) == 1 else RuntimeError("a fault of our own"))

    watch = ProcessWatch("x", look).start()
    wait_until(lambda: len(looks) >= 3, PATIENCE_S, "three looks")
    assert watch.stop(10)


@dataclass
class Ended:
    """A client node's process and its state."""

    process: SilentProcess = field(default_factory=lambda: SilentProcess("producer-t"))

    def client(self, run: Run) -> ClientProcess:
        client = Client(
            name="producer-t",
            module="m",
            role=ClientRole.PRODUCER,
            cell=None,
            node="client-1",
            specification={},
        )
        return ClientProcess(client, self.process, run.directory / "progress.json")


def test_a_client_that_ends_by_itself_is_a_finding(run: Run) -> None:
    ended = Ended()
    run.running.append(ended.client(run))
    run.watches[setup.CLIENTS] = ProcessWatch("none", lambda: None)
    setup._look_after_clients(run)
    assert not run.findings
    ended.process.current, ended.process.code = ProcessState.EXITED, 1
    setup._look_after_clients(run)
    assert run.findings == ["run 1, workload: the client producer-t ended by itself, status 1"]
    assert run.running == []
    assert ends(run) == [("producer-t", 1, None)]
    assert run.ended_well.get("workload") is not False, "it is its own cell's matter alone"


@pytest.mark.parametrize("found_by", ["the watch", "flush"])
def test_a_client_that_a_fault_crashed_is_no_finding(run: Run, found_by: str) -> None:
    """Not even when its fault is healed, and it is found long after."""
    ended = Ended()
    run.started.append(ended.client(run))
    run.running.append(ended.client(run))
    assert run.cluster.members.workload == {"producer-t": "client-1"}
    crash(run, 1, "producer-t")
    run.ledger.close(1)
    assert ended.process.code == -9
    if found_by == "the watch":
        run.watches[setup.CLIENTS] = ProcessWatch("none", lambda: None)
        setup._look_after_clients(run)
        assert run.cluster.members.workload == {}
        assert [client.name for client in run.cluster.workload()] == ["producer-t"]
    else:
        closing.flush(run, Deadline.after(run.clock, 10))
    assert run.running == []
    assert run.findings == []
    assert ends(run) == [("producer-t", -9, 1)]


def ends(run: Run) -> list[tuple[str, int | None, int | None]]:
    rows = reader.read(run.history, "clients").to_pylist()
    return [(row["client"], row["exit_code"], row["fault_id"]) for row in rows]


def crash(run: Run, fault_id: int, client: str) -> None:
    fault = FAULTS["crash-client"]
    target = Target(expression="clients", nodes=("client-1",))
    plan = Plan(effects=(ClientCrash(client),))
    entry = OpenFault(fault_id=fault_id, fault=fault, target=target, plan=plan, hold_ms=0)
    run.executor.inject(entry)


def test_a_silent_client_host_ends_neither_the_watching_nor_the_flush(run: Run) -> None:
    """The others are flushed, the clocks asked; that it did not end is told."""
    silent, other = Ended(), Ended()
    silent.process.silent = True
    run.running.extend([other.client(run), silent.client(run)])
    run.watches[setup.CLIENTS] = ProcessWatch("none", lambda: None)
    setup._look_after_clients(run)
    del run.watches[setup.CLIENTS]
    assert not run.findings
    run.ended_well["workload"] = True
    closing.flush(run, Deadline.after(run.clock, 10))
    assert run.running == []
    assert [text for text in run.findings if "cannot be killed" in text]
    assert not run.ended_well["flush"]
    assert [row["moment"] for row in reader.read(run.history, "clocks").to_pylist()] == ["end"]


def test_a_client_killed_in_vain_keeps_nothing_from_being_closed(run: Run, memory: Memory) -> None:
    silent = Ended()
    silent.process.silent = True
    run.running.append(silent.client(run))
    memory.backend.links_cut.add(("a", "b"))
    closing.teardown(run, Deadline.after(run.clock, 30))
    assert not memory.backend.links_cut, "the backend was closed"
    assert any("producer-t was not closed" in text for text in run.findings)


def test_the_clocks_of_client_nodes_are_recorded(run: Run) -> None:
    (node,) = run.client_nodes
    node.reading = ClockReading(offset_ns=-7, bound_ns=3)
    setup.compare_clocks(run, node, "start")
    (row,) = reader.read(run.history, "clocks").to_pylist()
    assert (row["node"], row["moment"], row["offset_ns"], row["bound_ns"]) == (
        "client-1",
        "start",
        -7,
        3,
    )


def test_waiting_for_a_client_that_is_silent_takes_the_time_there_is(run: Run) -> None:
    silent = Ended()
    silent.process.silent = True
    told = clients.wait(silent.client(run), Deadline.after(run.clock, 5))
    assert told is not None
    assert "does not answer" in told
    assert run.clock.monotonic() == pytest.approx(5, abs=0.5)
