"""The settings that waits are derived from, as the campaign asks for them."""

from dataclasses import dataclass

from harness.campaign.clusters import TIMING_DEFAULTS_MS, ClusterSpec


@dataclass(frozen=True, slots=True)
class CampaignTimings:
    """:class:`infra.interface.Timings` of a cluster that is not deployed yet: what the campaign
    sets, and Apache Kafka's defaults for what it does not."""

    cluster: ClusterSpec

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        return self._milliseconds("zookeeper.session.timeout.ms")

    @property
    def replica_lag_time_max_ms(self) -> int:
        return self._milliseconds("replica.lag.time.max.ms")

    def _milliseconds(self, name: str) -> int:
        return int(self.cluster.properties.get(name, TIMING_DEFAULTS_MS[name]))
