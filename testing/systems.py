"""Conformance of a system: it must deploy, keep its records, and survive kills and restarts."""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from ackproof.checkers.index.raw_logs import OtherFormat, RawLog
from ackproof.history.cell import Cell, Value
from ackproof.infra.api.interface import (
    DeploymentError,
    InfraError,
    PartitionView,
    ProcessState,
    Server,
    System,
    ViewUnavailable,
)
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems import make_system, parse, prepare
from ackproof.testing.trials import NotConforming, tried
from ackproof.workloads.topics import TopicsRefused, create_topics

_BROKERS, _KEEPERS, _RECORDS = 3, 1, 100
_SETTINGS: Mapping[str, Value] = {
    "acks": "all",
    "replication.factor": _BROKERS,
    "min.insync.replicas": 2,
}
_CELL = Cell(name="conformance", topic="conformance", settings=_SETTINGS)
_PARTITION = (_CELL.topic, 0)
_WITHIN_S = 60.0
"""The longest time for each step, in addition to a session timeout where one must expire."""
_NO_END = 1 << 62


def check_system(name: str) -> None:
    """Prove that an installed system keeps its contract, on three brokers in namespaces of this
    machine. It takes about half a minute.

    1. Its build says the same each time, its name leads to itself, and its properties allow its own
       defaults.
    2. It deploys: three brokers run, answer and are in the view.
    3. A topic takes records with ``acks=all`` and gives back each of them.
    4. When the leader is killed, its process ends, another broker leads, and records are taken.
    5. When it is started again, it is in sync again, and no acknowledged record is lost.
    6. The observer has reported the change of the leader.
    7. If it names log directories, each replica's raw log has all records.
    8. When it is closed, none of its processes is left.

    Args:
        name: The name of the system in campaigns, for example ``brisk:3``. The package must be
            installed.

    Raises NotConforming.
    """
    _check_build(name)
    try:
        prepare(name, lambda _line: None)
    except InfraError as error:
        raise NotConforming(f"{name}: it cannot be prepared: {error}") from error
    tried(trial, name)


def _check_build(name: str) -> None:
    try:
        build, again = parse(name), parse(name)
        _require(build.text == again.text, f"{name}: it is {build.text}, then {again.text}")
        _require(parse(build.text).text == build.text, f"{name}: {build.text} is something else")
        known = build.known(build.quorum())
    except ValueError as error:
        raise NotConforming(f"{name}: {error}") from error
    if reason := build.obstacle(LocalBackend.name):
        raise NotConforming(f"{name}: it cannot be deployed on the local backend: {reason}")
    for property_name, value in build.defaults.items():
        wrong = None if known is None else known.wrong("broker", property_name, value)
        _require(wrong is None, f"{name}: its default {property_name}: {wrong}")


def trial(name: str, directory: Path) -> None:
    """Prove the part that needs nodes, inside the namespaces of the local backend. Raises
    NotConforming."""
    backend = LocalBackend(directory)
    try:
        system = make_system(name, backend, brokers=_BROKERS, zookeepers=_KEEPERS, properties={})
        try:
            _Deployed(system, directory).check()
        finally:
            system.close()
        left = [one.name for one in _servers(system) if _state(one) is not ProcessState.EXITED]
        _require(not left, f"closed, it leaves running: {', '.join(left)}")
    except (InfraError, TopicsRefused, ValueError) as error:
        raise NotConforming(str(error)) from error
    finally:
        backend.close()


class _Deployed:
    """A system that is deployed and tested once."""

    def __init__(self, system: System, directory: Path) -> None:
        self._system = system
        self._directory = directory
        self._changes: list[ClusterChange] = []
        self._acked: set[bytes] = set()

    def check(self) -> None:
        self._deploy()
        ticks = iter(range(_NO_END))
        observer = self._system.observer(self._changes.append, lambda: next(ticks))
        observer.start()
        try:
            create_topics(self._system.bootstrap_servers, [_CELL], _WITHIN_S)
            self._await(self._in_sync, f"all of {_PARTITION[0]}'s replicas to be in sync")
            self._produce(b"first")
            self._lose_leader()
            self._await(self._in_sync, "the broker that was started again to be in sync")
            self._read_back()
        finally:
            observer.close()
        self._read_raw_logs()

    def _deploy(self) -> None:
        try:
            self._system.deploy()
        except DeploymentError as error:
            raise NotConforming(f"it does not deploy: {error}") from error
        names = [broker.name for broker in self._system.brokers]
        wanted = [f"broker-{number}" for number in range(1, _BROKERS + 1)]
        _require(names == wanted, f"its brokers are {names}, and not {wanted}")
        for server in _servers(self._system):
            _require(_state(server) is ProcessState.RUNNING, f"{server.name} does not run")
        ids = sorted(broker.id for broker in self._system.brokers)
        registered = sorted(self._system.view().brokers)
        _require(registered == ids, f"deployed, its view has the brokers {registered}, not {ids}")

    def _lose_leader(self) -> None:
        leader = self._partition().leader
        broker = next((one for one in self._system.brokers if one.id == leader), None)
        if broker is None:
            raise NotConforming(f"its view says that {leader} leads, which is none of its brokers")
        broker.process.signal(signal.SIGKILL)
        self._await(lambda: _state(broker) is ProcessState.EXITED, f"{broker.name} to end")
        others = {one.id for one in self._system.brokers} - {leader}
        self._await(lambda: self._partition().leader in others, "another broker to lead")
        self._produce(b"second")
        broker.start()
        self._await(
            lambda: any(
                one.kind is ChangeKind.PARTITION
                and (one.topic, one.partition) == _PARTITION
                and one.leader in others
                for one in self._changes
            ),
            "its observer to report another leader",
        )

    def _produce(self, word: bytes) -> None:
        def told(error: object, message: Any) -> None:
            if error is None:
                self._acked.add(message.value())

        timeout_ms = round(self._patience_s * 1000)
        producer = Producer(
            {
                "bootstrap.servers": self._system.bootstrap_servers,
                "acks": "all",
                "message.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        before = len(self._acked)
        for number in range(_RECORDS):
            value = b"%s %d" % (word, number)
            producer.produce(_PARTITION[0], value, partition=_PARTITION[1], on_delivery=told)
        producer.flush(self._patience_s)
        found = len(self._acked) - before
        _require(found == _RECORDS, f"it acknowledges {found} of {_RECORDS} records ({word!r})")

    def _read_back(self) -> None:
        lost = self._acked - set(_read(self._system.bootstrap_servers, self._patience_s))
        _require(not lost, f"it has lost {len(lost)} of {len(self._acked)} acknowledged records")

    def _read_raw_logs(self) -> None:
        for broker in self._system.brokers:
            places = self._system.log_directories(broker)
            if not places:
                continue
            records = 0
            for number, place in enumerate(places):
                copy = self._directory / "copies" / f"{broker.name}-{number}"
                broker.node.fetch(place, copy)
                records += self._records_in(copy, broker.name)
            told = f"the raw log of {broker.name} has {records} of {len(self._acked)} records"
            _require(records >= len(self._acked), told)

    def _records_in(self, copy: Path, broker: str) -> int:
        log = RawLog(copy / f"{_PARTITION[0]}-{_PARTITION[1]}")
        try:
            records = sum(batch.count for batch in log.batches(0, _NO_END))
        except OtherFormat as error:
            raise NotConforming(f"the raw log of {broker} is not of format v2: {error}") from error
        _require(not log.damage, f"the raw log of {broker}: {'; '.join(log.damage)}")
        return records

    def _in_sync(self) -> bool:
        view = self._partition()
        return len(view.isr) == _BROKERS and view.leader in view.isr

    def _partition(self) -> PartitionView:
        found = self._system.view().partitions.get(_PARTITION)
        if found is None:
            raise ViewUnavailable(f"its view does not have the topic {_PARTITION[0]}")
        return found

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        silence = [""]

        def holds() -> bool:
            try:
                return condition()
            except ViewUnavailable as reason:
                silence[0] = f" ({reason})"
                return False

        try:
            wait_until(holds, self._patience_s, what)
        except TimeoutError:
            waited = f"{self._patience_s:g} s"
            raise NotConforming(f"it takes longer than {waited} for {what}{silence[0]}") from None

    @property
    def _patience_s(self) -> float:
        return _WITHIN_S + 2 * self._system.zookeeper_session_timeout_ms / 1000


def _read(bootstrap_servers: str, within_s: float) -> Sequence[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "conformance",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        place = TopicPartition(*_PARTITION, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(place, timeout=within_s)
        consumer.assign([place])
        values: list[bytes] = []

        def all_read() -> bool:
            found = consumer.consume(10_000, timeout=0.5)
            values.extend(one.value() for one in found if one.error() is None)
            return len(values) >= int(end)

        wait_until(all_read, within_s, f"{end} records to be read")
    except (KafkaException, TimeoutError) as error:
        raise NotConforming(f"it cannot be read back: {error}") from error
    finally:
        consumer.close()
    return values


def _servers(system: System) -> Sequence[Server]:
    return list({one.name: one for one in (*system.zookeepers, *system.brokers)}.values())


def _state(server: Server) -> ProcessState:
    return server.process.state()


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise NotConforming(problem)
