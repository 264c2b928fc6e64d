"""Upgrades of a real cluster of Apache Kafka, whose releases are fetched where they were not."""

import sys
from pathlib import Path

import pytest

from ackproof.infra.systems import prepare

pytestmark = [pytest.mark.kafka, pytest.mark.integration]


@pytest.mark.parametrize(
    "case",
    [
        "it_migrates_to_kraft_under_observation",
        "it_goes_back_from_dual_write",
        "it_goes_back_from_migration_mode",
    ],
)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_cluster_migrates_under_observation(inside, case: str) -> None:
    _check(inside, "kafka:3.9.1", "zookeeper-to-kraft", case)


@pytest.mark.parametrize(
    ("system", "quorum"),
    [
        ("kafka:3.9.1..kafka:4.1.1", "combined-kraft"),
        ("kafka:3.8.1..kafka:3.9.1", "zookeeper"),
    ],
)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_cluster_is_upgraded_taken_back_and_finalized(inside, system: str, quorum: str) -> None:
    _check(inside, system, quorum, "it_is_upgraded_taken_back_and_finalized")


def _check(inside, system: str, quorum: str, case: str) -> None:
    prepare(system, sys.stdout.write)
    inside.environ["TESTED_METADATA_QUORUM"] = quorum
    # Inside there is another home, and no network.
    inside.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    inside.environ["TESTED_SYSTEM"] = system
    inside.check("cases_upgrade.py", case)
