"""A consumer of one topic that assigns itself partitions, and takes many messages at once."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from confluent_kafka import KafkaError

from workloads.consuming.polled import NOTHING, Polled
from workloads.librdkafka import library as lib
from workloads.librdkafka.client import Client
from workloads.librdkafka.destroying import destroy
from workloads.librdkafka.library import library
from workloads.librdkafka.messages import polled_of
from workloads.process import ClientFailed, note_error
from workloads.spec import Config, SpecificationError

REST_S = 0.01
"""So long, and no longer, it is waited for the rest of what has come so fast that the last time it
was more than could be taken at once."""


class BatchConsumer:
    """Reads partitions of one topic, in no group: ``group.id``, which librdkafka insists on, may be
    anything. It belongs to one thread.

    Args:
        properties: With ``group.id``.
        most: How many messages it takes at once.

    Raises (constructor) SpecificationError for properties that librdkafka does not take,
    ClientFailed where the library cannot be called.
    """

    def __init__(self, topic: str, properties: Config, most: int) -> None:
        self._topic = topic.encode()
        self._pointers = np.empty(most, np.uintp)
        self._is_rest = False
        self._calls = library()
        self._client = Client(lib.CONSUMER, properties, {})
        self._queue: int | None = self._calls.rd_kafka_queue_get_consumer(self._client.handle)
        if not self._queue:
            self._client.close()
            raise SpecificationError("librdkafka has no consumer without group.id")

    def assign(self, partition: int, offset: int) -> None:
        """Read this partition, too, from that offset on. Raises ClientFailed for one that it
        has."""
        self._change(self._calls.rd_kafka_incremental_assign, partition, offset)

    def unassign(self, partition: int) -> None:
        """Read it no more: nothing of it comes any more. Raises ClientFailed for one that it has
        not."""
        self._change(self._calls.rd_kafka_incremental_unassign, partition, None)

    def consume(self, seconds: float) -> Polled:
        """What has come, when it is as much as can be taken at once, or when so long has passed,
        behind so much :data:`REST_S`."""
        self._client.serve(0)
        pointers = self._pointers
        wait_ms = round(min(seconds, REST_S if self._is_rest else seconds) * 1000)
        taken = self._calls.rd_kafka_consume_batch_queue(
            self._queue, wait_ms, pointers.ctypes.data, len(pointers)
        )
        self._is_rest = taken == len(pointers)
        if taken <= 0:
            return NOTHING
        try:
            return polled_of(pointers[:taken])
        finally:
            # Whatever is left would never be let go, and closing would wait for it.
            destroy(self._client.handle, pointers[:taken])

    def bounds(self, partition: int, seconds: float) -> tuple[int, int] | None:
        """Log start and high watermark; None where nobody tells within so many seconds, which goes
        to the log."""
        low, high = ctypes.c_int64(), ctypes.c_int64()
        code = self._calls.rd_kafka_query_watermark_offsets(
            self._client.handle,
            self._topic,
            partition,
            ctypes.byref(low),
            ctypes.byref(high),
            round(seconds * 1000),
        )
        if code:
            note_error(KafkaError(code))
            return None
        return low.value, high.value

    def close(self) -> None:
        """End it. What has come and was not taken is lost. Idempotent."""
        if self._queue:
            self._calls.rd_kafka_queue_destroy(self._queue)
            self._queue = None
            if self._calls.rd_kafka_fatal_error(self._client.handle, None, 0):
                # rd_kafka_destroy would skip what a consumer does to give up its partitions, and
                # wait for ever for them (2.16). Whoever was told of it ends the process.
                self._client.leave()
            self._client.close()

    def _change(self, call: Callable[..., int | None], partition: int, offset: int | None) -> None:
        with self._list(partition, offset) as one:
            error = call(self._client.handle, one)
        if error:
            why = self._calls.rd_kafka_error_string(error).decode(errors="replace")
            self._calls.rd_kafka_error_destroy(error)
            raise ClientFailed(f"the consumer cannot have partition {partition} changed: {why}")

    @contextmanager
    def _list(self, partition: int, offset: int | None) -> Iterator[int]:
        """A list of one partition, as the library has them."""
        made = self._calls.rd_kafka_topic_partition_list_new(1)
        try:
            self._calls.rd_kafka_topic_partition_list_add(made, self._topic, partition)
            if offset is not None:
                self._calls.rd_kafka_topic_partition_list_set_offset(
                    made, self._topic, partition, offset
                )
            yield made
        finally:
            self._calls.rd_kafka_topic_partition_list_destroy(made)
