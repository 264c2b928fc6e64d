"""Whole brokers on simulated machines: they boot, serve, die, and come back."""

from collections.abc import Iterator

import pytest
from simulated_cluster import Cluster

pytestmark = pytest.mark.simulation


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers, started."""
    cluster = Cluster()
    cluster.start()
    yield cluster
    cluster.close()
    assert not cluster.loop.troubles


def values(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


async def fail_over(cluster: Cluster) -> tuple[int, int, list[bytes | None]]:
    client = cluster.client
    await client.create("t")
    await client.produce("t", values(0, 10))
    leader = await client.leader("t")
    cluster.nodes[leader].kill()
    await client.produce("t", values(10, 20))
    return leader, await client.leader("t"), await client.consume("t")


def test_another_leads_when_the_leader_is_killed(cluster: Cluster) -> None:
    before, after, consumed = cluster.run(fail_over(cluster))
    assert after != before
    assert consumed == values(0, 20)
    assert not any(node.endings for node in cluster.nodes.values())
