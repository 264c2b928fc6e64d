"""The continuations of a group when records are stored, or cannot be. Each case is a class of data.
The module also translates errors of appends to ``__consumer_offsets`` for clients (as in Kafka
3.x)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Expire,
    Join,
    OffsetAndMetadata,
)
from ackproof.broker.groups.members import Member
from ackproof.broker.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEmptiness:
    """A generation without members. If it is not stored, nothing is lost: the next one tries
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAssignments:
    """The assignments by the leader of ``generation``, by member. They are given out when
    stored."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReturn:
    """A static member in its old place under a new id. ``before`` and ``leader`` are as they were
    under the old id."""

    event: Join
    before: Member
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """Offsets that count when they are stored. ``event`` may have had more, with too long
    metadata."""

    event: Commit
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeletion:
    """A deletion of offsets. The answer names all partitions, and those ``subscribed`` to are
    kept."""

    event: DeleteOffsets
    subscribed: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeletion:
    """The end of a group with its offsets, of which the requester is told."""

    event: DeleteGroup | Expire


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRemoval:
    """Offsets whose tombstones are being stored, in this order. With ``purpose`` None no request
    waits for it, and the next attempt removes what remains."""

    partitions: tuple[TopicPartition, ...]
    purpose: OffsetsDeletion | GroupDeletion | None


Pending = PendingEmptiness | PendingAssignments | PendingReturn | PendingCommit | PendingRemoval


# --- failed appends -------------------------------------------------------------------------------


_TOO_LARGE: Final = frozenset(
    {ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size}
)
_COMMON: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.none: ErrorCode.none,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}


def offsets_error(error: ErrorCode) -> ErrorCode:
    """Return the error for the client when offsets, or their deletion, could not be stored."""
    if error in _TOO_LARGE:
        return ErrorCode.invalid_commit_offset_size
    if error is ErrorCode.request_timed_out:
        return ErrorCode.coordinator_not_available
    return _COMMON.get(error, error)


def group_error(error: ErrorCode) -> ErrorCode:
    """Return the error for the client when a generation could not be stored."""
    if error in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    if error is ErrorCode.request_timed_out:
        return ErrorCode.rebalance_in_progress
    return _COMMON.get(error, error)
