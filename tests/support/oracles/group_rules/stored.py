"""Stored state of a group, and its state after a stored or failed write.

* **OffsetsAreStored**: the committed offset is the one stored last, by its place in the log; the
  stored commit is the requested one, and its client receives the outcome.
* **StoredAsKnown**: the stored state of a group is its state: its next coordinator knows no more.
* **OffsetsEnd**: deletions of offsets are carried out (KIP-211, KIP-496). No offset with a pending
  write expires, for the deletion would follow it; of a deleted partition both go.
* **GroupsEnd**: an empty group ends with all its committed and pending offsets. It does not change
  meanwhile; it is gone when the deletion is stored, and else unchanged. A deleted group leaves no
  record: a broker would grow with every former group. The client that deletes a group receives the
  outcome.
* **EachIsAnswered**: each request is answered once, or waits.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ErrorAnswer,
    Expire,
    OffsetsAnswer,
    PartitionsDeleted,
    Request,
    Store,
    Stored,
    Sync,
)
from ackproof.broker.groups.groups import Records
from ackproof.broker.groups.offsets import loaded
from ackproof.broker.groups.pending import GroupDeletion, PendingCommit, PendingRemoval
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    Value,
)
from tests.support.oracles.group_rules.step import DEAD, EMPTY, STABLE, Step
from tests.support.oracles.group_rules.view import View, asker, part, subscribed

OFFSETS: Final = "OffsetsAreStored"
ENDS: Final = "GroupsEnd"

Written = Sequence[tuple[Key, Value | None]]


class _Deleted(NamedTuple):
    """The partitions, or the group, to be deleted."""

    partitions: frozenset[TopicPartition] = frozenset()
    group: bool = False


def check(step: Step, stores: Sequence[Store], stored: Records, *, is_gone: bool) -> None:
    """``stored``: what the event says of, if it does; raises Violation."""
    records = [record for store in stores for record in store.records]
    for _, value in records:
        if isinstance(value, GroupMetadataValue):
            _is_as_known(step, value)
    _commit_is_stored(step, records)
    _deletions_are_due(step, records)
    _offsets_are_stored(step, stored)
    _ends(step, is_gone=is_gone)
    _all_are_answered(step)


# --- on its way -----------------------------------------------------------------------------------


def _is_as_known(step: Step, value: GroupMetadataValue) -> None:
    after, event = step.after, step.event
    given = event.assignments if isinstance(event, Sync) else None
    members = {
        name: (
            seen.instance_id, seen.client, seen.rebalance_ms, seen.session_ms,
            part(seen, after.protocol),
            seen.assignment if given is None else given.get(name, b""),
        )
        for name, seen in after.members.items()
    }  # fmt: skip
    written = {
        each.member_id: (
            each.group_instance_id, (each.client_id, each.client_host),
            each.rebalance_timeout, each.session_timeout, each.subscription, each.assignment,
        )
        for each in value.members
    }  # fmt: skip
    known = (
        after.generation, after.protocol_type or "", after.protocol, after.leader, after.since_ms
    )  # fmt: skip
    said = (
        value.generation, value.protocol_type, value.protocol, value.leader,
        value.current_state_timestamp,
    )  # fmt: skip
    is_so = (said, written) == (known, members)
    step.require(is_so, "StoredAsKnown", f"{value} is stored")


def _commit_is_stored(step: Step, records: Written) -> None:
    event, written = step.event, {}
    for key, value in records:
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            known = loaded(value, -1)
            written[TopicPartition(key.topic, key.partition)] = known.value, known.committed_ms
    fitting = {}
    if isinstance(event, Commit) and step.is_taken:
        most, now = step.config.offset_metadata_max_bytes, event.at.wall_ms
        units = {
            tp: len(each.metadata.encode("utf-16-le")) // 2 for tp, each in event.offsets.items()
        }
        fitting = {tp: (each, now) for tp, each in event.offsets.items() if units[tp] <= most}
    step.require(written == fitting, OFFSETS, f"{written} is stored, asked was for {fitting}")


def _deletions_are_due(step: Step, records: Written) -> None:
    gone = [key for key, value in records if value is None]
    offsets = [key for key in gone if isinstance(key, OffsetCommitKey)]
    there = _Deleted(
        frozenset(TopicPartition(key.topic, key.partition) for key in offsets),
        any(isinstance(key, GroupMetadataKey) for key in gone),
    )
    due = _due(step)
    step.require(there == due, "OffsetsEnd", f"{there} is deleted, due is {due}")


def _due(step: Step) -> _Deleted:
    before, event = step.before, step.event
    match event:
        case Expire():
            expired = _expired(step, event)
            idle = before.state is EMPTY and not before.storing and not before.given
            return _Deleted(expired, idle and expired == before.offsets.keys())
        case PartitionsDeleted():
            return _Deleted(event.partitions & (before.offsets.keys() | _moving(before)))
        case DeleteGroup() if step.is_taken:
            return _Deleted(frozenset(before.offsets) | _moving(before), group=True)
        case DeleteOffsets() if step.is_taken:
            empty = before.state is EMPTY
            wanted = frozenset() if empty else subscribed(before) or frozenset()
            free = {tp for tp in event.partitions if tp.topic not in wanted}
            return _Deleted(frozenset(free & before.offsets.keys()))
        case _:
            return _Deleted()


def _expired(step: Step, event: Expire) -> frozenset[TopicPartition]:
    before, limit_ms = step.before, event.at.wall_ms - step.config.offsets_retention_ms
    old = {tp for tp in _settled(before) if before.offsets[tp].committed_ms <= limit_ms}
    if before.protocol_type is None:
        return frozenset(old)
    if before.state is EMPTY:
        is_over = before.since_ms is None or before.since_ms <= limit_ms
        return _settled(before) if is_over else frozenset()
    wanted = subscribed(before)
    if before.state is not STABLE or wanted is None:
        return frozenset()
    return frozenset(tp for tp in old if tp.topic not in wanted)


def _settled(before: View) -> frozenset[TopicPartition]:
    """Return the committed partitions without a pending change."""
    return frozenset(before.offsets.keys() - _moving(before))


def _moving(before: View) -> frozenset[TopicPartition]:
    """Return the partitions with a pending write."""
    moving: set[TopicPartition] = set()
    for pending in before.storing.values():
        if isinstance(pending, PendingCommit):
            moving.update(pending.offsets)
        elif isinstance(pending, PendingRemoval):
            moving.update(pending.partitions)
    return frozenset(moving)


# --- stored, or not -------------------------------------------------------------------------------


def _offsets_are_stored(step: Step, stored: Records) -> None:
    event, known = step.event, dict(step.before.offsets)
    if not isinstance(event, Stored):
        step.require(step.after.offsets == known, OFFSETS, "offsets are others")
        return
    for number, (key, value) in enumerate(stored if step.is_stored else (), event.offset):
        if isinstance(key, OffsetCommitKey):
            tp = TopicPartition(key.topic, key.partition)
            if tp in known and known[tp].stored_at > number:
                continue
            known.pop(tp, None)
            if isinstance(value, OffsetCommitValue):
                known[tp] = loaded(value, number)
    step.require(step.after.offsets == known, OFFSETS, f"stored is {known}")
    pending = step.pending
    told = None if pending is None else step.told.get(next(asker(_cause(pending)), -1))
    if isinstance(pending, PendingCommit):
        step.require(isinstance(told, OffsetsAnswer), OFFSETS, f"{told} to a commit")
        assert isinstance(told, OffsetsAnswer)
        for tp in pending.event.offsets:
            error, large = told.partitions.get(tp), ErrorCode.offset_metadata_too_large
            is_so = error is large if tp not in pending.offsets else (
                (error is ErrorCode.none) is step.is_stored
            )  # fmt: skip
            step.require(is_so, OFFSETS, f"{error} to a commit of {tp}")


def _cause(pending: object) -> object:
    purpose = getattr(pending, "purpose", None)
    return getattr(purpose or pending, "event", None)


def _ends(step: Step, *, is_gone: bool) -> None:
    before, after, pending = step.before, step.after, step.pending
    purpose = pending.purpose if isinstance(pending, PendingRemoval) else None
    ends, is_buried = (
        isinstance(purpose, GroupDeletion),
        isinstance(purpose, GroupDeletion) and step.is_stored,
    )
    free = not after.storing and not after.offsets
    is_blank = free and after.generation == 0 and after.state is EMPTY and not after.given
    what = f"{'there is no such group' if is_gone else 'it is there'}"
    step.require(is_gone == (is_blank or is_buried), ENDS, what)
    step.require(free or not is_buried, ENDS, "it is gone, and something of it is not")
    is_dead = _due(step).group or (before.state is DEAD and not (ends and not is_buried))
    step.require((after.state is DEAD) == is_dead, ENDS, f"it is {after.state.value}")
    if DEAD in (before.state, after.state):
        left = before._replace(storing=after.storing, offsets=after.offsets)
        left = left._replace(state=DEAD if is_dead else EMPTY)
        step.require(after == left, ENDS, f"it was to be {left}")
    if isinstance(purpose, GroupDeletion) and isinstance(purpose.event, DeleteGroup):
        told = step.told.get(purpose.event.request)
        is_told = isinstance(told, ErrorAnswer) and (told.error is ErrorCode.none) == is_buried
        step.require(is_told, ENDS, f"{told} to who has deleted it")


def _all_are_answered(step: Step) -> None:
    asked = {*step.before.waiting, *_asks(step)}
    left = [*step.told, *step.after.waiting]
    step.require(sorted(asked) == sorted(left), "EachIsAnswered", f"of {asked} are left {left}")


def _asks(step: Step) -> Iterator[int]:
    return asker(step.event if isinstance(step.event, Request) else None)
