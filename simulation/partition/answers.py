"""What producers are told of one partition."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import Event, Respond, Tick, WriteIsr
from ackproof.broker.replication.replica import Replica, Role
from simulation.partition.laggards import Lag
from simulation.partition.seat import Seat
from simulation.partition.seats import Seats

NOT_ASKED: Final = (0, 0, 0)


class Answers(Seats):
    """Judges each answer when it is given."""

    def __init__(self, name: str, *, checks_data: bool, note: Callable[[str], None]) -> None:
        super().__init__(name, checks_data=checks_data, note=note)
        self.lag_max = Lag()
        self.min_isr = 0
        """The smallest ``min.insync.replicas`` that it has had; 0: nobody has said. A leader hears
        of another late."""
        self._in_sync: defaultdict[int, set[int]] = defaultdict(set)
        """Who was in the ISR as ZooKeeper had it, at any time of a leader epoch."""
        self.been_in_sync: set[int] = set()
        """Who was at any time since the partition was assigned to it."""

    def configured(self, min_isr: int) -> None:
        """So is ``min.insync.replicas`` in ZooKeeper from now on."""
        self.min_isr = min(self.min_isr or min_isr, min_isr)

    def _in_sync_now(self, state: PartitionState) -> None:
        self._in_sync[state.leader_epoch].update(state.isr)
        self.been_in_sync.update(state.isr)

    def added(self, brokers: Iterable[int]) -> None:
        """The partition is assigned to these as well from now on."""
        self.been_in_sync.difference_update(set(brokers) - set(self.isr))

    def _lagging_are_dropped(self, broker: int, seat: Seat, replica: Replica, event: Event) -> None:
        """A leader looks every half ``replica.lag.time.max.ms`` who of the ISR has not caught up
        for longer than that, or is too many messages behind (``isr-expiration``)."""
        if replica.role is not Role.LEADER:
            return
        seat.laggards.messages_max = self.lag_max.messages
        seat.laggards.stepped(replica, event)
        if type(event) is not Tick:
            return
        self._watermark_follows(broker, seat, replica, event.now)
        if _proposed(seat.proposal, replica):
            return
        follower, lag_ms = seat.laggards.longest(event.now)
        self._require(
            lag_ms <= 1.5 * self.lag_max.ms,
            "LaggardsLeave",
            f"broker {follower} lags {lag_ms} ms behind leader {broker}, and is in the ISR",
        )
        follower, lag_ms = seat.laggards.farthest(event.now)
        self._require(
            lag_ms <= 0.75 * self.lag_max.ms,
            "LaggardsLeave",
            f"broker {follower} is more than {self.lag_max.messages:g} messages behind leader "
            f"{broker} for {lag_ms} ms, and in the ISR",
        )

    def _watermark_follows(self, broker: int, seat: Seat, replica: Replica, now: int) -> None:
        """What all have who count is committed, also when somebody ceases to count by the passing
        of time alone.

        3, out of the ISR, was level with the leader once, and is silent. When that is longer ago
        than ``replica.lag.time.max.ms`` nobody appends, and nobody fetches: who waits for acks=all
        would wait until his time is over.
        """
        counted = seat.laggards.hold_back(now, self.lag_max.ms)
        counted.update(_proposed(seat.proposal, replica))
        ends = [end for b, end in replica.follower_ends.items() if b in counted]
        had = min([replica.log_end_offset, *ends])
        self._require(
            replica.high_watermark >= had,
            "WatermarkFollows",
            f"leader {broker} and {sorted(counted)}, who count, have what lies below {had}, and "
            f"committed is what lies below {replica.high_watermark}",
        )

    def _nobody_waits_in_vain(
        self, broker: int, seat: Seat, replica: Replica, event: Event
    ) -> None:
        """A leader answers acks=all when all of the ISR has it, and at the latest when the time
        that the producer gave it is over (``request.timeout.ms``, ``DelayedProduce``)."""
        if replica.role is not Role.LEADER:
            return
        now = event.now if type(event) is Tick else None
        for acks, end, deadline in seat.waiting.values():
            self._require(
                acks != -1 or end > replica.high_watermark,
                "CommittedIsAcked",
                f"leader {broker} has committed what lies below {replica.high_watermark}, and who "
                f"sent what ends at {end} waits",
            )
            self._require(
                now is None or deadline > now,
                "WaitingEnds",
                f"a producer waits at leader {broker} until {deadline}, and it is {now}",
            )

    def _answered(self, broker: int, seat: Seat, replica: Replica, answer: Respond) -> None:
        acks, end, _ = seat.waiting.pop(answer.request, NOT_ASKED)
        if answer.error is not ErrorCode.none:
            return
        if acks == -1:
            self._enough_in_sync(broker, seat, replica)
        if replica.leader_epoch <= self._disturbed:
            if not self._leads_now(broker, replica):
                acked = seat.log.between(answer.base_offset, end)
                self.acked_by_deposed.update(extent.crc for extent in acked)
            return
        if acks == -1 and seat.trusted and seat.is_whole:
            self._require(
                end <= self.committed_end,
                "AckedIsCommitted",
                f"leader {broker} acks up to {end}, committed is up to {self.committed_end}",
            )
        elif acks == 1 and self._leads_now(broker, replica):
            for extent in seat.log.between(answer.base_offset, end):
                self.only_leader[extent.base] = extent

    def _enough_in_sync(self, broker: int, seat: Seat, replica: Replica) -> None:
        """When it answers, a leader counts once more (``Partition.checkEnoughReplicasReachOffset``:
        ``minIsr <= curMaximalIsr.size``).

        Not by ZooKeeper's ISR of this moment: 1 and 2 hold the record, 2 is just being dropped, and
        ZooKeeper has {1} already. By what the leader has heard of, and ZooKeeper did have in this
        epoch; and those count whom it is about to let in, since it has waited for them (KIP-497).
        """
        heard = self._in_sync[replica.leader_epoch].intersection(replica.isr)
        counted = heard.union(_proposed(seat.proposal, replica))
        self._require(
            len(counted) >= self.min_isr,
            "EnoughInSync",
            f"leader {broker} answers acks=all while {sorted(counted)} are in sync, "
            f"min.insync.replicas is {self.min_isr}",
        )

    def _leads_now(self, broker: int, replica: Replica) -> bool:
        """Not deposed, with the word still on its way."""
        state = self.state
        now = (state.leader, state.leader_epoch) if state is not None else None
        return now == (broker, replica.leader_epoch)


def _proposed(proposal: WriteIsr | None, replica: Replica) -> tuple[int, ...]:
    """Whom a proposal names that is neither written nor refused, as far as the leader knows."""
    if proposal is None:
        return ()
    basis = (proposal.leader_epoch, proposal.zk_version)
    return proposal.isr if basis == (replica.leader_epoch, replica.zk_version) else ()
