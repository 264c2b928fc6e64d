"""A cluster to wait for: ``python -m benchmarks.ready.cluster BACKEND DIRECTORY [INVENTORY]``.

It is set up like a cluster of ``ackproof run``: check that the backend works, enter its place, open
it, deploy. The program prints ``ready`` when every broker knows every other, and removes the
cluster when its standard input ends.
"""

import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ackproof.harness.campaign.backends import (
    BACKENDS,
    CLIENT_NODE,
    BackendContext,
    BackendKind,
    make,
)
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.infra.api.interface import InfraError, System
from ackproof.infra.machine.waiting import wait_until

READY = "ready"
BROKERS = 3
_INSIDE = "inside"
_PROPERTIES = {"zookeeper.session.timeout.ms": 6000}
_COMPLETE_WITHIN_S = 60


def main() -> None:
    """Enter the place of the backend. The inner process, which the last argument identifies, does
    the rest."""
    backend, directory, *rest = sys.argv[1:]
    inside = _INSIDE in rest
    inventory = next((argument for argument in rest if argument != _INSIDE), None)
    cluster = ClusterSpec(
        backend=backend, inventory=inventory, brokers=BROKERS, properties=_PROPERTIES
    )
    site = BackendContext(cluster=cluster, tell=_tell)
    place = BACKENDS[backend]
    try:
        if inside:
            _serve(site, place, Path(directory))
        else:
            _enter(site, place, Path(directory))
    except InfraError as error:
        sys.exit(str(error))


def _enter(site: BackendContext, place: BackendKind, directory: Path) -> NoReturn:
    if obstacle := place.obstacle():
        raise InfraError(obstacle)
    place.capabilities(site)
    command = [sys.executable, *sys.orig_argv[1:], _INSIDE]
    place.enter(command, directory.name, scratch=directory / "scratch")


def _serve(site: BackendContext, place: BackendKind, directory: Path) -> None:
    scratch, results = directory / "scratch" / "nodes", directory / "results"
    with (
        closing(place.open(site, scratch, results)) as opened,
        closing(make(site.cluster, opened)) as system,
    ):
        opened.node(CLIENT_NODE)
        system.deploy()
        _await_complete(system)
        _tell(READY)
        sys.stdin.read()


def _await_complete(system: System) -> None:
    """Return when every broker knows every other."""
    ids = {broker.id for broker in system.brokers}
    for broker in system.brokers:
        where = f"{broker.node.address}:{broker.port}"
        admin = AdminClient({"bootstrap.servers": where, "log_level": 0})

        def complete(admin: AdminClient = admin) -> bool:
            try:
                return set(admin.list_topics(timeout=2).brokers) == ids
            except KafkaException:
                return False

        wait_until(complete, _COMPLETE_WITHIN_S, f"{broker.name} to know all {BROKERS} brokers")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
