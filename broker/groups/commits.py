"""Offsets: committed, deleted, expired; and the end of a group."""

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
    Burial,
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
Purpose: TypeAlias = OffsetsDeletion | Burial | None

# --- commit ---------------------------------------------------------------------------------


def commit(group: Group, event: Commit, step: CommitStep) -> None:
    """Checks who commits, and for which generation; then ``step``."""
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
    """The generation has only begun: its members have consumed nothing yet."""
    group.respond(event.request, OffsetsAnswer(error=ErrorCode.rebalance_in_progress))


def store_commit(group: Group, event: Commit) -> None:
    """Stores what is not too long, and answers when it is stored."""
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
    """What is stored is committed, and who asked is told."""
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
    # A Java string's length, whatever the property is called: 4,096 umlauts are taken, and take
    # 8,192 bytes.
    utf_16_units = len(offset.metadata.encode("utf-16-le")) // 2
    return utf_16_units <= group.config.offset_metadata_max_bytes


# --- delete ---------------------------------------------------------------------------------


def delete_offsets(group: Group, event: DeleteOffsets) -> None:
    """Deletes offsets of topics that no member is subscribed to."""
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
    """Deletes an empty group with all that it committed, or is about to."""
    _bury(group, event, group.offsets.known)


def refuse_to_delete(group: Group, event: DeleteGroup) -> None:
    """It has members, or is to have some."""
    group.respond(event.request, ErrorAnswer(error=ErrorCode.non_empty_group))


def drop_partitions(group: Group, event: PartitionsDeleted) -> None:
    """Forgets offsets in partitions that are gone, and those that are on their way (as in Kafka,
    ``GroupMetadata.removeOffsets``): unlike what expires, none of them is worth keeping.

    A commit of 7 waits for a follower when its topic goes. Left out, it is stored a moment later,
    nobody hears of that deletion any more, and readers of the next topic begin at 7.
    """
    _remove(group, event.partitions & group.offsets.known, None)


def expire(group: Group, event: Expire) -> None:
    """Applies ``offsets.retention.minutes`` (KIP-211); a group with nothing left is deleted."""
    expired = _expired(group, event.at.wall_ms - group.config.offsets_retention_ms)
    ends = (
        group.state is GroupState.EMPTY
        and not group.is_storing
        and not group.members.pending
        and expired == frozenset(group.offsets)
    )
    if ends:
        _bury(group, event, expired)
    else:
        _remove(group, expired, None)


def _expired(group: Group, before_ms: int) -> Partitions:
    """Offsets whose time is over: since the group became empty if it ever had members, since the
    commit if it had none, or if nobody is subscribed to the topic any more."""
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


def _bury(group: Group, event: DeleteGroup | Expire, partitions: Partitions) -> None:
    """The group's end. Whoever comes from here on is to ask again, as in Kafka: the tombstones are
    in the log behind all that was stored of the group, and nothing of it is behind them.

    A member joins, or somebody commits, while they are on their way: to refuse the deletion then is
    too late, for the next coordinator knows nothing of a group that was there before.
    """
    group.die()
    _remove(group, partitions, Burial(event=event))


def _remove(group: Group, partitions: Partitions, purpose: Purpose) -> None:
    """Stores tombstones: of offsets, and of the group where it is to end."""
    ordered = tuple(sorted(partitions))
    keys: list[Key] = [key(group.group_id, tp) for tp in ordered]
    if isinstance(purpose, Burial):
        keys.append(GroupMetadataKey(group=group.group_id))
    if not keys:
        _conclude(group, purpose, ErrorCode.none)
        return
    records: tuple[tuple[Key, Value | None], ...] = tuple((k, None) for k in keys)
    group.offsets.begin(ordered)
    group.store(records, PendingRemoval(partitions=ordered, purpose=purpose))


def settle_removal(group: Group, stored: Stored, pending: PendingRemoval) -> None:
    """With their tombstones stored the offsets are gone, and whoever waited for that goes on."""
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
        case Burial(event=event):
            if error is not ErrorCode.none:
                group.live_on()
            if isinstance(event, DeleteGroup):
                group.respond(event.request, ErrorAnswer(error=error))
