"""The Docker Engine: whether it can serve, and what of it is ours.

The engine must be this machine's own: links are cut, and processes reached, from outside of the
containers by way of ``/proc/<pid>`` and of their network namespaces. Everything that is made
carries a label that names its owner, the process that made it; what has a dead owner is garbage.

``python -m ackproof.infra.backends.docker.engine`` exits with 0 where it can serve, else says why
not.

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
"""Label of containers and networks: the owner's ProcessIdentity as JSON."""

IMAGE = "ackproof.image"
"""Label of every image made here."""

_LIMITS = {Capability.LIMIT_CPU: "CpuCfsQuota", Capability.LIMIT_MEMORY: "MemoryLimit"}
_UNIX = "unix://"
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_INSTALL = "install Docker Engine and start it (Debian: apt-get install docker.io)"
_REMOTE = (
    "links are cut from this machine, in the containers' network namespaces: use the engine of "
    "this machine (unset DOCKER_HOST)"
)


def unavailable() -> str | None:
    """None when the backend works here; else what is missing and how to mend it."""
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
    """Why the containers of an engine cannot be reached from here; None when they can.

    ``info``: what the engine says of itself (``docker info``).
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
        return "the engine is rootless, its containers are out of reach: use one that runs as root"
    if "name=userns" in security:
        return "the engine maps users (userns-remap): use one that does not"
    return None


@contextmanager
def connected(timeout_s: int = 60) -> "Iterator[docker.DockerClient]":
    """A client of the engine, closed at the end. What the engine refuses meanwhile, and its not
    answering, is raised as InfraError.

    ``timeout_s``: for each answer of the engine.
    """
    host = os.environ.get("DOCKER_HOST") or _DEFAULT_HOST
    if not host.startswith(_UNIX):
        raise InfraError(f"DOCKER_HOST={host} is not this machine: {_REMOTE}")
    try:
        # Before the library tries: what it opens, it leaves open when nobody answers.
        with socket.socket(socket.AF_UNIX) as trial:
            trial.connect(host.removeprefix(_UNIX))
    except OSError as error:
        raise _unanswered(host, error) from error
    # Longer to import than all that is ours: not where there is nobody to talk to.
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
    """What containers can be given too little of, as the engine tells of its kernel. Raises
    InfraError where there is no engine."""
    with connected() as client:
        info = client.info()
    return frozenset(capability for capability, told in _LIMITS.items() if info.get(told))


def owned() -> dict[str, str]:
    """The label that makes the calling process the owner."""
    return {OWNER: json.dumps(asdict(ProcessIdentity.of(os.getpid())))}


def owner(labels: Mapping[str, str]) -> ProcessIdentity:
    """Of what has these labels. Raises InfraError where the label is damaged."""
    try:
        return ProcessIdentity(**json.loads(labels[OWNER]))
    except (ValueError, TypeError, KeyError) as error:
        raise InfraError(f"label {OWNER}={labels.get(OWNER)!r} is damaged") from error


if __name__ == "__main__":
    sys.exit(unavailable())
