"""What clients are told, judged: by hand, each invariant broken once and kept once."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.coordination.nodes import LeaderNode
from ackproof.broker.replication.events import FollowerFetch
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.metadata_cache import PartitionMetadata
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)
from ackproof.broker.wire.messages.find_coordinator import Coordinator
from ackproof.broker.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from simulation.clients.window import Window
from simulation.observer.consumed import Consumed
from simulation.observer.generations import Generations
from simulation.observer.history import Sent
from simulation.observer.logs import retention
from simulation.observer.moments import told
from simulation.observer.moments.cluster_shown import ClusterShown
from simulation.observer.moments.low_watermarks import LowWatermarks
from simulation.observer.observer import Observer
from simulation.partition.shadow import Extent
from simulation.partition.topic import Topic
from simulation.verdict import numbered
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
HOME = TopicPartition(OFFSETS_TOPIC, 0)
STATE = PartitionState(
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(3),
    isr=(BrokerId(1),),
    zk_version=ZkVersion(0),
    controller_epoch=ControllerEpoch(1),
)
BOTH = frozenset({"one", "other"})


BROKERS = {
    number: BrokerConfig.model_validate(
        {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://host-{number}:9092",
            "broker.rack": f"rack-{number}",
            "zookeeper.connect": "zookeeper:2181",
            "log.dirs": "/nowhere",
        }
    )
    for number in (1, 2)
}


def known_cluster() -> ClusterShown:
    """Of both brokers."""
    known = ClusterShown()
    for number, config in BROKERS.items():
        known.begun(number, config)
    return known


def sent(crc: int, sequence: int, producer: int = 7) -> Sent:
    """A batch of two records."""
    return Sent(
        tp=TP,
        topic_id=None,
        acks=-1,
        crc=crc,
        count=2,
        sent_at=0.0,
        timestamp=crc,
        producer=producer,
        sequence=sequence,
        asked=1,
    )


def log(*crcs: int) -> list[Extent]:
    return [Extent(2 * at, 2 * at + 2, crc, 0, crc) for at, crc in enumerate(crcs)]


class Seen:
    """An observer of one partition of ``t``, which broker 1 leads in epoch 3, and of groups."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.observer = Observer(lambda: 0.0, self._fail, checks_data=True, unclean=False)
        for name in ("t", OFFSETS_TOPIC):
            topic = Topic(None, TopicAssignment(topic_id=None, partitions={}))
            self.observer.topics[name] = topic
            self.observer.add_partition(topic, TopicPartition(name, 0))
        for tp in (TP, HOME):
            partition = self.observer.find(tp)
            assert partition is not None
            partition.state = STATE
            self.heard_of(tp, STATE.leader_epoch)
        self.partition = self.observer.topics["t"].partitions[0]
        self.consumed = Consumed(self.observer, self._fail)
        self.generations = Generations(self.observer, self._fail)

    def heard_of(self, tp: TopicPartition, epoch: int) -> None:
        """Broker 1 goes by this epoch."""
        hosted: Any = SimpleNamespace(tp=tp, replica=SimpleNamespace(leader_epoch=epoch))
        self.observer._hosted[1, tp] = hosted

    def _fail(self, error: BaseException) -> None:
        assert isinstance(error, Violation)
        self.broken.append(error.invariant)


@pytest.fixture
def seen() -> Seen:
    return Seen()


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "broken"),
    [
        (log(1, 2, 3), None),
        (log(2, 3), None),  # retention took the first
        (log(1, 2), None),  # the last one was given up
        (log(1, 2, 1), "NoDuplicates"),
        (log(1, 3), "InSequence"),
        (log(2, 1), "InSequence"),
        (log(1, 9, 2), None),  # somebody else's between them
    ],
)
def test_an_idempotent_producers_batches_are_there_once_and_in_order(
    there: list[Extent], broken: str | None
) -> None:
    known = {1: sent(1, 0), 2: sent(2, 2), 3: sent(3, 4), 9: sent(9, 0, producer=8)}
    if broken is None:
        numbered.in_sequence(TP, there, known)
        return
    with pytest.raises(Violation) as told:
        numbered.in_sequence(TP, there, known)
    assert told.value.invariant == broken


def test_a_batch_without_a_number_may_be_there_twice() -> None:
    numbered.in_sequence(TP, log(1, 1), {1: replace(sent(1, -1), producer=-1)})


def test_times_are_those_of_the_first_record_that_is_not_older() -> None:
    told = dict(numbered.times(log(10, 20, 20, 30)))
    assert told == {20: 2, 19: 2, 30: 6, 29: 6}
    assert not list(numbered.times(log(10)))
    assert dict(numbered.times(log(-1, 20, -1, 30))) == {20: 2, 19: 2, 30: 6, 29: 6}


def test_a_window_is_as_long_as_from_its_oldest_batch() -> None:
    window = Window()
    for number in range(5):
        assert window.has_room(5)
        window.add((sent(number, 2 * number), None))  # type: ignore[arg-type]
    assert not window.has_room(5)
    window.answered([None, *[ErrorCode.none] * 4])
    assert [each.crc for each, _ in window.flights] == [0]
    assert not window.has_room(5), "the log may have all five, and remembers no more"
    window.answered([ErrorCode.none])
    assert not window
    assert window.has_room(5)


# --- retention ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "watermark", "left", "kept"),
    [
        ({"retention.ms": "50"}, 9, 0, True),
        ({"retention.ms": "99"}, 9, 0, False),
        ({"retention.ms": "50"}, 3, 0, False),
        ({"retention.bytes": "40"}, 9, 40, True),
        ({"retention.bytes": "40"}, 9, 39, False),
        ({}, 9, 0, False),
    ],
)
def test_retention_takes_what_is_old_or_too_much_and_committed(
    config: dict[str, str], watermark: int, left: int, kept: bool
) -> None:
    def look() -> None:
        retention.check(
            TP, log(10, 20), config, high_watermark=watermark, bytes_left=left, wall_ms=100
        )

    if kept:
        look()
        return
    with pytest.raises(Violation):
        look()


# --- what consumers and producers are told --------------------------------------------------------


def test_the_end_does_not_go_back_behind_what_was_read(seen: Seen) -> None:
    seen.partition.read_end = 8
    before = seen.consumed.read_end(TP)
    seen.consumed.told_end(TP, leader=1, epoch=3, end=8, read_end=before)
    seen.consumed.told_end(TP, leader=2, epoch=2, end=5, read_end=before)  # deposed
    seen.consumed.told_end(TP, leader=1, epoch=2, end=5, read_end=before)  # before it heard
    assert not seen.broken
    seen.consumed.told_end(TP, leader=1, epoch=3, end=7, read_end=before)
    assert seen.broken == ["EndNeverBack"]


def test_a_producer_is_not_told_that_a_batch_is_missing_which_was_acked(seen: Seen) -> None:
    for batch in (replace(sent(1, 4), asked=2), replace(sent(1, 4), topic_id="former")):
        seen.consumed.asked(batch)
        seen.consumed.sequence_refused(batch)
    unheard = sent(1, 4)
    seen.heard_of(TP, 2)
    seen.consumed.asked(unheard)
    seen.heard_of(TP, 3)
    seen.consumed.sequence_refused(unheard)
    assert not seen.broken
    seen.consumed.asked(heard := sent(1, 4))
    seen.consumed.sequence_refused(heard)
    assert seen.broken == ["SequenceKept"]


# --- generations ----------------------------------------------------------------------------------


def test_what_was_given_out_a_later_coordinator_knows(seen: Seen) -> None:
    assert partition_for("g", 1) == 0
    told = seen.generations
    told.joined("g", 4, BOTH, told.before("g", 1))
    told.synced("g", 4)
    told.joined("g", 4, BOTH, told.before("g", 1))  # asked once more
    told.joined("g", 4, frozenset(), told.before("g", 1))  # who does not lead hears of nobody
    told.joined("g", 2, frozenset(), told.before("g", 2))  # of one that was deposed
    assert not seen.broken
    told.joined("g", 4, frozenset({"third"}), told.before("g", 1))
    told.joined("g", 3, frozenset(), told.before("g", 1))
    assert seen.broken == ["GenerationNeverBack"] * 2


def test_a_former_generation_commits_nothing(seen: Seen) -> None:
    told = seen.generations
    earlier = told.before("g", 1)
    told.synced("g", 4)
    told.committed("g", 4, told.before("g", 1))
    told.committed("g", 3, earlier)  # the next one began meanwhile
    assert not seen.broken
    told.committed("g", 3, told.before("g", 1))
    assert seen.broken == ["FormerGeneration"]


def test_where_offsets_were_lost_as_they_may_be_nothing_is_said_of_generations(seen: Seen) -> None:
    home = seen.observer.find(HOME)
    assert home is not None
    home.unpromised.append((1.0, 0))
    told = seen.generations
    told.synced("g", 4)
    told.committed("g", 3, told.before("g", 1))
    told.joined("g", 3, BOTH, told.before("g", 1))
    assert not seen.broken


def hears(seen: Seen, asked_at: float, member: str = "one") -> None:
    """Broker 1 takes the word of a member whose session is three seconds."""
    before = seen.generations.before("g", 1, member)
    answered_at = asked_at + 0.5
    seen.generations.heard(
        "g", member, before, session_s=3.0, asked_at=asked_at, answered_at=answered_at
    )


def test_who_was_silent_for_longer_than_its_session_is_no_member_any_more(seen: Seen) -> None:
    hears(seen, 1.0)
    hears(seen, 20.0, "other")
    hears(seen, 5.0)  # of 1.5, three seconds, and a tick
    assert not seen.broken
    hears(seen, 9.6)
    assert seen.broken == ["SessionsEnd"]


def test_what_had_no_answer_may_have_been_heard_all_the_same(seen: Seen) -> None:
    hears(seen, 1.0)
    seen.generations.before("g", 1, "one")  # it asks, and hears nothing
    hears(seen, 9.0)
    assert not seen.broken
    hears(seen, 20.0)
    assert seen.broken == ["SessionsEnd"]


def test_a_coordinator_that_did_not_run_has_not_looked_at_its_members(seen: Seen) -> None:
    hears(seen, 1.0)
    seen.observer.held_at[1] = 8.0
    hears(seen, 20.0)
    assert not seen.broken, "it was paused"
    seen.heard_of(HOME, STATE.leader_epoch)
    hears(seen, 40.0)
    assert not seen.broken, "this is another life of the broker"
    hears(seen, 60.0)
    assert seen.broken == ["SessionsEnd"]


@pytest.mark.parametrize(
    ("leader", "epoch", "breaks"), [(1, 4, False), (2, 5, False), (-1, 5, False), (1, 5, True)]
)
def test_who_is_read_to_lead_has_led(leader: int, epoch: int, *, breaks: bool) -> None:
    read = PartitionMetadata(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        replicas=(),
        isr=(),
        offline_replicas=(),
    )
    ever = {(TopicPartition("t", 0), 1, 4), (TopicPartition("t", 0), 2, 5)}
    judged = pytest.raises(Violation, match="LeadersHaveLed: t-0: 1") if breaks else nullcontext()
    with judged:
        told.known("t", {0: read}, ever)


def test_who_is_registered_is_shown_and_nobody_else() -> None:
    cache: Any = SimpleNamespace(brokers={1: None, 2: None})
    told.registered(cache, {BrokerId(1), BrokerId(2)})
    for others in ({BrokerId(1)}, {BrokerId(1), BrokerId(2), BrokerId(3)}):
        with pytest.raises(Violation, match="RegisteredAreShown"):
            told.registered(cache, others)


def test_what_is_not_shown_any_more_counts_as_deleted() -> None:
    one, another = TopicPartition("t", 0), TopicPartition("t", 1)
    after: Any = {one}
    told.dropped([one, another], after, (another,))
    told.dropped([one], after, ())
    with pytest.raises(Violation, match=r"DroppedAreDeleted: .*partition=1"):
        told.dropped([one, another], after, ())


def test_a_topic_without_a_name_is_not_shown() -> None:
    cache: Any = SimpleNamespace(topics={"t": {}}, names={"t", "read-later"})
    told.named(cache)
    cache.names.remove("t")
    with pytest.raises(Violation, match=r"NamedAreShown: there is no topic \['t'\]"):
        told.named(cache)


@pytest.mark.parametrize(
    ("leader", "shown", "is_sound"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, None, False),
        (LEADER_DURING_DELETE, None, True),
        (LEADER_DURING_DELETE, 1, False),
    ],
)
def test_what_a_controller_tells_is_shown(leader: int, shown: int | None, is_sound: bool) -> None:
    def state(led_by: int) -> dict[str, Any]:
        rest: dict[str, Any] = {"replicas": (1, 2), "isr": (1, 2), "offline_replicas": ()}
        return {"leader": led_by, "leader_epoch": 3, **rest}

    one = SimpleNamespace(partition_index=0, **state(leader))
    topic = SimpleNamespace(topic_name="t", partition_states=[one])
    request: Any = SimpleNamespace(topic_states=[topic])
    parts = {} if shown is None else {0: PartitionMetadata(**state(shown))}
    cache: Any = SimpleNamespace(topics={"t": parts})
    with nullcontext() if is_sound else pytest.raises(Violation, match="ShownAsTold"):
        told.updated(cache, request)


@pytest.mark.parametrize(
    ("error", "breaks"),
    [
        (ErrorCode.not_leader_or_follower, False),
        (ErrorCode.fenced_leader_epoch, False),
        (ErrorCode.none, True),
    ],
)
def test_who_leads_no_more_says_of_nothing_that_it_is_deleted(
    error: ErrorCode, *, breaks: bool
) -> None:
    replica = SimpleNamespace(
        check_leader=lambda _epoch: error,
        low_watermark_among=lambda _: Offset(4),
        replicas=(BrokerId(1), BrokerId(2)),
    )
    hosted = object.__new__(server.Partition)
    hosted.replica, hosted.tp = replica, TP  # type: ignore[assignment]
    hosted.log = SimpleNamespace(log_start_offset=Offset(4))  # type: ignore[assignment]
    with pytest.raises(Violation, match="DeletedIsLed: t-0") if breaks else nullcontext():
        told.deleted(1, hosted)


def fetch(replica: int, start: int) -> FollowerFetch:
    return FollowerFetch(
        replica=BrokerId(replica),
        offset=Offset(5),
        log_start_offset=Offset(start),
        now=Millis(0),
    )


def leading(said: int, epoch: int = 1) -> Any:
    """A leader of 2 and 3 that would say so."""
    replica = SimpleNamespace(
        role=Role.LEADER,
        leader_epoch=epoch,
        follower_ends={2: -1, 3: -1},
        low_watermark_among=lambda _: said,
    )
    return Leading(replica)


@dataclass(eq=False)
class Leading:
    replica: Any
    tp: TopicPartition = TP


def test_what_is_deleted_everywhere_was_said_by_all() -> None:
    heard, leader = LowWatermarks(), leading(-1)
    for event in fetch(2, 3), fetch(3, 5):
        heard.stepped(1, leader, event, changed=True)
    leader.replica.low_watermark_among = lambda _: 3
    heard.stepped(1, leader, fetch(2, 2), changed=True)  # it was killed, and has a former one again
    leader.replica.low_watermark_among = lambda _: 4
    heard.stepped(1, leader, fetch(3, 5), changed=False)
    with pytest.raises(
        Violation, match=r"LowWatermarkIsHeard: t-0: .*below 4, and 2 has said .* 3"
    ):
        heard.stepped(1, leader, fetch(3, 5), changed=True)


def test_who_was_not_heard_of_has_deleted_nothing() -> None:
    heard, leader = LowWatermarks(), leading(0)
    with pytest.raises(Violation, match=r"LowWatermarkIsHeard: .* 3 has said .* begin at -1"):
        heard.stepped(1, leader, fetch(2, 3), changed=True)
    heard.stepped(1, leader, fetch(3, 3), changed=True)
    leader.replica.leader_epoch = 2
    with pytest.raises(Violation, match=r"LowWatermarkIsHeard: .* 2 has said .* begin at -1"):
        heard.stepped(1, leader, fetch(3, 3), changed=True)
    leader.replica.role = Role.FOLLOWER
    heard.stepped(1, leader, fetch(3, 3), changed=True)


@pytest.mark.parametrize(
    ("leader", "epoch", "breaks"), [(1, 4, False), (-1, 5, False), (1, 5, True), (2, 4, True)]
)
def test_who_led_when_another_claimed_led_in_his_own_epoch(
    leader: int, epoch: int, *, breaks: bool
) -> None:
    part: Any = SimpleNamespace(leader=leader, leader_epoch=epoch)
    node = LeaderNode(broker=BrokerId(1), epoch=LeaderEpoch(4), owner=7, version=ZkVersion(0))
    with pytest.raises(Violation, match="LeadersHaveLed") if breaks else nullcontext():
        told.claimed_meanwhile(node, part)


# --- the cluster ----------------------------------------------------------------------------------


def shown(number: int, **changed: Any) -> MetadataResponseBroker:
    """As it is."""
    broker = MetadataResponseBroker(
        node_id=BrokerId(number), host=f"host-{number}", port=9092, rack=f"rack-{number}"
    )
    return replace(broker, **changed)


def cluster(*brokers: MetadataResponseBroker, **changed: Any) -> MetadataResponse:
    """As it is."""
    answer = MetadataResponse(brokers=brokers, cluster_id="c", controller_id=BrokerId(1), topics=())
    return replace(answer, **changed)


@pytest.mark.parametrize(
    ("answer", "strange"),
    [
        (cluster(shown(1), shown(2)), None),
        (cluster(controller_id=NO_LEADER), None),
        (cluster(controller_id=BrokerId(2)), "controller 2"),
        (cluster(cluster_id="d"), "cluster d"),
        (cluster(shown(1), shown(1)), "brokers"),
        (cluster(shown(1, host="host-2")), "broker 1 at"),
        (cluster(shown(2, port=9093)), "broker 2 at"),
        (cluster(shown(2, rack=None)), "rack-2"),
        (cluster(shown(1, node_id=BrokerId(3))), "broker 3 at"),
    ],
)
def test_the_cluster_is_shown_as_it_is(answer: MetadataResponse, strange: str | None) -> None:
    known = known_cluster()
    known.written("/cluster/id", b'{"version":"1","id":"c"}')
    known.written("/controller", b'{"version":1,"brokerid":1}')
    known.written("/controller", None)
    with pytest.raises(Violation, match=strange) if strange else nullcontext():
        known.told(answer)


@pytest.mark.parametrize(
    ("error", "host", "strange"),
    [
        (ErrorCode.none, "host-1", False),
        (ErrorCode.none, "host-2", True),
        (ErrorCode.coordinator_not_available, "", False),
    ],
)
def test_a_coordinator_is_where_it_is_said_to_be(
    error: ErrorCode, host: str, *, strange: bool
) -> None:
    found = Coordinator(
        key="g", node_id=BrokerId(1), host=host, port=9092, error_code=error, error_message=None
    )
    with pytest.raises(Violation, match="ClusterIsShown") if strange else nullcontext():
        known_cluster().found(found)
