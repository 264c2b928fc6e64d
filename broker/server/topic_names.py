"""What a topic may be called, and which topics are Kafka's own (``common.internals.Topic``).

Names come from clients and out of ZooKeeper, and become parts of the paths of znodes and files:
what is not legal must never get there.
"""

import re
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""KRaft's; nobody may create a topic of that name."""

INTERNAL: Final = frozenset({OFFSETS_TOPIC, "__transaction_state"})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal(name: str) -> bool:
    """Whether a topic may be called so."""
    return name not in {".", ".."} and _LEGAL.fullmatch(name) is not None


def is_internal(name: str) -> bool:
    """Whether brokers alone write to this topic, and say so in Metadata."""
    return name in INTERNAL
