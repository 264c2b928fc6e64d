"""A campaign's broker properties with KRaft, and the listeners of its servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from ackproof.infra.systems.deployment import BROKER_PORT

V = TypeVar("V")

SESSION = "broker.session.timeout.ms"
OF_ZOOKEEPER = "zookeeper.session.timeout.ms"
SESSION_DEFAULT_MS = 9_000
_HEARTBEAT = "broker.heartbeat.interval.ms"
_DEFAULTS = {
    # Waits are derived from this property.
    "replica.lag.time.max.ms": "30000",
    # The default makes index files of 10 MB, two for each replica, which collect would fetch whole.
    "log.index.size.max.bytes": "1048576",
    # The default does not fit into the heap, and campaigns compact few keys.
    "log.cleaner.dedupe.buffer.size": "8388608",
}


def session_as_here(properties: Mapping[str, V]) -> dict[str, V]:
    """Return ``properties`` with KRaft's name for the session timeout instead of ZooKeeper's.

    A campaign can therefore set it once for both. If both names are there, KRaft's own counts.
    """
    rest = {name: value for name, value in properties.items() if name != OF_ZOOKEEPER}
    if OF_ZOOKEEPER in properties:
        rest.setdefault(SESSION, properties[OF_ZOOKEEPER])
    return rest


def in_force(properties: Mapping[str, str]) -> dict[str, str]:
    """Return all properties of every server, given those that a campaign sets."""
    given = {**_DEFAULTS, SESSION: str(SESSION_DEFAULT_MS), **session_as_here(properties)}
    # The proportion is Kafka's own, 2 s of 9 s. With less than two heartbeats in a session it does
    # not start.
    given.setdefault(_HEARTBEAT, str(max(int(given[SESSION]) * 2 // 9, 1)))
    return given


# --- listeners --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of a server."""

    name: str
    port: int

    def at(self, address: str) -> str:
        """Return it as in Kafka's ``listeners``, at the address of a node."""
        return f"{self.name}://{address}:{self.port}"

    def property(self, name: str) -> str:
        """Return the name of Kafka's property ``name`` for this listener alone."""
        return f"listener.name.{self.name.lower()}.{name}"


PLAINTEXT = Listener("PLAINTEXT", BROKER_PORT)
"""The only listener of brokers on a cluster without security."""
CONTROLLERS = Listener("CONTROLLER", 9093)
"""The listener of controllers."""
CLIENTS = Listener("CLIENTS", BROKER_PORT)
"""The listener of brokers for clients, on a secured cluster."""
BROKERS = Listener("BROKERS", 9094)
"""The listener of brokers for each other, on a secured cluster."""
