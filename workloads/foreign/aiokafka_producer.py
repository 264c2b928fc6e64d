"""aiokafka as a program under test: ``python -m ackproof.workloads.foreign.aiokafka_producer``.

``AIOKafkaProducer.send`` waits while the batch of its partition is full. Therefore a task of its
own sends to each partition, so that one without a leader does not keep the others waiting. What a
task has not handed to the library yet waits in order.
"""

import asyncio
import logging
import os
import re
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ackproof.workloads.foreign.protocol import (
    LINE_BYTES_MAX,
    VERSION,
    Abort,
    Acked,
    Begin,
    Commit,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Init,
    Open,
    Property,
    Protocol,
    Ready,
    Refused,
    Saying,
    Send,
    Topic,
    decode_command,
    encode_saying,
)

_STOP_S = 3.0
"""How long the library may take to close its connections, in seconds."""

_PARAMETERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "acks": ("acks", lambda text: text if text == "all" else int(text)),
    "enable.idempotence": ("enable_idempotence", lambda text: text == "true"),
    "linger.ms": ("linger_ms", int),
    "batch.size": ("max_batch_size", int),
    "compression.type": ("compression_type", lambda text: None if text == "none" else text),
    # This is how long a batch may wait, how long an answer may take, and what brokers are told.
    "delivery.timeout.ms": ("request_timeout_ms", int),
}
"""aiokafka's names of Kafka's properties, and how it writes their values."""
_SECURING = ("security.protocol", "sasl.", "ssl.")
"""The beginnings of the names of properties that secure the connection."""
_CREDENTIALS = re.compile(r'(username|password)="((?:[^"\\]|\\.)*)"')
"""The user name and the password in a line of JAAS."""
_PEM_BLOCK = re.compile(r"(-----BEGIN [^-]+-----) (.*?) (-----END [^-]+-----)")
_OF_NO_CONCERN = ("max.in.flight.requests.per.connection",)
"""The properties without effect: aiokafka never has more than one batch of a partition under way
(``Sender``: muted partitions)."""


class InvalidOrder(Exception):
    """The error of a program that was told something impossible."""


class AiokafkaProgram:
    """A program that obeys its input line by line."""

    def __init__(self) -> None:
        self._topic = ""
        self._parameters: dict[str, Any] = {}
        self._security: dict[str, str] = {}
        self._producer: AIOKafkaProducer | None = None
        self._queues: dict[tuple[str, int], asyncio.Queue[Send]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending = 0
        self._all_reported = asyncio.Event()
        self._saying: list[bytes] = []

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Obey until there are no more lines.

        Raise CannotBegin, and Malformed for what is no line.
        """
        try:
            while line := await lines.readline():
                await self._obey(line.removesuffix(b"\n"))
        finally:
            for task in self._tasks:
                task.cancel()
            if self._producer is not None:
                with suppress(TimeoutError, KafkaError):
                    await asyncio.wait_for(self._producer.stop(), _STOP_S)

    async def _obey(self, line: bytes) -> None:
        match decode_command(line):
            case Send() as send:
                self._queue(send).put_nowait(send)
                self._pending += 1
            case Flush():
                self._start(self._flush())
            case Open():
                await self._open()
            case Topic(name):
                self._topic = name
            case Property(name, value):
                self._set(name, value)
            case Protocol(version):
                if version != VERSION:
                    raise InvalidOrder(f"version {version} of the protocol is not known here")
            case Init() | Begin() | Commit() | Abort():
                raise InvalidOrder("there are no transactions here")

    def _set(self, name: str, value: str) -> None:
        if name in _PARAMETERS:
            parameter, parse = _PARAMETERS[name]
            self._parameters[parameter] = parse(value)
        elif name.startswith(_SECURING):
            self._security[name] = value
        elif name not in _OF_NO_CONCERN:
            raise InvalidOrder(f"aiokafka has nothing for the property {name}")

    async def _open(self) -> None:
        try:
            secured = security_parameters(self._security)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidOrder(f"{type(error).__name__}: {error}") from None
        producer = AIOKafkaProducer(**self._parameters, **secured)
        try:
            await producer.start()
            await producer.partitions_for(self._topic)
        except KafkaError as error:
            await producer.stop()
            raise InvalidOrder(f"{type(error).__name__}: {error}") from error
        self._producer = producer
        self._say(Ready())

    def _queue(self, send: Send) -> "asyncio.Queue[Send]":
        place = (send.topic, send.partition)
        if place not in self._queues:
            self._queues[place] = asyncio.Queue()
            self._start(self._send_in_turn(self._queues[place]))
        return self._queues[place]

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        """Report an unforeseen error of a task, which would otherwise stop one partition and look
        like silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(Fatal(_one_line(repr(error))))

    async def _send_in_turn(self, queue: "asyncio.Queue[Send]") -> None:
        assert self._producer is not None
        while True:
            send = await queue.get()
            try:
                report = await self._producer.send(
                    send.topic or self._topic, send.value, partition=send.partition
                )
            except KafkaError as error:
                self._report(Refused(send.number, type(error).__name__))
            else:
                report.add_done_callback(partial(self._reported, send.number))
            queue.task_done()

    def _reported(self, number: int, report: "asyncio.Future[Any]") -> None:
        if (error := report.exception()) is not None:
            self._report(Failed(number, type(error).__name__))
        else:
            # With acks=0 there is no result, and a repetition that the broker knew has no offset.
            offset = getattr(report.result(), "offset", -1)
            self._report(Acked(number, offset if offset >= 0 else None))

    def _report(self, saying: Saying) -> None:
        self._say(saying)
        self._pending -= 1
        if not self._pending:
            self._all_reported.set()

    async def _flush(self) -> None:
        while self._pending:
            self._all_reported.clear()
            await self._all_reported.wait()
        self._say(Flushed())

    def _say(self, saying: Saying) -> None:
        """Say something; everything that is said in one turn of the loop is written at once."""
        if not self._saying:
            asyncio.get_running_loop().call_soon(self._write)
        self._saying.append(encode_saying(saying))

    def _write(self) -> None:
        said, self._saying = b"".join(self._saying), []
        sys.stdout.buffer.write(said)
        sys.stdout.buffer.flush()


def security_parameters(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return aiokafka's parameters for Kafka's properties of a secured connection.

    Raises ssl.SSLError for a certificate or key that cannot be used.
    """
    parameters: dict[str, Any] = {}
    if (protocol := properties.get("security.protocol")) is not None:
        parameters["security_protocol"] = protocol
    if (mechanism := properties.get("sasl.mechanism")) is not None:
        login = dict(_CREDENTIALS.findall(properties["sasl.jaas.config"]))
        parameters["sasl_mechanism"] = mechanism
        for name in ("username", "password"):
            parameters[f"sasl_plain_{name}"] = re.sub(r"\\(.)", r"\1", login[name])
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


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


async def _main() -> int:
    lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    try:
        await AiokafkaProgram().run(lines)
    except InvalidOrder as reason:
        sys.stdout.buffer.write(encode_saying(Fatal(_one_line(str(reason)))))
        sys.stdout.buffer.flush()
        return 1
    return 0


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    sys.exit(asyncio.run(_main()))
