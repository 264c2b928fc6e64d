"""Campaigns with two releases: what is accepted, what is refused, and how releases are written."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ackproof.harness.campaign.docs import schema
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import plan_context
from ackproof.harness.campaign.validation import CampaignRefused, check, load

TWO = "kafka:3.9.2..kafka:4.4.0"
UPGRADE = {"fault": "upgrade", "target": "all + quorum"}
FINALIZE = {**UPGRADE, "parameters": {"finalize": True}}
DOWNGRADE = {"fault": "downgrade", "target": "all + quorum"}
KILL = {"fault": "kill", "target": "one"}
LISTED = {"order": "listed"}


def campaign(faults: list[dict[str, Any]], **sections: Any) -> dict[str, Any]:
    """Return the content of a campaign file with an upgrade."""
    cluster = {"system": {"from": "kafka:3.9.2", "to": "kafka:4.4.0"}}
    return copy.deepcopy(
        {
            "name": "upgrade",
            "cluster": cluster,
            "cells": {"acks": "all"},
            "workload": {"kind": "produce", "rate": 10},
            "faults": faults,
            **sections,
        }
    )


def accepted(tmp_path: Path, content: dict[str, Any], **how: Any) -> Campaign:
    """Return the campaign of a file with this content."""
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump(content))
    return check(path, **how).campaign


def refused(tmp_path: Path, content: dict[str, Any], **how: Any) -> dict[str, str]:
    """Return the reasons for which a file with this content is refused, by field."""
    with pytest.raises(CampaignRefused) as refusal:
        accepted(tmp_path, content, **how)
    return {one.field: one.reason for one in refusal.value.problems}


@pytest.mark.parametrize(
    ("faults", "schedule"),
    [
        ([UPGRADE], {}),
        ([KILL, UPGRADE], {}),
        ([{**FINALIZE, "at": "10s"}, KILL], {}),
        ([UPGRADE, KILL, FINALIZE], LISTED),
        ([UPGRADE, KILL, DOWNGRADE], LISTED),
        ([UPGRADE, DOWNGRADE, FINALIZE], LISTED),
        ([UPGRADE, DOWNGRADE], {**LISTED, "rounds": 2}),
    ],
)
def test_certain_sequence_of_rolls_is_accepted(
    tmp_path: Path, faults: list[dict[str, Any]], schedule: dict[str, Any]
) -> None:
    found = accepted(tmp_path, campaign(faults, schedule=schedule))
    assert found.cluster.system == TWO
    assert found.cluster.largest.quorum == "isolated-kraft"


@pytest.mark.parametrize(
    ("faults", "schedule", "field", "says"),
    [
        ([KILL], {}, "cluster.system", "no fault changes servers to the newer one"),
        ([DOWNGRADE], {}, "cluster.system", "no fault changes servers to the newer one"),
        ([DOWNGRADE, UPGRADE], LISTED, "faults[0].fault", "nothing to take back"),
        ([FINALIZE, DOWNGRADE], LISTED, "faults[1].fault", "does not go back from there"),
        ([UPGRADE, DOWNGRADE], {}, "schedule.order", "need `order: listed`"),
        ([UPGRADE, FINALIZE], {**LISTED, "lanes": 2}, "schedule.lanes", "and one lane"),
        ([UPGRADE, {**FINALIZE, "at": "9s"}], LISTED, "faults[1].at", "must be certain"),
        ([UPGRADE], {"rounds": 2}, "schedule.rounds", "a second upgrade has nothing to change"),
        ([UPGRADE], {"lasts": "5m"}, "schedule.lasts", "a second upgrade has nothing to change"),
        (
            [UPGRADE, DOWNGRADE, FINALIZE],
            {**LISTED, "rounds": 2},
            "faults[1].fault",
            "does not go back from there",
        ),
    ],
)
def test_uncertain_or_impossible_sequence_is_refused(
    tmp_path: Path, faults: list[dict[str, Any]], schedule: dict[str, Any], field: str, says: str
) -> None:
    assert says in refused(tmp_path, campaign(faults, schedule=schedule))[field]


@pytest.mark.parametrize(
    ("system", "says"),
    [
        ({"from": "kafka:2.8.2", "to": "kafka:4.4.0"}, "migration to KRaft (KIP-866)"),
        ({"from": "kafka:3.2.3", "to": "kafka:4.0.0"}, "KRaft can be upgraded from 3.3 on"),
        ({"from": "kafka:4.4.0", "to": "kafka:3.9.2"}, "use the fault downgrade"),
        ({"from": "kafka:3.9.2", "to": "kafka:3.9.2"}, "have the same version"),
        ({"from": "kafka:2.0.1", "to": "kafka:3.9.2"}, "begins with Apache Kafka 2.4"),
        ({"from": "kafka:3.9.2", "to": "kafka:four"}, "'four' is neither a version nor"),
        ({"from": "kafka:3.9.2", "to": "bundled"}, "is neither a version nor"),
        ({"from": "bundled", "to": "kafka:4.4.0"}, "bundled..kafka:4.4.0"),
        ({"from": "kafka:3.9.2"}, "a mapping must have two releases, {from: kafka:3.9.2, to:"),
        ({"from": "kafka:3.9.2", "to": 4.4}, "a mapping must have two releases"),
        ({"from": "kafka:3.9.2", "to": "kafka:4.4.0", "via": "x"}, "must have two releases"),
    ],
)
def test_unsupported_jump_is_refused_with_the_reason(
    tmp_path: Path, system: dict[str, Any], says: str
) -> None:
    assert (
        says in refused(tmp_path, campaign([UPGRADE], cluster={"system": system}))["cluster.system"]
    )


@pytest.mark.parametrize("fault", [UPGRADE, DOWNGRADE])
@pytest.mark.parametrize("system", ["bundled", "kafka:3.9.1"])
def test_roll_with_one_release_is_refused(
    tmp_path: Path, fault: dict[str, Any], system: str
) -> None:
    found = refused(tmp_path, campaign([{**fault, "target": "all"}]), system=system)
    assert "needs two releases" in found["faults[0].fault"]
    assert f"there is only {system}" in found["faults[0].fault"]


@pytest.mark.parametrize(
    ("system", "target"), [(TWO, "all + quorum"), ("kafka:2.8.2..kafka:3.9.2", "all")]
)
def test_missing_upgrade_is_shown_for_the_metadata_quorum(
    tmp_path: Path, system: str, target: str
) -> None:
    found = refused(tmp_path, campaign([KILL], cluster={"system": system}))
    assert f"add {{fault: upgrade, target: {target}}}, or" in found["cluster.system"]


def test_zookeeper_servers_are_not_upgraded(tmp_path: Path) -> None:
    cluster = {"system": "kafka:2.8.2..kafka:3.9.2"}
    accepted(tmp_path, campaign([{**FINALIZE, "target": "all"}], cluster=cluster))
    found = refused(tmp_path, campaign([UPGRADE], cluster=cluster))
    assert "ZooKeeper keeps its version" in found["faults[0].target"]


def test_protocol_version_of_the_brokers_is_the_upgrades_own(tmp_path: Path) -> None:
    name = "inter.broker.protocol.version"
    cluster = {"system": "kafka:2.8.2..kafka:3.9.2", "properties": {name: "2.8"}}
    found = refused(tmp_path, campaign([{**UPGRADE, "target": "all"}], cluster=cluster))
    assert "set by the upgrade itself" in found[f"cluster.properties.{name}"]


def test_system_of_the_command_line_may_have_two_releases(tmp_path: Path) -> None:
    content = campaign([UPGRADE], cluster={"system": "bundled"})
    for system in ("kafka:4.1.2..kafka:4.4.0", "kafka:4.1.2..4.4.0"):
        found = accepted(tmp_path, content, system=system)
        assert found.resolved(seed=1).cluster.system == "kafka:4.1.2..kafka:4.4.0"


def migration(*steps: str | dict[str, Any], **cluster: Any) -> dict[str, Any]:
    """Return the content of a campaign file with these steps of a migration, or other faults."""
    faults = [
        one
        if isinstance(one, dict)
        else {
            "fault": "migrate",
            "target": "quorum" if one == "final" else "all",
            "parameters": {"to": one},
        }
        for one in steps
    ]
    quorum = {"system": "kafka:3.9.1", "metadata.quorum": "zookeeper-to-kraft"}
    return campaign(faults, cluster={**quorum, **cluster}, schedule=LISTED)


def back(to: str) -> dict[str, Any]:
    """Return a step of the way back."""
    target = "quorum" if to == "broker-controller" else "all"
    return {"fault": "migrate-back", "target": target, "parameters": {"to": to}}


@pytest.mark.parametrize(
    "steps",
    [
        ["migration-mode"],
        ["migration-mode", KILL, "migration-mode", "kraft", "kraft", "final"],
        [{"fault": "migrate", "target": "broker-1"}, back("zookeeper")],
        ["migration-mode", back("broker-controller"), KILL, back("zookeeper"), back("zookeeper")],
        [
            *("migration-mode", "kraft"),
            *map(back, ("migration-mode", "broker-controller", "zookeeper")),
        ],
    ],
)
def test_steps_of_a_migration_are_accepted_in_their_order(tmp_path: Path, steps: list[Any]) -> None:
    found = accepted(tmp_path, migration(*steps, zookeepers=3))
    assert found.cluster.largest.keepers == tuple(
        f"{kind}-{number}" for kind in ("zookeeper", "controller") for number in (1, 2, 3)
    )
    for fault in scheduler.plan(found, 1, plan_context(found, found.cluster.largest)):
        assert fault.end_ms > fault.start_ms


@pytest.mark.parametrize(
    ("steps", "field", "says"),
    [
        ([KILL], "cluster.metadata.quorum", "no fault does it: add {fault: migrate, target: all}"),
        (["kraft"], "faults[0].fault", "needs `to: migration-mode` before it"),
        (["migration-mode", "final"], "faults[1].fault", "needs `to: kraft` before it"),
        (
            ["migration-mode", "kraft", "migration-mode"],
            "faults[2].fault",
            "comes before `to: kraft`, not after it",
        ),
        (["migration-mode", UPGRADE], "faults[1].fault", "a cluster that does not migrate"),
        ([back("zookeeper")], "cluster.metadata.quorum", "no fault does it"),
        (
            [back("zookeeper"), "migration-mode"],
            "faults[0].fault",
            "migrate-back with `to: zookeeper` needs `to: migration-mode` before it",
        ),
        (
            ["migration-mode", back("migration-mode")],
            "faults[1].fault",
            "migrate-back with `to: migration-mode` needs `to: kraft` before it",
        ),
        (
            ["migration-mode", "kraft", back("broker-controller")],
            "faults[2].fault",
            "needs migrate-back with `to: migration-mode` before it",
        ),
        (
            ["migration-mode", back("zookeeper")],
            "faults[1].fault",
            "needs migrate-back with `to: broker-controller` before it",
        ),
        (
            ["migration-mode", "kraft", "final", back("migration-mode")],
            "faults[3].fault",
            "Kafka does not go back from there: leave `final` out, or go back before it",
        ),
        (
            ["migration-mode", "kraft", back("migration-mode"), "kraft"],
            "faults[3].fault",
            "`to: kraft` comes before migrate-back with `to: migration-mode`, not after it",
        ),
        (
            [{"fault": "migrate", "target": "all + quorum"}],
            "faults[0].target",
            "migrate to migration-mode restarts brokers, not controller-1",
        ),
        (
            ["migration-mode", "kraft", {**KILL, "target": "zk-leader"}],
            "faults[2].target",
            "in a migration name a server, such as zookeeper-1",
        ),
    ],
)
def test_steps_of_a_migration_that_cannot_be_are_refused(
    tmp_path: Path, steps: list[Any], field: str, says: str
) -> None:
    assert says in refused(tmp_path, migration(*steps))[field]


@pytest.mark.parametrize("system", ["kafka:4.1.1", "kafka:3.3.2", "bundled", TWO])
def test_system_that_cannot_migrate_is_refused_by_name(tmp_path: Path, system: str) -> None:
    found = refused(tmp_path, migration("migration-mode", system=system))
    assert f"{system} does not migrate from ZooKeeper" in found["cluster.metadata.quorum"]
    found = refused(tmp_path, campaign([{"fault": "migrate", "target": "all"}], cluster={}))
    assert "migrate needs cluster.metadata.quorum: zookeeper-to-kraft" in found["faults[0].fault"]


@pytest.mark.parametrize(("quorum", "servers"), [("isolated-kraft", 3 + 3), ("combined-kraft", 3)])
def test_plan_expects_a_roll_to_take_its_time(tmp_path: Path, quorum: str, servers: int) -> None:
    cluster = {"system": TWO, "zookeepers": 3, "metadata.quorum": quorum}
    roll = {**UPGRADE, "hold": "1s", "parameters": {"pause_ms": 500}}
    found = accepted(tmp_path, campaign([roll], cluster=cluster))
    (fault,) = scheduler.plan(found, 1, plan_context(found, found.cluster.largest))
    assert fault.end_ms - fault.start_ms == servers * (15_000 + 500)


def test_stored_campaign_reads_back_with_its_two_releases(tmp_path: Path) -> None:
    copied = tmp_path / "copy.yaml"
    copied.write_text(accepted(tmp_path, campaign([UPGRADE])).to_yaml())
    assert load(copied).cluster.system == TWO
    assert check(copied).campaign.cluster.system == TWO


def test_schema_knows_both_ways_to_write_two_releases() -> None:
    named, two = schema()["$defs"]["ClusterSweep"]["properties"]["system"]["anyOf"]
    assert re.search(named["pattern"], TWO)
    assert (two["required"], two["additionalProperties"]) == (["from", "to"], False)
