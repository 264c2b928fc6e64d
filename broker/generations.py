"""Generations of Kafka's replication, as presets of ordinary properties.

What changed between them is told by seed 002 (sections 1.1 and 1.4) and seed 004 (3.3, 3.6):

- 0.8 drops a follower from the ISR also when it is many messages behind, not only when it is
  late; cuts followers down to their high watermark; prefers availability to consistency.
- 0.10 has given up the count of messages (KIP-16).
- 0.11 cuts by leader epochs (KIP-101) and prefers consistency (KIP-106), as every Kafka since.

A property that is given explicitly wins over the preset's.
"""

from collections.abc import Mapping
from typing import Literal

Generation = Literal["0.8", "0.10", "0.11"]

PRESETS: Mapping[str, Mapping[str, str]] = {
    "0.8": {
        "inter.broker.protocol.version": "0.8.2",
        "unclean.leader.election.enable": "true",
        "replica.lag.max.messages": "4000",
    },
    "0.10": {
        "inter.broker.protocol.version": "0.10.2",
        "unclean.leader.election.enable": "true",
    },
    "0.11": {},
}
"""Properties by the value of ``ackproof.generation``."""
