"""What is asked on purpose in the end, and what is watched of groups: a fault for each, planted in
the smallest world that has all of it, is found; without one nothing is."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.controller.deletion import Deletions
from broker.controller.rules import election
from broker.groups.events import Join
from broker.groups.group import Group
from broker.groups.loading import Loading
from broker.groups.members import Members
from broker.groups.requests import commits, joining
from broker.groups.state import GroupState
from broker.groups.table import STEPS
from broker.log.idempotence.producer_state import ProducerState
from broker.log.partition_log import PartitionLog
from broker.log.refused import RefusedBatch
from broker.server.groups.group_coordinator import GroupCoordinator
from broker.server.groups.shard import GroupShard
from broker.server.metadata_cache import MetadataCache
from broker.server.replication.fetch_session_cache import FetchSession
from broker.server.requests import client_batch, delete_records, fetch, list_offsets
from broker.server.requests.fetch import _Reader
from broker.server.zk.producer_ids import ProducerIds
from broker.types import Offset, ProducerId
from simulation.mutations.swap import Mutation, Swap
from simulation.plans.actions import Consume, CreateTopic, Produce, Timed
from simulation.plans.plan import Plan
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation

PLAN = Plan(
    seed=3,
    brokers=3,
    settings=(
        ("zookeeper.session.timeout.ms", "2000"),
        ("replica.lag.time.max.ms", "3000"),
        ("replica.fetch.wait.max.ms", "100"),
        ("offsets.topic.replication.factor", "3"),
        ("offsets.topic.num.partitions", "1"),
        ("group.initial.rebalance.delay.ms", "500"),
        ("group.min.session.timeout.ms", "1000"),
    ),
    producers=(False,),
    topics=(CreateTopic(topic="t0", replicas=((1, 2, 3), (1, 3, 2))),),
    actions=(
        *(
            Timed(
                at_ms=100,
                action=Produce(
                    producer=0, topic="t0", partition=at, acks=-1, batches=8, records=2, pause_ms=0
                ),
            )
            for at in (0, 1)
        ),
        Timed(at_ms=200, action=Consume(group="g", topic="t0", for_ms=6_000, leaves=True)),
    ),
    run_ms=8_000,
)


def test_a_sound_broker_does_all_that_is_asked_of_it() -> None:
    assert run(PLAN).violation is None


# --- planted --------------------------------------------------------------------------------------


def reads_all() -> Swap:
    read = PartitionLog.read

    def ample(self: PartitionLog, offset: int, _max: int, bound: int, **_: bool) -> Any:
        return read(self, offset, 2**20, bound)

    return Swap(PartitionLog, "read", ample)


def looks_once() -> Swap:
    return Swap(_Reader, "look_again", lambda _self, _woken: False)


def tells_who_is_refused() -> Swap:
    told = fetch._partition_data

    def data(read: Any) -> Any:
        refused = read.error is ErrorCode.offset_out_of_range
        return replace(told(read), high_watermark=Offset(5)) if refused else told(read)

    return Swap(fetch, "_partition_data", data)


def forgets_nothing() -> Swap:
    update = FetchSession.update

    def updated(self: FetchSession, request: Any) -> None:
        update(self, replace(request, forgotten_topics_data=()))

    return Swap(FetchSession, "update", updated)


def keeps_what_is_deleted() -> Swap:
    add = Loading.add
    return Swap(Loading, "add", lambda self, k, v, at: None if v is None else add(self, k, v, at))


def outlives_topics() -> Swap:
    return Swap(GroupCoordinator, "partitions_deleted", lambda _self, _partitions: None)


def never_prefers() -> Swap:
    def stays(leader: Any, candidates: Any, isr: Any, _preferred: bool) -> Any:
        return leader if leader in isr else next(c for c in candidates if c in isr)

    return Swap(election, "_leader_in_isr", stays)


def takes_any_batch() -> Swap:
    return Swap(client_batch, "_is_consistent", lambda _batch: True)


def takes_any_metadata() -> Swap:
    return Swap(commits, "_fits", lambda _group, _offset: True)


def takes_former_epochs() -> Swap:
    check = ProducerState.check

    def checked(self: ProducerState, batch: Any) -> Any:
        try:
            return check(self, batch)
        except RefusedBatch as refused:
            if refused.error is ErrorCode.invalid_producer_epoch:
                return None
            raise

    return Swap(ProducerState, "check", checked)


def gives_one_id() -> Swap:
    async def same(_self: ProducerIds) -> ProducerId:
        return ProducerId(7)

    return Swap(ProducerIds, "next", same)


def answers_before_followers() -> Swap:
    return Swap(delete_records, "_reached", lambda _tp, target, _: (ErrorCode.none, target))


def believes_former_controllers() -> Swap:
    update = MetadataCache.update

    def updated(self: MetadataCache, request: Any) -> Any:
        self._epochs = request.controller_epoch, request.broker_epoch
        return update(self, request)

    return Swap(MetadataCache, "update", updated)


def fences_nobody() -> Swap:
    def check(self: Members, member_id: str, _instance: str | None) -> ErrorCode:
        return ErrorCode.none if member_id in self else ErrorCode.unknown_member_id

    return Swap(Members, "check", check)


def leads_on_quietly() -> Swap:
    join = partial(joining.join, rejoin=joining.rejoin_completing)
    return Swap(STEPS[GroupState.STABLE], Join, join)


def deletes_topics_alone() -> Swap:
    delete = Deletions.delete_replica

    def of_topics(self: Deletions, tp: Any, broker: Any) -> None:
        if self._context.deletes(tp.topic):
            delete(self, tp, broker)

    return Swap(Deletions, "delete_replica", of_topics)


def stores_on_the_leader() -> Swap:
    append = GroupShard._append

    def appended(self: GroupShard, batch: Any) -> Any:
        self._config = replace(self._config, acks=1)
        return append(self, batch)

    return Swap(GroupShard, "_append", appended)


def hears_no_heartbeat() -> Swap:
    touch = Group.touch

    def touched(self: Group, member: Any, at: Any) -> None:
        if self.state is not GroupState.STABLE:
            touch(self, member, at)

    return Swap(Group, "touch", touched)


def has_no_time() -> Swap:
    return Swap(Group, "tick", lambda _self, _at: None)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (reads_all, "FetchLimitsKept"),
        (looks_once, "FetchWaits"),
        (tells_who_is_refused, "FetchTellsOffsets"),
        (forgets_nothing, "SessionsTellNews"),
        (keeps_what_is_deleted, "GroupsAreLog"),
        (outlives_topics, "OffsetsGoWithTopics"),
        (never_prefers, "PreferredLeads"),
        (takes_any_batch, "InvalidRefused"),
        (takes_any_metadata, "InvalidRefused"),
        (takes_former_epochs, "ProducerEpochsCount"),
        (gives_one_id, "IdsAreNew"),
        (answers_before_followers, "RecordsAreDeleted"),
        (believes_former_controllers, "SuccessorSaysAll"),
        (fences_nobody, "StaticMembersStay"),
        (leads_on_quietly, "LeaderCallsAgain"),
        (deletes_topics_alone, "RemovedAreDeleted"),
        (stores_on_the_leader, "StoredIsCommitted"),
        (hears_no_heartbeat, "SessionsLast"),
        (has_no_time, "JoinsEnd"),
    ],
)
def test_a_fault_is_found(plant: Callable[[], Swap], invariant: str) -> None:
    with Mutation(plant()).active():
        violation = run(PLAN).violation
    assert violation is not None
    assert violation.invariant == invariant, violation


def test_a_leader_that_tells_its_own_watermark_at_its_election_is_found() -> None:
    asked = Swap(list_offsets, "_unless_behind", lambda _partition, _version: ErrorCode.none)
    with Mutation(asked).active():
        violation = run(draw(0)).violation
    assert violation is not None
    assert violation.invariant == "EndNeverBack"
