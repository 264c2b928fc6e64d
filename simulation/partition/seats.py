"""The replicas of one partition, side by side: who has what, and who may have lost some of it."""

from collections.abc import Callable, Iterable

from ackproof.broker.controller.cluster import PartitionState
from simulation.partition.promises import Promises
from simulation.partition.seat import NODE_IS_FINE, Seat
from simulation.partition.shadow import Shadow
from simulation.violation import Violation


class Seats(Promises):
    """Of partition ``name``; ``checks_data`` is off where the configuration promises nothing."""

    def __init__(self, name: str, *, checks_data: bool, note: Callable[[str], None]) -> None:
        super().__init__()
        self.name = name
        self.state: PartitionState | None = None
        self.seats: dict[int, Seat] = {}
        self.checks_data = checks_data
        self._note = note
        self._disturbed = -1
        """Word of this leader epoch and those before it counts no more."""

    def _require(self, condition: bool, invariant: str, what: str) -> None:
        if not condition:
            raise Violation(invariant, f"{self.name}: {what}")

    def seat(self, broker: int) -> Seat:
        return self.seats.setdefault(broker, Seat(Shadow(), trusted=self._disturbed < 0))

    @property
    def isr(self) -> Iterable[int]:
        return self.state.isr if self.state else ()

    # --- what is committed --------------------------------------------------------------------

    def _check_members(self, members: Iterable[int], invariant: str) -> None:
        if not self.checks_data:
            return
        for broker in members:
            seat = self.seat(broker)
            if seat.trusted and seat.known and seat.is_whole:
                self._require(
                    seat.log.end >= self.committed_end,
                    invariant,
                    f"{self.committed_end} are committed, and the log of broker {broker}, which "
                    f"is in the ISR, is {seat.log}",
                )
                self._verify(broker, seat, self.committed_end, invariant)

    def _verify(self, broker: int, seat: Seat, end: int, invariant: str = "LogsAgree") -> None:
        """Compares what was not compared yet, below ``end``."""
        if end <= seat.verified:
            return
        for extent in seat.log.between(seat.verified, end):
            if extent.base >= self.given_up:
                right = self.committed.get(extent.base)
                self._require(
                    right == extent,
                    invariant,
                    f"broker {broker} holds {extent}, committed is {right}",
                )
        seat.verified = end

    # --- damage -------------------------------------------------------------------------------

    def damaged(self, broker: int, kept: int, *, now: float) -> None:
        """What ``broker`` held at ``kept`` and above may be lost."""
        seat = self.seats.get(broker)
        if seat is None:
            return
        seat.unsure_from(kept)
        seat.closed = False
        if kept >= seat.log.end:
            return
        seat.had = seat.log.end if seat.is_whole else max(seat.had, seat.log.end)
        seat.kept_from_damage = min(seat.kept_from_damage, kept)
        seat.lost_committed = None
        if self.state is not None and self.state.leader == broker:
            self.only_leader = {o: e for o, e in self.only_leader.items() if e.next <= kept}
        self._weigh_damage(now)

    def _weigh_damage(self, now: float) -> None:
        """Ends promises when nobody in the ISR is undamaged any more. What comes afterwards is
        promised again, so they count as whole from here on: what they lack is not promised."""
        members = [self.seat(broker) for broker in self.isr]
        kept = [member.kept_from_damage for member in members]
        if not kept or NODE_IS_FINE in kept:
            return
        assert self.state is not None
        self.unpromise(int(min(kept)), epoch=self.state.leader_epoch, now=now)
        for member in members:
            member.kept_from_damage = NODE_IS_FINE

    def unpromise(self, offset: int, *, epoch: int, now: float) -> None:
        """What was committed at ``offset`` and above in ``epoch`` or before may be gone.

        Replicas may hold it still, with a watermark above it, until they have followed, or led, in
        a later epoch. Till then nobody goes by what they hold, or were found to lack.
        """
        self.take_back(offset, now)
        self._disturbed = max(self._disturbed, epoch)
        for seat in self.seats.values():
            seat.trusted, seat.lost_committed = False, None
            seat.verified = min(seat.verified, offset)
        self._note(f"nothing of {self.name} from offset {offset} on is promised any more")

    def nobody_damaged_is_trusted(self) -> None:
        """At the end: who lacked what was committed has left the ISR, and come back."""
        for broker in self.isr:
            seat = self.seat(broker)
            self._require(
                not seat.lost_committed or seat.is_whole,
                "DamagedLeavesIsr",
                f"broker {broker} came back with nothing above {seat.kept_from_damage:.0f}, and "
                "was never taken out of the ISR",
            )
