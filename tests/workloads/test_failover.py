"""The observer of a failover: it sees when each partition has a leader and acknowledges again."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError

from ackproof.workloads.failover import LOOK_EVERY_S, FailoverClients, TopicNotCreated, grow
from tests.support.fakes.mock_cluster import MockCluster

TOPIC = "failover"
PRODUCE = 0
WITHIN_S = 60.0


@pytest.fixture
def onlooker(mock_cluster: MockCluster) -> Iterator[FailoverClients]:
    """At six partitions, two of which each broker leads."""
    mock_cluster.create(TOPIC, 6)
    with looking(mock_cluster, 6, WITHIN_S) as one:
        yield one


def looking(cluster: MockCluster, partitions: int, limit_s: float) -> FailoverClients:
    return FailoverClients(cluster.bootstrap_servers, TOPIC, partitions, time.time_ns, limit_s)


def at_look(number: int, act: Callable[[], None]) -> Callable[[], None]:
    """Return a function for every look, which acts at one of them."""
    looks = iter(range(10_000))
    return lambda: act() if next(looks) == number else None


def test_observer_knows_the_leaders(onlooker: FailoverClients, mock_cluster: MockCluster) -> None:
    assert onlooker.leaders() == {0: 1, 1: 2, 2: 3, 3: 1, 4: 2, 5: 3}
    mock_cluster.lead(TOPIC, 4, -1)
    assert 4 not in onlooker.leaders()


def test_each_partition_is_seen_to_be_led_and_to_acknowledge_again(
    onlooker: FailoverClients, mock_cluster: MockCluster
) -> None:
    assert onlooker.warm_up(WITHIN_S)
    mock_cluster.down(1)
    moved: dict[int, int] = {}

    def lead(partition: int, broker: int) -> None:
        moved[partition] = time.time_ns()
        mock_cluster.lead(TOPIC, partition, broker)

    early, late = at_look(2, lambda: lead(0, 2)), at_look(8, lambda: lead(3, 3))
    seen = onlooker.look_on(1, [0, 3], lambda: (early(), late())[0])
    assert list(seen) == [0, 3]
    for partition, one in seen.items():
        assert one.led is not None
        assert one.acked is not None
        assert min(one.led, one.acked) >= moved[partition]
    assert seen[0].led < moved[3], "it does not wait for the last to tell of the first"
    assert moved[3] - moved[0] >= 5 * LOOK_EVERY_S * 1e9


def test_unrecovered_partition_has_unknown_times(mock_cluster: MockCluster) -> None:
    mock_cluster.create(TOPIC, 6)
    with looking(mock_cluster, 6, 3.0) as onlooker:
        assert onlooker.warm_up(WITHIN_S)
        mock_cluster.down(1)
        mock_cluster.lead(TOPIC, 0, 2)
        seen = onlooker.look_on(1, [0, 3], lambda: None)
    assert seen[0].led is not None
    assert seen[0].acked is not None
    assert (seen[3].led, seen[3].acked) == (None, None), "it still names the one that is gone"


def test_a_record_of_before_is_no_ack_of_this_round(
    onlooker: FailoverClients, mock_cluster: MockCluster
) -> None:
    """Test a partition 0 without a leader in the first round; its record is delivered later."""
    mock_cluster.lead(TOPIC, 0, -1)
    assert not onlooker.warm_up(1.0)
    mock_cluster.lead(TOPIC, 0, 1)
    begun = time.time_ns()
    seen = onlooker.look_on(3, [0], lambda: None)
    assert seen[0].acked is not None
    assert seen[0].acked > begun


def test_a_partition_that_the_brokers_do_not_know_of_ends_nothing(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create(TOPIC, 3)
    with looking(mock_cluster, 4, WITHIN_S) as onlooker:
        assert not onlooker.warm_up(2.0)
        assert onlooker.leaders() == {0: 1, 1: 2, 2: 3}


def test_an_error_is_tried_again(onlooker: FailoverClients, mock_cluster: MockCluster) -> None:
    """One that librdkafka does not try again by itself."""
    mock_cluster.fail(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED, 3)
    assert onlooker.warm_up(WITHIN_S)


def test_a_topic_that_is_as_asked_is_left_alone(mock_cluster: MockCluster) -> None:
    mock_cluster.create(TOPIC, 3)
    grow(mock_cluster.bootstrap_servers, TOPIC, 3, 3, WITHIN_S)
    with pytest.raises(TopicNotCreated, match="has 3 partitions, not 2"):
        grow(mock_cluster.bootstrap_servers, TOPIC, 2, 3, WITHIN_S)


def test_missing_answer_is_no_refusal(mock_cluster: MockCluster) -> None:
    """The mock has no controller that could make topics."""
    begun = time.monotonic()
    grow(mock_cluster.bootstrap_servers, "new", 3, 3, 2.0)
    assert time.monotonic() - begun >= 1.9
