"""Run inside by test_systems.py: a real ZooKeeper, and brokers that are as thin as can be."""

import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from ackproof.infra.api.interface import (
    ClusterView,
    DeploymentError,
    Node,
    PartitionView,
    ProcessState,
    ViewUnavailable,
)
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.infra.systems.observer import ClusterObserver
from tests.support.processes.deadlines import PATIENCE_S

SESSION_MS = 2000
STAND_IN = Path(__file__).with_name("stand_in_broker.py")


def zookeeper_serves_and_keeps_its_data(scratch: Path) -> None:
    with _system(scratch, brokers=0) as system:
        begun = time.perf_counter()
        system.deploy()
        sys.stdout.write(f"ZooKeeper up after {time.perf_counter() - begun:.2f} s\n")
        (zookeeper,) = system.zookeepers
        logged = _Lines()
        logger = logging.Logger("kazoo", level=1)
        logger.addHandler(logged)
        with _client(system, logger=logger) as client:
            client.create("/kept", b"content")
        assert f"negotiated session timeout: {SESSION_MS}" in "\n".join(logged.lines)
        zookeeper.process.signal(signal.SIGKILL)
        assert zookeeper.process.wait(PATIENCE_S) == -signal.SIGKILL
        zookeeper.start()
        with _client(system) as client:
            assert client.get("/kept")[0] == b"content"


def an_ensemble_survives_one_server(scratch: Path) -> None:
    with _system(scratch, brokers=0, zookeepers=3) as system:
        system.deploy()
        with _client(system) as client:
            client.create("/before", b"")
            system.zookeepers[0].process.signal(signal.SIGKILL)
            client.retry(client.create, "/after", b"")
            assert sorted(client.retry(client.get_children, "/")) == [
                "after",
                "before",
                "zookeeper",
            ]


def who_leads_the_ensemble(scratch: Path) -> None:
    with _system(scratch, brokers=0, zookeepers=3) as system:
        assert system.zookeeper_leader() is None
        system.deploy()
        first = system.zookeeper_leader()
        assert first in system.zookeepers
        first.process.signal(signal.SIGKILL)
        wait_until(
            lambda: system.zookeeper_leader() not in (None, first), PATIENCE_S, "another leader"
        )


def brokers_register_and_stop(scratch: Path) -> None:
    with _system(scratch, brokers=3, broker_command=_stand_in) as system:
        system.deploy()
        view = system.view()
        assert sorted(view.brokers) == [1, 2, 3]
        assert len(set(view.brokers.values())) == 3, "a session each"
        broker = system.brokers[1]
        assert (broker.name, broker.id) == ("broker-2", 2)
        properties = broker.node.read(broker.node.directory / "server.properties").decode()
        assert "broker.id=2" in properties
        assert "min.insync.replicas=2" in properties
        assert system.bootstrap_servers == ",".join(
            f"{b.node.address}:9092" for b in system.brokers
        )
        system.brokers[0].process.signal(signal.SIGSTOP)
        system.close()
        assert [b.process.exit_code() for b in system.brokers] == [0, 0, 0], [
            b.log_tail() for b in system.brokers
        ]
        assert system.zookeepers[0].process.state() is ProcessState.EXITED
        system.close()


def a_session_that_expires_is_told_from_one_that_is_closed(scratch: Path) -> None:
    with _system(scratch, brokers=2, broker_command=_stand_in) as system:
        with pytest.raises(ViewUnavailable, match="cannot be read"):
            system.expired_sessions()
        system.deploy()
        sessions = system.view().brokers
        assert system.expired_sessions() == frozenset()
        killed, ended = system.brokers
        killed.process.signal(signal.SIGKILL)
        ended.process.signal(signal.SIGTERM)
        wait_until(lambda: not system.view().brokers, PATIENCE_S, "both to be gone")
        assert system.expired_sessions() == {sessions[killed.id]}


def a_broker_that_dies_is_told(scratch: Path) -> None:
    def dies(_node: Node, _config: PurePosixPath) -> Sequence[str]:
        return [sys.executable, "-c", "import sys; sys.exit('no disk left')"]

    with (
        _system(scratch, brokers=1, broker_command=dies) as system,
        pytest.raises(
            DeploymentError,
            match=r"broker-1 ended with status 1 before it .*\nno disk left",
        ),
    ):
        system.deploy()


def views(scratch: Path) -> None:
    with _system(scratch, brokers=0) as system:
        with pytest.raises(ViewUnavailable):
            system.view()
        system.deploy()
        wait_until(lambda: _can_view(system), PATIENCE_S, "a view")
        assert system.zookeeper_leader() is system.zookeepers[0]
        assert system.view() == ClusterView(
            brokers={}, controller=None, controller_epoch=0, partitions={}
        )
        with _client(system) as client:
            session = _make_cluster(client)
            expected = ClusterView(
                brokers={1: session},
                controller=1,
                controller_epoch=4,
                partitions={("t", 0): _partition(leader=1, isr=(1, 2), epoch=7)},
            )
            assert system.view() == expected
            client.create("/brokers/topics/u", _json(version=1, partitions={"0": [2]}))
            assert system.view().partitions["u", 0] == PartitionView(
                topic="u", partition=0, leader=-1, isr=(), replicas=(2,), leader_epoch=-1,
                controller_epoch=-1,
            )  # fmt: skip


def views_where_leaders_coordinate(scratch: Path) -> None:
    """Each partition has znodes of its own, and no controller wrote any of them."""
    seen: list[ClusterChange] = []
    with _system(scratch, brokers=0) as system, _observer(system, seen):
        system.deploy()
        with _client(system) as client:
            client.ensure_path("/brokers/ids")
            where = "/brokers/topics/t/0"
            client.ensure_path(where)
            client.create(f"{where}/replicas", _json(version=1, replicas=[2, 1]))
            wait_until(lambda: _can_view(system), PATIENCE_S, "a view")
            assert system.view().partitions["t", 0] == PartitionView(
                topic="t", partition=0, leader=-1, isr=(), replicas=(2, 1), leader_epoch=-1,
                controller_epoch=-1,
            )  # fmt: skip
            _await(seen, kind=ChangeKind.PARTITION, topic="t", partition=0, leader=-1)
            client.create(f"{where}/ISR", _json(version=1, isr=[1, 2], leader_epoch=3))
            claim = _json(version=1, leader=2, leader_epoch=-1)
            client.create(f"{where}/leader", claim, ephemeral=True)
            view = system.view()
            assert (view.controller, list(view.partitions)) == (None, [("t", 0)])
            assert view.partitions["t", 0].leader_epoch == 3, "the claim has none yet"
            client.set(f"{where}/leader", _json(version=1, leader=2, leader_epoch=4))
            known = {"kind": ChangeKind.PARTITION, "topic": "t", "isr": (1, 2)}
            _await(seen, leader=2, leader_epoch=4, version=0, **known)
            client.delete(f"{where}/leader")
            _await(seen, leader=-1, leader_epoch=3, **known)
            client.set(f"{where}/ISR", _json(version=1, isr=[1, 2], leader_epoch=3))
            _await(seen, version=1, **known)
            client.ensure_path("/brokers/topics/t/1")
            client.create("/brokers/topics/t/1/replicas", _json(version=1, replicas=[1]))
            _await(seen, kind=ChangeKind.PARTITION, topic="t", partition=1)


def views_of_a_paused_zookeeper(scratch: Path) -> None:
    with _system(scratch, brokers=0) as system:
        system.deploy()
        wait_until(lambda: _can_view(system), PATIENCE_S, "a view")
        (zookeeper,) = system.zookeepers
        zookeeper.process.signal(signal.SIGSTOP)
        # A signal is sent, not done: a thread of the JVM may still answer what was asked meanwhile.
        wait_until(lambda: not _can_view(system), PATIENCE_S, "the stop to be felt")
        begun = time.monotonic()
        with pytest.raises(ViewUnavailable):
            system.view()
        assert time.monotonic() - begun < PATIENCE_S
        wait_until(
            lambda: not system._client.connected, PATIENCE_S, "the connection to be given up"
        )
        with pytest.raises(ViewUnavailable):
            system.view()
        zookeeper.process.signal(signal.SIGCONT)
        wait_until(lambda: _can_view(system), PATIENCE_S, "the view to recover by itself")


def observes(scratch: Path) -> None:
    seen: list[ClusterChange] = []
    with _system(scratch, brokers=0) as system, _observer(system, seen):
        system.deploy()
        with _client(system) as client:
            session = _make_cluster(client)
            partition = {"topic": "t", "partition": 0, "leader": 1, "isr": (1, 2)}
            _await(seen, kind=ChangeKind.BROKER_UP, broker=1)
            _await(seen, kind=ChangeKind.CONTROLLER, broker=1, controller_epoch=4)
            _await(seen, kind=ChangeKind.PARTITION, leader_epoch=7, controller_epoch=4, **partition)
            client.set("/brokers/topics/t/partitions/0/state", _state(leader=2, isr=[2], epoch=8))
            changed = {"kind": ChangeKind.PARTITION, "leader": 2, "isr": (2,), "leader_epoch": 8}
            _await(seen, version=1, **changed)
            client.set("/brokers/topics/t/partitions/0/state", _state(leader=2, isr=[2], epoch=8))
            _await(seen, version=2, **changed)
            client.delete("/controller")
            _await(seen, kind=ChangeKind.CONTROLLER, broker=None)
            assert session == client.client_id[0]
        _await(seen, kind=ChangeKind.BROKER_DOWN, broker=1)
    # The first connection is not reported as one that came back. A busy machine may lose a later
    # one, which is.
    connection = (ChangeKind.ZOOKEEPER_LOST, ChangeKind.ZOOKEEPER_BACK)
    changes = [change.kind for change in seen if change.kind in connection]
    assert ChangeKind.ZOOKEEPER_BACK not in changes[::2], seen


def what_zookeeper_counts(scratch: Path) -> None:
    """Every write is a transaction, a refused one too, and reading is none; the observer knows
    which watches are its own."""
    seen: list[ClusterChange] = []
    with _system(scratch, brokers=0) as system:
        with pytest.raises(ViewUnavailable):
            system.zookeeper_counters()
        system.deploy()
        with _client(system) as client:
            _make_cluster(client)
            (before,) = system.zookeeper_counters()
            assert (before.server, before.watches) == ("zookeeper-1", 0)
            for _ in range(5):
                client.set("/controller_epoch", b"5")
            with pytest.raises(BadVersionError):
                client.set("/controller_epoch", b"6", version=99)
            client.get("/controller_epoch")
            (after,) = system.zookeeper_counters()
            assert after.zxid - before.zxid == 6

            client.get("/controller_epoch", watch=print)
            client.get_children("/brokers/topics", watch=print)
            with _observer(system, seen) as observer:
                _await(seen, kind=ChangeKind.PARTITION, leader_epoch=7)
                # ids, topics, controller, its epoch, one broker, one topic, one partition
                wait_until(lambda: observer.watches == 7, PATIENCE_S, "all to be set")
                (watched,) = system.zookeeper_counters()
                assert watched.watches - observer.watches == 2
                client.create("/brokers/topics/u", _json(version=1, partitions={"0": [1]}))
                wait_until(
                    lambda: observer.watches == 9, PATIENCE_S, "a topic and a state that is not yet"
                )
                # The client's own watch on the topics has fired.
                wait_until(
                    lambda: system.zookeeper_counters()[0].watches == 10, PATIENCE_S, "9 and 1"
                )
            assert observer.watches == 0
            wait_until(
                lambda: system.zookeeper_counters()[0].watches == 1, PATIENCE_S, "the other's"
            )


def observes_through_a_pause(scratch: Path) -> None:
    seen: list[ClusterChange] = []
    with _system(scratch, brokers=0) as system:
        system.deploy()
        with _observer(system, seen), _client(system) as client:
            _make_cluster(client)
            _await(seen, kind=ChangeKind.PARTITION, leader_epoch=7)
            zookeeper = system.zookeepers[0].process
            zookeeper.signal(signal.SIGSTOP)
            _await(seen, kind=ChangeKind.ZOOKEEPER_LOST)
            zookeeper.signal(signal.SIGCONT)
            _await(seen, kind=ChangeKind.ZOOKEEPER_BACK)
            state = "/brokers/topics/t/partitions/0/state"
            client.retry(client.set, state, _state(leader=-1, isr=[1], epoch=9))
            _await(seen, kind=ChangeKind.PARTITION, leader=-1, isr=(1,), leader_epoch=9)
            # Killed, it comes back with a session table that has ours, or not: either will do.
            zookeeper.signal(signal.SIGKILL)
            zookeeper.wait(PATIENCE_S)
            system.zookeepers[0].start()
            client.retry(client.set, state, _state(leader=1, isr=[1], epoch=10))
            _await(seen, kind=ChangeKind.PARTITION, leader=1, leader_epoch=10)

    partitions = [change for change in seen if change.kind is ChangeKind.PARTITION]
    assert [change.leader_epoch for change in partitions][-3:] == [7, 9, 10], "each told once"


def an_observer_that_fails_says_so(scratch: Path) -> None:
    def full(_: ClusterChange) -> None:
        raise OSError("disk full")

    with _system(scratch, brokers=0) as system:
        system.deploy()
        observer = ClusterObserver(system.zookeeper_connect, full)
        observer.start()
        with _client(system) as client:
            _make_cluster(client)
        wait_until(lambda: not observer.alive, PATIENCE_S, "it to fail")
        with pytest.raises(OSError, match="disk full"):
            observer.close()
        observer.close()


def an_observer_that_was_late_says_so(scratch: Path) -> None:
    """Nothing of it ran for two seconds, as far as its clock tells: what changed meanwhile may be
    seen later than anybody allows for."""
    seen: list[ClusterChange] = []
    stolen = 0

    def clock() -> int:
        return time.monotonic_ns() + stolen

    with _system(scratch, brokers=0) as system:
        system.deploy()
        with _client(system) as client:
            _make_cluster(client)
        with ClusterObserver(system.zookeeper_connect, seen.append, clock):
            _await(seen, kind=ChangeKind.PARTITION, leader=1, leader_epoch=7)
            begun = clock()
            stolen = 2_000_000_000
            wait_until(
                lambda: any(
                    one.kind is ChangeKind.ZOOKEEPER_LOST
                    and one.time_ns <= begun
                    and back.kind is ChangeKind.ZOOKEEPER_BACK
                    and back.time_ns >= begun + stolen
                    for one, back in pairwise(list(seen))
                ),
                PATIENCE_S,
                f"a hole among {seen}",
            )


def what_is_seen_of_a_zookeeper(scratch: Path) -> None:
    """Cases whose process would take longer to start than they take: each has a ZooKeeper of its
    own."""
    for case in (
        views,
        views_where_leaders_coordinate,
        observes,
        what_zookeeper_counts,
        an_observer_that_fails_says_so,
        an_observer_that_was_late_says_so,
    ):
        sys.stdout.write(f"{case.__name__}\n")
        case(scratch / case.__name__)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _system(scratch: Path, **options: object):
    backend = LocalBackend(scratch / "nodes")
    properties = {"zookeeper.session.timeout.ms": str(SESSION_MS), "min.insync.replicas": "2"}
    system = BundledSystem(backend, properties=properties, **options)
    try:
        yield system
    finally:
        system.close()
        backend.close()


@contextmanager
def _client(system: BundledSystem, **options: object):
    client = KazooClient(system.zookeeper_connect, timeout=SESSION_MS / 1000, **options)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def _observer(system: BundledSystem, seen: list[ClusterChange]):
    with ClusterObserver(system.zookeeper_connect, seen.append) as observer:
        yield observer


def _await(seen: list[ClusterChange], **fields: object) -> None:
    def found() -> bool:
        return any(all(getattr(c, k) == v for k, v in fields.items()) for c in list(seen))

    wait_until(found, PATIENCE_S, f"{fields} among {seen}")


def _stand_in(_: Node, config: PurePosixPath) -> Sequence[str]:
    return [sys.executable, str(STAND_IN), str(config)]


def _can_view(system: BundledSystem) -> bool:
    try:
        system.view()
    except ViewUnavailable:
        return False
    return True


def _make_cluster(client: KazooClient) -> int:
    client.ensure_path("/brokers/ids")
    client.ensure_path("/brokers/topics")
    client.create("/brokers/ids/1", _json(host="h", port=9092), ephemeral=True)
    client.create("/controller_epoch", b"4")
    client.create("/controller", _json(version=1, brokerid=1, timestamp="0"), ephemeral=True)
    client.create("/brokers/topics/t", _json(version=1, partitions={"0": [1, 2]}))
    client.create("/brokers/topics/t/partitions/0/state", _state(1, [1, 2], 7), makepath=True)
    session: int = client.client_id[0]
    return session


def _state(leader: int, isr: list[int], epoch: int) -> bytes:
    return _json(leader=leader, isr=isr, leader_epoch=epoch, controller_epoch=4, version=1)


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def _partition(leader: int, isr: tuple[int, ...], epoch: int) -> PartitionView:
    return PartitionView(
        topic="t", partition=0, leader=leader, isr=isr, replicas=(1, 2), leader_epoch=epoch,
        controller_epoch=4,
    )  # fmt: skip
