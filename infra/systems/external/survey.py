"""A first look at a cluster that was there before."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from ackproof.infra.systems.external.described import Described
from ackproof.infra.systems.external.looking import Looking, admin_client

_WITHIN_S = 15.0
_ANSWER_S = 5.0
_LAG = "replica.lag.time.max.ms"
CLEANUP = "log.cleanup.policy"
_BY_ROLES = {True: "broker.session.timeout.ms", False: "zookeeper.session.timeout.ms"}
_ROLES = "process.roles"
"""Is set where there is KRaft, and not else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What there is.

    Attributes:
        in_force: The settings that waits are derived from, and what becomes of old records, as a
            broker tells; empty where it does not.
    """

    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    in_force: Mapping[str, str]


def survey(described: Described) -> Surveyed:
    """Look. Raises ViewUnavailable where nobody answers, InfraError for a secret that is not there,
    or what librdkafka does not connect by."""
    connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
    told = Looking(connection).cluster(_WITHIN_S)
    return Surveyed(
        cluster_id=told.cluster_id,
        brokers=told.brokers,
        in_force=_in_force(connection, min(told.brokers, default=0)),
    )


def _in_force(connection: Mapping[str, str], broker: int) -> Mapping[str, str]:
    """Of a broker; nothing where it may not be asked."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    client = admin_client(connection)
    try:
        asked = client.describe_configs([resource], request_timeout=_ANSWER_S)
        found = {name: one.value for name, one in asked[resource].result().items()}
    except KafkaException:
        return {}
    session = _BY_ROLES[bool(found.get(_ROLES))]
    return {name: found[name] for name in (_LAG, session, CLEANUP) if found.get(name)}
