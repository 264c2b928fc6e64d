"""Commands of the user's own: run to their end, never with a secret in what is shown, and undone
after a kill -9."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine import own_commands
from ackproof.infra.machine.own_commands import (
    FILE,
    OwnCommand,
    OwnCommands,
    require_nothing_left,
    restore,
    run,
)
from ackproof.infra.machine.registry import STATE_DIRECTORY
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S


def shell(script: str, **more: object) -> OwnCommand:
    return OwnCommand(argv=("sh", "-c", script), **more)  # type: ignore[arg-type]


def is_read(fifo: Path) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_command_gets_its_environment_and_its_directory(tmp_path: Path) -> None:
    variables = {"ACKPROOF_TARGET": "leader(t, 0)"}
    command = shell('echo "$ACKPROOF_TARGET in $PWD"', variables=variables, directory=str(tmp_path))
    for dies_with_us in (False, True):
        ended = run(command, dies_with_us=dies_with_us)
        assert (ended.status, ended.said) == (0, f"leader(t, 0) in {tmp_path}")


def test_program_with_a_relative_path_is_found_in_the_directory(tmp_path: Path) -> None:
    script = tmp_path / "proof.sh"
    script.write_text("#!/bin/sh\nexit 7\n")
    command = OwnCommand(argv=("./proof.sh",), directory=str(tmp_path))
    with pytest.raises(PermissionError, match="not executable"):
        run(command)
    script.chmod(0o755)
    assert run(command).status == 7


def test_program_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run(OwnCommand(argv=("no-such-program",)))


def test_command_is_killed_with_all_that_it_started_when_its_time_is_up(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ended = run(shell(f"sleep 1000 > {fifo} & cat {fifo}", within_ms=100))
    assert ended.status is None
    assert str(ended) == "did not end within its time limit"
    wait_until(lambda: not is_read(fifo), PATIENCE_S, "the reader to be gone")


def test_last_lines_are_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_TOKEN", "tok-from-env")
    commands = OwnCommands(secrets={"s3cret-of-kafka"})
    script = "seq 1 99; echo 'used s3cret-of-kafka and'; echo $CLOUD_TOKEN; echo password=x; exit 3"
    said = str(commands.ask(shell(script)))
    assert said == ("ended with 3: 98\n99\nused [hidden] and\n[hidden]\n[hidden]")


def test_nothing_is_left_of_a_command_that_could_not_be_started(tmp_path: Path) -> None:
    commands = OwnCommands(tmp_path / FILE)
    heal = OwnCommand(argv=("touch", str(tmp_path / "healed")))
    with pytest.raises(FileNotFoundError):
        commands.inject(1, OwnCommand(argv=("no-such-program",)), heal)
    results = tmp_path
    restore(results, pytest.fail)
    assert not (tmp_path / "healed").exists()


def test_command_that_failed_half_way_is_undone(tmp_path: Path) -> None:
    run_directory = tmp_path / "runs" / "1"
    run_directory.mkdir(parents=True)
    commands = OwnCommands(run_directory / FILE)
    heal = OwnCommand(argv=("rm", str(tmp_path / "mark")))
    with pytest.raises(InfraError, match=r"touch .* ended with 4: half"):
        commands.inject(1, shell(f"touch {tmp_path / 'mark'}; echo half; exit 4"), heal)
    told: list[str] = []
    restore(tmp_path, told.append)
    assert told == [f"healed fault 1: rm {tmp_path / 'mark'}"]
    restore(tmp_path, pytest.fail)


def test_commands_of_a_dead_run_are_undone_in_reverse_and_retried(tmp_path: Path) -> None:
    run_directory = tmp_path / "runs" / "1"
    run_directory.mkdir(parents=True)
    journal, log = run_directory / FILE, tmp_path / "log"
    commands = OwnCommands(journal)
    for number in (1, 2, 3):
        heal = shell(f"test {number} != 2 -o -e {tmp_path / 'cure'} && echo {number} >> {log}")
        commands.inject(number, OwnCommand(argv=("true",)), heal)
    commands.heal(3, OwnCommand(argv=("true",)))
    with journal.open("a") as file:
        file.write('{"inject": 4, "he')  # the harness was killed while it wrote
    told: list[str] = []
    with pytest.raises(InfraError, match="fault 2 is not healed"):
        restore(tmp_path, told.append)
    assert log.read_text() == "1\n"
    with pytest.raises(InfraError, match="not healed: fault 2; `ackproof clean` heals it"):
        require_nothing_left(tmp_path)
    (tmp_path / "cure").touch()
    restore(tmp_path, told.append)
    assert log.read_text() == "1\n2\n"
    assert len(told) == 2
    restore(tmp_path, pytest.fail)
    require_nothing_left(tmp_path)


def test_journal_of_an_earlier_version_is_undone(tmp_path: Path) -> None:
    run_directory = tmp_path / "runs" / "1"
    run_directory.mkdir(parents=True)
    heal = {"argv": ["sh", "-c", 'touch "$MARK"'], "told": {"MARK": str(tmp_path / "healed")}}
    own_commands.append_entry(run_directory / FILE, {"inject": 1, "heal": heal})
    restore(tmp_path, lambda _line: None)
    assert (tmp_path / "healed").exists()


def test_damaged_journal_is_reported(tmp_path: Path) -> None:
    run_directory = tmp_path / "runs" / "1"
    run_directory.mkdir(parents=True)
    own_commands.append_entry(run_directory / FILE, {"inject": 1})
    with pytest.raises(InfraError, match="is damaged"):
        restore(tmp_path, pytest.fail)


_KILLED = """
import sys
from pathlib import Path
from ackproof.infra.machine.own_commands import FILE, OwnCommand, OwnCommands
from ackproof.infra.machine.registry import EntryKind, Registry

results, mark = Path(sys.argv[1]), sys.argv[2]
Registry.open().add("mine", EntryKind.RUN, results=results)
commands = OwnCommands(results / "runs" / "1" / FILE)
touch = OwnCommand(argv=("touch", mark))
commands.inject(1, touch, OwnCommand(argv=("rm", mark)))
slow = OwnCommand(argv=("sh", "-c", "touch " + mark + ".slow; exec sleep 1000"))
commands.inject(2, slow, OwnCommand(argv=("rm", mark + ".slow")))
"""


def test_clean_heals_the_faults_of_a_killed_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed while the second of its commands runs, which ends with it."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv(STATE_DIRECTORY, str(tmp_path / "state"))
    (tmp_path / "results" / "runs" / "1").mkdir(parents=True)
    mark = tmp_path / "mark"
    argv = [sys.executable, "-P", "-c", _KILLED, str(tmp_path / "results"), str(mark)]
    with subprocess.Popen(argv) as harness:
        wait_until((tmp_path / "mark.slow").exists, PATIENCE_S, "both commands to be run")
        assert mark.exists()
        os.kill(harness.pid, signal.SIGKILL)
    clean = [sys.executable, "-P", "-m", "ackproof.harness", "clean"]
    cleaned = subprocess.run(clean, capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert "healed fault 2: rm" in cleaned.stdout
    assert "healed fault 1: rm" in cleaned.stdout
    assert not mark.exists()
    assert not (tmp_path / "mark.slow").exists()
    again = subprocess.run(clean, capture_output=True, text=True, check=False)
    assert "healed" not in again.stdout
