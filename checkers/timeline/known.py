"""What the rules are given of a partition's observed timeline: plain data, for a work item.

Times are of the clients' clock, nanoseconds of the Unix epoch, and on the strict side: an ack with
a time beyond one of them was beyond it, however far the clocks were off and however late the
observation was.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An anomaly that follows from what was observed alone. ``time``: when it was seen, on the
    harness's clock; -1 where a broker's log tells it, whose clock is not known."""

    anomaly: str
    time: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thin:
    """When fewer than min.insync.replicas were in sync, by whatever whoever led knew.

    Attributes:
        start, end: From when until when.
        epoch: Of the leader that is meant; None: of any.
        isr: Who was in sync, in words.
    """

    start: int
    end: int
    epoch: int | None
    isr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Of one partition.

    Attributes:
        acks: Of its cell.
        clock_bound_ns: How far a client's clock may be from the harness's; None where that is not
            known, and then nothing is concluded from times.
        disks_kept: Whether no fault took or changed what brokers had on their disks.
        epochs: The leader epochs that were seen, ascending.
        elected_after: Of each, before when certainly nobody was elected in it or a later one.
        deposed: Of each, from when on its leader must have heard that another one leads.
        log_ends: Of each, where the log of its leader ended when that one began to lead, by its own
            word; -1 where that is not told.
        watched_until: Until when certainly nobody was elected in a later epoch than the last.
        thin: When too few were in sync.
        watched: Whether ZooKeeper's states of it were seen until the end, epochs and all.
        versioned: And a change of its ISR that went unseen would show.
        spoken: Whether brokers' own logs tell of it.
        told: What is no matter of acks.
    """

    acks: str = ""
    clock_bound_ns: int | None = None
    disks_kept: bool = False
    epochs: Sequence[int] = ()
    elected_after: Sequence[int] = ()
    deposed: Sequence[int] = ()
    log_ends: Sequence[int] = ()
    watched_until: int = 0
    thin: Sequence[Thin] = ()
    watched: bool = False
    versioned: bool = False
    spoken: bool = False
    told: Sequence[Told] = ()

    @property
    def tells_of_acks(self) -> bool:
        """Whether acks say something of the ISR (acks=all), at times that are known."""
        return self.acks == "all" and self.clock_bound_ns is not None


UNSEEN = Timeline()
"""Nothing is known."""
