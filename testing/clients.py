"""Conformance of a client library: its program must speak the protocol and report correctly."""

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from ackproof.history.cell import Cell, Value
from ackproof.history.payload import TOMBSTONE_HEADER
from ackproof.infra.api.interface import InfraError, Node, System
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.clients.programs import CLIENTS, command, missing
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems import make_system
from ackproof.testing.trials import NotConforming, tried
from ackproof.workloads.foreign.program import READY_S, ProgramFailed, RunningProgram, greeting
from ackproof.workloads.foreign.properties import producer_properties
from ackproof.workloads.foreign.protocol import (
    KEYED_VERSION,
    VERSION,
    Acked,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Ready,
    Refused,
    Saying,
    SendKeyed,
    SendTombstone,
    encode_command,
    send_line,
)
from ackproof.workloads.topics import TopicsRefused, create_topics

_PARTITIONS, _RECORDS, _WITHIN_S = 2, 200, 60.0
_GIVEN_UP_MS = 6_000
"""The longest time for which records may be in flight while there is no broker."""
_SETTINGS: Mapping[str, Value] = {
    "acks": "all",
    "replication.factor": 1,
    "partitions": _PARTITIONS,
}


def check_client(name: str, *, keys: bool | None = None) -> None:
    """Prove that the program of an installed client library keeps its contract, against one bundled
    broker in namespaces of this machine. It takes about a quarter of a minute.

    1. It starts and is ready within a minute.
    2. Each record that is sent has one outcome, and is acknowledged while the broker works.
    3. After ``flush`` it says ``flushed``, and then nothing about records.
    4. The log has each acknowledged record once, with its value, in its partition, at the reported
       offset, and those of a partition in the order of the sends.
    5. While there is no broker, no record is acknowledged, and each has an outcome when it says
       ``flushed``.
    6. It ends with status 0 when its input ends.
    7. With ``keys``, the log also has the key of each record, and tombstones with their header.

    Transactions are not tested, because the bundled broker has none.

    Args:
        name: The name of the library in cells, or the path of a program.
        keys: Whether to test keys and tombstones. None tests those of an installed library whose
            ``protocol`` is 2.

    Raises NotConforming.
    """
    if (reason := CLIENTS.refusal(name)) is not None:
        raise NotConforming(reason)
    try:
        reason = missing(name)
    except InfraError as error:
        reason = str(error)
    if reason is not None:
        raise NotConforming(f"{name}: it cannot be started: {reason}")
    if keys is None:
        keys = name in CLIENTS and CLIENTS[name].protocol >= KEYED_VERSION
    tried(trial_with_keys if keys else trial, name)


def trial_with_keys(name: str, directory: Path) -> None:
    """Prove the same as :func:`trial`, and what concerns keys. Raises NotConforming."""
    trial(name, directory, keys=True)


def trial(name: str, directory: Path, *, keys: bool = False) -> None:
    """Prove the part that needs nodes, inside the namespaces of the local backend. Raises
    NotConforming."""
    backend = LocalBackend(directory)
    try:
        session = {"zookeeper.session.timeout.ms": "4000"}
        system = make_system("bundled", backend, brokers=1, zookeepers=1, properties=session)
        node = backend.node("client-1")
        try:
            system.deploy()
            _check_sends(name, node, system)
            if keys:
                _check_keys(name, node, system)
            _check_without_broker(name, node, system)
        finally:
            system.close()
    except (InfraError, TopicsRefused) as error:
        raise NotConforming(str(error)) from error
    finally:
        backend.close()


def _check_sends(name: str, node: Node, system: System) -> None:
    topic = _made(system, "sent")
    with _Told(name, node, system, topic, {}) as told:
        values = {n: b"%s %d \x00\xff" % (topic.encode(), n) for n in range(_RECORDS)}
        told.send(values)
        told.await_until(lambda: len(told.outcomes) == len(values), "every outcome")
        told.flush()
        wrong = {n: one for n, one in told.outcomes.items() if not isinstance(one, Acked)}
        _require(not wrong, f"it does not send while the broker works: {_first(wrong)}")
    log = {number: _log(system, topic, number) for number in range(_PARTITIONS)}
    for partition, found in log.items():
        sent = [n for n in values if n % _PARTITIONS == partition]
        expected = [values[n] for n in sent]
        there = [message.value() for message in found.values()]
        have = f"partition {partition} has {len(found)} records for {len(sent)} that were sent"
        _require(sorted(there) == sorted(expected), f"{have}, or other values")
        _require(there == expected, f"{have}, in another order")
        for number in sent:
            outcome = told.outcomes[number]
            assert isinstance(outcome, Acked)
            offset = outcome.offset
            right = offset is None or (offset in found and found[offset].value() == values[number])
            _require(
                right,
                (f"it reports offset {offset} of record {number}, where that record is absent"),
            )


def _check_keys(name: str, node: Node, system: System) -> None:
    topic = _made(system, "keyed")
    sends = [
        (SendKeyed if n % 3 else SendTombstone)(n, n % _PARTITIONS, b"key-%d" % (n % 7), b"%d" % n)
        for n in range(_RECORDS)
    ]
    with _Told(name, node, system, topic, {}, KEYED_VERSION) as told:
        told.tell(b"".join(map(encode_command, sends)), most=len(sends) - 1)
        told.await_until(lambda: len(told.outcomes) == len(sends), "every outcome")
        told.flush()
        wrong = {n: one for n, one in told.outcomes.items() if not isinstance(one, Acked)}
        _require(not wrong, f"it does not send records with keys: {_first(wrong)}")
    for partition in range(_PARTITIONS):
        log = _log(system, topic, partition).values()
        found = [(one.key(), one.value(), one.headers()) for one in log]
        sent = [_content(one) for one in sends if one.partition == partition]
        differing = [pair for pair in zip(found, sent, strict=False) if pair[0] != pair[1]]
        shown = "; ".join(f"{there} for {asked}" for there, asked in differing[:1])
        _require(
            found == sent,
            f"partition {partition} has {len(found)} records for {len(sent)} that were sent, or "
            f"others, by key, value and headers: {shown}",
        )


def _content(sent: SendKeyed | SendTombstone) -> tuple[bytes, bytes | None, object]:
    """Return the key, value and headers of a record that was sent."""
    if isinstance(sent, SendKeyed):
        return sent.key, sent.value, None
    return sent.key, None, [(TOMBSTONE_HEADER, sent.identity)]


def _check_without_broker(name: str, node: Node, system: System) -> None:
    topic = _made(system, "unsent")
    short = {"delivery.timeout.ms": _GIVEN_UP_MS}
    with _Told(name, node, system, topic, short) as told:
        told.send({n: b"first %d" % n for n in range(_PARTITIONS)})
        told.await_until(lambda: len(told.outcomes) == _PARTITIONS, "every outcome")
        (broker,) = system.brokers
        broker.process.signal(signal.SIGKILL)
        broker.process.wait(_WITHIN_S)
        later = range(_PARTITIONS, 10 * _PARTITIONS)
        told.send({n: b"later %d" % n for n in later})
        told.flush()
        acked = {n: one for n, one in told.outcomes.items() if n in later and _is_acked(one)}
        _require(not acked, f"it acknowledges without a broker: {_first(acked)}")
        untold = [n for n in later if n not in told.outcomes]
        _require(not untold, f"it has flushed, and reported no outcome of the records {untold}")


class _Told:
    """A program under test, from its greeting to its end."""

    def __init__(
        self,
        name: str,
        node: Node,
        system: System,
        topic: str,
        config: Mapping[str, Value],
        version: int = VERSION,
    ) -> None:
        properties = {
            "bootstrap.servers": system.bootstrap_servers,
            "client.id": "conformance",
            "acks": "all",
            **producer_properties(name, {**config, "max.in.flight.requests.per.connection": 1}),
        }
        self.outcomes: dict[int, Saying] = {}
        self._version = version
        self._sent = -1
        self._ready = self._flushed = False
        try:
            self._program = RunningProgram(command(name, node))
        except ProgramFailed as error:
            raise NotConforming(str(error)) from error
        self._program.tell(greeting([topic], properties, version=version))

    def __enter__(self) -> "_Told":
        try:
            self.await_until(lambda: self._ready, "ready", READY_S)
        except BaseException:
            self._program.kill()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._program.end()
        except ProgramFailed as error:
            raise NotConforming(str(error)) from error
        finally:
            self._program.kill()

    def send(self, values: Mapping[int, bytes]) -> None:
        lines = (send_line(n, n % _PARTITIONS, value) for n, value in values.items())
        self.tell(b"".join(lines), most=max(values))

    def tell(self, lines: bytes, *, most: int) -> None:
        """Hand over lines of records, up to the number ``most``."""
        self._program.tell(lines)
        self._sent = most

    def flush(self) -> None:
        self._program.tell(encode_command(Flush()))
        self.await_until(lambda: self._flushed, "flushed")

    def await_until(
        self, condition: Callable[[], bool], what: str, within_s: float = _WITHIN_S
    ) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() >= deadline:
                raise NotConforming(f"it did not report within {within_s:g} s: {what}")
            try:
                for saying in self._program.hear(0.1):
                    self._note(saying)
            except ProgramFailed as error:
                raise NotConforming(str(error)) from error

    def _note(self, saying: Saying) -> None:
        match saying:
            case Acked(number) | Refused(number) | Failed(number):
                _require(not self._flushed, f"it has flushed, but then reports {saying}")
                _require(number not in self.outcomes, f"it reports record {number} twice")
                _require(number <= self._sent, f"it reports record {number}, which was not sent")
                self.outcomes[number] = saying
            case Ready(version) if not self._ready:
                answered = f"it was told protocol {self._version}, and answered in {version}"
                _require(version == self._version, answered)
                self._ready = True
            case Flushed() if not self._flushed:
                self._flushed = True
            case Fatal(reason):
                raise NotConforming(f"it cannot go on: {reason}")
            case _:
                raise NotConforming(f"it sent a line that was not requested: {saying}")


def _made(system: System, topic: str) -> str:
    create_topics(
        system.bootstrap_servers, [Cell(name=topic, topic=topic, settings=_SETTINGS)], _WITHIN_S
    )
    return topic


def _log(system: System, topic: str, partition: int) -> Mapping[int, Message]:
    """Return the records of a partition by their offsets, in the order of the log."""
    consumer = Consumer(
        {
            "bootstrap.servers": system.bootstrap_servers,
            "group.id": "conformance",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    log: dict[int, Message] = {}
    try:
        place = TopicPartition(topic, partition, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(place, timeout=_WITHIN_S)
        consumer.assign([place])

        def all_read() -> bool:
            found = [one for one in consumer.consume(10_000, timeout=0.2) if one.error() is None]
            log.update((one.offset(), one) for one in found)
            return len(log) >= int(end)

        wait_until(all_read, _WITHIN_S, f"{end} records of {topic}-{partition}")
    finally:
        consumer.close()
    return log


def _is_acked(saying: Saying) -> bool:
    return isinstance(saying, Acked)


def _first(sayings: Mapping[int, Saying]) -> str:
    """Return the first of some outcomes, and their number."""
    return f"{next(iter(sayings.values()), None)}, one of {len(sayings)}"


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise NotConforming(problem)
