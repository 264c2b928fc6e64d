"""KRaft's metadata log: what its records are, and what they come to."""

import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer
from kio.static.primitive import i8, i32, i64

from ackproof.infra.api.metadata import ChangeKind
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.properties import in_force, session_as_here
from ackproof.infra.systems.kafka.kraft.records import (
    BrokerRegistrationChange,
    Config,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnknownRecord,
    UnregisterBroker,
    Written,
    decoded,
)
from ackproof.infra.systems.kafka.kraft.system import let_go
from ackproof.infra.systems.observer import EMPTY, changes

ORDERS = uuid.UUID("44cf3e20-d8c6-4236-82cc-239386d1edd5")
KEYS = {Topic: 2, Partition: 3, Config: 4, PartitionChange: 5, RemoveTopic: 9, UnregisterBroker: 1}


def image(*records: Record, epoch: int = 1) -> Image:
    """What these come to, a batch each."""
    made = Image()
    for end, record in enumerate(records, start=1):
        made.apply(Written(end, epoch, (record,)))
    return made


def registered(broker: int, epoch: int) -> RegisterBroker:
    return RegisterBroker(
        broker_id=i32(broker), incarnation_id=None, broker_epoch=i64(epoch), end_points=(),
        features=(),
    )  # fmt: skip


def changed(broker: int, epoch: int, **what: int) -> BrokerRegistrationChange:
    given = {name: i8(value) for name, value in what.items()}
    return BrokerRegistrationChange(broker_id=i32(broker), broker_epoch=i64(epoch), **given)


def partition(number: int = 0) -> Partition:
    return Partition(
        partition_id=i32(number), topic_id=ORDERS, replicas=(i32(1), i32(2)), isr=(i32(1), i32(2)),
        removing_replicas=(), adding_replicas=(), leader=i32(1), leader_epoch=i32(0),
        partition_epoch=i32(0), directories=(),
    )  # fmt: skip


MADE = Topic(name="orders", topic_id=ORDERS), partition()


@pytest.mark.parametrize(
    ("written", "record"),
    [
        ("011100000000020000000000000023010001ff", changed(2, 35, fenced=-1)),
        (
            "0105020000000044cf3e20d8c6423682cc239386d1edd5010009030000000300000001",
            PartitionChange(partition_id=i32(0), topic_id=ORDERS, isr=(i32(3), i32(1))),
        ),
        ("011400" + "00", None),
    ],
    ids=["unfenced", "the ISR shrank", "no-op"],
)
def test_what_a_controller_of_4_1_1_wrote(written: str, record: Record | None) -> None:
    assert decoded(bytes.fromhex(written)) == record


@pytest.mark.parametrize(
    ("version", "has_flag"), [(1, False), (2, True)], ids=["3.3", "3.4 to 3.6"]
)
def test_registrations_of_3_x(version: int, has_flag: bool) -> None:
    """The first has no flag of a migration in its middle; neither has log directories, which are
    tagged."""
    now = io.BytesIO()
    record = registered(2, 35)
    entity_writer(RegisterBroker)(now, record)
    broker_id, flag, rest = now.getvalue()[:4], now.getvalue()[4:5], now.getvalue()[5:]
    written = broker_id + (flag if has_flag else b"") + rest
    assert decoded(bytes([1, 0, version]) + written) == record


def test_a_partition_of_3_3_has_no_directories() -> None:
    """Between its epoch and the tags."""
    now = io.BytesIO()
    entity_writer(Partition)(now, partition())
    no_directories, no_tags = b"\x01", b"\x00"
    assert now.getvalue().endswith(no_directories + no_tags)
    written = now.getvalue().removesuffix(no_directories + no_tags) + no_tags
    assert decoded(bytes([1, 3, 0]) + written) == partition()


@given(
    st.sampled_from(
        [
            *MADE,
            RemoveTopic(topic_id=ORDERS),
            UnregisterBroker(broker_id=i32(1), broker_epoch=i64(5)),
            Config(resource_type=i8(2), resource_name="orders", name="a", value=None),
            PartitionChange(partition_id=i32(7), topic_id=ORDERS, leader=i32(-1), isr=()),
        ]
    )
)
def test_records_are_read_as_they_are_written(record: Record) -> None:
    content = io.BytesIO()
    entity_writer(type(record))(content, record)
    header = bytes([1, KEYS[type(record)], type(record).__version__])
    assert decoded(header + content.getvalue()) == record


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x02\x05\x00", b"\x01\x00\x00rest", b"\x01\x05\x02\x00\x00"]
)
def test_what_cannot_be_read_is_not_left_out(value: bytes) -> None:
    with pytest.raises(UnknownRecord):
        decoded(value)


def test_registered_is_who_is_not_fenced() -> None:
    fenced = image(registered(1, 5))
    assert fenced.view(101, 1).brokers == {}
    assert image(registered(1, 5), changed(1, 5, fenced=-1)).view(101, 1).brokers == {1: 5}
    gone = UnregisterBroker(broker_id=i32(1), broker_epoch=i64(5))
    assert image(registered(1, 5), changed(1, 5, fenced=-1), gone).view(101, 1).brokers == {}


def test_who_was_fenced_without_having_asked() -> None:
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
    shrunk = PartitionChange(partition_id=i32(0), topic_id=ORDERS, isr=(i32(1),))
    again = PartitionChange(partition_id=i32(0), topic_id=ORDERS, leader=i32(1))
    nobody = PartitionChange(partition_id=i32(0), topic_id=ORDERS, leader=i32(-1), isr=())
    found = [
        image(*MADE, *upto).view(101, 1).partitions["orders", 0]
        for upto in ((), (shrunk,), (shrunk, again), (shrunk, again, nobody))
    ]
    assert [(one.leader, one.leader_epoch, one.isr, one.version) for one in found] == [
        (1, 0, (1, 2), 0),
        (1, 0, (1,), 1),
        (1, 1, (1,), 2),
        (-1, 2, (), 3),
    ]


def test_a_topic_goes_with_its_partitions_and_settings() -> None:
    setting = Config(resource_type=i8(2), resource_name="orders", name="a", value="1")
    reset = Config(resource_type=i8(2), resource_name="orders", name="a", value=None)
    of_a_broker = Config(resource_type=i8(4), resource_name="orders", name="b", value="1")
    assert image(*MADE, setting, of_a_broker).config("orders") == {"a": "1"}
    assert image(*MADE, setting, reset).config("orders") == {}
    removed = image(*MADE, setting, RemoveTopic(topic_id=ORDERS))
    assert removed.view(101, 1).partitions == {}
    assert removed.config("orders") == {}


def test_what_changes_is_told_as_of_zookeeper() -> None:
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
    """As a controller logs; ``prefix``: as it calls itself."""
    time = "2031-05-17T02:17:00,000"
    return "".join(f"{time} INFO ClusterControlManager: {prefix} {one}\n" for one in lines).encode()


def fence_record(broker: int, epoch: int) -> str:
    return (
        "Replayed BrokerRegistrationChangeRecord modifying the "
        f"registration for broker {broker}: BrokerRegistrationChangeRecord(brokerId={broker}, "
        f"brokerEpoch={epoch}, fenced=1, inControlledShutdown=0, logDirs=[]) "
    )


GRANT = "Unfenced broker {} has requested and been granted an immediate shutdown. "


def test_who_led_nothing_and_was_let_go_at_once_was_not_silent() -> None:
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


def test_what_the_broker_says_that_the_controller_is_too_is_not_in_between() -> None:
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
    assert let_go([log(GRANT.format(5))]) == frozenset(), "nobody knows which session that was"
    resigned = "Renouncing the leadership due to a metadata log event. "
    assert let_go([log(*twice, GRANT.format(5), resigned)]) == frozenset()
