"""Clients of the library: a producer and a consumer of one topic.

Either is made from properties, heard by the events of its main queue, and ended.
"""

import ctypes
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from ackproof.history.payload import TOMBSTONE_HEADER, Encoder
from ackproof.history.payload_arrays import Values
from ackproof.workloads.configuration import TOKEN_CALLBACK
from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.keys import Keys
from ackproof.workloads.librdkafka.library import MESSAGE, RdKafkaArgument, RdKafkaMessage, library
from ackproof.workloads.librdkafka.messages import Pointers, Reports, destroy, polled_of, reports_of
from ackproof.workloads.polled import NOTHING, Polled
from ackproof.workloads.process import ClientFailed, note_error
from ackproof.workloads.spec import Config, SpecificationError
from ackproof.workloads.unresolved import FEW


class LibrdkafkaHandle:
    """One client, which belongs to one thread.

    Errors from which it recovers by itself go to the log, from within :meth:`serve`. The
    constructor raises SpecificationError for properties that librdkafka does not take, and
    ClientFailed where the library cannot be called.

    Args:
        kind: ``PRODUCER`` or ``CONSUMER``.
        heard: What to do with an event, by its type; errors are handled here.

    Attributes:
        handle: The handle for the library's functions, or None when the client is closed.
        fatal: The reason for which it failed for good; None until an event reports one.
    """

    def __init__(
        self, kind: int, properties: Config, heard: Mapping[int, Callable[[int], None]]
    ) -> None:
        self.fatal: str | None = None
        self._calls = library()
        self._heard = {**heard, lib.EVENT_ERROR: self._note}
        given = dict(properties)
        token: Any = given.pop(TOKEN_CALLBACK, None)
        self.handle: int | None = _handle(self._calls, kind, given, sum(self._heard))
        if token is not None:
            self._log_in(*token(""))
        self._queue = self._calls.rd_kafka_queue_get_main(self.handle)

    def serve(self, seconds: float) -> None:
        """Report what there is to report; if there is nothing, wait so long for something."""
        self._next(round(seconds * 1000))
        # Later events are left for the next call, because on a busy machine there is always
        # something.
        for _ in range(self._calls.rd_kafka_queue_length(self._queue)):
            self._next(0)

    def close(self) -> None:
        """End the client, once only its main queue refers to it any more; this is idempotent.

        Otherwise it would wait for the other references for ever.
        """
        if self.handle:
            self._calls.rd_kafka_queue_destroy(self._queue)
            self._calls.rd_kafka_destroy(self.handle)
            self.handle = None

    def leave(self) -> None:
        """Abandon the client, with its threads and what it has: it is not ended any more."""
        self.handle = None

    def _log_in(self, token: str, expires_s: float) -> None:
        """Set the token for OAUTHBEARER. It outlives the client, and so is never refreshed."""
        reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
        user = b"client"
        arguments = (self.handle, token.encode(), round(expires_s * 1000), user, None, 0)
        if self._calls.rd_kafka_oauthbearer_set_token(*arguments, reason, len(reason)):
            raise SpecificationError(f"librdkafka refuses the token: {_text(reason)}")

    def _next(self, wait_ms: int) -> None:
        event = self._calls.rd_kafka_queue_poll(self._queue, wait_ms)
        if event is None:
            return
        try:
            hear = self._heard.get(self._calls.rd_kafka_event_type(event))
            if hear is not None:
                hear(event)
        finally:
            # This also frees what it reports, such as messages, which nothing reports again.
            self._calls.rd_kafka_event_destroy(event)

    def _note(self, event: int) -> None:
        if self._calls.rd_kafka_event_error_is_fatal(event):
            # The event itself does not say that nothing more will be taken.
            reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
            self._calls.rd_kafka_fatal_error(self.handle, reason, len(reason))
            self.fatal = _text(reason)
            return
        code = self._calls.rd_kafka_event_error(event)
        said = self._calls.rd_kafka_event_error_string(event) or b""
        note_error(KafkaError(code, said.decode(errors="replace")))


def _handle(calls: ctypes.CDLL, kind: int, properties: Config, events: int) -> int:
    """Return the client; raise SpecificationError for properties that librdkafka does not take."""
    reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
    configuration = calls.rd_kafka_conf_new()
    for name, value in properties.items():
        arguments = (configuration, name.encode(), str(value).encode(), reason, len(reason))
        if calls.rd_kafka_conf_set(*arguments) != lib.CONF_OK:
            calls.rd_kafka_conf_destroy(configuration)
            raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    # What is no event is a callback, and without a callback it is lost: reports would not even be
    # made.
    calls.rd_kafka_conf_set_events(configuration, events)
    made: int | None = calls.rd_kafka_new(kind, configuration, reason, len(reason))
    if not made:
        calls.rd_kafka_conf_destroy(configuration)
        raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    return made


def _text(reason: ctypes.Array[ctypes.c_char]) -> str:
    return reason.value.decode(errors="replace")


# --- consumer -------------------------------------------------------------------------------------
#
# A consumer of one topic that assigns itself partitions, and takes many messages at once.


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


# --- producer -------------------------------------------------------------------------------------
#
# A producer that takes and reports many records at once. It may send to several topics.


ROWS_MAX = 1_000
BLOCK_BYTES = 4 << 20
"""The size of the block in which values are made, unless one value is larger. The values are handed
over, then the next are made."""
FLUSH_MS = 1
"""The length of a flush, in milliseconds. A flush tells the library's threads to wait for no more
records (``linger.ms``), and they must look once while it lasts."""

Integers = NDArray[np.int64]


class BatchProducer:
    """A client that sends the records of one session; it belongs to one thread.

    It passes reports on from within :meth:`serve`. The constructor raises SpecificationError for
    properties that librdkafka does not take, and ClientFailed where the library cannot be called.

    Args:
        reported: Is given delivery reports as they come, those of an event at once.
        statistics: Is given the library's statistics, as JSON.
    """

    def __init__(
        self,
        properties: Config,
        reported: Callable[[Reports], None],
        statistics: Callable[[str], None],
    ) -> None:
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
        self._topics: list[int] = []

    def sender(
        self,
        topic: str,
        encoder: Encoder,
        keys: Keys | None,
        place: int = 0,
        among: int = 1,
        tombstones: Encoder | None = None,
    ) -> "TopicSender":
        """Return a sender of records to a topic.

        ``place`` is the number of the topic ``among`` those that the client sends to.
        ``tombstones`` encodes the identities of its tombstones, if it sends any. Raise
        SpecificationError, and close the client, for a topic that librdkafka does not take.
        """
        # Its configuration is the client's, which has the topic's properties, too.
        made: int | None = self._calls.rd_kafka_topic_new(self._client.handle, topic.encode(), None)
        if not made:
            why = self._calls.rd_kafka_err2str(self._calls.rd_kafka_last_error()).decode()
            self.close()
            raise SpecificationError(f"librdkafka refuses: topic {topic}: {why}")
        self._topics.append(made)
        deleter = None
        if keys is not None and tombstones is not None:
            deleter = _Deleter(self._client.handle, made, tombstones, keys)
        return TopicSender(made, encoder, keys, place, among, deleter)

    @property
    def fatal(self) -> str | None:
        """The reason for which it failed for good; None while it has not."""
        return self._client.fatal

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
        # What refers to the client keeps it from ending, and it would wait for that for ever.
        while self._topics:
            self._calls.rd_kafka_topic_destroy(self._topics.pop())
        self._client.close()


class TopicSender:
    """A sender of records to one topic of a client (:meth:`BatchProducer.sender`).

    The client reports the records of its topics by number. Of ``among`` topics, record ``s`` of the
    topic at ``place`` has number ``s * among + place``.
    """

    def __init__(
        self,
        topic: int,
        encoder: Encoder,
        keys: Keys | None,
        place: int,
        among: int,
        deleter: "_Deleter | None" = None,
    ) -> None:
        self._topic = topic
        self._deleter = deleter
        self._keys = keys
        self._place = place
        self._among = among
        rows = max(1, min(ROWS_MAX, BLOCK_BYTES // encoder.sizes[1]))
        self._values = Values(encoder, rows)
        self._messages = np.zeros(rows, MESSAGE)
        self._encoder = encoder
        self._one = RdKafkaMessage()
        self._calls = library()

    def produce(
        self, sequences: Integers, turns: Integers, tombstones: NDArray[np.bool_] | None = None
    ) -> Mapping[int, int]:
        """Hand over the records of these sequence numbers, in this order to each partition.

        Args:
            turns: The number of each record's key; of its partition, where records have no keys.
            tombstones: Whether each record is a tombstone; None if none is.

        Returns librdkafka's codes of the records that are refused, by sequence number.
        """
        refused: dict[int, int] = {}
        if tombstones is not None and tombstones.any():
            ends = np.flatnonzero(np.diff(tombstones)) + 1
            for alike in np.split(np.arange(len(sequences)), ends):
                send = self._delete if tombstones[alike[0]] else self.produce
                refused.update(send(sequences[alike], turns[alike]))
            return refused
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

    def _delete(self, sequences: Integers, turns: Integers) -> Mapping[int, int]:
        """Hand over the same as tombstones."""
        assert self._deleter is not None, "no encoder of tombstones was given"
        rows = zip(sequences.tolist(), turns.tolist(), strict=True)
        codes = {
            sequence: self._deleter.send(sequence, turn, sequence * self._among + self._place)
            for sequence, turn in rows
        }
        return {sequence: code for sequence, code in codes.items() if code}

    def _produce_one(self, sequence: int, turn: int) -> int:
        """Send one record by itself; return librdkafka's code where it is refused, else 0."""
        value, one = self._encoder.encode(sequence), self._one
        one.payload = ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p)
        one.len = len(value)
        one.private = sequence * self._among + self._place
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
        messages["private"] = sequences * self._among + self._place
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


class _Deleter:
    """A sender of tombstones, one at a time: ``rd_kafka_produce_batch`` knows no headers."""

    def __init__(self, client: int | None, topic: int, encoder: Encoder, keys: Keys) -> None:
        self._client = client
        self._encoder = encoder
        self._keys = keys
        self._calls = library()
        self._arguments = (RdKafkaArgument * 5)()
        kinds = (
            *(lib.VALUE_OF_TOPIC, lib.VALUE_OF_PARTITION, lib.VALUE_OF_KEY),
            *(lib.VALUE_OF_OPAQUE, lib.VALUE_OF_HEADER),
        )
        for argument, kind in zip(self._arguments, kinds, strict=True):
            argument.vtype = kind
        self._arguments[0].u.rkt = topic
        self._arguments[4].u.header.name = TOMBSTONE_HEADER.encode()

    def send(self, sequence: int, turn: int, number: int) -> int:
        """Send the tombstone of that sequence number for a key, under the number of its report.
        Return librdkafka's code if it is refused, else 0."""
        key, identity = self._keys.text(turn), self._encoder.encode(sequence)
        _, partition, of_key, opaque, header = self._arguments
        partition.u.i32 = int(self._keys.destinations[turn])
        of_key.u.mem.ptr, of_key.u.mem.size = key, len(key)
        opaque.u.ptr = number
        header.u.header.val, header.u.header.size = identity, len(identity)
        error = self._calls.rd_kafka_produceva(
            self._client, ctypes.addressof(self._arguments), len(self._arguments)
        )
        if not error:
            return 0
        code: int = self._calls.rd_kafka_error_code(error)
        self._calls.rd_kafka_error_destroy(error)
        return code
