"""The events that come into a group, and the answers and effects that leave it.

A request carries a number, and exactly one :class:`Respond` with it follows, now or later. A
:class:`Store` carries a number as well, and one :class:`Stored` with it must follow, in the order
of the appends. Null and absent strings of the protocol are None, except that no member id is the
empty string.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.types import Millis, TopicPartition
from ackproof.broker.wire.group_records import Key, Value

NO_MEMBER_ID = ""
NO_GENERATION = -1


class Moment(NamedTuple):
    """A moment on two clocks. ``now`` only goes forward and is used for deadlines. ``wall_ms``
    counts from 1970 and is stored."""

    now: Millis
    wall_ms: int


class Protocol(NamedTuple):
    """An assignment protocol that a member supports, with its opaque metadata."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """An offset that a client commits for a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request(_Event):
    request: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberRequest(_Request):
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_MemberRequest):
    """A JoinGroup request. Times are in ms."""

    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    new_member_id: str
    """The id for a member that has none yet. No member may have had it before."""
    requires_known_member_id: bool = True
    """Whether a new member gets its id first, and joins with it (v4, KIP-394)."""
    supports_skipping_assignment: bool = False
    """Whether a static leader that returns is told that it leads, without having to assign (v9,
    KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(_MemberRequest):
    """A SyncGroup request. The leader's has all assignments by member id."""

    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(_MemberRequest):
    """A heartbeat of a member."""

    generation: int


class Leaving(NamedTuple):
    """A member that leaves. With an empty member id, it is the member with the instance id."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(_Request):
    """A LeaveGroup request (a batch since v3, KIP-345)."""

    leaving: tuple[Leaving, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(_MemberRequest):
    """An OffsetCommit request. With generation -1 and no member it comes from outside of any
    group."""

    generation: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets(_Request):
    """An OffsetDelete request (KIP-496)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(_Request):
    """One group of a DeleteGroups request (KIP-229)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(_Event):
    """The outcome of a :class:`Store`. ``offset`` is that of its first record, or -1 with an
    error."""

    token: int
    error: ErrorCode
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(_Event):
    """The passing of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(_Event):
    """The time to look for expired offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsDeleted(_Event):
    """The deletion of these partitions, and so of the offsets in them."""

    partitions: frozenset[TopicPartition]


Request: TypeAlias = Join | Sync | Heartbeat | Leave | Commit | DeleteOffsets | DeleteGroup
Event: TypeAlias = Request | Stored | Tick | Expire | PartitionsDeleted

# --- answers --------------------------------------------------------------------------------


class JoinedMember(NamedTuple):
    """A member in the form in which the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The answer to :class:`Join`. Only the leader gets the members."""

    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The answer to :class:`Sync`."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """The answer to :class:`Heartbeat` and :class:`DeleteGroup`."""

    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """The answer to :class:`Leave`: an error for each leaving member, in their order, unless
    ``error``."""

    error: ErrorCode = ErrorCode.none
    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAnswer:
    """The answer to :class:`Commit` and :class:`DeleteOffsets`: an error for each partition, unless
    ``error``, which counts for all."""

    error: ErrorCode = ErrorCode.none
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


Answer: TypeAlias = JoinAnswer | SyncAnswer | ErrorAnswer | LeaveAnswer | OffsetsAnswer


def refusal(request: Request, error: ErrorCode) -> Answer:
    """Return the answer that consists of ``error`` alone."""
    if isinstance(request, Join):
        return JoinAnswer(error=error, member_id=request.member_id)
    return _ANSWERS[type(request)](error=error)


_ANSWERS: Mapping[type[Request], type[Answer]] = {
    Sync: SyncAnswer,
    Heartbeat: ErrorAnswer,
    Leave: LeaveAnswer,
    Commit: OffsetsAnswer,
    DeleteOffsets: OffsetsAnswer,
    DeleteGroup: ErrorAnswer,
}

# --- effects --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """Answer a client."""

    request: int
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Append to the group's partition of ``__consumer_offsets``, all or nothing, in the order of
    the effects; then feed :class:`Stored`. A value of None is a tombstone."""

    token: int
    records: tuple[tuple[Key, Value | None], ...]


Effect: TypeAlias = Respond | Store
