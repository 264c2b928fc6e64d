"""What a coordinator of groups does, seen from beside it, step by step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from broker.groups.events import (
    Commit,
    Effect,
    Event,
    OffsetsAnswer,
    Request,
    Respond,
    Store,
    Stored,
    Sync,
    SyncAnswer,
)
from broker.groups.groups import Groups, Records
from broker.replication.replica import Role
from broker.server.groups.shard import GroupShard
from broker.types import TopicPartition
from broker.wire.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from simulation.observer.logs import groups as logs
from simulation.violation import Violation


@dataclass(slots=True)
class _Watched:
    """The groups of one partition in one leader epoch."""

    shard: GroupShard
    epoch: int
    generations: dict[str, int]
    """The last one of each group that is stored."""
    asked: dict[int, Request] = field(default_factory=dict)
    storing: dict[int, Records] = field(default_factory=dict)


class Coordinators:
    """Judges each step when it was taken.

    * **CoordinatorsLoad**: groups are loaded in every leader epoch anew. Another broker may have
      led in between, and have stored what nobody here knows.
    * **GroupsAreLog**: see :mod:`simulation.observer.logs.groups`.
    * **StoredIsCommitted**: what a group goes on with as stored, all of the ISR has
      (``offsets.commit.required.acks``: -1). Else the next coordinator may know nothing of it.
    * **AnsweredIsStored**: so nobody hears of a commit, or is given partitions, before that; and
      what could not be stored is not committed.
    """

    def __init__(self) -> None:
        self._watched: WeakKeyDictionary[Groups, _Watched] = WeakKeyDictionary()

    def loaded(self, broker: int, shard: GroupShard) -> None:
        """``shard`` is about to serve; raises Violation."""
        partition, known = shard.partition, shard.groups.by_id
        generations = {name: group.generation for name, group in known.items()}
        epoch = partition.replica.leader_epoch
        self._watched[shard.groups] = _Watched(shard, epoch, generations)
        left = logs.left_in(partition.log)
        if left is not None:
            logs.check(f"{partition.tp}, broker {broker}", known, left)

    def stepped(self, groups: Groups, event: Event, effects: Iterable[Effect]) -> None:
        """It took that in, and the effects follow; raises Violation."""
        watched = self._watched.get(groups)
        if watched is None:
            return
        if isinstance(event, Request):
            _leads_on(watched)
            watched.asked[event.request] = event
        if isinstance(event, Stored):
            self._stored(groups, watched, event)
        for effect in effects:
            if isinstance(effect, Store):
                watched.storing[effect.token] = effect.records
            elif isinstance(effect, Respond):
                self._answered(groups, watched, event, effect)

    def _stored(self, groups: Groups, watched: _Watched, event: Stored) -> None:
        records = watched.storing.pop(event.token)
        if event.error is not ErrorCode.none:
            _is_not_known(groups, records)
            return
        replica = watched.shard.partition.replica
        led = replica.role is Role.LEADER and replica.leader_epoch == watched.epoch
        end = event.offset + len(records)
        if led and end > replica.high_watermark:
            raise Violation(
                "StoredIsCommitted",
                f"{watched.shard.partition.tp}: what lies below {end} counts as stored, committed "
                f"is what lies below {replica.high_watermark}",
            )
        for key, value in records:
            if isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
                watched.generations[key.group] = value.generation

    def _answered(self, groups: Groups, watched: _Watched, event: Event, told: Respond) -> None:
        asked, answer = watched.asked.pop(told.request, None), told.answer
        if isinstance(asked, Commit) and isinstance(answer, OffsetsAnswer):
            kept = [tp for tp, error in answer.partitions.items() if error is ErrorCode.none]
            if kept and not (isinstance(event, Stored) and event.error is ErrorCode.none):
                what = f"{asked.group} is told that its offsets of {kept} are committed, by"
                raise Violation("AnsweredIsStored", f"{what} {type(event).__name__}")
        given = isinstance(answer, SyncAnswer) and answer.error is ErrorCode.none
        if isinstance(asked, Sync) and given:
            generation = groups.by_id[asked.group].generation
            stored = watched.generations.get(asked.group)
            if generation != stored:
                what = f"{asked.group} gives out generation {generation}, stored is {stored}"
                raise Violation("AnsweredIsStored", what)


def _leads_on(watched: _Watched) -> None:
    replica = watched.shard.partition.replica
    if replica.role is not Role.LEADER or replica.leader_epoch != watched.epoch:
        raise Violation(
            "CoordinatorsLoad",
            f"{watched.shard.partition.tp}: groups were loaded in leader epoch {watched.epoch}, "
            f"and are asked as {replica.role.value} in {replica.leader_epoch}",
        )


def _is_not_known(groups: Groups, records: Records) -> None:
    for key, _ in records:
        group = groups.by_id.get(key.group)
        if isinstance(key, OffsetCommitKey) and group is not None:
            tp = TopicPartition(key.topic, key.partition)
            known = group.offsets.committed.get(tp)
            if known is not None and known.stored_at < 0:
                what = f"{key.group} has {known.value.offset} of {tp}, which could not be stored"
                raise Violation("AnsweredIsStored", what)
