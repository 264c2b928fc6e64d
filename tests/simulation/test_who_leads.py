"""A broker that does not lead a partition says so, whatever else is wrong with a request."""

from contextlib import closing

import pytest
from batches import encoded
from kio.schema.errors import ErrorCode
from simulated_cluster import Cluster

from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.types import TopicPartition
from simulation.clients.client import CALL_S, PORT, host_of
from simulation.verdict.refused.invalid import produce

pytestmark = pytest.mark.simulation

LIMIT = 500
LARGE = encoded([bytes(LIMIT)])


def test_a_follower_does_not_judge_a_batch() -> None:
    """Its settings may be older than the leader's, and a producer that is told MESSAGE_TOO_LARGE
    gives the batch up, where it is to ask the leader."""
    with closing(Cluster(properties={"message.max.bytes": str(LIMIT)})) as cluster:
        cluster.start()

        async def ask() -> dict[bool, ErrorCode]:
            await cluster.client.create("t")
            leader = await cluster.client.leader("t")
            told = {}
            for broker in cluster.nodes:
                connection = BrokerConnection(host_of(broker), PORT, "producer")
                request = produce(TopicPartition("t", 0), 1, LARGE)
                answer = await connection.call(request, CALL_S)
                told[broker == leader] = answer.responses[0].partition_responses[0].error_code
                await connection.close()
            return told

        assert cluster.run(ask()) == {
            True: ErrorCode.message_too_large,
            False: ErrorCode.not_leader_or_follower,
        }
