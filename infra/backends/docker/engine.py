"""The Docker Engine: whether it can serve, and which of its objects belong to the harness.

The engine must be this machine's own. Links are cut, and processes reached, from outside of the
containers by ``/proc/<pid>`` and by their network namespaces. Every object carries a label that
names its owner, the process that made it. An object with a dead owner is garbage.

``python -m ackproof.infra.backends.docker.engine`` exits with 0 if it can serve, else it prints the
reason.

Not handled: harnesses in different PID namespaces on one engine (each takes the other for dead).
"""

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.machine.identity import ProcessIdentity

if TYPE_CHECKING:
    import docker

OWNER = "ackproof.owner"
"""The label of containers and networks: the owner's ProcessIdentity as JSON."""

IMAGE = "ackproof.image"
"""The label of every image made here."""

_LIMITS = {Capability.LIMIT_CPU: "CpuCfsQuota", Capability.LIMIT_MEMORY: "MemoryLimit"}
_UNIX = "unix://"
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_INSTALL = "install Docker Engine and start it (Debian: apt-get install docker.io)"
_REMOTE = (
    "links are cut from this machine, in the containers' network namespaces: use the engine of "
    "this machine (unset DOCKER_HOST)"
)


def unavailable() -> str | None:
    """Return what is missing for the backend and the remedy, or None if it works here."""
    if sys.platform != "linux":
        return f"the backend docker needs Linux; this is {sys.platform}"
    if os.geteuid() != 0:
        return "the backend docker needs root, to enter containers' network namespaces: sudo"
    try:
        with connected() as client:
            return refusal(client.info())
    except InfraError as error:
        return str(error)


def refusal(info: Mapping[str, Any]) -> str | None:
    """Return why the containers of an engine cannot be reached from here, or None if they can.

    ``info`` is the engine's description of itself (``docker info``).
    """
    security = " ".join(info.get("SecurityOptions") or ())
    kernel = os.uname().release
    if info.get("OSType") != "linux":
        return f"the engine runs {info.get('OSType')} containers, not Linux"
    if info.get("KernelVersion") != kernel:
        return (
            f"the engine's kernel is {info.get('KernelVersion')}, this machine's {kernel} (a "
            f"virtual machine?): {_REMOTE}"
        )
    if "name=rootless" in security:
        return (
            "the engine is rootless, so its containers cannot be reached: use an engine "
            "that runs as root"
        )
    if "name=userns" in security:
        return "the engine maps users (userns-remap): use an engine that does not"
    return None


@contextmanager
def connected(timeout_s: int = 60) -> "Iterator[docker.DockerClient]":
    """Yield a client of the engine, and close it at the end.

    Raises InfraError for each request that the engine refuses or does not answer. ``timeout_s`` is
    the limit for each answer of the engine.
    """
    host = os.environ.get("DOCKER_HOST") or _DEFAULT_HOST
    if not host.startswith(_UNIX):
        raise InfraError(f"DOCKER_HOST={host} is not this machine: {_REMOTE}")
    try:
        # The trial comes before the library, which leaves its connection open if no engine answers.
        with socket.socket(socket.AF_UNIX) as trial:
            trial.connect(host.removeprefix(_UNIX))
    except OSError as error:
        raise _unanswered(host, error) from error
    # The import takes longer than all others together, and is not needed without an engine.
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=timeout_s)
    except (DockerException, OSError) as error:
        raise _unanswered(host, error) from error
    try:
        yield client
    except DockerException as error:
        raise InfraError(f"Docker Engine: {error}") from error
    finally:
        client.close()


def _unanswered(host: str, error: Exception) -> InfraError:
    return InfraError(f"no Docker Engine answers at {host} ({error}): {_INSTALL}")


def print_line(line: str) -> None:
    """Print a line of progress on standard output at once, even into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def limits() -> frozenset[Capability]:
    """Return the limits that containers can have, by the engine's description of its kernel.

    Raises InfraError without an engine.
    """
    with connected() as client:
        info = client.info()
    return frozenset(capability for capability, option in _LIMITS.items() if info.get(option))


def owned() -> dict[str, str]:
    """Return the label that makes the calling process the owner."""
    return {OWNER: json.dumps(asdict(ProcessIdentity.of(os.getpid())))}


def owner(labels: Mapping[str, str]) -> ProcessIdentity:
    """Return the owner of an object with these labels. Raises InfraError if the label is
    damaged."""
    try:
        return ProcessIdentity(**json.loads(labels[OWNER]))
    except (ValueError, TypeError, KeyError) as error:
        raise InfraError(f"label {OWNER}={labels.get(OWNER)!r} is damaged") from error


if __name__ == "__main__":
    sys.exit(unavailable())
