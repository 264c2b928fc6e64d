"""The time from the command to the ready cluster, for the same cluster on each backend.

Every repetition measures all backends, one right after the other, and begins with another one each
time. A ratio always compares two times of one repetition.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.docker.engine import connected, unavailable
from ackproof.infra.backends.docker.image import ensure_base, ensure_image
from ackproof.infra.backends.ssh.hosts import clean_hosts
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.machine.registry import STATE_DIRECTORY
from benchmarks.ready.cluster import BROKERS, READY
from tests.support.ssh.hosts import ssh_hosts

LOCAL = "local"
HOSTS = BROKERS + 2
"""The number of hosts: one for each broker, and one each for ZooKeeper and the clients."""
_BUILT_WITHIN_S = 1800

Say = Callable[[str], None]
Ratios = Mapping[str, Sequence[float]]
"""For each case but LOCAL, its times divided by LOCAL's."""


class NotReady(Exception):
    """A cluster did not start, or could not be removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case to measure. ``before`` is run first and not measured."""

    name: str
    backend: str
    inventory: Path | None = None
    before: Callable[[], None] = lambda: None


def measure(repetitions: int, say: Say) -> Ratios:
    """Return the times on every backend that works here. The others are reported by ``say``. Raises
    NotReady."""
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-") as directory, _hosts(say) as hosts:
        cases = [Case(name=LOCAL, backend="local"), *_docker(say), *hosts]
        for case in cases:
            say(f"warm-up: {case.name}")
            _wait_s(case, Path(directory))
        waits = []
        for number in range(repetitions):
            say(f"repetition {number + 1} of {repetitions}")
            first = number % len(cases)
            order = [*cases[first:], *cases[:first]]
            waits.append({case.name: _wait_s(case, Path(directory)) for case in order})
    return {
        case.name: [wait[case.name] / wait[LOCAL] for wait in waits]
        for case in cases
        if case.name != LOCAL
    }


def _docker(say: Say) -> Iterator[Case]:
    try:
        if obstacle := unavailable():
            raise InfraError(obstacle)
        with connected(timeout_s=_BUILT_WITHIN_S) as client:
            ensure_base(client, say)
            ensure_image(client, say)
    except InfraError as error:
        say(f"left out: docker: {error}")
    else:
        yield Case(name="docker, image built", backend="docker")


@contextmanager
def _hosts(say: Say) -> Iterator[Sequence[Case]]:
    """Yield the cases on hosts, which exist meanwhile."""
    if os.geteuid() != 0:
        say("left out: ssh: its hosts are made on this machine, which takes root")
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-hosts-") as directory:
        say(f"making {HOSTS} hosts")
        with ssh_hosts(Path(directory), HOSTS) as hosts:
            yield _on_hosts(hosts.inventory)


def _on_hosts(inventory: Path) -> Sequence[Case]:
    def cleaned() -> None:
        said: list[str] = []
        if not clean_hosts(load(inventory), said.append):
            raise NotReady("\n".join(said))

    return (
        Case(name="ssh, hosts cleaned", backend="ssh", inventory=inventory, before=cleaned),
        Case(name="ssh, hosts prepared", backend="ssh", inventory=inventory),
    )


def _wait_s(case: Case, above: Path) -> float:
    """Return the seconds from the start of the command until it reports that the cluster is
    ready."""
    case.before()
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=above))
    arguments = [case.backend, str(directory), *([str(case.inventory)] if case.inventory else [])]
    began = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ready.cluster", *arguments],
        env={**os.environ, STATE_DIRECTORY: str(above / "registry")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        said: list[str] = []
        took: float | None = None
        for line in command.stdout:
            if line.strip() == READY:
                took = perf_counter() - began
                command.stdin.close()
            said.append(line)
    if command.returncode != 0 or took is None:
        raise NotReady(f"{case.name}: status {command.returncode}\n{''.join(said)}")
    return took
