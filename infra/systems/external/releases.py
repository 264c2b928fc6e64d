"""The release of each broker of an external cluster, by the features that it supports.

Kafka's protocol does not carry the version of a broker's software. Each release supports a level of
``metadata.version`` of its own (KIP-584, KIP-778; org.apache.kafka.server.common.MetadataVersion),
which tells 4.2 from 4.3, but not 4.3.0 from 4.3.1. Brokers with ZooKeeper do not report it.
"""

from bisect import bisect_left
from collections.abc import Mapping

from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.wire import Connect, api_versions

_FEATURE = "metadata.version"
_NEWEST_LEVELS: Mapping[int, str] = {
    3: "3.2",
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}
"""The newest level of ``metadata.version`` of each release."""
_ANSWERS_WITHIN_S = 3.0


def releases_of(brokers: Mapping[int, tuple[str, int]], connect: Connect) -> Mapping[int, str]:
    """Return the release of each broker that reports it, such as ``4.3``.

    Args:
        brokers: The address of each.
        connect: Opens connections as clients do.
    """
    found: dict[int, str] = {}

    def ask(broker: int) -> None:
        try:
            answer = api_versions(brokers[broker], _ANSWERS_WITHIN_S, connect)
        except OSError:
            return
        for feature in answer.supported_features:
            if feature.name == _FEATURE:
                found[broker] = release_of(int(feature.max_version))

    on_all(ask, list(brokers))
    return found


def release_of(level: int) -> str:
    """Return the release whose newest level of ``metadata.version`` this is. A level between those
    of two releases belongs to the later one."""
    levels = list(_NEWEST_LEVELS)
    place = bisect_left(levels, level)
    if place < len(levels):
        return _NEWEST_LEVELS[levels[place]]
    return f"newer than {_NEWEST_LEVELS[levels[-1]]} (level {level} of {_FEATURE})"
