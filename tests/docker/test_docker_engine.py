"""Refusals of the Docker backend before anything is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.backend import DockerBackend
from ackproof.infra.backends.docker.engine import (
    OWNER,
    connected,
    owned,
    owner,
    refusal,
    unavailable,
)
from ackproof.infra.machine.identity import ProcessIdentity

CAMPAIGN = Path(__file__).parents[2] / "campaigns" / "quick.yaml"
OURS = {"OSType": "linux", "KernelVersion": os.uname().release, "SecurityOptions": ["name=seccomp"]}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: refused for that already")


def test_an_engine_of_this_machine_is_not_refused() -> None:
    assert refusal(OURS) is None
    assert refusal({**OURS, "SecurityOptions": None}) is None


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"OSType": "windows"}, "runs windows containers"),
        ({"KernelVersion": "6.6.12-linuxkit"}, "kernel is 6.6.12-linuxkit.*virtual machine"),
        ({"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}, "rootless"),
        ({"SecurityOptions": ["name=userns"]}, "maps users"),
    ],
)
def test_an_engine_out_of_reach_is_refused(info: dict[str, object], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        assert refusal({**OURS, **info}) is None


@as_root
@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("tcp://192.0.2.1:2375", "tcp://192.0.2.1:2375 is not this machine"),
        ("ssh://root@example.com", "ssh://root@example.com is not this machine"),
        ("unix:///nonexistent/docker.sock", "no Docker Engine answers.*apt-get install docker.io"),
    ],
)
def test_an_engine_elsewhere_is_refused(
    monkeypatch: pytest.MonkeyPatch, host: str, says: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(InfraError, match=says):
        DockerBackend()
    with pytest.raises(AssertionError, match=says):
        assert unavailable() is None


@as_root
def test_a_campaign_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.harness", "run", CAMPAIGN, "--backend", "docker"],
        env={**os.environ, "DOCKER_HOST": "tcp://192.0.2.1:2375"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 5
    assert "192.0.2.1:2375 is not this machine" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_engine_without_root_is_unavailable_with_a_reason() -> None:
    code = "from ackproof.infra.backends.docker.engine import unavailable; print(unavailable())"
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [sys.executable, "-c", code]
    said = subprocess.run(
        [*(other if os.geteuid() == 0 else []), *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode != 0:
        pytest.skip(f"our Python is not for other users: {said.stderr[-200:]}")
    assert "needs root" in said.stdout


def test_owner_is_read_from_its_label() -> None:
    assert owner(owned()) == ProcessIdentity.of(os.getpid())
    for damaged in ({}, {OWNER: "x"}, {OWNER: "{}"}):
        with pytest.raises(InfraError, match="damaged"):
            owner(damaged)


def test_trouble_with_the_engine_is_ours_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(InfraError, match="no Docker Engine"), connected():
        pass
