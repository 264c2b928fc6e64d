"""Hands over SSH: a unit of systemd's, commands of one's own, and what they leave running."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ackproof.harness.campaign.model.external import HandSpec, handle
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import Action, BrokerControl
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.ssh.server import SshHost, ssh_host

SYSTEMCTL = """\
#!/bin/sh
# systemctl, of one unit: starts and stops it, sends its signals.
case "$*" in
  "start kafka") sleep 1000 & echo $! > "$UNIT" ;;
  "stop kafka") test ! -e "$UNIT" || kill -TERM "$(cat "$UNIT")"; rm -f "$UNIT" ;;
  "kill --signal=SIG"*" kafka") name=${2#--signal=SIG}; kill -"$name" "$(cat "$UNIT")" ;;
  *) echo "Unit $2 could not be found."; exit 5 ;;
esac
"""
SUDO = """\
#!/bin/sh
test "$1" = -n && shift && exec "$@"
"""


@pytest.fixture
def host(tmp_path: Path, executable) -> Iterator[SshHost]:
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin" / "systemctl", SYSTEMCTL)
    executable(tmp_path / "bin" / "sudo", SUDO)
    environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "UNIT": str(tmp_path / "pid")}
    with ssh_host(tmp_path, environ) as host:
        yield host


def by(host: SshHost, **how: object) -> BrokerControl:
    return handle(HandSpec.model_validate_json(json.dumps({**how, "ssh": host.login()})))


def test_a_unit_is_started_paused_killed_and_stopped(host: SshHost, tmp_path: Path) -> None:
    unit = by(host, systemd="kafka")
    carry_out(unit, Action.START)  # what it has started keeps the output open
    process = psutil.Process(int((tmp_path / "pid").read_text()))

    def becomes(*statuses: str) -> None:
        def so() -> bool:
            there = process.is_running()
            return (process.status() if there else psutil.STATUS_DEAD) in statuses

        wait_until(so, PATIENCE_S, f"the unit to be {statuses}")

    gone = (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)
    becomes(psutil.STATUS_SLEEPING)
    carry_out(unit, Action.PAUSE)
    becomes(psutil.STATUS_STOPPED)
    carry_out(unit, Action.RESUME)
    becomes(psutil.STATUS_SLEEPING)
    carry_out(unit, Action.KILL)
    becomes(*gone)
    assert host.heard[-2:] == [
        "sudo -n systemctl kill --signal=SIGKILL kafka",
        "sudo -n systemctl stop kafka",
    ]
    carry_out(unit, Action.START)
    process = psutil.Process(int((tmp_path / "pid").read_text()))
    carry_out(unit, Action.STOP)
    becomes(*gone)


def test_failed_remote_command_is_reported_with_its_output(host: SshHost) -> None:
    with pytest.raises(InfraError, match=r"stop zookeeper ended with 5: Unit zookeeper could not"):
        carry_out(by(host, systemd="zookeeper"), Action.STOP)


def test_words_are_no_shell_s(host: SshHost, tmp_path: Path) -> None:
    """Over SSH there is a shell in between, whatever is done."""
    odd = f"{tmp_path}/$HOME; `touch x`"
    carry_out(by(host, commands={"start": ["touch", odd]}), Action.START)
    assert Path(odd).exists()


def test_more_output_than_a_channel_holds_stops_nothing(host: SshHost) -> None:
    """Test a command with unread output, whose status would never come if the output were not
    consumed."""
    many = str(4 * 1024 * 1024)
    carry_out(by(host, commands={"start": ["head", "-c", many, "/dev/zero"]}), Action.START)


def test_unknown_host_receives_no_command(host: SshHost) -> None:
    host.known_hosts.write_text("")
    with pytest.raises(InfraError, match="unknown host"):
        carry_out(by(host, systemd="kafka"), Action.STOP)
    assert host.heard == []
