"""The offsets that one group committed.

Only stored offsets count, and a pending commit changes nothing yet. The position of records in the
log decides which is newer, so that an older one never replaces a newer one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ackproof.broker.groups.events import OffsetAndMetadata
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import OffsetCommitKey, OffsetCommitValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A stored offset, with the time of its commit (ms since 1970), and the offset of its record in
    ``__consumer_offsets``."""

    value: OffsetAndMetadata
    committed_ms: int
    stored_at: int


@dataclass(slots=True)
class Offsets:
    """The offsets of a group by partition."""

    _committed: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    _on_their_way: Counter[TopicPartition] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._committed))

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def idle(self) -> bool:
        """Whether no offset is being stored."""
        return not self._on_their_way

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The offsets that OffsetFetch returns."""
        return self._committed

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that commits or deletions of these partitions are being stored."""
        self._on_their_way.update(tuple(partitions))

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that they are stored, or never will be."""
        self._on_their_way.subtract(tuple(partitions))
        self._on_their_way = +self._on_their_way

    def set(self, tp: TopicPartition, offset: CommittedOffset) -> None:
        """Note a stored commit."""
        current = self._committed.get(tp)
        if current is None or current.stored_at < offset.stored_at:
            self._committed[tp] = offset

    def remove(self, tp: TopicPartition, stored_at: int) -> None:
        """Note a tombstone stored at that offset."""
        current = self._committed.get(tp)
        if current is not None and current.stored_at < stored_at:
            del self._committed[tp]

    @property
    def known(self) -> frozenset[TopicPartition]:
        """The partitions with a committed or pending offset."""
        return frozenset(self._committed.keys() | self._on_their_way.keys())

    def committed_before(self, moment_ms: int) -> frozenset[TopicPartition]:
        """Return the partitions with an offset that old, and no pending one. A tombstone would come
        after a pending commit, and remove an offset that its client is about to be told is stored.
        """
        return frozenset(
            tp
            for tp, offset in self._committed.items()
            if offset.committed_ms <= moment_ms and tp not in self._on_their_way
        )

    def settled(self) -> frozenset[TopicPartition]:
        """Return the partitions with an offset, and no pending one."""
        return frozenset(self._committed.keys() - self._on_their_way.keys())


def key(group: str, tp: TopicPartition) -> OffsetCommitKey:
    """Return the key of a group's offset in ``tp``."""
    return OffsetCommitKey(group=group, topic=tp.topic, partition=tp.partition)


def value(offset: OffsetAndMetadata, committed_ms: int) -> OffsetCommitValue:
    """Return the value of an offset committed at that moment."""
    return OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=committed_ms,
    )


def loaded(record: OffsetCommitValue, stored_at: int) -> CommittedOffset:
    """Return the offset in a stored value."""
    return CommittedOffset(
        value=OffsetAndMetadata(
            offset=record.offset, leader_epoch=record.leader_epoch, metadata=record.metadata
        ),
        committed_ms=record.commit_timestamp,
        stored_at=stored_at,
    )
