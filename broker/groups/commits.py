"""The commit, deletion and expiry of offsets, and the end of a group."""

from collections.abc import Callable
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ErrorAnswer,
    Expire,
    OffsetAndMetadata,
    OffsetsAnswer,
    PartitionsDeleted,
    Stored,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.offsets import CommittedOffset, key, value
from ackproof.broker.groups.pending import (
    GroupDeletion,
    OffsetsDeletion,
    PendingCommit,
    PendingRemoval,
    offsets_error,
)
from ackproof.broker.groups.state import GroupState
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import GroupMetadataKey, Key, Value

CommitStep: TypeAlias = Callable[[Group, Commit], None]
Partitions: TypeAlias = frozenset[TopicPartition]
Purpose: TypeAlias = OffsetsDeletion | GroupDeletion | None

# --- commit ---------------------------------------------------------------------------------


def commit(group: Group, event: Commit, step: CommitStep) -> None:
    """Check the member and the generation of a commit, then call ``step``."""
    error = _check(group, event)
    if error is not ErrorCode.none:
        group.respond(event.request, OffsetsAnswer(error=error))
    else:
        step(group, event)


def _check(group: Group, event: Commit) -> ErrorCode:
    if event.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.none
    if event.generation < 0 and event.member_id == NO_MEMBER_ID and event.instance_id is None:
        return ErrorCode.unknown_member_id
    error = group.members.check(event.member_id, event.instance_id)
    if error is ErrorCode.none and event.generation != group.generation:
        error = ErrorCode.illegal_generation
    return error


def refuse_commit(group: Group, event: Commit) -> None:
    """Reject a commit, because the generation has only begun and its members have consumed
    nothing."""
    group.respond(event.request, OffsetsAnswer(error=ErrorCode.rebalance_in_progress))


def store_commit(group: Group, event: Commit) -> None:
    """Store the offsets whose metadata is not too long, and answer when they are stored."""
    if event.member_id in group.members:
        group.touch(group.members[event.member_id], event.at)
    offsets = {tp: o for tp, o in event.offsets.items() if _fits(group, o)}
    if not offsets:
        _answer(group, event, ErrorCode.none)
        return
    group.offsets.begin(offsets)
    group.store(
        tuple(
            (key(group.group_id, tp), value(offset, event.at.wall_ms))
            for tp, offset in offsets.items()
        ),
        PendingCommit(event=event, offsets=offsets),
    )


def settle_commit(group: Group, stored: Stored, pending: PendingCommit) -> None:
    """Commit what is stored, and answer the request."""
    event, offsets = pending.event, pending.offsets
    group.offsets.end(offsets)
    if stored.error is ErrorCode.none:
        for number, (tp, offset) in enumerate(offsets.items()):
            committed = CommittedOffset(
                value=offset,
                committed_ms=event.at.wall_ms,
                stored_at=stored.offset + number,
            )
            group.offsets.set(tp, committed)
    _answer(group, event, offsets_error(stored.error))


def _answer(group: Group, event: Commit, error: ErrorCode) -> None:
    partitions = {
        tp: error if _fits(group, offset) else ErrorCode.offset_metadata_too_large
        for tp, offset in event.offsets.items()
    }
    group.respond(event.request, OffsetsAnswer(partitions=partitions))


def _fits(group: Group, offset: OffsetAndMetadata) -> bool:
    # The limit counts a Java string's length, whatever the property is called: 4,096 umlauts are
    # accepted, and take 8,192 bytes.
    utf_16_units = len(offset.metadata.encode("utf-16-le")) // 2
    return utf_16_units <= group.config.offset_metadata_max_bytes


# --- delete ---------------------------------------------------------------------------------


def delete_offsets(group: Group, event: DeleteOffsets) -> None:
    """Delete offsets of topics that no member is subscribed to."""
    kept: frozenset[str] | None = frozenset()
    if group.state is not GroupState.EMPTY:
        kept = group.subscribed_topics()
    if kept is None:
        group.respond(event.request, OffsetsAnswer(error=ErrorCode.non_empty_group))
        return
    subscribed = frozenset(tp for tp in event.partitions if tp.topic in kept)
    removed = (event.partitions - subscribed) & frozenset(group.offsets)
    _remove(group, removed, OffsetsDeletion(event=event, subscribed=subscribed))


def delete_group(group: Group, event: DeleteGroup) -> None:
    """Delete an empty group with its committed and pending offsets."""
    _store_deletion(group, event, group.offsets.known)


def refuse_to_delete(group: Group, event: DeleteGroup) -> None:
    """Reject the deletion, because the group has members or will have some."""
    group.respond(event.request, ErrorAnswer(error=ErrorCode.non_empty_group))


def drop_partitions(group: Group, event: PartitionsDeleted) -> None:
    """Forget committed and pending offsets in deleted partitions (Kafka's
    ``GroupMetadata.removeOffsets``).

    Unlike with expiry, no pending offset is kept. Suppose a commit of 7 waits for a follower when
    its topic is deleted. If it were kept, it would be stored a moment later. No event would delete
    it any more, and readers of the next topic of that name would begin at 7.
    """
    _remove(group, event.partitions & group.offsets.known, None)


def expire(group: Group, event: Expire) -> None:
    """Apply ``offsets.retention.minutes`` (KIP-211). A group with nothing left is deleted."""
    expired = _expired(group, event.at.wall_ms - group.config.offsets_retention_ms)
    ends = (
        group.state is GroupState.EMPTY
        and not group.is_storing
        and not group.members.pending
        and expired == frozenset(group.offsets)
    )
    if ends:
        _store_deletion(group, event, expired)
    else:
        _remove(group, expired, None)


def _expired(group: Group, before_ms: int) -> Partitions:
    """Return the partitions whose offsets have expired.

    The time counts from when the group became empty, if it ever had members. It counts from the
    commit if the group had none, or if no member is subscribed to the topic any more.
    """
    if group.state is GroupState.EMPTY and group.protocol_type is not None:
        over = group.since_ms is None or group.since_ms <= before_ms
        return group.offsets.settled() if over else frozenset()
    if group.protocol_type is None:
        return group.offsets.committed_before(before_ms)
    subscribed = group.subscribed_topics()
    if group.state is not GroupState.STABLE or subscribed is None:
        return frozenset()
    old = group.offsets.committed_before(before_ms)
    return frozenset(tp for tp in old if tp.topic not in subscribed)


def _store_deletion(group: Group, event: DeleteGroup | Expire, partitions: Partitions) -> None:
    """End the group. Later requests are told to try again, as in Kafka: the tombstones come after
    everything that was stored of the group, and nothing of it comes after them.

    A member may join or commit while they are being stored. It is then too late to reject the
    deletion: the next coordinator knows nothing of a group that existed before.
    """
    group.die()
    _remove(group, partitions, GroupDeletion(event=event))


def _remove(group: Group, partitions: Partitions, purpose: Purpose) -> None:
    """Store tombstones of offsets, and of the group if it ends."""
    ordered = tuple(sorted(partitions))
    keys: list[Key] = [key(group.group_id, tp) for tp in ordered]
    if isinstance(purpose, GroupDeletion):
        keys.append(GroupMetadataKey(group=group.group_id))
    if not keys:
        _conclude(group, purpose, ErrorCode.none)
        return
    records: tuple[tuple[Key, Value | None], ...] = tuple((k, None) for k in keys)
    group.offsets.begin(ordered)
    group.store(records, PendingRemoval(partitions=ordered, purpose=purpose))


def settle_removal(group: Group, stored: Stored, pending: PendingRemoval) -> None:
    """Remove the offsets whose tombstones are stored, and continue with what waited for that."""
    group.offsets.end(pending.partitions)
    if stored.error is ErrorCode.none:
        for number, tp in enumerate(pending.partitions):
            group.offsets.remove(tp, stored.offset + number)
    _conclude(group, pending.purpose, offsets_error(stored.error))


def _conclude(group: Group, purpose: Purpose, error: ErrorCode) -> None:
    match purpose:
        case OffsetsDeletion(event=event, subscribed=subscribed):
            partitions = dict.fromkeys(event.partitions, error)
            partitions.update(dict.fromkeys(subscribed, ErrorCode.group_subscribed_to_topic))
            group.respond(event.request, OffsetsAnswer(partitions=partitions))
        case GroupDeletion(event=event):
            if error is not ErrorCode.none:
                group.live_on()
            if isinstance(event, DeleteGroup):
                group.respond(event.request, ErrorAnswer(error=error))
