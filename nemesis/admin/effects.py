"""Effects that are an administrator's orders to the cluster.

An order without an answer may have been carried out or not. Such an effect counts as done, and the
proof reads ZooKeeper. An undo reads ZooKeeper itself, and raises if it cannot see the result, so
that it is tried again.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.capabilities import AdminTimeout, Election, NoSuchTopic, OrderRefused
from ackproof.infra.api.interface import (
    ClusterView,
    PartitionView,
    Process,
    ProcessState,
    Server,
    ViewUnavailable,
)
from ackproof.nemesis.effects import EffectNotBegun, Terminate, kill
from ackproof.nemesis.interface import Cluster, PlacedPartition, Resource
from ackproof.nemesis.proofs import expiry_ms, shrink_ms

# --- orders on partitions, brokers and settings ---------------------------------------------------

LOG_DIRECTORIES = "log directories"
PARTITION = "partition"
TOPIC = "topic"
_POLL_S = 0.1
_COPIED_TIMES = 4
"""The factor by which the time for all replicas of a broker exceeds that for one order."""


def patience_s(cluster: Cluster) -> float:
    """Return how long (in seconds) an order is repeated, and its end is awaited. In this time dead
    brokers must have been noticed, a controller elected, and followers must have caught up."""
    system = cluster.system
    return (expiry_ms(system) + shrink_ms(system) + system.admin.answer_ms) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPartition:
    """An effect on one partition, by which no process ends."""

    topic: str
    number: int
    ends: ClassVar[None] = None
    part: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def resource(self) -> Resource:
        return Resource(PARTITION, (self.name,), self.part)

    def apply(self, cluster: Cluster) -> bool:
        raise NotImplementedError

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMove(OnPartition):
    """The reassignment of a partition to other replicas, undone by reassigning it to the former
    ones. It does not wait for the copying.

    Attributes:
        to, before: Brokers by name, the preferred one first.
    """

    to: tuple[str, ...]
    before: tuple[str, ...]
    part: ClassVar[str] = "replicas"

    def apply(self, cluster: Cluster) -> bool:
        with suppress(AdminTimeout):
            return self._reassign(cluster, self.to)
        return True

    def undo(self, cluster: Cluster) -> None:
        replicas = self._had(cluster)
        before = (None, tuple(_ids(cluster, replicas)))
        order = lambda: self._reassign(cluster, replicas)  # noqa: E731
        take_back(cluster, order, lambda: _replicas(cluster.system.view(), self) in before)

    def _had(self, cluster: Cluster) -> Sequence[str]:
        """Return the brokers that it is given back to. A broker added by another fault may have
        left since: that fault moves the partition, too."""
        there = {*cluster.members.brokers, *cluster.members.added}
        return [broker for broker in self.before if broker in there]

    def _reassign(self, cluster: Cluster, replicas: Sequence[str]) -> bool:
        """Reassign the partition. Return whether it exists."""
        try:
            cluster.system.admin.reassign(
                self.topic, self.number, _ids(cluster, replicas), patience_s(cluster)
            )
        except NoSuchTopic:
            return False
        return True

    def __str__(self) -> str:
        return f"move {self.name} from {', '.join(self.before)} to {', '.join(self.to)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderPreference(ReplicaMove):
    """A new order of the same replicas, and the election of the first one. Undone by the former
    order, and an election."""

    def apply(self, cluster: Cluster) -> bool:
        there = ReplicaMove.apply(self, cluster)
        with suppress(AdminTimeout):
            if there:
                self._elect(cluster, self.to)
        return there

    def undo(self, cluster: Cluster) -> None:
        ReplicaMove.undo(self, cluster)
        # The preferred broker may be down by another fault, and be elected when it is back.
        with suppress(OrderRefused, AdminTimeout):
            self._elect(cluster, self._had(cluster))

    def _elect(self, cluster: Cluster, replicas: Sequence[str]) -> None:
        ids = tuple(_ids(cluster, replicas))
        in_order = lambda view: _replicas(view, self) == ids  # noqa: E731
        # An election before the order is written would use the old one.
        if await_view(cluster, in_order):
            admin = cluster.system.admin
            admin.elect(Election.PREFERRED, self.topic, self.number, patience_s(cluster))

    def __str__(self) -> str:
        return f"elect {self.to[0]} for {self.name}, preferred of {', '.join(self.to)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectUncleanly(OnPartition):
    """The election of any online replica, if no member of the ISR is online. Nothing restores
    records that only the ISR had."""

    part: ClassVar[str] = "leader"

    def apply(self, cluster: Cluster) -> bool:
        admin = cluster.system.admin
        with suppress(AdminTimeout):
            return admin.elect(Election.UNCLEAN, self.topic, self.number, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"elect any replica for {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig:
    """One of a topic's own settings, undone by its former value ``before``, which is None if it had
    none of its own."""

    topic: str
    setting: str
    value: str
    before: str | None
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(TOPIC, (self.topic,), self.setting)

    def apply(self, cluster: Cluster) -> bool:
        if self.value == self.before:
            return False
        with suppress(AdminTimeout):
            self._set(cluster, self.value)
        return True

    def undo(self, cluster: Cluster) -> None:
        def so() -> bool:
            own = cluster.system.admin.topic_config(self.topic)
            return own.get(self.setting) == self.before

        take_back(cluster, lambda: self._set(cluster, self.before), so)

    def _set(self, cluster: Cluster, value: str | None) -> None:
        admin = cluster.system.admin
        admin.set_topic_config(self.topic, self.setting, value, patience_s(cluster))

    def __str__(self) -> str:
        return f"set {self.setting}={self.value} of {self.topic}, which had {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryMove(OnPartition):
    """The move of one broker's replica to another of its log directories (KIP-113). Nothing is
    undone: the replica stays where it is then.

    Attributes:
        broker: The broker's name.
        before, to: The paths of the directories.
    """

    broker: str
    before: str
    to: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number} on {self.broker}"

    @property
    def resource(self) -> Resource:
        return Resource(PARTITION, (f"{self.topic}-{self.number}",), f"directory on {self.broker}")

    def apply(self, cluster: Cluster) -> bool:
        admin, number = cluster.system.admin, cluster.server(self.broker).id
        with suppress(AdminTimeout):
            admin.move_log(number, self.topic, self.number, self.to, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"move {self.name} from {self.before} to {self.to}"


@dataclass(frozen=True, slots=True)
class DirectoryMoveLimit:
    """A limit on the bytes a second that a broker moves between its log directories."""

    broker: str
    bytes_per_s: int
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        # It belongs to no server: it keeps none from running or registering.
        return Resource(LOG_DIRECTORIES, (f"log directories of {self.broker}",))

    def apply(self, cluster: Cluster) -> bool:
        with suppress(AdminTimeout):
            self._limit(cluster, self.bytes_per_s)
        return True

    def undo(self, cluster: Cluster) -> None:
        """Lift the limit. Raise AdminTimeout without an answer: the move may then never end."""
        take_back(cluster, lambda: self._limit(cluster, None), lambda: False)

    def _limit(self, cluster: Cluster, bytes_per_s: int | None) -> None:
        admin, number = cluster.system.admin, cluster.server(self.broker).id
        admin.limit_log_moves(number, bytes_per_s, patience_s(cluster))

    def __str__(self) -> str:
        return f"limit moves within {self.broker} to {self.bytes_per_s} bytes/s"


@dataclass(frozen=True, slots=True)
class BrokerRetirement(Terminate):
    """A SIGTERM to a broker that has no replica any more, once that is so."""

    def apply(self, cluster: Cluster) -> bool:
        """Raise NotBegun, and leave the broker running, when its replicas are not gone in time. It
        would be a stopped broker, and not a removed one."""
        number = cluster.server(self.server).id
        # All replicas are copied at once, and none is complete before the whole copy is.
        copied_s = _COPIED_TIMES * patience_s(cluster)
        if not await_view(cluster, lambda view: not holds(view, number), at_least_s=copied_s):
            raise EffectNotBegun(f"{self.server} still has replicas")
        return Terminate.apply(self, cluster)

    def __str__(self) -> str:
        return f"terminate {self.server}, which has no replica"


def holds(view: ClusterView, broker: int) -> bool:
    """Return whether the broker has a replica of any partition."""
    return any(broker in one.replicas for one in view.partitions.values())


def _replicas(view: ClusterView, effect: OnPartition) -> tuple[int, ...] | None:
    found = view.partitions.get((effect.topic, effect.number))
    return None if found is None else found.replicas


def _ids(cluster: Cluster, brokers: Sequence[str]) -> list[int]:
    return [cluster.server(name).id for name in brokers]


def take_back(cluster: Cluster, order: Callable[[], object], so: Callable[[], bool]) -> None:
    """Give an order that restores a former state, and repeat it while it is refused: a broker that
    gets a replica back may be down by another fault. Raise OrderRefused, or NoAnswer if there was
    no answer and the state is not restored."""
    refused: list[OrderRefused] = []

    def carried_out() -> bool:
        refused.clear()
        try:
            order()
        except OrderRefused as why:
            refused.append(why)
        return not refused

    try:
        if not _await(cluster, carried_out):
            raise refused[0]
    except AdminTimeout:
        if not _await(cluster, so):
            raise


def await_view(
    cluster: Cluster, condition: Callable[[ClusterView], bool], at_least_s: float = 0.0
) -> bool:
    """Wait until ZooKeeper shows the condition, for as long as an order may take. Return whether it
    does."""
    return _await(cluster, lambda: condition(cluster.system.view()), at_least_s)


def _await(cluster: Cluster, condition: Callable[[], bool], at_least_s: float = 0.0) -> bool:
    end = time.monotonic() + max(patience_s(cluster), at_least_s)
    while True:
        with suppress(ViewUnavailable):
            if condition():
                return True
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_S)


def moved(one: PlacedPartition, to: Sequence[str]) -> ReplicaMove:
    """Return the move of a partition from its present replicas."""
    return ReplicaMove(topic=one.topic, number=one.number, to=tuple(to), before=one.replicas)


# --- brokers that join and leave ------------------------------------------------------------------

BROKER = "broker"
_UP_S = 60.0
"""The time (in seconds) that brokers may take when they are deployed."""
_ENDS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class BrokerJoin:
    """A further broker, started on a node of its own and registered when this returns.

    Undone when it has no replica any more: it is terminated, and its node is removed with
    everything on it. Partitions that another effect moved to it are moved back by that effect,
    which is undone before. Partitions that it got in another way, for example new ones from the
    controller, are moved away. No effect here ends its process: if it ends, it has ended by itself.

    Attributes:
        number: Its ``broker.id``, which no broker had before.
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
        """Start the broker. Raise InfraError if there is no node for it, TimeoutError when it does
        not register in time, and RuntimeError when it ends before."""
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
        """Remove the broker. Raise TimeoutError, and leave it as it is, if it may still have a
        replica: with a replica, acknowledged records could be removed."""
        broker = self._found(cluster)
        if broker is None:
            return
        self._give_away(cluster)
        if not await_view(cluster, lambda view: not holds(view, self.number)):
            raise TimeoutError(f"{self.name} was not observed without replicas")
        cluster.attendant.leaves(broker)
        with suppress(LookupError):  # it was never started
            _end(broker.process)
        cluster.attendant.left(broker)
        cluster.system.added.remove(self.number)

    def _found(self, cluster: Cluster) -> Server | None:
        there = cluster.system.added.there
        return next((broker for broker in there if broker.id == self.number), None)

    def _give_away(self, cluster: Cluster) -> None:
        """Move partitions that this plan did not give it to brokers that stay."""
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
        """Yield each such partition, and the broker that gets it instead."""
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


# --- orders on topics -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTopic:
    """An effect on a topic. Changes of a topic of our own are removed with it, by undoing the
    effect that created it. Changes of a topic of the workload stay."""

    topic: str
    ends: ClassVar[None] = None
    part: ClassVar[str]

    @property
    def resource(self) -> Resource:
        return Resource(TOPIC, (self.topic,), self.part)

    def apply(self, cluster: Cluster) -> bool:
        raise NotImplementedError

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation(OnTopic):
    """The creation of a topic, undone by deleting it. ``assignment`` has the brokers of each
    partition, by name, the preferred one first."""

    assignment: tuple[tuple[str, ...], ...]

    part: ClassVar[str] = "existence"

    def apply(self, cluster: Cluster) -> bool:
        ids = [[cluster.server(name).id for name in brokers] for brokers in self.assignment]
        with suppress(AdminTimeout):
            cluster.system.admin.create_topic(self.topic, ids, patience_s(cluster))
        return True

    def undo(self, cluster: Cluster) -> None:
        admin = cluster.system.admin
        order = lambda: admin.delete_topic(self.topic, patience_s(cluster))  # noqa: E731
        take_back(cluster, order, lambda: not _there(cluster, self.topic))

    def __str__(self) -> str:
        return f"create {self.topic} with {len(self.assignment)} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic(OnTopic):
    """The addition of partitions to a topic, up to ``partitions`` in all."""

    partitions: int

    part: ClassVar[str] = "partitions"

    def apply(self, cluster: Cluster) -> bool:
        with suppress(AdminTimeout):
            cluster.system.admin.grow_topic(self.topic, self.partitions, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"grow {self.topic} to {self.partitions} partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic(OnTopic):
    """The deletion of a topic, which has ``partitions``."""

    partitions: int

    part: ClassVar[str] = "deletion"

    def apply(self, cluster: Cluster) -> bool:
        """Delete the topic. Raise TimeoutError when it was never seen complete: its later absence
        would prove nothing."""
        _await_led(cluster, self.topic, self.partitions)
        with suppress(AdminTimeout):
            cluster.system.admin.delete_topic(self.topic, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete {self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDeletion(OnTopic):
    """Records written to each partition of a topic, and the deletion of those below an offset."""

    partitions: int
    records: int
    before: int

    part: ClassVar[str] = "records"

    def apply(self, cluster: Cluster) -> bool:
        """Write and delete records. Raise TimeoutError if a partition has no leader in time, and
        NoAnswer when the records were not acknowledged."""
        _await_led(cluster, self.topic, self.partitions)
        admin = cluster.system.admin
        for number in range(self.partitions):
            admin.append(self.topic, number, self.records, patience_s(cluster))
        for number in range(self.partitions):
            with suppress(AdminTimeout):
                admin.delete_records(self.topic, number, self.before, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete the records of {self.topic} below {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBelow(OnPartition):
    """The deletion of the records of a partition of the workload below an offset."""

    before: int

    part: ClassVar[str] = "log start"

    def apply(self, cluster: Cluster) -> bool:
        """Delete the records. Raise OrderRefused if the partition does not have so many in time."""
        admin = cluster.system.admin
        with suppress(AdminTimeout):
            admin.delete_records(self.topic, self.number, self.before, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"delete the records of {self.name} below {self.before}"


def led(view: ClusterView, topic: str) -> int:
    """Return how many of a topic's partitions have a leader."""
    return sum(one.topic == topic and one.leader >= 0 for one in view.partitions.values())


def _there(cluster: Cluster, topic: str) -> bool:
    return any(name == topic for name, _ in cluster.system.view().partitions)


def _await_led(cluster: Cluster, topic: str, partitions: int) -> None:
    if not await_view(cluster, lambda view: led(view, topic) >= partitions):
        raise TimeoutError(f"{topic} does not have a leader for all of its {partitions} partitions")
