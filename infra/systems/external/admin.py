"""Orders to somebody else's cluster: as to any, but that topics of ours are written down."""

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource

from ackproof.infra.interface import Server, ViewUnavailable
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.external.journal import Journal
from ackproof.infra.systems.external.looking import admin_client

_ANSWER_S = 5.0


class OutsideAdmin(KafkaAdmin):
    """Implements ``infra.admin.Admin``.

    Args:
        connection: librdkafka's properties, with ``bootstrap.servers``.
        journal: None before the cluster was looked at: no order is given then.
    """

    def __init__(self, brokers: Sequence[Server], connection: Mapping[str, str]) -> None:
        super().__init__(lambda: brokers, lambda topic: own_settings(connection, topic), connection)
        self.journal: Journal | None = None
        self.made: list[str] = []
        """Topics that it has made, or was about to make."""

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        assert self.journal is not None
        self.journal.topic(topic)
        self.made.append(topic)
        super().create_topic(topic, assignment, within_s)


def own_settings(connection: Mapping[str, str], topic: str) -> Mapping[str, str]:
    """Those that a topic has itself, and not from its broker. Raises ViewUnavailable."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin_client(connection)
    try:
        asked = client.describe_configs([resource], request_timeout=_ANSWER_S)
        found = asked[resource].result()
    except KafkaException as failure:
        raise ViewUnavailable(f"{topic}: {failure.args[0].str()}") from failure
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: one.value for name, one in found.items() if one.source == own}
