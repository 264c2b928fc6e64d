"""A consumer of one topic that assigns itself partitions, and takes many messages at once."""

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.client import LibrdkafkaHandle
from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.librdkafka.messages import Pointers, destroy, polled_of
from ackproof.workloads.polled import NOTHING, Polled
from ackproof.workloads.process import ClientFailed, note_error
from ackproof.workloads.spec import Config, SpecificationError

REST_S = 0.01
"""The longest wait, in seconds, for the rest of messages that came so fast last time that they
filled a batch."""


class BatchConsumer:
    """A reader of partitions of one topic, in no group; it belongs to one thread.

    librdkafka requires ``group.id``, which may be anything. The constructor raises
    SpecificationError for properties that librdkafka does not take, and ClientFailed where the
    library cannot be called.

    Args:
        properties: The properties, with ``group.id``.
        most: How many messages it takes at once.
    """

    def __init__(self, topic: str, properties: Config, most: int) -> None:
        self._topic = topic.encode()
        self._pointers = np.empty(most, np.uintp)
        self._is_rest = False
        self._calls = library()
        self._client = LibrdkafkaHandle(lib.CONSUMER, properties, {})
        self._queue: int | None = self._calls.rd_kafka_queue_get_consumer(self._client.handle)
        if not self._queue:
            self._client.close()
            raise SpecificationError("librdkafka has no consumer without group.id")

    def assign(self, partition: int, offset: int) -> None:
        """Read this partition, too, from that offset on; raise ClientFailed for one that it has."""
        self._change(self._calls.rd_kafka_incremental_assign, partition, offset)

    def unassign(self, partition: int) -> None:
        """Stop reading this partition: nothing of it comes any more.

        Raise ClientFailed for one that it does not have.
        """
        self._change(self._calls.rd_kafka_incremental_unassign, partition, None)

    def consume(self, seconds: float) -> Polled:
        """Return the messages that came within ``seconds``, or a full batch as soon as there is
        one.

        After a full batch the limit is :data:`REST_S`. Each message has the time at which it came,
        and not the time of this return. At 100 records a second, the latter is 50 ms late on
        average.
        """
        self._client.serve(0)
        within = min(seconds, REST_S) if self._is_rest else seconds
        came, times = self._collect(time.monotonic() + within)
        self._is_rest = len(came) == len(self._pointers)
        if not len(came):
            return NOTHING
        try:
            return polled_of(came, times)
        finally:
            # Any message that is left would never be freed, and closing would wait for it.
            destroy(self._client.handle, came)

    def _collect(self, deadline: float) -> tuple[Pointers, NDArray[np.int64]]:
        """Return the messages that came until ``deadline`` (of the monotonic clock), and when each
        did (nanoseconds of the Unix epoch)."""
        times = np.empty(len(self._pointers), np.int64)
        taken = 0
        while taken < len(times) and (left := deadline - time.monotonic()) > 0:
            first = self._take(taken, taken + 1, math.ceil(left * 1000))
            # The rest of what is there is taken at once: the library gets a fetch response as a
            # whole.
            end = self._take(first, len(times), 0) if first > taken else taken
            times[taken:end] = time.time_ns()
            taken = end
        return self._pointers[:taken], times[:taken].copy()

    def _take(self, begin: int, end: int, wait_ms: int) -> int:
        """Put messages to the places from ``begin``. Return the place behind the last one."""
        places = self._pointers[begin:end]
        taken: int = self._calls.rd_kafka_consume_batch_queue(
            self._queue, wait_ms, places.ctypes.data, len(places)
        )
        return begin + max(taken, 0)

    def bounds(self, partition: int, seconds: float) -> tuple[int, int] | None:
        """Return log start and high watermark, or None where they are unknown within so many
        seconds.

        The error then goes to the log.
        """
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
        """End the consumer, without what has come and was not taken; this is idempotent."""
        if self._queue:
            self._calls.rd_kafka_queue_destroy(self._queue)
            self._queue = None
            if self._calls.rd_kafka_fatal_error(self._client.handle, None, 0):
                # rd_kafka_destroy would skip what a consumer does to give up its partitions, and
                # wait for ever for them (2.16). The caller that heard of the error ends the
                # process.
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
        """Yield a list of one partition, as the library has them."""
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
