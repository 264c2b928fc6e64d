"""Leaderless partitions, and the return of leaderships to preferred replicas."""

from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError

from tests.support.clients.admin import (
    TOPIC,
    create_assigned,
    elect,
    order,
    set_configs,
    set_defaults,
    zookeeper,
)
from tests.support.clients.confluent import produce, read_all, refused
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

UNCLEAN = "unclean.leader.election.enable"
QUIET = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Leaderships move only when they must, or on request."""
    directory = tmp_path_factory.mktemp("elections")
    with running_cluster(directory, overrides=QUIET) as cluster:
        yield cluster


@pytest.fixture
def topic(shared: Cluster, request: pytest.FixtureRequest):
    """A topic name of the test's own; all brokers live again when it is done."""
    yield Topic(shared, request.node.name)
    for broker in shared.brokers.values():
        if not broker.running:
            broker.start()
    shared.wait_until_complete()


class Topic:
    """Partition 0 of a topic, and what is done to it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    @property
    def isr(self) -> set[int]:
        return self.cluster.isr(self.name)

    def create(self, *assignment: list[int], **config: str) -> None:
        create_assigned(self.cluster, self.name, *assignment, **config)

    def configure(self, **config: str) -> None:
        named = {key.replace("_", "."): value for key, value in config.items()}
        assert set_configs(self.cluster, TOPIC, self.name, named) is None

    def sent(self, value: bytes, **config: object) -> bool:
        """Whether it was acknowledged; the client tries as long as the test has patience."""
        patience_ms = 1000 * TIMEOUT_S // 2
        outcomes = produce(
            self.cluster, self.name, [value], message_timeout_ms=patience_ms, **config
        )
        return outcomes[value] is None

    def refused(self, value: bytes) -> bool:
        return refused(self.cluster, self.name, value)

    def read(self) -> list[bytes]:
        return read_all(self.cluster, self.name)

    def led_by(self, broker: int) -> bool:
        return self.cluster.leader(self.name) == broker

    def elect(self, kind: ElectionType) -> int | None:
        """The error code, if any."""
        return elect(self.cluster, kind, (self.name, 0))[self.name, 0]


def kill(cluster: Cluster, broker: int) -> None:
    """Kills a broker, and waits until the others know."""
    cluster.brokers[broker].kill()
    dead = [b.id for b in cluster.brokers.values() if not b.running]
    cluster.wait_until_complete(but=dead)


def revive(cluster: Cluster, broker: int) -> None:
    """Starts a broker, and waits until all know."""
    cluster.brokers[broker].start()
    dead = [b.id for b in cluster.brokers.values() if not b.running]
    cluster.wait_until_complete(but=dead)


def one_after_the_other(topic: Topic, **config: str) -> None:
    """The topic is on 1 and 2; 2 dies, then 1, which alone has the second record. 3 stays."""
    topic.create([1, 2], **config)
    assert topic.sent(b"both")
    kill(topic.cluster, 2)
    until("1 is alone", lambda: topic.isr == {1})
    assert topic.sent(b"only 1", acks="1")
    kill(topic.cluster, 1)
    until("no broker leads", lambda: topic.led_by(-1))


# --- unclean elections ----------------------------------------------------------------------


# The next test waits the same way before it switches unclean elections on, and test_recovery_3 has
# the ISR come back.
@pytest.mark.long
def test_without_unclean_elections_a_partition_waits_for_its_isr(topic: Topic) -> None:
    one_after_the_other(topic)
    revive(topic.cluster, 2)
    assert topic.led_by(-1), "2 is not in the ISR"
    revive(topic.cluster, 1)
    until("1 leads, 2 follows", lambda: topic.led_by(1) and topic.isr == {1, 2})
    assert topic.read() == [b"both", b"only 1"]


# tests/controller elect by this setting without a cluster.
@pytest.mark.long
def test_unclean_elections_switched_on_for_a_topic_elect_at_once(topic: Topic) -> None:
    one_after_the_other(topic)
    revive(topic.cluster, 2)
    assert topic.led_by(-1)
    topic.configure(unclean_leader_election_enable="true")
    until("2 leads", lambda: topic.led_by(2))
    assert topic.read() == [b"both"], "what only 1 had is lost, as was chosen"
    assert topic.sent(b"without 1")
    revive(topic.cluster, 1)
    until("1 follows", lambda: topic.isr == {1, 2})
    assert topic.read() == [b"both", b"without 1"]


# As for one topic, above. tests/controller elect by both settings without a cluster.
@pytest.mark.long
def test_unclean_elections_switched_on_for_all_brokers_elect_at_once(topic: Topic) -> None:
    one_after_the_other(topic)
    revive(topic.cluster, 2)
    assert topic.led_by(-1)
    set_defaults(topic.cluster, {UNCLEAN: "true"})
    try:
        until("2 leads", lambda: topic.led_by(2))
    finally:
        set_defaults(topic.cluster, {UNCLEAN: None})


# tests/controller elect so without a cluster; above, the same election follows the switch.
@pytest.mark.long
def test_topic_with_unclean_elections_is_led_by_the_first_broker_to_return(topic: Topic) -> None:
    one_after_the_other(topic, unclean_leader_election_enable="true")
    revive(topic.cluster, 2)
    until("2 leads", lambda: topic.led_by(2))
    assert topic.read() == [b"both"]


def test_an_unclean_election_by_request(topic: Topic) -> None:
    one_after_the_other(topic)
    assert topic.elect(ElectionType.UNCLEAN) == KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE
    revive(topic.cluster, 2)
    assert topic.elect(ElectionType.UNCLEAN) is None
    until("2 leads", lambda: topic.led_by(2))
    assert topic.elect(ElectionType.UNCLEAN) == KafkaError.ELECTION_NOT_NEEDED


# --- seed 004, section 3.6: AR = ISR = (1, 2), acks=-1, min.insync.replicas=2 ----------------


def test_recovery_1_one_replica_dies(topic: Topic) -> None:
    """Reading goes on; writing comes back with the replica, or with min.insync.replicas=1."""
    topic.create([1, 2], min_insync_replicas="2")
    assert topic.sent(b"first")
    kill(topic.cluster, 1)
    until("2 leads alone", lambda: topic.led_by(2) and topic.isr == {2})
    assert topic.refused(b"refused")
    assert topic.read() == [b"first"]
    assert topic.sent(b"acks=1", acks="1")
    topic.configure(min_insync_replicas="1")
    assert topic.sent(b"alone")
    topic.configure(min_insync_replicas="2")
    revive(topic.cluster, 1)
    until("1 is back", lambda: topic.isr == {1, 2})
    assert topic.sent(b"both")
    assert topic.read()[0] == b"first"
    assert topic.read()[-1] == b"both"


# Its parts are above: an unclean election, and min.insync.replicas of a partition that lacks one.
@pytest.mark.long
def test_recovery_2_one_dies_and_then_the_other(topic: Topic) -> None:
    """Only who died last may lead; without it, unclean elections give reading back, and
    min.insync.replicas=1 writing."""
    topic.create([1, 2], min_insync_replicas="2")
    assert topic.sent(b"first")
    kill(topic.cluster, 1)
    until("2 leads alone", lambda: topic.led_by(2) and topic.isr == {2})
    kill(topic.cluster, 2)
    until("no broker leads, ISR=(2)", lambda: topic.led_by(-1) and topic.isr == {2})
    revive(topic.cluster, 1)
    assert topic.led_by(-1)
    topic.configure(unclean_leader_election_enable="true")
    until("1 leads", lambda: topic.led_by(1))
    assert topic.read() == [b"first"]
    assert topic.refused(b"refused")
    topic.configure(min_insync_replicas="1")
    assert topic.sent(b"again")


# The simulation kills all replicas at once; above, partitions lose their leader and wait.
@pytest.mark.long
def test_recovery_3_both_die_at_once(topic: Topic) -> None:
    """Any of them gives reading back; writing needs both."""
    topic.create([1, 2], min_insync_replicas="2")
    assert topic.sent(b"first")
    brokers = topic.cluster.brokers
    for broker in brokers.values():
        broker.kill()
    with zookeeper(topic.cluster) as client:
        until("no broker is registered", lambda: client.get_children("/brokers/ids") == [])
    brokers[3].start()  # a new controller finds both gone
    until("no broker leads, ISR=(1, 2)", lambda: topic.led_by(-1) and topic.isr == {1, 2})
    revive(topic.cluster, 2)
    until("2 leads alone", lambda: topic.led_by(2) and topic.isr == {2})
    assert topic.read() == [b"first"]
    assert topic.refused(b"refused")
    revive(topic.cluster, 1)
    until("both are in sync", lambda: topic.isr == {1, 2})
    assert topic.sent(b"both")


# --- preferred leaders ----------------------------------------------------------------------


def displaced(topic: Topic) -> None:
    """Partition 0 belongs to 1, but is led by 2; 1 is back in sync."""
    topic.create([1, 2], [2, 3])
    kill(topic.cluster, 1)
    until("2 leads", lambda: topic.led_by(2))
    revive(topic.cluster, 1)
    until("1 is in sync", lambda: topic.isr == {1, 2})
    assert topic.led_by(2)


# tests/controller give preferred leaders back without a cluster, by both ways.
@pytest.mark.long
def test_preferred_leaders_by_request_and_by_znode(topic: Topic) -> None:
    displaced(topic)
    found = elect(topic.cluster, ElectionType.PREFERRED)
    assert found[topic.name, 0] is None
    assert (topic.name, 1) not in found, "it needs no election"
    until("1 leads", lambda: topic.led_by(1))
    assert topic.elect(ElectionType.PREFERRED) == KafkaError.ELECTION_NOT_NEEDED
    kill(topic.cluster, 1)
    until("2 leads", lambda: topic.led_by(2))
    assert topic.elect(ElectionType.PREFERRED) == KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
    revive(topic.cluster, 1)
    until("1 is in sync", lambda: topic.isr == {1, 2})
    value = {"version": 1, "partitions": [{"topic": topic.name, "partition": 0}]}
    order(topic.cluster, "/admin/preferred_replica_election", value)
    until("1 leads", lambda: topic.led_by(1))


# tests/controller and the simulation check imbalance; the election itself is the one by request.
@pytest.mark.long
def test_leaderships_go_back_by_themselves(tmp_path: Path) -> None:
    overrides = {"leader.imbalance.check.interval.seconds": "1"}
    with running_cluster(tmp_path, brokers=2, overrides=overrides) as cluster:
        topic = Topic(cluster, "t")
        topic.create([1, 2])
        kill(cluster, 1)
        until("2 leads", lambda: topic.led_by(2))
        revive(cluster, 1)
        until("1 leads again", lambda: topic.led_by(1))
