"""The surroundings of a partition: the faults and observations around it, and the time by which a
broker has learned of a change.

A broker learns of a new leader or a new ISR from the servers that keep the metadata (ZooKeeper, or
KRaft's controllers), or from the controller broker. A session timeout and a replica lag are enough
for that. Only three kinds of faults delay it: those on the broker itself, on a server that keeps
the metadata, or on the controller while it is in office. Faults on followers, clients or topics do
not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ackproof.checkers.context.faults import FOREVER, FaultFacts
from ackproof.checkers.context.observed import Observed, Span
from ackproof.checkers.context.pace import FULL, ServerPace

DISKS_THAT_SERVE = frozenset({"slow-disk", "disk-full"})
"""Disk faults that do not keep a controller from announcing what it has decided, because it writes
that to ZooKeeper."""

UNAFFECTED = -1
"""Stands for a broker that no fault affected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSurroundings:
    """Everything besides its cell that the validity window of a partition depends on.

    Attributes:
        observed: The observation of the partition.
        faults: The faults of the run.
        settle_ns: The session timeout plus the replica lag. This long after the end of whatever
            kept a deposed leader from learning of a change, it has learned of it.
        clock_bound_ns: The clock bound of the clients that sent to it, or None if it is unknown.
        tenures: The brokers that were observed to be the controller, each with its time in office.
        combined: The names of the brokers that also keep the metadata.
        pace: The share of the time that servers could use.
    """

    observed: Observed
    faults: tuple[FaultFacts, ...]
    settle_ns: int
    clock_bound_ns: int | None
    tenures: tuple[tuple[int, Span], ...] = ()
    combined: frozenset[str] = frozenset()
    pace: ServerPace = FULL

    def heard(self, time: int, broker: int | None, faults: Iterable[FaultFacts]) -> int:
        """Return the time by which a broker has learned of a change that was observed at ``time``.

        Servers that waited for a processor get as much more time. The arguments are those of
        :meth:`due`.
        """
        return self._told(time, broker, tuple(faults), self.pace)

    def due(self, time: int, broker: int | None, faults: Iterable[FaultFacts]) -> int:
        """Return the time by which a broker should have learned of a change that was observed at
        ``time``, without extra time for servers that waited for a processor.

        A deposed leader that is cut off from ZooKeeper and the other brokers continues to
        acknowledge the records of clients that reach it. It stops when the links are healed and it
        learns of the new leader.

        Args:
            time: The time of the observation.
            broker: The broker, or None for every broker.
            faults: The faults that may have delayed it.
        """
        return self._told(time, broker, tuple(faults), FULL)

    def settled(self, time: int) -> int:
        """Return the time by which servers that were kept from learning until ``time`` have
        learned."""
        return self.pace.after(time, self.settle_ns)

    def _told(
        self, time: int, broker: int | None, faults: Sequence[FaultFacts], pace: ServerPace
    ) -> int:
        if broker is None:
            affected = set().union(*(fault.brokers or () for fault in faults))
            return max(self._told(time, one, faults, pace) for one in (UNAFFECTED, *affected))
        heard = pace.after(time, self.settle_ns)
        kept = (self._kept(fault, broker) for fault in faults)
        for span in sorted((one for one in kept if one is not None), key=lambda one: one.start):
            if span.start <= heard and span.end > time:
                heard = max(heard, pace.after(span.end, self.settle_ns))
        return self.widened(heard)

    def widened(self, time: int) -> int:
        """Return a boundary moved later by the bound of the clients' clocks."""
        return min(time + (self.clock_bound_ns or 0), FOREVER)

    def _kept(self, fault: FaultFacts, broker: int) -> Span | None:
        """Return the span in which a fault may have kept a broker from learning, or None."""
        if not fault.disturbs:
            return None
        everyone = fault.brokers is None or fault.affected_metadata_servers(self.combined)
        if everyone or broker in (fault.brokers or ()):
            return Span(fault.start, fault.end)
        # A controller informs every broker of all leaders when it takes office.
        last = max((end for end in self._in_office(fault)), default=fault.start)
        return Span(fault.start, min(last, fault.end)) if last > fault.start else None

    def _in_office(self, fault: FaultFacts) -> Iterable[int]:
        """Return the ends of the controllers' times in office that a fault overlapped."""
        if fault.name in DISKS_THAT_SERVE:
            return ()
        on = Span(fault.start, fault.end)
        affected = fault.brokers or frozenset()
        return (span.end for broker, span in self.tenures if broker in affected and span.meets(on))
