"""The events that go into a replica's state machine, and the effects that come out of it.

A :class:`~broker.replication.replica.Replica` is fed events (``step``) and returns effects. The
caller (the server or the simulator) carries the effects out *in the order given*, before it feeds
the next event. First ``Truncate`` and ``Append`` change the log, then ``WriteIsr`` goes to
ZooKeeper, then ``Respond`` leaves. This order is the durability rule: no request is answered before
its records are in the log. "In the log" means handed to the operating system, as by Kafka's
default; fsync belongs to the log (``log.flush.interval.*``).
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
    """A record batch as the replica sees it: its position and how many offsets it spans."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record (``base_offset + last_offset_delta + 1``)."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the batch (partitionLeaderEpoch of its header)."""


# --- events ---------------------------------------------------------------------------------


@value(kw_only=True)
class LeaderAndIsr:
    """The state of this partition as its coordinator gives it. The coordinator is a controller (one
    partition of its LeaderAndIsr request). In *Design V2* it is the partition's own leader or
    follower, which read the state in ZooKeeper."""

    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    zk_version: ZkVersion
    now: Millis
    serves: bool = True
    """Whether a leader serves clients at once. Otherwise it does so from :class:`StartServing` on.
    Until then followers catch up, and the leader leaves the ISR alone (*Design V2*,
    ``becomeLeader``)."""
    as_printed: bool = False
    """Whether the fences that *Design V2* does not have are left out. The state then counts
    whatever its epoch, and the high watermark of a new leader is its log's end (``r.hw = r.leo``).
    """


@value(kw_only=True)
class StartServing:
    """The leader of this epoch, which was waiting for its followers, now serves clients."""

    leader_epoch: LeaderEpoch
    now: Millis


@value(kw_only=True)
class ReplicasChanged:
    """A change of the assigned replicas, now or soon, within the leader's epoch."""

    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]


@value(kw_only=True)
class Resigned:
    """The end of this broker's leadership in this epoch, while the next leader is unknown. Waiting
    requests are answered with NOT_LEADER_OR_FOLLOWER."""

    leader_epoch: LeaderEpoch


@value(kw_only=True)
class Produce:
    """A client's batches for this partition, already validated (CRC, size, magic, sequence).

    ``request`` is the caller's token. Exactly one :class:`Respond` will carry it back, at once or
    later. ``deadline`` limits the wait of acks=-1.
    """

    request: int
    batches: tuple[Batch, ...]
    acks: int
    deadline: Millis
    now: Millis
    appended: tuple[Offset, Offset] | None = None
    """The offset range at which the log already holds these batches, because an idempotent producer
    has sent them again. They are answered like a new append, but are not appended."""


@value(kw_only=True)
class FollowerFetch:
    """A follower's fetch from ``offset``: everything below it is in that follower's log."""

    replica: BrokerId
    offset: Offset
    log_start_offset: Offset
    now: Millis


@value(kw_only=True)
class Fetched:
    """The leader's answer to this follower's fetch, for the epoch in which the fetch was sent."""

    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    batches: tuple[Batch, ...]
    high_watermark: Offset
    log_start_offset: Offset


@value(kw_only=True)
class EpochEndOffset:
    """The leader's answer to OffsetForLeaderEpoch, requested in ``current_leader_epoch``.

    ``leader_epoch`` is the largest epoch known to the leader that is not above the requested one,
    and ``end_offset`` is where it ended. Both are -1 when the leader knows no such epoch (KIP-101,
    KIP-279).
    """

    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch
    end_offset: Offset


@value(kw_only=True)
class FetchOutOfRange:
    """The leader's answer OFFSET_OUT_OF_RANGE to a fetch of epoch ``leader_epoch``.

    ``log_start_offset`` and ``log_end_offset`` are the leader's, requested afterwards by
    ListOffsets (earliest and latest). The request is sent as a replica, so that latest means the
    log's end.
    """

    leader_epoch: LeaderEpoch
    log_start_offset: Offset
    log_end_offset: Offset


@value(kw_only=True)
class LogStartMoved:
    """The removal of the oldest records by retention: the log now starts at ``offset``."""

    offset: Offset


@value(kw_only=True)
class LogEndMoved:
    """A log end lower than :class:`Truncate` requested: the log now ends at ``offset``. The
    requested offset was inside a batch, and batches are not split. The missing records are fetched
    again."""

    offset: Offset


@value(kw_only=True)
class Stopped:
    """The end of the replica, whose log is about to be deleted. Later events have no effect."""


@value(kw_only=True)
class DeleteRecords:
    """A client's deletion of the records below ``offset``, which is not above the high
    watermark."""

    offset: Offset


@value(kw_only=True)
class IsrWritten:
    """The success of a :class:`WriteIsr`: the znode holds its ISR and now has ``zk_version``."""

    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion


@value(kw_only=True)
class IsrWriteFailed:
    """The failure or the unknown outcome of an ISR write.

    ``conflict`` says that the znode has another version, because the controller wrote it. The
    leader then waits for the controller's LeaderAndIsr. Otherwise the connection was lost, and the
    write is repeated.
    """

    leader_epoch: LeaderEpoch
    conflict: bool


@value(kw_only=True)
class IsrRefused:
    """The final rejection of an ISR write, because a member may not join yet (KIP-841's
    INELIGIBLE_REPLICA). The ISR is as before, and the rejected replica tries again with its next
    fetch."""

    leader_epoch: LeaderEpoch


@value(kw_only=True)
class Tick:
    """The passing of time, which expires acks=-1 waits and shrinks the ISR when a check is due."""

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
    """Truncate the log so that ``offset`` is its end, and leader-epoch-checkpoint with it."""

    offset: Offset


@value(kw_only=True)
class TruncateFully:
    """Discard the whole log and start again, empty, at ``offset`` (fetch offset out of range)."""

    offset: Offset


@value(kw_only=True)
class Append:
    """Append batches at ``base_offset``.

    On a leader, the log sets the base offset and ``leader_epoch`` in the batch headers. On a
    follower ``leader_epoch`` is None, and the batches are stored as they came.
    """

    batches: tuple[Batch, ...]
    base_offset: Offset
    leader_epoch: LeaderEpoch | None


@value(kw_only=True)
class StartEpoch:
    """Note where a new leader's epoch begins (leader-epoch-checkpoint), before any append."""

    leader_epoch: LeaderEpoch
    offset: Offset


@value(kw_only=True)
class AdvanceLogStart:
    """Delete the records below ``offset``, as a client requested or the leader has done."""

    offset: Offset


@value(kw_only=True)
class WriteIsr:
    """Write this ISR to the partition's state znode, if its version is still ``zk_version``.

    This may repeat a write whose outcome was unknown. A different version is therefore a conflict
    only if the znode holds another leader, epoch or ISR. If it holds exactly these, the first write
    succeeded, and the answer is :class:`IsrWritten` with the version found.
    """

    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion


@value(kw_only=True)
class HighWatermark:
    """Answer waiting consumers and fetching followers, because the high watermark moved."""

    offset: Offset


@value(kw_only=True)
class Respond:
    """Answer the produce request ``request``. ``base_offset`` is -1 with an error."""

    request: int
    error: ErrorCode
    base_offset: Offset


@value(kw_only=True)
class LeaderLostRecords:
    """Raise an alarm: the leader lacks records that it served to this follower in this epoch.

    No log is truncated. The follower must not continue to fetch in ``leader_epoch``. Once the
    leader has passed ``log_end_offset`` again, with other records, it would count the follower as
    in sync.
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
