"""A client of the library, of either kind: made of properties, heard by the events of its main
queue, and ended."""

import ctypes
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError

from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.process import note_error
from ackproof.workloads.spec import Config, SpecificationError


class Client:
    """One client. It belongs to one thread; errors that it gets over by itself go to the log, from
    within :meth:`serve`.

    Args:
        kind: ``PRODUCER`` or ``CONSUMER``.
        heard: What is done with an event, by its type; errors are heard here.

    Attributes:
        handle: What the library's functions know it by; nothing when it is closed.
        fatal: What it has failed of for good; None while it has not, or has not told of it by an
            event.

    Raises (constructor) SpecificationError for properties that librdkafka does not take,
    ClientFailed where the library cannot be called.
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
        """Tell what there is to be told; if nothing, wait so long for something."""
        self._next(round(seconds * 1000))
        # What comes meanwhile is for the next time: on a busy machine there is always something.
        for _ in range(self._calls.rd_kafka_queue_length(self._queue)):
            self._next(0)

    def close(self) -> None:
        """End it, when nothing but its main queue refers to it any more: it would wait for that for
        ever. Idempotent."""
        if self.handle:
            self._calls.rd_kafka_queue_destroy(self._queue)
            self._calls.rd_kafka_destroy(self.handle)
            self.handle = None

    def leave(self) -> None:
        """Leave it behind, with its threads and what it has: it is not ended any more."""
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
            # With it goes what it tells of, such as messages: nobody tells of them again.
            self._calls.rd_kafka_event_destroy(event)

    def _note(self, event: int) -> None:
        if self._calls.rd_kafka_event_error_is_fatal(event):
            # What the event itself says does not say that nothing more will be taken.
            reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
            self._calls.rd_kafka_fatal_error(self.handle, reason, len(reason))
            self.fatal = _text(reason)
            return
        code = self._calls.rd_kafka_event_error(event)
        said = self._calls.rd_kafka_event_error_string(event) or b""
        note_error(KafkaError(code, said.decode(errors="replace")))


def _handle(calls: ctypes.CDLL, kind: int, properties: Config, events: int) -> int:
    """The client. Raises SpecificationError for properties that librdkafka does not take."""
    reason = ctypes.create_string_buffer(lib.TEXT_BYTES)
    configuration = calls.rd_kafka_conf_new()
    for name, value in properties.items():
        told = (configuration, name.encode(), str(value).encode(), reason, len(reason))
        if calls.rd_kafka_conf_set(*told) != lib.CONF_OK:
            calls.rd_kafka_conf_destroy(configuration)
            raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    # What is no event is a callback, and without one it is nowhere: reports would not even be made.
    calls.rd_kafka_conf_set_events(configuration, events)
    made: int | None = calls.rd_kafka_new(kind, configuration, reason, len(reason))
    if not made:
        calls.rd_kafka_conf_destroy(configuration)
        raise SpecificationError(f"librdkafka refuses: {_text(reason)}")
    return made


def _text(reason: ctypes.Array[ctypes.c_char]) -> str:
    return reason.value.decode(errors="replace")
