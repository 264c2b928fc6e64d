"""The command line teaches, and fails without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.cli import cli
from ackproof.harness.directory import create, existing, link_latest
from ackproof.harness.running.progress import HEARTBEAT_S, PlainProgress, progress
from tests.support.builders.histories import BEFORE, MadeRun, kept, write_campaign

COMMANDS = (
    *("init", "validate", "schema"),
    *("doctor", "run", "check", "report", "cluster", "clean"),
)
PROJECT = Path(__file__).parents[2]
CATALOGUES = ("clients", "faults", "systems", "workloads", "checkers")


def invoke(*arguments: str):
    return CliRunner().invoke(cli, arguments)


def test_help_lists_every_command_with_examples() -> None:
    told = invoke("--help").output
    for command in (*COMMANDS, *CATALOGUES):
        assert f"  {command}" in told
    assert "ackproof run quick" in told
    assert "Exit status: 0" in told
    assert "carry-out" not in told


@pytest.mark.parametrize("command", [*COMMANDS, *CATALOGUES])
def test_every_command_has_help(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")


@pytest.mark.parametrize("group", [(), ("cluster",), ("history",)])
def test_summaries_of_commands_are_not_cut_on_a_terminal_of_80_columns(
    group: tuple[str, ...],
) -> None:
    told = CliRunner().invoke(cli, [*group, "--help"], terminal_width=80).output
    summaries = told.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert summaries
    assert [line for line in summaries if line.endswith("...")] == []


def test_commands_have_the_names_that_find_them() -> None:
    with click.Context(cli) as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            assert command.name == name


def test_list_of_commands_has_a_line_for_each_that_is_not_hidden() -> None:
    listed = CliRunner().invoke(cli, ["--help"]).output.partition("Commands:\n")[2]
    lines = listed.partition("\n\n")[0].splitlines()
    with click.Context(cli) as context:
        commands = [cli.get_command(context, name) for name in cli.list_commands(context)]
    shown = [command.name for command in commands if command and not command.hidden]
    assert [line.split()[0] for line in lines] == shown
    assert all(line.endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("first", "slow"),
    [
        pytest.param(
            "from ackproof.harness.cli import cli; cli.main(['--help'], standalone_mode=False)",
            [
                *("ackproof.harness.campaign", "ackproof.harness.commands"),
                *("numpy", "pyarrow", "pydantic", "rich", "yaml"),
            ],
            id="list of commands",
        ),
        pytest.param(
            "from ackproof.harness.cli import cli;"
            "cli.main(['validate', 'campaigns/quick.yaml'], standalone_mode=False)",
            [
                *("aiohttp", "docker", "jinja2", "junitparser", "kio", "matplotlib", "numpy"),
                *("paramiko", "psutil", "pyarrow", "pyroute2", "pyspark"),
            ],
            id="validation of a campaign",
        ),
        pytest.param(
            "from ackproof.harness.cli import cli;"
            "[cli.get_command(None, name) for name in "
            "('cluster', 'compare', 'doctor', 'faults', 'run', 'serve', 'validate')]",
            ["aiohttp", "docker", "jinja2", "kio", "matplotlib", "numpy", "pyarrow", "pyspark"],
            id="commands that read no history at first",
        ),
        pytest.param(
            "from ackproof.harness.cli import cli;"
            "[cli.get_command(None, name) for name in cli.list_commands(None)]",
            ["aiohttp", "docker", "matplotlib", "paramiko", "pyspark"],
            id="all commands",
        ),
    ],
)
def test_commands_import_slow_modules_only_when_they_need_them(first: str, slow: list[str]) -> None:
    """Each command pays for all that is imported at its start."""
    told = f"import sys; {first}; print({{*{slow}}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("command", ["up", "down", "status"])
def test_cluster_commands(command: str) -> None:
    assert invoke("cluster", command, "--help").exit_code == 0


def test_catalogues() -> None:
    faults = invoke("faults").output
    for word in ("kill", "isolate", "pause", "cut-links", "leader(topic, partition)", "zookeeper"):
        assert word in faults
    assert "produce" in invoke("workloads").output
    assert "duplicated" in invoke("checkers").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("runn",),
        ("run",),
        ("run", "x.yaml", "--seed", "-1"),
        ("run", "x.yaml", "--backend", "moon"),
        ("run", "x.yaml", "--system", "kafka"),
        ("run", "x.yaml", "--system", "kafka:latest"),
        ("cluster", "up", "--system", "kafka:/nowhere"),
        ("cluster", "up", "--system", "kafka:3.9.1", "--property", "ackproof.generation=0.10"),
        ("cluster", "up", "--brokers", "0"),
        ("cluster", "up", "--property", "nothing"),
        ("cluster", "up", "--property", "zookeeper.session.timeout.ms=soon"),
        ("cluster", "up", "--property", "zookeeper.sesion.timeout.ms=3000"),
        ("validate",),
        ("validate", "nowhere.yaml"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "master",
    [
        "host:7077",
        "localhost",
        "local[",
        "yarn-client",
        "spark://",
        "spark://two words",
        "sc://",
        "sc://:15002",
        "sc://host:port",
        "sc://host:99999",
        "sc://host/path;token=secret",
        "sc://host/;secret",
        "SC://host",
        "",
    ],
)
def test_check_refuses_a_master_that_spark_cannot_have(master: str) -> None:
    result = invoke("check", "results", "--spark-master", master)
    assert result.exit_code == 2
    assert "Invalid value for '--spark-master'" in result.stderr
    assert "sc://HOST:PORT" in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[2]", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://host:7077", "spark://a:7077,b:7077", "k8s://https://host:443", "mesos://host"),
        *(
            "sc://host",
            "sc://host:15002",
            "sc://host:15002/;use_ssl=true;token=a%3Db",
            "sc://[::1]",
        ),
    ],
)
def test_check_accepts_masters_of_every_kind(master: str, tmp_path: Path) -> None:
    result = invoke("check", str(tmp_path), "--spark-master", master)
    assert "has no results of a campaign" in result.stderr


def test_check_names_the_packages_that_spark_connect_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    directory = write_campaign(tmp_path / "results", MadeRun(partitions={("t", 0): kept(BEFORE)}))
    result = invoke("check", str(directory), "--spark-master", "sc://127.0.0.1:1")
    assert result.exit_code == 5, result.output
    assert "pip install 'ackproof[connect]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["check", "report"])
def test_directory_without_results_is_refused(command: str, tmp_path: Path) -> None:
    result = invoke(command, str(tmp_path))
    assert result.exit_code == 2
    assert "has no results of a campaign" in result.stderr


def test_report_before_check(campaign: Campaign, tmp_path: Path) -> None:
    directory = create(campaign, 0, tmp_path / "out")
    result = invoke("report", str(directory))
    assert result.exit_code == 2
    assert "has not been checked" in result.stderr


def test_results_are_named_after_campaign_and_time(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = create(campaign, 1_900_000_000 * 10**9, None)
    second = create(campaign, 1_900_000_000 * 10**9, None)
    assert not (tmp_path / "results" / "latest").exists(), "it is nothing to look at yet"
    link_latest(first)
    link_latest(second)
    assert first.name == "small-20300317T174640Z"
    assert second.name == "small-20300317T174640Z-2"
    assert existing(tmp_path / "results" / "latest") == second


def test_plain_display_says_every_change_and_beats(capsys: pytest.CaptureFixture[str]) -> None:
    display = progress(Console(width=120), "quick")
    assert isinstance(display, PlainProgress)
    with display:
        display.phase("faults")
        for second in range(1, 2 * int(HEARTBEAT_S) + 1):
            display.tick(float(second), f"about {90 - second} s", 1000 * second)
        display.fault("kill#1 injected", "kill#1 injected")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "faults" in lines[0]
    assert "10,000 acked, 1,000/s" in lines[1]
    assert "about 70 s left" in lines[2]
    assert "kill#1 injected" in lines[3]


def test_the_rate_is_of_seconds_whenever_counts_come(capsys: pytest.CaptureFixture[str]) -> None:
    """On hosts clients' counts come every few seconds: most ticks hear of nothing new."""
    with progress(Console(width=120), "quick") as display:
        for second in range(1, 5 * int(HEARTBEAT_S) + 1):
            display.tick(float(second), "", 100 * (second - second % 5))
    rates = [line.rsplit(", ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert rates == ["100/s"] * 5


def test_progress_shows_consumer_reads_if_there_are_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress(Console(width=120), "quick") as display:
        display.tick(HEARTBEAT_S, "", 100)
        display.tick(2 * HEARTBEAT_S, "", 200, 1500)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("100 acked, 10/s")
    assert second.endswith("200 acked, 10/s  |  1,500 read by consumers")


# --- unread output (``ackproof ... | head``) ----------------------------------------------------

QUICK = Path(__file__).parent.parent.parent / "campaigns/quick.yaml"
TALKATIVE = """
import click
from ackproof.harness.cli import cli, main
from ackproof.harness.console import console

@cli.command()
def talk():
    for number in range(1_000):
        console().print("rich", number)
        click.echo(f"click {number}")
    print("and once more, not flushed")
    click.get_current_context().exit(3)

main()
"""


def unread(*command: str, errors: bool = False) -> "subprocess.CompletedProcess[str]":
    """Return the result of a command with unread output; with ``errors``, its error output is
    unread, too."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, *command],
            stdout=writing,
            stderr=writing if errors else subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    ("arguments", "status", "errors"),
    [
        (("--help",), 0, False),
        (("run", str(QUICK), "--dry-run"), 0, False),
        (("faults",), 0, False),
        (("runn",), 2, True),
        (("check", "nowhere"), 2, True),
    ],
)
def test_unread_is_no_failure(arguments: tuple[str, ...], status: int, errors: bool) -> None:
    ended = unread("-P", "-m", "ackproof.harness", *arguments, errors=errors)
    assert ended.returncode == status
    assert "Traceback" not in (ended.stderr or "")
    assert "Broken pipe" not in (ended.stderr or "")


def test_status_is_kept_if_output_is_closed_midway() -> None:
    command = (sys.executable, "-c", TALKATIVE, "talk")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talking:
        assert talking.stdout is not None
        assert talking.stderr is not None
        assert talking.stdout.readline() == b"rich 0\n"
        talking.stdout.close()
        assert talking.stderr.read() == b""
        assert talking.wait(60) == 3


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_signal_before_the_program_is_loaded_ends_it_in_one_line(name: str) -> None:
    """The signal is pending when Python starts, as after Ctrl-C at once. It is not ignored, as it
    would be where a shell started the tests in the background."""
    kill = f'kill -{name} $$; exec "$@"'
    done = subprocess.run(
        [
            *("env", f"--default-signal={name}", f"--block-signal={name}"),
            *("sh", "-c", kill, "sh"),
            *(sys.executable, "-P", "-m", "ackproof.harness", "--version"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "ackproof: interrupted\n")
