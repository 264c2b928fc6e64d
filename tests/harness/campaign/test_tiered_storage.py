"""Tiered storage in a campaign file: where it can be deployed, and what its faults need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ackproof.harness.campaign.validation import CampaignRefused, check

SHIPPED = Path("campaigns/tiered.yaml").read_text(encoding="utf-8")
TIERED, CLASS = "remote.log.storage.system.enable", "remote.log.storage.manager.class.name"


def refused(path: Path, cluster: Mapping[str, Any]) -> list[str]:
    """Return why the shipped campaign is refused with another cluster."""
    document = yaml.safe_load(SHIPPED)
    document["cluster"] = {**document["cluster"], "system": "kafka:4.1.1", **cluster}
    file = path / "tiered.yaml"
    file.write_text(yaml.safe_dump(document))
    try:
        check(file)
    except CampaignRefused as refusal:
        return [f"{one.field}: {one.reason}" for one in refusal.problems]
    return []


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ({"backend": "docker"}, "all brokers share, which only the backend local has"),
        ({"system": "kafka:3.7.2"}, "deployed with Apache Kafka 3.8 or newer, not kafka:3.7.2"),
        (
            {"system": "kafka:3.9.1", "metadata.quorum": "zookeeper"},
            "kafka:3.9.1 with ZooKeeper is deployed without a remote tier; use KRaft",
        ),
        ({"system": "kafka:3.9.1..kafka:4.1.1"}, "an upgrade is deployed without a remote tier"),
        (
            {"security": {"tls": "server"}},
            "the remote tier keeps its metadata over connections in the clear, without "
            "cluster.security",
        ),
    ],
)
def test_remote_tier_is_refused_where_it_is_not_deployed(
    tmp_path: Path, cluster: Mapping[str, Any], reason: str
) -> None:
    found = refused(tmp_path, cluster)
    assert any(one.startswith(f"cluster.properties.{TIERED}: ") for one in found), found
    assert any(one.endswith(reason) for one in found), found


@pytest.mark.parametrize(
    "properties", [{}, {TIERED: False}, {TIERED: True, CLASS: "example.Storage"}]
)
def test_faults_on_the_remote_tier_need_the_one_that_is_supplied(
    tmp_path: Path, properties: Mapping[str, Any]
) -> None:
    found = refused(tmp_path, {"properties": properties})
    faults = [one for one in found if one.startswith("faults[")]
    assert len(faults) == 3
    assert all(
        one.endswith(f"set {TIERED}: true in cluster.properties, and no {CLASS}") for one in faults
    )
    topic = f"cells.topic.remote.storage.enable: needs brokers with tiered storage: set {TIERED}"
    assert any(one.startswith(topic) for one in found) is (CLASS not in properties)


def test_shipped_campaign_is_right(tmp_path: Path) -> None:
    assert refused(tmp_path, {}) == []
