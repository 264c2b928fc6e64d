"""The Docker Engine: whether it can serve, and what of it is ours.

The engine must be this machine's own: links are cut, and processes reached, from outside of the
containers by way of ``/proc/<pid>`` and of their network namespaces. Everything that is made
carries a label that names its owner, the process that made it; what has a dead owner is garbage.

Not handled: harnesses in different PID namespaces on one engine (each takes the other for dead).
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import docker
from docker.errors import DockerException

from infra.identity import ProcessIdentity
from infra.interface import InfraError

OWNER = "ackproof.owner"
"""Label of containers and networks: the owner's ProcessIdentity as JSON."""

IMAGE = "ackproof.image"
"""Label of every image made here."""

_INSTALL = "install Docker Engine and start it (Debian: apt-get install docker.io)"
_REMOTE = (
    "links are cut from this machine, in the containers' network namespaces: use the engine of "
    "this machine (unset DOCKER_HOST)"
)


def unavailable() -> str | None:
    """None when the backend works here; else what is missing and how to mend it."""
    try:
        with connected() as client:
            _check(client.info())
    except InfraError as error:
        return str(error)
    return None


@contextmanager
def connected(timeout_s: int = 60) -> Iterator[docker.DockerClient]:
    """A client of the engine, closed at the end. What the engine refuses meanwhile, and its not
    answering, is raised as InfraError.

    ``timeout_s``: for each answer of the engine.
    """
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        raise InfraError(f"DOCKER_HOST={host} is not this machine: {_REMOTE}")
    try:
        client = docker.from_env(timeout=timeout_s)
    except DockerException as error:
        raise InfraError(f"no Docker Engine answers ({error}): {_INSTALL}") from error
    try:
        client.ping()
    except (DockerException, OSError) as error:
        client.close()
        raise InfraError(f"no Docker Engine answers ({error}): {_INSTALL}") from error
    try:
        yield client
    except DockerException as error:
        raise InfraError(f"Docker Engine: {error}") from error
    finally:
        client.close()


def owned() -> dict[str, str]:
    """The label that makes the calling process the owner."""
    return {OWNER: json.dumps(asdict(ProcessIdentity.of(os.getpid())))}


def owner(labels: Mapping[str, str]) -> ProcessIdentity:
    """Of what has these labels. Raises InfraError where the label is damaged."""
    try:
        return ProcessIdentity(**json.loads(labels[OWNER]))
    except (ValueError, TypeError, KeyError) as error:
        raise InfraError(f"label {OWNER}={labels.get(OWNER)!r} is damaged") from error


def _check(info: Mapping[str, Any]) -> None:
    """Raises InfraError for an engine whose containers cannot be reached from here."""
    security = " ".join(info.get("SecurityOptions") or ())
    refusals = {
        f"the backend docker needs Linux; this is {sys.platform}": sys.platform != "linux",
        f"the engine runs {info.get('OSType')} containers, not Linux": info.get("OSType")
        != "linux",
        f"the engine's kernel is {info.get('KernelVersion')}, not this machine's "
        f"{os.uname().release} (a virtual machine?): {_REMOTE}": info.get("KernelVersion")
        != os.uname().release,
        "the engine is rootless, its containers' network namespaces are out of reach: use one "
        "that runs as root": "rootless" in security,
        "the engine maps users (userns-remap): use one that does not": "userns" in security,
        "the backend docker needs root, to enter containers' network namespaces: sudo": (
            os.geteuid() != 0
        ),
    }
    for refusal, applies in refusals.items():
        if applies:
            raise InfraError(refusal)
