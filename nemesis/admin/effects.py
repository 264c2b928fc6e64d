"""Effects that are an administrator's orders to the cluster.

What nobody answered may be carried out or not. An effect counts as done then, and the proof looks
in ZooKeeper; an undo looks there itself, and raises where it cannot see it, so that it is tried
again.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.admin import Election, NoAnswer, NoSuchTopic, OrderRefused
from ackproof.infra.api.interface import ClusterView, ViewUnavailable
from ackproof.nemesis.effects import NotBegun, Terminate
from ackproof.nemesis.interface import Cluster, Placed, Resource
from ackproof.nemesis.proofs.proving import expiry_ms, shrink_ms

PARTITION = "partition"
TOPIC = "topic"
_POLL_S = 0.1
_COPIED_TIMES = 4
"""So many times as long as one order may take all replicas of a broker may, which go elsewhere."""


def patience_s(cluster: Cluster) -> float:
    """How long an order is given again, and its end is waited for: whoever is dead must have been
    noticed, a controller elected, and followers must have caught up."""
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
class Move(OnPartition):
    """Reassign a partition to other replicas; undone by reassigning it to those that it had. The
    copying is not waited for.

    Attributes:
        to, before: Brokers by name, the preferred one first.
    """

    to: tuple[str, ...]
    before: tuple[str, ...]
    part: ClassVar[str] = "replicas"

    def apply(self, cluster: Cluster) -> bool:
        with suppress(NoAnswer):
            return self._reassign(cluster, self.to)
        return True

    def undo(self, cluster: Cluster) -> None:
        replicas = self._had(cluster)
        before = (None, tuple(_ids(cluster, replicas)))
        order = lambda: self._reassign(cluster, replicas)  # noqa: E731
        take_back(cluster, order, lambda: _replicas(cluster.system.view(), self) in before)

    def _had(self, cluster: Cluster) -> Sequence[str]:
        """Those that it is given back to. One that another fault had added may have left since:
        that fault moves the partition, too."""
        there = {*cluster.members.brokers, *cluster.members.added}
        return [broker for broker in self.before if broker in there]

    def _reassign(self, cluster: Cluster, replicas: Sequence[str]) -> bool:
        """Whether there was such a partition."""
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
class Prefer(Move):
    """The same replicas in another order, and the one that is first now is elected; undone by the
    order that it was, and an election."""

    def apply(self, cluster: Cluster) -> bool:
        there = Move.apply(self, cluster)
        with suppress(NoAnswer):
            if there:
                self._elect(cluster, self.to)
        return there

    def undo(self, cluster: Cluster) -> None:
        Move.undo(self, cluster)
        # Whoever was preferred may be down by another fault, and be elected when it is back.
        with suppress(OrderRefused, NoAnswer):
            self._elect(cluster, self._had(cluster))

    def _elect(self, cluster: Cluster, replicas: Sequence[str]) -> None:
        ids = tuple(_ids(cluster, replicas))
        in_order = lambda view: _replicas(view, self) == ids  # noqa: E731
        # Asked before the order is written, it would elect by the old one.
        if await_view(cluster, in_order):
            admin = cluster.system.admin
            admin.elect(Election.PREFERRED, self.topic, self.number, patience_s(cluster))

    def __str__(self) -> str:
        return f"elect {self.to[0]} for {self.name}, preferred of {', '.join(self.to)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectUncleanly(OnPartition):
    """Let any replica that is online lead the partition, if none of the ISR is. Nothing brings back
    what only the ISR had."""

    part: ClassVar[str] = "leader"

    def apply(self, cluster: Cluster) -> bool:
        admin = cluster.system.admin
        with suppress(NoAnswer):
            return admin.elect(Election.UNCLEAN, self.topic, self.number, patience_s(cluster))
        return True

    def __str__(self) -> str:
        return f"elect anybody for {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig:
    """One of a topic's own settings; undone by the value that it had, ``before``, None where it
    had none of its own."""

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
        with suppress(NoAnswer):
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


@dataclass(frozen=True, slots=True)
class Retire(Terminate):
    """SIGTERM to a broker that has no replica any more, once that is so."""

    def apply(self, cluster: Cluster) -> bool:
        """Raises NotBegun, and leaves it running, when its replicas are not gone in time: it would
        be a broker that is stopped, not one that was removed."""
        number = cluster.server(self.server).id
        # All of them are copied at once, and none is there before all of it is.
        copied_s = _COPIED_TIMES * patience_s(cluster)
        if not await_view(cluster, lambda view: not holds(view, number), at_least_s=copied_s):
            raise NotBegun(f"{self.server} still has replicas")
        return Terminate.apply(self, cluster)

    def __str__(self) -> str:
        return f"terminate {self.server}, which has no replica"


def holds(view: ClusterView, broker: int) -> bool:
    """Whether it has a replica of any partition."""
    return any(broker in one.replicas for one in view.partitions.values())


def _replicas(view: ClusterView, effect: OnPartition) -> tuple[int, ...] | None:
    found = view.partitions.get((effect.topic, effect.number))
    return None if found is None else found.replicas


def _ids(cluster: Cluster, brokers: Sequence[str]) -> list[int]:
    return [cluster.server(name).id for name in brokers]


def take_back(cluster: Cluster, order: Callable[[], object], so: Callable[[], bool]) -> None:
    """Give an order by which something is as it was, again and again while it is refused: a broker
    that is to have a replica back may be down by another fault. Raises OrderRefused; and NoAnswer
    where nobody answered and it has not come about."""
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
    except NoAnswer:
        if not _await(cluster, so):
            raise


def await_view(
    cluster: Cluster, condition: Callable[[ClusterView], bool], at_least_s: float = 0.0
) -> bool:
    """Wait until ZooKeeper shows it, for as long as an order may take; whether it does."""
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


def moved(one: Placed, to: Sequence[str]) -> Move:
    """The move of a partition from where it was found."""
    return Move(topic=one.topic, number=one.number, to=tuple(to), before=one.replicas)
