"""A producer of one topic that takes and reports many records at once."""

import ctypes
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ackproof.history.payload import Encoder, Values
from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.client import LibrdkafkaHandle
from ackproof.workloads.librdkafka.keys import Keys
from ackproof.workloads.librdkafka.library import MESSAGE, RdKafkaMessage, library
from ackproof.workloads.librdkafka.messages import Reports, reports_of
from ackproof.workloads.spec import Config, SpecificationError
from ackproof.workloads.unresolved import FEW

ROWS_MAX = 1_000
BLOCK_BYTES = 4 << 20
"""The size of the block in which values are made, unless one value is larger. The values are handed
over, then the next are made."""
FLUSH_MS = 1
"""The length of a flush, in milliseconds. A flush tells the library's threads to wait for no more
records (``linger.ms``), and they must look once while it lasts."""

Integers = NDArray[np.int64]


class BatchProducer:
    """A sender of the records of one session; it belongs to one thread.

    It passes reports on from within :meth:`serve`. The constructor raises SpecificationError for
    properties that librdkafka does not take, and ClientFailed where the library cannot be called.

    Args:
        reported: Is given delivery reports as they come, those of an event at once.
        statistics: Is given the library's statistics, as JSON.
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
        self._keys = keys
        rows = max(1, min(ROWS_MAX, BLOCK_BYTES // encoder.sizes[1]))
        self._values = Values(encoder, rows)
        self._messages = np.zeros(rows, MESSAGE)
        self._encoder = encoder
        self._one = RdKafkaMessage()
        self._calls = library()
        self._client = LibrdkafkaHandle(
            lib.PRODUCER,
            properties,
            {
                lib.EVENT_REPORTS: lambda event: reported(reports_of(event)),
                lib.EVENT_STATISTICS: lambda event: statistics(
                    self._calls.rd_kafka_event_stats(event).decode()
                ),
            },
        )
        # Its configuration is the client's, which has the topic's properties, too.
        handle = self._client.handle
        self._topic: int | None = self._calls.rd_kafka_topic_new(handle, topic.encode(), None)
        if not self._topic:
            why = self._calls.rd_kafka_err2str(self._calls.rd_kafka_last_error()).decode()
            self._client.close()
            raise SpecificationError(f"librdkafka refuses: topic {topic}: {why}")

    @property
    def fatal(self) -> str | None:
        """The reason for which it failed for good; None while it has not."""
        return self._client.fatal

    def produce(self, sequences: Integers, turns: Integers) -> Mapping[int, int]:
        """Hand over the records of these sequence numbers, in this order to each partition.

        Args:
            turns: The number of each record's key; of its partition, where records have no keys.

        Returns librdkafka's codes of the records that are refused, by sequence number.
        """
        refused: dict[int, int] = {}
        if len(sequences) <= FEW:
            for place, sequence in enumerate(sequences.tolist()):
                if code := self._produce_one(sequence, int(turns[place])):
                    refused[sequence] = code
            return refused
        rows = len(self._messages)
        for begin in range(0, len(sequences), rows):
            some = slice(begin, begin + rows)
            refused.update(self._produce(sequences[some], turns[some]))
        return refused

    def serve(self, seconds: float) -> None:
        """Report what there is to report; if there is nothing, wait so long for something."""
        self._client.serve(seconds)

    def flush(self) -> None:
        """Have records sent that wait for more.

        :meth:`serve` waits for reports, because the library does not report within this call.
        """
        self._calls.rd_kafka_flush(self._client.handle, FLUSH_MS)

    def purge(self) -> None:
        """Give up all that is under way, which is reported as such."""
        everything = lib.PURGE_QUEUE | lib.PURGE_IN_FLIGHT | lib.PURGE_WITHOUT_WAITING
        self._calls.rd_kafka_purge(self._client.handle, everything)

    def close(self) -> None:
        """End the producer; what is under way is lost without a report; this is idempotent."""
        if self._topic:
            # What refers to the client keeps it from ending, and it would wait for that for ever.
            self._calls.rd_kafka_topic_destroy(self._topic)
            self._topic = None
            self._client.close()

    def _produce_one(self, sequence: int, turn: int) -> int:
        """Send one record by itself; return librdkafka's code where it is refused, else 0."""
        value, one = self._encoder.encode(sequence), self._one
        one.payload = ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p)
        one.len = len(value)
        one.private = sequence
        partition = turn
        if self._keys is not None:
            partition = int(self._keys.destinations[turn])
            addresses, sizes = self._keys.at(np.array([turn]))
            one.key, one.key_len = int(addresses[0]), int(sizes[0])
        good = self._calls.rd_kafka_produce_batch(
            self._topic, partition, lib.COPY, ctypes.addressof(one), 1
        )
        return 0 if good else one.err

    def _produce(self, sequences: Integers, turns: Integers) -> Mapping[int, int]:
        """Make a call for each partition, or one for all if the library picks their partitions.

        A call for several stated partitions (``RD_KAFKA_MSG_F_PARTITION``) would keep a record for
        a partition that does not exist. It would refuse the record and never free it. The record
        counts as under way for ever, until nothing else has room (``rd_kafka_produce_batch``,
        2.16).
        """
        partitions = turns if self._keys is None else self._keys.destinations[turns]
        order = np.argsort(partitions, kind="stable")
        sequences, turns, partitions = sequences[order], turns[order], partitions[order]
        messages = self._messages[: len(order)]
        block = self._values.block
        messages["len"] = self._values.make(sequences)
        messages["payload"] = block.ctypes.data + np.arange(len(order)) * block.strides[0]
        messages["private"] = sequences
        if self._keys is not None:
            messages["key"], messages["key_len"] = self._keys.at(turns)
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
