"""What the controller's four calls of ZooKeeper-mode Kafka have beside their messages.

LeaderAndIsr (api 4, version 5), StopReplica (5, 3), UpdateMetadata (6, 7) and ControlledShutdown
(7, 3): of each the newest version before the KRaft fields came in (KIP-866, KIP-704).
"""

from typing import Final

LEADER_AND_ISR_INCREMENTAL: Final = 1
"""``LeaderAndIsrRequest.type_``: the request names some partitions; others stay as they are."""

LEADER_AND_ISR_FULL: Final = 2
"""``LeaderAndIsrRequest.type_``: the request names every partition the broker has (KIP-516);
sent as the first one to a broker that has just come up."""
