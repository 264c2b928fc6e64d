"""Faults by commands in a campaign file: what is refused, what must be allowed, and where they are
run."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.problems.places import unusable_commands
from ackproof.harness.campaign.validation import CampaignRefused, check, load
from ackproof.harness.cli import cli
from tests.support.faults.own_commands import by_file

YOURS = {
    "cluster.system": "external",
    "cluster.backend": "here",
    "cluster.external": {"bootstrap.servers": "127.0.0.1:1"},
}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture
def by_commands(campaign_file) -> Callable[..., Path]:
    """Writes a campaign with one fault by commands; keys beside ``parameters`` by name."""

    def write(parameters: dict[str, object], **entry: object) -> Path:
        fault = {"fault": "command", "parameters": parameters, **entry}
        file: Path = campaign_file({"faults": [fault]})
        return file

    return write


def test_target_may_be_left_out_and_is_then_all_brokers(by_commands) -> None:
    campaign = check(by_commands(by_file())).campaign
    (entry,) = campaign.faults
    assert isinstance(entry, FaultEntry)
    assert entry.target == "all"


def test_other_faults_still_need_a_target(campaign_file) -> None:
    with pytest.raises(CampaignRefused, match=r"faults\[0\].target: is missing"):
        check(campaign_file({"faults": [{"fault": "kill"}]}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inject": "kubectl apply -f x"}, "inject: must be a list of words"),
        ({"heal": ["curl", "--password", "x1234567"]}, "is a secret"),
        ({"effects": ["stop"]}, "did you mean stops"),
        ({"injekt": ["true"]}, "did you mean inject"),
    ],
)
def test_wrong_commands_are_refused_with_their_field(
    by_commands, change: dict[str, object], words: str
) -> None:
    with pytest.raises(CampaignRefused) as refused:
        check(by_commands(by_file(**change)))
    assert words in str(refused.value)
    assert "faults[0].parameters" in str(refused.value)
    assert "x1234567" not in str(refused.value)


@pytest.mark.parametrize("missing", ["inject", "verify", "heal"])
def test_fault_without_a_command_that_it_needs_is_refused(by_commands, missing: str) -> None:
    given = by_file()
    del given[missing]
    with pytest.raises(CampaignRefused, match=rf"parameters\.{missing}: is missing"):
        check(by_commands(given))


def test_command_beside_parameters_is_refused_with_its_right_place(by_commands) -> None:
    with pytest.raises(CampaignRefused, match=r"inject: unknown key; it belongs to .*parameters"):
        check(by_commands(by_file(), inject=["true"]))


def test_target_that_is_a_link_is_refused(by_commands) -> None:
    with pytest.raises(CampaignRefused, match="not links"):
        check(by_commands(by_file(), target="broker-1 -> broker-2"))


def test_commands_are_run_only_where_that_is_allowed(by_commands, tmp_path: Path) -> None:
    """A campaign file may come from anybody."""
    file = by_commands(by_file(tmp_path / "mark"))
    refused = invoke("run", file, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "it would run touch, test, rm with your rights" in refused.output
    assert "--allow-commands" in refused.output
    assert not (tmp_path / "mark").exists()


def test_dry_run_shows_the_commands_and_runs_none(by_commands, tmp_path: Path) -> None:
    shown = invoke("run", by_commands(by_file("mark")), "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert f"faults[0], to inject: touch mark (in {tmp_path})" in shown.output
    assert not (tmp_path / "mark").exists()


def test_program_that_is_not_there_is_refused_before_the_run(by_commands, tmp_path: Path) -> None:
    file = by_commands(by_file(verify=["./proof.sh"], heal=["no-such-program"]))
    campaign = check(file).campaign.resolved(seed=1, directory=tmp_path)
    told = [str(problem) for problem in unusable_commands(campaign, allowed=True)]
    assert told == [
        f"faults[0].parameters.verify: {tmp_path}/proof.sh cannot be run: "
        "No such file or directory",
        "faults[0].parameters.heal: no-such-program cannot be run: it is not on the PATH",
    ]


@pytest.mark.parametrize(("given", "there"), [("", "."), ("sub", "sub"), ("/opt", "/opt")])
def test_copy_of_the_campaign_names_the_directory_of_its_commands(
    by_commands, tmp_path: Path, given: str, there: str
) -> None:
    campaign = check(by_commands(by_file(directory=given))).campaign
    resolved = campaign.resolved(seed=1, directory=tmp_path)
    copy = tmp_path / "copy.yaml"
    copy.write_text(resolved.to_yaml(), encoding="utf-8")
    (planned,) = manifest_of(load(copy), runs_of(load(copy))).runs[0].faults
    assert Path(planned.parameters["directory"]) == (tmp_path / there)
    assert planned.parameters["inject"] == ("touch", "mark")


def test_external_cluster_offers_the_command_fault(campaign_file) -> None:
    fault = {"fault": "command", "parameters": by_file(), "target": "broker-1"}
    file = campaign_file({**YOURS, "faults": [fault]})
    check(file)


def test_catalogue_shows_the_command_fault_with_its_parameters() -> None:
    shown = invoke("faults", "command")
    assert shown.exit_code == 0
    assert "inject (required)" in shown.output
    assert "no loss is excused" in " ".join(shown.output.split())
