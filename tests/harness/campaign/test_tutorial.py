"""The campaigns and commands of ``docs/tutorial.md`` are right as they are written there."""

import re
import shlex
from pathlib import Path

import click
import pytest

from ackproof.harness.campaign.lint import warnings
from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli

PAGE = (Path(__file__).parents[3] / "docs/tutorial.md").read_text(encoding="utf-8")
FIRST, INSTEAD = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def three() -> str:
    """Return ``three.yaml`` as section 5 derives it from ``first.yaml``."""
    assert 'Set `name: three` and `acks: "1"`.' in PAGE
    kept, _, _ = FIRST.partition("faults:\n")
    return kept.replace("name: first", "name: three") + INSTEAD


@pytest.mark.parametrize("content", [FIRST, three()], ids=["first", "three"])
def test_campaign_of_the_tutorial_is_right_without_a_warning(tmp_path: Path, content: str) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(content, encoding="utf-8")
    assert list(warnings(check(file).campaign)) == []


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_tutorial_is_accepted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first.yaml", "three.yaml"):
        Path(name).touch()
    Path("results/latest").mkdir(parents=True)
    program, name, *arguments = shlex.split(line)
    assert program == "ackproof"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, arguments)
