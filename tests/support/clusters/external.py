"""A cluster that was started by hand: the harness has deployed nothing of it."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.support.clusters import manual_broker
from tests.support.clusters.bundled import Cluster
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import until

SESSION_TIMEOUT_MS = 6_000
LAG_TIME_MAX_MS = 6_000
IN_FORCE = {
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
    "replica.lag.time.max.ms": LAG_TIME_MAX_MS,
}


class YourCluster:
    """Three brokers on loopback. ``cluster``: their configuration, and ways to ask them."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(directory, 3, {name: str(v) for name, v in IN_FORCE.items()})
        self._directories = {n: directory / f"broker-{n}" for n in self.cluster.brokers}

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def start(self) -> None:
        self.cluster.zookeeper.start()
        for directory in self._directories.values():
            # By a process of its own, as a shell's, so that they are no children of this one.
            command = [sys.executable, manual_broker.__file__, "start", str(directory)]
            subprocess.run(command, check=True)
        until("all brokers serve", self.complete, PATIENCE_S)

    def kill(self) -> None:
        for directory in self._directories.values():
            manual_broker.end(directory, signal.SIGKILL)
        self.cluster.kill()

    def complete(self) -> bool:
        with contextlib.suppress(Exception):
            return len(self.cluster.admin().list_topics(timeout=5).brokers) == 3
        return False

    def topics(self) -> set[str]:
        """Return the topics of users."""
        return {t for t in self.cluster.admin().list_topics(timeout=30).topics if t[:2] != "__"}

    def runs(self, broker: int) -> bool:
        """Whether its process runs, neither gone nor stopped."""
        pid = manual_broker.pid_of(self._directories[broker])
        if not manual_broker.runs(pid):
            return False
        return psutil.Process(pid).status() != psutil.STATUS_STOPPED

    def servers(self) -> Mapping[str, Any]:
        """The inventory: commands."""
        return manual_broker.inventory(self._directories)

    def section(self, **external: Any) -> Mapping[str, Any]:
        """The section ``cluster`` of a campaign file."""
        return {
            "system": "external",
            "backend": "here",
            "external": {"bootstrap.servers": self.bootstrap, **external},
            "properties": IN_FORCE,
        }


@contextlib.contextmanager
def your_cluster(directory: Path) -> Iterator[YourCluster]:
    """One that serves, and is gone at the end."""
    yours = YourCluster(directory)
    try:
        yours.start()
        yield yours
    finally:
        yours.kill()
