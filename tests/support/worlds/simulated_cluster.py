"""Three real brokers in a simulated world, and a client that asks them as any client would."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from random import Random
from typing import Any

from kio.schema.create_topics.v4.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.metadata.v4.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v7.request import PartitionProduceData, ProduceRequest, TopicProduceData

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.types import BrokerId
from ackproof.broker.wire.batch import parse_batches, records
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from simulation.loop import SimulatedLoop, SimulatedProcess
from simulation.machines.disk import SimulatedDisk
from simulation.machines.node import PORT, BrokerNode, SharedParts
from simulation.network import SimulatedNetwork
from simulation.zookeeper.ensemble import HOST, SimulatedZooKeeper
from tests.support.builders.batches import encoded
from tests.support.clients.kio_peer import ours

CLIENT = "client-1"
CALL_S = 5.0
ORDER_S = 30.0
"""An order looks several times, each time as late as ZooKeeper's servers lag."""
PAUSE_S = 0.1
DONE = (ErrorCode.none, ErrorCode.topic_already_exists)


class Cluster:
    """Brokers 1 to ``brokers``, not started yet. ``lag_s``: of ZooKeeper's servers behind the one
    that leads them; without it, there is one."""

    def __init__(
        self,
        seed: int = 1,
        brokers: int = 3,
        properties: Mapping[str, str] | None = None,
        lag_s: float = 0.0,
    ) -> None:
        random = Random(seed)
        self.loop = SimulatedLoop(random, steps_max=20_000_000)
        self.network = SimulatedNetwork(self.loop, random)
        for host in (HOST, CLIENT):
            self.network.add_host(host)
        servers = 3 if lag_s else 1
        self.zookeeper = SimulatedZooKeeper(
            self.loop, self.network, random, servers=servers, lag_s=lag_s
        )
        around = SharedParts(self.loop, self.network, self.zookeeper, random)
        self.disks = {n: SimulatedDisk(Random(random.random())) for n in range(1, 1 + brokers)}
        self.nodes = {
            n: BrokerNode(around, n, disk, properties or {}) for n, disk in self.disks.items()
        }
        self.client = Client(self.nodes)
        self._process = SimulatedProcess(CLIENT)

    def start(self) -> None:
        """All brokers."""
        for node in self.nodes.values():
            node.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of the client's work."""
        context = self._process.context.copy()
        return self.loop.run_until_complete(self.loop.create_task(work, context=context))

    def until(
        self,
        condition: Callable[[], object],
        deadline_s: float = 60.0,
        pause_s: float = PAUSE_S,
    ) -> None:
        """Lets time pass until ``condition`` holds; it is looked at every ``pause_s``."""
        end = self.loop.time() + deadline_s
        while not condition():
            assert self.loop.time() < end, f"not within {deadline_s} s"
            self.loop.run_for(pause_s)

    def start_over(self, node: BrokerNode) -> None:
        """Kills a broker and starts it, until it is about to register: its former session has
        seconds to go."""
        node.kill()
        node.start()
        self.until(lambda: node.app is not None and node.app.connections is not None, deadline_s=1)

    def close(self) -> None:
        """The end of the world."""
        self.loop.close()


class Client:
    """Asks the present leader, again and again."""

    def __init__(self, nodes: Mapping[int, BrokerNode]) -> None:
        self._connections = {
            number: BrokerConnection(node.host, PORT, "tests") for number, node in nodes.items()
        }
        self._leaders: dict[tuple[str, int], int] = {}

    async def create(self, name: str, partitions: int = 1, replicas: int = 3) -> None:
        """Create the topic through the controller and wait until all partitions have leaders."""
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=name,  # type: ignore[arg-type]
                    num_partitions=partitions,  # type: ignore[arg-type]
                    replication_factor=replicas,  # type: ignore[arg-type]
                    assignments=(),
                    configs=(),
                ),
            ),
            timeout=timedelta(seconds=5),  # type: ignore[arg-type]
        )
        for broker in itertools.cycle(self._connections):
            answer = await self._by(broker, request)
            if answer is not None and answer.topics[0].error_code in DONE:
                break
            await asyncio.sleep(PAUSE_S)
        for partition in range(partitions):
            await self._leader(name, partition)

    async def produce(self, topic: str, values: list[bytes], partition: int = 0) -> int:
        """With acks=all, until it is acked; the offset."""
        while True:
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,  # type: ignore[arg-type]
                timeout=timedelta(seconds=2),  # type: ignore[arg-type]
                topic_data=(
                    TopicProduceData(
                        name=topic,  # type: ignore[arg-type]
                        partition_data=(
                            PartitionProduceData(index=partition, records=encoded(values)),  # type: ignore[arg-type]
                        ),
                    ),
                ),
            )
            answer = await self._by_leader(topic, partition, request)
            if answer is not None:
                done = answer.responses[0].partition_responses[0]
                if done.error_code is ErrorCode.none:
                    return int(done.base_offset)
            await self._try_again(topic, partition)

    async def consume(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of all that is committed."""
        found: list[bytes | None] = []
        offset, end = 0, 1
        while offset < end:
            request = FetchRequest(
                replica_id=-1,  # type: ignore[arg-type]
                max_wait=timedelta(0),  # type: ignore[arg-type]
                min_bytes=0,  # type: ignore[arg-type]
                max_bytes=2**20,  # type: ignore[arg-type]
                isolation_level=0,  # type: ignore[arg-type]
                topics=(
                    FetchTopic(
                        topic=topic,  # type: ignore[arg-type]
                        partitions=(
                            FetchPartition(
                                partition=partition,  # type: ignore[arg-type]
                                fetch_offset=offset,  # type: ignore[arg-type]
                                partition_max_bytes=2**20,  # type: ignore[arg-type]
                            ),
                        ),
                    ),
                ),
            )
            answer = await self._by_leader(topic, partition, request)
            if answer is None or answer.responses[0].partitions[0].error_code is not ErrorCode.none:
                await self._try_again(topic, partition)
                continue
            told = answer.responses[0].partitions[0]
            end = told.high_watermark
            for batch in parse_batches(told.records or b""):
                found += [record.value for record in records(batch)]
                offset = batch.next_offset
        return found

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Return the present leader."""
        self._leaders.pop((topic, partition), None)
        return await self._leader(topic, partition)

    async def reassign(
        self, broker: int, topic: str, replicas: tuple[int, ...] | None, partition: int = 0
    ) -> ErrorCode | None:
        """Return that broker's answer; None: no answer. ``replicas``: None cancels a
        reassignment."""
        ids = None if replicas is None else tuple(map(BrokerId, replicas))
        part = ReassignablePartition(partition_index=partition, replicas=ids)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=round(ORDER_S * 1000),
            topics=(ReassignableTopic(name=topic, partitions=(part,)),),
        )
        answer = await self._by(broker, request, ORDER_S)
        return None if answer is None else answer.responses[0].partitions[0].error_code

    async def _leader(self, topic: str, partition: int) -> int:
        while (topic, partition) not in self._leaders:
            answer = await self._by_anyone(
                MetadataRequest(
                    topics=(MetadataRequestTopic(name=topic),),  # type: ignore[arg-type]
                    allow_auto_topic_creation=False,
                )
            )
            for told in answer.topics[0].partitions:
                if told.error_code is ErrorCode.none and told.leader_id in self._connections:
                    self._leaders[topic, told.partition_index] = told.leader_id
            if (topic, partition) not in self._leaders:
                await asyncio.sleep(PAUSE_S)
        return self._leaders[topic, partition]

    async def _try_again(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)
        await asyncio.sleep(PAUSE_S)

    async def _by_leader(self, topic: str, partition: int, request: Any) -> Any:
        return await self._by(await self._leader(topic, partition), request)

    async def _by_anyone(self, request: Any) -> Any:
        brokers = itertools.cycle(self._connections)
        while (answer := await self._by(next(brokers), request)) is None:
            await asyncio.sleep(PAUSE_S)
        return answer

    async def _by(self, broker: int, request: Any, timeout_s: float = CALL_S) -> Any:
        """None: no answer."""
        try:
            return await self._connections[broker].call(ours(request), timeout_s)
        except Disconnected:
            return None
