"""A campaign is refused before it starts where its results have no room."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli
from ackproof.harness.commands import run
from ackproof.infra.api.interface import InfraError


def test_campaign_without_room_is_refused_in_one_line(campaign_file, tmp_path: Path) -> None:
    file = campaign_file(
        {
            "cells.acks": "all",
            "faults": [],
            "schedule": {"warmup": "4h"},
            "workload": {"rate": 1000, "record.bytes": 100_000},
        }
    )
    out = tmp_path / "results"
    told = CliRunner().invoke(cli, ["run", str(file), "--out", str(out), "--yes"])
    assert told.exit_code == 5, told.output
    assert len(told.stderr.splitlines()) == 1
    assert f"{out} has " in told.stderr
    assert "MB of free space" in told.stderr
    assert not out.exists()


def test_small_campaign_needs_little(campaign_file, tmp_path: Path) -> None:
    campaign = check(campaign_file({"cells.acks": "all", "faults": []})).campaign
    run.require(campaign, tmp_path / "not" / "there" / "yet")
    with pytest.raises(InfraError, match="MB of free space"):
        run.require(campaign, Path("/proc/sys"))
