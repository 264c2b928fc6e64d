"""Whole brokers on simulated machines: they start, serve, die and return, and clocks are wrong."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from ackproof.broker.log.manager import LogManager
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import TopicPartition
from simulation.machines.node import PORT
from tests.support.fakes.swapped_functions import Mutation, Swap
from tests.support.worlds.simulated_cluster import Cluster

pytestmark = pytest.mark.simulation

HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return three started brokers."""
    cluster = Cluster(properties={"offsets.topic.num.partitions": "3"})
    cluster.start()
    yield cluster
    cluster.close()
    assert not cluster.loop.unhandled_errors


def values(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def is_followed(cluster: Cluster, topic: str) -> bool:
    """Return whether the topic's first partition has all its replicas in its ISR again."""
    partitions = [
        node.app.replicas.hosted(TopicPartition(topic, 0))
        for node in cluster.nodes.values()
        if node.is_alive and node.app is not None and node.app.replicas is not None
    ]
    return any(
        partition.replica.role is Role.LEADER and len(partition.replica.isr) == 3
        for partition in partitions
        if hasattr(partition, "replica")
    )


def filled(cluster: Cluster) -> int:
    """Replicate ten records, and return their leader."""

    async def fill() -> int:
        await cluster.client.create("t")
        assert await cluster.client.produce("t", values(0, 10)) == 0
        return await cluster.client.leader("t")

    return int(cluster.run(fill()))


@pytest.mark.parametrize("end", ["kill", "lose_power", "stop"])
def test_restarted_broker_catches_up(cluster: Cluster, end: str) -> None:
    leader = cluster.nodes[filled(cluster)]
    getattr(leader, end)()
    cluster.until(lambda: not leader.is_alive)
    cluster.run(cluster.client.produce("t", values(10, 20)))
    leader.start()
    cluster.until(lambda: is_followed(cluster, "t"))
    others = [node for node in cluster.nodes.values() if node is not leader]
    for node in others:
        node.kill()
    cluster.loop.run_for(30)
    for node in others:
        node.start()
    cluster.until(lambda: is_followed(cluster, "t"))
    assert cluster.run(cluster.client.consume("t")) == values(0, 20)


@pytest.mark.parametrize(("away_s", "at"), [(1, "broker-{}-0"), (60, "broker-{}-1")])
def test_broker_that_was_away_for_long_returns_at_another_address(
    cluster: Cluster, away_s: int, at: str
) -> None:
    leader = cluster.nodes[filled(cluster)]
    leader.kill()
    cluster.loop.run_for(away_s)
    leader.start()
    assert leader.config.advertised == (at.format(leader.id), PORT)
    cluster.until(lambda: is_followed(cluster, "t"))


def test_stopped_broker_hands_over_and_exits_without_error(cluster: Cluster) -> None:
    leader = cluster.nodes[filled(cluster)]
    leader.stop()
    cluster.until(lambda: not leader.is_alive, deadline_s=5)
    (ending,) = leader.exits
    assert ending.was_requested
    assert ending.error is None
    assert cluster.run(cluster.client.leader("t")) != leader.id


def test_registering_broker_stops_when_asked(cluster: Cluster) -> None:
    """Test a broker whose former session lasts for some seconds more."""
    node = cluster.nodes[filled(cluster)]
    cluster.start_over(node)
    node.stop()
    cluster.until(lambda: not node.is_alive, deadline_s=1)
    (ending,) = node.exits
    assert ending.was_requested
    assert ending.error is None


@pytest.mark.parametrize("has", ["nothing", "session", "replicas", "connections"])
def test_broker_without_zookeeper_stops_when_asked(cluster: Cluster, has: str) -> None:
    """Test a ZooKeeper that stops before the broker starts, or after it has its session, its logs,
    or its port."""
    node = cluster.nodes[filled(cluster)]
    node.kill()
    node.start()
    if has == "session":
        former = len(cluster.zookeeper.sessions_of(node.host))
        cluster.until(
            lambda: len(cluster.zookeeper.sessions_of(node.host)) > former, pause_s=0.0001
        )
    elif has != "nothing":
        cluster.until(lambda: getattr(node.app, has, None) is not None, pause_s=0.0001)
    cluster.zookeeper.stop()
    cluster.loop.run_for(5)
    assert node.is_alive
    assert node.app is not None
    assert (node.app.replicas is None) == (has in ("nothing", "session"))
    assert (node.app.connections is None) == (has != "connections")
    node.stop()
    cluster.until(lambda: not node.is_alive, deadline_s=1)
    (ending,) = node.exits
    assert ending.was_requested
    assert ending.error is None


def test_failed_broker_exits_with_its_error(cluster: Cluster) -> None:
    leader = cluster.nodes[filled(cluster)]
    cluster.disks[leader.id].fail({"write"})
    cluster.run(cluster.client.produce("t", values(10, 20)))
    cluster.until(lambda: bool(leader.exits))
    assert not leader.exits[0].was_requested
    assert leader.exits[0].error is not None


def test_failed_broker_serves_no_request_once_its_logs_are_closed(
    cluster: Cluster,
) -> None:
    """Test a broker that is told to follow before its session is closed, which is after its logs
    are. It would open a log again."""
    leader = cluster.nodes[filled(cluster)]
    served: list[int] = []
    close = LogManager.close

    def closed(logs: LogManager, clean: bool = True) -> None:
        assert leader.process is not None
        ends = cluster.network._endpoints_of(leader.process)
        served.append(sum(end.local[1] == PORT and not end.is_closing() for end in ends))
        close(logs, clean)

    with Mutation(Swap(LogManager, "close", closed)).active():
        cluster.disks[leader.id].fail({"write"})
        cluster.run(cluster.client.produce("t", values(10, 20)))
        cluster.until(lambda: bool(leader.exits))
    assert served == [0]


# --- wrong wall clocks: no duration may be measured by them ---------------------------------------


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, HOUR_MS])
def test_flush_ms_holds_with_a_wrong_clock(ahead_ms: int) -> None:
    """Test a clock that is set back. Flushes must not wait until it reads the same time again."""
    with closing(Cluster(properties={"log.flush.interval.ms": "1000"})) as cluster:
        _is_kept(cluster, ahead_ms)
    assert not cluster.loop.unhandled_errors


def _is_kept(cluster: Cluster, ahead_ms: int) -> None:
    cluster.start()

    async def fill() -> int:
        await cluster.client.create("t")
        await cluster.client.produce("t", [b"a", b"b"])
        return await cluster.client.leader("t")

    app = cluster.nodes[cluster.run(fill())].app
    assert app is not None
    assert app.replicas is not None
    partition = app.replicas.hosted(TopicPartition("t", 0))
    for node in cluster.nodes.values():
        node.clock.clock_offset_ms = ahead_ms
    cluster.until(lambda: partition.log.recovery_point == 2, 10.0)  # type: ignore[union-attr]
