"""A campaign says who keeps the metadata of what it puts to the test."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.harness.campaign.backends import BackendContext
from ackproof.harness.campaign.plan.context import planned_members
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.harness.cli import cli

CAMPAIGNS = Path(__file__).parents[3] / "campaigns"
COMBINED = ("--system", "kafka:4.1.1", "--metadata-quorum", "combined-kraft")


@pytest.mark.parametrize(
    ("system", "asked", "quorum", "keeper"),
    [
        ("bundled", None, "zookeeper", "zookeeper-1"),
        ("kafka:3.9.1", None, "zookeeper", "zookeeper-1"),
        ("kafka:3.9.1", "isolated-kraft", "isolated-kraft", "controller-1"),
        ("kafka:3.3.2", "combined-kraft", "combined-kraft", "broker-1"),
        ("kafka:4.1.1", None, "isolated-kraft", "controller-1"),
        ("kafka:4.1.1", "combined-kraft", "combined-kraft", "broker-1"),
    ],
)
def test_the_quick_campaign_is_right_for_every_system(
    system: str, asked: str | None, quorum: str, keeper: str
) -> None:
    file = check(CAMPAIGNS / "quick.yaml", system=system, metadata_quorum=asked)
    campaign = file.campaign.resolved(seed=1)
    (run,) = runs_of(campaign)
    assert planned_members(run.cluster).zookeepers == (keeper,)
    site = BackendContext(cluster=run.cluster, tell=pytest.fail)
    assert sorted(site.nodes) == sorted({keeper, "broker-1", "broker-2", "broker-3", "client-1"})
    manifest = manifest_of(campaign, [run])
    (planned,) = manifest.runs
    assert (manifest.system, manifest.metadata_quorum) == (system, quorum)
    assert planned.zookeeper is (quorum == "zookeeper")
    assert planned.combined == (("broker-1",) if quorum == "combined-kraft" else ())
    assert planned.session_timeout_ms == 3000


@pytest.mark.parametrize(
    ("cluster", "field", "says"),
    [
        (
            {"metadata.quorum": "combined-kraft"},
            "metadata.quorum",
            "bundled keeps its metadata in ZooKeeper; Apache Kafka supports KRaft from 3.3 on",
        ),
        (
            {"system": "kafka:2.0.1", "metadata.quorum": "isolated-kraft"},
            "metadata.quorum",
            "kafka:2.0.1 keeps its metadata in ZooKeeper",
        ),
        (
            {"system": "kafka:4.1.1", "metadata.quorum": "zookeeper"},
            "metadata.quorum",
            "kafka:4.1.1 keeps its metadata with KRaft; Apache Kafka supports ZooKeeper before 4.0",
        ),
        (
            {"system": "kafka:3.9.1", "metadata.quorum": "kraft"},
            "metadata.quorum",
            "isolated-kraft",
        ),
        (
            {
                "system": "kafka:3.9.1",
                "metadata.quorum": "combined-kraft",
                "brokers": [3, 2],
                "zookeepers": [1, 3],
            },
            "zookeepers",
            "are the controllers: 3 controllers need as many brokers, but there are 2",
        ),
        (
            {
                "system": "kafka:3.9.1",
                "metadata.quorum": "isolated-kraft",
                "properties": {"zookeeper.connection.timeout.ms": 5},
            },
            "properties.zookeeper.connection.timeout.ms",
            "is a property of brokers on ZooKeeper, not of kafka:3.9.1 with KRaft",
        ),
    ],
)
def test_unsupported_metadata_quorum_is_refused(
    campaign_file, cluster: dict[str, object], field: str, says: str
) -> None:
    small = {"cells.replication~factor": 2, "cells.min~insync~replicas": 1, "faults": []}
    changes = {f"cluster.{name.replace('.', '~')}": value for name, value in cluster.items()}
    with pytest.raises(CampaignRefused) as refused:
        check(campaign_file(small | changes))
    (problem,) = refused.value.problems
    assert problem.field == f"cluster.{field}"
    assert says in problem.reason


def test_invalid_pair_hides_no_other_problem(campaign_file) -> None:
    """Test that an invalid pair of settings hides no other problem, and causes no consequent
    ones."""
    changes = {"cluster.metadata~quorum": "isolated-kraft", "workload.rate": "fast"}
    with pytest.raises(CampaignRefused) as refused:
        check(campaign_file(changes))
    assert {one.field for one in refused.value.problems} == {
        "cluster.metadata.quorum",
        "workload.rate",
    }


def test_requested_metadata_quorum_is_written_to_the_copy(campaign_file, tmp_path: Path) -> None:
    file = campaign_file({"cluster.system": "kafka:3.9.1", "faults": []})
    asked = check(file, metadata_quorum="combined-kraft").campaign.resolved(seed=1)
    copy = tmp_path / "copy.yaml"
    copy.write_text(asked.to_yaml())
    assert "metadata.quorum: combined-kraft\n" in copy.read_text()
    assert load(copy) == asked
    assert check(copy, system="kafka:4.1.1").campaign.cluster.smallest.quorum == "combined-kraft"
    assert "metadata.quorum" not in load(file).resolved(seed=1).to_yaml()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--metadata-quorum", "isolated-kraft"), "bundled keeps its metadata in ZooKeeper"),
        (
            ("--system", "kafka:4.1.1", "--metadata-quorum", "zookeeper"),
            "Apache Kafka supports ZooKeeper before 4.0",
        ),
        (("--system", "kafka:4.1.1", "--metadata-quorum", "kraft"), "'isolated-kraft'"),
        (
            (*COMBINED, "--zookeepers", "3", "--brokers", "2"),
            "3 controllers need as many brokers, but there are 2",
        ),
    ],
)
def test_a_standing_cluster_that_cannot_be(options: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli, ["cluster", "up", *options])
    assert result.exit_code == 2
    assert says in result.output


def test_the_command_line_wins_over_the_file(campaign_file) -> None:
    file = campaign_file(
        {"cluster.system": "kafka:3.9.1", "cluster.metadata~quorum": "isolated-kraft"}
    )
    bundled = ["run", str(file), "--system", "bundled", "--dry-run"]
    told = CliRunner().invoke(cli, [*bundled, "--metadata-quorum", "zookeeper"])
    assert told.exit_code == 0, told.output
    refused = CliRunner().invoke(cli, bundled)
    assert refused.exit_code == 2
    assert "cluster.metadata.quorum: bundled keeps its metadata in ZooKeeper" in refused.output
