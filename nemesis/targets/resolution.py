"""The resolution of target expressions: which nodes they stand for at this moment.

What an expression leaves open (``any``, ``one``, ...) is drawn from the fault's own seed. The seed
gives an order of everything that could be drawn, and the first one that fits is taken.

So the same seed names the same broker, whether or not another one happens to be out of sync. A draw
among those that fit would be a different draw each time.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ackproof.infra.api.capabilities import AdminTimeout, LogDirectory, OrderRefused
from ackproof.infra.api.interface import (
    ClusterView,
    InfraError,
    PartitionView,
    PodPlace,
    ViewUnavailable,
)
from ackproof.nemesis.interface import (
    BY_PARTITION,
    Aim,
    Cluster,
    Link,
    Members,
    PlacedPartition,
    Target,
    majority,
)
from ackproof.nemesis.targets.expressions import (
    QUORUM,
    QUORUM_LEADER,
    RACK,
    ZK_LEADER,
    CombinedTargets,
    Expression,
    Set,
    TargetRole,
)

# --- targets of a running cluster -----------------------------------------------------------------

T = TypeVar("T")

COUNTS: Mapping[str, Callable[[int], int]] = {
    "one": lambda count: min(1, count),
    "minority": lambda count: (count - 1) // 2,
    "majority": majority,
}


_ANSWERS_WITHIN_S = 2.0
"""The time in which a broker must describe its log directories, in seconds."""


class TargetUnavailable(LookupError):
    """The error of an expression that names nothing at this moment (no leader, no controller,
    ...)."""


def resolve(expression: Expression, cluster: Cluster, seed: int, aim: Aim = Aim.NODES) -> Target:
    """Return the target that ``expression`` stands for now, to a fault with this ``aim``.

    Raises:
        TargetUnavailable: It names nothing at this moment.
        ViewUnavailable: The metadata cannot be read, and it takes them to resolve the expression.
    """
    try:
        view: ClusterView | None = cluster.system.view()
    except ViewUnavailable:
        if expression.moving:
            raise
        view = None
    leader = cluster.system.zookeeper_leader() if expression.asks_zookeeper else None
    topics = {role.topic for role in expression.roles if role.topic} if aim is Aim.TOPICS else ()
    moment = _ClusterState(
        members=cluster.members,
        named=cluster.members.by_id,
        view=view,
        zookeeper_leader=None if leader is None else leader.name,
        seed=seed,
        pods=_pods(cluster) if aim in (Aim.KUBERNETES_NODES, Aim.PODS) else {},
        by_node=aim is Aim.KUBERNETES_NODES,
    )
    target = replace(
        _resolved(expression, moment, aim),
        configs={topic: cluster.system.admin.topic_config(topic) for topic in sorted(topics)},
    )
    if aim is not Aim.REPLICAS:
        return target
    return replace(target, directories=_directories(cluster, target.placed))


def _pods(cluster: Cluster) -> Mapping[str, PodPlace]:
    """Return the pod of each broker that has one on a node. Raise TargetUnavailable without an
    answer of Kubernetes."""
    found = {}
    for broker in cluster.system.brokers:
        pod = None if broker.distant is None else broker.distant.pod
        try:
            place = None if pod is None else pod.place()
        except InfraError as silence:
            raise TargetUnavailable(str(silence)) from silence
        if place is not None and place.node is not None:
            found[broker.name] = place
    if not found:
        raise TargetUnavailable("no broker is in a pod on a node of Kubernetes")
    return found


def _directories(
    cluster: Cluster, placed: Iterable[PlacedPartition]
) -> Mapping[str, Sequence[LogDirectory]]:
    found = {}
    for broker in sorted({name for one in placed for name in one.replicas}):
        with suppress(AdminTimeout, OrderRefused):
            number = cluster.server(broker).id
            found[broker] = cluster.system.admin.log_directories(number, _ANSWERS_WITHIN_S)
    return found


def resolve_planned(
    expression: Expression, members: Members, view: ClusterView, seed: int, aim: Aim
) -> Target:
    """Return the target as :func:`resolve` does, in a cluster that looks like ``view``.

    Raise TargetUnavailable where the expression names nothing.
    """
    moment = _ClusterState(members=members, named=members.by_id, view=view, seed=seed)
    return _resolved(expression, moment, aim)


def _resolved(expression: Expression, moment: "_ClusterState", aim: Aim) -> Target:
    if aim in BY_PARTITION:
        return _of_partitions(expression, moment)
    found = _of_nodes(expression, moment)
    return found if aim.affects_servers else replace(found, servers=(), clients=())


def _of_partitions(expression: Expression, moment: "_ClusterState") -> Target:
    placed = moment.placed(expression.nodes)
    if not placed:
        raise TargetUnavailable(f"{expression.text} matches no partition at this moment")
    return Target(
        expression=expression.text,
        nodes=(),
        partitions=tuple(map(str, placed)),
        placed=placed,
        facts=_facts(moment, ()),
    )


def _of_nodes(expression: Expression, moment: "_ClusterState") -> Target:
    one = moment.nodes(expression.nodes)
    other = moment.nodes(expression.to) if expression.to is not None else ()
    links = _links(one, other, both_ways=expression.both_ways)
    nodes = moment.with_neighbours(tuple(dict.fromkeys((*one, *other))))
    if not nodes or (expression.to is not None and not links):
        raise TargetUnavailable(f"{expression.text} names nothing at this moment")
    servers = tuple(name for name in nodes if name in moment.members.servers)
    ends = [{link.source, link.target} for link in links] or [{name} for name in servers]
    return Target(
        expression=expression.text,
        nodes=nodes,
        links=links,
        servers=servers,
        clients=() if links else tuple(name for name in nodes if name in moment.members.clients),
        partitions=None if moment.view is None else moment.affected_partitions(moment.view, ends),
        placed=moment.held_by(servers),
        pods={name: moment.pods[name] for name in servers if name in moment.pods},
        facts=_facts(moment, links),
    )


def _links(one: Iterable[str], other: Sequence[str], *, both_ways: bool) -> tuple[Link, ...]:
    there = [Link(a, b) for a in one for b in other if a != b]
    return tuple(dict.fromkeys([*there, *(link.back for link in there if both_ways)]))


def _facts(moment: "_ClusterState", links: Sequence[Link]) -> Mapping[str, object]:
    facts: dict[str, object] = {"links": list(map(str, links))} if links else {}
    if moment.pods:
        facts["pods"] = {name: {"node": p.node, "uid": p.uid} for name, p in moment.pods.items()}
    if moment.zookeeper_leader is not None:
        facts["zookeeper_leader"] = moment.zookeeper_leader
    if moment.view is None:
        return facts
    return facts | {
        "partitions": {
            f"{one.topic}-{one.partition}": {
                "leader": one.leader,
                "leader_epoch": one.leader_epoch,
                "isr": list(one.isr),
            }
            for one in moment.asked
        },
        "controller": moment.view.controller,
        "controller_epoch": moment.view.controller_epoch,
        "sessions": {str(broker): hex(held) for broker, held in moment.view.brokers.items()},
    }


@dataclass(slots=True, kw_only=True)
class _ClusterState:
    """The cluster at one moment, and what was drawn from it.

    Attributes:
        named: Names by ``broker.id``. They include brokers that a fault has added, which are never
            a target. With KRaft they include those of controllers by ``node.id``, too.
        asked: The partitions that the expression is about.
        pods: The pods of brokers, where these or their nodes are affected, else empty.
        by_node: Whether all brokers on the same nodes are affected, too.
    """

    members: Members
    seed: int
    named: Mapping[int, str] = field(default_factory=dict)
    view: ClusterView | None = None
    zookeeper_leader: str | None = None
    asked: list[PartitionView] = field(default_factory=list)
    pods: Mapping[str, PodPlace] = field(default_factory=dict)
    by_node: bool = False

    def with_neighbours(self, brokers: tuple[str, ...]) -> tuple[str, ...]:
        """Return brokers with all that are on the same nodes of Kubernetes, where these count.
        Raise TargetUnavailable for a broker that is on none."""
        if not self.pods:
            return brokers
        if nowhere := [name for name in brokers if name not in self.pods]:
            raise TargetUnavailable(f"{', '.join(nowhere)} is on no node of Kubernetes now")
        if not self.by_node:
            return brokers
        nodes = {self.pods[name].node for name in brokers}
        there = [name for name in self.members.brokers if name in self.pods]
        return tuple(name for name in there if self.pods[name].node in nodes)

    def nodes(self, part: Set) -> tuple[str, ...]:
        """Return the nodes of a set, in the order of the cluster's members."""
        found = self._named(part)
        everybody = (*self.members.servers, *self.members.clients)
        return tuple(name for name in everybody if name in found)

    def placed(self, part: Set) -> tuple[PlacedPartition, ...]:
        """Return the partitions that a set of ``partition`` and ``topic`` names, with or without a
        leader, in order."""
        found = self._partitions_of(part)
        self.asked = [one for one in self._all() if (one.topic, one.partition) in found]
        return tuple(map(self._placed, self.asked))

    def held_by(self, servers: Collection[str]) -> tuple[PlacedPartition, ...]:
        """Return the partitions of which any of ``servers`` has a replica."""
        placed = map(self._placed, self._all())
        return tuple(one for one in placed if not set(servers).isdisjoint(one.replicas))

    def _all(self) -> list[PartitionView]:
        views = self.view.partitions if self.view is not None else {}
        return [one for _, one in sorted(views.items())]

    def _placed(self, one: PartitionView) -> PlacedPartition:
        return PlacedPartition(
            topic=one.topic,
            number=one.partition,
            replicas=tuple(self._brokers(one.replicas)),
            leader=self.named.get(one.leader),
            leader_epoch=one.leader_epoch,
            isr=tuple(self._brokers(one.isr)),
            elr=tuple(self._brokers(one.elr)),
        )

    def _partitions_of(self, part: Set) -> set[tuple[str, int]]:
        if isinstance(part, CombinedTargets):
            left, right = self._partitions_of(part.left), self._partitions_of(part.right)
            return left | right if part.sign == "+" else left - right
        found = self._partitions(part.topic)
        if part.name == "partition" and part.partition is None:
            found = self._in_order(part.topic)[:1]
        elif part.name == "partition":
            found = [one for one in found if one.partition == part.partition]
        return {(one.topic, one.partition) for one in found}

    def _named(self, part: Set) -> set[str]:
        if isinstance(part, CombinedTargets):
            left, right = self._named(part.left), self._named(part.right)
            return left | right if part.sign == "+" else left - right
        return set(self._role(part))

    def _role(self, role: TargetRole) -> Sequence[str]:
        if role.name in _OF_PARTITION:
            return self._brokers(_OF_PARTITION[role.name](self, self._partition(role)))
        if role.name == "topic":
            return self._brokers(b for one in self._topic(role) for b in one.replicas)
        if role.name == RACK:
            return self._rack(role.rack)
        if role.name in COUNTS:
            return self._some(role)
        if role.name in _OF_CLUSTER:
            return _OF_CLUSTER[role.name](self)
        return [role.name]

    def _rack(self, rack: str | None) -> Sequence[str]:
        """Return the brokers of a rack, or of one that is drawn, the same in all of the
        expression."""
        racks = self.members.racks
        if rack is None:
            rack = next(iter(self.in_order(sorted(set(racks.values())), RACK)), None)
        return [broker for broker in self.members.brokers if racks.get(broker) == rack is not None]

    def _some(self, role: TargetRole) -> Sequence[str]:
        among = self.members.brokers if role.of is None else self.nodes(role.of)
        everybody = self.in_order((*self.members.servers, *self.members.clients), role.name)
        chosen = [name for name in everybody if name in among]
        return chosen[: COUNTS[role.name](len(among))]

    def in_order(self, things: Iterable[T], purpose: str) -> list[T]:
        """Return ``things`` in an order given by the seed, which other draws do not change."""
        listed = list(things)
        return random.Random(f"{self.seed}/{purpose}").sample(listed, len(listed))

    def _partitions(self, topic: str | None) -> list[PartitionView]:
        return [one for one in self._all() if one.topic == topic]

    def _topic(self, role: TargetRole) -> list[PartitionView]:
        found = self._partitions(role.topic)
        self.asked.extend(p for p in found if p not in self.asked)
        return found

    def _partition(self, role: TargetRole) -> PartitionView:
        assert role.topic is not None
        found = self._any(role) if role.partition is None else self._numbered(role)
        if found is None or found.leader == -1:
            number = "any" if role.partition is None else role.partition
            raise TargetUnavailable(f"{role.name}({role.topic}, {number}): it has no leader")
        if found not in self.asked:
            self.asked.append(found)
        return found

    def _numbered(self, role: TargetRole) -> PartitionView | None:
        of_number = (p for p in self._partitions(role.topic) if p.partition == role.partition)
        return next(of_number, None)

    def _any(self, role: TargetRole) -> PartitionView | None:
        # The topic alone gives the order, so that all ``any`` of one expression are the same
        # partition. Otherwise isr(t, any) - leader(t, any) would sometimes leave a leader in.
        in_order = self._in_order(role.topic)
        return next((one for one in in_order if one.leader != -1), None)

    def _in_order(self, topic: str | None) -> list[PartitionView]:
        return self.in_order(self._partitions(topic), f"any/{topic}")

    def _brokers(self, ids: Iterable[int]) -> list[str]:
        return [self.named[number] for number in ids if number in self.named]

    def affected_partitions(
        self, view: ClusterView, ends: Iterable[Collection[str]]
    ) -> tuple[str, ...]:
        """Return the partitions that are led, followed or coordinated at any of ``ends``.

        An end is a single server, or both ends of a link. A broker that is the controller
        coordinates all partitions, and so do the servers that keep the metadata. The exception is a
        link between such a server and a broker that is none. That link belongs to the broker.
        """
        brokers = {n: name for n, name in self.named.items() if name in self.members.brokers}
        ids = {broker for broker, name in brokers.items() if any(name in end for end in ends)}
        keepers = set(self.members.zookeepers)
        others = set(self.members.brokers) - keepers
        coordinated = view.controller in ids or any(
            set(end) & keepers and not set(end) & others for end in ends
        )
        return tuple(
            f"{topic}-{number}"
            for (topic, number), one in sorted(view.partitions.items())
            if coordinated or ids & {*one.replicas, *one.isr, one.leader}
        )

    def controller(self) -> Sequence[str]:
        assert self.view is not None
        return [] if self.view.controller is None else self._brokers([self.view.controller])

    def most_leaders(self) -> Sequence[str]:
        assert self.view is not None
        leaders = [p.leader for p in self.view.partitions.values() if p.leader != -1]
        ids = self.in_order(sorted(set(leaders)), "most-leaders")
        return self._brokers([max(ids, key=leaders.count)] if ids else [])


def _follower(moment: _ClusterState, partition: PartitionView) -> list[int]:
    order = moment.in_order(sorted(partition.replicas), "follower")
    return [b for b in order if b in partition.isr and b != partition.leader][:1]


def _in_sync_followers(moment: _ClusterState, partition: PartitionView) -> list[int]:
    """Return the in-sync followers in the order in which they would lead."""
    by_isr_order = moment.view is not None and moment.view.by_isr_order
    order = partition.isr if by_isr_order else partition.replicas
    return [b for b in order if b in partition.isr and b != partition.leader]


_OF_PARTITION: Mapping[str, Callable[[_ClusterState, PartitionView], Sequence[int]]] = {
    "leader": lambda _moment, partition: [partition.leader],
    "follower": _follower,
    "next-leader": lambda moment, partition: _in_sync_followers(moment, partition)[:1],
    "last-follower": lambda moment, partition: _in_sync_followers(moment, partition)[-1:],
    "isr": lambda _moment, partition: partition.isr,
    "partition": lambda _moment, partition: partition.replicas,
}

_OF_CLUSTER: Mapping[str, Callable[[_ClusterState], Sequence[str]]] = {
    "controller": _ClusterState.controller,
    "most-leaders": _ClusterState.most_leaders,
    "all": lambda moment: moment.members.brokers,
    "zookeeper": lambda moment: next(iter(moment.members.ensembles), ()),
    QUORUM: lambda moment: moment.members.quorum,
    QUORUM_LEADER: lambda moment: [moment.zookeeper_leader] if moment.zookeeper_leader else [],
    ZK_LEADER: lambda moment: [moment.zookeeper_leader] if moment.zookeeper_leader else [],
    "clients": lambda moment: moment.members.clients,
}


# --- targets of a planned cluster -----------------------------------------------------------------


def planned_view(members: Members, topics: Mapping[str, tuple[Iterable[int], int]]) -> ClusterView:
    """Return a cluster as it may be at first.

    Each partition lies on consecutive brokers, all in sync, and the first of them leads. ``topics``
    gives for each topic its partition numbers and its count of replicas.
    """
    brokers = [number for number, name in members.by_id.items() if name in members.brokers]
    keepers = [number for number, name in members.by_id.items() if name in members.zookeepers]
    return ClusterView(
        brokers=dict.fromkeys(brokers, 0),
        controller=next(iter(keepers), brokers[0]),
        controller_epoch=1,
        partitions={
            (topic, number): _planned(topic, number, replicas, brokers)
            for topic, (numbers, replicas) in topics.items()
            for number in numbers
        },
    )


def _planned(topic: str, number: int, replicas: int, brokers: Sequence[int]) -> PartitionView:
    first = number % len(brokers)
    there = tuple([*brokers[first:], *brokers[:first]][:replicas])
    return PartitionView(
        topic=topic,
        partition=number,
        leader=there[0],
        isr=there,
        replicas=there,
        leader_epoch=0,
        controller_epoch=1,
    )


# --- upper limits ---------------------------------------------------------------------------------
#
# Upper limits of the servers that a target stands for, before there is a cluster to ask.
#
# The numbers are upper limits, never too low, and a schedule keeps to its limits by them. Where a
# set is taken away from another, the limit stays the same. The exception is one broker that is
# certain to be in that other set.


@dataclass(frozen=True, slots=True, order=True)
class Count:
    """A number of brokers and of servers that keep the metadata, ZooKeeper's or controllers.

    A server that is both counts as both.
    """

    brokers: int = 0
    zookeepers: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.brokers + other.brokers, self.zookeepers + other.zookeepers)

    def within(self, other: "Count") -> bool:
        """Return whether neither number is larger than the other's."""
        return self.brokers <= other.brokers and self.zookeepers <= other.zookeepers

    def capped(self, other: "Count") -> "Count":
        """Return the smaller of each number."""
        return Count(min(self.brokers, other.brokers), min(self.zookeepers, other.zookeepers))


NO_SERVERS = Count()
UNLIMITED = Count(2**31, 2**31)
"""More servers than there ever are."""


def all_servers(members: Members) -> Count:
    """Return the count of all servers."""
    return Count(len(members.brokers), len(members.zookeepers))


def most(expression: Expression, members: Members, replicas: Mapping[str, int]) -> Count:
    """Return how many servers ``expression`` strikes at most in a cluster of ``members``.

    Args:
        expression: The target. For links, both ends count, which may be the same.
        members: The members of the cluster.
        replicas: How many replicas each topic has.
    """
    bound = _Bound(all_servers(members), replicas, members)
    ends = [part for part in (expression.nodes, expression.to) if part is not None]
    if expression.to == expression.nodes and _is_fixed(expression.nodes):
        ends.pop()
    return sum(map(bound.of, ends), NO_SERVERS).capped(bound.all)


@dataclass(frozen=True, slots=True)
class _Bound:
    all: Count
    replicas: Mapping[str, int]
    members: Members

    def of(self, part: Set) -> Count:
        if isinstance(part, TargetRole):
            return self._both(part.name, self._role(part)).capped(self.all)
        left, right = self.of(part.left), self.of(part.right)
        if part.sign == "+":
            return (left + right).capped(self.all)
        brokers = left.brokers - _certainly_less(part)
        return self._both("", Count(brokers, left.zookeepers))

    def _role(self, role: TargetRole) -> Count:
        if role.name in COUNTS:
            among = Count(self.all.brokers) if role.of is None else self.of(role.of)
            both = max if self.members.combined else sum
            some = COUNTS[role.name](both((among.brokers, among.zookeepers)))
            return among.capped(Count(some, some))
        if role.name == RACK:
            sizes = Counter(self.members.racks.values())
            return Count(sizes[role.rack] if role.rack else max(sizes.values(), default=0))
        if role.name in ("isr", "partition"):
            return Count(self.replicas.get(role.topic or "", self.all.brokers))
        if role.name in ("all", "topic"):
            return self.all.capped(Count(self.all.brokers))
        if role.name in ("zookeeper", QUORUM):
            ensembles = self.members.ensembles[:: -1 if role.name == QUORUM else 1]
            return Count(0, len(ensembles[0]) if ensembles else 0)
        if self._keeps_metadata(role.name):
            return Count(0, 1)
        if role.name == "clients" or role.name.startswith("client-"):
            return NO_SERVERS
        return Count(1)

    def _both(self, name: str, one: Count) -> Count:
        """Return the limit ``one`` of the role or broker of that name, for a combined cluster.

        There each server that keeps the metadata is a broker, and any broker may be one of them.
        """
        apart = set(self.members.brokers) - set(self.members.zookeepers)
        if not self.members.combined or name in apart:
            return one
        most = one.brokers or one.zookeepers
        return Count(most, most)

    def _keeps_metadata(self, name: str) -> bool:
        """Return whether the role or name is one server that keeps the metadata."""
        leads = name in (ZK_LEADER, QUORUM_LEADER) or (name == "controller" and self.members.kraft)
        return leads or name.startswith(("zookeeper-", "controller-"))


def _is_fixed(part: Set) -> bool:
    """Return whether a role names the same servers wherever it stands: those of a partition, by
    number."""
    return isinstance(part, TargetRole) and part.name == "partition" and part.partition is not None


def _certainly_less(taken: CombinedTargets) -> int:
    """Return 1 where one broker is taken away that is certain to be in the other set, else 0.

    The leader of a partition is in its ISR.
    """
    left, right = taken.left, taken.right
    if not isinstance(left, TargetRole) or not isinstance(right, TargetRole):
        return 0
    of_partition = right.name in ("leader", "follower", "next-leader", "last-follower")
    if left.name == "all":
        return int(of_partition or right.name.startswith("broker-"))
    same = (left.topic, left.partition) == (right.topic, right.partition)
    return int(of_partition and same and left.name in ("isr", "partition"))
