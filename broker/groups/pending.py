"""What a group goes on with when something is stored, or cannot be: data, a class for each case,
and what a failed append to ``__consumer_offsets`` means to a client (as in Kafka 3.x)."""

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
    """A generation without members. That it is not stored is no loss: the next one tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAssignments:
    """What the leader of ``generation`` has assigned, by member: given out when it is stored."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReturn:
    """A static member is in its old place under a new id; ``before`` and ``leader`` are as they
    were under the old one."""

    event: Join
    before: Member
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """Offsets that count when they are stored; ``event`` may have had more, too long ones."""

    event: Commit
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeletion:
    """Who asked is told of all partitions; those ``subscribed`` to are kept."""

    event: DeleteOffsets
    subscribed: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """With its offsets the group ends; who asked for that is told."""

    event: DeleteGroup | Expire


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRemoval:
    """Offsets of which tombstones are stored, in this order; ``purpose`` None: nobody waits for it,
    and what stays will be removed the next time."""

    partitions: tuple[TopicPartition, ...]
    purpose: OffsetsDeletion | Burial | None


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
    """When it was offsets that should be stored, or their deletion."""
    if error in _TOO_LARGE:
        return ErrorCode.invalid_commit_offset_size
    if error is ErrorCode.request_timed_out:
        return ErrorCode.coordinator_not_available
    return _COMMON.get(error, error)


def group_error(error: ErrorCode) -> ErrorCode:
    """When it was a generation that should be stored."""
    if error in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    if error is ErrorCode.request_timed_out:
        return ErrorCode.rebalance_in_progress
    return _COMMON.get(error, error)
