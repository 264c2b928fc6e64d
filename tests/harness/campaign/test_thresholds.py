"""Thresholds in ``expect`` of a campaign file: how they are written, refused and planned."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.checkers.thresholds import MEASURES, Unit
from ackproof.harness.campaign.model.values import parse_threshold
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.harness.cli import cli
from ackproof.history.manifest import PlannedCell

RIGHT = {
    Unit.RECORDS: "<= 3",
    Unit.MILLISECONDS: "< 1.5s",
    Unit.PERCENT: ">= 0.5%",
    Unit.RECORDS_PER_SECOND: "> 90/s",
}

READ_ONLY_LEADER = """
name: read-only-leader
cluster:
  system: kafka:3.9.1
  metadata.quorum: isolated-kraft
  brokers: 3
  disks: {per.broker: 2, megabytes: 256}
cells: {acks: ["1", all], min.insync.replicas: 2, partitions: 6}
expect: {unavailable.longest: "<= 10s"}
workload: {rate: 100}
schedule: {warmup: 5s}
faults:
- fault: read-only
  target: "leader(acks-all-minisr-2, 0)"
  parameters: {disks: one}
  hold: 20s
"""
"""KAFKA-19289: one of two disks of a leader turns read-only, and its partitions stay with it."""


def planned(file: Path) -> dict[str, PlannedCell]:
    """Return the cells of a campaign's first run by name."""
    campaign = load(file).resolved(seed=1)
    run, *_ = manifest_of(campaign, runs_of(campaign)).runs
    return {one.cell.name: one for one in run.cells}


def thresholds(cell: PlannedCell) -> list[tuple[str, str, float]]:
    return [(one.measure, one.operator, one.limit) for one in cell.thresholds]


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("<= 0", Unit.RECORDS, ("<=", 0)),
        ("<=0", Unit.RECORDS, ("<=", 0)),
        ("  > 12 ", Unit.RECORDS, (">", 12)),
        ("<= 10s", Unit.MILLISECONDS, ("<=", 10_000)),
        ("< 0.5ms", Unit.MILLISECONDS, ("<", 0.5)),
        ("<= 1.5 m", Unit.MILLISECONDS, ("<=", 90_000)),
        ("<= 5%", Unit.PERCENT, ("<=", 5)),
        ("< 0.1 %", Unit.PERCENT, ("<", 0.1)),
        (">= 90", Unit.RECORDS_PER_SECOND, (">=", 90)),
        (">= 90.5/s", Unit.RECORDS_PER_SECOND, (">=", 90.5)),
    ],
)
def test_threshold_has_an_operator_and_a_value(
    text: str, unit: Unit, expected: tuple[str, float]
) -> None:
    assert parse_threshold(text, unit) == expected


@pytest.mark.parametrize(
    ("measure", "written", "reason"),
    [
        ("lost", 0, 'one of <=, <, >=, > and a whole number of records, in quotes, like "<= 0"'),
        ("lost", "0", "not '0'"),
        ("lost", "== 0", "not '== 0'"),
        ("lost", "<= none", "not '<= none'"),
        ("lost", "<= 1.5", "not '<= 1.5'"),
        ("lost", "<= -1", "not '<= -1'"),
        ("lost", "<= 0%", "not '<= 0%'"),
        ("lost", None, "a whole number of records"),
        ("lost", [], "at least one value"),
        ("lost", ["<= 1", "most"], "not 'most'"),
        ("lost", ">= 0", "every value is >= 0, so this threshold checks nothing"),
        ("lost", "< 0", "no value is < 0, so this threshold can never be met"),
        ("lost.share", "<= 100%", "checks nothing"),
        ("lost.share", "> 100%", "can never be met"),
        ("unavailable.share", "<= 0.05", "a share in percent"),
        ("unavailable.share", "<= 101%", "is too large: at most 100 %"),
        ("unavailable.longest", "<= 10", 'a length of time, in quotes, like "<= 10s"'),
        ("unavailable.longest", "<= 10 sec", "a length of time"),
        ("unavailable.longest", "<= 499ms", "up to 500 ms counts as 0: give 0s or at least 500 ms"),
        ("latency.p99", "<= 200h", "is too long"),
        ("throughput", ">= 5s", "a number of records a second"),
        ("throughput", ">= 10000000", "is too large"),
    ],
)
def test_wrong_threshold_is_refused_with_the_permitted_values(
    campaign_file, measure: str, written: object, reason: str
) -> None:
    for expect in ([{measure: written}], {measure: written}):
        with pytest.raises(CampaignRefused) as refused:
            load(campaign_file({"expect": expect}))
        (problem,) = refused.value.problems
        listed = "[0]" if isinstance(expect, list) else ""
        assert problem.field == f"expect{listed}.{measure}"
        assert reason in problem.reason
        assert problem.position is not None


@pytest.mark.parametrize(
    ("expect", "field", "reason"),
    [
        ([{"latency.p95": "<= 1s"}], "expect[0].latency.p95", "did you mean latency.p9"),
        ({"latency.p95": "<= 1s"}, "expect.latency.p95", "did you mean latency.p9"),
        ({"outage": "<= 1s"}, "expect.outage", "known: where, verdict, lost, lost.share, "),
        ([{"where": {"acks": 1}}], "expect[0]", "expects nothing: give a verdict, or a threshold"),
        ([{}], "expect[0]", "lost, lost.share, duplicated"),
        ({"where": {"acks": 2}, "lost": "<= 0"}, "expect.where", "no cell has acks: 2"),
        ({"verdict": "win"}, "expect.verdict", "not 'win'"),
    ],
)
def test_wrong_key_is_refused_with_those_that_there_are(
    campaign_file, expect: object, field: str, reason: str
) -> None:
    with pytest.raises(CampaignRefused) as refused:
        check(campaign_file({"expect": expect}))
    (problem,) = refused.value.problems
    assert problem.field.removesuffix("[0]") == field.removesuffix("[0]")
    assert reason in problem.reason
    assert problem.position is not None


def test_unquoted_greater_than_is_refused_with_a_hint(campaign_file) -> None:
    file = campaign_file({})
    file.write_text(file.read_text() + "expect:\n  throughput: >= 90\n")
    with pytest.raises(CampaignRefused, match=r"begins with > or \| must stand in quotes"):
        load(file)


def test_every_measure_can_be_written_and_is_planned(campaign_file) -> None:
    expect = {name: RIGHT[one.unit] for name, one in MEASURES.items()}
    file = campaign_file({"expect": expect})
    check(file)
    for cell in planned(file).values():
        assert [one.measure for one in cell.thresholds] == list(MEASURES)
        assert cell.expect == ()


def test_last_threshold_for_a_cell_counts_measure_by_measure(campaign_file) -> None:
    expect = [
        {"lost": "<= 0", "unavailable.longest": "<= 10s", "verdict": "pass"},
        {"where": {"acks": 1}, "lost": ["> 0", "<= 20"]},
        {"where": {"acks": 0}, "verdict": "not-guaranteed"},
    ]
    cells = planned(campaign_file({"expect": expect}))
    every = [("lost", "<=", 0), ("unavailable.longest", "<=", 10_000)]
    assert thresholds(cells["acks-all.minisr-1"]) == every
    assert thresholds(cells["acks-0.minisr-1"]) == every
    assert thresholds(cells["acks-1.minisr-2"]) == [
        ("lost", ">", 0),
        ("lost", "<=", 20),
        ("unavailable.longest", "<=", 10_000),
    ]
    assert cells["acks-1.minisr-2"].expect == ("pass",)
    assert cells["acks-0.minisr-1"].expect == ("not-guaranteed",)


@pytest.mark.parametrize(
    "expect",
    [
        {"lost": "<= 0", "latency.p99": ["<= 0.5ms"]},
        [{"where": {"acks": 1}, "verdict": ["fail", "pass"], "throughput": [">= 1", "< 200/s"]}],
    ],
)
def test_thresholds_read_back(campaign_file, tmp_path: Path, expect: object) -> None:
    campaign = load(campaign_file({"expect": expect})).resolved(seed=42)
    file = tmp_path / "resolved.yaml"
    file.write_text(campaign.to_yaml())
    assert load(file) == campaign
    assert "verdict: null" not in file.read_text()


def test_dry_run_shows_the_thresholds_of_each_cell(campaign_file) -> None:
    expect = [{"verdict": "pass", "unavailable.longest": "<= 10s", "lost.share": "<= 0.1%"}]
    file = campaign_file({"expect": expect})
    done = CliRunner().invoke(cli, ["run", str(file), "--dry-run", "--seed", "1"])
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    words = "expected of acks-1.minisr-2: pass, lost.share <= 0.1 %, unavailable.longest <= 10 s"
    assert words in told


def test_unavailability_of_a_leader_on_a_read_only_disk_can_be_expected(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(READ_ONLY_LEADER)
    check(file)
    for cell in planned(file).values():
        assert thresholds(cell) == [("unavailable.longest", "<=", 10_000)]


def test_schema_knows_every_measure_and_how_it_is_written(campaign_schema: Mapping) -> None:
    properties = campaign_schema["$defs"]["Expectation"]["properties"]
    assert list(properties) == ["where", "verdict", *MEASURES]
    for name, one in MEASURES.items():
        single, several = properties[name]["anyOf"]
        assert several["items"] == single
        assert re.match(single["pattern"], RIGHT[one.unit])
        assert not re.match(single["pattern"], "0")
        assert properties[name]["description"] == one.meaning


@pytest.fixture
def campaign_schema() -> Mapping:
    from ackproof.harness.campaign.docs import schema

    return schema()
