"""librdkafka's delivery reports: noted when they come, recorded when the client library has called
back with all that there were. A report costs a note then, and what is made of many costs little.

A record is known by its own value, so that one callback does for all, and no object has to be made
for each that says which it is.
"""

from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from history.payload import sequences_of
from workloads.outcomes import of_report
from workloads.recorder import SendRecorder


class Reports:
    """The delivery reports of one producer.

    Args:
        acknowledged: Whether brokers acknowledge records: without, no offset is told.
        clock: Nanoseconds of the Unix epoch.
    """

    def __init__(
        self, recorder: SendRecorder, acknowledged: bool, clock: Callable[[], int]
    ) -> None:
        self._recorder = recorder
        self._acknowledged = acknowledged
        self._clock = clock
        self._messages: list[Message] = []
        self._times: list[int] = []

    def delivered(self, _error: KafkaError | None, message: Message) -> None:
        """For ``on_delivery``. The message has the error, too."""
        self._times.append(self._clock())
        self._messages.append(message)

    def record(self) -> None:
        """Record the outcomes that were reported; to be called whenever the client library has
        called back, whatever else came of that."""
        messages, times = self._messages, self._times
        self._messages, self._times = [], []
        errors = [message.error() for message in messages]
        told = self._acknowledged
        self._recorder.resolve_all(
            sequences=sequences_of([message.value() for message in messages]),
            outcomes=[of_report(error) for error in errors],
            times=times,
            offsets=[
                message.offset() if told and error is None else None
                for message, error in zip(messages, errors, strict=True)
            ],
            errors=[None if error is None else error.name() for error in errors],
        )
