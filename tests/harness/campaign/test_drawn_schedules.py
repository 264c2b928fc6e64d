"""Draws by weight, lanes side by side, how long they go on, and how many servers suffer at once."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.schedule import FAULTS_MAX, AtMost, FaultEntry, StoryEntry
from ackproof.harness.campaign.plan.context import plan_context
from ackproof.harness.campaign.plan.faults import Act, ScheduledFault, acts, lanes
from ackproof.harness.campaign.plan.scheduler import plan as plan_on
from ackproof.harness.campaign.problems.faults import fault_problems
from ackproof.nemesis.targets.resolution import NO_SERVERS, Count
from tests.support.builders.drafts import draft_of


def fault(name: str, target: str, hold: tuple[int, int], at: int | None = None) -> FaultEntry:
    times = None if at is None else (at, at)
    entry = FaultEntry(fault=name, target=target)
    return entry.model_copy(update={"hold": hold, "at": times})


ONE = fault("kill", "leader(acks-1-minisr-1, any)", hold=(2_000, 4_000))
TWO = fault("pause", "minority", hold=(1_000, 9_000))
ALL = fault("isolate", "all", hold=(1_000, 1_000))
STORY = StoryEntry(story="crash-loop", topic="acks-1-minisr-1")


def varied(campaign: Campaign, *faults: object, brokers: int = 5, **schedule: object) -> Campaign:
    changed = {"schedule": campaign.schedule.model_copy(update=schedule), "faults": faults}
    cluster = campaign.cluster.model_copy(update={"brokers": (brokers,)})
    return campaign.model_copy(update={**changed, "cluster": cluster})


def plan(campaign: Campaign, seed: int) -> tuple[ScheduledFault, ...]:
    return plan_on(campaign, seed, plan_context(campaign, next(campaign.cluster.points())[0]))


def reasons(campaign: Campaign) -> list[str]:
    return [str(problem) for problem in fault_problems(draft_of(campaign))]


def suffering(found: Sequence[Act], moment: int) -> Count:
    on = (act for act in found if act.start_ms <= moment < max(act.end_ms, act.start_ms + 1))
    return sum((act.affected for act in on), NO_SERVERS)


def test_draws_keep_to_the_weights(campaign: Campaign) -> None:
    heavy, light = (one.model_copy(update={"weight": w}) for one, w in ((ONE, 9.0), (TWO, 1.0)))
    found = plan(varied(campaign, heavy, light, order="drawn", rounds=200), 1)
    assert len(found) == 400
    counts = Counter(one.fault for one in found)
    assert 330 <= counts["kill"] <= 385, counts  # 360 are expected, 6 are a standard deviation


def test_without_weights_all_are_drawn_alike(campaign: Campaign) -> None:
    found = plan(varied(campaign, ONE, TWO, order="drawn", rounds=200), 1)
    assert 160 <= Counter(one.fault for one in found)["kill"] <= 240


def test_drawn_schedule_varies_by_seed_and_repeats_for_the_same_seed(campaign: Campaign) -> None:
    drawn = varied(campaign, ONE, TWO, order="drawn", rounds=5)
    assert plan(drawn, 1) == plan(drawn, 1)
    assert len({tuple(f.fault for f in plan(drawn, seed)) for seed in range(30)}) > 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    order=st.sampled_from(["drawn", "shuffled", "listed"]),
    lanes_=st.integers(1, 4),
    most=st.integers(2, 5),
    timed=st.lists(st.integers(0, 60_000), max_size=3),
)
def test_no_more_suffer_at_once_than_may(
    campaign: Campaign, seed: int, order: str, lanes_: int, most: int, timed: list[int]
) -> None:
    faults = [ONE, TWO, STORY, *(ONE.model_copy(update={"at": (at, at)}) for at in timed[:most])]
    limit = AtMost.model_construct(brokers=most, zookeepers=None)
    varying = varied(campaign, *faults, order=order, lanes=lanes_, at_most=limit, rounds=2)
    found = acts(plan(varying, seed))
    assert len({act.lane for act in found if act.gap_ms is not None}) == lanes_
    for act in found:
        assert suffering(found, act.start_ms).brokers <= max(
            most, suffering([a for a in found if a.gap_ms is None], act.start_ms).brokers
        )
    for lane in lanes([one for act in found for one in act.faults]):
        for before, after in itertools.pairwise(lane):
            assert after.gap_ms == after.start_ms - before.end_ms >= 5_000


def test_another_is_drawn_where_one_does_not_fit(campaign: Campaign) -> None:
    """Two of five are down all the time: with three at most, of the two kinds there is only room
    for the one that affects one."""
    down = fault("pause", "broker-1 + broker-2", at=0, hold=(10**7, 10**7))
    limit = AtMost.model_construct(brokers=3, zookeepers=None)
    drawn = varied(campaign, down, ONE, TWO, order="drawn", rounds=10, at_most=limit)
    assert Counter(one.fault for one in plan(drawn, 3)) == {"pause": 1, "kill": 20}


def test_fault_waits_until_it_fits_the_limit(campaign: Campaign) -> None:
    down = fault("pause", "broker-1 + broker-2", at=0, hold=(60_000, 60_000))
    limit = AtMost.model_construct(brokers=2, zookeepers=None)
    found = plan(varied(campaign, down, ONE, order="drawn", at_most=limit), 3)
    assert [one.start_ms for one in found] == [0, 60_000]
    assert found[1].gap_ms == 60_000


def test_lanes_draw_each_for_itself(campaign: Campaign) -> None:
    one = plan(varied(campaign, ONE, TWO, order="drawn", rounds=3), 4)
    two = plan(varied(campaign, ONE, TWO, order="drawn", rounds=3, lanes=2), 4)
    told = [(f.fault, f.start_ms, f.hold_ms, f.seed) for f in one]
    assert [(f.fault, f.start_ms, f.hold_ms, f.seed) for f in two if f.lane == 1] == told
    assert [(f.fault, f.start_ms, f.hold_ms, f.seed) for f in two if f.lane == 2] != told
    assert any(a.end_ms > b.start_ms for a, b in itertools.pairwise(two)), "they overlap"


@pytest.mark.parametrize("order", ["drawn", "shuffled", "listed"])
def test_minutes_instead_of_rounds(campaign: Campaign, order: str) -> None:
    found = plan(varied(campaign, ONE, TWO, order=order, lasts=300_000), 1)
    assert len(found) > 10
    assert found[-1].start_ms <= 300_000
    assert found[-1].end_ms + 10_000 > 300_000, "another would have begun in time"


def test_right_after_another(campaign: Campaign) -> None:
    found = plan(varied(campaign, ONE, TWO, gap=(0, 0), warmup=0, rounds=3), 1)
    assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("faults", "schedule", "reason"),
    [
        (
            [ALL],
            {"at_most": AtMost(brokers="minority")},
            "faults[0].target: affects up to 5 brokers",
        ),
        ([STORY, ONE], {"at_most": AtMost(brokers=0)}, "faults[0].story: affects up to 1 brokers"),
        (
            [StoryEntry(story="zookeeper-hangs", topic="acks-1-minisr-1")],
            {"at_most": AtMost(zookeepers=0)},
            "up to 1 zookeepers at once; schedule.at.most allows 0",
        ),
        ([ONE], {"lasts": 1_000, "rounds": 2}, "schedule.lasts: replaces rounds"),
        ([ONE], {"rounds": FAULTS_MAX + 1}, "schedule: gives more than 5,000 faults per run"),
        (
            [ONE.model_copy(update={"hold": (0, 0)})],
            {"lasts": 10**6, "gap": (0, 0)},
            "schedule: gives more than 5,000 faults per run",
        ),
        (
            [ONE.model_copy(update={"weight": 2.0})],
            {},
            "faults[0].weight: applies to schedule.order",
        ),
        (
            [ONE.model_copy(update={"weight": 2.0, "at": (0, 0)})],
            {"order": "drawn"},
            "it has its own time",
        ),
    ],
)
def test_schedules_that_cannot_be(
    campaign: Campaign, faults: list[object], schedule: dict[str, object], reason: str
) -> None:
    assert any(reason in told for told in reasons(varied(campaign, *faults, **schedule)))


def test_a_minority_is_of_the_run_s_own_cluster(campaign: Campaign) -> None:
    limit = AtMost(brokers="minority")
    assert not reasons(varied(campaign, TWO, at_most=limit, brokers=5))
    assert not reasons(varied(campaign, ONE, at_most=limit, brokers=3))
    two = FaultEntry(fault="kill", target="broker-1 + broker-2")
    (told,) = reasons(varied(campaign, two, at_most=limit, brokers=3))
    assert "affects up to 2 brokers at once; schedule.at.most allows 1" in told
