"""The plan is a pure function of campaign and seed, and keeps to the campaign's bounds."""

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.campaign.model import Campaign
from harness.campaign.schedule import FaultEntry
from harness.campaign.timeline import duration_ms, plan, run_seed

HOLDS = {"kill": 3_000, "pause": 3_000, "isolate": 3_000}


def varied(campaign: Campaign, **schedule: object) -> Campaign:
    updated = campaign.schedule.model_copy(update=schedule)
    return campaign.model_copy(update={"schedule": updated})


def test_the_same_seed_gives_the_same_plan(campaign: Campaign) -> None:
    assert plan(campaign, 5, HOLDS) == plan(campaign, 5, HOLDS)
    plans = {plan(campaign, seed, HOLDS) for seed in range(20)}
    assert len(plans) == 20


def test_runs_of_one_seed_have_seeds_of_their_own() -> None:
    assert run_seed(1, 1) == run_seed(1, 1)
    assert len({run_seed(seed, run) for seed in range(10) for run in range(10)}) == 100


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**53),
    rounds=st.integers(1, 4),
    gap=st.tuples(st.integers(0, 900), st.integers(900, 5_000)),
)
def test_bounds(campaign: Campaign, seed: int, rounds: int, gap: tuple[int, int]) -> None:
    found = plan(varied(campaign, rounds=rounds, gap=gap), seed, HOLDS)
    assert [fault.fault_id for fault in found] == list(range(1, 2 * rounds + 1))
    assert found[0].start_ms == campaign.schedule.warmup
    for before, after in itertools.pairwise(found):
        assert gap[0] <= after.gap_ms <= gap[1]
        assert after.start_ms == before.start_ms + before.hold_ms + after.gap_ms
    for fault in found:
        least, most = (3_000, 3_000) if fault.fault == "kill" else (3_000, 5_000)
        assert least <= fault.hold_ms <= most
    for one_round in zip(found[::2], found[1::2], strict=True):
        assert {fault.fault for fault in one_round} == {"kill", "pause"}


def test_listed_order_and_the_least_hold(campaign: Campaign) -> None:
    entries = (FaultEntry(fault="pause", target="one"), FaultEntry(fault="kill", target="one"))
    listed = varied(campaign, order="listed").model_copy(update={"faults": entries})
    for seed in range(20):
        found = plan(listed, seed, HOLDS)
        assert [fault.fault for fault in found] == ["pause", "kill"]
        assert all(3_000 <= fault.hold_ms <= 4_500 for fault in found)


def test_duration(campaign: Campaign) -> None:
    found = plan(campaign, 1, HOLDS)
    assert duration_ms(campaign, found) == found[-1].start_ms + found[-1].hold_ms + 5_000
    assert duration_ms(campaign, ()) == 10_000
