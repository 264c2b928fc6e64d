"""Leader election rules, and the assignment of replicas."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.controller.assignment import (
    InvalidReplicationFactor,
    alternating,
    assign_more,
    assign_replicas,
)
from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.plan import Choice, choose, first_leader
from ackproof.broker.server.admin import java_hash
from ackproof.broker.types import NO_LEADER, ControllerEpoch, LeaderEpoch, ZkVersion


def state(leader, *isr):
    return PartitionState(
        leader=leader,
        leader_epoch=LeaderEpoch(5),
        isr=isr,
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(9),
    )


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        (state(1, 1, 2, 3), {"online": {1, 2, 3}}, Choice(1, (1, 2, 3))),
        (state(1, 1, 2, 3), {"online": {1, 2}}, Choice(1, (1, 2))),
        (state(1, 1, 3, 2), {"online": {2, 3}}, Choice(2, (3, 2))),
        (state(1, 1, 3), {"online": {2, 3}}, Choice(3, (3,))),
        (state(1, 1), {"online": {2, 3}}, Choice(NO_LEADER, (1,))),
        (state(1, 1, 2), {"online": {3}}, Choice(NO_LEADER, (1, 2))),
        (state(NO_LEADER, 1, 2), {"online": {2, 3}}, Choice(2, (2,))),
        (state(1, 1), {"online": {2, 3}, "unclean": True}, Choice(2, (2,))),
        (state(1, 1, 3), {"online": {2, 3}, "unclean": True}, Choice(3, (3,))),
        (state(1, 1), {"online": set(), "unclean": True}, Choice(NO_LEADER, (1,))),
        (state(2, 1, 2), {"online": {1, 2, 3}, "preferred": True}, Choice(1, (1, 2))),
        (state(2, 2, 3), {"online": {1, 2, 3}, "preferred": True}, Choice(2, (2, 3))),
        (state(1, 1, 2), {"online": {2, 3}, "stopping": {1}}, Choice(2, (2,))),
        (state(2, 1, 2), {"online": {2, 3}, "stopping": {1}}, Choice(2, (2,))),
        (state(1, 1), {"online": {2, 3}, "stopping": {1}}, Choice(1, (1,))),
        (state(1, 1), {"online": {2}, "stopping": {1}, "unclean": True}, Choice(1, (1,))),
        (state(2, 2), {"online": {3}, "stopping": {1}}, Choice(NO_LEADER, (2,))),
    ],
)
def test_choice(before, options, after):
    assert choose(before, (1, 2, 3), **options) == after


def test_only_candidates_remain_at_the_end_of_a_reassignment():
    before = state(1, 1, 2, 4, 5)
    assert choose(before, (4, 5), online={1, 2, 4, 5}) == Choice(4, (4, 5))


def test_first_leader_is_the_first_that_lives():
    assert first_leader((3, 1, 2), {1, 2}) == Choice(1, (1, 2))
    assert first_leader((3,), {1, 2}) is None


subsets = st.sets(st.integers(1, 5))


@given(
    replicas=st.permutations(range(1, 6)),
    isr=subsets.filter(bool),
    leader=st.integers(1, 5) | st.just(-1),
    online=subsets,
    stopping=subsets,
    unclean=st.booleans(),
    preferred=st.booleans(),
)
def test_a_leader_is_always_in_the_isr_and_live(
    replicas, isr, leader, online, stopping, unclean, preferred
):
    stopping -= online
    before = state(leader, *sorted(isr))
    chosen = choose(
        before, replicas, online=online, stopping=stopping, unclean=unclean, preferred=preferred
    )
    assert chosen.isr
    if chosen.leader == NO_LEADER:
        assert chosen.isr == before.isr
        assert not isr & online
    else:
        assert chosen.leader in chosen.isr
        assert set(chosen.isr) <= online | stopping
        if not unclean and leader in isr:
            assert set(chosen.isr) <= isr
    again = choose(
        state(chosen.leader, *chosen.isr),
        replicas,
        online=online,
        stopping=stopping,
        unclean=unclean,
        preferred=preferred,
    )
    assert again == chosen


@pytest.mark.parametrize(
    ("by_isr_order", "leader"),
    [(True, 3), (False, 2)],
    ids=["as before Kafka 0.8.2", "as since"],
)
def test_leader_that_dies_is_succeeded_by_the_first_in_the_isr_before_0_8_2(by_isr_order, leader):
    """*Data reliability in depth*, 3.5: by "the order in the ISR"."""
    before = state(1, 1, 3, 2)
    chosen = choose(before, (1, 2, 3), online={2, 3}, by_isr_order=by_isr_order)
    assert chosen == Choice(leader, (3, 2))


@pytest.mark.parametrize(
    ("before", "online", "leader"),
    [
        (state(3, 3, 2, 1), {1, 2, 3}, 1),  # the preferred one is in the ISR
        (state(3, 3, 2), {1, 2, 3}, 3),  # it is not: nothing changes
        (state(1, 1, 3, 2), {2, 3}, 3),  # it is dead
    ],
)
def test_isr_order_does_not_change_the_preferred_leader(before, online, leader):
    chosen = choose(before, (1, 2, 3), online=online, preferred=True, by_isr_order=True)
    assert chosen.leader == leader


def test_seed_000s_assignment():
    brokers = {0: None, 1: None, 2: None, 3: None}
    assert assign_replicas(brokers, 4, 2) == {0: (0, 1), 1: (1, 2), 2: (2, 3), 3: (3, 0)}


def test_added_partitions_go_on_where_the_others_ended():
    brokers = {0: None, 1: None, 2: None}
    assert assign_replicas(brokers, 1, 2, first_partition=4) == {4: (1, 0)}


def test_racks_alternate():
    assert alternating({0: "a", 1: "a", 2: "b", 3: "b"}) == [0, 2, 1, 3]


def test_one_broker_without_rack_switches_racks_off():
    assert assign_replicas({0: "a", 1: "a", 2: None}, 1, 2) == {0: (0, 1)}


@pytest.mark.parametrize("factor", [0, 4])
def test_impossible_replication_factor(factor):
    with pytest.raises(InvalidReplicationFactor, match="between 1 and the number"):
        assign_replicas({1: None, 2: None, 3: None}, 1, factor)


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c"]) | st.none(), min_size=1, max_size=9),
    partitions=st.integers(1, 20),
    start=st.integers(0, 30),
    data=st.data(),
)
def test_assignments_are_even_and_spread(racks, partitions, start, data):
    brokers = dict(enumerate(racks))
    factor = data.draw(st.integers(1, len(brokers)))
    assigned = assign_replicas(brokers, partitions, factor, start=start)
    assert list(assigned) == list(range(partitions))
    leads = dict.fromkeys(brokers, 0)
    for replicas in assigned.values():
        assert len(set(replicas)) == factor
        leads[replicas[0]] += 1
        if None not in racks:
            used = [racks[b] for b in replicas]
            assert len(set(used)) == min(factor, len(set(racks)))
    assert max(leads.values()) - min(leads.values()) <= 1


def heirs(assigned: Iterable[tuple[int, ...]], dead: int) -> Counter[int]:
    """Return the number of leaderships that each replica takes over from a failed broker."""
    return Counter(replicas[1] for replicas in assigned if replicas[0] == dead)


@given(st.integers(2, 7), st.integers(-(2**31), 2**31 - 1), st.integers(0, 6))
def test_leaderships_of_a_failed_broker_spread_over_all_others(size, start, dead):
    brokers, dead = dict.fromkeys(range(size)), dead % size
    assigned = assign_replicas(brokers, size * (size - 1), 2, start=start)
    assert heirs(assigned.values(), dead) == dict.fromkeys(brokers.keys() - {dead}, 1)


def test_ten_leaderships_of_one_of_five_brokers_go_to_all_four_others():
    assigned = assign_replicas(dict.fromkeys(range(5)), 50, 3)
    for dead in range(5):
        assert sorted(heirs(assigned.values(), dead).values()) == [2, 2, 3, 3]


def test_topics_of_one_partition_spread_over_all_others_too():
    starts = (java_hash(f"topic-{number}") for number in range(1000))
    brokers = dict.fromkeys(range(5))
    assigned = [assign_replicas(brokers, 1, 3, start=start)[0] for start in starts]
    for dead in range(5):
        assert heirs(assigned, dead).keys() == set(brokers) - {dead}
        assert max(heirs(assigned, dead).values()) < 100  # of 200; to one neighbour all would go


@pytest.mark.parametrize(
    ("racks", "start"),
    [
        *((dict.fromkeys(range(4)), start) for start in (*range(12), -1, java_hash("a topic"))),
        # With these racks, shifts of 1 and of 2 are the same in the first round, and not later.
        *(({0: "a", 1: "a", 2: "b", 3: "b"}, start) for start in range(8)),
    ],
)
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_partitions_added_later_lie_as_if_they_had_been_there_from_the_start(racks, start, factor):
    whole = assign_replicas(racks, 14, factor, start=start)
    first = {number: whole[number] for number in range(4)}
    assert assign_more(racks, first, 10) == {number: whole[number] for number in range(4, 14)}


def test_partitions_added_when_the_first_leader_is_gone_lie_somewhere():
    assert assign_more({1: None, 2: None}, {0: (0, 1)}, 2) == {1: (2, 1), 2: (1, 2)}
    with pytest.raises(InvalidReplicationFactor):
        assign_more({1: None}, {0: (0, 1)}, 1)
