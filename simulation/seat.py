"""What one broker has of a partition, as far as an observer knows."""

import math
from dataclasses import dataclass, field
from typing import Final

from broker.controller.cluster import NEVER_READ
from broker.replication.events import Produce
from simulation.shadow import Shadow

NODE_IS_FINE: Final = math.inf


@dataclass(slots=True)
class Seat:
    """Outlives its broker's processes."""

    log: Shadow
    high_watermark: int = 0
    verified: int = 0
    """Below this it was compared with what is committed."""
    kept_from_damage: float = NODE_IS_FINE
    """Below this offset nothing can have been lost; it is damaged unless that is infinite."""
    lost_committed: bool | None = None
    """Of one that is damaged: whether it lacked what was committed when its leader first heard of
    it again; None: not yet."""
    registered: int = NEVER_READ
    """The transaction of its last registration: its broker epoch."""
    trusted: bool = True
    """Its log and watermark are of a time that counts: see :meth:`Partition.unpromise`."""
    known: bool = True
    """``log`` is what is on the disk."""
    certain: int = 0
    """Of one that is not: below this it is, there or not what lies above."""
    readable: bool = True
    """Its disk let the observer look at the log when this life began."""
    leads_from: dict[int, int] = field(default_factory=dict)
    """High watermark as leader, by epoch, in this life."""
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By token: acks, and the offset after the batch of a produce request."""

    @property
    def is_whole(self) -> bool:
        """It has all that it ever had."""
        return self.kept_from_damage == NODE_IS_FINE

    def asked(self, event: Produce) -> None:
        """A produce request begins to wait."""
        size = sum(batch.next_offset - batch.base_offset for batch in event.batches)
        end = event.appended[1] if event.appended else self.log.end + size
        self.waiting[event.request] = (event.acks, end)
