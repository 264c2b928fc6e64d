"""KRaft's metadata log: what its records are, and what they come to."""

import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra.api.capabilities import MigrationState
from ackproof.infra.api.metadata import ChangeKind
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.metadata import schemas_of
from ackproof.infra.systems.kafka.kraft.properties import in_force, session_as_here
from ackproof.infra.systems.kafka.kraft.records import (
    AbortTransaction,
    BrokerRegistrationChange,
    Config,
    Partition,
    PartitionChange,
    Record,
    RecordSchemas,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnknownRecord,
    UnregisterBroker,
    ZkMigrationState,
    parts,
)
from ackproof.infra.systems.kafka.kraft.system import let_go
from ackproof.infra.systems.kafka.releases import Release, newest_records
from ackproof.infra.systems.observer import EMPTY, changes
from tests.support.builders.metadata_records import encoded

ORDERS = uuid.UUID("44cf3e20-d8c6-4236-82cc-239386d1edd5")
SCHEMAS = schemas_of(Release(version="4.1.1"))


def image(*records: Record, epoch: int = 1) -> Image:
    """Return the image of these records."""
    made = Image()
    made.apply(records, epoch)
    return made


def registered(broker: int, epoch: int) -> RegisterBroker:
    return RegisterBroker(broker_id=broker, broker_epoch=epoch)


def changed(broker: int, epoch: int, **what: int) -> BrokerRegistrationChange:
    return BrokerRegistrationChange(broker_id=broker, broker_epoch=epoch, **what)


def partition(number: int = 0) -> Partition:
    return Partition(
        partition_id=number, topic_id=ORDERS, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0,
        partition_epoch=0,
    )  # fmt: skip


MADE = Topic(name="orders", topic_id=ORDERS), partition()


@pytest.mark.parametrize(
    ("written", "record"),
    [
        ("011100000000020000000000000023010001ff", changed(2, 35, fenced=-1)),
        (
            "0105020000000044cf3e20d8c6423682cc239386d1edd5010009030000000300000001",
            PartitionChange(partition_id=0, topic_id=ORDERS, isr=(3, 1)),
        ),
        (
            "0105020000000044cf3e20d8c6423682cc239386d1edd5020005020000000306050200000001",
            PartitionChange(
                partition_id=0, topic_id=ORDERS, isr=(3,), eligible_leader_replicas=(1,)
            ),
        ),
        ("011400" + "00", None),
    ],
    ids=["unfenced", "the ISR shrank", "a replica became eligible", "no-op"],
)
def test_records_of_a_4_1_1_controller_are_decoded(written: str, record: Record | None) -> None:
    assert SCHEMAS.decoded(bytes.fromhex(written)) == record


RECORDS: list[Record] = [
    *MADE,
    registered(2, 35),
    changed(2, 35, fenced=-1),
    RemoveTopic(topic_id=ORDERS),
    UnregisterBroker(broker_id=1, broker_epoch=5),
    Config(resource_type=2, resource_name="orders", name="a", value=None),
    PartitionChange(partition_id=7, topic_id=ORDERS, leader=-1, isr=()),
]


def test_migration_begins_again_when_its_transaction_was_aborted() -> None:
    """The numbers of the states are those of ``ZkMigrationState`` in Apache Kafka 3.9."""
    waits, begun, over = (ZkMigrationState(zk_migration_state=number) for number in (2, 1, 3))
    abort = AbortTransaction()
    on_zookeeper = RegisterBroker(broker_id=1, broker_epoch=3, is_migrating_zk_broker=True)
    copied = image(waits, on_zookeeper, registered(2, 4), *MADE)
    assert (copied.migration, copied.in_kraft_mode) == (MigrationState.PRE_MIGRATION, {2})
    assert copied.view(101, 1).partitions
    aborted = image(waits, on_zookeeper, *MADE, abort)
    assert (aborted.view(101, 1).partitions, aborted.in_kraft_mode) == ({}, set())
    kept = image(waits, *MADE, begun, abort)
    assert (kept.migration, len(kept.view(101, 1).partitions)) == (MigrationState.MIGRATION, 1)
    assert image(begun, over).migration is MigrationState.POST_MIGRATION
    assert image(*MADE, abort).view(101, 1).partitions, "in no migration topics are whole"


def versions_of(schemas: RecordSchemas, record: Record) -> Iterable[str]:
    """Return the versions of a record that these schemas know."""
    name = f"{type(record).__name__}Record"
    (versions,) = (one["versions"] for one in schemas.records.values() if one["name"] == name)
    return versions


@pytest.mark.parametrize("release", ["3.3.2", "3.9.1", "4.1.1"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda one: type(one).__name__)
def test_records_are_read_in_every_version_that_a_release_knows(
    release: str, record: Record
) -> None:
    """Whatever else a version has, before, between or behind the fields that are needed."""
    schemas = schemas_of(Release(version=release))
    for version in versions_of(schemas, record):
        assert schemas.decoded(encoded(schemas, record, version)) == record


def with_changed_record(name: str, change: Any) -> RecordSchemas:
    """Return the schemas of a release of tomorrow, in which one record has changed."""
    records = {
        key: change(one) if one["name"] == name else one for key, one in SCHEMAS.records.items()
    }
    return RecordSchemas("Apache Kafka 9.0.0", records)


def test_record_of_tomorrows_release_is_read_by_its_own_schema() -> None:
    def change(record: Any) -> Any:
        fields = [["zone", "COMPACT_NULLABLE_STRING"], *record["versions"]["3"]["fields"]]
        return {**record, "versions": {"9": {"fields": fields}}}

    tomorrow = with_changed_record("RegisterBrokerRecord", change)
    value = encoded(tomorrow, registered(2, 35), "9")
    assert tomorrow.decoded(value) == registered(2, 35)
    unsupported = r"RegisterBrokerRecord version 9 in the metadata log is not supported .*4\.1\.1"
    with pytest.raises(UnknownRecord, match=unsupported):
        SCHEMAS.decoded(value)


def test_record_that_lost_a_needed_field_is_refused_by_name() -> None:
    def change(record: Any) -> Any:
        fields = record["versions"]["0"]["fields"]
        kept = [field for field in fields if field[0] != "broker_epoch"]
        return {**record, "versions": {"0": {"fields": kept}}}

    tomorrow = with_changed_record("UnregisterBrokerRecord", change)
    gone = encoded(tomorrow, UnregisterBroker(broker_id=1, broker_epoch=5), "0")
    with pytest.raises(UnknownRecord, match=r"has no broker_epoch, .*9\.0\.0"):
        tomorrow.decoded(gone)


def test_schemas_of_a_release_that_was_not_asked_are_those_of_the_newest_known() -> None:
    unasked = schemas_of(Release(version="8.7.6"))
    assert unasked.records == newest_records()
    assert unasked.release == "Apache Kafka 8.7.6"


@pytest.mark.parametrize("release", ["3.3.2", "3.9.1", "4.1.1"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda one: type(one).__name__)
def test_newest_known_schemas_read_the_records_of_older_releases(
    release: str, record: Record
) -> None:
    """The release of the controllers of an external cluster need not be known."""
    older = schemas_of(Release(version=release))
    newest = RecordSchemas("Apache Kafka", newest_records())
    for version in versions_of(older, record):
        assert newest.decoded(encoded(older, record, version)) == record


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x02\x05\x00", b"\x01\x00\x00rest", b"\x01\x05\x02\x00\x00"]
)
def test_unknown_record_is_not_skipped(value: bytes) -> None:
    with pytest.raises(UnknownRecord):
        SCHEMAS.decoded(value)


@given(st.binary(max_size=60))
def test_damaged_record_is_refused_and_nothing_else(rest: bytes) -> None:
    for key in range(30):
        try:
            SCHEMAS.decoded(bytes([1, key, 0]) + rest)
        except UnknownRecord:
            continue


def test_unfenced_broker_counts_as_registered() -> None:
    fenced = image(registered(1, 5))
    assert fenced.view(101, 1).brokers == {}
    assert image(registered(1, 5), changed(1, 5, fenced=-1)).view(101, 1).brokers == {1: 5}
    gone = UnregisterBroker(broker_id=1, broker_epoch=5)
    assert image(registered(1, 5), changed(1, 5, fenced=-1), gone).view(101, 1).brokers == {}


def test_broker_fenced_without_a_request_is_listed() -> None:
    up = registered(1, 5), changed(1, 5, fenced=-1)
    assert image(*up).fenced_unasked == frozenset()
    assert image(*up, changed(1, 5, fenced=1)).fenced_unasked == {5}
    back = changed(1, 5, fenced=1), changed(1, 5, fenced=-1)
    assert image(*up, *back).fenced_unasked == frozenset()
    asked = changed(1, 5, in_controlled_shutdown=1), changed(1, 5, fenced=1)
    assert image(*up, *back, *asked).fenced_unasked == frozenset()
    # It was silent once, and another process of it ended well later.
    again = registered(1, 9), changed(1, 9, fenced=-1)
    later = changed(1, 9, in_controlled_shutdown=1), changed(1, 9, fenced=1)
    assert image(*up, changed(1, 5, fenced=1), *again, *later).fenced_unasked == {5}


def test_a_leader_that_is_given_has_another_epoch_and_every_change_a_version() -> None:
    shrunk = PartitionChange(partition_id=0, topic_id=ORDERS, isr=(1,))
    again = PartitionChange(partition_id=0, topic_id=ORDERS, leader=1)
    leaderless = PartitionChange(partition_id=0, topic_id=ORDERS, leader=-1, isr=())
    found = [
        image(*MADE, *upto).view(101, 1).partitions["orders", 0]
        for upto in ((), (shrunk,), (shrunk, again), (shrunk, again, leaderless))
    ]
    assert [(one.leader, one.leader_epoch, one.isr, one.version) for one in found] == [
        (1, 0, (1, 2), 0),
        (1, 0, (1,), 1),
        (1, 1, (1,), 2),
        (-1, 2, (), 3),
    ]


def test_replicas_stay_eligible_until_a_record_says_otherwise() -> None:
    alone = PartitionChange(
        partition_id=0, topic_id=ORDERS, isr=(2,), leader=2, eligible_leader_replicas=(1,)
    )
    gone = PartitionChange(partition_id=0, topic_id=ORDERS, isr=(), leader=-1)
    back = PartitionChange(
        partition_id=0, topic_id=ORDERS, isr=(1,), leader=1, eligible_leader_replicas=()
    )
    found = [
        image(*MADE, *upto).view(101, 1).partitions["orders", 0]
        for upto in ((), (alone,), (alone, gone), (alone, gone, back))
    ]
    assert [(one.isr, one.elr) for one in found] == [
        ((1, 2), ()),
        ((2,), (1,)),
        ((), (1,)),
        ((1,), ()),
    ]
    seen = [*changes(EMPTY, image(*MADE, alone).view(101, 1), 0)]
    assert [one.elr for one in seen if one.kind is ChangeKind.PARTITION] == [(1,)]


def test_each_version_of_a_partition_is_seen_though_one_batch_has_several() -> None:
    """A controller writes the election of broker 2 and then that of broker 1 into one batch."""
    elections = [
        PartitionChange(partition_id=number, topic_id=ORDERS, leader=leader)
        for number, leader in [(0, 2), (1, 2), (0, 1), (0, -1)]
    ]
    made, seen = Image(), list[tuple[int | None, int]]()
    for part in parts([*MADE, partition(1), *elections]):
        made.apply(part, 1)
        view = made.view(101, 1).partitions["orders", 0]
        seen.append((view.version, view.leader))
    assert seen == [(0, 1), (1, 2), (2, 1), (3, -1)]
    assert made.view(101, 1).partitions["orders", 1].version == 1


def test_a_topic_goes_with_its_partitions_and_settings() -> None:
    setting = Config(resource_type=2, resource_name="orders", name="a", value="1")
    reset = Config(resource_type=2, resource_name="orders", name="a", value=None)
    of_a_broker = Config(resource_type=4, resource_name="orders", name="b", value="1")
    assert image(*MADE, setting, of_a_broker).config("orders") == {"a": "1"}
    assert image(*MADE, setting, reset).config("orders") == {}
    removed = image(*MADE, setting, RemoveTopic(topic_id=ORDERS))
    assert removed.view(101, 1).partitions == {}
    assert removed.config("orders") == {}


def test_metadata_electionsare_reported_as_those_of_zookeeper() -> None:
    before = image(*MADE, registered(1, 5), changed(1, 5, fenced=-1))
    seen = list(changes(EMPTY, before.view(101, 3), 7))
    assert [(one.kind, one.broker) for one in seen] == [
        (ChangeKind.BROKER_UP, 1),
        (ChangeKind.CONTROLLER, 101),
        (ChangeKind.PARTITION, None),
    ]
    assert (seen[1].controller_epoch, seen[2].version) == (3, 0)


def test_a_session_timeout_is_said_once_for_both() -> None:
    told = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "4000"}
    assert session_as_here(told) == {
        "broker.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "4000",
    }
    both = {**told, "broker.session.timeout.ms": "5000"}
    assert session_as_here(both)["broker.session.timeout.ms"] == "5000"
    assert in_force({})["broker.session.timeout.ms"] == "9000"


@given(st.integers(min_value=4, max_value=2**31 - 1))
def test_there_are_two_heartbeats_in_a_session(session_ms: int) -> None:
    given = in_force({"zookeeper.session.timeout.ms": str(session_ms)})
    assert 2 * int(given["broker.heartbeat.interval.ms"]) <= session_ms


def controllers_log(*lines: str, prefix: str = "[QuorumController id=101]") -> bytes:
    """Return the lines as a controller logs them; ``prefix``: its name for itself."""
    time = "2031-05-17T02:17:00,000"
    return "".join(f"{time} INFO ClusterControlManager: {prefix} {one}\n" for one in lines).encode()


def fence_record(broker: int, epoch: int) -> str:
    return (
        "Replayed BrokerRegistrationChangeRecord modifying the "
        f"registration for broker {broker}: BrokerRegistrationChangeRecord(brokerId={broker}, "
        f"brokerEpoch={epoch}, fenced=1, inControlledShutdown=0, logDirs=[]) "
    )


GRANT = "Unfenced broker {} has requested and been granted an immediate shutdown. "


def test_broker_released_at_once_was_not_silent() -> None:
    grant = GRANT
    silent = "Fencing broker {} at epoch {} because its session has timed out. "
    asked = controllers_log(
        grant.format(5), "something else", fence_record(5, 21), silent.format(5, 21)
    )
    unheard = controllers_log(silent.format(4, 20), fence_record(4, 20))
    assert let_go([asked, unheard]) == {21}
    # The controller lost its office with the grant; the record is of what came in the end.
    resigned = controllers_log(grant.format(5), *["something else"] * 20, fence_record(5, 21))
    assert let_go([resigned]) == frozenset()
    assert let_go([controllers_log(grant.format(5), fence_record(55, 21))]) == frozenset()


def test_broker_lines_of_a_combined_process_do_not_count_as_between() -> None:
    brokers = b"2031-05-17T02:17:00,000 INFO ReplicaFetcherThread: [ReplicaFetcher replicaId=1] x\n"
    grant, record = controllers_log(GRANT.format(5)), controllers_log(fence_record(5, 21))
    assert let_go([grant + 20 * brokers + record]) == {21}
    others = controllers_log(*["something else"] * 20)
    assert let_go([grant + others + record]) == frozenset()


REGISTERED = (
    "Re-registered broker id 5: RegisterBrokerRecord(brokerId=5, incarnationId=x, brokerEpoch={}, "
    "endPoints=[], features=[], rack=null, fenced=true, inControlledShutdown=false) "
)


def test_a_controller_of_3_3_does_not_log_the_record() -> None:
    def log(*lines: str) -> bytes:
        return controllers_log(*lines, prefix="[Controller 101]")

    twice = REGISTERED.format(12), REGISTERED.format(21)
    assert let_go([log(*twice, GRANT.format(5))]) == {21}
    assert let_go([log(REGISTERED.format(12), GRANT.format(5), REGISTERED.format(21))]) == {12}
    assert let_go([log(GRANT.format(5))]) == frozenset(), "the session is unknown"
    resigned = "Renouncing the leadership due to a metadata log event. "
    assert let_go([log(*twice, GRANT.format(5), resigned)]) == frozenset()
