"""A model of one partition under Kafka's rules: who has which record, who is elected, who follows.

It keeps Kafka's rules, so whatever is lost in it was not promised: a checker that says otherwise
would call an honest broker broken. What an observer saw of it is recorded beside, late by a second
at most.

A replica that dies leaves the ISR unless it is the last; only members of the ISR are elected,
unless elections may be unclean; followers take over the leader's log when they hear of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ackproof.checkers.context.faults import FaultFacts
from ackproof.checkers.context.observed import Observed, PartitionState

SECOND = 1_000_000_000
BROKERS = (1, 2, 3)


@dataclass(kw_only=True)
class ModelPartition:
    """One partition on three brokers.

    Args:
        acks: ``1`` or ``all``.
        unclean: Whether a replica outside the ISR may be elected.
        lag: How late the observer sees the next change, nanoseconds.
    """

    acks: str
    unclean: bool
    lag: Callable[[], int]
    time: int = 1_000_000 * SECOND
    records: dict[int, set[int]] = field(default_factory=lambda: {b: set() for b in BROKERS})
    up: set[int] = field(default_factory=lambda: set(BROKERS))
    cut_off: int | None = None
    leader: int = 1
    epoch: int = 0
    isr: list[int] = field(default_factory=lambda: list(BROKERS))
    states: list[PartitionState] = field(default_factory=list)
    faults: list[FaultFacts] = field(default_factory=list)
    acked: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._see()

    @property
    def observed(self) -> Observed:
        """Return the states that the observer saw."""
        return Observed(states=tuple(self.states))

    def wait(self, nanoseconds: int) -> None:
        """Time goes by."""
        self.time += nanoseconds

    def ack(self) -> None:
        """A leader, also a deposed one that does not know it, acks a record."""
        record = len(self.acked)
        zombie = self.cut_off
        if self.acks == "1":
            writer = zombie if zombie is not None else self.leader
            if writer in self.up:
                self.records[writer].add(record)
                self.acked[record] = self.time
        elif zombie is None and self.leader in self.up and set(self.isr) <= self.up:
            self._follow()
            for broker in self.isr:
                self.records[broker].add(record)
            self.acked[record] = self.time

    def replicate(self) -> None:
        """The followers catch up; those that are up enter the ISR."""
        if self.leader in self.up and self.cut_off is None:
            self._follow()
            self.isr = [*self.isr, *sorted(self.up - set(self.isr))]
            for broker in self.isr:
                self.records[broker] = set(self.records[self.leader])
            self._see()

    def kill(self, broker: int) -> None:
        """Its page cache survives."""
        if broker in self.up and self.cut_off is None:
            self._fault("kill", broker, destroys=None)
            self._die(broker)

    def strike(self, broker: int) -> None:
        """Its machine loses power: nothing was synced."""
        if self.cut_off is None:
            self._fault("power-loss", broker, destroys="unsynced")
            self.records[broker] = set()
            self._die(broker)

    def strike_unnoticed(self, broker: int) -> None:
        """A follower that lost its data and is back before its session has expired."""
        if self.cut_off is None and broker != self.leader and broker in self.up:
            self._fault("power-loss", broker, destroys="unsynced")
            self.records[broker] = set()

    def start(self, broker: int) -> None:
        """It is back; a member of the ISR of a partition without a leader is elected."""
        self.up.add(broker)
        if self.leader == -1:
            self._elect()

    def isolate(self) -> None:
        """The leader is cut off from all others, and goes on acking; another is elected."""
        others = [b for b in self.isr if b != self.leader and b in self.up]
        if self.acks == "1" and self.cut_off is None and self.leader in self.up and others:
            self._fault("isolate", self.leader, destroys=None, healed=None)
            self.cut_off = self.leader
            self.isr = [b for b in self.isr if b != self.leader]
            self._elect()

    def heal(self) -> None:
        """It hears who leads now."""
        if self.cut_off is not None:
            self.records[self.cut_off] = set(self.records.get(self.leader, set()))
            self.cut_off = None
            fault = self.faults.pop()
            self.faults.append(_healed(fault, self.time))

    def lost(self) -> list[int]:
        """Return the acknowledgement times of the records lost in the end; end the model."""
        self.heal()
        for broker in BROKERS:
            self.start(broker)
        self.replicate()
        return [time for r, time in self.acked.items() if r not in self.records[self.leader]]

    def _die(self, broker: int) -> None:
        self.up.discard(broker)
        if broker in self.isr and len(self.isr) > 1:
            self.isr.remove(broker)
        if broker == self.leader:
            self._elect()
        else:
            self.epoch += 1
            self._see()

    def _elect(self) -> None:
        candidates = [b for b in self.isr if b in self.up and b != self.cut_off]
        if not candidates and self.unclean:
            candidates = sorted(self.up)[:1]
            self.isr = candidates or self.isr
        self.leader = candidates[0] if candidates else -1
        self.epoch += 1
        self._see()
        self._follow()

    def _follow(self) -> None:
        """Members of the ISR that are up take over the leader's log: what it lacks, they lose."""
        if self.leader in self.up:
            for broker in self.isr:
                if broker in self.up and broker != self.cut_off:
                    self.records[broker] &= self.records[self.leader]

    def _see(self) -> None:
        seen = max([self.time + self.lag(), *(state.time for state in self.states[-1:])])
        state = PartitionState(
            time=seen, leader=self.leader, leader_epoch=self.epoch, isr=tuple(self.isr)
        )
        self.states.append(state)

    def _fault(
        self, name: str, broker: int, *, destroys: str | None, healed: int | None = 0
    ) -> None:
        self.faults.append(
            FaultFacts(
                fault_id=len(self.faults) + 1,
                name=name,
                target="one",
                servers=(f"broker-{broker}",),
                partitions=frozenset({("t", 0)}),
                destroys=destroys,
                start=self.time,
                injected=self.time,
                heal=None,
                healed=None if healed is None else self.time,
                last=self.time,
                begun=True,
                verified=self.time,
            )
        )


def _healed(fault: FaultFacts, time: int) -> FaultFacts:
    values = {name: getattr(fault, name) for name in fault.__dataclass_fields__}
    return FaultFacts(**{**values, "healed": time, "last": time})
