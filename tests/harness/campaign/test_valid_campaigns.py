"""Valid campaigns, however large, and their copies, which read back unchanged."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ackproof.harness.campaign.clients import refusal
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.workloads.interface import Delivery

CAMPAIGNS = Path(__file__).parents[3] / "campaigns"


def test_large_campaign_is_accepted_if_confirmed(campaign_file) -> None:
    file = campaign_file({"runs": 100, "workload.rate": 10**5, "schedule": {"warmup": "1h"}})
    with pytest.raises(CampaignRefused) as refused:
        check(file)
    told = [one.field for one in refused.value.problems]
    assert set(told) == {"runs", "schedule", "workload.rate", "workload.record.bytes"}
    check(file, meant=True)


def test_24_cells_with_12_producers_and_6_consumers_each_may_be_meant(campaign_file) -> None:
    wide = {
        "cells.unclean~leader~election~enable": [False, True],
        "cells.producer": {"linger.ms": [5, 50]},
        "workload": {"rate": 12, "record.bytes": 100, "producers": 12, "readers": 6},
        "schedule": {"order": "drawn", "lasts": "30m"},
        "faults": [{"fault": "kill", "target": "leader(any, any)"}],
    }
    file = campaign_file(wide)
    with pytest.raises(
        CampaignRefused, match=r"436 in total, above 120\. To run it anyway: --yes"
    ) as no:
        check(file)
    assert [one.field for one in no.value.problems] == ["workload"]
    check(file, meant=True)


@pytest.mark.parametrize("path", sorted(CAMPAIGNS.glob("*.yaml")), ids=lambda p: p.name)
def test_the_campaigns_that_ship_are_right(path: Path) -> None:
    check(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"cells.topic": {"retention.ms": -1, "segment.bytes": 1000}},
        {"cluster.properties.log~retention~check~interval~ms": 1000},
        {"cluster.properties.log~retention~ms": -1},
        {"faults": [], "expect": "inconclusive"},
        {"expect": [{"where": {"acks": -1, "min.insync.replicas": 2}, "verdict": "pass"}]},
        {"expect": [{"verdict": ["fail", "pass"]}]},
        {"workload.groups": [{"name": "more-than-partitions", "members": 5}]},
        {
            "workload.groups": [
                {
                    "name": "together",
                    "members": 1,
                    "consumer": {"session.timeout.ms": 400_000, "max.poll.interval.ms": 500_000},
                }
            ]
        },
    ],
)
def test_accepted(campaign_file, changes: Mapping[str, object]) -> None:
    file = campaign_file(changes)
    check(file)


def test_the_resolved_file_reads_back(campaign_file, tmp_path: Path) -> None:
    swept = {"cluster.brokers": [3, 4], "expect": "fail", "cells.topic": {"segment.bytes": [1, 2]}}
    campaign = load(campaign_file(swept))
    resolved = campaign.resolved(seed=42, backend=None)
    file = tmp_path / "resolved.yaml"
    file.write_text(resolved.to_yaml())
    assert load(file) == resolved
    assert load(file).seed == 42
    assert "zookeepers: 1\n" in file.read_text()
    assert "verdict: fail\n" in file.read_text()


def test_a_list_of_verdicts_reads_back(campaign_file, tmp_path: Path) -> None:
    campaign = load(campaign_file({"expect": [{"verdict": ["fail", "pass"]}]}))
    file = tmp_path / "resolved.yaml"
    file.write_text(campaign.to_yaml())
    assert load(file).expect == campaign.expect
    assert [one.value for one in load(file).expect[0].verdict] == ["fail", "pass"]


def test_groups_read_back(campaign_file, tmp_path: Path) -> None:
    group = {"name": "a", "members": 2, "delivery": "auto-commit", "consumer": {"check": 1}}
    campaign = load(campaign_file({"workload.groups": [group], "workload.producers": 3}))
    file = tmp_path / "resolved.yaml"
    file.write_text(campaign.to_yaml())
    assert load(file).workload == campaign.workload
    (read,) = (spec.group for spec in load(file).workload.groups)
    assert (read.delivery, read.config, read.static) == (Delivery.AUTO_COMMIT, {"check": 1}, False)


OIDC = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "mine",
}


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_trying_a_debug_setting_prints_nothing(campaign_file, capfd, client: str) -> None:
    own = {"debug": "all"}
    changes = (
        {"cells.producer": own}
        if client == "producer"
        else {"workload.groups": [{"name": "g", "members": 1, "consumer": own}]}
    )
    check(campaign_file(changes))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("made", [Producer, Consumer])
def test_trying_a_token_endpoint_contacts_nothing(made) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        config = {"group.id": "g", **OIDC, "sasl.oauthbearer.token.endpoint.url": endpoint}
        assert refusal(made, config) is None
        # The refresh of the token runs in a thread of librdkafka, which has ended by now.
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    "names",
    [
        "{acks}-{min.insync.replicas}",
        {"name": "cell.{acks}_{min.insync.replicas}"},
        [{"where": {"acks": 1, "min.insync.replicas": 2}, "name": "orders"}],
    ],
)
def test_names_of_cells_read_back(campaign_file, tmp_path: Path, names: object) -> None:
    campaign = check(campaign_file({"cells.name": names, "faults": []})).campaign
    file = tmp_path / "resolved.yaml"
    file.write_text(campaign.resolved(seed=1).to_yaml())
    assert load(file).cells == campaign.cells
    assert expand(load(file).cells) == expand(campaign.cells)


def test_target_names_a_cell_by_its_given_name(campaign_file) -> None:
    names = [{"where": {"acks": 1, "min.insync.replicas": 2}, "name": "orders"}]
    fault = {"fault": "kill", "target": "leader(orders, any)"}
    assert check(campaign_file({"cells.name": names, "faults": [fault]}))
