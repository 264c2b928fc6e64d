"""The settings that waits are derived from, as the campaign asks for them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.harness.campaign.model.campaign import Limits
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.history.cell import Value
from ackproof.infra import systems
from ackproof.infra.api.interface import Timings
from ackproof.infra.systems.kafka.kraft.properties import (
    SESSION,
    SESSION_DEFAULT_MS,
    session_as_here,
)
from ackproof.infra.systems.product import is_external
from ackproof.infra.systems.properties import timing_ms
from ackproof.nemesis.proofs.proving import expiry_ms
from ackproof.workloads.configuration import rejoin_s

_FAULT_MS_MIN = 30_000
_AFTER_THE_SESSION_MS = 15_000
"""For a controller to see that a session expired, and to elect; for a broker to start."""


def fault_limit_ms(limits: Limits, timings: Timings) -> int:
    """How long it may take to prove that a fault bit. A session that takes longer to expire than
    the limit would make every kill unprovable."""
    if limits.fault is not None:
        return limits.fault
    return max(_FAULT_MS_MIN, expiry_ms(timings) + _AFTER_THE_SESSION_MS)


@dataclass(frozen=True, slots=True)
class CampaignTimings:
    """:class:`infra.api.interface.Timings` of a cluster that is not deployed yet: what the campaign
    sets, and for what it does not the defaults of the system and its generation."""

    cluster: ClusterSpec

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        if is_external(self.cluster.system) and SESSION in self.cluster.properties:
            return int(self.cluster.properties[SESSION])
        if not self.cluster.kraft:
            return self._milliseconds("zookeeper.session.timeout.ms")
        return int(session_as_here(self._set).get(SESSION, SESSION_DEFAULT_MS))

    @property
    def replica_lag_time_max_ms(self) -> int:
        return self._milliseconds("replica.lag.time.max.ms")

    def _milliseconds(self, name: str) -> int:
        known = systems.known(self.cluster.system, self.cluster.metadata_quorum)
        return timing_ms(name, self._set, known)

    @property
    def _set(self) -> Mapping[str, Value]:
        return {**systems.parse(self.cluster.system).defaults, **self.cluster.properties}


def group_recovery_ms(recover_ms: int, config: Mapping[str, object]) -> int:
    """How long a group whose members have these properties may take to go on, when the cluster has
    recovered, in milliseconds: as long as the cluster itself may take (``recover_ms``), and what
    the protocol of groups gives it."""
    return recover_ms + round(rejoin_s(config) * 1000)
