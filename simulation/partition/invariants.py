"""What must hold of one partition, whatever happened: a pure observer of what its replicas did.

Names are those of the TLA+ specification of Kafka's replication (Gustafson, *kafka-specification*)
where it has one:

* **LeaderInIsr**: ZooKeeper never names a leader outside the ISR.
* **StrongIsr**: every member of the ISR in ZooKeeper has all that any leader ever had below its
  high watermark. **WeakIsr**: so has every member of the ISR that a leader believes in.
* **ValidHighWatermark**: between the log's start and its end, and never above what was committed.
* **OneLeaderPerEpoch**, **EpochNeverBack**, **HighWatermarkNeverBack**.
* **LogsAgree**: no two logs differ below the lower high watermark.
* **AckedIsCommitted**: acks=all is answered by who has committed.
* **EnoughInSync**: and while ``min.insync.replicas`` are in sync, "the minimum number of replicas
  that must acknowledge a write for the write to be considered successful" (Kafka's documentation;
  else NotEnoughReplicas, or NotEnoughReplicasAfterAppend when they were enough as it came).
* **LaggardsLeave**: and the ISR is who keeps up: one that has not for ``replica.lag.time.max.ms``
  is dropped ("Replication" in Kafka's documentation), within as much time again by half; in 0.8
  also who is ``replica.lag.max.messages`` behind, within that half.
* **WatermarkFollows**: what all of the ISR have is committed, and all who were level with the
  leader within ``replica.lag.time.max.ms``: at every tick, also when nobody fetches or appends.
* **LogKept**: a killed broker has its log again, one that lost power all that it had synced.
* **DeletedStaysDeleted**: records that were deleted are not there again after a start, unless the
  broker was killed (``log.flush.start.offset.checkpoint.interval.ms``).
* **ViewIsLog**: a replica's idea of its log is its log.
* **DamagedLeavesIsr**: who came back without what was committed leaves the ISR, and does not lead
  while another member has it. One that stays is taken to hold what it lacks until it has caught
  up; if the leader died before that, it would lead.
* **CleanElection**: nobody leads who was not in the ISR, unless the topic allows it.
* **WaitsForIsr**: nor one that was away, before all of the ISR have come back.
* **BeginsAlone**: and then it is alone in the ISR. What the others lack nobody knows: they join
  when they have caught up, and one of them that stayed would lead as soon as this one dies.

What is promised ends as ``docs/guarantees.md`` says. A broker that lost power or disk is *damaged*
from the offset on that it may have lost, until a leader has let it into the ISR again; when all
members of the ISR are damaged, what they all have is promised still, and the rest of what was
committed is forgotten here (:meth:`~simulation.partition.seats.Seats.unpromise`). What comes in
later epochs is promised again.
"""

from collections.abc import Callable, Iterable

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Effect,
    Event,
    Fetched,
    FollowerFetch,
    LeaderAndIsr,
    LogStartMoved,
    Produce,
    Respond,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import NO_LEADER
from simulation.partition.answers import Answers
from simulation.partition.bounces import awaited, begins_anew
from simulation.partition.seat import NODE_IS_FINE, Seat
from simulation.partition.shadow import Shadow


class Partition(Answers):
    """One partition, told of what ZooKeeper says of it and of all that its replicas do."""

    def __init__(self, name: str, *, checks_data: bool, note: Callable[[str], None]) -> None:
        super().__init__(name, checks_data=checks_data, note=note)
        self._leaders: dict[int, int] = {}
        self._appenders: dict[int, int] = {}

    # --- ZooKeeper ----------------------------------------------------------------------------

    def state_written(self, state: PartitionState, *, unclean: bool, now: float) -> None:
        """The state znode was written; ``unclean``: the topic allows elections outside the ISR."""
        before, self.state = self.state, state
        self._in_sync_now(state)
        leader, isr = state.leader, state.isr
        self._require(leader == NO_LEADER or leader in isr, "LeaderInIsr", f"{leader} not in {isr}")
        self._require(bool(isr), "LeaderInIsr", "an empty ISR")
        if leader != NO_LEADER:
            self._leads(state.leader_epoch, leader)
        if before is None:
            return
        self._require(
            state.leader_epoch >= before.leader_epoch,
            "EpochNeverBack",
            f"leader epoch {before.leader_epoch} became {state.leader_epoch} in ZooKeeper",
        )
        if leader != before.leader:
            self.only_leader.clear()
        if leader not in (NO_LEADER, *before.isr):
            self._require(unclean, "CleanElection", f"{leader} leads, the ISR was {before.isr}")
            self.unpromise(0, epoch=before.leader_epoch, now=now)
        registered = {broker: seat.registered for broker, seat in self.seats.items()}
        anew = begins_anew(before, state, registered)
        away = awaited(before, registered) if anew and not unclean else ()
        self._require(not away, "WaitsForIsr", f"{leader} leads, and {away} may have what it lost")
        others = sorted(set(isr) - {leader}) if anew else ()
        self._require(not others, "BeginsAlone", f"{leader} leads anew, in the ISR are {others}")
        self._weigh_damage(now)
        if anew and not self.seat(leader).is_whole:
            self._all_have_bounced(now)
        if leader not in (NO_LEADER, before.leader):
            self._nobody_better_is_there(leader, isr)
        self._check_members(isr, "StrongIsr")

    def _all_have_bounced(self, now: float) -> None:
        """A controller cannot tell who was killed from who lost power. When the whole ISR came
        back from one or the other, any of them may lead, and with a damaged one goes what only the
        others have: not kept, and known (KIP-966 is the remedy). So it is with those of the ISR
        that an unclean election waited for."""
        assert self.state is not None
        self._note(f"{self.name}: all of the ISR had bounced, and one that is damaged was elected")
        members = [self.seat(broker) for broker in self.isr]
        self.unpromise(
            int(min(seat.kept_from_damage for seat in members)),
            epoch=self.state.leader_epoch - 1,
            now=now,
        )
        for seat in members:
            seat.kept_from_damage = NODE_IS_FINE

    def registered(self, broker: int, zxid: int) -> None:
        """``broker`` is in ``/brokers/ids`` anew, by that transaction."""
        self.seat(broker).registered = zxid

    def _nobody_better_is_there(self, leader: int, isr: Iterable[int]) -> None:
        seat = self.seat(leader)
        fine = [b for b in isr if self.seat(b).is_whole]
        self._require(
            not seat.known or seat.log.end >= self.committed_end or not fine,
            "DamagedLeavesIsr",
            f"{self.committed_end} are committed, broker {leader} has {seat.log}, and is elected, "
            f"not one of {fine}",
        )

    def _leads(self, epoch: int, broker: int) -> None:
        first = self._leaders.setdefault(epoch, broker)
        self._require(
            first == broker,
            "OneLeaderPerEpoch",
            f"brokers {first} and {broker} both lead in epoch {epoch}",
        )

    # --- lives --------------------------------------------------------------------------------

    def hosted(self, broker: int, log: Shadow | None, high_watermark: int) -> None:
        """A new process of ``broker`` has opened its log; None: it could not be read."""
        seat = self.seat(broker)
        was_closed = seat.closed
        seat.begins_anew(readable=log is not None)
        if log is None:
            return
        self._require(
            not was_closed or log.start >= seat.log.start,
            "DeletedStaysDeleted",
            f"broker {broker} had {seat.log} when it ended in good order, and has {log}",
        )
        self._require(
            not was_closed or high_watermark >= min(seat.high_watermark, log.end),
            "WatermarkKept",
            f"broker {broker} knew that what lies below {seat.high_watermark} is committed when it "
            f"ended in good order, and knows it of what is below {high_watermark}",
        )
        kept, as_it_was = log.agrees_up_to(seat.log), seat.known and self.checks_data
        certain = seat.log.end if as_it_was else min(seat.certain, seat.log.end)
        self._require(
            kept >= certain and (not as_it_was or log.end == seat.log.end),
            "LogKept",
            f"broker {broker} had {seat.log}, certainly what lies below {certain}, and has {log}, "
            f"of that what lies below {kept}",
        )
        if not as_it_was:
            seat.keeps(log, kept)
        seat.has_again(log, high_watermark)

    def closed(self, broker: int) -> None:
        """``broker`` has ended in good order. One that lost power, and was asked to stop before it
        had looked at its log again, has not closed what it had before."""
        if broker in self.seats:
            self.seats[broker].closed = self.seats[broker].known

    def cut_short(self, broker: int) -> None:
        """``broker`` has ended without that: the watermark that it has written is an older one. It
        may be asked to stop in its next life before it has opened this log again."""
        if broker in self.seats:
            self.seats[broker].high_watermark = 0

    def removed(self, broker: int) -> None:
        """``broker`` has deleted its replica, and not because the topic is to go."""
        self.seats.pop(broker, None)
        self._check_members({broker}.intersection(self.isr), "StrongIsr")

    def failed(self, broker: int) -> None:
        """``broker`` could not carry out what its replica had decided, and halts."""
        self.seat(broker).unsure_from(0)

    # --- steps --------------------------------------------------------------------------------

    def stepped(
        self, broker: int, replica: Replica, event: Event, effects: tuple[Effect, ...]
    ) -> None:
        """A replica took ``event`` in and ``effects`` were carried out."""
        seat = self.seat(broker)
        if not seat.readable:
            return
        self._heard(broker, seat, replica, event)
        for effect in effects:
            self._follow(broker, seat, effect, replica.isr)
        self._lagging_are_dropped(broker, seat, replica, event)
        if self.checks_data:
            seat.verified = min(seat.verified, seat.log.end)
            self._look(broker, seat, replica, event)
            for answer in (effect for effect in effects if type(effect) is Respond):
                self._answered(broker, seat, replica, answer)
            self._nobody_waits_in_vain(broker, seat, replica, event)

    def _heard(self, broker: int, seat: Seat, replica: Replica, event: Event) -> None:
        match event:
            case Produce():
                seat.asked(event)
            case LeaderAndIsr() if replica.role is Role.LEADER:
                self._leads(replica.leader_epoch, broker)
                seat.trusted = seat.trusted or replica.leader_epoch > self._disturbed
            case FollowerFetch():
                self._told_what_is_left(event.replica)
            case LogStartMoved():
                seat.log.start_at(event.offset)
                self.given_up = max(self.given_up, event.offset)

    def _told_what_is_left(self, follower: int) -> None:
        """One that lost nothing that was committed is whole again once its leader knows how much
        it has."""
        seat = self.seats.get(follower)
        if seat is not None and not seat.is_whole and seat.known:
            if seat.lost_committed is None:
                seat.lost_committed = seat.log.end < self.committed_end
            if not seat.lost_committed:
                seat.kept_from_damage = NODE_IS_FINE

    def _follow(self, broker: int, seat: Seat, effect: Effect, isr: Iterable[int]) -> None:
        seat.log.follow(effect)
        match effect:
            case Append() if effect.leader_epoch is not None:
                first = self._appenders.setdefault(effect.leader_epoch, broker)
                self._require(
                    first == broker,
                    "OneLeaderPerEpoch",
                    f"{first} and {broker} both append in epoch {effect.leader_epoch}",
                )
            case AdvanceLogStart():
                self.given_up = max(self.given_up, effect.offset)
            case WriteIsr():
                seat.proposal = effect
                self._proposed(effect, isr)

    def _proposed(self, effect: WriteIsr, isr: Iterable[int]) -> None:
        """A leader lets in only whom it has seen to hold all: that one is whole again. Whom it
        believes to be in the ISR (``isr``) it may not have seen since that one left it."""
        for broker in effect.isr:
            if broker not in self.isr and broker not in isr:
                self.seat(broker).kept_from_damage = NODE_IS_FINE

    def _look(self, broker: int, seat: Seat, replica: Replica, event: Event) -> None:
        watermark = seat.high_watermark = replica.high_watermark
        view = (replica.log_start_offset, replica.log_end_offset)
        self._require(
            view == (seat.log.start, seat.log.end),
            "ViewIsLog",
            f"broker {broker} believes its log to be {view}, and it is {seat.log}",
        )
        self._require(
            view[0] <= watermark <= view[1],
            "ValidHighWatermark",
            f"{watermark} on broker {broker}, whose log is {view}",
        )
        epoch = replica.leader_epoch
        seat.trusted = seat.trusted or (type(event) is Fetched and epoch > self._disturbed)
        if not seat.is_whole or not seat.trusted:
            return
        if replica.role is Role.LEADER and epoch > self._disturbed:
            self._leader_has(broker, seat, replica, watermark)
        elif self._is_looked_at(replica) and watermark > self.committed_end >= self.given_up:
            self._require(
                watermark <= max(self.committed_end, seat.log.start),
                "ValidHighWatermark",
                f"{watermark} on broker {broker}, but {self.committed_end} is all there is",
            )
        self._verify(broker, seat, min(watermark, self.committed_end))
        if broker in self.isr:
            self._check_members((broker,), "StrongIsr")

    def _is_looked_at(self, replica: Replica) -> bool:
        """Whether what its leader commits is heard of: one whose disk refused a sync is damaged,
        and may lead on, since it sees what it wrote."""
        leader = self.seats.get(replica.leader)
        return leader is None or leader.is_whole

    def _leader_has(self, broker: int, seat: Seat, replica: Replica, watermark: int) -> None:
        before = seat.leads_from.get(replica.leader_epoch, 0)
        self._require(
            watermark >= before,
            "HighWatermarkNeverBack",
            f"leader {broker}, epoch {replica.leader_epoch}: from {before} to {watermark}",
        )
        seat.leads_from[replica.leader_epoch] = watermark
        if watermark <= self.committed_end:
            return
        self._verify(broker, seat, self.committed_end)
        for extent in seat.log.between(self.committed_end, watermark):
            self.committed[extent.base] = extent
        self.committed_end = watermark
        self._note(f"{self.name} is committed up to {watermark}")
        # Whose replica was deleted was out of the ISR by then (``removed``): a move that is done in
        # ZooKeeper closes it; the leader, which wrote that, hears of it a moment later.
        there = [member for member in replica.isr if member in self.seats or member in self.isr]
        self._check_members(there, "WeakIsr")
        self._check_members(self.isr, "StrongIsr")
