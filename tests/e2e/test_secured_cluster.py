"""Apache Kafka deployed with TLS, logins and ACLs: from file to report, and where the secrets of
the run are visible meanwhile and afterwards."""

import json
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import psutil
import pytest

from ackproof.config.sensitive import is_sensitive
from ackproof.infra.systems import prepare
from ackproof.workloads.configuration import CONNECTION
from tests.support.processes.deadlines import TEST_S
from tests.support.processes.visible_secrets import Watch, in_files, watching

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.e2e, pytest.mark.integration),
    pytest.mark.timeout(TEST_S),
]

VERSION = "4.1.1"
_PASSWORD = re.compile(r'(?:password|user_\w+)\\?="?([\w-]{20,})')
_KEY = re.compile(r"-----BEGIN PRIVATE KEY-----(?:\\n|\s)(.{64})")
LED = "leader(acks-all-minisr-2, any)"
WORKLOAD = {"rate": 200, "readers": 1, "groups": [{"name": "g", "members": 2}]}
CERTIFICATES = (
    {"fault": "rotate-certificates", "target": "all", "hold": "1s"},
    {"fault": "bad-certificate", "target": LED, "hold": "2s"},
    {
        "fault": "bad-certificate",
        "target": LED,
        "hold": "2s",
        "parameters": {"problem": "foreign"},
    },
)
FAULTS = (
    # Kafka is told by a request that librdkafka does not speak.
    {"fault": "elect-preferred", "target": "partition(acks-all-minisr-2, 0)", "hold": "2s"},
    {"fault": "isolate", "target": "leader(acks-1-minisr-2, any)", "hold": "7s"},
    {"fault": "kill", "target": LED, "hold": "5s"},
)


class SecretsWatch(Watch):
    """A watch that also collects the secrets of clients from their environments, and those of
    servers from their files.

    ``secrets``: what it has collected.
    """

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def look(self, secrets: Collection[str]) -> None:
        for process in psutil.process_iter():
            try:
                self._collect(process.pid, process.cmdline(), process.environ())
            except (psutil.Error, OSError):
                continue
        super().look({*secrets, *self.secrets})

    def _collect(self, pid: int, said: list[str], environment: Mapping[str, str]) -> None:
        for name, value in json.loads(environment.get(CONNECTION, "{}")).items():
            if is_sensitive(name):
                self.secrets |= {value} if "PEM" not in name.upper() else set(_KEY.findall(value))
        if "kafka.Kafka" in said:
            directory = Path(f"/proc/{pid}/root", said[-1].lstrip("/")).parent
            for path in (directory / "server.properties", *directory.glob("security/*.pem")):
                content = path.read_text()
                self.secrets |= {*_PASSWORD.findall(content), *_KEY.findall(content)}


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    prepare(f"kafka:{VERSION}", sys.stdout.write)


@pytest.mark.parametrize(
    ("security", "quorum"),
    [
        ({"tls": "mutual", "acls": True}, "combined-kraft"),
        ({"tls": "server", "sasl": "SCRAM-SHA-512", "acls": True}, "isolated-kraft"),
        ({"sasl": "PLAIN"}, "isolated-kraft"),
        ({"tls": "server", "sasl": "OAUTHBEARER"}, "combined-kraft"),
    ],
    ids=["mutual TLS and ACLs", "TLS, SCRAM and ACLs", "PLAIN", "TLS and OAUTHBEARER"],
)
def test_secured_cluster_gets_its_verdict_and_no_secret_is_kept(
    ackproof, security: Mapping[str, object], quorum: str
) -> None:
    cluster = {
        "system": f"kafka:{VERSION}",
        "metadata.quorum": quorum,
        "security": security,
        "properties": {"broker.session.timeout.ms": 3000, "replica.lag.time.max.ms": 2000},
    }
    faults = [*(CERTIFICATES if "tls" in security else ()), *FAULTS]
    schedule = {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed"}
    ackproof.vary(
        {"cluster": cluster, "workload": WORKLOAD, "faults": faults, "schedule": schedule}
    )
    watch = SecretsWatch()
    with watching((), watch):
        result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert (cells["all"]["lost"], cells["all"]["verdict"]) == (0, "pass")
    assert [fault["proven"] for fault in document["faults"]] == [True] * len(faults)

    assert len(watch.secrets) >= len(security)
    assert watch.arguments == set()
    told = ackproof.directory / "told"
    told.write_text(result.stdout + result.stderr)
    assert in_files(ackproof.directory, watch.secrets) == {}


@pytest.mark.libraries
@pytest.mark.parametrize(
    "security",
    [
        {"tls": "mutual", "sasl": "SCRAM-SHA-512", "acls": True},
        {"sasl": "PLAIN"},
        {"tls": "server", "sasl": "OAUTHBEARER"},
    ],
    ids=["mutual TLS, SCRAM and ACLs", "PLAIN", "TLS and OAUTHBEARER"],
)
def test_every_library_reaches_a_secured_cluster_and_no_secret_is_kept(
    ackproof, security: Mapping[str, object]
) -> None:
    libraries = ["librdkafka", "java", "aiokafka", "franz-go"]
    ackproof.vary(
        {
            "cluster": {
                "system": f"kafka:{VERSION}",
                "metadata.quorum": "combined-kraft",
                "security": security,
            },
            "cells": {"acks": "all", "min.insync.replicas": 2, "client": libraries},
            "workload": {"rate": 50},
            "evidence": {"acked.min": 20},
            "limits": {"deploy": "5m", "ready": "5m"},
            "faults": [],
        }
    )
    watch = SecretsWatch()
    with watching((), watch):
        result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    cells = {cell["client"]: (cell["verdict"], cell["lost"]) for cell in document["cells"]}
    assert cells == dict.fromkeys(libraries, ("pass", 0))
    assert watch.secrets
    assert watch.arguments == set()
    assert in_files(ackproof.directory, watch.secrets) == {}
