"""Whether some member of the ISR keeps its data at every moment (acks=all).

An ack waits for all of the ISR, so each member of that moment has the record, and only members
are elected. What a replica lost from its disk it has again once it was out of the ISR and came
back: it may come back only when it has caught up. The promise ends when every member is damaged:

- The ISR has shrunk to B, and B alone loses unsynced data: B returns, is elected, being the only
  candidate, and everybody follows the shorter log. Kafka without KIP-966 does not promise this.
- B and then C lose a disk, each healed and back in the ISR before the next: at each moment two
  others had everything. All is promised.
- B loses its disk, stays in the ISR, and A, the other member, is killed: A's copy is whole, but A
  is not in the ISR. Nothing is promised of what was acked before B's loss; later acks waited for B.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ackproof.checkers.cluster.faults import FaultFacts
from ackproof.checkers.cluster.observed import Observed, Span, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """No member of ``isr`` is known to have what was acked before ``before``; ``certain``: none
    has. ``fault``: the last that damaged one of them. Nobody in ``isr``: it is not known."""

    before: int
    certain: bool
    isr: tuple[int, ...]
    fault: FaultFacts


@dataclass(slots=True)
class _Damage:
    """Of one replica: by what, when at the latest, and whether it has left the ISR since."""

    fault: FaultFacts
    at: Span
    left: bool = False


@dataclass(slots=True)
class _Replicas:
    """The damaged replicas of a partition, as time goes by."""

    observed: Observed
    damaged: dict[int, _Damage] = field(default_factory=dict)

    def strike(self, at: Span, fault: FaultFacts) -> Iterator[Void]:
        in_force = [state.isr for state in self.observed.during(at)]
        if fault.brokers is None or (fault.brokers and self.observed.blind(at)):
            yield Void(before=at.end, certain=False, isr=(), fault=fault)
        for broker in fault.brokers or ():
            out = bool(in_force) and broker not in in_force[-1]
            self.damaged[broker] = _Damage(fault=fault, at=at, left=out)
        void = [isr for isr in in_force if self._all_damaged(isr)]
        if void:
            # The ISR of that very moment is not known when it changed around it.
            certain = void == in_force and self._seen_since(void[0], at.end)
            yield Void(before=at.end, certain=certain, isr=void[0], fault=fault)

    def become(self, state: State) -> Iterator[Void]:
        for broker, damage in list(self.damaged.items()):
            if broker not in state.isr:
                damage.left = True
            elif damage.left and state.time >= damage.at.end:
                del self.damaged[broker]
            else:
                # Out and in again while it was struck: the loss may have come after.
                damage.left = False
        if self._all_damaged(state.isr):
            latest = max((self.damaged[broker] for broker in state.isr), key=lambda d: d.at.end)
            yield Void(
                before=latest.at.end,
                certain=self._seen_since(state.isr, state.time),
                isr=state.isr,
                fault=latest.fault,
            )

    def _all_damaged(self, isr: Sequence[int]) -> bool:
        return bool(isr) and self.damaged.keys() >= set(isr)

    def _seen_since(self, isr: Sequence[int], until: int) -> bool:
        """Return whether each member is proven to have been damaged, and was watched since then: in
        a hole one of them may have left the ISR and come back whole."""
        since = min(self.damaged[broker].at.start for broker in isr)
        proven = all(self.damaged[broker].fault.proven for broker in isr)
        return proven and not self.observed.blind(Span(since, until))


def voided(observed: Observed, strikes: Sequence[tuple[Span, FaultFacts]]) -> Iterator[Void]:
    """The moments at which no member of the ISR was left with its data.

    Args:
        observed: The partition.
        strikes: Faults that took data from disks, and when.
    """
    observed = replace(observed, states=tuple(_with_members(observed.states)))
    replicas = _Replicas(observed)
    # A state that was seen within a strike's span stands behind it: it may be the fault's doing.
    order: list[tuple[int, int, tuple[Span, FaultFacts] | State]] = sorted(
        [(state.time, 1, state) for state in observed.states]
        + [(span.start, 0, (span, fault)) for span, fault in strikes],
        key=lambda event: event[:2],
    )
    for _, _, event in order:
        if isinstance(event, State):
            yield from replicas.become(event)
        else:
            yield from replicas.strike(*event)


def _with_members(states: Iterable[State]) -> Iterator[State]:
    """The states, each with an ISR of somebody. With KIP-966 the last member leaves it, too, when
    it is gone, and stays eligible: A, alone in the ISR, is killed, the ISR is empty, and power
    fails where A was. A is elected all the same, and has not caught up with anybody meanwhile."""
    last: tuple[int, ...] = ()
    for state in states:
        last = state.isr or last
        yield replace(state, isr=last)
