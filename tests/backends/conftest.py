"""The places where a backend is put to the test."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from ackproof.infra import run_control
from ackproof.infra.backends.docker import cleanup as containers
from ackproof.infra.backends.kubernetes import cleanup as namespaces
from ackproof.infra.backends.ssh.hosts import clean_hosts as clean_hosts
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.machine.registry import Registry
from tests.support.backends.conformance_cases import MARK, marked
from tests.support.backends.containers import dead_namespaces, owned_things
from tests.support.backends.namespaces import Inside, inside_as
from tests.support.backends.parameters import places
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.ssh.hosts import SshHosts, ssh_hosts

HERE = Path(__file__).parent
HOSTS = 7
"""Three ZooKeepers, three brokers and a client, which is the most that a case has."""


class Place(Protocol):
    """The place where one test runs its cases."""

    @property
    def scratch(self) -> Path: ...

    @property
    def mark(self) -> str:
        """Return the mark in the environment of each process of the case; of a local run, also its
        name."""

    def check(self, case: str) -> None:
        """Run a case; its failure is ours, with its output."""

    def start(self, case: str) -> "subprocess.Popen[bytes]": ...

    def processes(self) -> list[int]:
        """Marked processes of what was started that still live."""

    def clean(self) -> bool:
        """Do the work of ``ackproof clean``."""

    def left(self) -> list[str]:
        """Return the known leftovers of runs that died."""


@dataclass(frozen=True)
class LocalPlace:
    inside: Inside

    @property
    def mark(self) -> str:
        return self.inside.mark

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
        return run_control.clean(Registry(self.inside.state), print)

    def left(self) -> list[str]:
        return Registry(self.inside.state).run_ids()


@dataclass(frozen=True)
class ProcessPlace:
    """A place for a backend that needs no namespaces: a case is an ordinary process. ``program``
    runs a case, given the scratch directory and the case."""

    scratch: Path
    program: Sequence[object]
    clean: Callable[[], bool]
    left: Callable[[], list[str]]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

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

    def _argv(self, case: str) -> list[str]:
        return [sys.executable, *map(str, self.program), str(self.scratch), case]

    def _environ(self) -> dict[str, str]:
        # This tree's own rooms, whichever tree is installed.
        return {**os.environ, "PYTHONPATH": str(HERE.parents[1]), MARK: self.mark}


def docker_place(scratch: Path) -> ProcessPlace:
    return ProcessPlace(
        scratch=scratch,
        program=[HERE / "docker_case.py"],
        clean=lambda: containers.clean(print),
        left=lambda: owned_things(dead=True),
    )


def kubernetes_place(scratch: Path) -> ProcessPlace:
    return ProcessPlace(
        scratch=scratch,
        program=[HERE / "kubernetes_case.py"],
        clean=lambda: namespaces.clean(print),
        left=dead_namespaces,
    )


def ssh_place(scratch: Path, hosts: SshHosts) -> ProcessPlace:
    inventory = hosts.write(scratch / "hosts.yaml", hosts.document())

    def claimed(number: int) -> bool:
        return hosts.run(number, "ls", "/home/admin/.ackproof/run").status == 0

    return ProcessPlace(
        scratch=scratch,
        program=[HERE / "ssh_case.py", inventory],
        # All: it is unknown there whether a harness is dead or cut off.
        clean=lambda: clean_hosts(load(inventory), print, everything=True),
        left=lambda: [str(n) for n in range(len(hosts.addresses)) if claimed(n)],
    )


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), HOSTS) as found:
        yield found


@contextmanager
def _ended(place: ProcessPlace) -> Iterator[Place]:
    try:
        yield place
    finally:
        for run in place.started:
            run.kill()
            run.wait(PATIENCE_S)


@pytest.fixture(params=places(rootless=pytest.mark.integration))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "docker":
        with _ended(docker_place(tmp_path)) as on_containers:
            yield on_containers
        on_containers.clean()
    elif request.param == "kubernetes":
        with _ended(kubernetes_place(tmp_path)) as in_pods:
            yield in_pods
        in_pods.clean()
    elif request.param == "ssh":
        with _ended(ssh_place(tmp_path, request.getfixturevalue("hosts"))) as on_hosts:
            yield on_hosts
    else:
        with inside_as(request.param, HERE) as inside:
            yield LocalPlace(inside)
