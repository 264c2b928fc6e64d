"""The places where a backend is put to the test."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from conformance import MARK, marked
from containers import owned_things
from inside import Inside, inside_as
from ssh_hosts import SshHosts, ssh_hosts

from infra import cleanup
from infra.docker import cleanup as containers
from infra.registry import Registry
from infra.ssh.cleanup import clean as clean_hosts
from infra.ssh.inventory import load

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


class Place(Protocol):
    """Where one test runs its cases."""

    @property
    def scratch(self) -> Path: ...

    def check(self, case: str) -> None:
        """Run a case; its failure is ours, with its output."""

    def start(self, case: str) -> "subprocess.Popen[bytes]": ...

    def processes(self) -> list[int]:
        """Marked processes of what was started that still live."""

    def clean(self) -> bool:
        """What ``ackproof clean`` does."""

    def left(self) -> list[str]:
        """What is known to be left by runs that died."""


@dataclass(frozen=True)
class LocalPlace:
    inside: Inside

    @property
    def scratch(self) -> Path:
        return self.inside.scratch

    def check(self, case: str) -> None:
        self.inside.check("cases_local.py", case)

    def start(self, case: str) -> "subprocess.Popen[bytes]":
        return self.inside.start("cases_local.py", case)

    def processes(self) -> list[int]:
        return self.inside.processes()

    def clean(self) -> bool:
        return cleanup.clean(Registry(self.inside.state), print)

    def left(self) -> list[str]:
        return Registry(self.inside.state).run_ids()


@dataclass(frozen=True)
class DockerPlace:
    scratch: Path
    mark: str
    started: "list[subprocess.Popen[bytes]]"

    def check(self, case: str) -> None:
        done = subprocess.run(
            self._argv(case), env=self._environ(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.left() == []

    def start(self, case: str) -> "subprocess.Popen[bytes]":
        run = subprocess.Popen(self._argv(case), env=self._environ())
        self.started.append(run)
        return run

    def processes(self) -> list[int]:
        return marked(self.mark)

    def clean(self) -> bool:
        return containers.clean(print)

    def left(self) -> list[str]:
        return owned_things(dead=True)

    def _argv(self, case: str) -> list[str]:
        return [sys.executable, str(HERE / "docker_case.py"), str(self.scratch), case]

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(SUPPORT), MARK: self.mark}


@dataclass(frozen=True)
class SshPlace:
    hosts: SshHosts
    scratch: Path
    mark: str
    started: "list[subprocess.Popen[bytes]]"

    def check(self, case: str) -> None:
        done = subprocess.run(
            self._argv(case), env=self._environ(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.left() == []

    def start(self, case: str) -> "subprocess.Popen[bytes]":
        run = subprocess.Popen(self._argv(case), env=self._environ())
        self.started.append(run)
        return run

    def processes(self) -> list[int]:
        return marked(self.mark)

    def clean(self) -> bool:
        # All: nobody can tell from there whether a harness is dead or cut off.
        return clean_hosts(load(self.inventory), print, everything=True)

    def left(self) -> list[str]:
        claims = "/home/admin/.ackproof/run"
        numbers = range(len(self.hosts.addresses))
        return [str(n) for n in numbers if self.hosts.run(n, "ls", claims).status == 0]

    @property
    def inventory(self) -> Path:
        return self.hosts.write(self.scratch / "hosts.yaml", self.hosts.document())

    def _argv(self, case: str) -> list[str]:
        ssh_case = str(HERE / "ssh_case.py")
        return [sys.executable, ssh_case, str(self.inventory), str(self.scratch), case]

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(SUPPORT), MARK: self.mark}


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), 3) as found:
        yield found


@contextmanager
def _ssh_place(hosts: SshHosts, scratch: Path) -> Iterator[SshPlace]:
    place = SshPlace(hosts, scratch, uuid.uuid4().hex, [])
    try:
        yield place
    finally:
        for run in place.started:
            run.kill()
            run.wait(20)


@contextmanager
def _docker_place(scratch: Path) -> Iterator[DockerPlace]:
    place = DockerPlace(scratch, uuid.uuid4().hex, [])
    try:
        yield place
    finally:
        for run in place.started:
            run.kill()
            run.wait(20)
        containers.clean(print)


@pytest.fixture(
    params=[
        pytest.param("ourselves", id="local", marks=pytest.mark.integration),
        pytest.param("unprivileged", id="local-unprivileged", marks=pytest.mark.integration),
        pytest.param("docker", id="docker", marks=pytest.mark.docker),
        pytest.param("ssh", id="ssh", marks=pytest.mark.ssh),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "docker":
        with _docker_place(tmp_path) as docker_place:
            yield docker_place
    elif request.param == "ssh":
        with _ssh_place(request.getfixturevalue("hosts"), tmp_path) as ssh_place:
            yield ssh_place
    else:
        with inside_as(request.param, HERE) as inside:
            yield LocalPlace(inside)
