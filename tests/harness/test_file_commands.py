"""``ackproof init | validate | schema``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackproof.harness.campaign.validation import check, load
from ackproof.harness.cli import cli

QUICK = Path(__file__).parents[2] / "campaigns" / "quick.yaml"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_init_writes_a_valid_file_equal_to_the_quick_campaign(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    result = invoke("init", file)
    assert result.exit_code == 0, result.output
    assert f"ackproof run {file}" in result.output
    written = check(file).campaign
    assert written.model_copy(update={"name": "quick"}) == load(QUICK)
    assert file.read_text().count("#") > 20


def test_init_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("init").exit_code == 0
    assert check(Path("campaign.yaml"))


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine")
    result = invoke("init", file)
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert file.read_text() == "mine"


def test_init_where_nothing_can_be_written(tmp_path: Path) -> None:
    result = invoke("init", tmp_path / "none" / "mine.yaml")
    assert result.exit_code == 2
    assert "cannot be written: No such file" in result.stderr


def test_right_files(campaign_file) -> None:
    result = invoke("validate", QUICK, campaign_file({}))
    assert result.exit_code == 0
    quick, small = result.stdout.split(f"{campaign_file({})}: right\n")
    assert quick.startswith(f"{QUICK}: right\n")
    assert "acks-all.minisr-2" in quick
    rows = [line.split() for line in small.splitlines() if "minisr" in line]
    assert rows == [
        [f"acks-{acks}.minisr-{floor}", f"acks-{acks}-minisr-{floor}", "3", "3"]
        for acks in ("0", "1", "all")
        for floor in (1, 2)
    ]
    assert result.stderr == ""


@pytest.mark.parametrize("command", [["validate"], ["run", "--dry-run"]])
def test_cells_are_listed_with_their_topics(campaign_file, command: list[str]) -> None:
    names = [{"where": {"acks": 1, "min.insync.replicas": 2}, "name": "orders"}]
    file = campaign_file({"cells.name": names, "cells.prefix": "team-a.", "faults": []})
    result = invoke(*command, file)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["cell", "topic", "partitions", "replicas"] in rows
    assert ["orders", "team-a.orders", "3", "3"] in rows
    assert ["acks-0.minisr-1", "team-a.acks-0-minisr-1", "3", "3"] in rows


def test_topics_on_your_cluster_are_listed_with_the_seed_to_be_drawn() -> None:
    result = invoke("validate", QUICK.with_name("your-cluster.yaml"))
    assert "ackproof-SEED-acks-all-minisr-2" in result.stdout


def test_wrong_file_among_several_is_reported(campaign_file, tmp_path: Path) -> None:
    wrong = campaign_file({"workload.kind": "x", "cluster.backend": "y"})
    result = invoke("validate", QUICK, wrong, tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert f"{QUICK}: right\n" in result.stdout
    assert result.stderr.count(f"{wrong}:") == 2
    assert "none.yaml: file: cannot be read" in result.stderr
    assert result.stderr.endswith("ackproof: 3 problems\n")


def test_a_large_campaign_that_is_meant(campaign_file) -> None:
    file = campaign_file({"runs": 100})
    assert invoke("validate", file).exit_code == 2
    assert invoke("validate", file, "--yes").exit_code == 0
    assert invoke("run", file, "--dry-run").exit_code == 2
    assert invoke("run", file, "--dry-run", "--yes").exit_code == 0


def test_the_schema_is_one_file_of_json() -> None:
    result = invoke("schema")
    assert result.exit_code == 0
    assert json.loads(result.output)["required"] == ["name", "cells", "workload", "faults"]


def test_alias_bomb_is_refused_wherever_a_file_is_read(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    bomb.write_text("\n".join(["l0: &l0 [x, x]", *levels]), encoding="utf-8")
    for command in (
        ("validate", bomb),
        ("run", bomb, "--dry-run"),
        ("known-losses", "--stories", bomb),
        ("run", QUICK, "--backend", "ssh", "--inventory", bomb, "--dry-run"),
    ):
        result = invoke(*command)
        assert result.exit_code == 2, result.output
        assert "aliases make it unreasonably large" in result.output
