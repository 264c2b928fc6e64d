"""The change of a cluster of Apache Kafka from one release to another.

All servers begin with the older release, and a fault exchanges their programs one by one
(:mod:`infra.api.capabilities`). A server proves its version by the line that Kafka writes into its
log at each start (``AppInfoParser: Kafka version: 4.4.0``).

With ZooKeeper an upgrade is final once each broker was restarted once more, without the
``inter.broker.protocol.version`` of the older release. With KRaft it is finalized
by raising ``metadata.version`` to the newest level that the brokers support, by the request
UpdateFeatures (KIP-584). Each broker reports the level in its answer to ApiVersions.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v1.response import UpdateFeaturesResponse
from kio.static.primitive import i16

from ackproof.infra.api.capabilities import Stage, UpgradeRefused
from ackproof.infra.api.interface import Command
from ackproof.infra.systems.kafka.releases import Release, apache_version
from ackproof.infra.systems.server import NodeServer
from ackproof.infra.systems.wire import call

# --- servers and their stages ---------------------------------------------------------------------

_VERSION = re.compile(rb"AppInfoParser: Kafka version: (\S+)")
_FIRST_BROKER = "broker-1"


class ReleaseChange(ABC):
    """An ``infra.api.capabilities.Upgrade`` of a cluster of Apache Kafka.

    Args:
        before: The older release.
        after: The newer one.
        servers: Returns the servers by name.
        command: Configures a server for a stage, and returns the command that starts it.
    """

    def __init__(
        self,
        before: Release,
        after: Release,
        servers: Callable[[], Mapping[str, NodeServer]],
        command: Callable[[NodeServer, Stage], Command],
    ) -> None:
        newer = after.version
        self.versions: Mapping[Stage, str] = {
            Stage.BEFORE: before.version,
            Stage.AFTER: newer,
            Stage.FINAL: newer,
        }
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

    def reported(self, server: str) -> str | None:
        found = _VERSION.findall(self._said(server))
        return apache_version(found[-1].decode(errors="replace")) if found else None

    def was(self, server: str) -> str | None:
        return self._was.get(server)

    @abstractmethod
    def finalize(self, timeout_s: float) -> None: ...

    @abstractmethod
    def finality(self, broker: str) -> tuple[bool, str]: ...

    @property
    @abstractmethod
    def finalized(self) -> bool: ...

    def _said(self, server: str) -> bytes:
        """Return what the server has logged since its programs were last exchanged."""
        try:
            return self._servers()[server].log()[self._begins.get(server, 0) :]
        except FileNotFoundError:
            return b""


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


# --- with KRaft -----------------------------------------------------------------------------------

_METADATA_VERSION = "metadata.version"
_ANSWERS_WITHIN_S = 2.0
_AGAIN_S = 0.5
_TRANSIENT = (
    ErrorCode.not_controller,
    ErrorCode.request_timed_out,
    ErrorCode.coordinator_not_available,
    ErrorCode.broker_not_available,
    ErrorCode.unknown_server_error,
)


class MetadataVersionChange(ReleaseChange):
    """The change of servers with KRaft."""

    _begun = False

    def finalize(self, timeout_s: float) -> None:
        self._begun = True
        deadline = time.monotonic() + timeout_s
        told = "no broker answered"
        while True:
            for name in sorted(self._servers()):
                if (level := self._level(name)) is None:
                    continue
                finalized, newest = level
                if finalized == newest:
                    return
                told = self._ask_for(name, newest)
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{_METADATA_VERSION} was not finalized in time: {told}")
            time.sleep(_AGAIN_S)

    def finality(self, broker: str) -> tuple[bool, str]:
        level = self._level(broker)
        if level is None:
            return False, "no answer"
        finalized, newest = level
        return finalized == newest, f"{_METADATA_VERSION} {finalized} of {newest}"

    @property
    def finalized(self) -> bool:
        return self._begun

    def _level(self, server: str) -> tuple[int, int] | None:
        """Return the finalized ``metadata.version`` and the newest that a broker supports, by its
        own word; None without an answer, or of a server that is no broker."""
        if not server.startswith("broker-"):
            return None
        request = ApiVersionsRequest(client_software_name="ackproof", client_software_version="1")
        try:
            told = call(self._address(server), request, ApiVersionsResponse, _ANSWERS_WITHIN_S)
        except OSError:
            return None
        newest = {one.name: int(one.max_version) for one in told.supported_features}
        current = {one.name: int(one.max_version_level) for one in told.finalized_features}
        if _METADATA_VERSION not in newest or _METADATA_VERSION not in current:
            return None
        return current[_METADATA_VERSION], newest[_METADATA_VERSION]

    def _ask_for(self, server: str, level: int) -> str:
        """Request a level by a broker, and return what it answered. Raises UpgradeRefused."""
        update = FeatureUpdateKey(feature=_METADATA_VERSION, max_version_level=i16(level))
        request = UpdateFeaturesRequest(feature_updates=(update,))
        try:
            told = call(self._address(server), request, UpdateFeaturesResponse, _ANSWERS_WITHIN_S)
        except OSError as silence:
            return f"{server}: {silence}"
        errors = [(told.error_code, told.error_message)]
        errors += [(one.error_code, one.error_message) for one in told.results]
        for code, message in errors:
            if code in _TRANSIENT:
                return f"{server}: {message or code.name}"
            if code is not ErrorCode.none:
                raise UpgradeRefused(f"{_METADATA_VERSION} {level}: {message or code.name}")
        return f"{server}: accepted"

    def _address(self, server: str) -> tuple[str, int]:
        broker = self._servers()[server]
        return broker.node.address, broker.port
