"""A member of a cell's share group (KIP-932).

``python -m ackproof.workloads.consuming.share_member SPEC.json``

Each record that a poll returns is recorded, and acknowledged at once: accepted, released for
another delivery, or rejected. The seed draws which of these, for each delivery. The broker holds a
lock on the record until then. The outcome of an acknowledgement comes with a later poll.

Rows are written to disk before the records are acknowledged. A member that crashes has therefore
acknowledged nothing that its history does not have.

SIGTERM stops the member. It goes on until nothing was delivered to it for :data:`IDLE_S`, or for
:data:`CATCH_UP_S`. Then it leaves.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
from confluent_kafka import (
    AcknowledgeType,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)

from ackproof.history.names import SendType
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.configuration import share_member_properties
from ackproof.workloads.consuming.polling import WAIT_SECONDS, is_fatal
from ackproof.workloads.interface import CATCH_UP_S
from ackproof.workloads.process import ClientFailed, ProgressFile, main, note_error, within
from ackproof.workloads.spec import ShareMemberSpec, SpecificationError, load

DELIVERED = "delivered"
"""The event of a record that a poll returned."""
IDLE_S = 5.0
"""The member has caught up when nothing was delivered for this time, in seconds."""
CLOSE_S = 10.0
"""The time limit for leaving the group, in seconds."""

_TYPES: Mapping[str, AcknowledgeType] = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}
_log = logging.getLogger(__name__)

Place = tuple[int, int]
"""The partition and offset of a record."""


class DeliveryRecorder:
    """A recorder of the rows of ``deliveries`` of one member."""

    def __init__(self, spec: ShareMemberSpec) -> None:
        partitions = [(spec.topic, number) for number in range(spec.partitions)]
        self._table = PartitionedWriter(spec.history, "deliveries", spec.client, partitions)
        constants = {"client": spec.client, "group": spec.group}
        self._rows = self._table.columns(spec.topic, spec.partitions, constants)
        self._progress = ProgressFile(spec.progress)
        self._from: set[int] = set()
        self._counts = dict.fromkeys(("shown", "acknowledged"), 0)

    def delivered(self, messages: Sequence[Message]) -> None:
        """Record the records that a poll has just returned."""
        counts = np.array([one.delivery_count() or 0 for one in messages], np.int32)
        places = [(one.partition(), one.offset()) for one in messages]
        self._from.update(partition for partition, _ in places)
        self._counts["shown"] += len(places)
        self._record(DELIVERED, places, delivery=np.ma.masked_less(counts, 1))

    def acknowledged(
        self, event: SendType, places: Sequence[Place], how: Sequence[str], error: str | None = None
    ) -> None:
        """Record an event of the acknowledgements of records; ``how`` has each one's."""
        self._counts["acknowledged"] += len(places) if event is SendType.OK else 0
        self._record(event, places, acknowledgement=how, error=error)

    def flush(self) -> None:
        """Flush the rows now."""
        self._table.flush()

    def keep(self) -> None:
        """Flush the rows and rewrite the progress file when they are due."""
        now = time.monotonic()
        self._table.flush_due(now)
        if self._progress.due(now):
            self._progress.write(self.figures())

    def close(self) -> None:
        """Close the table, and write the last figures."""
        self._table.close()
        self._progress.write(self.figures())

    def figures(self) -> Mapping[str, int | str]:
        """Return the figures for the progress file: the partitions that records came from
        (``assigned``), the records that were ``shown`` and ``acknowledged``, and the ``time`` in
        nanoseconds of the Unix epoch."""
        return {"assigned": len(self._from), "time": time.time_ns(), **self._counts}

    def _record(self, event: str, places: Sequence[Place], **columns: object) -> None:
        partitions, offsets = zip(*places, strict=True)
        absent = dict.fromkeys(("delivery", "acknowledgement", "error"))
        self._rows.extend(
            len(places),
            partition=np.array(partitions, np.int32),
            time=time.time_ns(),
            event=event,
            offset=np.array(offsets, np.int64),
            **{**absent, **columns},
        )


class ShareMember:
    """A member that reads and acknowledges until it is told to stop.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: ShareMemberSpec, recorder: DeliveryRecorder) -> None:
        self._spec = spec
        self._recorder = recorder
        self._pending: dict[Place, str] = {}
        self._overtaken: set[Place] = set()
        self._left = False
        try:
            self._consumer = ShareConsumer(
                {**share_member_properties(spec), "error_cb": note_error}
            )
        except KafkaException as error:
            raise SpecificationError(f"librdkafka refuses: {error.args[0].str()}") from None
        self._consumer.set_acknowledgement_commit_callback(self._answered)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Read until ``stopping``, then until nothing is delivered any more, and leave.

        Raise ClientFailed after a fatal error.
        """
        self._consumer.subscribe([self._spec.topic])
        try:
            while not stopping():
                self._turn()
            now = since = time.monotonic()
            deadline = now + CATCH_UP_S
            while now < min(deadline, since + IDLE_S):
                if self._turn():
                    since = time.monotonic()
                now = time.monotonic()
        finally:
            self._leave()

    def _turn(self) -> int:
        """Poll once, acknowledge what came, and return how many records that were."""
        messages = [one for one in self._poll() if not _is_failure(one)]
        if messages:
            self._recorder.delivered(messages)
            self._acknowledge(messages)
        self._recorder.keep()
        return len(messages)

    def _poll(self) -> Iterable[Message]:
        try:
            return list(self._consumer.poll(WAIT_SECONDS))
        except KafkaException as refusal:
            _raise_if_fatal(refusal.args[0])
            return ()

    def _acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge each record.

        A record may come again before an earlier acknowledgement of it was answered. Answers name
        the record only, so from then on it is unknown which acknowledgement one belongs to.
        """
        places = [(one.partition(), one.offset()) for one in messages]
        how = [self._drawn(one) for one in messages]
        again = [one for one in places if one in self._pending]
        self._overtaken.update(again)
        self._finish(SendType.INFO, again, None)
        self._recorder.acknowledged(SendType.INVOKE, places, how)
        self._recorder.flush()
        drawn = zip(places, how, strict=True)
        self._pending.update(one for one in drawn if one[0] not in self._overtaken)
        for message, one in zip(messages, how, strict=True):
            self._consumer.acknowledge(message, _TYPES[one])
        try:
            self._consumer.commit_async()
        except KafkaException as refusal:
            _raise_if_fatal(refusal.args[0])

    def _drawn(self, message: Message) -> str:
        place = (message.partition(), message.offset(), message.delivery_count())
        drawn = Random(f"{self._spec.seed} {self._spec.group} {place}").random()
        if drawn < self._spec.releases:
            return "release"
        return "reject" if drawn < self._spec.releases + self._spec.rejects else "accept"

    def _answered(
        self, offsets: Mapping[TopicPartition, Iterable[int]], exception: KafkaException | None
    ) -> None:
        """Record the answer to acknowledgements.

        An error says nothing of an attempt before it whose answer was lost.
        """
        if self._left:
            return
        error = None if exception is None else exception.args[0].name()
        outcome = SendType.OK if error is None else SendType.INFO
        answered = [(one.partition, offset) for one, many in offsets.items() for offset in many]
        self._finish(outcome, [one for one in answered if one in self._pending], error)

    def _finish(self, outcome: SendType, places: Sequence[Place], error: str | None) -> None:
        if places:
            how = [self._pending.pop(one) for one in places]
            self._recorder.acknowledged(outcome, places, how, error)

    def _leave(self) -> None:
        try:
            within(CLOSE_S, self._consumer.close)
        except (TimeoutError, KafkaException) as error:
            self._left = True
            _log.warning("the member did not leave its group: %s", error)


def _is_failure(message: Message) -> bool:
    """Return whether a message is no record, and log its error. Raise ClientFailed for a fatal
    one."""
    error = message.error()
    if error is not None:
        _raise_if_fatal(error)
    return error is not None


def _raise_if_fatal(error: KafkaError) -> None:
    note_error(error)
    if is_fatal(error):
        raise ClientFailed(f"the share consumer failed for good: {error.str()}")


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read in the share group as the specification file says, until ``stopping``."""
    spec = load(ShareMemberSpec, specification)
    with closing(DeliveryRecorder(spec)) as recorder:
        ShareMember(spec, recorder).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
