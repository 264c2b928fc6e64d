"""The metadata log, fetched as by a broker: from the active controller, up to its high watermark.

All requests use one connection.
"""

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v13.response import FetchResponse, PartitionData
from kio.schema.fetch_snapshot.v0.request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from kio.schema.fetch_snapshot.v0.response import FetchSnapshotResponse
from kio.schema.fetch_snapshot.v0.response import PartitionSnapshot as SnapshotPiece
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload

from ackproof.infra.api.interface import ViewUnavailable, ViewUnsupported
from ackproof.infra.api.metadata import ClusterChange
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.records import (
    MetadataBatch,
    RecordSchemas,
    UnknownRecord,
    batches,
    parts,
)
from ackproof.infra.systems.observer import PollingObserver, Report
from ackproof.infra.systems.wire import Connect, R, ask, in_the_clear

_METADATA = uuid.UUID(int=1)
"""The value of ``Uuid.METADATA_TOPIC_ID``."""
_METADATA_TOPIC = TopicName("__cluster_metadata")
_BYTES_MAX = 8 * 1024 * 1024
_SNAPSHOT_WITHIN_S = 30.0
_BEGINNING_EPOCH = 0
"""The last fetched epoch in a request before anything was fetched. Less is an INVALID_REQUEST."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOrigin:
    """The origin of a reading: the ``node.id`` of the active controller, and its epoch."""

    controller: int
    epoch: int


class MetadataLog:
    """A reader of the log. Thread-safe.

    Controllers keep all of the log for at least seven days, or 100 MB
    (``metadata.max.retention.*``). An older log begins with a snapshot, which is read first.

    Args:
        controllers: The address of each controller, by ``node.id``.
        schemas: The release's encoding of the log's records.
        connect: Opens a connection to a controller.
        keeps: Returns whether the image keeps a topic with this name; None for all topics.
        cluster_id: The id of the cluster, without which no controller answers; None for any.
    """

    def __init__(
        self,
        controllers: Mapping[int, Address],
        schemas: RecordSchemas,
        connect: Connect = in_the_clear,
        keeps: Callable[[str], bool] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self._controllers = controllers
        self._connect = connect
        self._schemas = schemas
        self._cluster_id = cluster_id
        self._lock = threading.Lock()
        self._image = Image(keeps)
        self._end = 0
        self._end_epoch = _BEGINNING_EPOCH
        self._quorum_epoch = 0
        self._active = next(iter(controllers))
        self._connection: socket.socket | None = None

    def read(
        self, timeout_s: float, on_part: Callable[[Image, ReadingOrigin], None] = lambda *_: None
    ) -> tuple[Image, ReadingOrigin]:
        """Read up to the present high watermark, and return the image, which is valid until the
        next reading.

        ``on_part`` is called after each batch, and in a batch before a partition changes again, so
        that no version of a partition is skipped. Raises ViewUnavailable, and ViewUnsupported for a
        record that can never be read.
        """
        deadline = monotonic() + timeout_s
        with self._lock:
            while True:
                moment, found = self._fetched(deadline)
                self._apply(found, moment, on_part)
                if self._end >= found.high_watermark:
                    on_part(self._image, moment)
                    return self._image, moment

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock:
            self._disconnect()

    def _apply(
        self,
        found: PartitionData,
        moment: ReadingOrigin,
        on_part: Callable[[Image, ReadingOrigin], None],
    ) -> None:
        before = self._end
        for written in self._committed(found):
            for records in parts(written.records):
                self._image.apply(records, written.epoch)
                on_part(self._image, moment)
            self._end, self._end_epoch = written.end, written.epoch
        if self._end == before < found.high_watermark:
            raise ViewUnavailable(f"the metadata log cannot be read from offset {before} on")

    def _committed(self, found: PartitionData) -> Iterator[MetadataBatch]:
        """Yield what was fetched below the high watermark: no other leader truncates it."""
        for written in self._understood(bytes(found.records or b"")):
            if self._end < written.end <= found.high_watermark:
                yield written

    def _fetched(self, deadline: float) -> tuple[ReadingOrigin, PartitionData]:
        """Fetch from the active controller, whichever it is."""
        refusals: dict[int, str] = {}
        asked = [self._active, *(n for n in self._controllers if n != self._active)]
        share_s = max(deadline - monotonic(), 0.0) / len(asked)
        for controller in asked:
            self._turn_to(controller)
            try:
                found = self._from_active(monotonic() + share_s)
            except OSError as silence:
                self._disconnect()
                refusals[controller] = str(silence)
                continue
            refusal = _refusal(found, controller)
            if refusal is None:
                return ReadingOrigin(controller=controller, epoch=self._quorum_epoch), found
            refusals[controller] = refusal
        reasons = ", ".join(f"{controller}: {why}" for controller, why in refusals.items())
        raise ViewUnavailable(f"no controller answers as the active controller ({reasons})")

    def _from_active(self, deadline: float) -> PartitionData:
        """Return the answer of the connected controller.

        It is asked again if it knows a later epoch of the quorum than the request had, or if the
        snapshot with which its log begins was read first.
        """
        found = self._exchange(deadline)
        if found.current_leader.leader_epoch > self._quorum_epoch:
            self._quorum_epoch = found.current_leader.leader_epoch
            found = self._exchange(deadline)
        if found.error_code is ErrorCode.none and found.snapshot_id.end_offset >= 0:
            self._take(found.snapshot_id.end_offset, found.snapshot_id.epoch)
            found = self._exchange(deadline)
        return found

    def _exchange(self, deadline: float) -> PartitionData:
        request = _request(self._end, self._end_epoch, self._quorum_epoch, self._cluster_id)
        return _partition(self._ask(request, FetchResponse, deadline))

    def _ask(self, request: RequestPayload, answer: type[R], deadline: float) -> R:
        if self._connection is None:
            self._connection = self._connect(self._controllers[self._active], deadline)
        return ask(self._connection, request, answer, deadline)

    def _take(self, end: i64, epoch: i32) -> None:
        """Replace the image by that of the snapshot up to an offset, whose size is that of the
        cluster: it has a time limit of its own.

        Raises OSError without the whole snapshot, and ViewUnsupported for a record that cannot be
        read.
        """
        deadline = monotonic() + _SNAPSHOT_WITHIN_S
        content, size = bytearray(), 1
        while len(content) < size:
            request = _snapshot_request(end, epoch, self._quorum_epoch, len(content))
            piece = _snapshot_piece(self._ask(request, FetchSnapshotResponse, deadline))
            content += piece.unaligned_records or b""
            size = int(piece.size)
            if not piece.unaligned_records:
                break
        image, read = Image(self._image.keeps), 0
        for written in self._understood(bytes(content)):
            image.apply(written.records, written.epoch)
            read += 1
        if len(content) != size or not read:
            raise OSError(f"its snapshot up to offset {end} is incomplete")
        self._image, self._end, self._end_epoch = image, int(end), int(epoch)

    def _understood(self, content: bytes) -> Iterator[MetadataBatch]:
        """Yield the batches of a fetched piece. Raises ViewUnsupported."""
        try:
            yield from batches(content, self._schemas)
        except UnknownRecord as unknown:
            raise ViewUnsupported(str(unknown)) from unknown

    def _turn_to(self, controller: int) -> None:
        if controller != self._active:
            self._disconnect()
            self._active = controller

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.close()


def reported_leader(
    address: Address, timeout_s: float, connect: Connect = in_the_clear
) -> int | None:
    """Return the ``node.id`` of the controller that this one takes for the active one.

    Return -1 if it knows none, and None without an answer.
    """
    deadline = monotonic() + timeout_s
    try:
        with connect(address, deadline) as connection:
            request = _request(0, _BEGINNING_EPOCH, 0)
            answer = _partition(ask(connection, request, FetchResponse, deadline))
    except OSError:
        return None
    return int(answer.current_leader.leader_id)


def _refusal(found: PartitionData, controller: int) -> str | None:
    """Return why an answer of a controller cannot be used, or None if it can."""
    if found.error_code is not ErrorCode.none:
        return found.error_code.name
    if found.diverging_epoch.epoch >= 0:
        return "its log differs from the log read so far"
    if found.snapshot_id.end_offset >= 0:
        return f"its log begins with a newer snapshot, at offset {found.snapshot_id.end_offset}"
    if found.current_leader.leader_id != controller:
        return f"its node.id is {found.current_leader.leader_id}"
    # A new active controller must first commit a record of its own.
    return None if found.high_watermark >= 0 else "it does not know its high watermark yet"


def _request(
    offset: int, offset_epoch: int, quorum_epoch: int, cluster_id: str | None = None
) -> FetchRequest:
    partition = FetchPartition(
        partition=i32(0),
        current_leader_epoch=i32(quorum_epoch),
        fetch_offset=i64(offset),
        last_fetched_epoch=i32(offset_epoch),
        partition_max_bytes=i32(_BYTES_MAX),
    )
    return FetchRequest(
        cluster_id=cluster_id,
        max_wait=i32Timedelta.parse(timedelta()),
        min_bytes=i32(0),
        max_bytes=i32(_BYTES_MAX),
        topics=(FetchTopic(topic_id=_METADATA, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _partition(answer: FetchResponse) -> PartitionData:
    """Return the metadata log's one partition. Raises OSError for an answer without it."""
    found = [one for topic in answer.responses for one in topic.partitions]
    if len(found) != 1:
        raise OSError(f"a fetch of the metadata log was answered with {answer.error_code.name}")
    return found[0]


def _snapshot_request(
    end: i64, epoch: i32, quorum_epoch: int, position: int
) -> FetchSnapshotRequest:
    partition = PartitionSnapshot(
        partition=i32(0),
        current_leader_epoch=i32(quorum_epoch),
        snapshot_id=SnapshotId(end_offset=end, epoch=epoch),
        position=i64(position),
    )
    return FetchSnapshotRequest(
        max_bytes=i32(_BYTES_MAX),
        topics=(TopicSnapshot(name=_METADATA_TOPIC, partitions=(partition,)),),
    )


def _snapshot_piece(answer: FetchSnapshotResponse) -> SnapshotPiece:
    """Return the piece of the metadata log's snapshot. Raises OSError for an answer without it."""
    found = [one for topic in answer.topics for one in topic.partitions]
    if len(found) != 1 or found[0].error_code is not ErrorCode.none:
        error = found[0].error_code if len(found) == 1 else answer.error_code
        raise OSError(f"its snapshot cannot be fetched: {error.name}")
    return found[0]


# --- observing the log ------------------------------------------------------------------------
#
# The observer of the metadata log.
#
# It misses nothing, but sees some of it late: while the active controller does not answer, and
# before another one is elected.


_EVERY_S = 0.1
_ANSWER_S = 2.0


def log_observer(
    log: MetadataLog,
    on_change: Callable[[ClusterChange], None],
    clock: Callable[[], int] = time.time_ns,
    *,
    from_now: bool = False,
) -> PollingObserver:
    """Return an observer of ``log``, which has no other user and is closed with it.

    ``from_now`` is whether the present state is the first that is reported. Otherwise the states
    that the log had before the first reading are reported, too.
    """
    waits = from_now

    def ask(report: Report) -> None:
        nonlocal waits

        def on_part(image: Image, moment: ReadingOrigin) -> None:
            if not waits:
                report(image.view(moment.controller, moment.epoch))

        now = log.read(_ANSWER_S, on_part)
        if waits:
            waits = False
            on_part(*now)

    return PollingObserver(ask, _EVERY_S, on_change, clock, log.close)


# --- quorum -----------------------------------------------------------------------------------


LEADER, FOLLOWER = "leader", "follower"
_WITHIN_S = 1.0


class Quorum:
    """An ``infra.api.metadata.Ensemble`` of KRaft's controllers.

    Args:
        controllers: The ``node.id`` and address of each, by its name.
        connect: Opens a connection to a controller.
    """

    def __init__(
        self, controllers: Mapping[str, tuple[int, Address]], connect: Connect = in_the_clear
    ) -> None:
        self._controllers = controllers
        self._connect = connect

    @property
    def ours(self) -> frozenset[int]:
        return frozenset()

    def modes(self) -> Mapping[str, str]:
        """Return ``leader`` or ``follower`` for each. One that follows no leader is left out."""
        leaders = on_all(self._leader_by, list(self._controllers.values()))
        return {
            name: LEADER if leader == number else FOLLOWER
            for (name, (number, _)), leader in zip(self._controllers.items(), leaders, strict=True)
            if leader is not None and leader >= 0
        }

    def answers(self, name: str) -> bool:
        """Return whether the controller of that name answers, whether or not one leads."""
        return self._leader_by(self._controllers[name]) is not None

    def end_session(self, session: int) -> bool:  # noqa: ARG002
        return False

    def occupy(self, broker: int) -> bool:  # noqa: ARG002
        return False

    def vacate(self, broker: int) -> None: ...

    def _leader_by(self, controller: tuple[int, Address]) -> int | None:
        return reported_leader(controller[1], _WITHIN_S, self._connect)
