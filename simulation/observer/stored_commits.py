"""Which offsets a group must remember, by where ``__consumer_offsets`` holds them."""

from typing import NamedTuple, cast

from ackproof.broker.replication.events import Append
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch
from ackproof.broker.wire.group_records import OffsetCommitKey, OffsetCommitValue, decode
from ackproof.broker.wire.records import records
from simulation.observer.history import Commit
from simulation.partition.promises import Promises


class Place(NamedTuple):
    """A batch in which an offset stands, and when it was appended."""

    base: int
    crc: int
    at: float


class StoredCommits:
    """Of one partition of ``__consumer_offsets``: all places of each offset of each group, since
    coordinators write again what they know (:mod:`broker.server.groups.rewrite`)."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, TopicPartition, int], list[Place]] = {}

    def appended(self, effect: Append, now: float) -> None:
        """A leader appended one batch, as coordinators do."""
        for batch in cast(tuple[RecordBatch, ...], effect.batches):
            place = Place(int(effect.base_offset), batch.crc, now)
            for record in records(batch):
                key, value = decode(record.key, record.value)
                if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                    tp = TopicPartition(key.topic, key.partition)
                    self._places.setdefault((key.group, tp, value.offset), []).append(place)

    def is_promised(self, commit: Commit, home: Promises) -> bool:
        """Whether ``commit``, which was answered, must be remembered still: no promise of its
        partition ended since, or a record of it is among those that are promised.

        A record from before it was sent does not count. 5 was committed, then 7, then 5 again, and
        the second 5 is lost: what has to be remembered is 7, though the first 5 is kept.
        """
        if all(when < commit.sent_at for when, _ in home.unpromised):
            return True
        places = self._places.get((commit.group, commit.tp, commit.offset), ())
        return any(
            place.at >= commit.sent_at and home.holds(place.base, place.crc) for place in places
        )
