"""Upper limits of the servers that a target stands for, before there is a cluster to ask.

The numbers are upper limits, never too low, and a schedule keeps to its limits by them. Where a set
is taken away from another, the limit stays the same. The exception is one broker that is certain to
be in that other set.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.nemesis.interface import Members
from ackproof.nemesis.targets.expressions import (
    QUORUM,
    QUORUM_LEADER,
    ZK_LEADER,
    CombinedTargets,
    Expression,
    Set,
    TargetRole,
)
from ackproof.nemesis.targets.resolution import COUNTS


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
        if role.name in ("isr", "partition"):
            return Count(self.replicas.get(role.topic or "", self.all.brokers))
        if role.name in ("all", "topic"):
            return self.all.capped(Count(self.all.brokers))
        if role.name in ("zookeeper", QUORUM):
            return Count(0, self.all.zookeepers)
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
