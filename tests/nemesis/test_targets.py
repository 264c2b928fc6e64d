from dataclasses import replace

import pytest

from ackproof.infra.api.interface import ProcessState, ViewUnavailable
from ackproof.nemesis.interface import Aim, Members
from ackproof.nemesis.targets.expressions import on_topic, parse, problems
from ackproof.nemesis.targets.resolution import (
    TargetUnavailable,
    planned_view,
    resolve,
    resolve_planned,
)
from ackproof.testing.memory.cluster import Memory, memory_cluster

MEMBERS = Members(
    brokers=("broker-1", "broker-2", "broker-3"),
    zookeepers=("zookeeper-1",),
    clients=("client-1",),
)


def names(memory: Memory, expression: str, seed: int = 0) -> list[str]:
    return list(resolve(parse(expression), memory.cluster, seed).nodes)


def links(memory: Memory, expression: str) -> list[str]:
    return list(map(str, resolve(parse(expression), memory.cluster, 0).links))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("leader(orders, 0)", ["broker-1"]),
        ("leader(orders, 2)", ["broker-3"]),
        ("isr(orders, 1)", ["broker-1", "broker-2", "broker-3"]),
        ("partition(orders, 1)", ["broker-1", "broker-2", "broker-3"]),
        ("topic(orders)", ["broker-1", "broker-2", "broker-3"]),
        ("controller", ["broker-1"]),
        ("zookeeper", ["zookeeper-1"]),
        ("zk-leader", ["zookeeper-1"]),
        ("quorum", ["zookeeper-1"]),
        ("quorum-leader", ["zookeeper-1"]),
        ("all", ["broker-1", "broker-2", "broker-3"]),
        ("broker-2", ["broker-2"]),
        ("clients", ["client-1"]),
        ("isr(orders, 0) - leader(orders, 0)", ["broker-2", "broker-3"]),
        ("leader(orders, 1) + controller", ["broker-1", "broker-2"]),
        ("all - broker-1 - broker-2", ["broker-3"]),
        ("all - (broker-1 + broker-2)", ["broker-3"]),
        ("all - broker-1 + broker-1", ["broker-1", "broker-2", "broker-3"]),
        ("one(all - broker-1 - broker-3)", ["broker-2"]),
        ("majority(all)-> zookeeper", None),
    ],
)
def test_sets(memory: Memory, expression: str, expected: list[str] | None) -> None:
    if expected is not None:
        assert names(memory, expression) == expected
    else:
        assert len(links(memory, expression)) == 2


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("leader(orders, 0) -> zookeeper", ["broker-1->zookeeper-1"]),
        ("zookeeper->broker-2", ["zookeeper-1->broker-2"]),
        ("broker-1 <-> clients", ["broker-1->client-1", "client-1->broker-1"]),
        ("broker-1 -> all", ["broker-1->broker-2", "broker-1->broker-3"]),
        ("broker-1 + broker-2 -> broker-3", ["broker-1->broker-3", "broker-2->broker-3"]),
    ],
)
def test_links(memory: Memory, expression: str, expected: list[str]) -> None:
    assert links(memory, expression) == expected


@pytest.mark.parametrize(
    ("expression", "aim", "text"),
    [
        ("leader(orders, 0)", Aim.NODES, "broker-1"),
        ("broker-1 + clients", Aim.NODES, "broker-1, client-1"),
        ("broker-1 <-> clients", Aim.LINKS, "broker-1->client-1, client-1->broker-1"),
        ("partition(orders, 1)", Aim.PARTITIONS, "orders-1"),
        ("all", Aim.PLACES, "broker-1, broker-2, broker-3"),
        (
            "all <-> broker-1 + zookeeper",
            Aim.LINKS,
            "broker-1->zookeeper-1, broker-2->zookeeper-1, broker-2->broker-1, "
            "broker-3->zookeeper-1 and 6 more",
        ),
    ],
)
def test_text_of_target_names_affected_servers_or_links(
    memory: Memory, expression: str, aim: Aim, text: str
) -> None:
    assert str(resolve(parse(expression), memory.cluster, 0, aim)) == text


def test_roles_are_resolved_again_for_each_fault(memory: Memory) -> None:
    memory.system.brokers[0].process.signal(9)
    assert names(memory, "leader(orders, 0)") == ["broker-2"]
    assert names(memory, "controller") == ["broker-2"]


def test_most_leaders(memory: Memory) -> None:
    memory.system.brokers[1].process.signal(9)
    assert names(memory, "most-leaders") == ["broker-3"]


def test_follower_is_in_sync_and_not_the_leader(memory: Memory) -> None:
    drawn = {tuple(names(memory, "follower(orders, 0)", seed)) for seed in range(20)}
    assert drawn == {("broker-2",), ("broker-3",)}


def test_in_sync_followers_lead_in_the_order_in_which_they_are_assigned(
    memory: Memory,
) -> None:
    assert names(memory, "next-leader(orders, 0)") == ["broker-2"]
    assert names(memory, "next-leader(orders, 1)") == ["broker-3"]
    others = "isr(orders, 1) - leader(orders, 1) - next-leader(orders, 1)"
    assert names(memory, others) == names(memory, "last-follower(orders, 1)") == ["broker-1"]
    memory.system.brokers[2].process.signal(9)
    assert names(memory, "next-leader(orders, 1)") == ["broker-1"]


@pytest.mark.parametrize(
    ("by_isr_order", "next_leader", "last_follower"),
    [(False, "broker-2", "broker-3"), (True, "broker-3", "broker-2")],
)
def test_in_sync_followers_lead_in_the_order_of_the_isr_before_0_8_2(
    memory: Memory, by_isr_order: bool, next_leader: str, last_follower: str
) -> None:
    view = memory.system.view()
    key = "orders", 0
    partition = replace(view.partitions[key], leader=1, replicas=(1, 2, 3), isr=(1, 3, 2))
    shuffled = replace(view, partitions={key: partition}, by_isr_order=by_isr_order)

    def name(text: str) -> tuple[str, ...]:
        expression = parse(text)
        found = resolve_planned(expression, memory.cluster.members, shuffled, 1, Aim.NODES)
        return found.nodes

    assert name("next-leader(orders, 0)") == (next_leader,)
    assert name("last-follower(orders, 0)") == (last_follower,)


@pytest.mark.parametrize(("role", "count"), [("one", 1), ("minority", 1), ("majority", 2)])
def test_numbers_of_brokers(memory: Memory, role: str, count: int) -> None:
    assert len(names(memory, role)) == count
    assert len({tuple(names(memory, role, seed)) for seed in range(20)}) == 3


def test_any_is_one_partition_within_an_expression(memory: Memory) -> None:
    memory.system.replicas = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
    drawn = {
        tuple(names(memory, "isr(orders, any) - leader(orders, any)", seed)) for seed in range(20)
    }
    assert drawn == {("broker-1",), ("broker-2",), ("broker-3",)}


def test_same_seed_draws_the_same_target(memory: Memory) -> None:
    for seed in range(20):
        assert names(memory, "leader(orders, any)", seed) == names(
            memory, "leader(orders, any)", seed
        )
    assert len({tuple(names(memory, "leader(orders, any)", seed)) for seed in range(20)}) == 3


def test_draw_does_not_depend_on_other_candidates(memory: Memory) -> None:
    whole = {seed: names(memory, "follower(orders, 0)", seed) for seed in range(20)}
    memory.system.brokers[1].process.signal(9)
    for seed, drawn in whole.items():
        if drawn == ["broker-3"]:
            assert names(memory, "follower(orders, 0)", seed) == drawn


def test_a_target_says_why_it_is_the_target(memory: Memory) -> None:
    target = resolve(parse("leader(orders, 0) -> zookeeper"), memory.cluster, 0)
    of_partition = {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
    assert target.facts["partitions"] == {"orders-0": of_partition}
    assert target.facts["sessions"] == {"1": "0x1", "2": "0x2", "3": "0x3"}
    assert target.facts["links"] == ["broker-1->zookeeper-1"]
    assert (target.facts["controller"], target.facts["controller_epoch"]) == (1, 1)


def test_two_partitions_of_one_topic_are_both_recorded(memory: Memory) -> None:
    target = resolve(parse("leader(orders, 0) + leader(orders, 1)"), memory.cluster, 0)
    assert target.facts["partitions"].keys() == {"orders-0", "orders-1"}  # type: ignore[attr-defined]


class TestBefallen:
    """Partition 0 is on brokers 1 (the controller) and 2, the others on 2 and 3."""

    EVERY = ("orders-0", "orders-1", "orders-2")

    def affected(self, expression: str) -> tuple[str, ...] | None:
        memory = memory_cluster()
        memory.system.replicas = {0: [1, 2], 1: [2, 3], 2: [3, 2]}
        return resolve(parse(expression), memory.cluster, 0).partitions

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("broker-2", EVERY),
            ("broker-3", ("orders-1", "orders-2")),
            ("controller", EVERY),
            ("zookeeper", EVERY),
            ("broker-3 -> zookeeper", ("orders-1", "orders-2")),
            ("broker-3 <-> clients", ("orders-1", "orders-2")),
            ("controller -> zookeeper", EVERY),
        ],
    )
    def test_target_affects_the_partitions_of_its_nodes(
        self, expression: str, expected: tuple[str, ...]
    ) -> None:
        assert self.affected(expression) == expected


def test_without_zookeeper_names_are_names_and_roles_are_not_there(memory: Memory) -> None:
    memory.system.zookeepers[0].process.current = ProcessState.STOPPED
    target = resolve(parse("broker-2 + one"), memory.cluster, 0)
    assert "broker-2" in target.servers
    assert target.partitions is None
    with pytest.raises(ViewUnavailable):
        resolve(parse("leader(orders, 0)"), memory.cluster, 0)


@pytest.mark.parametrize(
    "expression",
    ["leader(none, 0)", "leader(orders, 7)", "topic(none)", "all - all", "all -> all - all"],
)
def test_target_without_a_node_is_unavailable(memory: Memory, expression: str) -> None:
    with pytest.raises(TargetUnavailable):
        names(memory, expression)


def test_role_without_a_leader_is_unavailable(memory: Memory) -> None:
    for broker in memory.system.brokers:
        broker.process.signal(9)
    for expression in ("leader(orders, any)", "controller", "most-leaders"):
        with pytest.raises(TargetUnavailable):
            names(memory, expression)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a role or a name is missing"),
        ("leader", r"leader needs a partition: leader\(topic, partition\)"),
        ("leader(orders)", "leader needs a partition"),
        ("topic", r"topic needs a topic: topic\(topic\)"),
        ("king", "'king' is not a target; known: leader"),
        ("controller(orders, 0)", "controller takes no partition"),
        ("leader(orders, -1)", "a minus needs spaces around it"),
        ("leader(orders, first)", "a number or any"),
        ("all -broker-1", "a minus needs spaces around it"),
        ("all => zookeeper", "'=>'; links are written A -> B, or A <-> B for both directions"),
        ("all --> zookeeper", "'-->'; links are written A -> B"),
        ("all <=> zookeeper", "'<=>'; links are written A -> B"),
        ("all <- zookeeper", "'<-'; links are written A -> B"),
        ("all > zookeeper", "'>'; links are written A -> B"),
        ("all \u2192 zookeeper", "links are written A -> B"),
        ("all-broker-1", "'all-broker-1' is not a target"),
        ("folower(orders, 0)", "'folower' is not a target; did you mean follower?"),
        ("all + ", "a role or a name is missing"),
        ("(all", r"'\)' is missing"),
        ("all all", "'all' is unexpected"),
        ("all -> all -> all", "'->' is unexpected"),
    ],
)
def test_bad_expressions_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    ("text", "aim", "reason"),
    [
        ("broker-4", Aim.SERVERS, "there is no broker-4; there are broker-1, broker-2"),
        ("zookeeper-2", Aim.SERVERS, "there is no zookeeper-2"),
        ("all -> zookeeper", Aim.SERVERS, "targets servers, not links"),
        ("all", Aim.LINKS, "targets links, like"),
        ("clients", Aim.SERVERS, "clients is not one"),
        ("all + client-1", Aim.SERVERS, "client-1 is not one"),
        ("one(isr(none, 0))", Aim.SERVERS, "no cell has the topic 'none'; there is orders"),
        ("isr(order, 0)", Aim.SERVERS, "'order'; did you mean orders? There is orders"),
        ("all -> leader(orders, 3)", Aim.LINKS, "orders has the partitions 0 to 2"),
        ("leader(orders, 0)", Aim.PARTITIONS, "targets partitions, and leader is not one"),
        ("partition(orders, 3)", Aim.PARTITIONS, "orders has the partitions 0 to 2"),
        ("topic(orders) - all", Aim.PARTITIONS, "all is not one"),
        ("partition(orders, 0)", Aim.TOPICS, "targets topics, and partition is not one"),
        ("topic(orders) -> all", Aim.TOPICS, "targets topics, not links"),
        ("zookeeper", Aim.PLACES, "targets places for topics, and zookeeper is not one"),
    ],
)
def test_invalid_campaign_target_is_a_problem(text: str, aim: Aim, reason: str) -> None:
    found = problems(parse(text), aim, MEMBERS, {"orders": 3})
    assert any(reason in one for one in found)


@pytest.mark.parametrize("text", ["all + clients", "clients -> leader(orders, 2)"])
def test_clients_are_nodes(text: str) -> None:
    aim = Aim.LINKS if "->" in text else Aim.NODES
    assert not list(problems(parse(text), aim, MEMBERS, {"orders": 3}))


ZONES = replace(MEMBERS, racks={"broker-1": "a", "broker-2": "b", "broker-3": "a"})
ZONES_VIEW = planned_view(ZONES, {"orders": (range(3), 3)})


def in_zones(expression: str, seed: int = 0, aim: Aim = Aim.SERVERS) -> list[str]:
    return list(resolve_planned(parse(expression), ZONES, ZONES_VIEW, seed, aim).nodes)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rack(a)", ["broker-1", "broker-3"]),
        ("all - rack(a)", ["broker-2"]),
        ("one(rack(b))", ["broker-2"]),
    ],
)
def test_rack_names_all_its_brokers(expression: str, expected: list[str]) -> None:
    assert not list(problems(parse(expression), Aim.BROKERS, ZONES, {}))
    assert in_zones(expression) == expected


def test_any_rack_is_drawn_once_for_the_whole_expression() -> None:
    drawn = {tuple(in_zones("rack(any)", seed)) for seed in range(20)}
    assert drawn == {("broker-1", "broker-3"), ("broker-2",)}
    for seed in range(20):
        assert in_zones("rack(any) + (all - rack(any))", seed) == list(ZONES.brokers)
        cut = resolve_planned(
            parse("rack(any) -> all - rack(any)"), ZONES, ZONES_VIEW, seed, Aim.LINKS
        )
        assert {link.source for link in cut.links}.isdisjoint(link.target for link in cut.links)


@pytest.mark.parametrize(
    ("expression", "members", "reason"),
    [
        ("rack(a)", MEMBERS, "no racks are known: set cluster.racks"),
        ("rack(c)", ZONES, "there is no rack 'c'"),
    ],
)
def test_unknown_rack_is_a_problem(expression: str, members: Members, reason: str) -> None:
    found = list(problems(parse(expression), Aim.SERVERS, members, {}))
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("expression", ["rack", "rack()", "rack(a, 0)"])
def test_rack_takes_one_name(expression: str) -> None:
    with pytest.raises(ValueError, match="rack"):
        parse(expression)


def test_topic_of_a_cell_does_not_replace_any_rack() -> None:
    target = "rack(any) + leader( any, 0) + topic(any)"
    assert on_topic(target, "orders") == "rack(any) + leader(orders, 0) + topic(orders)"


KRAFT = Members(
    brokers=("broker-1", "broker-2", "broker-3"),
    zookeepers=("controller-1", "controller-2", "controller-3"),
    clients=("client-1",),
)
KRAFT_VIEW = planned_view(KRAFT, {"orders": (range(3), 3)})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("controller", ["controller-1"]),
        ("quorum", ["controller-1", "controller-2", "controller-3"]),
        ("quorum - controller", ["controller-2", "controller-3"]),
        ("controller + leader(orders, 0)", ["controller-1", "broker-1"]),
        ("controller-2", ["controller-2"]),
    ],
)
def test_with_kraft_the_controller_is_a_server_of_its_own(
    expression: str, expected: list[str]
) -> None:
    target = parse(expression)
    assert list(problems(target, Aim.SERVERS, KRAFT, {"orders": 3})) == []
    assert list(resolve_planned(target, KRAFT, KRAFT_VIEW, 0, Aim.SERVERS).nodes) == expected


@pytest.mark.parametrize(
    ("expression", "affected"),
    [
        ("controller", 4),
        ("controller-2", 4),
        ("controller <-> controller-2", 4),
        ("controller -> broker-1", 3),
        ("broker-1", 3),
    ],
)
def test_with_kraft_all_partitions_are_the_controllers(expression: str, affected: int) -> None:
    # Two replicas each: broker-1 has none of orders-1.
    view = planned_view(KRAFT, {"orders": (range(4), 2)})
    resolved = resolve_planned(parse(expression), KRAFT, view, 0, Aim.NODES)
    assert resolved.partitions is not None
    assert len(resolved.partitions) == affected


@pytest.mark.parametrize(
    ("text", "aim", "members", "reason"),
    [
        ("zookeeper", Aim.SERVERS, KRAFT, "with KRaft there is no ZooKeeper; quorum"),
        ("one(zookeeper)", Aim.SERVERS, KRAFT, "with KRaft there is no ZooKeeper; quorum"),
        ("all -> zk-leader", Aim.LINKS, KRAFT, "there is no ZooKeeper; quorum-leader"),
        ("zookeeper-1", Aim.SERVERS, KRAFT, "no zookeeper-1; there are broker-1, "),
        ("controller", Aim.BROKERS, KRAFT, "targets brokers, and controller is not one"),
        ("quorum", Aim.BROKERS, KRAFT, "targets brokers, and quorum is not one"),
        ("quorum-leader", Aim.BROKERS, MEMBERS, "targets brokers, and quorum-leader is not one"),
        ("controller-1", Aim.SERVERS, MEMBERS, "no controller-1; there are broker-1, zookeeper-1"),
    ],
)
def test_target_without_a_node_is_a_problem(
    text: str, aim: Aim, members: Members, reason: str
) -> None:
    (found,) = problems(parse(text), aim, members, {"orders": 3})
    assert reason in found
