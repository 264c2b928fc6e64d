"""Results of which a part is missing or damaged: the commands say which, in plain words."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.cli import cli
from ackproof.harness.exit_status import ExitStatus
from ackproof.history import manifest
from ackproof.history.errors import DamagedFiles
from tests.support.builders.histories import write_campaign

CAMPAIGN = "campaign.yaml"


def check(directory: Path) -> Result:
    """Check results without a run: that takes no session of Spark."""
    return CliRunner().invoke(cli, ["check", str(directory)])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "campaign.yaml is missing"),
        ("", "campaign.yaml is empty"),
        ("- a\n", "campaign.yaml is not a campaign"),
        ("a: [", "campaign.yaml is not YAML"),
        (b"\xff\xfe", "campaign.yaml is not UTF-8 text"),
        (
            "name: made\nseed: 2\n",
            "belongs to the campaign made with seed 2, but manifest.json to made",
        ),
        ("name: other\nseed: 1\n", "belongs to the campaign other with seed 1"),
    ],
)
def test_damaged_campaign_file_is_a_finding(
    tmp_path: Path, content: str | bytes | None, words: str
) -> None:
    directory = write_campaign(tmp_path / "one")
    (directory / CAMPAIGN).unlink()
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        (directory / CAMPAIGN).write_bytes(raw)
    told = check(directory)
    assert f"finding: {CAMPAIGN}" in told.output
    assert words in " ".join(told.output.split())
    assert "Traceback" not in told.output
    assert words in CliRunner().invoke(cli, ["report", str(directory)]).output.replace("\n", " ")


def test_sound_campaign_file_is_no_finding(tmp_path: Path) -> None:
    assert CAMPAIGN not in check(write_campaign(tmp_path / "one")).output


def test_campaign_that_ended_before_its_history_says_so(tmp_path: Path) -> None:
    (directory := tmp_path / "one").mkdir()
    (directory / CAMPAIGN).write_text("name: one\nseed: 1\n", encoding="utf-8")
    told = check(directory)
    output = " ".join(told.output.split())
    assert "the campaign ended before it wrote any history" in output
    assert "damaged history" not in output
    assert told.exit_code == ExitStatus.INCONCLUSIVE


def test_missing_manifest_beside_runs_is_damage(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path / "one")
    (directory / manifest.FILE).unlink()
    (directory / "runs").mkdir()
    told = check(directory)
    assert "damaged history" in told.output
    assert told.exit_code == ExitStatus.INCONCLUSIVE


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "it is not valid JSON"),
        ("[]", "it must be an object with names and values"),
        ("{}", "campaign: is missing"),
        ('{"campaign": "c", "seed": "x", "baseline": true, "runs": []}', "seed: must be a whole"),
        ('{"campaign": "c", "seed": 1, "baseline": true, "runs": 3}', "runs: must be a list"),
        (
            '{"campaign": "c", "seed": 1, "baseline": true, "runs": [], "later": 1}',
            "later: is not a name that this version knows",
        ),
    ],
)
def test_damaged_manifest_is_reported_in_plain_words(
    tmp_path: Path, written: str, words: str
) -> None:
    (tmp_path / manifest.FILE).write_text(written, encoding="utf-8")
    with pytest.raises(DamagedFiles) as caught:
        manifest.read(tmp_path)
    assert words in str(caught.value)
    for word in ("Input should", "Field required", "Extra inputs"):
        assert word not in str(caught.value)
