"""Grudges: sets of directed links to cut, as pure functions of names.

This is a grudge in Jepsen's sense. A link in it is dropped in that direction. A node that is in no
link of it hears every other node. No network is needed to say what a grudge is, or to test it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

from ackproof.nemesis.interface import Link, Members, Unplannable, majority

Grudge = frozenset[Link]
Direction = Literal["both", "in", "out"]
"""The packets of a group that are meant, as seen from the group: those that come in, those that go
out, or both."""


def apart(one: Iterable[str], other: Collection[str], direction: Direction = "both") -> Grudge:
    """Return the links that keep ``one`` and ``other`` apart: both ways, only into ``one``, or only
    out of it."""
    pairs = [(a, b) for a in one for b in other if a != b]
    out = {Link(a, b) for a, b in pairs} if direction in ("both", "out") else set()
    into = {Link(b, a) for a, b in pairs} if direction in ("both", "in") else set()
    return frozenset(out | into)


def halves(nodes: Sequence[str], fault: str = "halves") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a majority and the rest, in the order given.

    Raise Unplannable for fewer than three nodes, because their majority is all of them.
    """
    _at_least(3, nodes, fault)
    most = majority(len(nodes))
    return tuple(nodes[:most]), tuple(nodes[most:])


def majorities_ring(nodes: Sequence[str]) -> Grudge:
    """Return a grudge with which every node hears a majority and no two hear the same one.

    If one node hears another, the other hears it too. The nodes stand in a ring, in the order
    given, and each hears the nearest on both sides, as many as a majority takes.

    With three nodes the nearest two are all the others. There the ring is opened between its ends,
    so that one node hears both and each end hears one. Raise Unplannable for fewer than three.
    """
    _at_least(3, nodes, "majorities-ring")
    count = len(nodes)
    reach = -(-(majority(count) - 1) // 2)  # on each side, rounded up
    if 2 * reach + 1 >= count:
        return apart(nodes[:1], nodes[-1:])
    return frozenset().union(
        *(
            apart([one], [other])
            for (i, one), (j, other) in combinations(enumerate(nodes), 2)
            if min(j - i, count - (j - i)) > reach
        )
    )


def bridge(nodes: Sequence[str]) -> Grudge:
    """Return a grudge with which the first node hears all, and the others are two halves that do
    not hear each other.

    Raise Unplannable for fewer than three nodes.
    """
    _at_least(3, nodes, "bridge")
    others = nodes[1:]
    return apart(others[: len(others) // 2], others[len(others) // 2 :])


def heard(grudge: Grudge, nodes: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the nodes that each of ``nodes`` hears, itself included."""
    return {
        node: frozenset(other for other in nodes if Link(other, node) not in grudge)
        for node in nodes
    }


def open_pairs(grudge: Grudge, nodes: Sequence[str]) -> tuple[Link, ...]:
    """Return the pairs of ``nodes`` that hear each other, each once."""
    return tuple(
        Link(one, other)
        for one, other in combinations(nodes, 2)
        if not {Link(one, other), Link(other, one)} & grudge
    )


def without_zookeeper(grudge: Grudge, members: Members) -> tuple[str, ...]:
    """Return the brokers that have no open connection to any ZooKeeper server.

    One direction cut is enough to end a connection. A broker that keeps the metadata itself has
    itself, provided that it may lead: it must talk with a majority of the metadata servers.
    """

    def has(broker: str, keeper: str) -> bool:
        if broker == keeper:
            return _has_majority(grudge, keeper, members.quorum)
        return _open(grudge, broker, keeper)

    return tuple(
        broker
        for broker in members.brokers
        if not any(has(broker, keeper) for keeper in members.zookeepers)
    )


def keeps_quorum(grudge: Grudge, zookeepers: Collection[str]) -> bool:
    """Return whether some ZooKeeper server still talks with a majority of them all."""
    return any(_has_majority(grudge, one, zookeepers) for one in zookeepers)


def _has_majority(grudge: Grudge, one: str, zookeepers: Collection[str]) -> bool:
    heard = sum(one == other or _open(grudge, one, other) for other in zookeepers)
    return heard >= majority(len(zookeepers))


def _open(grudge: Grudge, one: str, other: str) -> bool:
    return not {Link(one, other), Link(other, one)} & grudge


def _at_least(count: int, nodes: Sequence[str], what: str) -> None:
    if len(nodes) < count:
        named = ", ".join(sorted(nodes)) or "none"
        raise Unplannable(f"{what} needs {count} nodes or more; the target names {named}")
