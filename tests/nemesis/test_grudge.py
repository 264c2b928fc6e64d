"""Grudges have the shape that their names promise, of any number of nodes in any order."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.nemesis.interface import Link, Members, Unplannable, majority
from ackproof.nemesis.network.grudge import (
    apart,
    bridge,
    halves,
    heard,
    keeps_quorum,
    majorities_ring,
    open_pairs,
    without_zookeeper,
)

NODES = st.lists(
    st.sampled_from([f"n{number}" for number in range(12)]), min_size=3, max_size=12, unique=True
)


@given(NODES)
def test_halves_are_disjoint_and_complete_and_one_is_a_majority(nodes: list[str]) -> None:
    most, rest = halves(nodes)
    assert sorted((*most, *rest)) == sorted(nodes)
    assert not set(most) & set(rest)
    assert rest
    assert len(most) == majority(len(nodes))
    for node, others in heard(apart(most, rest), nodes).items():
        assert others == set(most if node in most else rest)


@given(NODES)
def test_ring_everyone_hears_a_majority_and_no_two_the_same(nodes: list[str]) -> None:
    grudge = majorities_ring(nodes)
    views = heard(grudge, nodes)
    assert all(len(view) >= majority(len(nodes)) for view in views.values())
    assert len(set(views.values())) == len(nodes)
    assert grudge == {link.back for link in grudge}


@given(NODES)
def test_bridge_one_hears_all_and_the_others_only_their_half(nodes: list[str]) -> None:
    views = heard(bridge(nodes), nodes)
    first = nodes[0]
    assert views[first] == set(nodes)
    parts = {view - {first} for node, view in views.items() if node != first}
    assert len(parts) == 2
    one, other = parts
    assert one
    assert other
    assert not one & other
    assert one | other == set(nodes[1:])
    assert abs(len(one) - len(other)) <= 1


@given(NODES, st.data())
def test_one_direction_is_the_reverse_of_the_other(nodes: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(nodes) - 1))
    group, rest = nodes[:cut], nodes[cut:]
    into, out = apart(group, rest, "in"), apart(group, rest, "out")
    assert into == {link.back for link in out}
    assert not into & out
    assert apart(group, rest) == into | out
    views = heard(into, nodes)
    assert all(views[node] == set(group) for node in group) or len(group) == 0
    assert all(views[node] == set(nodes) for node in rest)


@given(NODES, st.data())
def test_open_pairs_are_those_that_no_link_of_the_grudge_touches(
    nodes: list[str], data: st.DataObject
) -> None:
    every = [Link(a, b) for a in nodes for b in nodes if a != b]
    grudge = frozenset(data.draw(st.sets(st.sampled_from(every))))
    views = heard(grudge, nodes)
    mutual = {(a, b) for a, b in combinations(nodes, 2) if a in views[b] and b in views[a]}
    assert {(link.source, link.target) for link in open_pairs(grudge, nodes)} == mutual


@pytest.mark.parametrize("shape", [halves, majorities_ring, bridge])
def test_too_few(shape) -> None:
    with pytest.raises(Unplannable, match="needs 3 nodes or more; the target names a, b"):
        shape(["a", "b"])


def test_broker_cut_off_from_every_zookeeper_is_listed() -> None:
    members = Members(brokers=("b1", "b2"), zookeepers=("z1", "z2"))
    grudge = {Link("b1", "z1"), Link("z2", "b1"), Link("b2", "z1")}
    assert without_zookeeper(frozenset(grudge), members) == ("b1",)


def test_quorum() -> None:
    three = ("z1", "z2", "z3")
    assert keeps_quorum(apart(["z1"], three), three)
    assert not keeps_quorum(apart(["z1"], three) | apart(["z2"], three), three)
    assert keeps_quorum(frozenset(), ("z1",))
