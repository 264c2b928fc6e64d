"""The settings that waits are derived from, as the campaign asks for them."""

from dataclasses import dataclass

from harness.campaign.model.campaign import Limits
from harness.campaign.model.clusters import TIMING_DEFAULTS_MS, ClusterSpec
from infra.interface import Timings
from infra.systems.kraft.properties import SESSION, SESSION_DEFAULT_MS, session_as_here
from infra.systems.names import external
from nemesis.proofs.proving import expiry_ms

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
    """:class:`infra.interface.Timings` of a cluster that is not deployed yet: what the campaign
    sets, and Apache Kafka's defaults for what it does not."""

    cluster: ClusterSpec

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        if external(self.cluster.system) and SESSION in self.cluster.properties:
            return int(self.cluster.properties[SESSION])
        if not self.cluster.kraft:
            return self._milliseconds("zookeeper.session.timeout.ms")
        return int(session_as_here(self.cluster.properties).get(SESSION, SESSION_DEFAULT_MS))

    @property
    def replica_lag_time_max_ms(self) -> int:
        return self._milliseconds("replica.lag.time.max.ms")

    def _milliseconds(self, name: str) -> int:
        return int(self.cluster.properties.get(name, TIMING_DEFAULTS_MS[name]))
