"""The legal names of topics, and Kafka's own topics (``common.internals.Topic``).

Names come from clients and out of ZooKeeper, and become parts of the paths of znodes and files. An
illegal name must never get there.
"""

import re
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""KRaft's topic, whose name no client may use."""

INTERNAL: Final = frozenset({OFFSETS_TOPIC, "__transaction_state"})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal(name: str) -> bool:
    """Return whether a topic may have this name."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None


def is_internal(name: str) -> bool:
    """Return whether only brokers write to this topic, as Metadata says."""
    return name in INTERNAL
