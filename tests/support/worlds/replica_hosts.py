"""Brokers without a controller and without ZooKeeper: real logs, replicas, fetchers and sockets.

The test is the controller (it sends LeaderAndIsr and StopReplica) and ZooKeeper (what a leader
wants to write of its ISR stays in ``isr_writes``). What goes wrong badly enough to halt the broker
is in ``halted``; a task that fails does the same to its broker.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, Listener, TopicConfig
from ackproof.broker.controller.requests import LEADER_AND_ISR_INCREMENTAL
from ackproof.broker.log.manager import LogManager
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.server.admin import TopicConfigs
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.server.network.connections import ConnectionConfig, Connections
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.replication.fetcher import Fetchers
from ackproof.broker.server.replication.partition import Partition, PartitionContext, Produced
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.replication.roles import Origin
from ackproof.broker.server.requests import control_requests as leader_and_isr_requests
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.requests.dispatch import SERVED, Dispatcher
from ackproof.broker.server.schedule import Clock
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from tests.support.builders.batches import batch
from tests.support.clients.kio_peer import ours

DEADLINE_S = 120
OF_NOBODY = Origin(change="test", by={})


class ToldSettings(TopicConfigs):
    """A topic has the settings that the test has told. While ZooKeeper is not ``reachable`` no test
    knows them."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config, KafkaZk(config.zookeeper_connect, 1_000))
        self.reachable = asyncio.Event()
        self.reachable.set()

    def tell(self, topic: str, settings: Mapping[str, str]) -> None:
        self._overrides[topic] = settings

    async def load_latest(self, topic: str) -> TopicConfig:
        await self.reachable.wait()
        return self.get(topic)


class Host:
    """One broker. ``lose_power`` ends it and forgets what was not flushed."""

    def __init__(self, broker: int, directory: Path, properties: Mapping[str, Any]) -> None:
        self.id = BrokerId(broker)
        self.directory = directory
        self.config = BrokerConfig(
            broker_id=broker,
            zookeeper_connect="127.0.0.1:1",
            log_dirs=(directory,),
            replica_fetch_wait_max_ms=20,
            replica_fetch_backoff_ms=20,
            **properties,
        )
        self.isr_writes: list[tuple[Partition, WriteIsr]] = []
        self.halted: list[BaseException] = []
        self.port = 0
        self.peers: dict[BrokerId, Host] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self.clock, self.fence, self.metadata = Clock(), ControlFence(), MetadataCache()
        self.purgatory = purgatory = Purgatory()
        self.topics = ToldSettings(self.config)
        self.logs = LogManager([self.directory], self.topics.log_config)
        self.replicas = ReplicaManager(
            self.config,
            self.logs,
            self.topics,
            self.metadata,
            Fetchers(self.config, self.clock, self._locate, self.spawn),
            PartitionContext(
                self.clock,
                purgatory,
                lambda partition, effect: self.isr_writes.append((partition, effect)),
                self.halted.append,
            ),
        )
        unused: Any = None
        context = Context(
            config=self.config,
            cluster_id="cluster",
            clock=self.clock,
            fence=self.fence,
            replicas=self.replicas,
            metadata=self.metadata,
            purgatory=purgatory,
            fetch_sessions=FetchSessionCache(10, Random(1)),
            topics=unused,
            configs=unused,
            coordinator=unused,
            producer_ids=unused,
            groups=unused,
            new_uuid=unused,
            served=SERVED,
        )
        self._connections = Connections(Dispatcher(context), ConnectionConfig.of(self.config))
        self._connections.bind(Listener("127.0.0.1", self.port))
        self._connections.accept(self.spawn)
        self.port = self._connections.port
        self._connection = BrokerConnection("127.0.0.1", self.port, "test")

    async def stop(self) -> None:
        """Stop as after kill -9."""
        await self._connection.close()
        await self._connections.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.logs.close(clean=False)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.halted.append(error)

    def _locate(self, broker: BrokerId) -> Listener | None:
        peer = self.peers.get(broker)
        return Listener("127.0.0.1", peer.port) if peer else None

    @property
    def connections_open(self) -> int:
        return len(self._connections)

    # --- what a controller and clients do ---------------------------------------------------

    async def call(self, request: Any) -> Any:
        return await self._connection.call(ours(request), DEADLINE_S)

    async def told(self, word: LeaderAndIsrRequest) -> None:
        """The controller's word, without a connection."""
        await self.replicas.become_leader_or_follower(
            leader_and_isr_requests.roles(word), OF_NOBODY
        )

    def partition(self, tp: TopicPartition) -> Partition:
        hosted = self.replicas.hosted(tp)
        assert isinstance(hosted, Partition), hosted
        return hosted

    def produce(
        self, tp: TopicPartition, *values: bytes, acks: int = -1, timeout_ms: int = 30_000
    ) -> asyncio.Future[Produced]:
        """One batch; its outcome."""
        return self.partition(tp).produce(batch(values), acks, timeout_ms)

    def values(self, tp: TopicPartition) -> bytes:
        """The whole log."""
        log = self.partition(tp).log
        return bytes(log.read(log.log_start_offset, 10**9, log.log_end_offset))


def leader_and_isr(
    tp: TopicPartition,
    leader: int,
    epoch: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    *,
    controller_epoch: int = 1,
    broker_epoch: int = -1,
    zk_version: int | None = None,
    topic_id: uuid.UUID | None = None,
) -> LeaderAndIsrRequest:
    """The controller's word on one partition; versions of its znode grow with its epochs."""
    state: Any = LeaderAndIsrPartitionState
    return LeaderAndIsrRequest(
        controller_id=BrokerId(1),
        controller_epoch=controller_epoch,  # type: ignore[arg-type]
        broker_epoch=broker_epoch,
        type_=LEADER_AND_ISR_INCREMENTAL,
        topic_states=(
            LeaderAndIsrTopicState(
                topic_name=tp.topic,
                topic_id=topic_id,
                partition_states=(
                    state(
                        partition_index=tp.partition,
                        controller_epoch=controller_epoch,
                        leader=leader,
                        leader_epoch=epoch,
                        isr=isr,
                        zk_version=10 * epoch if zk_version is None else zk_version,
                        replicas=replicas,
                        adding_replicas=(),
                        removing_replicas=(),
                        is_new=False,
                    ),
                ),
            ),
        ),
        live_leaders=(),
    )


def stop_replica(
    tp: TopicPartition, epoch: int, *, delete: bool, controller_epoch: int = 1
) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=BrokerId(1),
        controller_epoch=controller_epoch,  # type: ignore[arg-type]
        broker_epoch=-1,
        topic_states=(
            StopReplicaTopicState(
                topic_name=tp.topic,
                partition_states=(
                    StopReplicaPartitionState(
                        partition_index=tp.partition,
                        leader_epoch=epoch,  # type: ignore[arg-type]
                        delete_partition=delete,
                    ),
                ),
            ),
        ),
    )


async def elect(
    hosts: Mapping[int, Host],
    tp: TopicPartition,
    leader: int,
    epoch: int,
    isr: tuple[int, ...],
    to: tuple[int, ...] = (),
) -> None:
    """Tells these hosts (all, unless ``to`` says which), the leader first."""
    told = sorted(to or hosts, key=lambda broker: broker != leader)
    for broker in told:
        word = leader_and_isr(tp, leader, epoch, isr, tuple(hosts))
        answer = await hosts[broker].call(word)
        assert answer.error_code is ErrorCode.none


@contextlib.asynccontextmanager
async def hosts(
    directory: Path, *brokers: int, **properties: Any
) -> AsyncIterator[dict[int, Host]]:
    """These brokers, listening and knowing each other; all end with the context."""
    made = {broker: Host(broker, directory / str(broker), properties) for broker in brokers}
    for host in made.values():
        host.peers = {other.id: other for other in made.values() if other is not host}
        await host.start()
    try:
        yield made
    finally:
        for host in made.values():
            await host.stop()


async def until(condition: Any) -> None:
    """Polls, with the deadline of :func:`run` as the limit."""
    while not condition():
        await asyncio.sleep(0.005)


def run(test: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    asyncio.run(bounded())


# A broker's disk that gives back something else than was written, or nothing.

LENGTH_AT = 8
"""Where in a batch its length is."""


def log_of(host: Host, tp: TopicPartition) -> Path:
    (path,) = (Path(host.directory) / str(tp)).glob("*.log")
    return path


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def refuse_reads(path: Path) -> None:
    """Replace the open file by a directory, which cannot be read."""
    directory = os.open(path.parent, os.O_RDONLY)
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        if descriptor.is_symlink() and descriptor.readlink() == path:
            os.dup2(directory, int(descriptor.name))
    os.close(directory)
