"""What a group goes on with when something is stored, or cannot be: data, a class for each case.

Which is followed by what stands in :mod:`broker.groups.table`. A group changes meanwhile: whoever
goes on looks whether it was overtaken.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
