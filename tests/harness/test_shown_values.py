"""Texts for users have the terms of Kafka, and no Python values such as None."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from ackproof.harness.campaign.validation import load
from ackproof.harness.cli import cli
from ackproof.harness.commands.preview import timelines
from ackproof.harness.report.page import _observation

CAMPAIGNS = sorted((Path(__file__).parents[2] / "campaigns").glob("*.yaml"))
PYTHON = re.compile(r"\b(None|True|False)\b|<[A-Z]\w+\.")


def shown(campaign: Path) -> str:
    """Return what a dry run prints."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(timelines(load(campaign).resolved(seed=1)))
    return capture.get()


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda path: path.stem)
def test_dry_run_shows_no_value_of_python(campaign: Path) -> None:
    assert not PYTHON.findall(shown(campaign))


@pytest.mark.parametrize("command", ["clients", "faults", "systems", "workloads", "checkers"])
def test_catalogue_shows_no_value_of_python(command: str) -> None:
    assert not PYTHON.findall(CliRunner().invoke(cli, [command]).output)


def test_proof_in_the_report_shows_no_value_of_python() -> None:
    seen = {"t-0": None, "broker-1": True, "left": [], "modes": {"zookeeper-1": None}}
    assert not PYTHON.findall(_observation(seen))


@pytest.mark.parametrize(
    ("settle", "footnote"),
    [
        ("7s", "after the previous fault is healed and the cluster has settled, for at most 7.0 s"),
        ("0s", "after the previous fault is healed\n"),
    ],
)
def test_dry_run_says_how_long_a_fault_waits_for_the_cluster_to_settle(
    campaign_file, settle: str, footnote: str
) -> None:
    assert footnote in shown(campaign_file({"schedule": {"settle": settle}}))
