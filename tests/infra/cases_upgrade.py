"""Run inside by test_kafka_upgrade.py: a cluster of Apache Kafka that changes its release, or
migrates to KRaft."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import Stage
from ackproof.infra.api.metadata import CONTROLLER_IDS, ChangeKind, ClusterChange
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.nemesis.effects import EffectNotBegun
from tests.support.faults.injection import (
    Known,
    Striker,
    nothing_is_lost,
    striker,
    with_records,
)

SYSTEM = os.environ["TESTED_SYSTEM"]
QUORUM = os.environ["TESTED_METADATA_QUORUM"]
KEEPERS = {"combined-kraft": 3, "isolated-kraft": 1, "zookeeper": 1, "zookeeper-to-kraft": 1}
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


def it_migrates_to_kraft_under_observation(scratch: Path) -> None:
    """Check that the cluster proves each step, that records survive, and that the observation goes
    on in the metadata log, with the same leader epochs and without absent brokers."""
    with _migrating(scratch) as (cluster, known):
        _not_before_its_time(cluster, "all", "kraft")
        _roll(cluster, "migrate", "broker-1", Stage.MIGRATING)
        _roll(cluster, "migrate", "all", Stage.MIGRATING)
        _roll(cluster, "migrate", "broker-1", Stage.KRAFT, to="kraft")
        cluster.through("kill", "controller")
        _not_before_its_time(cluster, "quorum", "final")
        _roll(cluster, "migrate", "all", Stage.KRAFT, to="kraft")
        # Not before: afterwards the controller of 3.9.1 may write no more to ZooKeeper, and
        # brokers that still need it hear of no more leaders.
        cluster.through("pause", "zookeeper")
        nothing_is_lost(cluster, known)
        _roll(cluster, "migrate", "quorum", Stage.KRAFT, to="final")
        cluster.through("kill", "leader(orders, 0)")
        nothing_is_lost(cluster, known)


def it_goes_back_from_dual_write(scratch: Path) -> None:
    """Check that the way back from brokers of KRaft proves each step while servers fail, that
    records survive, and that the observation goes on in ZooKeeper."""
    with _migrating(scratch) as (cluster, known):
        _roll(cluster, "migrate", "all", Stage.MIGRATING)
        _not_before_its_time(cluster, "all", "zookeeper", "migrate-back")
        _roll(cluster, "migrate", "all", Stage.KRAFT, to="kraft")
        _roll(cluster, "migrate-back", "broker-3", Stage.RETURNING, to="migration-mode")
        _not_before_its_time(cluster, "quorum", "broker-controller", "migrate-back")
        cluster.through("kill", "controller")
        _roll(cluster, "migrate-back", "all", Stage.RETURNING, to="migration-mode")
        _goes_back(cluster, known)


def it_goes_back_from_migration_mode(scratch: Path) -> None:
    """Check the same for brokers that never left ZooKeeper."""
    with _migrating(scratch) as (cluster, known):
        _roll(cluster, "migrate", "all", Stage.MIGRATING)
        cluster.through("kill", "leader(orders, 0)")
        _goes_back(cluster, known)


def _goes_back(cluster: Striker, known: Known) -> None:
    cluster.mend(cluster.strike("migrate-back", "quorum", 0, to="broker-controller"))
    nothing_is_lost(cluster, known)
    _roll(cluster, "migrate-back", "broker-1", Stage.BEFORE)
    cluster.through("kill", "broker-1")
    _roll(cluster, "migrate-back", "all", Stage.BEFORE)
    cluster.through("kill", "controller")
    nothing_is_lost(cluster, known)


@contextmanager
def _migrating(scratch: Path) -> Iterator[tuple[Striker, Known]]:
    """A cluster that can migrate, with its known records. At the end its observation must be
    continuous."""
    backend = LocalBackend(scratch / "nodes")
    seen: list[ClusterChange] = []
    try:
        with striker(
            backend,
            scratch,
            zookeepers=1,
            properties=PROPERTIES,
            system_name=SYSTEM,
            metadata_quorum=QUORUM,
        ) as cluster:
            known = with_records(cluster)
            observer = cluster.system.observer(seen.append, time.time_ns)
            observer.start()
            yield cluster, known
            observer.close()
    finally:
        backend.close()
    _is_continuous(seen)


def _not_before_its_time(cluster: Striker, target: str, to: str, fault: str = "migrate") -> None:
    entry = cluster.aim(fault, target, 0, to=to)
    refusals = r"cannot leave ZooKeeper|cannot be final|cannot leave migration mode|and needs them"
    with pytest.raises(EffectNotBegun, match=refusals):
        cluster.executor.inject(entry)
    if to != "broker-controller":
        cluster.mend(entry)


def _is_continuous(seen: list[ClusterChange]) -> None:
    """Check that each change between ZooKeeper and the metadata log is within a gap, and that no
    leader epoch and no version of a partition goes back."""
    blind, taken_over = False, []
    known: dict[tuple[str | None, int | None], tuple[int, int]] = {}
    for one in sorted(seen, key=lambda change: change.time_ns):
        if one.kind in (ChangeKind.ZOOKEEPER_LOST, ChangeKind.ZOOKEEPER_BACK):
            blind = one.kind is ChangeKind.ZOOKEEPER_LOST
        elif one.kind is ChangeKind.CONTROLLER and (one.broker or 0) > CONTROLLER_IDS:
            taken_over.append(blind)
        elif one.kind is ChangeKind.PARTITION and one.version is not None:
            assert one.leader_epoch is not None
            now, key = (one.leader_epoch, one.version), (one.topic, one.partition)
            before = known.get(key, (-1, -1))
            assert now[0] >= before[0], one
            assert now[1] >= before[1], one
            known[key] = now
    assert any(taken_over[:2]), "ZooKeeper names the controller first, or the metadata log does"
    assert known


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
