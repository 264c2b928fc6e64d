"""The clients of every cell: started, waited for as befits what they do, and stopped in an order in
which no client misses anything."""

import json
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath

import pytest

from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.workload import described
from ackproof.harness.campaign.plan.faults import ScheduledFault, parameters_of
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.harness.running import clients, processes
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.steps import closing, setup
from ackproof.history import reader
from ackproof.infra.api.interface import Command
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import HealFailed, OpenFault
from ackproof.nemesis.interface import Target
from ackproof.testing.memory.servers import MemoryNode, MemoryProcess
from ackproof.workloads.interface import CATCH_UP_S, ClientRole
from tests.support.processes.deadlines import PATIENCE_S

GROUPS = [
    {"name": "three", "members": 3},
    {"name": "four", "members": 4, "delivery": "at-most-once", "static": True},
]
WORKLOAD = {
    "cells.acks": "all",
    "cells.min~insync~replicas": 1,
    "workload.producers": 2,
    "workload.readers": 1,
    "workload.groups": GROUPS,
    "faults": [],
}
"""One cell with three partitions, so that a member of the group of four is idle."""


@dataclass
class Running(MemoryProcess):
    """A client that tells the node in which order things were asked of the clients."""

    told: list[str] = field(default_factory=list)

    def signal(self, signal_number: int) -> None:
        self.told.append(f"{signal.Signals(signal_number).name} {self.name}")
        super().signal(signal_number)


@dataclass
class ClientNode(MemoryNode):
    """Clients say in their progress files what ``figures`` has for their name's beginning."""

    figures: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    specifications: dict[str, Mapping[str, object]] = field(default_factory=dict)
    processes: dict[str, Running] = field(default_factory=dict)

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.specifications[path.stem] = json.loads(content)

    def read(self, path: PurePosixPath) -> bytes:
        if self.log is None:
            raise FileNotFoundError(path)
        return self.log.encode()

    def start(self, command: Command) -> Running:
        process = self.processes[command.name] = Running(command.name, told=self.told)
        self._says(command.name)
        return process

    def say(self, figures: Mapping[str, Mapping[str, int]]) -> None:
        """All clients say so, those that were silent until now, too."""
        self.figures = figures
        for name in self.processes:
            self._says(name)

    def _says(self, name: str) -> None:
        for beginning, figures in self.figures.items():
            if name.startswith(beginning):
                progress = Path(str(self.specifications[name]["progress"]))
                progress.parent.mkdir(exist_ok=True)
                progress.write_text(json.dumps(figures))
                break


AT_WORK = {
    "producer": {"acked": 5},
    "reader": {"assigned": 3, "shown": 4},
    "member-acks-all-minisr-1-four-3": {"assigned": 0},
    "member": {"assigned": 1, "shown": 2},
}


@pytest.fixture
def node() -> ClientNode:
    return ClientNode("client-1", "client-1", figures=AT_WORK)


@pytest.fixture
def busy(run: Run, node: ClientNode, campaign_file) -> Iterator[Run]:
    """The run with one cell that has ten clients."""
    campaign = load(campaign_file(WORKLOAD)).resolved(seed=7)
    one = [cell for cell in run.cells if cell.name == "acks-all.minisr-1"]
    with_clients = replace(run, campaign=campaign, client_nodes=[node], cells=one)
    yield with_clients
    processes.stop_watching(with_clients.watches, list(with_clients.watches))


def deadline(run: Run, seconds: float = 100.0) -> Deadline:
    return Deadline.after(run.clock, seconds)


def names(running: list[clients.ClientProcess], role: ClientRole) -> list[str]:
    return [one.client.name for one in clients.of_role(role, running)]


def test_every_client_is_started_and_waited_for(busy: Run, node: ClientNode) -> None:
    setup.start_workload(busy, deadline(busy))
    assert len(names(busy.started, ClientRole.PRODUCER)) == 2
    assert len(names(busy.started, ClientRole.CONSUMER)) == 1 + 3 + 4
    assert busy.running == busy.started
    assert {one.client.cell for one in busy.started} == {"acks-all.minisr-1"}
    assert len(node.processes) == 10
    assert clients.done(busy.started) == (2 * 5, 4 + 6 * 2)
    assert not busy.findings


def test_a_group_that_is_full_has_idle_members_and_no_more(busy: Run, node: ClientNode) -> None:
    node.figures = {"member-acks-all-minisr-1-three-0": {"assigned": 0}, **AT_WORK}
    with pytest.raises(StepTimeout, match=r"three-0 .*was assigned.*four-3 .*1 of 2 members"):
        setup.start_workload(busy, deadline(busy))


@pytest.mark.parametrize(
    ("silent", "told"),
    [
        (
            "producer-acks-all-minisr-1-1",
            r"^the client producer-\S+-1 did not begin: nothing was acknowledged to it$",
        ),
        ("reader-", r"the client reader-\S+ did not begin: no partition was assigned to it"),
    ],
)
def test_idle_client_is_named_by_the_step(
    busy: Run, node: ClientNode, silent: str, told: str
) -> None:
    node.figures = {silent: {"acked": 0, "assigned": 0}, **AT_WORK}
    with pytest.raises(StepTimeout, match=told):
        setup.start_workload(busy, deadline(busy))


def test_a_client_that_has_said_nothing_yet_is_not_ready(busy: Run, node: ClientNode) -> None:
    node.figures = {name: figures for name, figures in AT_WORK.items() if name != "producer"}
    with pytest.raises(
        StepTimeout, match=r"producer-\S+-0 did .* nothing .*; the client producer-\S+-1 did"
    ):
        setup.start_workload(busy, deadline(busy))


def test_client_that_never_begins_leaves_the_other_cells_their_evidence(
    busy: Run, node: ClientNode
) -> None:
    """One cell of two has a producer to which nothing is acknowledged."""
    other = replace(busy.cells[0], name="other", topic="other")
    busy = replace(busy, cells=[*busy.cells, other])
    node.figures = {
        "producer-other": {"acked": 0},
        "member-other-four-3": {"assigned": 0},
        **AT_WORK,
    }
    node.log = "AttributeError: 'str' object has no attribute 'offset'\nflushing\n"
    setup.start_workload(busy, deadline(busy))
    error = "AttributeError: 'str' object has no attribute 'offset'"
    # The clock has stepped over so much time that some may count as silent, too.
    every = reader.read(busy.history, "clients").to_pylist()
    rows = [row for row in every if "did not begin" in row["detail"]]
    findings = [finding for finding in busy.findings if "did not begin" in finding]
    assert [(row["client"], row["fault_id"]) for row in rows] == [
        ("producer-other-0", None),
        ("producer-other-1", None),
    ]
    for row, finding in zip(rows, findings, strict=True):
        path = f"logs/client-1/{row['client']}.log"
        how = f"did not begin: nothing was acknowledged to it; the last error in {path}: {error}"
        assert row["detail"] == how
        assert finding == f"run 1, workload: the client {row['client']} {how}"


def test_consumers_are_stopped_after_the_producers(busy: Run, node: ClientNode) -> None:
    setup.start_workload(busy, deadline(busy))
    closing.flush(busy, deadline(busy))
    asked = [word.removeprefix("SIGTERM ").partition("-")[0] for word in node.told]
    assert asked == ["producer"] * 2 + ["reader"] + ["member"] * 7
    assert busy.running == []
    assert not busy.findings
    assert len(busy.started) == 10


def test_a_producer_that_hangs_leaves_the_consumers_their_time(busy: Run, node: ClientNode) -> None:
    setup.start_workload(busy, deadline(busy))
    node.processes["producer-acks-all-minisr-1-0"].stubborn = True
    limit_s = closing.flush_limit_s(busy)
    closing.flush(busy, deadline(busy, limit_s))
    first_consumer = next(i for i, word in enumerate(node.told) if "reader" in word)
    assert "SIGKILL producer-acks-all-minisr-1-0" in node.told[:first_consumer]
    assert not [word for word in node.told[first_consumer:] if "SIGKILL" in word]
    assert busy.clock.monotonic() < limit_s - CATCH_UP_S
    (finding,) = busy.findings
    assert "producer-acks-all-minisr-1-0 did not end in time and was killed" in finding


def test_a_consumer_that_hangs_is_a_finding_and_the_others_are_not(
    busy: Run, node: ClientNode
) -> None:
    setup.start_workload(busy, deadline(busy))
    node.processes["reader-acks-all-minisr-1-0"].stubborn = True
    closing.flush(busy, deadline(busy, closing.flush_limit_s(busy)))
    (finding,) = busy.findings
    assert "reader-acks-all-minisr-1-0 did not end in time" in finding
    ends = reader.read(busy.history, "clients").to_pylist()
    assert [(row["client"], row["exit_code"]) for row in ends] == [
        ("reader-acks-all-minisr-1-0", -9)
    ]


@pytest.mark.parametrize("role", ClientRole)
def test_crashed_client_leaves_the_others_running(
    busy: Run, node: ClientNode, role: ClientRole
) -> None:
    """And only those whose role the fault names are drawn."""
    setup.start_workload(busy, deadline(busy))
    before = names(busy.running, role)
    crash(busy, role)
    killed = {word.partition(" ")[2] for word in node.told if word.startswith("SIGKILL")}
    assert len(killed) == 1
    assert killed < set(before)
    wait_until(lambda: len(busy.running) == 9, PATIENCE_S, "the watch to see it")
    assert names(busy.running, role) == [name for name in before if name not in killed]
    closing.flush(busy, deadline(busy))
    assert not busy.findings


def crash(run: Run, role: ClientRole, number: int = 1, **further: object) -> OpenFault:
    fault = FAULTS["crash-client"]
    target = Target(expression="clients", nodes=("client-1",))
    parameters = fault.parameters.model_validate({"role": role.value, **further})
    plan = fault.plan(run.cluster.members, target, parameters, random.Random(3))
    entry = OpenFault(fault_id=number, fault=fault, target=target, plan=plan, hold_ms=0)
    run.executor.inject(entry)
    return entry


def crashing(number: int, role: str) -> ScheduledFault:
    """Return a planned crash after which clients come back."""
    return ScheduledFault(
        fault_id=number,
        fault="crash-client",
        target="clients",
        parameters=parameters_of("crash-client", {"role": role, "comes_back": True}),
        start_ms=0,
        gap_ms=None,
        hold_ms=0,
        seed=1,
    )


@pytest.mark.parametrize("role", ClientRole)
def test_another_comes_in_the_place_of_one_that_crashed(
    busy: Run, node: ClientNode, role: ClientRole
) -> None:
    """Twice: then in the place of the one that came."""
    plan = [crashing(number, role.value) for number in (1, 2)]
    run = replace(busy, plan=plan)
    setup.start_workload(run, deadline(run))
    known = set(node.processes)
    for number in (1, 2):
        entry = crash(run, role, number, clients="all", comes_back=True)
        crashed = [effect.client for effect in entry.plan.effects]
        wait_until(partial(all_gone, run, crashed), PATIENCE_S, "the watch to see it")
        assert not set(node.processes) - known
        assert proven_healed(run, entry) is False
        figures, node.figures = node.figures, {}
        run.executor.heal(entry)
        run.executor.heal(entry)
        assert proven_healed(run, entry) is False, "they have not begun yet"
        node.say(figures)
        came = set(node.processes) - known
        assert len(came) == len(crashed) > 0
        assert proven_healed(run, entry) is True
        known |= came
    assert len(run.running) == 10
    for client in run.cluster.workload():
        assert client.node == "client-1"
    closing.flush(run, deadline(run))
    assert not run.findings


def all_gone(run: Run, names: Iterable[str]) -> bool:
    return not {one.client.name for one in tuple(run.running)} & set(names)


def proven_healed(run: Run, entry: OpenFault) -> bool:
    (look,) = entry.fault.healed(run.executor.injection(entry))
    return not look().missing


def test_heal_fails_without_a_planned_replacement_client(busy: Run) -> None:
    setup.start_workload(busy, deadline(busy))
    entry = crash(busy, ClientRole.PRODUCER, comes_back=True)
    with pytest.raises(HealFailed, match="no replacement was planned for producer-"):
        busy.executor.heal(entry)


def test_clients_are_started_each_on_its_node(busy: Run, node: ClientNode) -> None:
    """And looked after there: the clock of each is compared, the files of each are fetched."""
    other = ClientNode("client-2", "client-2", figures=AT_WORK)
    run = replace(busy, client_nodes=[node, other])
    setup.start_workload(run, deadline(run))
    run.ended_well["workload"] = True
    closing.flush(run, deadline(run))
    assert {one.client.node for one in run.started} == {"client-1", "client-2"}
    assert len(node.processes) == len(other.processes) == 5
    assert run.cluster.members.clients == ("client-1", "client-2")
    assert {client.node for client in run.cluster.workload()} == {"client-1", "client-2"}
    clocks = reader.read(run.history, "clocks").to_pylist()
    assert [(row["node"], row["moment"]) for row in clocks] == [
        (name, moment) for moment in ("start", "end") for name in ("client-1", "client-2")
    ]


def test_time_for_stopping_grows_with_the_number_of_clients(busy: Run) -> None:
    alone_s = closing.flush_limit_s(busy)
    setup.start_workload(busy, deadline(busy))
    assert closing.flush_limit_s(busy) > alone_s + CATCH_UP_S


def test_clients_are_summarized_by_kind(campaign_file: Callable[..., Path]) -> None:
    assert told(campaign_file(WORKLOAD)) == (
        "each cell has 2 producers, 1 tail reader, group three (3 members, at-least-once), "
        "group four (4 members, at-most-once, static)"
    )
    assert told(campaign_file({})) == "each cell has 1 producer"


def test_a_group_may_be_of_some_cells_alone(campaign_file: Callable[..., Path]) -> None:
    group = {"name": "audit", "members": 2, "where": {"acks": "all"}}
    cells = {"cells.acks": ["0", "1", "all"], "cells.min~insync~replicas": 1}
    file = campaign_file({**cells, "workload.groups": [group]})
    assert told(file) == (
        "2 cells have 1 producer; one cell has 1 producer, group audit (2 members, at-least-once)"
    )
    (run,) = runs_of(load(file).resolved(seed=1))
    assert [len(one.groups) for one in run.cells] == [0, 0, 1]
    group["where"] = {"acks": "2"}
    with pytest.raises(CampaignRefused, match=r"workload\.groups\[0\]\.where: no cell has acks: 2"):
        check(campaign_file({**cells, "workload.groups": [group], "faults": []}))


def test_tail_readers_may_be_of_some_cells_alone(campaign_file: Callable[..., Path]) -> None:
    changes = {"cells.acks": ["1", "all"], "cells.min~insync~replicas": 1, "workload.readers": 2}
    file = campaign_file({**changes, "workload.readers~where": {"acks": "all"}})
    assert told(file) == ("one cell has 1 producer; one cell has 1 producer, 2 tail readers")


def told(file: Path) -> str:
    campaign = load(file)
    return described(campaign.workload, expand(campaign.cells))


def test_a_session_that_a_fatal_error_ended_is_written_down_once(
    busy: Run, node: ClientNode
) -> None:
    setup.start_workload(busy, deadline(busy))
    fatal = {"acked": 9, "sessions_ended": 1, "fatal": "out of sequence"}
    node.say({"producer-acks-all-minisr-1-0": fatal, **AT_WORK})
    told = wait_for_sessions(busy, 1)
    assert told == [("producer-acks-all-minisr-1-0", 1, "out of sequence")]
    # The last word of a client comes when it is no longer watched.
    node.say({"producer-acks-all-minisr-1-0": {**fatal, "sessions_ended": 3}, **AT_WORK})
    closing.flush(busy, deadline(busy))
    assert [session for _, session, _ in ended_sessions(busy)] == [1, 3]
    assert not any("ended by itself" in finding for finding in busy.findings)


def ended_sessions(run: Run) -> list[tuple[str, int, str]]:
    rows = reader.read(run.history, "clients").to_pylist()
    assert all(row["exit_code"] is None and row["fault_id"] is None for row in rows)
    return [(row["client"], row["session"], row["detail"]) for row in rows]


def wait_for_sessions(run: Run, many: int) -> list[tuple[str, int, str]]:
    wait_until(lambda: len(ended_sessions(run)) >= many, PATIENCE_S, "sessions that are told")
    return ended_sessions(run)
