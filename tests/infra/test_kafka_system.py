"""Apache Kafka under the harness, for real: its jars are fetched where they were not."""

import sys
from pathlib import Path

import pytest

from ackproof.infra.systems import prepare
from ackproof.infra.systems.kafka import releases
from tests.support.clusters.kafka_release import described, records

pytestmark = [pytest.mark.kafka, pytest.mark.integration]

CASES = "cases_kafka.py"
OLD, NOW = releases.VERSIONS[:-2], releases.VERSIONS[-2:]
"""The old ones are here for what they lose: not everything can be asked of them."""
KRAFT = [
    ("3.3.2", "isolated-kraft"),
    ("3.9.1", "isolated-kraft"),
    ("3.9.1", "combined-kraft"),
    ("4.1.1", "combined-kraft"),
]
"""Beside what NOW has by default."""


@pytest.mark.parametrize(
    "case",
    [
        "a_leader_is_killed_and_comes_back",
        "faults_bite_and_heal",
        "what_it_is_asked_and_told",
        "it_goes_by_a_clock",
    ],
)
@pytest.mark.parametrize("version", NOW)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_inside(inside, version: str, case: str) -> None:
    _check(inside, case, f"kafka:{version}")


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_an_old_release(inside, version: str) -> None:
    _check(inside, "a_leader_is_killed_and_comes_back", f"kafka:{version}")


@pytest.mark.parametrize(
    "case",
    ["a_leader_is_killed_and_comes_back", "faults_bite_and_heal", "what_it_is_asked_and_told"],
)
@pytest.mark.parametrize(("version", "quorum"), KRAFT)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_with_another_quorum(inside, version: str, quorum: str, case: str) -> None:
    _check(inside, case, f"kafka:{version}", quorum)


@pytest.mark.parametrize(("version", "quorum"), [("4.1.1", "isolated-kraft"), *KRAFT])
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_a_quorum_of_controllers(inside, version: str, quorum: str) -> None:
    _check(inside, "another_controller_takes_over", f"kafka:{version}", quorum)


def _check(inside, case: str, system: str, quorum: str | None = None) -> None:
    prepare(system, sys.stdout.write)
    if quorum is not None:
        inside.environ["TESTED_METADATA_QUORUM"] = quorum
    # Inside there is another home, and no network.
    inside.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    inside.environ["TESTED_SYSTEM"] = system
    inside.check(CASES, case)


@pytest.mark.parametrize("version", releases.VERSIONS)
def test_release_description_matches_the_stored_one(version: str) -> None:
    known = Path(releases.__file__).with_name(f"{version}.json")
    assert known.read_text(encoding="utf-8") == described(version)


def test_stored_records_of_the_metadata_log_are_those_of_their_release() -> None:
    known = Path(releases.__file__).with_name("records.json")
    assert known.read_text(encoding="utf-8") == records(releases.NEWEST_RECORDS)
