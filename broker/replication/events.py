"""What goes into a replica's state machine and what comes out of it.

A :class:`~broker.replication.replica.Replica` is fed events (``step``) and hands back effects.
The one who feeds it (the server, or the simulator) carries the effects out *in the order given*,
before it feeds the next event: ``Truncate`` and ``Append`` touch the log, then ``WriteIsr`` goes
to ZooKeeper, then ``Respond`` leaves. That order is the durability rule: nothing is answered that
is not in the log (in the operating system's hands, as Kafka's default is; fsync is the log's
business, ``log.flush.interval.*``).
"""

from typing import Protocol

from kio.schema.errors import ErrorCode

from ackproof.broker.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    ZkVersion,
    value,
)


class Batch(Protocol):
    """A record batch, seen from outside: how many offsets it spans and where it stands."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int:
        """Offset after the batch's last record (``base_offset + last_offset_delta + 1``)."""

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that appended it (partitionLeaderEpoch of the batch header)."""


# --- events ---------------------------------------------------------------------------------


@value(kw_only=True)
class LeaderAndIsr:
    """What the coordinator says of this partition: a controller (one partition of its LeaderAndIsr
    request), or what the partition's own leader or follower read in ZooKeeper (seed 001)."""

    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    zk_version: ZkVersion
    now: Millis
    serves: bool = True
    """Of a leader: clients are served at once. Else from :class:`StartServing` on; until then
    followers catch up, and the ISR is left alone (seed 001, ``becomeLeader``)."""
    as_printed: bool = False
    """Without the fences that seed 001 does not have: it counts whatever its epoch, and a
    new leader's high watermark is its log's end (``r.hw = r.leo``)."""


@value(kw_only=True)
class StartServing:
    """The leader of this epoch, which was waiting for its followers, now serves clients."""

    leader_epoch: LeaderEpoch
    now: Millis


@value(kw_only=True)
class ReplicasChanged:
    """Other replicas are assigned, or are about to be, within the leader's epoch."""

    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]


@value(kw_only=True)
class Resigned:
    """This broker leads no more in this epoch, and who does is not known yet. Who waits is
    answered NOT_LEADER_OR_FOLLOWER."""

    leader_epoch: LeaderEpoch


@value(kw_only=True)
class Produce:
    """A client's batches for this partition, already validated (CRC, size, magic, sequence).

    ``request`` is the caller's token; exactly one :class:`Respond` will carry it back, at once or
    later. ``deadline`` bounds the wait of acks=-1.
    """

    request: int
    batches: tuple[Batch, ...]
    acks: int
    deadline: Millis
    now: Millis
    appended: tuple[Offset, Offset] | None = None
    """From where to where the log holds these batches already: an idempotent producer has sent
    them again. They are answered as if they were appended now, and are not appended."""


@value(kw_only=True)
class FollowerFetch:
    """A follower fetched from ``offset``: everything below it is in that follower's log."""

    replica: BrokerId
    offset: Offset
    log_start_offset: Offset
    now: Millis


@value(kw_only=True)
class Fetched:
    """The leader's answer to this follower's fetch, for the epoch in which it was asked."""

    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    batches: tuple[Batch, ...]
    high_watermark: Offset
    log_start_offset: Offset


@value(kw_only=True)
class EpochEndOffset:
    """The leader's answer to OffsetForLeaderEpoch, asked in ``current_leader_epoch``.

    ``leader_epoch`` is the largest epoch the leader knows that is not above the one asked for,
    ``end_offset`` where it ended; both -1 when the leader knows none (KIP-101, KIP-279).
    """

    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch
    end_offset: Offset


@value(kw_only=True)
class FetchOutOfRange:
    """The leader answered a fetch of epoch ``leader_epoch`` with OFFSET_OUT_OF_RANGE.

    ``log_start_offset`` and ``log_end_offset`` are the leader's, asked for afterwards (ListOffsets
    earliest and latest, as a replica, so that latest is the log's end).
    """

    leader_epoch: LeaderEpoch
    log_start_offset: Offset
    log_end_offset: Offset


@value(kw_only=True)
class LogStartMoved:
    """The log gave up its oldest records by itself (retention): it starts at ``offset`` now."""

    offset: Offset


@value(kw_only=True)
class LogEndMoved:
    """The log ends at ``offset`` now, lower than :class:`Truncate` asked for: that was inside a
    batch, and batches are not split. What is missing is fetched again."""

    offset: Offset


@value(kw_only=True)
class Stopped:
    """The replica is given up, and its log about to be deleted. Later events concern nobody."""


@value(kw_only=True)
class DeleteRecords:
    """A client gives up the records below ``offset``, which is not above the high watermark."""

    offset: Offset


@value(kw_only=True)
class IsrWritten:
    """ZooKeeper took the ISR that :class:`WriteIsr` asked for; the znode now has ``zk_version``."""

    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion


@value(kw_only=True)
class IsrWriteFailed:
    """The ISR write did not happen, or nobody knows.

    ``conflict``: the znode has another version (the controller wrote it): wait for the
    controller's LeaderAndIsr. Otherwise (connection lost) the write is tried again.
    """

    leader_epoch: LeaderEpoch
    conflict: bool


@value(kw_only=True)
class IsrRefused:
    """The ISR was not written, and will not be: somebody in it may not join yet (KIP-841's
    INELIGIBLE_REPLICA). It is what it was; who may not join tries again with its next fetch."""

    leader_epoch: LeaderEpoch


@value(kw_only=True)
class Tick:
    """Time passed. Expires acks=-1 waits, and shrinks the ISR when a check is due."""

    now: Millis


Event = (
    LeaderAndIsr
    | StartServing
    | ReplicasChanged
    | Resigned
    | Produce
    | FollowerFetch
    | Fetched
    | EpochEndOffset
    | FetchOutOfRange
    | LogStartMoved
    | LogEndMoved
    | Stopped
    | DeleteRecords
    | IsrWritten
    | IsrWriteFailed
    | IsrRefused
    | Tick
)


# --- effects --------------------------------------------------------------------------------


@value(kw_only=True)
class Truncate:
    """Cut the log so that ``offset`` is its end (leader-epoch-checkpoint likewise)."""

    offset: Offset


@value(kw_only=True)
class TruncateFully:
    """Throw the whole log away and begin anew at ``offset`` (fetch offset out of range)."""

    offset: Offset


@value(kw_only=True)
class Append:
    """Append batches at ``base_offset``.

    On a leader the log sets base offset and ``leader_epoch`` in the batch headers; on a follower
    ``leader_epoch`` is None and the batches are stored as they came.
    """

    batches: tuple[Batch, ...]
    base_offset: Offset
    leader_epoch: LeaderEpoch | None


@value(kw_only=True)
class StartEpoch:
    """A new leader notes where its epoch begins (leader-epoch-checkpoint), before any append."""

    leader_epoch: LeaderEpoch
    offset: Offset


@value(kw_only=True)
class AdvanceLogStart:
    """Give up the records below ``offset``, as a client asked for or the leader has done."""

    offset: Offset


@value(kw_only=True)
class WriteIsr:
    """Write this ISR to the partition's state znode, if its version is still ``zk_version``.

    It may be a second try of a write whose outcome was unknown. A version that does not fit is
    therefore a conflict only if the znode holds something else than this leader, epoch and ISR;
    if it holds just that, the first try succeeded: :class:`IsrWritten` with the version found.
    """

    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion


@value(kw_only=True)
class HighWatermark:
    """The high watermark moved: waiting consumers and fetching followers may be answered."""

    offset: Offset


@value(kw_only=True)
class Respond:
    """Answer the produce request ``request``. ``base_offset`` is -1 with an error."""

    request: int
    error: ErrorCode
    base_offset: Offset


@value(kw_only=True)
class LeaderLostRecords:
    """Alarm: the leader has not got what it served to this follower in this very epoch.

    Nothing is cut. The follower must not go on fetching in ``leader_epoch``: when the leader has
    passed ``log_end_offset`` again, with other records, it would be taken for in sync.
    """

    leader_epoch: LeaderEpoch
    log_end_offset: Offset


Effect = (
    Truncate
    | TruncateFully
    | Append
    | StartEpoch
    | AdvanceLogStart
    | WriteIsr
    | HighWatermark
    | Respond
    | LeaderLostRecords
)


# --- what a follower's fetcher is to do next ------------------------------------------------


@value(kw_only=True)
class FetchFrom:
    """Fetch from ``leader``, with ``leader_epoch`` as the request's current leader epoch."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    offset: Offset
    log_start_offset: Offset


@value(kw_only=True)
class AskEpoch:
    """Ask ``leader`` where ``epoch`` ended (OffsetForLeaderEpoch), in ``leader_epoch``."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    epoch: LeaderEpoch
