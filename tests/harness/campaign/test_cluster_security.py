"""The security of a cluster in a campaign file: what it stands for, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.infra.systems.security import ClusterSecurity, TlsKind

KAFKA = "kafka:4.1.1"


def written(path: Path, security: object, **sections: Any) -> Path:
    cluster = {"system": KAFKA, "security": security, **sections.pop("cluster", {})}
    document = {
        "name": "secured",
        "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 1},
        "workload": {"rate": 100},
        "faults": [{"fault": "kill", "target": "one"}],
        **sections,
        "cluster": cluster,
    }
    file = path / "secured.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def refused(path: Path, security: object, **sections: Any) -> list[str]:
    try:
        check(written(path, security, **sections))
    except CampaignRefused as refusal:
        return [f"{one.field}: {one.reason}" for one in refusal.problems]
    return []


@pytest.mark.parametrize(
    ("security", "requested"),
    [
        ({"tls": "server"}, ClusterSecurity(tls=TlsKind.SERVER)),
        ({"tls": "mutual", "acls": True}, ClusterSecurity(tls=TlsKind.MUTUAL, acls=True)),
        ({"sasl": "PLAIN"}, ClusterSecurity(mechanism="PLAIN")),
        (
            {"tls": "server", "sasl": "SCRAM-SHA-512", "acls": True},
            ClusterSecurity(tls=TlsKind.SERVER, mechanism="SCRAM-SHA-512", acls=True),
        ),
    ],
)
def test_campaign_requests_the_security_of_every_cluster(
    tmp_path: Path, security: Mapping[str, object], requested: ClusterSecurity
) -> None:
    cluster = check(written(tmp_path, security, cluster={"brokers": [3, 5]})).campaign.cluster
    found = [spec.security for spec, _ in cluster.points()]
    assert [one and one.requested for one in found] == [requested] * 2


@pytest.mark.parametrize(
    ("security", "sections", "reasons"),
    [
        ({}, {}, ["cluster.security: give tls, sasl, or both"]),
        ({"acls": True, "tls": "server"}, {}, ["cluster.security: acls need clients with a name"]),
        ({"tls": "one-way"}, {}, ["cluster.security.tls: "]),
        ({"sasl": "GSSAPI"}, {}, ["cluster.security.sasl: "]),
        (
            {"tls": "server"},
            {"cluster": {"system": "bundled"}},
            ["cluster.security: bundled is deployed with connections in the clear only"],
        ),
        (
            {"tls": "server"},
            {"cluster": {"system": "kafka:3.9.1"}},
            ["cluster.security: kafka:3.9.1 with ZooKeeper is deployed with connections in"],
        ),
        (
            {"tls": "server"},
            {"cluster": {"metadata.quorum": "dynamic-kraft"}},
            ["cluster.security: metadata.quorum: dynamic-kraft is deployed with connections in"],
        ),
        (
            {"tls": "server"},
            {"cluster": {"properties": {"ssl.client.auth": "required"}}},
            ["cluster.properties.ssl.client.auth: is set by cluster.security"],
        ),
        (
            {"tls": "server"},
            {"cluster": {"properties": {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}}},
            [],
        ),
        (
            {"tls": "server"},
            {"faults": [{"fault": "step-clock", "target": "one"}]},
            ["faults[0].fault: step-clock asks servers for their time by requests in the clear"],
        ),
    ],
)
def test_campaign_is_refused_if_its_cluster_cannot_be_secured(
    tmp_path: Path,
    security: Mapping[str, object],
    sections: Mapping[str, Any],
    reasons: list[str],
) -> None:
    found = refused(tmp_path, security, **sections)
    assert len(found) == len(reasons), found
    assert all(one.startswith(begin) for one, begin in zip(found, reasons, strict=True)), found


@pytest.mark.parametrize("sasl", ["OAUTHBEARER", "PLAIN"])
def test_every_client_can_log_in(tmp_path: Path, sasl: str) -> None:
    clients = ["librdkafka", "java", "aiokafka", "franz-go", "./own"]
    cells = {"acks": "all", "partitions": 1, "client": clients}
    assert refused(tmp_path, {"tls": "server", "sasl": sasl}, cells=cells) == []


def test_connection_of_a_run_is_not_set_for_its_cells(tmp_path: Path) -> None:
    cells = {"acks": "all", "partitions": 1, "producer": {"security.protocol": "ssl"}}
    assert refused(tmp_path, {"tls": "server"}, cells=cells) == [
        "cells.producer.security.protocol: is set by cluster.security"
    ]
