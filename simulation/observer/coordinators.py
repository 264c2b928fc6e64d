"""What a coordinator of groups does, seen from beside it, step by step."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Answer,
    Commit,
    Effect,
    Event,
    Heartbeat,
    Join,
    Leave,
    OffsetsAnswer,
    Request,
    Respond,
    Store,
    Stored,
    Sync,
    SyncAnswer,
    Tick,
)
from ackproof.broker.groups.groups import Groups, Records
from ackproof.broker.groups.state import GroupState
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.groups.shard import GroupShard
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from simulation.observer.logs import groups as logs
from simulation.violation import Violation

TICKS_MS: Final = 1_500
"""Within which a coordinator looks whose time is over, and has waited for newcomers at first."""
LOOKED_AT_MS: Final = 500
LITTLE_BYTES: Final = 20_000
"""A log that is looked at so often has no more."""


class Generation(NamedTuple):
    """One of a group's, as the next coordinator would load it."""

    number: int
    assignments: Mapping[str, bytes]
    """By member."""


@dataclass(slots=True)
class _Watched:
    """The groups of one partition in one leader epoch."""

    shard: GroupShard
    epoch: int
    generations: dict[str, Generation]
    """The last one of each group that is stored."""
    asked: dict[int, Request] = field(default_factory=dict)
    storing: dict[int, Records] = field(default_factory=dict)
    in_doubt: set[str] = field(default_factory=set)
    """Groups of which something could not be stored in time, and may stand in the log."""
    heard: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a member of a group said something for the last time that was taken, in ms."""
    log_start: int = 0
    looked_ms: float = 0
    """When what another coordinator would load was looked at."""


Stable = Mapping[str, Mapping[str, int]]
"""Of groups that are stable: their members' session timeouts, in ms."""


def buried(effects: Iterable[Effect]) -> Iterator[str]:
    """Groups of which nothing is to be left. As in Kafka, ``offsets.retention.minutes`` or not, one
    that all have left without a commit goes when it is looked at next (``cleanupGroupMetadata``),
    and its generations begin at 1 again."""
    for effect in effects:
        if isinstance(effect, Store):
            for key, value in effect.records:
                if isinstance(key, GroupMetadataKey) and value is None:
                    yield key.group


class Coordinators:
    """Judges each step when it was taken.

    * **CoordinatorsLoad**: groups are loaded in every leader epoch anew. Another broker may have
      led in between, and have stored what nobody here knows.
    * **GroupsAreLog**: see :mod:`simulation.observer.logs.groups`.
    * **StoredIsCommitted**: what a group goes on with as stored, all of the ISR has
      (``offsets.commit.required.acks``: -1). Else the next coordinator may know nothing of it.
    * **AnsweredIsStored**: so nobody hears of a commit, or is given partitions, before that; and
      what could not be stored is not committed.
    * **SessionsLast**: a member that was heard of within its session stays one. Where groups were
      loaded just now, all of their sessions have begun just now: nobody knows who was heard of.
    * **LeaversAreReplaced**: who goes from a stable group, whichever way, has the others join
      again, and share out what was his. Else nobody reads it.
    * **JoinsEnd**: who joins is answered within the rebalance timeout, whoever else does not come.
    * **WaitingAreTold**: and who waits for a coordinator that is none any more hears of that.
    """

    def __init__(self) -> None:
        self._watched: WeakKeyDictionary[Groups, _Watched] = WeakKeyDictionary()

    def loaded(self, broker: int, shard: GroupShard) -> None:
        """``shard`` is about to serve; raises Violation."""
        partition, known = shard.partition, shard.groups.by_id
        generations = {
            name: Generation(group.generation, {m.member_id: m.assignment for m in group.members})
            for name, group in known.items()
        }
        epoch, now = partition.replica.leader_epoch, shard._clock.now()
        heard: dict[tuple[str, str], float] = {
            (name, member.member_id): now for name in known for member in known[name].members
        }
        begin = partition.log.log_start_offset
        self._watched[shard.groups] = _Watched(
            shard, epoch, generations, heard=heard, log_start=begin
        )
        left = logs.left_in(partition.log)
        if left is not None:
            logs.check(f"{partition.tp}, broker {broker}", known, left)

    @staticmethod
    def stable(groups: Groups, event: Event) -> Stable:
        """To be asked for before each step."""
        if not isinstance(event, Tick | Leave):
            return {}
        return {
            name: {member.member_id: member.session_timeout_ms for member in group.members}
            for name, group in groups.by_id.items()
            if group.state is GroupState.STABLE
        }

    @staticmethod
    def closed(shard: GroupShard, waiting: Iterable[asyncio.Future[Answer]]) -> None:
        """``shard`` serves no more; raises Violation."""
        left = [future for future in waiting if not future.done()]
        if left:
            what = f"{len(left)} who asked for groups of {shard.partition.tp} are never answered"
            raise Violation("WaitingAreTold", what)

    def stepped(
        self, groups: Groups, event: Event, effects: Iterable[Effect], before: Stable
    ) -> None:
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
        if isinstance(event, Tick):
            _sessions_last(groups, watched, event, before)
            _joins_end(watched, event)
            _nothing_is_dropped(groups, watched)
            _nothing_would_be_dropped(groups, watched)
            _another_would_know(groups, watched, event)
        _leavers_are_replaced(groups, before)

    def _stored(self, groups: Groups, watched: _Watched, event: Stored) -> None:
        records = watched.storing.pop(event.token)
        if event.error is not ErrorCode.none:
            _is_not_known(groups, records)
            watched.in_doubt.update(_told_of(records))
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
                assignments = {member.member_id: member.assignment for member in value.members}
                watched.generations[key.group] = Generation(value.generation, assignments)
            elif isinstance(key, GroupMetadataKey):
                watched.generations.pop(key.group, None)

    def _answered(self, groups: Groups, watched: _Watched, event: Event, told: Respond) -> None:
        asked, answer = watched.asked.pop(told.request, None), told.answer
        if isinstance(asked, Heartbeat | Sync | Commit) and _is_taken(answer):
            # What had to wait for something else counts from when it was asked.
            watched.heard[asked.group, asked.member_id] = asked.at.now
        if isinstance(asked, Commit) and isinstance(answer, OffsetsAnswer):
            kept = [tp for tp, error in answer.partitions.items() if error is ErrorCode.none]
            if kept and not (isinstance(event, Stored) and event.error is ErrorCode.none):
                what = f"{asked.group} is told that its offsets of {kept} are committed, by"
                raise Violation("AnsweredIsStored", f"{what} {type(event).__name__}")
        given = answer.error is ErrorCode.none
        if isinstance(asked, Sync) and isinstance(answer, SyncAnswer) and given:
            _is_stored(groups.by_id[asked.group].generation, asked, answer, watched.generations)


def _is_stored(
    number: int, asked: Sync, given: SyncAnswer, stored: Mapping[str, Generation]
) -> None:
    """Under that member id, too: the next coordinator knows no other."""
    there = stored.get(asked.group)
    if there is None or number != there.number:
        what = f"gives out generation {number}, stored is {there and there.number}"
        raise Violation("AnsweredIsStored", f"{asked.group} {what}")
    part = there.assignments.get(asked.member_id)
    if part != given.assignment:
        what = f"{asked.member_id} is given {given.assignment!r}, stored is {part!r}"
        raise Violation("AnsweredIsStored", f"{asked.group}: {what}")


def _is_taken(answer: Answer) -> bool:
    if isinstance(answer, OffsetsAnswer) and answer.error is ErrorCode.none:
        return all(error is ErrorCode.none for error in answer.partitions.values())
    return answer.error is ErrorCode.none


def _sessions_last(groups: Groups, watched: _Watched, event: Tick, before: Stable) -> None:
    """While a group is stable nobody leaves it but by the end of a session."""
    for name, sessions in before.items():
        group = groups.by_id.get(name)
        for member_id, session_ms in sessions.items():
            heard = watched.heard.get((name, member_id))
            if heard is None or (group is not None and member_id in group.members):
                continue
            silent_ms = event.at.now - heard
            if silent_ms < session_ms:
                what = f"{member_id} was silent for {silent_ms:.0f} ms of {session_ms}"
                raise Violation("SessionsLast", f"{name}: the session of {what}, and is over")


def _leavers_are_replaced(groups: Groups, before: Stable) -> None:
    for name, sessions in before.items():
        group = groups.by_id.get(name)
        if group is None or group.state is not GroupState.STABLE:
            continue
        gone = sorted(sessions.keys() - {member.member_id for member in group.members})
        if gone:
            what = f"{gone} are gone, and what they read is shared out to nobody"
            raise Violation("LeaversAreReplaced", f"group {name} is stable: {what}")


def _nothing_is_dropped(groups: Groups, watched: _Watched) -> None:
    """When the log begins later (:mod:`broker.server.groups.rewrite`)."""
    log = watched.shard.partition.log
    if log.log_start_offset == watched.log_start:
        return
    watched.log_start = log.log_start_offset
    left = logs.left_in(log)
    if left is not None:
        logs.keeps(f"{watched.shard.partition.tp}", groups.by_id, _settled(watched), left)


def _nothing_would_be_dropped(groups: Groups, watched: _Watched) -> None:
    """If it was written again just now: it seldom is, and hardly ever while something is on its
    way."""
    where, again = f"{watched.shard.partition.tp}", groups.snapshot()
    logs.written_again(where, watched.storing.values(), again)
    logs.keeps(where, groups.by_id, _settled(watched), logs.left_by(again))


def _another_would_know(groups: Groups, watched: _Watched, event: Tick) -> None:
    """What stands in the log: somebody takes over a few times in a run, and another moment would
    find the log's end in another place of a segment."""
    log, now = watched.shard.partition.log, event.at.now
    if now - watched.looked_ms < LOOKED_AT_MS or log.size > LITTLE_BYTES:
        return
    watched.looked_ms = now
    loaded, left = logs.would_load(log, groups._config, event.at), logs.left_in(log)
    if loaded is not None and left is not None:
        logs.check(f"{watched.shard.partition.tp}, loaded just now", loaded, left)


def _settled(watched: _Watched) -> Mapping[str, int]:
    """The generations of groups of which nothing is on its way."""
    unsettled = watched.in_doubt.union(*map(_told_of, watched.storing.values()))
    return {
        name: generation.number
        for name, generation in watched.generations.items()
        if name not in unsettled
    }


def _told_of(records: Records) -> set[str]:
    """The groups whose generations these tell."""
    return {key.group for key, _ in records if isinstance(key, GroupMetadataKey)}


def _joins_end(watched: _Watched, event: Tick) -> None:
    joins = [asked for asked in watched.asked.values() if isinstance(asked, Join)]
    for asked in joins:
        waited_ms = event.at.now - asked.at.now
        limit_ms = max(join.rebalance_timeout_ms for join in joins) + TICKS_MS
        if waited_ms > limit_ms:
            what = f"{asked.group}: a member waits to join for {waited_ms:.0f} ms"
            raise Violation("JoinsEnd", f"{what}, {limit_ms} are enough")


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
