"""The change of a cluster with KRaft from one release of Apache Kafka to another.

An upgrade is finalized by raising ``metadata.version`` to the newest level that the brokers
support, by the request UpdateFeatures (KIP-584). Each broker reports the level in its answer to
ApiVersions.
"""

import time

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v1.response import UpdateFeaturesResponse
from kio.static.primitive import i16

from ackproof.infra.api.capabilities import UpgradeRefused
from ackproof.infra.systems.kafka.upgrades import ReleaseChange
from ackproof.infra.systems.wire import api_versions, call

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
        try:
            told = api_versions(self._address(server), _ANSWERS_WITHIN_S)
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
