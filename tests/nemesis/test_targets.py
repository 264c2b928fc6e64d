import random

import pytest
from memory_cluster import Memory

from nemesis.targets import TargetUnavailable, parse, resolve


def names(memory: Memory, expression: str, seed: int = 0) -> list[str]:
    target = resolve(parse(expression), memory.cluster, random.Random(seed))
    return [server.name for server in target.servers]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("leader(orders, 0)", ["broker-1"]),
        ("leader(orders, 2)", ["broker-3"]),
        ("isr(orders, 1)", ["broker-1", "broker-2", "broker-3"]),
        ("controller", ["broker-1"]),
        ("zookeeper", ["zookeeper-1"]),
        ("all", ["broker-1", "broker-2", "broker-3"]),
    ],
)
def test_roles(memory: Memory, expression: str, expected: list[str]) -> None:
    assert names(memory, expression) == expected


def test_roles_are_resolved_anew_each_time(memory: Memory) -> None:
    memory.system.brokers[0].process.signal(9)
    assert names(memory, "leader(orders, 0)") == ["broker-2"]
    assert names(memory, "controller") == ["broker-2"]


def test_follower_is_in_sync_and_not_the_leader(memory: Memory) -> None:
    drawn = {tuple(names(memory, "follower(orders, 0)", seed)) for seed in range(20)}
    assert drawn == {("broker-2",), ("broker-3",)}


@pytest.mark.parametrize(("role", "count"), [("one", 1), ("minority", 1), ("majority", 2)])
def test_numbers_of_brokers(memory: Memory, role: str, count: int) -> None:
    assert len(names(memory, role)) == count


def test_the_same_seed_draws_the_same(memory: Memory) -> None:
    for seed in range(20):
        assert names(memory, "leader(orders, any)", seed) == names(
            memory, "leader(orders, any)", seed
        )
    assert len({tuple(names(memory, "leader(orders, any)", seed)) for seed in range(20)}) == 3


def test_a_target_says_why_it_is_the_target(memory: Memory) -> None:
    target = resolve(parse("leader(orders, 0)"), memory.cluster, random.Random(0))
    assert target.facts["partition"] == "orders-0"
    assert target.facts["isr"] == [1, 2, 3]
    assert target.facts["sessions"] == {"1": "0x1", "2": "0x2", "3": "0x3"}


@pytest.mark.parametrize("expression", ["leader(none, 0)", "leader(orders, 7)"])
def test_nobody_there(memory: Memory, expression: str) -> None:
    with pytest.raises(TargetUnavailable):
        names(memory, expression)


def test_nobody_leads(memory: Memory) -> None:
    for broker in memory.system.brokers:
        broker.process.signal(9)
    for expression in ("leader(orders, any)", "controller"):
        with pytest.raises(TargetUnavailable):
            names(memory, expression)


@pytest.mark.parametrize(
    "text", ["", "leader", "leader(orders)", "king", "controller(orders, 0)", "leader(orders, -1)"]
)
def test_bad_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"target|partition"):
        parse(text)
