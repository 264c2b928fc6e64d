"""Run inside by test_kafka_upgrade.py: a cluster of Apache Kafka that changes its release."""

import os
from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import Stage
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.nemesis.effects import EffectNotBegun
from tests.support.faults.injection import Striker, nothing_is_lost, striker, with_records

SYSTEM = os.environ["TESTED_SYSTEM"]
QUORUM = os.environ["TESTED_METADATA_QUORUM"]
KEEPERS = {"combined-kraft": 3, "isolated-kraft": 1, "zookeeper": 1}
SERVERS = "all" if QUORUM == "zookeeper" else "all + quorum"
PROPERTIES = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "8000"}


def it_is_upgraded_taken_back_and_finalized(scratch: Path) -> None:
    """Check that servers report each change of release, and that all records survive them."""
    backend = LocalBackend(scratch / "nodes")
    try:
        with striker(
            backend,
            scratch,
            zookeepers=KEEPERS[QUORUM],
            properties=PROPERTIES,
            system_name=SYSTEM,
            metadata_quorum=QUORUM,
        ) as cluster:
            known = with_records(cluster)
            _roll(cluster, "upgrade", "broker-1", Stage.AFTER)
            nothing_is_lost(cluster, known)
            _roll(cluster, "upgrade", SERVERS, Stage.AFTER)
            _roll(cluster, "downgrade", SERVERS, Stage.BEFORE)
            nothing_is_lost(cluster, known)
            _roll(cluster, "upgrade", SERVERS, Stage.AFTER, finalize=True)
            _there_is_no_way_back(cluster)
            nothing_is_lost(cluster, known)
    finally:
        backend.close()


def _roll(cluster: Striker, fault: str, target: str, stage: Stage, **own: object) -> None:
    """Roll the target servers, with proof, and check what all of them report."""
    entry = cluster.strike(fault, target, 0, **own)
    cluster.mend(entry)
    change = cluster.system.upgrade
    assert change is not None
    version = change.versions[stage]
    assert {change.reported(server) for server in entry.target.servers} == {version}


def _there_is_no_way_back(cluster: Striker) -> None:
    entry = cluster.aim("downgrade", SERVERS, 0)
    with pytest.raises(EffectNotBegun, match="Kafka does not go back"):
        cluster.executor.inject(entry)
    cluster.mend(entry)
