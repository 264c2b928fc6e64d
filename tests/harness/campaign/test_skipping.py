"""Skipped parts of a campaign: left out on request, and always reported."""

import json
from pathlib import Path

import pytest
import yaml

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.problems.places import (
    lacking_capabilities,
    nothing_left,
    without_refused,
)
from ackproof.harness.campaign.validation import check
from ackproof.infra.api.interface import Capability

NIGHTLY = Path(__file__).parents[3] / "campaigns/nightly.yaml"
DOCKER = frozenset(Capability) - {Capability.SLOW_DISKS}
FEW = DOCKER - {Capability.LOSE_UNSYNCED_WRITES, Capability.CUT_LINKS}


@pytest.fixture(scope="module")
def nightly() -> Campaign:
    return check(NIGHTLY).campaign.resolved(seed=3, backend="docker")


def test_nightly_loses_its_slow_disk_in_docker_and_nothing_else(nightly: Campaign) -> None:
    kept = without_refused(nightly, DOCKER)
    assert [str(one) for one in lacking_capabilities(kept, DOCKER)] == []
    left_out = [entry for entry in nightly.faults if entry not in kept.faults]
    assert [getattr(entry, "fault", None) for entry in left_out] == ["slow-disk"]
    told = (
        "slow-disk of one: slow-disk needs slow-disks, which the backend docker never "
        "offers: /sys is read-only there"
    )
    runs = runs_of(kept)
    (planned,) = manifest_of(kept, runs).runs
    assert planned.skipped == (told,)
    assert "slow-disk" not in {fault.fault for fault in runs[0].faults}


def test_a_place_that_refuses_nothing_changes_nothing(nightly: Campaign) -> None:
    assert without_refused(nightly, frozenset(Capability)) == nightly
    (planned,) = manifest_of(nightly, runs_of(nightly)).runs
    assert planned.skipped == ()


def test_disks_go_and_stories_go_as_a_whole(nightly: Campaign) -> None:
    kept = without_refused(nightly, FEW)
    assert kept.cluster.disks is None
    assert [str(one) for one in lacking_capabilities(kept, FEW)] == []
    whats = [one.what for one in kept.skipped]
    assert "cluster.disks" in whats
    assert "story last-replica-standing" in whats, "one of its steps is a cut"
    assert len(kept.faults) + len(whats) - 1 == len(nightly.faults)


def test_resolved_campaign_keeps_the_skipped_faults(nightly: Campaign) -> None:
    kept = without_refused(nightly, DOCKER)
    again = Campaign.model_validate_json(json.dumps(yaml.safe_load(kept.to_yaml())))
    assert again.skipped == kept.skipped != ()


def test_a_campaign_of_which_nothing_is_left_is_refused(nightly: Campaign) -> None:
    slow = next(one for one in nightly.faults if getattr(one, "fault", None) == "slow-disk")
    alone = nightly.model_copy(update={"faults": (slow,)})
    (problem,) = nothing_left(alone, without_refused(alone, DOCKER))
    assert str(problem) == "faults: the backend docker refuses all of them"
    assert not list(nothing_left(nightly, without_refused(nightly, DOCKER)))


@pytest.mark.parametrize(
    ("changes", "able", "hinted"),
    [
        ({}, frozenset(Capability) - {Capability.CUT_LINKS}, {"faults[0].fault": True}),
        ({}, frozenset(), {"faults[0].fault": False, "faults[1].fault": False}),
        (
            {"cluster.disks": {}, "faults": []},
            frozenset({Capability.SIGNALS}),
            {"cluster.disks": True},
        ),
        (
            {"failover": {"partitions": 10, "target": "controller"}, "faults": []},
            frozenset(),
            {"failover": False},
        ),
    ],
)
def test_refusal_names_skip_refused_where_something_is_left(
    campaign_file, changes: dict[str, object], able: frozenset[Capability], hinted: dict[str, bool]
) -> None:
    faults = [{"fault": "isolate", "target": "one"}, {"fault": "kill", "target": "one"}]
    campaign = check(campaign_file({"faults": faults, **changes})).campaign
    told = {one.field: one.reason for one in lacking_capabilities(campaign, able)}
    hint = "; `ackproof run --skip-refused` runs the campaign without it"
    assert {field: reason.endswith(hint) for field, reason in told.items()} == hinted
