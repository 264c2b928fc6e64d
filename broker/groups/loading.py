"""Groups and offsets restored from the records of ``__consumer_offsets``, in the log's order.

The last record of a key counts, and a tombstone removes the key. A group that had members is stable
again, under the generation it had, so that its members need not notice. Rebalances in progress are
not stored, and their members join again.
"""

from collections.abc import Iterator, Mapping

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Moment, Protocol
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.members import Member
from ackproof.broker.groups.offsets import CommittedOffset, loaded
from ackproof.broker.groups.state import GroupState
from ackproof.broker.types import Millis, TopicPartition
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    OffsetCommitValue,
    Value,
)


class Loading:
    """The collected records, from which ``finish`` creates the groups."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupMetadataValue] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def add(self, key: Key, value: Value | None, offset: int) -> None:
        """Add one record, at ``offset`` of the log."""
        if isinstance(key, GroupMetadataKey):
            self._groups.pop(key.group, None)
            if isinstance(value, GroupMetadataValue):
                self._groups[key.group] = value
            return
        tp = TopicPartition(key.topic, key.partition)
        offsets = self._offsets.setdefault(key.group, {})
        offsets.pop(tp, None)
        if isinstance(value, OffsetCommitValue):
            offsets[tp] = loaded(value, offset)

    @property
    def generations(self) -> Mapping[Key, Value]:
        """The last generation of each group, as records."""
        return {GroupMetadataKey(group=group): value for group, value in self._groups.items()}

    def finish(self, config: GroupConfig, tokens: Iterator[int], at: Moment) -> Mapping[str, Group]:
        """Return the groups. Every member's session restarts at ``at``."""
        named = self._groups.keys() | {group for group, o in self._offsets.items() if o}
        groups = {}
        for group_id in sorted(named):
            group = Group(group_id, config, tokens)
            for tp, offset in self._offsets.get(group_id, {}).items():
                group.offsets.set(tp, offset)
            if group_id in self._groups:
                _restore(group, self._groups[group_id], at)
            groups[group_id] = group
        return groups


def _restore(group: Group, value: GroupMetadataValue, at: Moment) -> None:
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.since_ms = value.current_state_timestamp
    for stored in value.members:
        group.members.add(_member(stored, value.protocol, at))
    if value.members:
        group.state = GroupState.STABLE
        if value.leader is not None and value.leader in group.members:
            group.members.leader = value.leader


def _member(stored: MemberMetadata, protocol: str | None, at: Moment) -> Member:
    return Member(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout,
        rebalance_timeout_ms=stored.rebalance_timeout,
        protocols=(Protocol(protocol or "", stored.subscription),),
        deadline=Millis(at.now + stored.session_timeout),
        assignment=stored.assignment,
        synced=True,
    )
