"""The codecs against librdkafka: a one-connection server that takes its produce requests."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.dispatch import APIS
from ackproof.broker.types import BrokerId, Offset
from ackproof.broker.wire.batch import Compression, RecordBatch, parse_batches, records
from ackproof.broker.wire.codec import first_fields, read_request, write_response
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ackproof.broker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ackproof.broker.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.clients.frames import read_frame

# Fetch and FindCoordinator are never asked for; librdkafka only then trusts the message format.
SERVED = {0: range(7, 8), 1: range(4, 12), 3: range(4, 5), 10: range(3), 18: range(1)}
VALUES = [b"value %d " % number * 9 for number in range(40)]
DEADLINE_S = 60


class Sink:
    """Leads partition 0 of every topic, and keeps the batches it gets."""

    def __init__(self) -> None:
        self.batches: Queue[RecordBatch] = Queue()
        self.refused: list[tuple[int, int]] = []
        self.port = 0

    async def serve(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(asyncio.create_task(self._connection(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for connection in connections:
            connection.cancel()
        self.faults = [
            fault
            for fault in await asyncio.gather(*connections, return_exceptions=True)
            if isinstance(fault, Exception)
        ]

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that ends with an answer of ours unread resets its connection.
        with contextlib.closing(writer), contextlib.suppress(ConnectionResetError):
            while (payload := await read_frame(reader)) is not None:
                writer.write(self._respond(payload))

    def _respond(self, payload: bytes) -> bytes:
        first = first_fields(payload)
        api_key, version, number = first
        if version not in SERVED.get(api_key, ()):
            self.refused.append((api_key, version))
            return write_response(number, versions(ErrorCode.unsupported_version), 0)
        _, request = read_request(APIS[api_key].request, first, payload)
        return write_response(number, self._answer(request), version)

    def _answer(self, request: Request[Response]) -> Response:
        answers: dict[int, Callable[[Any], Response]] = {
            0: self._produce,
            3: self._metadata,
            18: lambda _: versions(ErrorCode.none),
        }
        return answers[request.API_KEY](request)

    def _metadata(self, _: Any) -> Response:
        node = MetadataResponseBroker(
            node_id=BrokerId(1), host="127.0.0.1", port=self.port, rack=None
        )
        partition = MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=BrokerId(1),
            replica_nodes=(BrokerId(1),),
            isr_nodes=(BrokerId(1),),
        )
        topic = MetadataResponseTopic(
            error_code=ErrorCode.none,
            name="orders",
            is_internal=False,
            partitions=(partition,),
        )
        return MetadataResponse(
            brokers=(node,),
            cluster_id="sink",
            controller_id=BrokerId(1),
            topics=(topic,),
        )

    def _produce(self, request: ProduceRequest) -> Response:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        for batch in parse_batches(partition.records or b""):
            self.batches.put(batch)
        done = PartitionProduceResponse(index=0, error_code=ErrorCode.none, base_offset=Offset(0))
        return ProduceResponse(
            responses=(TopicProduceResponse(name="orders", partition_responses=(done,)),),
        )


def versions(error: ErrorCode) -> Response:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=tuple(
            ApiVersion(api_key=key, min_version=served[0], max_version=served[-1])
            for key, served in SERVED.items()
        ),
    )


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(sink.serve(started)))
    thread.start()
    assert started.wait(DEADLINE_S)
    yield sink
    sink.stop()
    thread.join(DEADLINE_S)
    assert not sink.faults


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_real_batches_are_understood(sink: Sink, codec: Compression) -> None:
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{sink.port}",
            "compression.type": codec.name.lower(),
            "linger.ms": 200,
        }
    )
    for number, value in enumerate(VALUES):
        producer.produce("orders", value, key=b"k", timestamp=1_700_000_000_001 + number)
    assert producer.flush(DEADLINE_S) == 0
    del producer
    found = []
    while not sink.batches.empty():
        batch = sink.batches.get()
        assert batch.compression is codec
        assert batch.is_dense
        found += list(records(batch))
    assert [record.value for record in found] == VALUES
    assert [record.timestamp for record in found] == [
        1_700_000_000_001 + number for number in range(len(VALUES))
    ]
    assert sink.refused[:1] == [(18, 3)], "librdkafka first asks in a version that is not served"
