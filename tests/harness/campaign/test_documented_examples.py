"""The examples of campaigns and commands in the documents are right as they are written there."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
import yaml

from ackproof.harness.campaign.validation import check
from ackproof.harness.cli import cli

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BASE = """\
name: documented
cells: {acks: ["1", all], min.insync.replicas: [1, 2]}
workload: {rate: 10}
faults: []
"""
_END_OF_COMMAND = re.compile(r"&&|[>|;]")


def blocks(page: Path, language: str) -> Sequence[str]:
    """Return the fenced blocks of a page in a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[str]:
    """Yield each command of the documents once, without what the shell does with it."""
    lines = {
        _END_OF_COMMAND.split(line)[0]
        for page in PAGES
        for language in ("", "sh")
        for block in blocks(page, language)
        for line in block.splitlines()
    }
    for line in sorted(lines):
        if line.startswith("ackproof "):
            yield " ".join(shlex.split(line, comments=True))


@pytest.mark.parametrize("page", ["campaigns", "ci", "compare-releases", "schedules"])
def test_documented_sections_of_a_campaign_are_valid(tmp_path: Path, page: str) -> None:
    sections = [yaml.safe_load(block) or {} for block in blocks(ROOT / f"docs/{page}.md", "yaml")]
    known = [one for one in sections if one.keys() & {"cells", "expect", "faults", "runs"}]
    assert known
    file = tmp_path / "campaign.yaml"
    for section in known:
        whole = yaml.safe_load(BASE) | section
        file.write_text(yaml.safe_dump(whole), encoding="utf-8")
        check(file)


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_documented_command_is_accepted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, *words = line.split()
    for word in words:
        if word.endswith((".yaml", ".jsonl")):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
        elif word.startswith("results/"):
            Path(word).mkdir(parents=True, exist_ok=True)
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    command.make_context(name, words)
