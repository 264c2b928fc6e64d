"""A client of the library, of either kind.

It is made from properties, heard by the events of its main queue, and ended.
"""

import ctypes
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError

from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.process import note_error
from ackproof.workloads.spec import Config, SpecificationError


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
        self.handle: int | None = _handle(self._calls, kind, properties, sum(self._heard))
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
