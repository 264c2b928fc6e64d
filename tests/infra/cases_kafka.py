"""Run inside by test_kafka_system.py: three brokers of Apache Kafka, on ZooKeeper or with KRaft."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ackproof.checkers.index.raw_logs import OtherFormat, RawLog
from ackproof.infra.api.capabilities import Election
from ackproof.infra.api.interface import ClusterView, Server, System, ViewUnavailable
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems import make_system, quorum_of
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.faults.injection import striker
from tests.support.processes.deadlines import PATIENCE_S

KAFKA = os.environ["TESTED_SYSTEM"]
QUORUM = os.environ.get("TESTED_METADATA_QUORUM")
"""None: the default metadata quorum."""
OF_FORMAT_V1 = ("kafka:0.10.2.2",)
"""Whose logs are not compared (docs/kafka.md)."""
KEEPERS = 3 if QUORUM == "combined-kraft" else 1
"""A kill of a broker that is the only controller, too, leaves no leader."""
SESSION_MS = 6_000
BROKERS = 3
TOPIC = "t"
ALL = {1, 2, 3}
BEFORE, AFTER = ([b"%s %d" % (when, n) for n in range(100)] for when in (b"before", b"after"))
FAULTS = (
    ("kill", f"leader({TOPIC}, 0)", None),
    ("isolate", f"leader({TOPIC}, 0)", None),
    ("pause", "quorum", None),
    ("terminate", f"leader({TOPIC}, 0)", None),
    ("restart", "controller", 0),
    ("replace", f"follower({TOPIC}, 0)", 0),
)
"""What strikes whom, and for how long; None: until all of its effects have come."""
TERMINATED = 128 + signal.SIGTERM
"""What a JVM ends with that was asked to end."""


@dataclass(frozen=True)
class _Cluster:
    """The interface of a cluster that kafka_clients need."""

    system: System

    @property
    def bootstrap(self) -> str:
        return self.system.bootstrap_servers

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def isr(self, topic: str, partition: int) -> set[int]:
        found = _view(self.system).partitions.get((topic, partition))
        return set() if found is None else set(found.isr)


def a_leader_is_killed_and_comes_back(scratch: Path) -> None:
    """Check that acknowledged records are there under the next leader, and that the same view and
    observer report the leader and the ISR."""
    seen: list[ClusterChange] = []
    with _deployed(scratch) as system:
        cluster = _Cluster(system)
        with _observed(system, seen):
            create_topic(cluster, TOPIC, config={"min.insync.replicas": "2"})
            first = _leader(system)
            assert set(produce(cluster, TOPIC, BEFORE).values()) == {None}
            session = _view(system).brokers[first.id]
            first.process.signal(signal.SIGKILL)
            _wait("another leads", lambda: _led_by(system) not in (-1, first.id))
            _wait("the ISR shrinks", lambda: cluster.isr(TOPIC, 0) == ALL - {first.id})
            assert session in system.expired_sessions()
            assert set(produce(cluster, TOPIC, AFTER).values()) == {None}
            assert read_all(cluster, TOPIC) == [*BEFORE, *AFTER]
            first.start()
            _wait("it is in sync again", lambda: cluster.isr(TOPIC, 0) == ALL)

            # Killed once more and started at once, it waits for its own session to expire.
            first.process.signal(signal.SIGKILL)
            begun = _view(system).brokers.get(first.id)
            first.start()
            _wait("it registers", lambda: _view(system).brokers.get(first.id, begun) != begun)
            _wait("it is in sync again", lambda: cluster.isr(TOPIC, 0) == ALL)
            assert read_all(cluster, TOPIC) == [*BEFORE, *AFTER]
        _every_replica_has(len(BEFORE) + len(AFTER), system, scratch / "replicas")
        down = [one.broker for one in seen if one.kind is ChangeKind.BROKER_DOWN]
        assert down.count(first.id) >= 2, down
        epochs = [one.leader_epoch for one in seen if one.topic == TOPIC]
        assert epochs == sorted(epochs), "of one partition, they only grow"
        led = {one.leader for one in seen if one.topic == TOPIC}
        assert {first.id, _led_by(system)} <= led


def _every_replica_has(records: int, system: System, scratch: Path) -> None:
    """Check the collected logs as the checkers read them."""
    for broker in system.brokers:
        (directory,) = system.log_directories(broker)
        broker.node.fetch(directory, scratch / broker.name)
        log = RawLog(scratch / broker.name / f"{TOPIC}-0")
        if KAFKA in OF_FORMAT_V1:
            with pytest.raises(OtherFormat, match="message format v1"):
                list(log.batches(0, records))
            continue
        batches = list(log.batches(0, records))
        assert all(batch.intact for batch in batches)
        assert sum(batch.count for batch in batches) == records
        assert log.damage == []


def what_it_is_asked_and_told(scratch: Path) -> None:
    """Orders by the admin; an end on request; the directories of its logs."""
    with _deployed(scratch) as system:
        cluster = _Cluster(system)
        system.admin.create_topic(TOPIC, [[1, 2]], PATIENCE_S)
        _wait("it is led", lambda: cluster.isr(TOPIC, 0) == {1, 2})
        system.admin.append(TOPIC, 0, 10, PATIENCE_S)
        system.admin.reassign(TOPIC, 0, [3, 2], PATIENCE_S)
        _wait("it has moved", lambda: cluster.isr(TOPIC, 0) == {2, 3})
        assert system.admin.elect(Election.PREFERRED, TOPIC, 0, PATIENCE_S) in (True, False)
        _wait("the preferred one leads", lambda: _led_by(system) == 3)
        system.admin.set_topic_config(TOPIC, "min.insync.replicas", "2", PATIENCE_S)
        assert system.admin.topic_config(TOPIC) == {"min.insync.replicas": "2"}
        system.admin.delete_records(TOPIC, 0, 4, PATIENCE_S)
        assert system.admin.log_start(TOPIC, 0, PATIENCE_S) == 4

        third = system.brokers[2]
        (directory,) = system.log_directories(third)
        assert third.node.entries(directory / f"{TOPIC}-0") > 0
        session = _view(system).brokers[third.id]
        third.process.signal(signal.SIGTERM)
        assert third.process.wait(PATIENCE_S) == TERMINATED
        _wait("it has handed over", lambda: _led_by(system) == 2)
        assert session not in _view(system).brokers.values()
        assert session not in system.expired_sessions()


def another_controller_takes_over(scratch: Path) -> None:
    """With KRaft: of three controllers the active one is killed. What was written is there, the
    observer tells of both, and the one that comes back follows; without a majority no server
    answers."""
    seen: list[ClusterChange] = []
    with _deployed(scratch, keepers=3) as system:
        cluster = _Cluster(system)
        with _observed(system, seen):
            create_topic(cluster, TOPIC, config={"min.insync.replicas": "2"})
            first = system.zookeeper_leader()
            assert first is not None
            assert _view(system).controller == first.id
            assert sorted(system.ensemble.modes().values()) == ["follower", "follower", "leader"]
            written = _view(system).partitions[TOPIC, 0]
            first.process.signal(signal.SIGKILL)
            _wait("another is active", lambda: _view(system).controller != first.id)
            assert _view(system).partitions[TOPIC, 0].replicas == written.replicas
            system.admin.set_topic_config(TOPIC, "retention.bytes", "-1", PATIENCE_S)
            assert system.admin.topic_config(TOPIC)["retention.bytes"] == "-1"
            first.start()
            _wait("it follows", lambda: system.ensemble.modes().get(first.name) == "follower")
            clock_time = [one.broker for one in seen if one.kind is ChangeKind.CONTROLLER]
            assert clock_time[0] == first.id
            assert len(set(clock_time)) > 1

            others = [one for one in system.zookeepers if one is not first]
            for one in others:
                one.process.signal(signal.SIGSTOP)
            _wait("it has no leader", lambda: system.zookeeper_leader() is None)
            with pytest.raises(ViewUnavailable):
                system.view()
            for one in others:
                one.process.signal(signal.SIGCONT)
            _wait("a leader", lambda: system.zookeeper_leader() is not None)
            assert _view(system).partitions[TOPIC, 0].replicas == written.replicas


def it_goes_by_a_clock(scratch: Path) -> None:
    """Check that a logged message begins with the time of the broker's own clock."""
    with _deployed(scratch, clocks=True) as system:
        clock = system.brokers[0].clock
        assert clock is not None
        assert abs(clock.reported_time().offset_ms) < 1_000
        clock.run(3_600_000)
        clock_time = clock.reported_time()
        assert abs(clock_time.offset_ms - 3_600_000) <= clock_time.bound_ms + 1


def faults_bite_and_heal(scratch: Path) -> None:
    """On processes, links, ZooKeeper and sessions; and records that were acknowledged stay."""
    backend = LocalBackend(scratch / "nodes")
    try:
        with striker(
            backend,
            scratch,
            properties={"zookeeper.session.timeout.ms": str(SESSION_MS)},
            system_name=KAFKA,
            metadata_quorum=QUORUM,
        ) as cluster:
            known = _Cluster(cluster.system)
            create_topic(known, TOPIC, config={"min.insync.replicas": "2"})
            assert set(produce(known, TOPIC, BEFORE).values()) == {None}
            for fault, target, hold_ms in FAULTS:
                cluster.through(fault, target, hold_ms)
                cluster.await_whole(TOPIC)
                assert cluster.all_run()
            if quorum_of(KAFKA, QUORUM) == "zookeeper":
                # A session that is over stays so.
                cluster.mend(cluster.strike("expire-session", f"leader({TOPIC}, 0)"))
                cluster.await_whole(TOPIC)
            assert cluster.all_run()
            assert set(produce(known, TOPIC, AFTER).values()) == {None}
            assert read_all(known, TOPIC) == [*BEFORE, *AFTER]
    finally:
        backend.close()


@contextmanager
def _observed(system: System, seen: list[ClusterChange]) -> Iterator[None]:
    observer = system.observer(seen.append, time.time_ns)
    observer.start()
    try:
        yield
    finally:
        observer.close()


@contextmanager
def _deployed(scratch: Path, clocks: bool = False, keepers: int = KEEPERS) -> Iterator[System]:
    backend = LocalBackend(scratch / "nodes", clocks=clocks)
    properties = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "replica.lag.time.max.ms": "8000",
        "offsets.topic.num.partitions": "1",
    }
    try:
        system = make_system(
            KAFKA,
            backend,
            brokers=BROKERS,
            zookeepers=keepers,
            properties=properties,
            metadata_quorum=QUORUM,
            clocks=clocks,
        )
        begun = time.perf_counter()
        try:
            system.deploy()
            sys.stdout.write(f"{BROKERS} brokers up after {time.perf_counter() - begun:.1f} s\n")
            yield system
        finally:
            system.close()
    finally:
        backend.close()


def _view(system: System) -> ClusterView:
    """Return the view as soon as ZooKeeper answers."""
    found: list[ClusterView] = []

    def clock_time() -> bool:
        with suppress(ViewUnavailable):
            found.append(system.view())
        return bool(found)

    _wait("a view", clock_time)
    return found[-1]


def _led_by(system: System) -> int:
    return _view(system).partitions[TOPIC, 0].leader


def _leader(system: System) -> Server:
    return next(one for one in system.brokers if one.id == _led_by(system))


def _wait(what: str, condition) -> None:
    wait_until(condition, PATIENCE_S, what)
