"""What comes into a group and what goes out of it.

Requests carry a number; exactly one :class:`Respond` with it follows, now or later. Whatever is
stored carries a number, too; one :class:`Stored` with it must follow, in the order of the appends.
Null and absent strings of the protocol are None, except that no member id is the empty string.
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
    """When something happened: ``now`` on a clock that only goes forward, for deadlines;
    ``wall_ms`` since 1970, for what is stored."""

    now: Millis
    wall_ms: int


class Protocol(NamedTuple):
    """A way of assigning that a member supports, and its opaque part in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """What a client commits for a partition."""

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
    """JoinGroup. Times in ms."""

    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    new_member_id: str
    """The id to take if the member has none yet; nobody may have had it before."""
    requires_known_member_id: bool = True
    """A newcomer gets its id first, and joins with it (v4, KIP-394)."""
    supports_skipping_assignment: bool = False
    """A static leader that comes back learns that it leads, but need not assign (v9, KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(_MemberRequest):
    """SyncGroup; from the leader, with everyone's assignment by member id."""

    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(_MemberRequest):
    """A member lives."""

    generation: int


class Leaving(NamedTuple):
    """Who leaves: a member, or with the member id empty whoever has the instance id."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(_Request):
    """LeaveGroup (a batch since v3, KIP-345)."""

    leaving: tuple[Leaving, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(_MemberRequest):
    """OffsetCommit; generation -1 and no member: from outside of any group."""

    generation: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets(_Request):
    """OffsetDelete (KIP-496)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(_Request):
    """DeleteGroups, one of them (KIP-229)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(_Event):
    """The outcome of a :class:`Store`; ``offset`` of its first record, -1 with an error."""

    token: int
    error: ErrorCode
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(_Event):
    """Time went by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(_Event):
    """Time to look for offsets that nobody needs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsDeleted(_Event):
    """These partitions exist no more, and neither should offsets in them."""

    partitions: frozenset[TopicPartition]


Request: TypeAlias = Join | Sync | Heartbeat | Leave | Commit | DeleteOffsets | DeleteGroup
Event: TypeAlias = Request | Stored | Tick | Expire | PartitionsDeleted

# --- answers --------------------------------------------------------------------------------


class JoinedMember(NamedTuple):
    """A member as the leader is shown it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """To :class:`Join`; only the leader gets the members."""

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
    """To :class:`Sync`."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """To :class:`Heartbeat` and :class:`DeleteGroup`."""

    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """To :class:`Leave`: an error for each who leaves, in their order, unless ``error``."""

    error: ErrorCode = ErrorCode.none
    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAnswer:
    """To :class:`Commit` and :class:`DeleteOffsets`: an error for each partition, unless
    ``error``, which then counts for all."""

    error: ErrorCode = ErrorCode.none
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


Answer: TypeAlias = JoinAnswer | SyncAnswer | ErrorAnswer | LeaveAnswer | OffsetsAnswer


def refusal(request: Request, error: ErrorCode) -> Answer:
    """The answer that says nothing but ``error``."""
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
    """Tell a client."""

    request: int
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Append to the group's partition of ``__consumer_offsets``, all or nothing, in the order of
    the effects; then feed :class:`Stored`. A value of None is a tombstone."""

    token: int
    records: tuple[tuple[Key, Value | None], ...]


Effect: TypeAlias = Respond | Store
