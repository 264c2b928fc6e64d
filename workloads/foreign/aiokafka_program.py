"""aiokafka as a program under test: ``python -m ackproof.workloads.foreign.aiokafka_program``.

It is told to be a producer or a member of a group; docs/client-protocol.md has the lines.

``AIOKafkaProducer.send`` waits while the batch of its partition is full. Therefore a task of its
own sends to each partition, so that one without a leader does not keep the others waiting. What a
task has not handed to the library yet waits in order.

``AIOKafkaConsumer`` takes part in rebalances in a task of its own, and calls its listener there.
The listener waits until the next poll, which reports the rebalance. Until it is told to proceed,
the member cannot join the next generation, and a commit that is under way is of this one.
"""

import asyncio
import logging
import os
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from aiokafka.partitioner import DefaultPartitioner

from ackproof.history.payload import TOMBSTONE_HEADER, identifying
from ackproof.workloads.foreign.protocol import (
    KEYED_VERSION,
    LINE_BYTES_MAX,
    VERSION,
    Acked,
    AskEnd,
    Assigned,
    Close,
    Command,
    CommitOffsets,
    Committed,
    Done,
    End,
    EndOfPoll,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Offset,
    Open,
    Poll,
    Proceed,
    Property,
    Protocol,
    Ready,
    Record,
    Refused,
    Remedy,
    Revoked,
    Saying,
    Seek,
    Send,
    Sending,
    SendKeyed,
    SendTombstone,
    Subscribe,
    Tombstone,
    Topic,
    Undone,
    decode_command,
    encode_saying,
)

# --- properties -----------------------------------------------------------------------------------

_Parameter = tuple[Callable[[str], object], str, *tuple[str, ...]]
"""A function that parses the value of a property, and the parameters of aiokafka that get it."""


def _is_true(text: str) -> bool:
    return text == "true"


_CONNECTING: Mapping[str, _Parameter] = {
    "bootstrap.servers": (str, "bootstrap_servers"),
    "client.id": (str, "client_id"),
}
_OF_PRODUCERS: Mapping[str, _Parameter] = {
    **_CONNECTING,
    "acks": (lambda text: text if text == "all" else int(text), "acks"),
    "enable.idempotence": (_is_true, "enable_idempotence"),
    "linger.ms": (int, "linger_ms"),
    "batch.size": (int, "max_batch_size"),
    "compression.type": (lambda text: None if text == "none" else text, "compression_type"),
    # This is how long a batch may wait, how long an answer may take, and what brokers are told.
    "delivery.timeout.ms": (int, "request_timeout_ms"),
}
"""aiokafka's parameters for Kafka's properties of a producer."""
_ASSIGNORS = {
    "RangeAssignor": RangePartitionAssignor,
    "RoundRobinAssignor": RoundRobinPartitionAssignor,
    "StickyAssignor": StickyPartitionAssignor,
}
_OF_MEMBERS: Mapping[str, _Parameter] = {
    **_CONNECTING,
    "group.id": (str, "group_id"),
    "group.instance.id": (str, "group_instance_id"),
    "client.rack": (str, "client_rack"),
    "isolation.level": (str, "isolation_level"),
    "auto.offset.reset": (str, "auto_offset_reset"),
    "enable.auto.commit": (_is_true, "enable_auto_commit"),
    "session.timeout.ms": (int, "session_timeout_ms"),
    "heartbeat.interval.ms": (int, "heartbeat_interval_ms"),
    # Kafka's property is also how long a rebalance waits for the member; aiokafka has two for it.
    "max.poll.interval.ms": (int, "max_poll_interval_ms", "rebalance_timeout_ms"),
    "max.poll.records": (int, "max_poll_records"),
    "request.timeout.ms": (int, "request_timeout_ms"),
    "fetch.max.bytes": (int, "fetch_max_bytes"),
    "fetch.max.wait.ms": (int, "fetch_max_wait_ms"),
    "fetch.min.bytes": (int, "fetch_min_bytes"),
    "max.partition.fetch.bytes": (int, "max_partition_fetch_bytes"),
    "partition.assignment.strategy": (
        lambda text: [_ASSIGNORS[name.rpartition(".")[2]] for name in text.split(",")],
        "partition_assignment_strategy",
    ),
}
"""aiokafka's parameters for Kafka's properties of a member of a group."""
_SECURING = ("security.protocol", "sasl.", "ssl.")
"""The beginnings of the names of properties that secure the connection."""
_LOGIN = re.compile(r'(username|password|token)="((?:[^"\\]|\\.)*)"')
"""The user name and the password, or the token, in a line of JAAS."""
_PEM_BLOCK = re.compile(r"(-----BEGIN [^-]+-----) (.*?) (-----END [^-]+-----)")
_OF_NO_CONCERN = ("max.in.flight.requests.per.connection",)
"""The properties without effect: aiokafka never has more than one batch of a partition under way
(``Sender``: muted partitions)."""


class InvalidOrder(Exception):
    """The error of a program that was told something impossible, or that cannot go on."""


def _parameters(
    properties: Mapping[str, str], known: Mapping[str, _Parameter]
) -> Mapping[str, object]:
    """Return aiokafka's parameters for Kafka's properties. Raises InvalidOrder."""
    parameters: dict[str, object] = {}
    for name, value in properties.items():
        if name.startswith(_SECURING) or name in _OF_NO_CONCERN:
            continue
        if name not in known:
            raise InvalidOrder(f"aiokafka has nothing for the property {name}")
        parse, *names = known[name]
        try:
            parameters |= dict.fromkeys(names, parse(value))
        except (KeyError, ValueError):
            raise InvalidOrder(f"aiokafka has nothing for {name} {value}") from None
    try:
        secured = security_parameters(
            {name: value for name, value in properties.items() if name.startswith(_SECURING)}
        )
    except (ssl.SSLError, ValueError) as error:
        raise InvalidOrder(_named(error)) from None
    return {**parameters, **secured}


class LastingToken(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """A token that outlives the client."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """Return the token, for aiokafka."""
        return self._token


def security_parameters(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return aiokafka's parameters for Kafka's properties of a secured connection.

    Raises ssl.SSLError for a certificate or key that cannot be used.
    """
    parameters: dict[str, Any] = {}
    if (protocol := properties.get("security.protocol")) is not None:
        parameters["security_protocol"] = protocol
    if (mechanism := properties.get("sasl.mechanism")) is not None:
        said = _LOGIN.findall(properties["sasl.jaas.config"])
        login = {name: re.sub(r"\\(.)", r"\1", value) for name, value in said}
        parameters["sasl_mechanism"] = mechanism
        if (token := login.pop("token", None)) is not None:
            parameters["sasl_oauth_token_provider"] = LastingToken(token)
        parameters |= {f"sasl_plain_{name}": value for name, value in login.items()}
    if protocol is not None and protocol.endswith("SSL"):
        parameters["ssl_context"] = _context(properties)
    return parameters


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    trusted = properties.get("ssl.truststore.certificates")
    context = ssl.create_default_context(cadata=None if trusted is None else _lines(trusted))
    if properties.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    if (chain := properties.get("ssl.keystore.certificate.chain")) is not None:
        # OpenSSL takes them only from a file, which here exists in memory alone.
        with os.fdopen(os.memfd_create("certificate"), "w") as file:
            file.write(_lines(properties.get("ssl.keystore.key", "")) + _lines(chain))
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


def _lines(text: str) -> str:
    """Return PEM blocks with their line breaks, for which a property has spaces."""
    blocks = _PEM_BLOCK.findall(text)
    return "".join(f"{begin}\n{body.replace(' ', chr(10))}\n{end}\n" for begin, body, end in blocks)


# --- lines ----------------------------------------------------------------------------------------


class Conversation:
    """The lines that the program is told, and those that it says.

    Attributes:
        version: The version of the protocol.
    """

    def __init__(self, lines: asyncio.StreamReader) -> None:
        self.version = VERSION
        self._lines = lines
        self._said: list[bytes] = []

    async def next(self) -> Command | None:
        """Return the next command, or None at the end of the input.

        Raises MalformedLine.
        """
        line = await self._lines.readline()
        return decode_command(line.removesuffix(b"\n")) if line else None

    def say(self, saying: Saying) -> None:
        """Say something; everything that is said in one turn of the loop is written at once."""
        if not self._said:
            asyncio.get_running_loop().call_soon(self.write)
        self._said.append(encode_saying(saying))

    def write(self) -> None:
        """Write what was said."""
        said, self._said = b"".join(self._said), []
        sys.stdout.buffer.write(said)
        sys.stdout.buffer.flush()


# --- the producer ---------------------------------------------------------------------------------

_STOP_S = 3.0
"""The longest time in which the library may close its connections, in seconds."""


class ProducerProgram:
    """A producer that obeys line by line."""

    def __init__(
        self, conversation: Conversation, topics: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        self._conversation = conversation
        self._topics = topics
        self._producer = AIOKafkaProducer(**_parameters(properties, _OF_PRODUCERS))
        self._partitions: dict[str, Sequence[int]] = {}
        self._queues: dict[tuple[str, int], asyncio.Queue[Sending]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending = 0
        self._all_reported = asyncio.Event()

    async def run(self) -> None:
        """Obey until there are no more lines. Raises InvalidOrder and MalformedLine."""
        try:
            await self._open()
            while (command := await self._conversation.next()) is not None:
                self._obey(command)
        finally:
            for task in self._tasks:
                task.cancel()
            with suppress(TimeoutError, KafkaError):
                await asyncio.wait_for(self._producer.stop(), _STOP_S)

    async def _open(self) -> None:
        try:
            await self._producer.start()
            for topic in self._topics:
                self._partitions[topic] = sorted(await self._producer.partitions_for(topic))
        except KafkaError as error:
            raise InvalidOrder(_named(error)) from error
        self._conversation.say(Ready(self._conversation.version))

    def _obey(self, command: Command) -> None:
        match command:
            case Send() | SendKeyed() | SendTombstone() as send:
                self._queue(send).put_nowait(send)
                self._pending += 1
            case Flush():
                self._start(self._flush())
            case other:
                raise InvalidOrder(f"a producer of aiokafka has no {type(other).__name__}")

    def _queue(self, send: Sending) -> "asyncio.Queue[Sending]":
        place = (self._topic(send), self._partition(send))
        if place not in self._queues:
            self._queues[place] = asyncio.Queue()
            self._start(self._send_in_turn(self._queues[place]))
        return self._queues[place]

    def _topic(self, send: Sending) -> str:
        return send.topic or self._topics[-1]

    def _partition(self, send: Sending) -> int:
        """Return the partition that a record is for, where the library chooses it, too: by its
        default partitioner, which only chooses among all partitions for records with keys."""
        if isinstance(send, Send):
            return send.partition
        if send.partition is not None:
            return send.partition
        partitions = self._partitions[self._topic(send)]
        chosen: int = DefaultPartitioner()(send.key, partitions, partitions)
        return chosen

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        """Report an unforeseen error of a task, which would otherwise stop one partition and look
        like silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._conversation.say(Fatal(_one_line(repr(error))))

    async def _send_in_turn(self, queue: "asyncio.Queue[Sending]") -> None:
        while True:
            send = await queue.get()
            try:
                report = await self._producer.send(self._topic(send), **_record(send))
            except KafkaError as error:
                self._report(Refused(send.number, type(error).__name__))
            else:
                report.add_done_callback(partial(self._reported, send))
            queue.task_done()

    def _reported(self, send: Sending, report: "asyncio.Future[Any]") -> None:
        if (error := report.exception()) is not None:
            self._report(Failed(send.number, type(error).__name__))
        else:
            # With acks=0 there is no result, and a repetition that the broker knew has no offset.
            result = report.result()
            offset = getattr(result, "offset", -1)
            chosen = getattr(result, "partition", None) if send.partition is None else None
            self._report(Acked(send.number, offset if offset >= 0 else None, chosen))

    def _report(self, saying: Saying) -> None:
        self._conversation.say(saying)
        self._pending -= 1
        if not self._pending:
            self._all_reported.set()

    async def _flush(self) -> None:
        while self._pending:
            self._all_reported.clear()
            await self._all_reported.wait()
        self._conversation.say(Flushed())


def _record(send: Sending) -> Mapping[str, object]:
    """Return the arguments for aiokafka that make the record."""
    match send:
        case SendKeyed(_, partition, key, value):
            return {"partition": partition, "key": key, "value": value}
        case SendTombstone(_, partition, key, identity):
            headers = [(TOMBSTONE_HEADER, identity)]
            return {"partition": partition, "key": key, "value": None, "headers": headers}
        case Send(_, partition, value):
            return {"partition": partition, "value": value}


# --- the member of a group ------------------------------------------------------------------------

_POLL_MS = 100
_POLL_S = 0.2
"""The time after which a poll returns without records, in seconds. During a rebalance the
library's call lasts longer. It then goes on into the next poll, because the library would count a
cancelled one as a poll that lasts for ever."""
_POLL_RECORDS = 500
"""Kafka's default of ``max.poll.records``; aiokafka has no limit."""
_ANSWER_S = 10.0
"""The longest time that a call may take, in seconds; aiokafka itself asks on without end."""
_START_S = 30.0
"""The longest time in which the member may look for a first broker, in seconds."""
_START_AGAIN_S = 0.5
_FATAL = (GroupAuthorizationFailedError, TopicAuthorizationFailedError)


class _Rebalance:
    """A call of the listener: what it reports, and the event that lets it return."""

    def __init__(self, saying: Assigned | Revoked) -> None:
        self.saying = saying
        self.over = asyncio.Event()


class MemberProgram(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A member of a group that does one thing at a time, as it is told."""

    def __init__(
        self, conversation: Conversation, topic: str, properties: Mapping[str, str]
    ) -> None:
        parameters = {"max_poll_records": _POLL_RECORDS, **_parameters(properties, _OF_MEMBERS)}
        self._conversation = conversation
        self._topic = topic
        self._consumer = AIOKafkaConsumer(**parameters)
        self._has: set[int] = set()
        self._closing = False
        self._rebalances: asyncio.Queue[_Rebalance] = asyncio.Queue()
        self._next_rebalance = asyncio.ensure_future(self._rebalances.get())
        self._polling: asyncio.Future[Mapping[Any, Any]] | None = None
        self._sought: set[int] = set()

    async def run(self) -> None:
        """Obey until there are no more lines. Raises InvalidOrder and MalformedLine."""
        await self._start()
        self._consumer.subscribe([self._topic], listener=self)
        self._conversation.say(Ready(self._conversation.version))
        await self._obey_until(None)

    async def _start(self) -> None:
        """Connect to a broker. The library tries each one once, which may be too early."""
        deadline = asyncio.get_running_loop().time() + _START_S
        while True:
            try:
                await self._consumer.start()
            except KafkaError as error:
                again = isinstance(error, KafkaConnectionError)
                if not again or asyncio.get_running_loop().time() >= deadline:
                    await self._consumer.stop()
                    raise InvalidOrder(_named(error)) from error
                await asyncio.sleep(_START_AGAIN_S)
            else:
                return

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Wait until the assignment is reported, for aiokafka."""
        await self._wait_reported(Assigned(_numbers(assigned)))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Wait until the revocation is reported, for aiokafka. It does not tell a member that was
        removed from its group from one that gives its partitions up."""
        if revoked:
            await self._wait_reported(Revoked(_numbers(revoked)))

    async def _wait_reported(self, saying: Assigned | Revoked) -> None:
        if not self._closing:
            rebalance = _Rebalance(saying)
            self._rebalances.put_nowait(rebalance)
            await rebalance.over.wait()

    async def _report(self, saying: Assigned | Revoked) -> None:
        """Report a rebalance, and obey until told to proceed."""
        if isinstance(saying, Assigned):
            self._has.update(saying.partitions)
        self._conversation.say(saying)
        await self._obey_until(Proceed())
        if isinstance(saying, Revoked):
            self._has.difference_update(saying.partitions)

    async def _during(self, work: "asyncio.Future[Any]", seconds: float) -> bool:
        """Report rebalances until the work is done or its time is up, and return whether it is
        done.

        Work that is done comes first: a poll's records are from before the rebalance that waits.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while not work.done():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            both = (work, self._next_rebalance)
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self._next_rebalance.done():
                rebalance = self._next_rebalance.result()
                self._next_rebalance = asyncio.ensure_future(self._rebalances.get())
                if not self._closing:
                    await self._report(rebalance.saying)
                rebalance.over.set()
        return True

    async def _obey_until(self, last: Command | None) -> None:
        while (command := await self._conversation.next()) not in (last, None):
            match command:
                case Poll():
                    await self._poll()
                case CommitOffsets(offsets):
                    named = {self._partition(number): offset for number, offset in offsets.items()}
                    await self._call(self._consumer.commit(named))
                case Committed(partitions):
                    await self._call(self._committed(partitions))
                case Seek(partition, offset):
                    await self._call(self._seek(partition, offset))
                case AskEnd(partition):
                    await self._call(self._end(partition))
                case Close():
                    await self._close()
                case other:
                    raise InvalidOrder(f"a member has no {type(other).__name__}")

    async def _poll(self) -> None:
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._consumer.getmany(timeout_ms=_POLL_MS))
        if await self._during(self._polling, _POLL_S):
            polled, self._polling = self._polling, None
            sought, self._sought = self._sought, set()
            for place, records in self._polled(polled).items():
                for one in records if place.partition not in sought else ():
                    self._conversation.say(_polled(one))
        self._conversation.say(EndOfPoll())

    def _polled(self, polled: "asyncio.Future[Mapping[Any, Any]]") -> Mapping[Any, Any]:
        """Return the records of a poll by partition; none after an error that may pass."""
        try:
            return polled.result()
        except KafkaError as error:
            if not error.retriable:
                raise InvalidOrder(_named(error)) from error
            logging.warning("the poll failed: %s", _named(error))
            return {}

    async def _call(self, call: Awaitable[None]) -> None:
        """Make a call, and say how it ended."""
        try:
            await asyncio.wait_for(call, _ANSWER_S)
        except (TimeoutError, KafkaError) as error:
            remedy = Remedy.FATAL if isinstance(error, _FATAL) else Remedy.RETRIABLE
            self._conversation.say(Undone(remedy, type(error).__name__))
        else:
            self._conversation.say(Done())

    async def _committed(self, partitions: Collection[int]) -> None:
        found = [await self._consumer.committed(self._partition(one)) for one in partitions]
        for partition, offset in zip(partitions, found, strict=True):
            self._conversation.say(Offset(partition, offset))

    async def _seek(self, partition: int, offset: int) -> None:
        """Read on at an offset.

        While an assignment is reported, a poll that is under way may get records from behind it.
        They are passed over, because they will be read again.
        """
        self._consumer.seek(self._partition(partition), offset)
        if self._polling is not None and self._polling.done():
            self._sought.add(partition)

    async def _end(self, partition: int) -> None:
        """Say the position and the end of a partition.

        The position must not be beyond records of a poll that are not said yet.
        """
        place = self._partition(partition)
        if self._polling is not None:
            raise KafkaError("a poll is under way")
        position = await self._consumer.position(place)
        ends = await self._consumer.end_offsets([place])
        self._conversation.say(End(partition, position, ends[place]))

    async def _close(self) -> None:
        """Give all partitions up, and leave the group; aiokafka's ``stop`` calls no listener."""
        if self._has:
            await self._report(Revoked(tuple(sorted(self._has))))
        self._closing = True
        stopped = await self._during(asyncio.ensure_future(self._consumer.stop()), _ANSWER_S)
        late = Undone(Remedy.RETRIABLE, TimeoutError.__name__)
        self._conversation.say(Done() if stopped else late)

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number)


def _polled(record: Any) -> Record | Tombstone:
    """Return what there is to say of a record. aiokafka tells no leader epochs."""
    at = record.partition, record.offset, None
    identity = identifying(record.value, record.headers)
    if record.value is None and identity is not None:
        return Tombstone(*at, identity)
    return Record(*at, record.value)


def _numbers(partitions: Collection[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(one.partition for one in partitions))


# --- the program ----------------------------------------------------------------------------------


def _named(error: Exception) -> str:
    """Return the name of an error and its text, in which aiokafka's have their names already."""
    text = str(error) if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    return _one_line(text)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


async def _run(conversation: Conversation) -> None:
    topics: list[str] = []
    properties: dict[str, str] = {}
    while (command := await conversation.next()) is not None:
        match command:
            case Protocol(version):
                if version not in (VERSION, KEYED_VERSION):
                    raise InvalidOrder(f"version {version} of the protocol is not known here")
                conversation.version = version
            case Topic(name):
                topics.append(name)
            case Property(name, value):
                properties[name] = value
            case Open():
                return await ProducerProgram(conversation, topics, properties).run()
            case Subscribe():
                return await MemberProgram(conversation, topics[-1], properties).run()
            case other:
                raise InvalidOrder(f"{type(other).__name__} comes before open or subscribe")
    return None


async def _main() -> int:
    lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    conversation = Conversation(lines)
    try:
        await _run(conversation)
    except InvalidOrder as reason:
        conversation.say(Fatal(_one_line(str(reason))))
        return 1
    finally:
        conversation.write()
    return 0


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    sys.exit(asyncio.run(_main()))
