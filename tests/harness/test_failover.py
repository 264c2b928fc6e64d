"""The failover is planned by the seed, measured after the final read, and recorded whole or not."""

import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackproof.harness.campaign.model.schedule import TOPIC
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import load
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline, SystemClock
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.running.steps import failover as steps
from ackproof.harness.running.steps.catalogue import STEPS
from ackproof.history import reader
from ackproof.history.manifest import PlannedFailover
from ackproof.infra.api.interface import ProcessState
from ackproof.testing.memory.cluster import Memory
from tests.support.fakes.mock_cluster import MockCluster


def planned(campaign_file, seed: int = 1, **changes: object) -> list[tuple[PlannedFailover, ...]]:
    given = {"failover": {"partitions": [10, 100]}, **changes}
    campaign = load(campaign_file(given)).resolved(seed=seed)
    runs = runs_of(campaign)
    manifest = manifest_of(campaign, runs)
    assert [run.failovers for run in manifest.runs] == [run.failovers for run in runs]
    return [run.failovers for run in runs]


def test_failover_plan_follows_the_seed_and_is_equal_for_each_cluster(campaign_file) -> None:
    first, second = planned(campaign_file, **{"cluster.brokers": [3, 4]})
    assert first == second
    assert [(one.partitions, one.target) for one in first] == [
        (10, "one(all - controller)"),
        (100, "one(all - controller)"),
    ]
    assert first[0].seed != first[1].seed
    assert planned(campaign_file, seed=2) != [first]


def test_a_campaign_that_asks_for_none_has_no_such_step(run: Run) -> None:
    (step,) = [one for one in STEPS if one.name == "failover"]
    assert not step.planned(run)
    assert not run.failovers


@pytest.fixture
def mock(memory: Memory) -> Iterator[MockCluster]:
    """Yield the cluster in memory as clients find it: six partitions, led as its view says."""
    mock = MockCluster()
    mock.create(TOPIC, 6)
    memory.system.topics = {**memory.system.topics, TOPIC: 6}
    memory.system.bootstrap_servers = mock.bootstrap_servers
    yield mock
    mock.close()


@pytest.fixture
def measuring(
    run: Run,
    campaign_file,
    mock: MockCluster,  # noqa: ARG001 - the clients find it through the system
    tmp_path: Path,
) -> Callable[..., Run]:
    """The run with a failover of six partitions, on a clock that goes."""

    def made(limit: str = "60s", **changes: Any) -> Run:
        section = {"partitions": 6, "limit": limit, **changes}
        campaign = load(campaign_file({"failover": section})).resolved(seed=7)
        (plan,) = runs_of(campaign)
        clock = SystemClock()
        return dataclasses.replace(
            run,
            campaign=campaign,
            failovers=plan.failovers,
            clock=clock,
            recorder=RunRecorder(tmp_path / "history", clock),
        )

    return made


@contextmanager
def followed(mock: MockCluster, memory: Memory) -> Iterator[None]:
    """Let the mock follow the servers in memory and their leaders."""
    over = threading.Event()

    def follow() -> None:
        down: set[int] = set()
        while not over.wait(0.05):
            for broker in memory.system.brokers:
                exited = broker.process.state() is ProcessState.EXITED
                if exited and broker.id not in down:
                    down.add(broker.id)
                    mock.down(broker.id)
                    for (topic, number), view in memory.system.view().partitions.items():
                        if topic == TOPIC:
                            mock.lead(topic, number, view.leader)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Closed:
    """An observer that knows whether it was closed."""

    watches = 0
    closed = False

    def start(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def deadline(run: Run) -> Deadline:
    return Deadline.after(run.clock, 100.0)


def test_a_broker_is_killed_and_each_partition_that_it_led_is_timed(
    measuring, mock: MockCluster, memory: Memory
) -> None:
    observer = Closed()
    run = dataclasses.replace(measuring(), observer=observer)
    before = run.clock.time_ns()
    with followed(mock, memory):
        steps.failover(run, deadline(run))
    rows = reader.read(run.history, "failovers").to_pylist()
    assert observer.closed, "it would read a thousand partitions again at every change"
    (broker,) = {row["broker"] for row in rows}
    assert broker != 1, "the controller is left out"
    assert [row["partition"] for row in rows] == [broker - 1, broker + 2]
    for row in rows:
        assert (row["partitions"], row["moved"]) == (6, 2)
        assert before < row["killed"] < min(row["led"], row["acked"]) < run.clock.time_ns()
    counted = reader.read(run.history, "zookeeper").to_pylist()
    assert [(row["moment"], row["partitions"]) for row in counted] == [
        ("grown", 6),
        ("failed-over", 6),
    ]
    assert run.findings == []


def test_the_kill_is_in_the_ledger_and_the_broker_is_back(
    measuring, mock: MockCluster, memory: Memory
) -> None:
    """Test that the watch over the servers finds a fault that accounts for the end."""
    run = measuring()
    held: set[int | None] = set()
    with followed(mock, memory):
        stop = run.clock.monotonic() + 90
        step = threading.Thread(target=steps.failover, args=(run, deadline(run)))
        step.start()
        while step.is_alive() and run.clock.monotonic() < stop:
            held |= {
                run.ledger.holding(broker.name)
                for broker in memory.system.brokers
                if broker.process.state() is ProcessState.EXITED
            }
            step.join(0.01)
    assert 3 in held, "one more than the faults of the schedule"
    assert run.ledger.still_open() == ()
    assert sum(broker.starts for broker in memory.system.brokers) == 1


def test_partitions_that_do_not_come_back_are_a_finding_and_rows_without_a_time(
    measuring, memory: Memory
) -> None:
    """The brokers do not notice: the mock goes on as before."""
    run = measuring(limit="2s")
    steps.failover(run, deadline(run))
    rows = reader.read(run.history, "failovers").to_pylist()
    assert {row["led"] for row in rows} == {None}
    assert "2 of the 2 that broker" in run.findings[0]
    moments = reader.read(run.history, "zookeeper").to_pylist()
    assert [row["moment"] for row in moments] == ["grown"]
    assert sum(broker.starts for broker in memory.system.brokers) == 1


def test_incomplete_failover_topic_is_a_finding_with_counts(measuring, memory: Memory) -> None:
    run = measuring(limit="1s")
    memory.system.brokers[1].process.signal(signal.SIGKILL)
    steps.failover(run, deadline(run))
    assert run.findings == [
        "run 1, failover: 6 partitions: 6 have a leader, 0 have a full ISR",
    ]
    assert run.ended_well["failover"] is False
    assert run.ledger.still_open() == ()


def test_a_target_that_is_several_brokers_is_refused(measuring) -> None:
    run = measuring(target="all - controller")
    steps.failover(run, deadline(run))
    assert run.findings[0].endswith("all - controller is broker-2, broker-3, not one broker")


def test_failed_measurement_does_not_prevent_the_next(
    measuring, mock: MockCluster, memory: Memory
) -> None:
    """The topic has more partitions than the first asks for."""
    run = measuring(partitions=[5, 6])
    with followed(mock, memory):
        steps.failover(run, deadline(run))
    assert run.findings == ["run 1, failover: 5 partitions: failover has 6 partitions, not 5"]
    rows = reader.read(run.history, "failovers").to_pylist()
    assert {row["partitions"] for row in rows} == {6}
