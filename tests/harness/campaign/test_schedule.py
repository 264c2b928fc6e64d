"""The plan is a pure function of campaign and seed, and keeps to the campaign's bounds."""

import io
import itertools
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.model.external import ExternalSpec
from ackproof.harness.campaign.model.schedule import FailoverSpec, FaultEntry
from ackproof.harness.campaign.plan.context import CampaignTimings, fault_limit_ms, plan_context
from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.harness.campaign.plan.scheduler import duration_ms, run_seed
from ackproof.harness.campaign.plan.scheduler import plan as plan_on
from ackproof.harness.commands.catalogues import fault_catalogue
from ackproof.harness.commands.preview import timelines
from ackproof.nemesis.targets.expressions import parse

TIMES = st.tuples(st.integers(0, 20_000), st.integers(20_000, 40_000))


def plan(campaign: Campaign, seed: int) -> tuple[ScheduledFault, ...]:
    """On the campaign's one cluster."""
    return plan_on(campaign, seed, plan_context(campaign, next(campaign.cluster.points())[0]))


def varied(campaign: Campaign, **schedule: object) -> Campaign:
    updated = campaign.schedule.model_copy(update=schedule)
    return campaign.model_copy(update={"schedule": updated})


def timed(campaign: Campaign, *times: tuple[int, int]) -> Campaign:
    """The campaign with one more fault at each of ``times``."""
    more = [
        FaultEntry.model_construct(
            fault="isolate", target="one", parameters={"direction": "in"}, hold=None, at=at
        )
        for at in times
    ]
    return campaign.model_copy(update={"faults": (*campaign.faults, *more)})


def test_same_seed_yields_the_same_plan(campaign: Campaign) -> None:
    assert plan(campaign, 5) == plan(campaign, 5)
    plans = {plan(campaign, seed) for seed in range(20)}
    assert len(plans) == 20


def test_an_open_topic_is_drawn_for_each_fault_and_is_the_same_all_over_its_target(
    campaign: Campaign,
) -> None:
    cells = campaign.cells.model_copy(update={"acks": ("0", "1", "all")})
    entry = FaultEntry.model_construct(
        fault="cut", target="isr(any, 0) - leader( any , 0) -> leader(any, 0)", hold=None, at=(0, 0)
    )
    open_topics = campaign.model_copy(update={"cells": cells, "faults": (entry,)})
    topics = set()
    for seed in range(20):
        (fault,) = plan(open_topics, seed)
        (topic,) = {role.topic for role in parse(fault.target).roles}
        assert plan(open_topics, seed) == (fault,)
        topics.add(topic)
    assert topics == {cell.topic for cell in expand(cells)}


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
    found = plan(varied(campaign, rounds=rounds, gap=gap), seed)
    assert [fault.fault_id for fault in found] == list(range(1, 2 * rounds + 1))
    assert found[0].start_ms == campaign.schedule.warmup
    for before, after in itertools.pairwise(found):
        assert after.gap_ms is not None
        assert gap[0] <= after.gap_ms <= gap[1]
        assert after.start_ms == before.end_ms + after.gap_ms
    for fault in found:
        least, most = (3_000, 3_000) if fault.fault == "kill" else (3_000, 5_000)
        assert least <= fault.hold_ms <= most
    for one_round in zip(found[::2], found[1::2], strict=True):
        assert {fault.fault for fault in one_round} == {"kill", "pause"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**53), times=st.lists(TIMES, max_size=4))
def test_faults_with_a_time_strike_then_and_leave_the_others_as_they_are(
    campaign: Campaign, seed: int, times: list[tuple[int, int]]
) -> None:
    found = plan(timed(campaign, *times), seed)
    assert [fault.fault_id for fault in found] == list(range(1, len(times) + 3))
    assert [fault.start_ms for fault in found] == sorted(fault.start_ms for fault in found)
    ours = [fault for fault in found if fault.gap_ms is None]
    assert len(ours) == len(times)
    for low, high in times:
        assert any(low <= fault.start_ms <= high for fault in ours)
    alone = [(f.fault, f.start_ms, f.hold_ms, f.seed) for f in plan(campaign, seed)]
    rest = [(f.fault, f.start_ms, f.hold_ms, f.seed) for f in found if f.gap_ms is not None]
    assert rest == alone


def test_a_time_counts_once_whatever_the_rounds(campaign: Campaign) -> None:
    found = plan(varied(timed(campaign, (1_000, 1_000)), rounds=3), 1)
    assert [fault.fault for fault in found].count("isolate") == 1
    assert len(found) == 7


def test_parameters_are_checked_and_filled_in(campaign: Campaign) -> None:
    found = plan(timed(campaign, (0, 0)), 1)
    own = {fault.fault: fault.parameters.model_dump() for fault in found}
    assert own == {"isolate": {"direction": "in", "service": None}, "kill": {}, "pause": {}}


def test_listed_order_and_the_least_hold(campaign: Campaign) -> None:
    entries = (FaultEntry(fault="pause", target="one"), FaultEntry(fault="kill", target="one"))
    listed = varied(campaign, order="listed").model_copy(update={"faults": entries})
    for seed in range(20):
        found = plan(listed, seed)
        assert [fault.fault for fault in found] == ["pause", "kill"]
        assert all(3_000 <= fault.hold_ms <= 4_500 for fault in found)


def test_duration(campaign: Campaign) -> None:
    found = plan(campaign, 1)
    assert duration_ms(campaign, found) == found[-1].end_ms + 5_000
    assert duration_ms(campaign, ()) == 10_000
    longest = plan(timed(campaign, (60_000, 60_000), (1_000, 1_000)), 1)
    assert duration_ms(campaign, longest) >= 60_000 + 3_000 + 5_000


PODS = {"bootstrap.servers": "k:9092", "kubernetes": {"namespace": "n", "strimzi": "mine"}}


@pytest.mark.parametrize(
    ("session_ms", "given_ms", "external", "expected_ms"),
    [
        (2_000, None, None, 30_000),
        (60_000, None, None, 105_000),
        (60_000, 20_000, None, 20_000),
        (2_000, None, {"bootstrap.servers": "k:9092"}, 30_000),
        (2_000, None, PODS, 120_000),
        (90_000, None, PODS, 150_000),
        (2_000, 20_000, PODS, 20_000),
    ],
)
def test_the_limit_of_a_proof_follows_from_the_session_and_from_pods(
    campaign: Campaign,
    session_ms: int,
    given_ms: int | None,
    external: Mapping[str, object] | None,
    expected_ms: int,
) -> None:
    spec = None if external is None else ExternalSpec.model_validate(external)
    cluster = campaign.cluster.model_copy(update={"external": spec})
    limits = campaign.limits.model_copy(update={"fault": given_ms})
    varied = campaign.model_copy(update={"cluster": cluster, "limits": limits})
    properties = {"zookeeper.session.timeout.ms": session_ms}
    timings = CampaignTimings(ClusterSpec(properties=properties))
    assert fault_limit_ms(varied, timings) == expected_ms


@pytest.mark.parametrize(
    ("system", "properties", "session_ms"),
    [
        ("bundled", {}, 18_000),
        ("kafka:4.1.1", {}, 9_000),
        ("kafka:4.1.1", {"zookeeper.session.timeout.ms": 3000}, 3_000),
        ("kafka:4.1.1", {"broker.session.timeout.ms": 5000}, 5_000),
        ("kafka:3.9.1", {"broker.session.timeout.ms": 5000}, 18_000),
    ],
)
def test_with_kraft_a_session_is_the_brokers_with_the_controller(
    system: str, properties: dict[str, int], session_ms: int
) -> None:
    timings = CampaignTimings(ClusterSpec(system=system, properties=properties))
    assert timings.zookeeper_session_timeout_ms == session_ms


@pytest.mark.parametrize(
    ("system", "properties", "session_ms", "lag_ms"),
    [
        ("bundled", {}, 18_000, 30_000),
        ("bundled", {"ackproof.generation": "0.8"}, 18_000, 10_000),
        ("bundled", {"ackproof.generation": "0.10"}, 18_000, 10_000),
        (
            "bundled",
            {"ackproof.generation": "0.8", "replica.lag.time.max.ms": 4000},
            18_000,
            4_000,
        ),
        ("kafka:2.0.1", {}, 6_000, 10_000),
        ("kafka:3.9.1", {}, 18_000, 30_000),
        ("external", {}, 18_000, 30_000),
    ],
)
def test_timings_that_no_file_sets_are_those_of_the_system_and_its_generation(
    system: str, properties: dict[str, str | int], session_ms: int, lag_ms: int
) -> None:
    """Kafka had 6 s and 10 s before 2.5 (KIP-537): a lag that is assumed too long excuses more."""
    timings = CampaignTimings(ClusterSpec(system=system, properties=properties))
    assert timings.zookeeper_session_timeout_ms == session_ms
    assert timings.replica_lag_time_max_ms == lag_ms


@pytest.mark.parametrize("width", [80, 130])
def test_printed_timeline_fits_the_width(campaign: Campaign, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    resolved = timed(campaign, (12_000, 12_000)).model_copy(update={"seed": 4, "runs": 2})
    console.print(timelines(resolved))
    told = console.export_text()
    assert "small 2/2" in told
    assert "12.0 s" in told
    assert "direction: in" in told
    console.print(fault_catalogue())
    told += console.export_text()
    for word in ("direction: both", "cut-links", "majorities-ring", "zk-leader"):
        assert word in told
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= width


def test_failover_measurement_is_printed_after_the_timeline(campaign: Campaign) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    measured = FailoverSpec(partitions=(10, 1000), target="controller")
    console.print(timelines(campaign.model_copy(update={"seed": 4, "failover": measured})))
    told = console.export_text()
    assert "then, with 10 partitions, a kill of controller" in told
    assert "then, with 1,000 partitions, a kill of controller" in told
