"""A producer of one topic that takes and reports many records at once."""

import ctypes
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from history.payload import Encoder
from history.values import Values
from workloads.keys import Keys
from workloads.librdkafka import library as lib
from workloads.librdkafka.library import MESSAGE, library
from workloads.librdkafka.messages import Reports, reports_of
from workloads.process import note_error
from workloads.spec import Config, SpecificationError

ROWS_MAX = 1_000
BLOCK_BYTES = 4 << 20
"""Values are made in a block of this size, or of one value, and handed over; then the next."""
FLUSH_MS = 1
"""For a flush: it tells the library's threads to wait for no more records (``linger.ms``), and they
need to look once while it lasts."""

Integers = NDArray[np.int64]


class BatchProducer:
    """Sends the records of one session. It belongs to one thread; what it is told it tells from
    within :meth:`serve`.

    Args:
        reported: Is given delivery reports as they come, those of an event at once.
        statistics: Is given the library's statistics, as JSON.

    Attributes:
        fatal: What it has failed of for good; None while it has not.

    Raises (constructor) SpecificationError for properties that librdkafka does not take,
    ClientFailed where the library cannot be called.
    """

    def __init__(
        self,
        topic: str,
        properties: Config,
        encoder: Encoder,
        keys: Keys | None,
        reported: Callable[[Reports], None],
        statistics: Callable[[str], None],
    ) -> None:
        self.fatal: str | None = None
        self._reported = reported
        self._statistics = statistics
        self._keys = keys
        rows = max(1, min(ROWS_MAX, BLOCK_BYTES // encoder.sizes[1]))
        self._values = Values(encoder, rows)
        self._messages = np.zeros(rows, MESSAGE)
        self._calls = library()
        self._handle: int | None = _handle(self._calls, properties)
        # Its configuration is the client's, which has the topic's properties, too.
        self._topic = self._calls.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if not self._topic:
            why = self._calls.rd_kafka_err2str(self._calls.rd_kafka_last_error()).decode()
            self._calls.rd_kafka_destroy(self._handle)
            raise SpecificationError(f"librdkafka refuses: topic {topic}: {why}")
        self._queue = self._calls.rd_kafka_queue_get_main(self._handle)

    def produce(self, sequences: Integers, partitions: Integers) -> Mapping[int, int]:
        """Hand over the records of these sequence numbers, in this order to each partition. Those
        that are refused: librdkafka's codes, by sequence number."""
        refused: dict[int, int] = {}
        rows = len(self._messages)
        for begin in range(0, len(sequences), rows):
            some = slice(begin, begin + rows)
            refused.update(self._produce(sequences[some], partitions[some]))
        return refused

    def serve(self, seconds: float) -> None:
        """Tell what there is to be told; if nothing, wait so long for something."""
        self._next(round(seconds * 1000))
        # What comes meanwhile is for the next time: on a busy machine there is always something.
        for _ in range(self._calls.rd_kafka_queue_length(self._queue)):
            self._next(0)

    def flush(self) -> None:
        """Have what waits for more records sent. Reports are waited for by :meth:`serve`: here the
        library does not tell of them."""
        self._calls.rd_kafka_flush(self._handle, FLUSH_MS)

    def purge(self) -> None:
        """Give up all that is under way: it is reported as such."""
        everything = lib.PURGE_QUEUE | lib.PURGE_IN_FLIGHT | lib.PURGE_WITHOUT_WAITING
        self._calls.rd_kafka_purge(self._handle, everything)

    def close(self) -> None:
        """End it. What is under way is lost without a report. Idempotent."""
        if self._handle:
            # What refers to the client keeps it from ending, which would wait for that for ever.
            self._calls.rd_kafka_queue_destroy(self._queue)
            self._calls.rd_kafka_topic_destroy(self._topic)
            self._calls.rd_kafka_destroy(self._handle)
            self._handle = None

    def _produce(self, sequences: Integers, partitions: Integers) -> Mapping[int, int]:
        """A call for each partition. One for all (``RD_KAFKA_MSG_F_PARTITION``) would keep a record
        for a partition that there is not, refuse it, and forget to let it go: it counts as under
        way for ever, until nothing else has room (``rd_kafka_produce_batch``, 2.16)."""
        order = np.argsort(partitions, kind="stable")
        sequences, partitions = sequences[order], partitions[order]
        messages = self._messages[: len(order)]
        block = self._values.block
        messages["len"] = self._values.make(sequences)
        messages["payload"] = block.ctypes.data + np.arange(len(order)) * block.strides[0]
        messages["private"] = sequences
        if self._keys is not None:
            messages["key"], messages["key_len"] = self._keys.of(partitions, sequences)
        begins = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(order)]
        good = sum(
            self._calls.rd_kafka_produce_batch(
                self._topic,
                partitions[begin],
                lib.COPY,
                messages.ctypes.data + begin * MESSAGE.itemsize,
                end - begin,
            )
            for begin, end in pairwise(begins)
        )
        if good == len(order):
            return {}
        failed = messages["err"] != 0
        return dict(zip(sequences[failed].tolist(), messages["err"][failed].tolist(), strict=True))

    def _next(self, wait_ms: int) -> None:
        event = self._calls.rd_kafka_queue_poll(self._queue, wait_ms)
        if event is None:
            return
        try:
            self._tell(event)
        finally:
            # With it go the messages that it reports: nobody tells of them again.
            self._calls.rd_kafka_event_destroy(event)

    def _tell(self, event: int) -> None:
        match self._calls.rd_kafka_event_type(event):
            case lib.EVENT_REPORTS:
                self._reported(reports_of(event))
            case lib.EVENT_STATISTICS:
                self._statistics(self._calls.rd_kafka_event_stats(event).decode())
            case lib.EVENT_ERROR:
                self._note(event)

    def _note(self, event: int) -> None:
        if self._calls.rd_kafka_event_error_is_fatal(event):
            # What the event itself says does not say that nothing more will be taken.
            reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
            self._calls.rd_kafka_fatal_error(self._handle, reason, len(reason))
            self.fatal = _text(reason)
            return
        code = self._calls.rd_kafka_event_error(event)
        said = self._calls.rd_kafka_event_error_string(event) or b""
        note_error(KafkaError(code, said.decode(errors="replace")))


def _handle(calls: ctypes.CDLL, properties: Config) -> int:
    """The client. Raises SpecificationError for properties that librdkafka does not take."""
    reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
    configuration = calls.rd_kafka_conf_new()
    for name, value in properties.items():
        told = (configuration, name.encode(), str(value).encode(), reason, len(reason))
        if calls.rd_kafka_conf_set(*told) != lib.CONF_OK:
            calls.rd_kafka_conf_destroy(configuration)
            raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    # What is no event is a callback, and without one it is nowhere: reports would not even be made.
    events = lib.EVENT_REPORTS | lib.EVENT_ERROR | lib.EVENT_STATISTICS
    calls.rd_kafka_conf_set_events(configuration, events)
    made: int | None = calls.rd_kafka_new(lib.PRODUCER, configuration, reason, len(reason))
    if not made:
        calls.rd_kafka_conf_destroy(configuration)
        raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    return made


def _text(reason: ctypes.Array[ctypes.c_char]) -> str:
    return reason.value.decode(errors="replace")
