"""Wrong wall clocks: no duration may be measured by them."""

from contextlib import closing

import pytest

from ackproof.broker.types import TopicPartition
from tests.support.worlds.simulated_cluster import Cluster

pytestmark = pytest.mark.simulation

HOUR_MS = 3_600_000


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
