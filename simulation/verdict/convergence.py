"""The wait at the end of a run until the cluster has settled.

**Cluster/does-not-settle**: all faults are healed and all brokers run. Within ``SETTLE_S`` of
virtual time each partition must have a leader, a full ISR and equal logs. No topic may be half
deleted, and no partition half reassigned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from ackproof.broker.controller.context import Context
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.app import App
from ackproof.broker.server.network.broker_connection import Disconnected
from ackproof.broker.server.replication import partition as server
from ackproof.broker.types import TopicPartition
from simulation.clients.client import PAUSE_S
from simulation.model.history import ClientHistory
from simulation.model.observer import ClusterObserver
from simulation.model.partition import PartitionModel
from simulation.violation import Violation

SETTLE_S: Final = 120.0
CHECK_INTERVAL_S: Final = 0.2

Hosted = Callable[[int, TopicPartition], server.Partition | None]
"""A function that returns the replica on a broker, if the broker is alive and has one."""


class JudgedCluster(Protocol):
    """The parts of a world that the judge looks at."""

    observer: ClusterObserver
    history: ClientHistory

    @property
    def has_controllers(self) -> bool:
        """Return whether brokers compete for the office of controller."""

    def controller_context(self) -> Context | None:
        """Return the state of the controller, or None if brokers know of no controller."""

    def hosted(self, broker: int, tp: TopicPartition) -> server.Partition | None:
        """Return the replica on a broker that is alive."""

    def app(self, broker: int) -> App | None:
        """Return the application that a broker runs or ran."""


async def wait(
    invariant: str,
    within_s: float,
    complaint: Callable[[], Awaitable[str | None]],
    pause_s: float = PAUSE_S,
) -> None:
    """Wait until ``complaint`` returns None. A missing answer counts as a complaint.

    Raises Violation of ``invariant`` with the last complaint after ``within_s``.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while (why := await _complaint(complaint)) is not None:
        if loop.time() >= end:
            raise Violation(invariant, why)
        await asyncio.sleep(pause_s)


async def _complaint(complaint: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        return await complaint()
    except Disconnected as error:
        return f"no answer: {error}"


async def settle(cluster: JudgedCluster) -> None:
    """Wait until the cluster has settled. Raises Violation if that takes too long."""

    async def why() -> str | None:
        reason = unsettled(cluster)
        return reason and f"{SETTLE_S:.0f} s after all was healed: {reason}"

    await wait("Cluster/does-not-settle", SETTLE_S, why, CHECK_INTERVAL_S)


def unsettled(cluster: JudgedCluster) -> str | None:
    """Return the first reason why the cluster has not settled, or None."""
    observer = cluster.observer
    context = cluster.controller_context()
    if context is None and cluster.has_controllers:
        return "no broker is controller"
    for name, topic in observer.topics.items():
        if topic.is_being_deleted:
            return f"topic {name} is still being deleted"
        for number, partition in topic.partitions.items():
            tp = TopicPartition(name, number)
            why = _unsettled(cluster, tp, partition, topic.replicas(number))
            if why is None and not cluster.has_controllers:
                why = _unassigned_replicas(cluster, tp, topic.replicas(number) or ())
            if why is None and context is not None:
                known = context.states.get(tp)
                if known != partition.state:
                    why = f"the controller believes in {known}"
            if why is not None:
                return f"{tp}: {why}"
    return None


def _unsettled(
    cluster: JudgedCluster,
    tp: TopicPartition,
    partition: PartitionModel,
    replicas: Iterable[int] | None,
) -> str | None:
    state = partition.state
    if replicas is None:
        return "it is still being moved"
    if state is None or state.leader not in replicas:
        return "no broker leads" if state is None else f"broker {state.leader} leads"
    if set(state.isr) != set(replicas):
        return f"the ISR is {list(state.isr)} of {list(replicas)}"
    hosted = {broker: cluster.hosted(broker, tp) for broker in replicas}
    ends = set()
    for broker, replica in hosted.items():
        if replica is None:
            return f"broker {broker} does not host it"
        role = Role.LEADER if broker == state.leader else Role.FOLLOWER
        if replica.replica.role is not role or replica.replica.leader != state.leader:
            return f"broker {broker} does not know that {state.leader} leads"
        if role is Role.LEADER and not replica.replica.serves:
            return f"broker {broker} leads, and does not serve yet"
        ends |= {replica.replica.log_end_offset, replica.replica.high_watermark}
    starts = {b: r.replica.log_start_offset for b, r in hosted.items() if r is not None}
    behind = [broker for broker, start in starts.items() if start < starts[state.leader]]
    if behind:
        return f"brokers {behind} keep deleted records below {starts[state.leader]}"
    if len(ends) != 1:
        return f"logs and high watermarks end at {sorted(ends)}"
    kept = [
        broker for broker, replica in hosted.items() if replica and _keeps_deleted_segments(replica)
    ]
    return f"brokers {kept} keep segments of deleted records" if kept else None


def _unassigned_replicas(
    cluster: JudgedCluster, tp: TopicPartition, replicas: Iterable[int]
) -> str | None:
    """Return the brokers that keep replicas no longer assigned to them.

    Without a controller, a removal waits in ZooKeeper until it is done. A controller forgets
    brokers that were down (``broker/controller/reassignment.py``).
    """
    unassigned = cluster.observer.registered.keys() - set(replicas)
    keeping = sorted(broker for broker in unassigned if cluster.hosted(broker, tp) is not None)
    return f"brokers {keeping} keep replicas that are not assigned to them" if keeping else None


def _keeps_deleted_segments(replica: server.Partition) -> bool:
    """Return whether the first segment of the log lies below its log start
    (``log.retention.check``)."""
    ends = replica.log.segment_base_offsets[1:]
    return bool(ends) and ends[0] <= replica.log.log_start_offset
