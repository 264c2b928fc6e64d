"""Target expressions: who is to suffer, said by role.

An expression is parsed when the campaign is read and resolved at the moment of injection, because
roles move. Resolution reads the cluster's state from ZooKeeper; what it read goes into the history
with the servers it led to.

==============================  =================================================================
``leader(topic, partition)``    the broker that leads the partition
``follower(topic, partition)``  one in-sync follower of it
``isr(topic, partition)``       every in-sync replica
``controller``                  the broker that is the controller
``one``                         one broker
``minority``, ``majority``      that many brokers: the largest minority, the smallest majority
``all``                         every broker
``zookeeper``                   every ZooKeeper server
==============================  =================================================================

``partition`` may be ``any``. What the expression leaves open is drawn from the run's generator.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infra.interface import ClusterView, PartitionView, Server
from nemesis.interface import Cluster, Target

_EXPRESSION = re.compile(r"\s*([a-z-]+)\s*(?:\(\s*([A-Za-z0-9._-]+)\s*,\s*(any|\d+)\s*\))?\s*")


class TargetUnavailable(LookupError):
    """The expression names nobody at this moment (no leader, no controller, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetExpression:
    """A parsed expression. ``partition`` None: any; both None where the role takes no partition."""

    text: str
    role: str
    topic: str | None = None
    partition: int | None = None


def parse(text: str) -> TargetExpression:
    """Parse a target expression; ValueError says what would be right."""
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a target; known: {', '.join(known())}")
    role, topic, partition = match.groups()
    if role in _OF_PARTITION:
        if topic is None:
            raise ValueError(f"{role} needs a partition: {role}(topic, partition)")
        number = None if partition == "any" else int(partition)
        return TargetExpression(text=text, role=role, topic=topic, partition=number)
    if role not in _OF_CLUSTER:
        raise ValueError(f"{role!r} is not a target; known: {', '.join(known())}")
    if topic is not None:
        raise ValueError(f"{role} takes no partition")
    return TargetExpression(text=text, role=role)


def resolve(expression: TargetExpression, cluster: Cluster, rng: random.Random) -> Target:
    """The servers that ``expression`` names now.

    Raises:
        TargetUnavailable: It names nobody at this moment.
        ViewUnavailable: ZooKeeper does not answer.
    """
    view = cluster.system.view()
    if expression.role in _OF_PARTITION:
        partition = _partition(expression, view, rng)
        ids = _OF_PARTITION[expression.role](partition, rng)
        servers = _brokers(cluster, ids)
        facts: Mapping[str, object] = {
            "partition": f"{partition.topic}-{partition.partition}",
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
        }
    else:
        servers = _OF_CLUSTER[expression.role](cluster, view, rng)
        facts = {}
    if not servers:
        raise TargetUnavailable(f"{expression.text} names nobody at this moment")
    return Target(
        expression=expression.text,
        servers=tuple(servers),
        facts={
            **facts,
            "servers": [server.name for server in servers],
            "controller": view.controller,
            "sessions": {str(broker): hex(held) for broker, held in view.brokers.items()},
        },
    )


def _partition(
    expression: TargetExpression, view: ClusterView, rng: random.Random
) -> PartitionView:
    candidates = [
        partition
        for (topic, number), partition in sorted(view.partitions.items())
        if topic == expression.topic
        and expression.partition in (None, number)
        and partition.leader != -1
    ]
    if not candidates:
        raise TargetUnavailable(f"{expression.text}: no such partition has a leader")
    return rng.choice(candidates)


def _brokers(cluster: Cluster, ids: Sequence[int]) -> list[Server]:
    return [server for server in cluster.system.brokers if server.id in ids]


def _follower(partition: PartitionView, rng: random.Random) -> list[int]:
    followers = sorted(set(partition.isr) - {partition.leader})
    return [rng.choice(followers)] if followers else []


def _some(count: Callable[[int], int]) -> "ClusterRole":
    def choose(cluster: Cluster, _view: ClusterView, rng: random.Random) -> list[Server]:
        brokers = list(cluster.system.brokers)
        return sorted(rng.sample(brokers, count(len(brokers))), key=lambda server: server.id)

    return choose


def _controller(cluster: Cluster, view: ClusterView, _rng: random.Random) -> list[Server]:
    return [] if view.controller is None else _brokers(cluster, [view.controller])


def _zookeeper(cluster: Cluster, _view: ClusterView, _rng: random.Random) -> list[Server]:
    return list(cluster.system.zookeepers)


ClusterRole = Callable[[Cluster, ClusterView, random.Random], list[Server]]

_OF_PARTITION: dict[str, Callable[[PartitionView, random.Random], list[int]]] = {
    "leader": lambda partition, _rng: [partition.leader],
    "follower": _follower,
    "isr": lambda partition, _rng: list(partition.isr),
}

_OF_CLUSTER: dict[str, ClusterRole] = {
    "controller": _controller,
    "one": _some(lambda _brokers: 1),
    "minority": _some(lambda brokers: (brokers - 1) // 2),
    "majority": _some(lambda brokers: brokers // 2 + 1),
    "all": _some(lambda brokers: brokers),
    "zookeeper": _zookeeper,
}


def known() -> list[str]:
    """Every form an expression can take."""
    return [f"{role}(topic, partition)" for role in _OF_PARTITION] + list(_OF_CLUSTER)
