"""Bounds of targets: never less than the number of nodes that a target resolves to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.nemesis.interface import Members
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import Count, TargetUnavailable, most, resolve
from ackproof.testing.memory.cluster import memory_cluster

TERMS = (
    *("leader(orders, 0)", "leader(orders, any)", "follower(orders, 1)", "follower(orders, any)"),
    *("isr(orders, 0)", "isr(orders, any)", "partition(orders, 1)", "topic(orders)", "controller"),
    *(
        "most-leaders",
        "all",
        "zookeeper",
        "zk-leader",
        "quorum",
        "quorum-leader",
        "clients",
        "broker-1",
        "zookeeper-1",
    ),
    *("client-1", "one", "minority", "majority"),
)


def sets() -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(TERMS),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["one", "minority", "majority"]), inner).map(
                lambda t: f"{t[0]}({t[1]})"
            ),
        ),
        max_leaves=4,
    )


@given(
    target=st.one_of(sets(), st.tuples(sets(), sets()).map(" -> ".join)),
    brokers=st.integers(3, 6),
    zookeepers=st.integers(1, 5),
    replicas=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_bound_is_never_less_than_the_resolved_target(
    target: str, brokers: int, zookeepers: int, replicas: int, seed: int
) -> None:
    memory = memory_cluster(brokers, zookeepers)
    memory.system.replicas = {
        number: [(number + n) % brokers + 1 for n in range(replicas)] for number in range(3)
    }
    expression = parse(target)
    bound = most(expression, memory.cluster.members, {"orders": replicas})
    try:
        found = resolve(expression, memory.cluster, seed).servers
    except TargetUnavailable:
        return
    affected = Count(
        brokers=sum(server.startswith("broker") for server in found),
        zookeepers=sum(server.startswith("zookeeper") for server in found),
    )
    assert affected.within(bound), (found, bound)
    assert bound.within(Count(brokers, zookeepers))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("leader(orders, any)", Count(1, 0)),
        ("isr(orders, 0)", Count(3, 0)),
        ("isr(orders, any) - leader(orders, any)", Count(2, 0)),
        ("isr(orders, 0) - leader(orders, 1)", Count(3, 0)),
        ("partition(orders, 0) <-> partition(orders, 0)", Count(3, 0)),
        ("partition(orders, any) <-> partition(orders, any)", Count(5, 0)),
        ("all - broker-2", Count(4, 0)),
        ("all - controller", Count(5, 0)),
        ("one(all - controller)", Count(1, 0)),
        ("minority", Count(2, 0)),
        ("majority(isr(orders, 0))", Count(2, 0)),
        ("zookeeper", Count(0, 3)),
        ("minority(zookeeper)", Count(0, 1)),
        ("majority(quorum)", Count(0, 2)),
        ("quorum-leader + controller", Count(1, 1)),
        ("leader(orders, 0) <-> zookeeper", Count(1, 3)),
        ("leader(orders, 0) -> isr(orders, 0) - leader(orders, 0)", Count(3, 0)),
        ("clients -> broker-1", Count(1, 0)),
    ],
)
def test_as_near_as_can_be_said(target: str, expected: Count) -> None:
    members = memory_cluster(brokers=5, zookeepers=3).cluster.members
    assert most(parse(target), members, {"orders": 3}) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [("rack(a)", 3), ("rack(b)", 2), ("rack(any)", 3), ("all - rack(a)", 5), ("rack(c)", 0)],
)
def test_rack_has_as_many_brokers_as_are_in_it(target: str, expected: int) -> None:
    brokers = [f"broker-{n}" for n in range(1, 6)]
    racks = dict(zip(brokers, "ababa", strict=True))
    members = Members(brokers=tuple(brokers), zookeepers=("zookeeper-1",), racks=racks)
    assert most(parse(target), members, {}) == Count(expected, 0)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("quorum", Count(0, 3)),
        ("controller", Count(0, 1)),
        ("controller-2 + leader(orders, 0)", Count(1, 1)),
        ("all + minority(quorum)", Count(5, 1)),
    ],
)
def test_with_kraft_the_controller_is_no_broker(target: str, expected: Count) -> None:
    members = Members(
        brokers=tuple(f"broker-{n}" for n in range(1, 6)),
        zookeepers=tuple(f"controller-{n}" for n in range(1, 4)),
    )
    assert most(parse(target), members, {"orders": 3}) == expected
