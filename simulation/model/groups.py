"""The work of group coordinators, compared with ``__consumer_offsets``.

- **Groups/not-loaded-in-epoch**: groups are loaded again in every leader epoch, because another
  broker may have led in between and stored something.
- **Groups/differ-from-log**: a coordinator begins with the contents of its log, and keeps them when
  the log start moves. The last record of a key counts. A deleted offset that comes back makes its
  group read again, and a forgotten generation would be given out twice.
- **Groups/uncommitted-state-used**: state that a group uses as stored is committed
  (``offsets.commit.required.acks=-1``).
- **Groups/answered-before-stored**: no commit or assignment is confirmed before it is stored. An
  offset that could not be stored is not committed.
- **Groups/no-rebalance-after-leave**: when a member leaves a stable group, the others join again.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    Effect,
    Event,
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
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups, Records
from ackproof.broker.groups.state import GroupState
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.events import Append
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.groups.group_coordinator import GroupShard
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch, records
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    Value,
    decode,
)
from simulation.model.history import SentCommit as SentCommit
from simulation.model.log import batches_of
from simulation.model.partition import PartitionModel
from simulation.violation import Violation

DIFFERS_FROM_LOG: Final = "Groups/differ-from-log"


class Generation(NamedTuple):
    """A generation of a group, as the next coordinator would load it."""

    number: int
    assignments: Mapping[str, bytes]
    """The assignments by member id."""

    @classmethod
    def of(cls, group: Group) -> "Generation":
        """Return the present generation of a group."""
        return cls(group.generation, {m.member_id: m.assignment for m in group.members})


@dataclass(slots=True)
class _Loaded:
    """The groups of one partition in one leader epoch."""

    epoch: int
    log_start: int
    generations: dict[str, Generation]
    stable: Mapping[str, Set[str]]
    """The members of the groups that were stable before the step."""
    requests: dict[int, Request] = field(default_factory=dict)
    storing: dict[int, Records] = field(default_factory=dict)
    undetermined: set[str] = field(default_factory=set)
    """Groups with a record that could not be stored in time, and may be in the log."""


class GroupsModel:
    """The coordinators of all brokers."""

    def __init__(self) -> None:
        self._loaded: WeakKeyDictionary[GroupShard, _Loaded] = WeakKeyDictionary()

    def loaded(self, broker: int, shard: GroupShard) -> None:
        """Judge the groups that a coordinator begins with. Raises Violation."""
        partition, known = shard.partition, shard.groups.by_id
        self._loaded[shard] = _Loaded(
            epoch=partition.replica.leader_epoch,
            log_start=partition.log.log_start_offset,
            generations={name: Generation.of(group) for name, group in known.items()},
            stable=_stable(shard.groups),
        )
        stored = stored_in(partition.log)
        if stored is not None:
            check_loaded(f"{partition.tp}, broker {broker}", known, stored)

    def stepped(self, shard: GroupShard, event: Event, effects: Sequence[Effect]) -> None:
        """Judge a step of the groups; raises Violation."""
        loaded = self._loaded.get(shard)
        if loaded is None:
            return
        if isinstance(event, Request):
            _check_epoch(shard, loaded)
            loaded.requests[event.request] = event
        if isinstance(event, Stored):
            self._stored(shard, loaded, event)
        for effect in effects:
            if isinstance(effect, Store):
                loaded.storing[effect.token] = effect.records
            elif isinstance(effect, Respond):
                self._answered(shard.groups, loaded, event, effect)
        if isinstance(event, Tick):
            _check_log_start(shard, loaded)
        if isinstance(event, Tick | Leave):
            _check_rebalances(shard.groups, loaded)
        loaded.stable = _stable(shard.groups)

    def _stored(self, shard: GroupShard, loaded: _Loaded, event: Stored) -> None:
        stored = loaded.storing.pop(event.token)
        if event.error is not ErrorCode.none:
            _check_failed_store(shard.groups, stored)
            loaded.undetermined.update(_groups_of(stored))
            return
        replica = shard.partition.replica
        led = replica.role is Role.LEADER and replica.leader_epoch == loaded.epoch
        end = event.offset + len(stored)
        if led and end > replica.high_watermark:
            what = f"{shard.partition.tp}: what is below {end} counts as stored, the high watermark"
            raise Violation("Groups/uncommitted-state-used", f"{what} is {replica.high_watermark}")
        for key, value in stored:
            if isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
                assignments = {member.member_id: member.assignment for member in value.members}
                loaded.generations[key.group] = Generation(value.generation, assignments)
            elif isinstance(key, GroupMetadataKey):
                loaded.generations.pop(key.group, None)

    def _answered(self, groups: Groups, loaded: _Loaded, event: Event, effect: Respond) -> None:
        request, answer = loaded.requests.pop(effect.request, None), effect.answer
        if isinstance(request, Commit) and isinstance(answer, OffsetsAnswer):
            kept = [tp for tp, error in answer.partitions.items() if error is ErrorCode.none]
            if kept and not (isinstance(event, Stored) and event.error is ErrorCode.none):
                what = f"group {request.group}: the commit of {kept} is confirmed, at"
                raise Violation(
                    "Groups/answered-before-stored", f"{what} the step {type(event).__name__}"
                )
        given = answer.error is ErrorCode.none
        if isinstance(request, Sync) and isinstance(answer, SyncAnswer) and given:
            number = groups.by_id[request.group].generation
            _check_assignment(number, request, answer, loaded.generations.get(request.group))


def _stable(groups: Groups) -> Mapping[str, Set[str]]:
    return {
        name: {member.member_id for member in group.members}
        for name, group in groups.by_id.items()
        if group.state is GroupState.STABLE
    }


def _check_epoch(shard: GroupShard, loaded: _Loaded) -> None:
    replica = shard.partition.replica
    if replica.role is not Role.LEADER or replica.leader_epoch != loaded.epoch:
        what = f"{shard.partition.tp}: groups that were loaded in leader epoch {loaded.epoch} are"
        what = f"{what} asked while the replica is {replica.role.value} in"
        raise Violation("Groups/not-loaded-in-epoch", f"{what} {replica.leader_epoch}")


def _check_assignment(
    number: int, request: Sync, given: SyncAnswer, stored: Generation | None
) -> None:
    """Check that the assignment is stored under this member id, because the next coordinator knows
    no other."""
    if stored is None or number != stored.number:
        what = f"gives out generation {number}, stored is {stored and stored.number}"
        raise Violation("Groups/answered-before-stored", f"group {request.group} {what}")
    part = stored.assignments.get(request.member_id)
    if part != given.assignment:
        what = f"{request.member_id} is given {given.assignment!r}, stored is {part!r}"
        raise Violation("Groups/answered-before-stored", f"group {request.group}: {what}")


def _check_rebalances(groups: Groups, loaded: _Loaded) -> None:
    for name, members in loaded.stable.items():
        group = groups.by_id.get(name)
        if group is None or group.state is not GroupState.STABLE:
            continue
        gone = sorted(members - {member.member_id for member in group.members})
        if gone:
            what = f"{gone} are gone, and no other member is given what they read"
            raise Violation("Groups/no-rebalance-after-leave", f"group {name} is stable: {what}")


def _check_failed_store(groups: Groups, stored: Records) -> None:
    for key, _ in stored:
        group = groups.by_id.get(key.group)
        if isinstance(key, OffsetCommitKey) and group is not None:
            tp = TopicPartition(key.topic, key.partition)
            known = group.offsets.committed.get(tp)
            if known is not None and known.stored_at < 0:
                what = f"group {key.group} counts {known.value.offset} of {tp} as committed, which"
                raise Violation("Groups/answered-before-stored", f"{what} could not be stored")


def _groups_of(stored: Records) -> set[str]:
    return {key.group for key, _ in stored if isinstance(key, GroupMetadataKey)}


# --- the log ------------------------------------------------------------------------------------


@dataclass(slots=True)
class StoredGroup:
    """The contents of a log for one group."""

    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The committed offsets, each with its offset in the log."""
    generation: GroupMetadataValue | None = None

    def __bool__(self) -> bool:
        return bool(self.offsets) or self.generation is not None


def stored_in(log: PartitionLog) -> Mapping[str, StoredGroup] | None:
    """Read the groups of a log. None means that the disk cannot be read."""
    found: dict[str, StoredGroup] = {}
    try:
        for batch in batches_of(log):
            for record in records(batch):
                if record.offset >= log.log_start_offset:
                    _add(found, *decode(record.key, record.value), record.offset)
    except OSError:
        return None
    return {group: stored for group, stored in found.items() if stored}


def stored_by(written: Records) -> Mapping[str, StoredGroup]:
    """Return the groups of a log that has only these records."""
    found: dict[str, StoredGroup] = {}
    for offset, (key, value) in enumerate(written):
        _add(found, key, value, offset)
    return {group: stored for group, stored in found.items() if stored}


def _add(found: dict[str, StoredGroup], key: Key, value: Value | None, offset: int) -> None:
    group = found.setdefault(key.group, StoredGroup())
    if isinstance(key, GroupMetadataKey):
        group.generation = value if isinstance(value, GroupMetadataValue) else None
        return
    tp = TopicPartition(key.topic, key.partition)
    group.offsets.pop(tp, None)
    if isinstance(value, OffsetCommitValue):
        group.offsets[tp] = value.offset, offset


def check_loaded(
    where: str, loaded: Mapping[str, Group], stored: Mapping[str, StoredGroup]
) -> None:
    """Judge what a coordinator has loaded from a log. Raises Violation."""
    if loaded.keys() != stored.keys():
        unmatched = sorted(loaded.keys() ^ stored.keys())
        what = f"groups {unmatched} are known to the coordinator or stand in the log, and not both"
        raise Violation(DIFFERS_FROM_LOG, f"{where}: {what}")
    for name, group in loaded.items():
        in_log = stored[name]
        known = {tp: (o.value.offset, o.stored_at) for tp, o in group.offsets.committed.items()}
        if known != in_log.offsets:
            what = f"of group {name} the offsets {known} are known, in the log are"
            raise Violation(DIFFERS_FROM_LOG, f"{where}: {what} {in_log.offsets}")
        if _known_state(group) != _stored_state(in_log.generation):
            what = f"group {name} is {_known_state(group)}, in the log it is"
            raise Violation(DIFFERS_FROM_LOG, f"{where}: {what} {_stored_state(in_log.generation)}")


def _check_log_start(shard: GroupShard, loaded: _Loaded) -> None:
    """Judge the contents of the log after its start moved, and after a move that could happen now
    (:mod:`broker.server.groups.group_coordinator`)."""
    log, where = shard.partition.log, f"{shard.partition.tp}"
    unsettled = loaded.undetermined.union(*map(_groups_of, loaded.storing.values()))
    generations = {
        name: generation.number
        for name, generation in loaded.generations.items()
        if name not in unsettled
    }
    if log.log_start_offset != loaded.log_start:
        loaded.log_start = log.log_start_offset
        stored = stored_in(log)
        if stored is not None:
            check_kept(where, shard.groups.by_id, generations, stored)
    rewritten = shard.groups.snapshot()
    check_pending(where, loaded.storing.values(), rewritten)
    check_kept(where, shard.groups.by_id, generations, stored_by(rewritten))


def check_kept(
    where: str,
    known: Mapping[str, Group],
    generations: Mapping[str, int],
    stored: Mapping[str, StoredGroup],
) -> None:
    """Judge a log whose coordinator knows these groups and has stored these generations.

    Records that are still being written do not count. Raises Violation.
    """
    for name, group in known.items():
        there = stored.get(name, StoredGroup())
        latest = 0 if there.generation is None else there.generation.generation
        if latest < generations.get(name, 0):
            what = f"group {name} has generation {generations[name]}, in the log is {latest}"
            raise Violation(DIFFERS_FROM_LOG, f"{where}, which begins later: {what}")
        for tp in sorted(group.offsets.settled()):
            offset = group.offsets.committed[tp].value.offset
            if tp not in there.offsets or there.offsets[tp][0] != offset:
                in_log = there.offsets.get(tp)
                what = f"group {name} has committed {offset} of {tp}, in the log is {in_log}"
                raise Violation(DIFFERS_FROM_LOG, f"{where}, which begins later: {what}")


def check_pending(where: str, storing: Iterable[Records], rewritten: Records) -> None:
    """Judge a log that would begin with ``rewritten``: records being written must be in it.

    A commit that is appended before them, and committed later, would be deleted when the log start
    moves. Raises Violation.
    """
    due = {key: value for written in storing for key, value in written}
    there = dict(rewritten)
    for key, value in due.items():
        if there.get(key) != value:
            what = f"{value} is on its way to {key}, and would be {there.get(key)}"
            raise Violation(DIFFERS_FROM_LOG, f"{where}, written again: {what}")


def _known_state(group: Group) -> tuple[object, ...]:
    members = {
        member.member_id: (
            member.instance_id, member.client_id, member.client_host, member.rebalance_timeout_ms,
            member.session_timeout_ms, member.metadata(group.protocol), member.assignment,
        )
        for member in group.members
    }  # fmt: skip
    leads = group.members.leader
    kind, since = group.protocol_type, group.since_ms
    return group.state, since, group.generation, leads, kind, group.protocol, members


def _stored_state(value: GroupMetadataValue | None) -> tuple[object, ...]:
    if value is None:
        return GroupState.EMPTY, None, 0, None, None, None, {}
    members = {
        member.member_id: (
            member.group_instance_id, member.client_id, member.client_host,
            member.rebalance_timeout, member.session_timeout, member.subscription,
            member.assignment,
        )
        for member in value.members
    }  # fmt: skip
    state = GroupState.STABLE if members else GroupState.EMPTY
    kind, since = value.protocol_type or None, value.current_state_timestamp
    return state, since, value.generation, value.leader, kind, value.protocol, members


# --- stored commits -----------------------------------------------------------------------------


class CommitLocation(NamedTuple):
    """A batch that holds a committed offset, and the time of its append."""

    base: int
    crc: int
    at: float


class StoredCommits:
    """All places of each committed offset in one partition of ``__consumer_offsets``. Coordinators
    rewrite what they know (:mod:`broker.server.groups.group_coordinator`)."""

    def __init__(self) -> None:
        self._locations: dict[tuple[str, TopicPartition, int], list[CommitLocation]] = {}

    def appended(self, effect: Append, now: float) -> None:
        """Note a leader's append of one batch, as coordinators make it."""
        for batch in cast(tuple[RecordBatch, ...], effect.batches):
            location = CommitLocation(int(effect.base_offset), batch.crc, now)
            for record in records(batch):
                key, value = decode(record.key, record.value)
                if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                    tp = TopicPartition(key.topic, key.partition)
                    self._locations.setdefault((key.group, tp, value.offset), []).append(location)

    def is_guaranteed(self, commit: SentCommit, home: PartitionModel) -> bool:
        """Return whether an acknowledged commit must still be remembered.

        It must if no guarantee of its partition has ended since, or if a record of it is
        guaranteed. A record from before the commit was sent does not count. Suppose 5 was
        committed, then 7, then 5 again, and the second 5 is lost. Then 7 must be remembered, though
        the first 5 is kept.
        """
        if all(when < commit.sent_at for when, _ in home.ended_guarantees):
            return True
        locations = self._locations.get((commit.group, commit.tp, commit.offset), ())
        return any(
            location.at >= commit.sent_at and home.holds(location.base, location.crc)
            for location in locations
        )
