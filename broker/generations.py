"""Generations of Kafka's replication, as presets of ordinary properties.

What changed between them is told by seed 002 (sections 1.1 and 1.4) and seed 004 (3.3, 3.6):

- 0.8 drops a follower from the ISR also when it is many messages behind, not only when it is
  late; cuts followers down to their high watermark; prefers availability to consistency; elects
  the first in the order of the ISR.
- 0.10 has given up the count of messages (KIP-16), and elects by assignment order (KAFKA-1502).
- 0.11 cuts by leader epochs (KIP-101) and prefers consistency (KIP-106), as every Kafka since. It
  is the default and leaves all other defaults as they are in Kafka 3.x. So a follower may be late
  for 30 s, as since 2.5 (KIP-537); before that, and in the older generations, it was 10 s.

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
        "replica.lag.time.max.ms": "10000",
        "ackproof.leader.by.isr.order": "true",
    },
    "0.10": {
        "inter.broker.protocol.version": "0.10.2",
        "unclean.leader.election.enable": "true",
        "replica.lag.time.max.ms": "10000",
    },
    "0.11": {},
}
"""Properties by the value of ``ackproof.generation``."""
