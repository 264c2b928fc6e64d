"""What is watched of coordinators, and of what brokers tell, broken by hand."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import TopicConfig
from ackproof.broker.groups.events import (
    Commit,
    Heartbeat,
    Leave,
    Moment,
    OffsetAndMetadata,
    OffsetsAnswer,
    Respond,
    Store,
    Stored,
    Sync,
    SyncAnswer,
    Tick,
)
from ackproof.broker.groups.groups import Records
from ackproof.broker.groups.state import GroupState
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import NO_EPOCH, Millis, TopicPartition
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.coordinators import Coordinators
from simulation.observer.leadership import resigning
from simulation.observer.logs import groups as logs
from simulation.observer.moments import told
from simulation.verdict import agreeing, settling, waiting
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

HOME = TopicPartition("__consumer_offsets", 0)
TP = TopicPartition("t", 0)
GROUP, MEMBER, GENERATION = "g", "m", 3
NAMED = GroupMetadataKey(group=GROUP)
OFFSET = OffsetCommitKey(group=GROUP, topic=TP.topic, partition=TP.partition)


class Groups:
    """One stable group with one member, which a :class:`Coordinators` watches."""

    def __init__(self) -> None:
        self.now = 0
        self.member = SimpleNamespace(member_id=MEMBER, session_timeout_ms=3_000, assignment=b"all")
        self.members = [self.member]
        group = SimpleNamespace(
            generation=GENERATION, state=GroupState.STABLE, members=Members(self.members),
            offsets=SimpleNamespace(committed={}, settled=set),
        )  # fmt: skip
        self.by_id: dict[str, Any] = {GROUP: group}
        self.again: Records = ((NAMED, stored_generation(GENERATION)),)
        self.replica = SimpleNamespace(role=Role.LEADER, leader_epoch=5, high_watermark=10)
        self.group = group
        self.log = SimpleNamespace(log_start_offset=0, size=10**6)
        partition = SimpleNamespace(tp=HOME, replica=self.replica, log=self.log)
        clock = SimpleNamespace(now=lambda: self.now)
        self.shard: Any = SimpleNamespace(groups=self, partition=partition, _clock=clock)
        self.coordinators = Coordinators()
        with Mutation(Swap(logs, "left_in", lambda _log: None)).active():
            self.coordinators.loaded(1, self.shard)

    def snapshot(self) -> Records:
        return self.again

    def at(self, now: int) -> Moment:
        return Moment(Millis(now), now)

    def step(
        self, event: Any, *effects: Any, leaves: bool = False, unnoticed: bool = False
    ) -> None:
        groups: Any = self
        before = Coordinators.stable(groups, event)
        if leaves:
            self.members.clear()
            if not unnoticed:
                self.group.state = GroupState.EMPTY
        self.coordinators.stepped(groups, event, effects, before)

    def commit(self, request: int = 1) -> Commit:
        offsets = {TP: OffsetAndMetadata(offset=7)}
        return Commit(
            request=request, at=self.at(0), group=GROUP, member_id=MEMBER,
            generation=GENERATION, offsets=offsets,
        )  # fmt: skip

    def sync(self) -> Sync:
        return Sync(request=2, at=self.at(0), group=GROUP, member_id=MEMBER, generation=GENERATION)

    def heartbeat(self, now: int) -> None:
        event = Heartbeat(
            request=3, at=self.at(now), group=GROUP, member_id=MEMBER, generation=GENERATION
        )
        self.step(event, Respond(request=3, answer=OffsetsAnswer()))


class Members(list[Any]):
    """Known by their ids."""

    def __init__(self, of: list[Any]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __contains__(self, member_id: object) -> bool:
        return any(member.member_id == member_id for member in self._of)


@pytest.fixture
def groups() -> Groups:
    return Groups()


KEPT = OffsetsAnswer(partitions={TP: ErrorCode.none})
STORE = Store(token=0, records=((NAMED, None),))


def stored_generation(number: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer", generation=number, protocol=None, leader=None,
        current_state_timestamp=0, members=(),
    )  # fmt: skip


def committed(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=0)


def stored(offset: int, error: ErrorCode = ErrorCode.none) -> Stored:
    return Stored(at=Moment(Millis(0), 0), token=0, error=error, offset=offset)


def stored_member(assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=MEMBER, group_instance_id=None, client_id="", client_host="",
        rebalance_timeout=3_000, session_timeout=3_000, subscription=b"", assignment=assignment,
    )  # fmt: skip


def test_a_commit_is_answered_when_it_is_stored(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(9), Respond(request=1, answer=KEPT))


def test_nothing_is_stored_that_is_not_committed(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    with pytest.raises(Violation, match=r"StoredIsCommitted: .* below 11 .* below 10"):
        groups.step(stored(10))


def test_of_one_that_leads_no_more_nothing_is_said(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.replica.role = Role.FOLLOWER
    groups.step(stored(10))


def test_a_commit_is_not_answered_before_nor_when_it_failed(groups: Groups) -> None:
    with pytest.raises(Violation, match="AnsweredIsStored"):
        groups.step(groups.commit(), STORE, Respond(request=1, answer=KEPT))
    groups.step(groups.commit(), STORE)
    with pytest.raises(Violation, match="AnsweredIsStored"):
        groups.step(stored(-1, ErrorCode.request_timed_out), Respond(request=1, answer=KEPT))


def test_a_generation_is_given_out_when_it_is_stored(groups: Groups) -> None:
    answer = Respond(request=2, answer=SyncAnswer(assignment=b"all"))
    groups.step(groups.sync(), answer)
    groups.by_id[GROUP].generation += 1
    with pytest.raises(Violation, match="gives out generation 4, stored is 3"):
        groups.step(groups.sync(), answer)
    next_one = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol=None, leader=None,
        current_state_timestamp=0, members=(stored_member(b"all"),),
    )  # fmt: skip
    groups.step(groups.sync(), Store(token=0, records=((GroupMetadataKey(group=GROUP), next_one),)))
    groups.step(stored(9), answer)


def test_who_is_given_a_part_has_it_stored_under_its_id(groups: Groups) -> None:
    with pytest.raises(Violation, match=r"AnsweredIsStored: g: m is given b'', stored is b'all'"):
        groups.step(groups.sync(), Respond(request=2, answer=SyncAnswer()))
    came_back = replace(groups.sync(), member_id="again")
    answer = Respond(request=2, answer=SyncAnswer(assignment=b"all"))
    with pytest.raises(Violation, match="again is given b'all', stored is None"):
        groups.step(came_back, answer)


def test_who_leads_again_has_loaded_again(groups: Groups) -> None:
    groups.replica.leader_epoch = 7
    with pytest.raises(Violation, match=r"CoordinatorsLoad: .* in leader epoch 5, .* leader in 7"):
        groups.step(groups.commit())


def test_a_session_lasts_from_the_last_word_on(groups: Groups) -> None:
    groups.heartbeat(1_000)
    groups.step(Tick(at=groups.at(3_900)))
    with pytest.raises(Violation, match=r"SessionsLast: .* silent for 2900 ms of 3000"):
        groups.step(Tick(at=groups.at(3_900)), leaves=True)


def test_it_ends_when_it_is_over(groups: Groups) -> None:
    groups.heartbeat(1_000)
    groups.step(Tick(at=groups.at(4_000)), leaves=True)


def test_it_begins_anew_where_groups_were_loaded(groups: Groups) -> None:
    with pytest.raises(Violation, match=r"SessionsLast: .* silent for 2900 ms of 3000"):
        groups.step(Tick(at=groups.at(2_900)), leaves=True)


@pytest.mark.parametrize("leaves", [True, False])
def test_who_goes_from_a_stable_group_has_the_others_join_again(
    groups: Groups, leaves: bool
) -> None:
    event = Tick(at=groups.at(4_000))
    if leaves:
        event = Leave(request=4, at=groups.at(1_000), group=GROUP, leaving=((MEMBER, None),))
    with pytest.raises(Violation, match=r"LeaversAreReplaced: .* \['m'\] are gone"):
        groups.step(event, leaves=True, unnoticed=True)


def test_what_a_group_knows_is_left_in_the_log_when_it_begins_later(groups: Groups) -> None:
    known = SimpleNamespace(value=SimpleNamespace(offset=7), stored_at=3)
    groups.group.offsets = SimpleNamespace(committed={TP: known}, settled=lambda: {TP})
    groups.again = ((OFFSET, committed(7)), *groups.again)
    there, former = stored_generation(GENERATION), stored_generation(GENERATION - 1)
    for left in ({GROUP: logs.Left({TP: (7, 9)}, there)}, None):
        groups.log.log_start_offset += 5
        with Mutation(Swap(logs, "left_in", lambda _log, left=left: left)).active():
            groups.step(Tick(at=groups.at(0)))
    for offsets, generation in (({}, there), ({TP: (6, 9)}, there), ({TP: (7, 9)}, former)):
        groups.log.log_start_offset += 5
        left = {GROUP: logs.Left(offsets, generation)}
        lacking = Mutation(Swap(logs, "left_in", lambda _log, left=left: left))
        with lacking.active(), pytest.raises(Violation, match=r"GroupsAreLog: .* begins later"):
            groups.step(Tick(at=groups.at(0)))


def test_it_would_be_if_it_was_written_again_just_now(groups: Groups) -> None:
    groups.step(Tick(at=groups.at(0)))
    groups.again = ()
    with pytest.raises(Violation, match=r"GroupsAreLog: .* g has generation 3"):
        groups.step(Tick(at=groups.at(0)))


def test_and_what_is_on_its_way_too(groups: Groups) -> None:
    on_its_way = Store(token=0, records=((OFFSET, committed(7)), (NAMED, None)))
    groups.step(groups.commit(), on_its_way)
    groups.again = ((OFFSET, committed(7)),)
    groups.step(Tick(at=groups.at(0)))
    for again in ((), ((OFFSET, committed(6)),), ((OFFSET, committed(7)), *Groups().again)):
        groups.again = again
        with pytest.raises(Violation, match=r"GroupsAreLog: .* is on its way to"):
            groups.step(Tick(at=groups.at(0)))


def test_of_what_could_not_be_stored_nothing_is_said(groups: Groups) -> None:
    groups.step(groups.commit(), STORE)
    groups.step(stored(0, ErrorCode.request_timed_out))
    groups.again = ()
    groups.step(Tick(at=groups.at(0)))


def test_who_waits_for_a_coordinator_is_answered_when_it_is_none(groups: Groups) -> None:
    loop = asyncio.new_event_loop()
    answered, left = loop.create_future(), loop.create_future()
    answered.set_result(KEPT)
    Coordinators.closed(groups.shard, [answered])
    with pytest.raises(Violation, match="WaitingAreTold: 1 who asked"):
        Coordinators.closed(groups.shard, [answered, left])
    loop.close()


def test_what_is_loaded_is_what_is_left_in_the_log() -> None:
    offsets = {TP: SimpleNamespace(value=SimpleNamespace(offset=7), stored_at=3)}
    group: Any = SimpleNamespace(
        offsets=SimpleNamespace(committed=offsets), generation=0, protocol=None,
        protocol_type=None, state=GroupState.EMPTY, since_ms=None, members=Nobody(),
    )  # fmt: skip
    logs.check("here", {GROUP: group}, {GROUP: logs.Left({TP: (7, 3)})})
    for strange in ({}, {GROUP: logs.Left({TP: (8, 3)})}, {GROUP: logs.Left({TP: (7, 4)})}):
        with pytest.raises(Violation, match="GroupsAreLog"):
            logs.check("here", {GROUP: group}, strange)


class Nobody:
    """Members that there are none of."""

    leader = None

    def __iter__(self) -> Iterator[Any]:
        return iter(())


# --- what brokers tell ----------------------------------------------------------------------------


LED = {(TP, 1, 3), (TP, 2, 4)}


def metadata(leader: int, error: ErrorCode = ErrorCode.none, epoch: int = 3) -> Any:
    part = SimpleNamespace(
        partition_index=TP.partition, leader_id=leader, error_code=error, leader_epoch=epoch
    )
    return SimpleNamespace(topics=[SimpleNamespace(name=TP.topic, partitions=[part])])


def test_that_nobody_leads_is_said() -> None:
    told.leaders(metadata(1), LED)
    told.leaders(metadata(-1, ErrorCode.leader_not_available), LED)
    with pytest.raises(Violation, match=r"NoLeaderIsSaid: none of .*, whose leader is -1"):
        told.leaders(metadata(-1), LED)


def test_a_leader_is_told_in_its_own_epoch() -> None:
    told.leaders(metadata(2, epoch=4), LED)
    told.leaders(metadata(1, epoch=NO_EPOCH), LED)
    with pytest.raises(Violation, match=r"LeadersHaveLed: .* 1 is said to lead in epoch 4"):
        told.leaders(metadata(1, epoch=4), LED)


# --- who leads no more ----------------------------------------------------------------------------


def test_a_replica_that_does_not_lead_keeps_no_producer_waiting() -> None:
    replica = SimpleNamespace(role=Role.LEADER)
    hosted: Any = SimpleNamespace(tp=TP, waiting_producers=1, replica=replica)
    resigning.stepped(1, hosted)
    replica.role = Role.FOLLOWER
    with pytest.raises(Violation, match="WaitingAreTold: t-0: 1 producers wait at broker 1"):
        resigning.stepped(1, hosted)
    hosted.waiting_producers = 0
    resigning.stepped(1, hosted)


def test_a_controller_that_resigns_keeps_nobody_waiting() -> None:
    loop = asyncio.new_event_loop()
    answered, left = loop.create_future(), loop.create_future()
    answered.set_result(None)
    resigning.of_office(1, [answered])
    with pytest.raises(Violation, match="WaitingAreTold: broker 1 is that no more, and 1 who"):
        resigning.of_office(1, [answered, left])
    loop.close()


# --- in the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["t", HOME.topic])
def test_nobody_waits_for_what_is_replicated(topic: str) -> None:
    tp = TopicPartition(topic, 0)
    observer: Any = SimpleNamespace(partitions=lambda: [(tp, SimpleNamespace(isr=(1, 2)))])
    left: dict[int, Any] = {1: SimpleNamespace(waiting_producers=0), 2: None}
    waiting.check(observer, lambda broker, _tp: left[broker])
    left[2] = SimpleNamespace(waiting_producers=2)
    if topic == HOME.topic:  # where coordinators write on
        waiting.check(observer, lambda broker, _tp: left[broker])
        return
    with pytest.raises(Violation, match="NobodyWaits: t-0: 2 produce requests wait at broker 2"):
        waiting.check(observer, lambda broker, _tp: left[broker])


def test_settings_are_known_to_the_log_and_to_whoever_decides() -> None:
    decides = SimpleNamespace(_config=ReplicaConfig(min_insync_replicas=2), _leader=None)
    config = TopicConfig(min_insync_replicas=2)
    hosted: Any = SimpleNamespace(
        config=config, replica=decides, log=SimpleNamespace(config=config.log_config())
    )
    assert agreeing._is_told(hosted)
    decides._leader = SimpleNamespace(config=ReplicaConfig())
    assert not agreeing._is_told(hosted)
    decides._leader = None
    hosted.log.config = TopicConfig(retention_ms=7).log_config()
    assert not agreeing._is_told(hosted)


@pytest.mark.parametrize(
    ("bases", "start", "kept"),
    [((0,), 9, False), ((0, 5), 4, False), ((0, 5), 5, True), ((5, 9), 7, False)],
)
def test_a_segment_of_what_was_given_up_is_not_kept(
    bases: tuple[int, ...], start: int, kept: bool
) -> None:
    replica: Any = SimpleNamespace(
        log=SimpleNamespace(segment_base_offsets=bases, log_start_offset=start)
    )
    assert settling._keeps_given_up(replica) == kept
