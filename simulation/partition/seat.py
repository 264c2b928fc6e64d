"""What one broker has of a partition, as far as an observer knows."""

import math
from dataclasses import dataclass, field
from typing import Final

from ackproof.broker.controller.cluster import NEVER_READ
from ackproof.broker.replication.events import Produce, WriteIsr
from simulation.partition.laggards import Laggards
from simulation.partition.shadow import Shadow

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
    had: int = 0
    """Of one that is damaged: how long its log was when it was whole, or has become since."""
    lost_committed: bool | None = None
    """Of one that is damaged: whether it lacked what was committed when its leader first heard of
    it again; None: not yet."""
    registered: int = NEVER_READ
    """The transaction of its last registration: its broker epoch."""
    trusted: bool = True
    """Its log and watermark are of a time that counts: see ``Seats.unpromise``."""
    known: bool = True
    """``log`` is what is on the disk."""
    certain: int = 0
    """Of one that is not: below this it is, there or not what lies above."""
    readable: bool = True
    """Its disk let the observer look at the log when this life began."""
    closed: bool = False
    """Its broker has ended in good order since it was last heard of."""
    leads_from: dict[int, int] = field(default_factory=dict)
    """High watermark as leader, by epoch, in this life."""
    began: dict[int, int] = field(default_factory=dict)
    """Where its log ended when it began to lead, by epoch, in this life."""
    waiting: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By token: acks, the offset after the batch of a produce request, and until when it waits."""
    laggards: Laggards = field(default_factory=Laggards)
    proposal: WriteIsr | None = None
    """The last ISR that it proposed in this life, written or not."""
    under_way: WriteIsr | None = None
    """The one of which it has not heard yet."""

    @property
    def is_whole(self) -> bool:
        """It has all that it ever had."""
        return self.kept_from_damage == NODE_IS_FINE

    def unsure_from(self, offset: int) -> None:
        """What lies at ``offset`` and above may be gone, or what was cut from there be back: a log
        of 15 that was cut to 10, and lost power before that was synced, may be 15 long again."""
        self.certain = offset if self.known else min(self.certain, offset)
        self.known = False

    def begins_anew(self, *, readable: bool) -> None:
        """A new process of its broker has opened the log."""
        self.leads_from.clear()
        self.began.clear()
        self.waiting.clear()
        self.proposal = self.under_way = None
        self.laggards = Laggards()
        self.readable = readable
        self.closed = False
        if not readable:
            self.unsure_from(0)

    def keeps(self, log: Shadow, kept: int) -> None:
        """``log`` is there; of what was, it has what lies below ``kept``.

        One that lost all at its first power failure lost nothing at its second: it is as damaged
        as before.
        """
        if kept >= (self.log.end if self.is_whole else self.had):
            self.kept_from_damage = NODE_IS_FINE
        elif not self.is_whole:
            self.kept_from_damage = max(self.kept_from_damage, kept)
        self.verified = min(self.verified, kept)
        self.trusted = self.trusted and log.end == kept  # else what was cut is back

    def has_again(self, log: Shadow, high_watermark: int) -> None:
        """That is what is on the disk."""
        self.log, self.known = log, True
        self.high_watermark = high_watermark
        self.verified = min(self.verified, log.end)

    def asked(self, event: Produce) -> None:
        """A produce request begins to wait."""
        size = sum(batch.next_offset - batch.base_offset for batch in event.batches)
        end = event.appended[1] if event.appended else self.log.end + size
        self.waiting[event.request] = (event.acks, end, event.deadline)
