"""``run --dry-run`` and ``validate`` refuse what ``run`` refuses, where no host has to be asked."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.cli import cli

ANSIBLE = """\
all:
  vars: {ansible_connection: ssh, ansible_user: deploy}
kafka_broker:
  hosts:
    brk-1.example.org: {broker_id: 1}
"""
FEW = "hosts: [{address: 192.0.2.1, user: admin}]\n"
BASELINE = {"faults": []}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def same(*arguments: object) -> str:
    """Return what both a run and its dry run print while they refuse."""
    run, dry = invoke("run", *arguments), invoke("run", *arguments, "--dry-run")
    assert (dry.exit_code, dry.output) == (2, run.output), dry.output
    return dry.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (ANSIBLE, "1:1: all: unknown key"),
        ("{broken", "not YAML"),
        ("- a\n- b\n", "a mapping of keys to values"),
        (FEW, "hosts: no host left for"),
        ("hosts: []\n", "at least one host"),
    ],
)
def test_wrong_inventory_is_refused_without_a_run(
    campaign_file, tmp_path: Path, content: str | None, words: str
) -> None:
    inventory = tmp_path / "hosts.yaml"
    if content is not None:
        inventory.write_text(content, encoding="utf-8")
    file = campaign_file(BASELINE)
    told = same(file, "--backend", "ssh", "--inventory", inventory)
    assert words in told
    assert str(inventory) in told
    named = campaign_file(
        BASELINE | {"cluster.backend": "ssh", "cluster.inventory": str(inventory)}
    )
    validated = invoke("validate", named)
    assert validated.exit_code == 2
    assert words in validated.output


def test_missing_inventory_is_refused_without_a_run(campaign_file) -> None:
    told = same(campaign_file(BASELINE), "--backend", "ssh")
    assert "the backend ssh needs the file with its hosts (--inventory)" in told


def test_client_program_is_refused_without_a_run(campaign_file, tmp_path: Path) -> None:
    program = tmp_path / "client"
    program.touch(mode=0o755)
    file = campaign_file(BASELINE | {"cells.acks": "all", "cells.client": str(program)})
    assert f"--program {program}" in same(file)
    missing = campaign_file(BASELINE | {"cells.acks": "all", "cells.client": f"{program}-none"})
    assert "cells.client" in same(missing)


def test_fault_that_a_backend_never_offers_is_refused_without_a_run(campaign_file) -> None:
    fault = {"fault": "slow-disk", "target": "one", "hold": "3s"}
    file = campaign_file({"faults": [fault], "cluster.backend": "docker"})
    dry, validated = invoke("run", file, "--dry-run"), invoke("validate", file)
    for done in (dry, validated):
        assert done.exit_code == 2
        assert "faults[0].fault" in done.output
        assert "docker" in done.output
    both = campaign_file(
        {"faults": [fault, {"fault": "kill", "target": "one"}], "cluster.backend": "docker"}
    )
    dry = invoke("run", both, "--dry-run", "--skip-refused")
    assert dry.exit_code == 0
    assert "skipped: slow-disk of one" in dry.output


def test_system_that_a_backend_does_not_deploy_is_refused_without_a_run(campaign_file) -> None:
    file = campaign_file(BASELINE | {"cluster.backend": "here"})
    assert "nothing is deployed on the backend here" in same(file)
    assert "nothing is deployed on the backend here" in invoke("validate", file).output


def test_directory_with_results_is_refused_without_a_run(campaign_file, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    told = same(campaign_file(BASELINE), "--out", tmp_path / "taken")
    assert "is not an empty directory" in told


def test_options_for_hosts_are_refused_on_another_backend(campaign_file, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text(FEW, encoding="utf-8")
    for options in (("--inventory", inventory), ("--accept-host-key", "SHA256:a")):
        told = same(campaign_file(BASELINE), *options)
        assert told.startswith(f"ackproof: {options[0]}: only for --backend ssh")
        assert "runs on local" in told


@pytest.mark.parametrize("below", ["/proc/x", "/proc/x/y", "/dev/null/x"])
def test_directory_that_cannot_be_written_is_refused_with_the_reason(
    campaign_file, below: str
) -> None:
    told = same(campaign_file(BASELINE), "--out", below)
    assert told.startswith(f"ackproof: {below} cannot be written: ")
    assert "make room" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("matrix", "--systems", "bundled", "FILE", "--out", "/dev/null/x"),
        ("known-losses", "--runs", "0", "--results", "/dev/null/x"),
        ("known-losses", "--runs", "0", "--results", "TMP", "--out", "/dev/null/x/page.md"),
    ],
)
def test_commands_of_several_runs_refuse_an_unwritable_directory_before_they_begin(
    campaign_file, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    named = {"FILE": campaign_file(BASELINE), "TMP": tmp_path}
    result = invoke(*(named.get(one, one) for one in arguments))
    assert result.exit_code == 2
    assert result.stderr.startswith("ackproof: /dev/null/x cannot be written: ")
    assert result.stdout == ""


def test_directory_that_was_tried_is_not_left_behind(campaign_file, tmp_path: Path) -> None:
    dry = invoke("run", campaign_file(BASELINE), "--dry-run", "--out", tmp_path / "a" / "b")
    assert dry.exit_code == 0
    assert not (tmp_path / "a").exists()
