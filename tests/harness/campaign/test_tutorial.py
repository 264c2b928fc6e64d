"""The campaigns and commands of ``docs/tutorial.md`` are right as they are written there."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from ackproof.harness.campaign.lint import warnings
from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli

PAGE = (Path(__file__).parents[3] / "docs/tutorial.md").read_text(encoding="utf-8")
FIRST, ADDED = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def old() -> str:
    """Return ``old.yaml`` as section 5 derives it from ``first.yaml`` of section 4."""
    campaign = yaml.safe_load(FIRST)
    del campaign["expect"]
    campaign["name"] = "old"
    campaign["cells"]["acks"] = "all"
    campaign["schedule"]["tail"] = "8s"
    sections = {
        "under cluster.properties": campaign["cluster"]["properties"],
        "under cells": campaign["cells"],
        "under schedule": campaign["schedule"],
    }
    settings, faults = ADDED.split("faults:\n")
    place = None
    for line in settings.splitlines():
        setting, _, comment = line.partition("#")
        place = sections[comment.strip()] if comment else place
        assert place is not None
        place.update(yaml.safe_load(setting))
    return yaml.safe_dump({**campaign, "faults": yaml.safe_load(faults)}, sort_keys=False)


@pytest.mark.parametrize("content", [FIRST, old()], ids=["first", "old"])
def test_campaign_of_the_tutorial_is_right_without_a_warning(tmp_path: Path, content: str) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(content, encoding="utf-8")
    assert list(warnings(check(file).campaign)) == []


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_tutorial_is_accepted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first.yaml", "old.yaml"):
        Path(name).touch()
    Path("results/latest").mkdir(parents=True)
    program, name, *arguments = shlex.split(line)
    assert program == "ackproof"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, arguments)
