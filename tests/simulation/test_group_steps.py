"""What is held against each step of a coordinator: it finds what is planted, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from group_steps import looked_at
from group_world import RANGE, SESSION_MS, TP, World
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Heartbeat, Protocol, SyncAnswer
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.members import Members
from ackproof.broker.groups.offsets import Offsets
from ackproof.broker.groups.pending import Burial, PendingAssignments, PendingCommit
from ackproof.broker.groups.requests import commits, membership
from ackproof.broker.groups.state import GroupState
from ackproof.broker.groups.table import AFTER, STEPS
from ackproof.broker.server.zk.znodes import encode_producer_ids
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.group_records import GroupMetadataKey
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.moments.producer_ids import PATH, ProducerIdBlocks
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

ANOTHER = (Protocol("other", b""),)


@pytest.fixture
def world() -> Iterator[Any]:
    """Each of its steps is looked at."""
    with looked_at():
        config = GroupConfig(
            max_size=3, offsets_retention_ms=60_000, initial_rebalance_delay_ms=1_000
        )
        yield World(config=config)  # type: ignore[no-untyped-call]


# --- stories --------------------------------------------------------------------------------------


def all_come_and_go(world: Any) -> None:
    leader, other = world.stable(2, rebalance_timeout_ms=SESSION_MS // 4)
    generation = world.group.generation
    world.commit(7, leader, generation)
    world.heartbeat(other, generation)
    world.heartbeat(other, generation + 1)
    world.heartbeat("nobody", generation)
    again = world.join(leader)
    world.heartbeat(other, generation)
    world.sync(other, generation)
    world.join(other, protocols=(*RANGE, *ANOTHER))
    generation = world.answer(again).generation
    world.sync(other, generation)
    world.sync(leader, generation, {leader: b"1", other: b"2"})
    world.join(other, protocols=(*RANGE, *ANOTHER))
    world.leave((leader, None), (leader, None))
    world.join(other, protocols=RANGE)  # and never asks for its part
    world.tick(SESSION_MS // 2)
    world.tick(3 * SESSION_MS)


def statics_are_restarted(world: Any) -> None:
    leader, _ = world.stable(instances=["a", "b"])
    world.join(instance="a", new_member_id="a-2")
    world.heartbeat(leader, 1, instance_id="a")
    world.sync("a-2", 1, instance_id="a")
    world.reload()
    again = world.join("a-2", instance="a")
    world.join(instance="b", new_member_id="b-2")
    generation = world.answer(again).generation
    world.sync("a-2", generation, {"a-2": b"1", "b-2": b"2"}, instance_id="a")
    world.auto = False
    world.join(instance="b", new_member_id="b-3")
    world.store(ErrorCode.request_timed_out)
    world.auto = True
    world.leave(("", "b"), ("", "c"))
    world.tick(10 * SESSION_MS)


def statics_are_silent(world: Any) -> None:
    leader, _ = world.stable(instances=["a", "b"], rebalance_timeout_ms=SESSION_MS // 4)
    world.join(leader, instance="a", rebalance_timeout_ms=SESSION_MS // 4)
    world.tick(SESSION_MS // 2)
    world.tick(3 * SESSION_MS)


def assignments_fail(world: Any) -> None:
    leader, other = world.stable(2)
    again = world.join(leader)
    world.join(other)
    generation = world.answer(again).generation
    world.auto = False
    world.sync(other, generation)
    world.sync(leader, generation, {leader: b"1", other: b"2"})
    world.store(ErrorCode.not_enough_replicas)
    world.auto = True
    world.tick(10 * SESSION_MS)


def commits_meet_deletions(world: Any) -> None:
    world.commit(1)
    world.auto = False
    world.commit(2, tp=TopicPartition("other", 0))
    world.delete_group()
    world.commit(3)
    world.join(instance="a")
    world.tick()
    world.store()
    world.store(ErrorCode.request_timed_out)
    world.delete_group()
    world.store()
    world.commit(3)
    world.store()
    world.commit(4)
    world.now += 60_000
    world.expire()
    world.partitions_deleted(TP)
    world.store(ErrorCode.request_timed_out)
    world.auto = True
    world.delete_offsets(TP)
    world.commit(5, metadata="m" * 5_000)
    world.delete_group()
    world.commit(4)
    world.now += 60_000
    world.expire()


def newcomers_are_waited_for(world: Any) -> None:
    world.enter()
    world.tick(500)
    world.enter()
    world.tick(1_000)
    world.join()  # is given an id, and never comes with it
    leaver, _ = world.enter()
    world.leave((leaver, None))
    world.tick(5 * SESSION_MS)
    world.join(protocols=ANOTHER)
    world.tick(10 * SESSION_MS)
    world.expire()


STORIES = (
    all_come_and_go,
    statics_are_restarted,
    statics_are_silent,
    assignments_fail,
    commits_meet_deletions,
    newcomers_are_waited_for,
)


@pytest.mark.parametrize("story", STORIES)
def test_nothing_is_found_where_nothing_is_wrong(world: Any, story: Any) -> None:
    story(world)


# --- what is planted ------------------------------------------------------------------------------


def _leader_stays_behind(self: Members, old: str, new: str) -> Any:
    leader = self.leader
    member = _rename(self, old, new)
    self.leader = leader
    return member


def _lives_meanwhile(group: Group, event: Any, partitions: Any) -> None:
    commits._remove(group, partitions, Burial(event=event))


def _stored_anyhow(group: Any, stored: Any, pending: Any) -> Any:
    return commits.settle_commit(group, replace(stored, error=ErrorCode.none), pending)


def _shows_the_first(self: Members, protocol: str | None) -> Any:
    return _joined(self, protocol)[:1]


def _keeps_no_commit(group: Group, stored: Any, pending: PendingCommit) -> None:
    group.offsets.end(pending.offsets)
    commits._answer(group, pending.event, stored.error)


def _forgets_to_call(group: Group, stored: Any, pending: PendingAssignments) -> None:
    if stored.error is ErrorCode.none:
        _give_out(group, stored, pending)


def _removes_all(self: Group, at: Any) -> None:
    for member in self.members:
        if member.join is None:
            self.members.remove(member.member_id)
    _complete(self, at)


def _goes_alone(self: Group, member_id: str, _at: Any) -> None:
    self._dismiss(member_id)


def _leaderless(self: Group, at: Any, assignments: Any = None) -> Any:
    key, value = _record(self, at, assignments)
    return key, replace(value, leader=None)


def _goes_without_a_word(self: Group, member_id: str, at: Any) -> None:
    self.members.remove(member_id)
    self.prepare_rebalance(at)


def _leaves_unheard(self: Group, member_id: str) -> None:
    """In no story does anybody leave who waits; what if."""
    self.answer_sync(self.members.remove(member_id), SyncAnswer(error=ErrorCode.unknown_member_id))


def _never_ends(self: Group, at: Any) -> None:
    if self.state is GroupState.PREPARING_REBALANCE:
        self.advance_join(at)
    self._phase_ends = None if self.state is GroupState.COMPLETING_REBALANCE else self._phase_ends


def _all(self: Offsets, _before_ms: int) -> frozenset[Any]:
    return frozenset(self)


def _comes_unseen(self: Group, member: Any, protocol_type: str, at: Any) -> None:
    _add(self, member, protocol_type, at)
    self._newcomers = False


def _hurries(self: Group, at: Any) -> None:
    self._newcomers = self._newcomers and at.now < (self._phase_ends or 0)
    _advance(self, at)


def _keeps_a_word(self: Groups, records: Any) -> None:
    for key, value in records:
        if isinstance(key, GroupMetadataKey):
            self._generations[key] = value


def _knows_what_failed(self: Groups, event: Any) -> Any:
    self._note_generations(self._storing[event.token][1])
    return _stored(self, event)


_stored = Groups._stored
_rename, _joined, _give_out = Members.rename, Members.joined, membership.give_out
_add, _advance = Group.add, Group.advance_join
_complete, _record = Group._complete_join, Group.record

PLANTED = (
    ("OneLeads", statics_are_restarted, Swap(Members, "rename", _leader_stays_behind)),
    ("OneLeads", all_come_and_go, Swap(Members, "joined", _shows_the_first)),
    ("OffsetsAreStored", all_come_and_go, Swap(AFTER, PendingCommit, _stored_anyhow)),
    ("SessionsAreTouched", all_come_and_go, Swap(Group, "touch", lambda *_: None)),
    ("MembersStay", statics_are_silent, Swap(Group, "_complete_join", _removes_all)),
    ("MembersStay", all_come_and_go, Swap(Members, "all_joined", property(lambda _: True))),
    ("GenerationsFollow", all_come_and_go, Swap(Group, "_end_phase", _never_ends)),
    ("GenerationsFollow", assignments_fail, Swap(AFTER, PendingAssignments, _forgets_to_call)),
    ("NewcomersAreWaitedFor", newcomers_are_waited_for, Swap(Group, "add", _comes_unseen)),
    ("NewcomersAreWaitedFor", newcomers_are_waited_for, Swap(Group, "advance_join", _hurries)),
    ("MembersStay", all_come_and_go, Swap(Group, "remove", _goes_alone)),
    ("EachIsAnswered", all_come_and_go, Swap(Group, "_dismiss", _leaves_unheard)),
    ("EachIsAnswered", newcomers_are_waited_for, Swap(Group, "remove", _goes_without_a_word)),
    (
        "RefusedByState",
        all_come_and_go,
        Swap(STEPS[GroupState.PREPARING_REBALANCE], Heartbeat, STEPS[GroupState.STABLE][Heartbeat]),
    ),
    ("OffsetsAreStored", all_come_and_go, Swap(AFTER, PendingCommit, _keeps_no_commit)),
    ("StoredAsKnown", all_come_and_go, Swap(Group, "record", _leaderless)),
    ("OffsetsEnd", commits_meet_deletions, Swap(Offsets, "committed_before", _all)),
    ("OffsetsEnd", commits_meet_deletions, Swap(Offsets, "known", property(frozenset))),
    ("GroupsEnd", commits_meet_deletions, Swap(commits, "_bury", _lives_meanwhile)),
    ("GroupsEnd", commits_meet_deletions, Swap(Groups, "_note_generations", _keeps_a_word)),
    ("SaidAnewAsStored", assignments_fail, Swap(Groups, "_stored", _knows_what_failed)),
)


@pytest.mark.parametrize(("invariant", "story", "planted"), PLANTED)
def test_what_is_planted_is_found(world: Any, invariant: str, story: Any, planted: Swap) -> None:
    with Mutation(planted).active(), pytest.raises(Violation, match=invariant):
        story(world)


# --- producer ids ---------------------------------------------------------------------------------


def _block(broker: int, start: int, end: int) -> bytes:
    return encode_producer_ids(BrokerId(broker), range(start, end + 1))


def test_blocks_of_producer_ids_follow_each_other_and_are_given_out_once() -> None:
    ids = ProducerIdBlocks()
    for broker, start in ((1, 0), (2, 1_000)):
        ids.written(PATH, _block(broker, start, start + 999))
        ids.taken(broker, range(start, start + 1_000))
    ids.given(1, 999)
    ids.given(2, 1_000)
    ids.taken(1, None)
    ids.written("/brokers/ids/1", b"")
    with pytest.raises(Violation, match="IdsAreNew"):
        ids.written(PATH, _block(1, 1_999, 2_998))
    with pytest.raises(Violation, match="which 2 has taken"):
        ids.taken(1, range(1_000, 2_000))
    for broker, producer in ((1, 999), (1, 1_001), (2, 2_000)):
        with pytest.raises(Violation, match="not its own"):
            ids.given(broker, producer)
