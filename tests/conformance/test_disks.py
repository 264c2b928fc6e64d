"""Disks that garble or refuse what is read of them, under brokers that serve."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.types import TopicPartition
from simulation.clients.client import list_offsets
from simulation.machines.disk import READ
from tests.support.worlds.wire_cluster import LATEST, WireCluster, batches_in, errors_in, simulated

pytestmark = pytest.mark.simulation

BATCHES = 3
"""More than one: the last is not read from the disk."""


async def has_ended(cluster: WireCluster, broker: int) -> bool:
    return not cluster.simulation.nodes[broker].is_alive


@simulated
async def test_follower_takes_nothing_that_the_leaders_disk_garbles(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic, (1, 2))
    simulation, names = cluster.simulation, ("broker-1", "broker-2")
    for one, other in (names, names[::-1]):
        simulation.network.cut(one, other)
    for _ in range(BATCHES):
        assert (await cluster.send(tp, acks=1, to=1)).error_code is ErrorCode.none
    disk = simulation.disks[1]
    disk.corrupt_reads([each / str(tp) for each in simulation.nodes[1].config.log_dirs])
    simulation.network.heal_all()
    await asyncio.sleep(3)
    disk.corrupt_reads(())
    await cluster.settled()
    simulation.nodes[1].stop()
    await cluster.until("the leader has ended", lambda: has_ended(cluster, 1))
    await cluster.until("the follower leads", lambda: leads(cluster, tp, 2))
    assert await cluster.listed(tp, LATEST) == (BATCHES, -1)
    (part,) = await cluster.fetch([(tp, 0)])
    assert len(batches_in(part)) == BATCHES
    simulation.nodes[1].start()
    await cluster.settled()


async def leads(cluster: WireCluster, tp: TopicPartition, broker: int) -> bool:
    return await cluster.leader(tp) == broker


@simulated
async def test_leader_with_a_failed_lookup_reports_a_storage_error_or_ends(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic, (1,))
    await cluster.append(tp)
    await cluster.append(tp)
    disk = cluster.simulation.disks[1]
    disk.fail({READ})
    try:
        answer = await cluster.ask(1, list_offsets(tp, 0))
        assert errors_in(answer) == {ErrorCode.kafka_storage_error}
    except Disconnected:
        pass
    await cluster.until("it has ended", lambda: has_ended(cluster, 1))
    disk.fail(())
    cluster.simulation.nodes[1].start()
    await cluster.settled()
    assert await cluster.listed(tp, LATEST) == (2, -1)
