"""A client that runs and says nothing is told, whatever keeps it; who has nothing to say is not."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from ackproof.harness.running.client_health import SLACK_S, SilenceWatch, limit_s
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.context import Run
from ackproof.history import reader
from ackproof.infra.api.interface import InfraError
from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import StopClient
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.interface import Plan, Target
from ackproof.testing.memory.servers import MemoryNode, MemoryProcess
from ackproof.workloads.interface import Client, ClientRole

AT_WORK = {"sent": 9, "acked": 5, "failed": 1, "indeterminate": 0, "time": 1}
READING = {"assigned": 1, "polls": 3, "shown": 5, "committed": 0, "time": 1}


@dataclass
class Listening:
    """A producer and a member of its cell, of which one look is taken after another."""

    run: Run
    silences: SilenceWatch
    records: int | None = None

    def __post_init__(self) -> None:
        cell = self.run.cells[0]
        self.run.progress_files.mkdir(exist_ok=True)
        for role, specification in (
            (ClientRole.PRODUCER, {"records": self.records}),
            (ClientRole.CONSUMER, {"consumer_config": {"session.timeout.ms": 8000}}),
        ):
            client = Client(
                name=role.value,
                module="m",
                role=role,
                cell=cell.name,
                node="client-1",
                specification=specification,
            )
            file = self.run.progress_files / f"{role.value}.json"
            self.run.running.append(ClientProcess(client, MemoryProcess(role.value), file))

    def says(self, role: ClientRole, figures: Mapping[str, int]) -> None:
        (self.run.progress_files / f"{role.value}.json").write_text(json.dumps(figures))

    def after(self, seconds: float) -> None:
        self.run.clock.now += seconds
        self.silences.look()

    def limit_s(self, role: ClientRole) -> float:
        return limit_s(self.run, next(c for c in self.run.running if c.client.role is role))

    @property
    def told(self) -> list[tuple[str, int | None, int | None, str]]:
        rows = reader.read(self.run.history, "clients").to_pylist()
        return [(r["client"], r["exit_code"], r["fault_id"], r["detail"]) for r in rows]


@pytest.fixture
def listening(run: Run) -> Listening:
    return beginning(run)


def beginning(run: Run, records: int | None = None) -> Listening:
    there = Listening(run, SilenceWatch(run), records)
    there.says(ClientRole.PRODUCER, AT_WORK)
    there.says(ClientRole.CONSUMER, READING)
    there.after(0)
    return there


def test_the_limits_are_the_clients_own(listening: Listening) -> None:
    assert listening.limit_s(ClientRole.PRODUCER) == 20 + SLACK_S
    assert listening.limit_s(ClientRole.CONSUMER) == 8 + 6 * 6 + SLACK_S


def test_a_producer_without_outcomes_is_silent_once(listening: Listening) -> None:
    limit = listening.limit_s(ClientRole.PRODUCER)
    listening.after(limit - 1)
    assert listening.told == []
    listening.says(ClientRole.PRODUCER, {**AT_WORK, "sent": 900, "time": 2})
    listening.after(2)
    words = "was silent for 31 s: none of its records was acknowledged, failed or was given up"
    assert listening.told == [("producer", None, None, words)]
    assert listening.run.findings == [f"run 1, workload: the client producer {words}"]
    listening.after(1)
    assert len(listening.told) == 1


@pytest.mark.parametrize("what", ["acked", "failed", "indeterminate"])
def test_one_reported_outcome_restarts_the_silence(listening: Listening, what: str) -> None:
    limit = listening.limit_s(ClientRole.PRODUCER)
    listening.after(limit - 1)
    listening.says(ClientRole.PRODUCER, {**AT_WORK, what: 77})
    listening.after(2)
    assert listening.told == []
    listening.says(ClientRole.CONSUMER, {**READING, "time": 2, "shown": 6})
    listening.after(limit + 1)
    assert [name for name, *_ in listening.told] == ["producer"]


@pytest.mark.parametrize(("records", "silent"), [(6, set()), (7, {"producer"})])
def test_a_producer_with_an_outcome_of_all_it_was_to_send_is_done(
    run: Run, records: int, silent: set[str]
) -> None:
    listening = beginning(run, records)
    listening.after(listening.limit_s(ClientRole.PRODUCER) + 1)
    assert {name for name, *_ in listening.told} == silent


def test_a_consumer_that_does_not_poll_is_silent(listening: Listening) -> None:
    keeps_on(listening, 3, lambda n: listening.says(ClientRole.PRODUCER, {**AT_WORK, "acked": n}))
    assert listening.told == [("consumer", None, None, "was silent for 60 s: it has not polled")]
    listening.after(20)
    assert len(listening.told) == 1, "that it is shown nothing goes without saying"


def test_consumer_that_polls_without_acked_records_is_not_silent(listening: Listening) -> None:
    """Test a reader without any acknowledged record to read: it has no part in the silence."""
    keeps_on(listening, 4, lambda n: listening.says(ClientRole.CONSUMER, {**READING, "time": n}))
    assert {name for name, *_ in listening.told} == {"producer"}


def both(listening: Listening, **figures: int) -> Callable[[int], None]:
    def say(n: int) -> None:
        listening.says(ClientRole.PRODUCER, {**AT_WORK, "acked": n})
        listening.says(ClientRole.CONSUMER, {**READING, "time": n, **figures})

    return say


def test_consumer_without_reads_of_acked_records_is_silent(listening: Listening) -> None:
    keeps_on(listening, 3, both(listening))
    ((name, _, _, words),) = listening.told
    assert name == "consumer"
    assert "it read nothing, although records of its cell were acknowledged" in words


def test_consumer_without_partitions_is_not_silent(listening: Listening) -> None:
    keeps_on(listening, 4, both(listening, assigned=0))
    assert listening.told == []


@pytest.mark.parametrize("paused", ["producer", "consumer"])
def test_paused_client_is_not_reported_as_silent(listening: Listening, paused: str) -> None:
    fault = FAULTS["pause-client"]
    effect = StopClient(paused)
    target = Target(expression="clients", nodes=("client-1",))
    run = listening.run
    plan = Plan(effects=(effect,))
    run.ledger.open(OpenFault(fault_id=1, fault=fault, target=target, plan=plan, hold_ms=0))
    run.ledger.doing(1, effect)
    other = {"producer": "consumer", "consumer": "producer"}[paused]
    keeps_on(listening, 4, lambda _: None)
    assert {name for name, *_ in listening.told} == {other}
    run.ledger.close(1)
    listening.after(10)
    assert {name for name, *_ in listening.told} == {other}, "it has just gone on"


class Unreachable(MemoryNode):
    """A node with files that cannot be fetched."""

    def sync(self) -> None:
        raise InfraError("the host does not answer")


def test_a_host_that_cannot_be_reached_says_nothing_of_its_clients(run: Run) -> None:
    there = beginning(replace(run, client_nodes=[Unreachable("client-1", "client-1")]))
    keeps_on(there, 4, lambda _: None)
    assert there.told == []


def keeps_on(listening: Listening, times: int, say: Callable[[int], None]) -> None:
    """Looks, each after something was said; in all longer than anybody's limit."""
    for n in range(100, 100 + times):
        say(n)
        listening.after(20)
