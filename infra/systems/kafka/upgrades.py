"""The change of a cluster of Apache Kafka, server by server: from one release to another, or from
ZooKeeper to KRaft (:mod:`infra.systems.kafka.migration`).

A fault exchanges the programs of servers one by one (:mod:`infra.api.capabilities`). A server
proves its version by the line that Kafka writes into its log at each start (``AppInfoParser: Kafka
version: 4.4.0``).

With ZooKeeper an upgrade is final once each broker was restarted once more, without the
``inter.broker.protocol.version`` of the older release. With KRaft see
:mod:`infra.systems.kafka.kraft.upgrade`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from ackproof.infra.api.capabilities import Stage, UpgradeRefused
from ackproof.infra.api.interface import Command
from ackproof.infra.systems.kafka.releases import Release, apache_version
from ackproof.infra.systems.server import NodeServer

# --- servers and their stages ---------------------------------------------------------------------

_VERSION = re.compile(rb"AppInfoParser: Kafka version: (\S+)")
_FIRST_BROKER = "broker-1"


class ServerChange(ABC):
    """An ``infra.api.capabilities.Upgrade`` of a cluster of Apache Kafka.

    Args:
        versions: What servers report in each stage.
        servers: Returns the servers by name.
        command: Configures a server for a stage, and returns the command that starts it.
    """

    def __init__(
        self,
        versions: Mapping[Stage, str],
        servers: Callable[[], Mapping[str, NodeServer]],
        command: Callable[[NodeServer, Stage], Command],
    ) -> None:
        self.versions = versions
        self.unfinished: set[str] = set()
        self._servers = servers
        self._command = command
        self._stages: dict[str, Stage] = {}
        self._was: dict[str, str | None] = {}
        self._begins: dict[str, int] = {}
        """The size of each server's log when its programs were last exchanged."""

    def first_stage(self, server: str) -> Stage:
        """Return the stage in which a server is configured when it is made: a broker that joins
        later has that of the first broker."""
        return self._stages.setdefault(server, self.stage(_FIRST_BROKER))

    def stage(self, server: str) -> Stage:
        return self._stages.get(server, Stage.BEFORE)

    def install(self, server: str, stage: Stage) -> None:
        stopped = self._servers()[server]
        if not stopped.exited():
            raise RuntimeError(f"{server} runs: its programs are not exchanged")
        self._was[server] = self.reported(server)
        self._begins[server] = len(stopped.log())
        self._stages[server] = stage
        stopped.use(self._command(stopped, stage))

    @abstractmethod
    def reported(self, server: str) -> str | None: ...

    def was(self, server: str) -> str | None:
        return self._was.get(server)

    @abstractmethod
    def obstacle(self, server: str, stage: Stage) -> str | None: ...

    @abstractmethod
    def finalize(self, timeout_s: float) -> None: ...

    @abstractmethod
    def finality(self, broker: str) -> tuple[bool, str]: ...

    def _said(self, server: str) -> bytes:
        """Return what the server has logged since its programs were last exchanged."""
        try:
            return self._servers()[server].log()[self._begins.get(server, 0) :]
        except FileNotFoundError:
            return b""


class ReleaseChange(ServerChange):
    """The change from one release to another, ``before`` and ``after``."""

    def __init__(
        self,
        before: Release,
        after: Release,
        servers: Callable[[], Mapping[str, NodeServer]],
        command: Callable[[NodeServer, Stage], Command],
    ) -> None:
        newer = after.version
        versions = {Stage.BEFORE: before.version, Stage.AFTER: newer, Stage.FINAL: newer}
        super().__init__(versions, servers, command)

    def reported(self, server: str) -> str | None:
        found = _VERSION.findall(self._said(server))
        return apache_version(found[-1].decode(errors="replace")) if found else None

    def obstacle(self, server: str, stage: Stage) -> str | None:  # noqa: ARG002
        if stage is Stage.BEFORE and self.finalized:
            return "the upgrade is final, and Kafka does not go back from there"
        return None

    @property
    @abstractmethod
    def finalized(self) -> bool:
        """Return whether the upgrade is final, or may be, for any server. There is then no way
        back."""


# --- with ZooKeeper -------------------------------------------------------------------------------

PROTOCOL = "inter.broker.protocol.version"
_PROTOCOL_IN_LOG = re.compile(rb"\binter\.broker\.protocol\.version = (\S+)")


def protocol_of(release: Release) -> str:
    """Return the ``inter.broker.protocol.version`` of a release, for example ``2.8``."""
    return ".".join(map(str, release.numbers[:2]))


class ProtocolChange(ReleaseChange):
    """The change of brokers on ZooKeeper."""

    def finalize(self, timeout_s: float) -> None:  # noqa: ARG002
        raise UpgradeRefused(f"with ZooKeeper each broker is restarted without {PROTOCOL}")

    def finality(self, broker: str) -> tuple[bool, str]:
        found = _PROTOCOL_IN_LOG.findall(self._said(broker))
        level = found[-1].decode(errors="replace") if found else "unknown"
        newest = ".".join(self.versions[Stage.FINAL].split(".")[:2])
        return level.split("-")[0] == newest, f"{PROTOCOL} {level}"

    @property
    def finalized(self) -> bool:
        return Stage.FINAL in self._stages.values()
