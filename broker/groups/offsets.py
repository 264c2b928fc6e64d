"""The offsets that one group committed.

Only what is stored counts: a commit on its way changes nothing yet. Where records lie in the log
decides which is newer, so that no older one ever takes the place of a newer one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ackproof.broker.groups.events import OffsetAndMetadata
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import OffsetCommitKey, OffsetCommitValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """An offset that is stored: when it was committed (ms since 1970), and at which offset of
    ``__consumer_offsets`` its record lies."""

    value: OffsetAndMetadata
    committed_ms: int
    stored_at: int


@dataclass(slots=True)
class Offsets:
    """By partition."""

    _committed: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    _on_their_way: Counter[TopicPartition] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._committed))

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def idle(self) -> bool:
        """Nothing is on its way."""
        return not self._on_their_way

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """What OffsetFetch tells."""
        return self._committed

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits or deletions are on their way."""
        self._on_their_way.update(tuple(partitions))

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """They are stored, or never will be."""
        self._on_their_way.subtract(tuple(partitions))
        self._on_their_way = +self._on_their_way

    def set(self, tp: TopicPartition, offset: CommittedOffset) -> None:
        """A commit is stored."""
        current = self._committed.get(tp)
        if current is None or current.stored_at < offset.stored_at:
            self._committed[tp] = offset

    def remove(self, tp: TopicPartition, stored_at: int) -> None:
        """A tombstone is stored at that offset."""
        current = self._committed.get(tp)
        if current is not None and current.stored_at < stored_at:
            del self._committed[tp]

    @property
    def known(self) -> frozenset[TopicPartition]:
        """Partitions with an offset, or one on its way."""
        return frozenset(self._committed.keys() | self._on_their_way.keys())

    def committed_before(self, moment_ms: int) -> frozenset[TopicPartition]:
        """Partitions with an offset that old, and nothing on its way: the tombstone would come
        behind a commit that is, and remove what its client is about to be told is stored."""
        return frozenset(
            tp
            for tp, offset in self._committed.items()
            if offset.committed_ms <= moment_ms and tp not in self._on_their_way
        )

    def settled(self) -> frozenset[TopicPartition]:
        """Partitions with an offset, and nothing on its way."""
        return frozenset(self._committed.keys() - self._on_their_way.keys())


def key(group: str, tp: TopicPartition) -> OffsetCommitKey:
    """The key of a group's offset in ``tp``."""
    return OffsetCommitKey(group=group, topic=tp.topic, partition=tp.partition)


def value(offset: OffsetAndMetadata, committed_ms: int) -> OffsetCommitValue:
    """The value of an offset committed at that moment."""
    return OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=committed_ms,
    )


def loaded(record: OffsetCommitValue, stored_at: int) -> CommittedOffset:
    """What a stored value says."""
    return CommittedOffset(
        value=OffsetAndMetadata(
            offset=record.offset, leader_epoch=record.leader_epoch, metadata=record.metadata
        ),
        committed_ms=record.commit_timestamp,
        stored_at=stored_at,
    )
