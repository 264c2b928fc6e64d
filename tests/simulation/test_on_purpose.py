"""What is asked on purpose in the end, and what is watched of groups: a fault for each, planted in
the smallest world that has all of it, is found; without one nothing is."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import TransactionRequest
from kio.schema.errors import ErrorCode
from swap import Mutation, Swap

from ackproof.broker.config import TopicConfig
from ackproof.broker.controller.cluster import LiveBroker
from ackproof.broker.controller.controller import _Epoch
from ackproof.broker.controller.deletion import Deletions
from ackproof.broker.controller.elections import Elections
from ackproof.broker.controller.reassignment import Reassignments
from ackproof.broker.controller.rules import election
from ackproof.broker.coordination.context import Context
from ackproof.broker.groups.events import Join
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.loading import Loading
from ackproof.broker.groups.members import Members
from ackproof.broker.groups.requests import commits, failures, joining
from ackproof.broker.groups.state import GroupState
from ackproof.broker.groups.table import STEPS
from ackproof.broker.log import retention, validator
from ackproof.broker.log.idempotence.producer_state import ProducerState
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.refused import RefusedBatch
from ackproof.broker.log.segment import Segment
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.replication.replica_selector import RACK_AWARE
from ackproof.broker.server.admin.config_admin import ConfigAdmin
from ackproof.broker.server.admin.topics import Topics
from ackproof.broker.server.groups.shard import GroupShard
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication import fetcher
from ackproof.broker.server.replication.fetch_session_cache import FetchSession, FetchSessionCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.requests import (
    client_batch,
    delete_records,
    describe_groups,
    describe_log_dirs,
    fetch,
    incremental_alter_configs,
    list_offsets,
    list_partition_reassignments,
    offset_fetch,
    produce,
)
from ackproof.broker.server.requests.fetch import _Reader
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.producer_ids import ProducerIds
from ackproof.broker.types import BrokerId, Offset, ProducerId, TopicPartition
from ackproof.broker.wire.records import records
from simulation.plans.actions import Consume, CreateTopic, Produce, Timed
from simulation.plans.plan import LIMITS_OF_GROUPS, Plan
from simulation.plans.schedule import without_controller
from simulation.violation import Violation
from simulation.world.world import run

pytestmark = pytest.mark.simulation

PLAN = Plan(
    seed=6,
    brokers=3,
    settings=(
        ("zookeeper.session.timeout.ms", "2000"),
        ("replica.lag.time.max.ms", "3000"),
        ("replica.fetch.wait.max.ms", "100"),
        ("offsets.topic.replication.factor", "3"),
        ("offsets.topic.num.partitions", "1"),
        ("group.initial.rebalance.delay.ms", "500"),
        ("group.min.session.timeout.ms", "1000"),
        ("log.retention.check.interval.ms", "1000"),
        ("max.incremental.fetch.session.cache.slots", "20"),
        ("replica.selector.class", RACK_AWARE),
        *((name, str(value)) for name, value in LIMITS_OF_GROUPS.items()),
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


def found(plan: Plan, *broken: Swap) -> Violation:
    """What it is that a broker which is broken so does wrong."""
    with Mutation(*broken).active():
        violation = run(plan).violation
    assert violation is not None
    return violation


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
    return Swap(GroupShard, "partitions_deleted", lambda _self, _are_gone: None)


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
    def reached(tp: Any, target: Any, context: Any) -> tuple[ErrorCode, Offset]:
        if isinstance(target, ErrorCode):
            return target, Offset(-1)
        error = context.replicas.hosted(tp).replica.check_leader(None)
        return error, target if error is ErrorCode.none else Offset(-1)

    return Swap(delete_records, "_reached", reached)


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

    def appended(self: GroupShard, batch: Any, _acks: int) -> Any:
        return append(self, batch, 1)

    return Swap(GroupShard, "_append", appended)


def hears_no_heartbeat() -> Swap:
    touch = Group.touch

    def touched(self: Group, member: Any, at: Any) -> None:
        if self.state is not GroupState.STABLE:
            touch(self, member, at)

    return Swap(Group, "touch", touched)


def stamps_nothing() -> Swap:
    return Swap(validator, "with_append_time", lambda batch, _now: batch)


def looks_at_the_first_record() -> Swap:
    return Swap(validator, "records", lambda batch: islice(records(batch), 1))


def retains_all_that_is_young() -> Swap:
    return Swap(retention, "_too_old", lambda _segment, _config, _now: False)


def tells_one_time_of_a_batch() -> Swap:
    found = Segment.offset_for_timestamp

    def first(self: Segment, timestamp: int, start: int) -> Any:
        record = found(self, timestamp, start)
        return record and record._replace(timestamp=timestamp)

    return Swap(Segment, "offset_for_timestamp", first)


def tells_times_of_all() -> Swap:
    def found(partition: Any, timestamp: int, bound: Offset) -> tuple[int, Offset]:
        record = partition.log.offset_for_timestamp(timestamp) if timestamp >= 0 else None
        return (record[1], record[0]) if record is not None else (-1, bound)

    return Swap(list_offsets, "_find", found)


def lets_everybody_in() -> Swap:
    check = joining._check

    def checked(group: Group, event: Join) -> ErrorCode:
        error = check(group, event)
        return ErrorCode.none if error is ErrorCode.group_max_size_reached else error

    return Swap(joining, "_check", checked)


def forgets_no_offset() -> Swap:
    return Swap(commits, "_expired", lambda _group, _before_ms: frozenset())


def forgets_what_was_committed_long_ago() -> Swap:
    return Swap(commits, "_expired", lambda group, before: group.offsets.committed_before(before))


def forgets_no_producer() -> Swap:
    return Swap(ProducerState, "expire", lambda _self, _now, _expiration: None)


def validates_nothing() -> Swap:
    return Swap(Topics, "_check_replicas", lambda _self, _assignment: None)


def writes_what_is_to_be_looked_at() -> Swap:
    alter = ConfigAdmin.alter

    async def altered(self: ConfigAdmin, *args: Any, validate_only: bool) -> None:  # noqa: ARG001
        await alter(self, *args, validate_only=False)

    return Swap(ConfigAdmin, "alter", altered)


def forgets_what_was_set() -> Swap:
    changing = incremental_alter_configs._changing
    return Swap(
        incremental_alter_configs,
        "_changing",
        lambda resource: lambda _old: changing(resource)({}),
    )


def has_room_for_all() -> Swap:
    return Swap(FetchSessionCache, "_make_room", lambda _self, _newcomer, _now: True)


def sends_everybody_away() -> Swap:
    return Swap(fetch, "preferred_read_replica", lambda _rack, _leader, near, _: max(near))


def serves_other_epochs() -> Swap:
    return Swap(Replica, "_check_epoch", lambda _self, _epoch: ErrorCode.none)


def serves_all_that_a_follower_has() -> Swap:
    def bound(self: Replica, follower: Any) -> Offset:
        leads = self.role is Role.LEADER
        return self.high_watermark if follower is None and leads else self.log_end_offset

    return Swap(Replica, "read_bound", bound)


def has_no_time() -> Swap:
    return Swap(Group, "tick", lambda _self, _at: None)


def answers_with_the_first() -> Swap:
    def gather(first: Any, *others: Any) -> Any:
        def is_over(_first: Any) -> None:
            for other in others:
                if not other.done():
                    other.set_result(produce.refused(ErrorCode.request_timed_out))

        first.add_done_callback(is_over)
        return asyncio.gather(first)

    return Swap(produce, "asyncio", SimpleNamespace(Future=asyncio.Future, gather=gather))


def describes_nobody() -> Swap:
    dead = partial(describe_groups._nothing, error=ErrorCode.none, state="Dead")
    return Swap(describe_groups, "_describe", lambda group, _context: dead(group))


def tells_that_all_moves() -> Swap:
    def moving(found: Any) -> Any:
        return {topic: dict(assigned.partitions) for topic, assigned in found.items()}

    return Swap(list_partition_reassignments, "_moving", moving)


def measures_nothing() -> Swap:
    measured = describe_log_dirs._partition
    return Swap(
        describe_log_dirs,
        "_partition",
        lambda partition: replace(measured(partition), partition_size=0),
    )


def obeys_former_lives() -> Swap:
    asked = _Epoch._controlled_shutdown_asked

    def obey(self: _Epoch, event: Any) -> None:
        asked(self, replace(event, broker_epoch=-1))

    return Swap(_Epoch, "_controlled_shutdown_asked", obey)


def decides_by_former_settings() -> Swap:
    return Swap(Replica, "configure", lambda _self, _config: None)


def keeps_a_setting_from_logs() -> Swap:
    of_log = TopicConfig.log_config
    return Swap(TopicConfig, "log_config", lambda config: replace(of_log(config), flush_messages=7))


def hosts_with_settings_from_before_the_syncs() -> Swap:
    host = ReplicaManager._host

    async def hosted(self: ReplicaManager, tp: TopicPartition, topic_id: Any) -> Partition:
        is_new = tp not in self._partitions
        before = await self._topics.load_latest(tp.topic)
        partition = await host(self, tp, topic_id)
        if is_new:
            partition.configure(before, self._replica_config(before))
        return partition

    return Swap(ReplicaManager, "_host", hosted)


def takes_no_note_of_failing_disks() -> Swap:
    return Swap(Partition, "fail", lambda _self, _error: None)


def takes_what_is_garbled() -> Swap:
    read = partial(fetcher.parse_batches, verify_crc=False)
    return Swap(fetcher, "parse_batches", read)


def stores_no_assignment() -> Swap:
    record = Group.record
    return Swap(Group, "record", lambda self, at, _assignments=None: record(self, at))


def counts_from_the_last_word() -> Swap:
    begin = Group._begin_generation

    def began(self: Group, at: Any) -> None:
        deadlines = {member.member_id: member.deadline for member in self.members}
        begin(self, at)
        for member in self.members:
            member.deadline = deadlines[member.member_id]

    return Swap(Group, "_begin_generation", began)


def tells_members_what_producers_are_told() -> Swap:
    told = ErrorCode.not_enough_replicas
    return Swap(failures, "_COMMON", {**failures._COMMON, told: told})


def has_nothing_before_it_has_loaded() -> Swap:
    committed = offset_fetch._committed

    def told(group: str, context: Any) -> Any:
        error, offsets = committed(group, context)
        loading = error is ErrorCode.coordinator_load_in_progress
        return (ErrorCode.none, {}) if loading else (error, offsets)

    return Swap(offset_fetch, "_committed", told)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (stores_no_assignment, "AnsweredIsStored"),
        (counts_from_the_last_word, "JoinersStay"),
        (tells_members_what_producers_are_told, "UnavailableIsSaid"),
        (has_nothing_before_it_has_loaded, "DeletedGroupsStay"),
        (decides_by_former_settings, "SettingsAgree"),
        (keeps_a_setting_from_logs, "SettingsAgree"),
        (hosts_with_settings_from_before_the_syncs, "SettingsAgree"),
        (takes_no_note_of_failing_disks, "RefusedReadsEnd"),
        (takes_what_is_garbled, "TakenIsWhole"),
        (answers_with_the_first, "AnsweredTogether"),
        (describes_nobody, "DescribedAsItIs"),
        (tells_that_all_moves, "DescribedAsItIs"),
        (measures_nothing, "DescribedAsItIs"),
        (obeys_former_lives, "OutdatedRefused"),
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
        (deletes_topics_alone, "OrdersEnd"),
        (stores_on_the_leader, "StoredIsCommitted"),
        (hears_no_heartbeat, "SessionsLast"),
        (has_no_time, "JoinsEnd"),
        (stamps_nothing, "AppendTimeCounts"),
        (looks_at_the_first_record, "LimitsKept"),
        (retains_all_that_is_young, "RetentionTakes"),
        (tells_one_time_of_a_batch, "TimesListed"),
        (tells_times_of_all, "ListedIsCommitted"),
        (lets_everybody_in, "GroupLimitsKept"),
        (forgets_no_offset, "OffsetsExpire"),
        (forgets_what_was_committed_long_ago, "OffsetsExpire"),
        (forgets_no_producer, "ProducersExpire"),
        (validates_nothing, "InvalidRefused"),
        (writes_what_is_to_be_looked_at, "InvalidRefused"),
        (forgets_what_was_set, "AlteredAsAsked"),
        (has_room_for_all, "SessionsBounded"),
        (sends_everybody_away, "NearestIsNamed"),
        (serves_other_epochs, "FollowersServe"),
        (serves_all_that_a_follower_has, "ReadIsCommitted"),
    ],
)
def test_a_fault_is_found(plant: Callable[[], Swap], invariant: str) -> None:
    violation = found(PLAN, plant())
    assert violation.invariant == invariant, violation


def ends_no_move_early() -> Swap:
    begin = Reassignments._begin

    def begins(self: Reassignments, *args: Any, taken_back: bool) -> None:  # noqa: ARG001
        begin(self, *args, taken_back=False)

    return Swap(Reassignments, "_begin", begins)


def writes_settings_over_any() -> Swap:
    set_data = TransactionRequest.set_data

    def over(self: Any, path: str, data: bytes, version: int = -1) -> None:
        any_version = path.startswith("/config/topics/")
        set_data(self, path, data, -1 if any_version else version)

    return Swap(TransactionRequest, "set_data", over)


@pytest.mark.parametrize(
    ("plant", "seed", "invariant"),
    [(ends_no_move_early, 6, "TakenBackEnds"), (writes_settings_over_any, 0, "AlteredAsAsked")],
)
def test_orders_that_meet_each_other_are_carried_out(
    plant: Callable[[], Swap], seed: int, invariant: str
) -> None:
    violation = found(replace(PLAN, seed=seed), plant())
    assert violation.invariant == invariant, violation


def test_who_leads_in_another_session_listens_to_reassignments_in_it() -> None:
    begin = Context.begin_session

    def begins(self: Context, session: int) -> None:
        listens = self._listens
        begin(self, session)
        self._listens = listens

    led = without_controller(PLAN, "fenced")
    assert run(led).violation is None
    violation = found(led, Swap(Context, "begin_session", begins))
    assert violation.invariant == "RemovedAreDeleted", violation


def test_who_is_gone_is_shown_to_no_client() -> None:
    read, ever = KafkaZk.live_brokers, dict[BrokerId, LiveBroker]()

    async def forgets_nobody(self: KafkaZk, watch: Any = None) -> dict[BrokerId, LiveBroker]:
        ever.update(await read(self, watch))
        return dict(ever)

    violation = found(
        without_controller(PLAN, "fenced"), Swap(KafkaZk, "live_brokers", forgets_nobody)
    )
    assert violation.invariant == "RegisteredAreShown", violation


def hears_of_no_setting() -> Swap:
    return Swap(Elections, "unclean_changed", lambda _self, _enabled: None)


def allows_it_for_ever() -> Swap:
    changed = Elections.unclean_changed

    def ever(self: Elections, enabled: Mapping[str, bool]) -> None:
        changed(self, {topic: True for topic, allowed in enabled.items() if allowed})

    return Swap(Elections, "unclean_changed", ever)


def elects_nobody_who_is_asked_for() -> Swap:
    return Swap(Elections, "_elect_once", lambda _self, _partitions: None)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (hears_of_no_setting, "UncleanAsSet"),
        (allows_it_for_ever, "CleanElection"),
        (elects_nobody_who_is_asked_for, "UncleanAsSet"),
    ],
)
def test_elections_outside_the_isr_are_as_set(plant: Callable[[], Swap], invariant: str) -> None:
    violation = found(PLAN, plant())
    assert violation.invariant == invariant, violation
