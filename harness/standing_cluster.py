"""A standing cluster: a daemon in namespaces of its own, with the name ``cluster`` in the registry.

Its scratch directory is removed with the daemon. It holds the nodes' files and, once the cluster
serves, ``cluster.json`` with the addresses for clients.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ackproof.harness.campaign.backends import go_inside, make
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.running.deadline import Deadline
from ackproof.history.storage import write_text
from ackproof.infra import run_control
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.registry import EntryKind, Registry, RegistryEntry

RUN_ID = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a standing cluster. ``subnet`` is its subnet as seen from this machine, or
    None if this machine cannot reach it (rootless)."""

    bootstrap_servers: str
    metadata_connect: str
    subnet: str | None


def start(cluster: ClusterSpec, deadline: Deadline) -> Addresses:
    """Start the daemon and wait until its cluster serves. Raises InfraError with its last lines of
    output if it does not."""
    registry = Registry.open()
    if RUN_ID in registry.run_ids():
        alive = registry.get(RUN_ID).alive
        remedy = "ackproof cluster down" if alive else "it ended unexpectedly; run ackproof clean"
        raise InfraError(f"a standing cluster already exists: {remedy}")
    daemon = _spawn(registry, cluster)
    deadline.until(lambda: _file(registry).exists() or daemon.poll() is not None)
    if not _file(registry).exists():
        last_words = _log(registry).read_text(errors="replace").strip()
        stop()
        raise InfraError(f"the cluster did not start: {last_words or 'no answer in time'}")
    return addresses()


def enter(specification: str) -> None:
    """Run the daemon's outer half, which enters the namespaces. ``specification`` is a ClusterSpec
    as JSON."""
    scratch = _scratch(Registry.open())
    arguments = ["cluster", "inside", str(scratch), specification]
    go_inside(arguments, RUN_ID, kind=EntryKind.CLUSTER, scratch=scratch, results=None)


@contextlib.contextmanager
def deployed(scratch: Path, cluster: ClusterSpec) -> Iterator[None]:
    """Run the daemon's inner half: a cluster that serves, and is torn down at the end."""
    from ackproof.infra.backends.local.backend import LocalBackend  # see harness.campaign.backends

    backend = LocalBackend(scratch / "nodes", exposed=True)
    system = make(cluster, backend)
    try:
        system.deploy()
        found = Addresses(
            bootstrap_servers=system.bootstrap_servers,
            metadata_connect="=".join(system.metadata_connect),
            subnet=backend.subnet,
        )
        write_text(scratch / "cluster.json", json.dumps(asdict(found)))
        yield
    finally:
        system.close()
        backend.close()


def entry() -> RegistryEntry | None:
    """Return the standing cluster's entry in the registry, or None if there is none."""
    registry = Registry.open()
    return registry.get(RUN_ID) if RUN_ID in registry.run_ids() else None


def addresses() -> Addresses:
    """Return the addresses of the standing cluster. Raises InfraError if it does not serve yet."""
    try:
        said: Mapping[str, str] = json.loads(_file(Registry.open()).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InfraError("the standing cluster does not serve (yet)") from None
    return Addresses(**said)


def stop() -> bool:
    """End the cluster, and remove what it left. Return False if there was none."""
    registry = Registry.open()
    found = entry()
    if found is not None:
        run_control.stop(registry, found)
    remove_log()
    return found is not None


def remove_log() -> None:
    """Remove the daemon's log, unless there is a standing cluster."""
    if entry() is None:
        _log(Registry.open()).unlink(missing_ok=True)


def _spawn(registry: Registry, cluster: ClusterSpec) -> "subprocess.Popen[bytes]":
    specification = cluster.model_dump_json(by_alias=True)
    command: Sequence[str] = (
        sys.executable,
        "-P",
        "-m",
        "ackproof.harness",
        "cluster",
        "daemon",
        specification,
    )
    with _log(registry).open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _scratch(registry: Registry) -> Path:
    return registry.directory / "standing-cluster"


def _file(registry: Registry) -> Path:
    return _scratch(registry) / "cluster.json"


def _log(registry: Registry) -> Path:
    return registry.directory / "cluster.log"
