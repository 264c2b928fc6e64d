"""What befell a partition and was seen of it, and by when a broker has heard of a change.

A broker hears from those who keep the metadata (ZooKeeper, or KRaft's controllers), or from the
broker that is the controller, that another one leads or that another ISR is in force. A session
timeout and a replica lag are enough for that. Only a fault on that broker, on a keeper of the
metadata, or on the controller while it is in office, keeps it from hearing. What befalls a
follower, a client or a topic does not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ackproof.checkers.context.faults import FOREVER, FaultFacts
from ackproof.checkers.context.observed import Observed, Span
from ackproof.checkers.context.pace import FULL, Pace

DISKS_THAT_SERVE = frozenset({"slow-disk", "disk-full"})
"""Faults of a disk that keep no controller from telling what it has decided: it writes that to
ZooKeeper."""

NOBODY = -1
"""A broker that no fault befell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the terms of a partition follow from, beside its cell.

    Attributes:
        observed: What was seen of it.
        faults: Of the run.
        settle_ns: Session timeout and replica lag: within this time after whatever kept a deposed
            leader from hearing of it is over, it has heard.
        clock_bound_ns: Of those who sent to it; None where that is not known.
        tenures: The brokers that were seen to be the controller, each with its time in office.
        combined: The brokers that keep the metadata, too, by name.
        pace: How much of the time servers could use.
    """

    observed: Observed
    faults: tuple[FaultFacts, ...]
    settle_ns: int
    clock_bound_ns: int | None
    tenures: tuple[tuple[int, Span], ...] = ()
    combined: frozenset[str] = frozenset()
    pace: Pace = FULL

    def heard(self, time: int, broker: int | None, faults: Iterable[FaultFacts]) -> int:
        """Return by when a broker has heard of a change that was seen at ``time``.

        Servers that had to wait for a processor have as much more time. Arguments as of
        :meth:`due`.
        """
        return self._told(time, broker, tuple(faults), self.pace)

    def due(self, time: int, broker: int | None, faults: Iterable[FaultFacts]) -> int:
        """Return by when a broker should have heard of a change that was seen at ``time``, whether
        or not servers had to wait for a processor.

        Cut off from ZooKeeper and the others, a deposed leader goes on acknowledging to clients
        that reach it until the links are healed and it hears who leads now.

        Args:
            broker: None for every broker.
            faults: Those that may have kept it from hearing, as far as each reaches.
        """
        return self._told(time, broker, tuple(faults), FULL)

    def settled(self, time: int) -> int:
        """Return by when servers that were kept from hearing until ``time`` have heard."""
        return self.pace.after(time, self.settle_ns)

    def _told(self, time: int, broker: int | None, faults: Sequence[FaultFacts], pace: Pace) -> int:
        if broker is None:
            befallen = set().union(*(fault.brokers or () for fault in faults))
            return max(self._told(time, one, faults, pace) for one in (NOBODY, *befallen))
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
        """Return for how long a fault may have kept a broker from hearing; None: it did not."""
        if not fault.disturbs:
            return None
        everyone = fault.brokers is None or fault.befell_keepers(self.combined)
        if everyone or broker in (fault.brokers or ()):
            return Span(fault.start, fault.end)
        # The next controller tells every broker who leads when it takes office.
        last = max((end for end in self._in_office(fault)), default=fault.start)
        return Span(fault.start, min(last, fault.end)) if last > fault.start else None

    def _in_office(self, fault: FaultFacts) -> Iterable[int]:
        """Return the ends of the terms of office that a fault met."""
        if fault.name in DISKS_THAT_SERVE:
            return ()
        on = Span(fault.start, fault.end)
        befell = fault.brokers or frozenset()
        return (span.end for broker, span in self.tenures if broker in befell and span.meets(on))
