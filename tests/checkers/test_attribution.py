"""In which epoch a lost record was acked: what times, offsets and unbroken runs tell, and not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ackproof.checkers.arrays import NONE
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.root_cause.attribution import (
    LOG_END_UNKNOWN,
    LostRecords,
    NarrativeGroup,
    groups,
)
from ackproof.checkers.root_cause.narratives import NarrativeFacts, narrative
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    LeadershipTerm,
    PartitionContext,
)


def lost(
    offsets: Sequence[int], times: Sequence[int], stands: int = NONE, behind: int = NONE
) -> LostRecords:
    count = len(offsets)
    return LostRecords(
        producer=np.ones(count, np.int64),
        sequence=np.arange(count),
        offset=np.array(offsets, np.int64),
        time=np.array(times, np.int64),
        stands=np.full(count, stands),
        behind=np.full(count, behind),
    )


def term(
    epoch: int,
    leader: int,
    since: int,
    until: int = FOREVER,
    log_end: int = NONE,
    unaware: bool = False,
) -> LeadershipTerm:
    return LeadershipTerm(
        epoch=epoch,
        leader=leader,
        seen=since + 10,
        elected_after=since,
        deposed=until,
        log_end=log_end,
        unaware=unaware,
    )


def told(found: Sequence[NarrativeGroup]) -> list[tuple[list[int], int, int, int]]:
    return [(one.records.tolist(), one.first, one.last, one.after) for one in found]


AROUND = NarrativeFacts(acks="1", watched=True, bound=0, log_start=0, deleted_by=NONE)
OVERLAPPING = [
    term(0, 1, since=0, until=200, log_end=0),
    term(1, 2, since=100, until=300, log_end=10),
    term(2, 3, since=150, log_end=10),
]


def test_evidence_on_one_record_applies_to_its_whole_unbroken_run() -> None:
    found = groups(lost([10, 11, 12], [90, 120, 130]), OVERLAPPING, [])
    assert told(found) == [([0, 1, 2], 0, 0, 1)]


def test_behind_a_hole_either_leader_may_have_acked() -> None:
    found = groups(lost([10, 12], [90, 120]), OVERLAPPING, [])
    assert told(found) == [([0], 0, 0, 1), ([1], 0, 1, 1)]


def test_epoch_with_a_surviving_record_at_the_offset_is_not_the_acked_epoch() -> None:
    leadership_terms = [*OVERLAPPING[:1], term(1, 2, since=100, log_end=10)]
    assert told(groups(lost([12], [120], stands=1), leadership_terms, [])) == [([0], 0, 0, 1)]


def test_acked_epoch_is_no_earlier_than_the_epoch_of_the_record_below() -> None:
    leadership_terms = [*OVERLAPPING[:2], term(2, 3, since=250, log_end=12)]
    assert told(groups(lost([12], [160]), leadership_terms, [])) == [([0], 0, 1, 1)]
    assert told(groups(lost([12], [160], behind=1), leadership_terms, [])) == [([0], 1, 1, 2)]


def test_where_a_later_epoch_began_right_there_either_leader_may_have_acked() -> None:
    assert told(groups(lost([10], [160], behind=0), OVERLAPPING, [])) == [([0], 0, 1, 1)]


LED_ON = [
    term(0, 1, since=0, until=500, log_end=0),
    term(1, 1, since=100, until=500, log_end=20),
    term(2, 2, since=200, log_end=25),
]


def test_of_two_epochs_of_one_broker_the_offset_tells_which() -> None:
    assert told(groups(lost([30], [105]), LED_ON, [])) == [([0], 1, 1, 2)]


def test_a_broker_that_lost_its_disk_and_led_on_came_without_it() -> None:
    took = ContextFault(label="power-failure#1", servers=["broker-1"], start=90, end=95, took=96)
    assert told(groups(lost([30], [80]), LED_ON, [took])) == [([0], 0, 0, 1)]
    assert told(groups(lost([30], [80]), LED_ON, [])) == [([0], NONE, NONE, NONE)]


def test_leader_with_unknown_log_end_may_have_started_without_the_record() -> None:
    leadership_terms = [term(0, 1, since=0, until=200, log_end=0), term(1, 2, since=100)]
    assert told(groups(lost([10], [50]), leadership_terms, [])) == [([0], 0, 0, LOG_END_UNKNOWN)]


def elected(leader: int, unaware: bool, then: int = 3, end: int = NONE) -> list[LeadershipTerm]:
    """Broker 1 leads, one is elected that says nothing, and another one leads."""
    first = term(0, 1, since=0, until=200, log_end=0)
    return [first, term(1, leader, since=100, unaware=unaware), term(2, then, 300, log_end=end)]


def test_an_elected_one_that_never_heard_of_it_hides_no_later_leader() -> None:
    some = lost([10], [50])
    assert told(groups(some, elected(2, unaware=True, end=8), [])) == [([0], 0, 0, 2)]
    assert told(groups(some, elected(2, unaware=False, end=8), [])) == [
        ([0], 0, 0, LOG_END_UNKNOWN)
    ]
    assert told(groups(some, elected(2, unaware=True), [])) == [([0], 0, 0, LOG_END_UNKNOWN)]
    assert told(groups(some, elected(2, unaware=True, end=11), [])) == [([0], 0, 0, NONE)]


def test_log_end_is_unknown_of_a_leader_that_may_have_followed_an_unaware_leader() -> None:
    """Its log may have shrunk: where it ended when it led again tells nothing of before."""
    some = lost([10], [50])
    assert told(groups(some, elected(2, True, then=1, end=8), [])) == [([0], 0, 0, 2)]
    assert told(groups(some, elected(2, True, then=1), [])) == [([0], 0, 0, LOG_END_UNKNOWN)]


def test_unaware_reelected_leader_acked_in_its_earlier_epoch() -> None:
    some = lost([10], [150])
    assert told(groups(some, elected(1, unaware=True, end=8), [])) == [([0], 0, 0, 2)]
    assert told(groups(some, elected(1, unaware=False, end=8), [])) == [([0], 1, 1, 2)]


def test_acking_leader_is_certain_despite_an_unaware_elected_leader() -> None:
    """Broker 1 may have acked it before that one, or after: it led both times."""
    leadership_terms = [*elected(2, unaware=True, then=1, end=8), term(3, 3, since=400, log_end=9)]
    some = lost([10], [350])
    (group,) = groups(
        some, [replace(leadership_terms[0], deposed=FOREVER), *leadership_terms[1:]], []
    )
    assert (group.first, group.last) == (0, 2)
    made = narrative(group, some, PartitionContext(leadership_terms=leadership_terms), AROUND)
    assert (made.leaders, [one.epoch for one in made.epochs]) == ([1], [0, 2])


@pytest.mark.parametrize(("leader", "late"), [(1, 150 - 310), (2, 150 - 110)])
def test_leader_is_not_deposed_by_its_own_election(leader: int, late: int) -> None:
    """Test a leader that never hears of its own election."""
    some, leadership_terms = lost([10], [150]), elected(leader, unaware=True, end=8)
    (group,) = groups(some, leadership_terms, [])
    assert (
        narrative(group, some, PartitionContext(leadership_terms=leadership_terms), AROUND).late
        == late
    )


def test_lost_record_without_an_offset_is_attributed_to_the_next_leader() -> None:
    first, *others = elected(2, unaware=True, end=8)
    leadership_terms = [replace(first, failing=40), *others]
    assert told(groups(lost([NONE, NONE], [30, 50]), leadership_terms, [])) == [
        ([0], 0, 0, NONE),
        ([1], 0, 0, 2),
    ]


def test_lost_record_without_leadership_terms_has_no_epoch() -> None:
    assert told(groups(lost([1], [5]), [], [])) == [([0], NONE, NONE, NONE)]
    assert groups(lost([], []), OVERLAPPING, []) == []
