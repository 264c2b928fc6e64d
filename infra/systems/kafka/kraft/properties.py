"""What a campaign's broker properties are with KRaft."""

from collections.abc import Mapping
from typing import TypeVar

V = TypeVar("V")

SESSION = "broker.session.timeout.ms"
OF_ZOOKEEPER = "zookeeper.session.timeout.ms"
SESSION_DEFAULT_MS = 9_000
_HEARTBEAT = "broker.heartbeat.interval.ms"
_DEFAULTS = {
    # Waits are derived from it.
    "replica.lag.time.max.ms": "30000",
    # It makes index files of 10 MB, two for each replica, which collect would fetch whole.
    "log.index.size.max.bytes": "1048576",
    # The default does not go into the heap, and campaigns compact nothing of their own.
    "log.cleaner.dedupe.buffer.size": "8388608",
}


def session_as_here(properties: Mapping[str, V]) -> dict[str, V]:
    """``properties``, where the session timeout is called what it is called with ZooKeeper, with
    KRaft's name for it: what a campaign says for both, it says once. Where both are there, KRaft's
    own counts."""
    rest = {name: value for name, value in properties.items() if name != OF_ZOOKEEPER}
    if OF_ZOOKEEPER in properties:
        rest.setdefault(SESSION, properties[OF_ZOOKEEPER])
    return rest


def in_force(properties: Mapping[str, str]) -> dict[str, str]:
    """All that are given to every server, for those that a campaign sets."""
    given = {**_DEFAULTS, SESSION: str(SESSION_DEFAULT_MS), **session_as_here(properties)}
    # In Kafka's own proportion, 2 s of 9 s: with less than two heartbeats in a session it does not
    # start.
    given.setdefault(_HEARTBEAT, str(max(int(given[SESSION]) * 2 // 9, 1)))
    return given
