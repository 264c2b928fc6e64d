"""Likely mistakes in a right campaign are warned of, and keep it from nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.harness.campaign.lint import warnings
from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli

CAMPAIGNS = Path(__file__).parents[3] / "campaigns"
LEADER = "leader(acks-all-minisr-2, any)"
LONE = {"cells.replication~factor": 1, "cells.min~insync~replicas": 1}
SMALL = {
    "cells.acks": ["1", "all"],
    "cells.min~insync~replicas": 2,
    "faults": [{"fault": "kill", "target": "leader(any, any)", "hold": "5s"}],
}
Warned = Callable[[Mapping[str, object]], list[str]]


@pytest.fixture
def warned(campaign_file) -> Warned:
    """Return a function that lists the warnings about the small campaign with these changes."""

    def of(changes: Mapping[str, object]) -> list[str]:
        return [str(one) for one in warnings(check(campaign_file(changes)).campaign)]

    return of


def fault(name: str, target: str, hold: object, **parameters: object) -> dict[str, object]:
    return {"fault": name, "target": target, "hold": hold, "parameters": parameters}


SHIPPED = sorted([*CAMPAIGNS.glob("*.yaml"), *CAMPAIGNS.glob("known-losses/k*.yaml")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_campaigns_have_no_warning(path: Path) -> None:
    assert [str(one) for one in warnings(check(path, meant=True).campaign)] == []


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        (1, []),
        (2, ["2 ZooKeeper servers survive no more failures than 1, because a majority of 2 is 2"]),
        (3, []),
        (4, ["4 ZooKeeper servers survive no more failures than 3, because a majority of 4 is 3"]),
        ([2, 3, 4], ["2 ZooKeeper servers", "4 ZooKeeper servers"]),
    ],
)
def test_even_number_of_zookeepers_is_warned_of(
    warned: Warned, servers: object, told: list[str]
) -> None:
    found = warned({"cluster.zookeepers": servers})
    assert len(found) == len(told)
    for one, start in zip(found, told, strict=True):
        assert one.startswith(f"cluster.zookeepers: {start}")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cells.min~insync~replicas": [1, 2]}, []),
        ({"cells.acks": ["1", "all"]}, ["no two cells"]),
        ({"cells.min~insync~replicas": [1, 2], "cells.producer~type": "sync"}, ["no two cells"]),
        ({"cells.min~insync~replicas": [1, 2], "cells.alone": True}, ["with cells.alone"]),
    ],
)
def test_producers_that_no_cells_share_are_warned_of(
    warned: Warned, changes: Mapping[str, object], told: list[str]
) -> None:
    one = {"cells.acks": "all", "cells.min~insync~replicas": 1, "faults": []}
    found = warned(one | {"workload.producers~shared": True} | changes)
    assert len(found) == len(told)
    for warning, start in zip(found, told, strict=True):
        assert warning.startswith(f"workload.producers.shared: has no effect: {start}")


def test_even_number_of_controllers_is_warned_of(warned: Warned) -> None:
    kraft = {"cluster.system": "kafka:4.1.1", "cluster.zookeepers": 2, "faults": []}
    kraft["cluster.properties"] = {}
    (found,) = warned(kraft)
    assert found.startswith("cluster.zookeepers: 2 controllers survive no more failures than 1")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"evidence": {"acked.min": 100}}, False),
        ({"evidence": {"acked.min": 100_000}}, True),
        ({"evidence": {"acked.min": 60}, "workload.records": 50}, True),
        ({"evidence": {"acked.min": 50}, "workload.records": 50}, False),
        (
            {"workload.rate": "flat-out", "workload.records": 50, "evidence": {"acked.min": 51}},
            True,
        ),
    ],
)
def test_evidence_beyond_the_planned_sends_is_warned_of(
    warned: Warned, changes: Mapping[str, object], told: bool
) -> None:
    found = warned(changes)
    assert len(found) == told
    assert all(one.startswith("evidence.acked.min: a cell receives about ") for one in found)


@pytest.mark.parametrize(
    ("one", "setting"),
    [
        (fault("pause", LEADER, ["500ms", "1s"]), "zookeeper.session.timeout.ms is 2s"),
        (fault("isolate", LEADER, "1999ms"), "1999ms is over before the cluster notices it"),
        (fault("isolate", LEADER, "9s", service="broker"), "replica.lag.time.max.ms is 30s"),
        (fault("pause", "follower(any, any)", "1s"), "2s and replica.lag.time.max.ms is 30s"),
        (fault("minority", "all", "1s"), "zookeeper.session.timeout.ms is 2s"),
        (fault("cut", f"{LEADER} -> all", "9s"), "replica.lag.time.max.ms is 30s"),
        (fault("cut", f"{LEADER} -> zookeeper", "1s"), "zookeeper.session.timeout.ms is 2s"),
        (fault("halves", "all", "1s"), "zookeeper.session.timeout.ms is 2s and replica.lag.time"),
        (fault("bridge", "all", "1s"), "zookeeper.session.timeout.ms is 2s and replica.lag.time"),
    ],
)
def test_hold_that_is_over_before_the_fault_bites_is_warned_of(
    warned: Warned, one: dict[str, object], setting: str
) -> None:
    (found,) = warned({"faults": [one]})
    assert found.startswith("faults[0].hold: ")
    assert setting in found


@pytest.mark.parametrize(
    ("system", "target", "parameters", "told"),
    [
        ("kafka:4.4.0", "quorum", {}, True),
        ("kafka:4.4.0", "all + quorum", {"offset_ms": -60_000}, True),
        ("kafka:4.4.0", "controller", {"offset_ms": 60_000}, True),
        ("kafka:4.4.0", "quorum", {"offset_ms": 59_999}, False),
        ("kafka:4.4.0", "all", {}, False),
        ("kafka:3.9.2", "zookeeper", {}, False),
        ("bundled", "controller", {}, False),
    ],
)
def test_clock_that_stalls_a_quorum_beyond_the_limit_is_warned_of(
    warned: Warned, system: str, target: str, parameters: dict[str, int], told: bool
) -> None:
    """The limit is one minute, by default, and so is the step."""
    one = fault("step-clock", target, "5s", **parameters)
    found = warned({"faults": [one], "cluster.system": system, "cluster.properties": {}})
    assert len(found) == told
    start = "faults[0].parameters.offset_ms: 1m: a controller whose clock is set back"
    assert all(text.startswith(start) for text in found)


def test_unclean_election_without_another_fault_is_warned_of(warned: Warned) -> None:
    elect = fault("elect-unclean", "topic(acks-all-minisr-2)", "1s")
    kill = fault("kill", LEADER, "9s")
    (found,) = warned({"faults": [kill, elect]})
    assert found.startswith("faults[1].fault: elect-unclean elects no leader while a replica ")
    assert "ELECTION_NOT_NEEDED" in found
    assert "administrator-elects-uncleanly" in found
    assert warned({"faults": [{**kill, "at": "10s"}, {**elect, "at": "15s"}]}) == []
    assert warned({"faults": [{**kill, "at": "10s"}, {**elect, "at": "40s"}]}) != []


@pytest.mark.parametrize(
    "one",
    [
        fault("pause", LEADER, "2s"),
        fault("pause", LEADER, ["1s", "3s"]),
        {"fault": "pause", "target": LEADER},
        fault("kill", LEADER, "0s"),
        fault("terminate", LEADER, "0s"),
        fault("restart", LEADER, "0s"),
        fault("replace", "broker-1", "1s"),
        fault("pause", "zookeeper", "1s"),
        fault("isolate", "clients", "1s"),
        fault("cut", f"clients <-> {LEADER}", "1s"),
        fault("cut", f"one(clients) -> {LEADER}", "1s"),
        fault("cut", f"{LEADER} -> zookeeper", "2s"),
        fault("pause-client", "clients", "1s"),
        fault("narrow", f"{LEADER} -> all", "1s"),
        fault("halves", "all", "3s"),
    ],
    ids=str,
)
def test_hold_that_is_long_enough_is_not_warned_of(warned: Warned, one: dict[str, object]) -> None:
    assert warned({"faults": [one]}) == []


def test_hold_is_judged_by_each_swept_cluster_and_warned_of_once(warned: Warned) -> None:
    timeouts = {
        "zookeeper.session.timeout.ms": [2000, 6000],
        "replica.lag.time.max.ms": [30000, 31000],
    }
    swept = {"cluster.properties": timeouts}
    (found,) = warned({**swept, "faults": [fault("pause", LEADER, "4s")]})
    assert "zookeeper.session.timeout.ms is 6s" in found
    assert "9s has its full effect" in found


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("follower(acks-all-minisr-1, any)", "there is no follower, because acks-all-minisr-1 has"),
        ("next-leader(any, 0)", "there is no next-leader, because every topic has one replica"),
        (
            "isr(acks-all-minisr-1, 0) - leader(acks-all-minisr-1, 0)",
            "it names no server, because the set is empty",
        ),
        ("leader(acks-all-minisr-1, any)", None),
    ],
)
def test_target_that_never_names_a_server_is_warned_of(
    warned: Warned, target: str, reason: str | None
) -> None:
    found = warned({**LONE, "faults": [fault("kill", target, "5s")]})
    expected = [] if reason is None else [f"faults[0].target: {reason}"]
    assert [one[: len(start)] for one, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"expect": {"shown.latency.p99": "<= 1s"}},
            ["expect[0].shown.latency.p99: cannot be measured, because the cell has no tail"],
        ),
        ({"expect": {"shown.latency.p99": "<= 1s"}, "workload.readers": 1}, []),
        (
            {
                "expect": {"shown.latency.p99": "<= 1s"},
                "workload.readers": 1,
                "workload.readers~where": {"acks": "all"},
            },
            [
                "expect[0].shown.latency.p99: cannot be measured in acks-1.minisr-2, because the "
                "cell has no tail reader: give these cells tail readers (workload.readers)"
            ],
        ),
        (
            {"expect": {"latency.p99": "<= 1s", "lost": "<= 0"}, "cells.acks": ["0", "all"]},
            [
                "expect[0].latency.p99: cannot be measured in acks-0.minisr-2, because with acks=0 "
                "no broker acknowledges a record: leave these cells out by `where`"
            ],
        ),
        (
            {
                "expect": [{"where": {"acks": "all"}, "throughput": ">= 1/s"}],
                "cells.acks": ["0", "all"],
            },
            [],
        ),
        (
            {"expect": [{"throughput": ">= 1/s"}, {"throughput": ">= 2/s"}], "cells.acks": "0"},
            ["expect[1].throughput: cannot be measured, because with acks=0"],
        ),
        (
            {"expect": {"unavailable.longest": "<= 5s"}, "faults": []},
            ["expect[0].unavailable.longest: is not tested, because the campaign has no fault"],
        ),
        ({"expect": {"unavailable.longest": "<= 5s"}}, []),
        ({"expect": {"latency.p99": "<= 5s", "throughput": ">= 1/s"}, "faults": []}, []),
    ],
)
def test_threshold_that_says_nothing_is_warned_of(
    warned: Warned, changes: Mapping[str, object], told: list[str]
) -> None:
    found = warned({**SMALL, **changes})
    assert [one[: len(start)] for one, start in zip(found, told, strict=True)] == told


@pytest.mark.parametrize("command", [["validate"], ["run", "--dry-run"]])
def test_warnings_are_printed_with_their_place_and_refuse_nothing(
    campaign_file, command: list[str]
) -> None:
    file = campaign_file({"cluster.zookeepers": 2})
    result = CliRunner().invoke(cli, [*command, str(file)])
    assert result.exit_code == 0, result.output
    line = file.read_text().splitlines().index("  zookeepers: 2") + 1
    assert f"{file}:{line}:" in result.stderr
    assert ": warning: cluster.zookeepers: 2 ZooKeeper servers" in result.stderr
    assert "warning:" not in result.stdout


def test_right_campaign_prints_nothing_on_standard_error(campaign_file) -> None:
    result = CliRunner().invoke(cli, ["run", "--dry-run", str(campaign_file({}))])
    assert (result.exit_code, result.stderr) == (0, "")
