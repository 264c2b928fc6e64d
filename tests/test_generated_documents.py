"""Generated documents in the tree: up to date and complete."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ackproof.harness.campaign.docs import schema
from ackproof.harness.campaign.plan.stories import catalogue
from ackproof.harness.cli import cli
from ackproof.nemesis import FAULTS
from ackproof.nemesis.targets import expressions

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")
EXTERNAL = (ROOT / "docs" / "your-cluster.md").read_text(encoding="utf-8")
ON_EXTERNAL_PAGE = {
    *("ControllersSpec", "SecretSpec", "HandSpec", "CommandsSpec", "SshSpec", "KubernetesSpec"),
}
"""The sections of a campaign file whose keys ``docs/your-cluster.md`` describes."""

HEADLINE_WORDS_MAX = 8


def test_nothing_is_stale() -> None:
    seen = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert seen.returncode == 0, seen.stdout + seen.stderr


def keys() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every key of a campaign file, with the section that it is in."""
    whole = schema()
    for name, section in (("Campaign", whole), *whole["$defs"].items()):
        for key, node in section.get("properties", {}).items():
            yield name, key, node


def test_each_key_has_a_description() -> None:
    for section, key, node in keys():
        meaning = node.get("description", "")
        assert len(meaning) > 8, f"{section}.{key}: write it below the field of the model"
        if section in ON_EXTERNAL_PAGE:
            assert re.search(rf"(?:`|\b){re.escape(key)}(?:`|:)", EXTERNAL), f"{section}.{key}"
            continue
        assert re.search(
            rf"^\| [^|]*`{re.escape(key)}`[^|]* \|.*\| {re.escape(meaning)} \|$",
            PAGE,
            re.MULTILINE,
        )


def test_each_fault_and_story_is_in_the_reference_with_a_short_headline() -> None:
    entries = {name: story.summary for name, story in catalogue().items()}
    entries |= {fault.name: fault.summary for fault in FAULTS.values()}
    for name, summary in entries.items():
        headline = summary.partition(";")[0]
        assert f"| `{name}` | {headline} |" in PAGE
        assert len(headline.split()) <= HEADLINE_WORDS_MAX, name


def test_command_prints_each_fault_parameter_with_its_meaning_and_values() -> None:
    for fault in FAULTS.values():
        printed = " ".join(CliRunner().invoke(cli, ["faults", fault.name]).output.split())
        properties = fault.parameters.model_json_schema().get("properties", {})
        for name, field in fault.parameters.model_fields.items():
            assert name in printed, f"{fault.name}.{name}"
            assert field.description
            assert field.description.split()[0] in printed
            for value in properties[name].get("enum", ()):
                assert str(value) in printed, f"{fault.name}.{name}: {value}"


def test_every_form_of_a_target_is_in_the_reference() -> None:
    for form, what in expressions.known().items():
        assert f"| `{form}` | {what} |" in PAGE


def test_links_within_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= anchors


@pytest.mark.parametrize("campaign", sorted((ROOT / "campaigns").glob("*.yaml")), ids=str)
def test_campaigns_name_the_schema_for_editors(campaign: Path) -> None:
    first = campaign.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../docs/campaign.schema.json"
