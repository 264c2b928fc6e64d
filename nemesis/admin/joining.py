"""The effect that a broker joins the cluster, and leaves it in order."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.interface import ClusterView, PartitionView, Process, ProcessState, Server
from ackproof.nemesis.admin.effects import await_view, holds, patience_s
from ackproof.nemesis.effects import kill
from ackproof.nemesis.interface import Cluster, Resource

BROKER = "broker"
_UP_S = 60.0
"""As long as brokers may take when they are deployed."""
_ENDS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Join:
    """A further broker, started on a node of its own and registered when this returns. Undone when
    it has no replica any more: it is terminated, and its node removed with all that is on it.

    What was moved to it by another effect is that one's to move back, and is undone before. What it
    was given by others meanwhile, as the controller does with new partitions, is moved away.

    Its process ends by nothing of this: one that does has ended by itself.

    Attributes:
        number: Its ``broker.id``, which none had before.
        given: The partitions that other effects of the plan move to it, by name.
    """

    number: int
    given: tuple[str, ...]
    ends: ClassVar[None] = None

    @property
    def name(self) -> str:
        return f"broker-{self.number}"

    @property
    def resource(self) -> Resource:
        return Resource(BROKER, (self.name,))

    def apply(self, cluster: Cluster) -> bool:
        """Raises InfraError where there is no node for it, TimeoutError when it does not register
        in time, and RuntimeError when it ends before."""
        broker = cluster.system.added.add(self.number)
        cluster.attendant.joins(broker)
        process = broker.start()

        def ended() -> bool:
            return process.state() is ProcessState.EXITED

        if not await_view(cluster, lambda view: self.number in view.brokers or ended(), _UP_S):
            raise TimeoutError(f"{self.name} did not register")
        if ended():
            raise RuntimeError(f"{self.name} ended with status {process.exit_code()}")
        return True

    def undo(self, cluster: Cluster) -> None:
        """Raises TimeoutError, and leaves it as it is, when it is not seen to have no replica: of a
        broker that is removed with one, records may be gone that were acknowledged."""
        broker = self._found(cluster)
        if broker is None:
            return
        self._give_away(cluster)
        if not await_view(cluster, lambda view: not holds(view, self.number)):
            raise TimeoutError(f"{self.name} is not seen to have no replica")
        cluster.attendant.leaves(broker)
        with suppress(LookupError):  # it was never started
            _end(broker.process)
        cluster.attendant.left(broker)
        cluster.system.added.remove(self.number)

    def _found(self, cluster: Cluster) -> Server | None:
        there = cluster.system.added.there
        return next((broker for broker in there if broker.id == self.number), None)

    def _give_away(self, cluster: Cluster) -> None:
        """Move what it was not given by this plan to brokers that stay."""
        strays: list[tuple[PartitionView, int]] = []

        def look(view: ClusterView) -> bool:
            strays[:] = self._strays(cluster, view)
            return True

        await_view(cluster, look)
        for one, to in strays:
            replicas = [to if broker == self.number else broker for broker in one.replicas]
            admin = cluster.system.admin
            admin.reassign(one.topic, one.partition, replicas, patience_s(cluster))

    def _strays(self, cluster: Cluster, view: ClusterView) -> Iterator[tuple[PartitionView, int]]:
        """Each, and who is to have it instead."""
        stay = [broker.id for broker in cluster.system.brokers if broker.id in view.brokers]
        for (topic, number), one in sorted(view.partitions.items()):
            if self.number in one.replicas and f"{topic}-{number}" not in self.given:
                free = [broker for broker in stay if broker not in one.replicas]
                yield from ((one, to) for to in free[:1])

    def __str__(self) -> str:
        return f"add {self.name}"


def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
    try:
        process.wait(_ENDS_WITHIN_S)
    except TimeoutError:
        kill(process)
