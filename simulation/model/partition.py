"""The invariants of one partition.

The model learns ZooKeeper's writes and the steps of all replicas. It reads no log itself. The names
are those of the TLA+ specification of Kafka's replication (Gustafson, *kafka-specification*) where
it has one:

- **Isr/leader-is-no-member**: ZooKeeper never names a leader outside the ISR.
- **Isr/member-lacks-committed-record**: every member of the ISR in ZooKeeper has everything that
  any leader ever had below its high watermark. **Isr/believed-member-lacks-committed-record**: so
  has every member of the ISR that a leader believes in.
- **HighWatermark/out-of-range**: a high watermark lies between the log's start and end, and never
  above what was committed.
- **LeaderEpoch/two-leaders**, **LeaderEpoch/went-back**, **HighWatermark/went-back**.
- **Replica/logs-differ**: no two logs differ below the lower high watermark.
- **Produce/acknowledged-before-commit**: acks=all is answered only when the batch is committed.
  **Produce/commit-not-acknowledged**: it is answered as soon as the batch is committed.
  **Produce/waits-beyond-timeout**: it is answered by the deadline.
- **Isr/acknowledged-below-minimum**: acks=all is answered only while ``min.insync.replicas`` are in
  sync ("the minimum number of replicas that must acknowledge a write", Kafka's documentation).
- **Isr/laggard-not-removed**: a member of the ISR that has not caught up for
  ``replica.lag.time.max.ms`` is removed within half as much again. In 0.8 this also holds for a
  member that is ``replica.lag.max.messages`` behind.
- **HighWatermark/lags-behind-isr**: at every tick, a record is committed if the ISR has it, and
  with it every replica that was level within ``replica.lag.time.max.ms``.
- **Log/records-lost-on-disk**: a killed broker has its log again. A broker that lost power has
  everything that it had synced. **HighWatermark/lost-at-stop**: a broker that ended in order has
  its high watermark, too.
- **Log/deleted-record-is-back**: deleted records are not back after a start, unless the broker was
  killed (``log.flush.start.offset.checkpoint.interval.ms``).
- **Isr/damaged-replica-stays**: a replica that came back without committed records leaves the ISR,
  and does not lead while another member is whole. A replica that stays counts as holding what it
  lacks.
- **Election/unclean-leader**: no replica outside the ISR leads, unless the topic allows it.
- **Election/did-not-wait-for-isr**: no replica that was away leads before all of the ISR have come
  back.
- **Election/leader-not-alone-in-isr**: such a leader is alone in the ISR, because what the others
  lack is unknown.
- **Partition/disappeared**: no partition of a topic disappears.
- **Reassignment/ended-out-of-sync**: a reassignment ends only when no removed replica is in the ISR
  and every added one has been in it (KIP-455).
- **Deletion/replica-left**: a topic is gone when all its replicas are deleted, including those on
  brokers that were down meanwhile (``TopicDeletionManager``).

Guarantees end as ``docs/guarantees.md`` says. A broker that lost power or disk is *damaged* from
the offset that it may have lost, until a leader has let it into the ISR again. When all members of
the ISR are damaged, only what they all have is guaranteed, and the rest of what was committed is
forgotten here (:meth:`PartitionModel.end_guarantee`). Records of later epochs are guaranteed again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import (
    NEVER_READ,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Effect,
    Event,
    Fetched,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    LeaderAndIsr,
    LogStartMoved,
    Produce,
    Respond,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.replica import UNDAMAGED, Lag, ReplicaModel
from simulation.violation import Violation

NO_REQUEST: Final = (0, 0, 0)


class PartitionModel:
    """One partition; ``checks_data`` is off where the configuration guarantees nothing."""

    def __init__(self, name: str, *, checks_data: bool, note: Callable[[str], None]) -> None:
        self.name = name
        self.checks_data = checks_data
        self.state: PartitionState | None = None
        self.replicas: dict[int, ReplicaModel] = {}
        """Its replicas, by broker."""
        self.lag_max = Lag()
        self.min_isr = 0
        """The smallest ``min.insync.replicas`` that it has had, or 0 if none is known. A leader
        learns of a change late."""
        self.been_in_sync: set[int] = set()
        """The brokers that were in the ISR since the partition was assigned to them."""
        self.committed: dict[int, BatchExtent] = {}
        """The guaranteed batches that any leader had below its high watermark, by base offset."""
        self.committed_end = 0
        self.deleted_below = 0
        """The offset below which retention or DeleteRecords may have deleted records."""
        self.ended_guarantees: list[tuple[float, int]] = []
        """The times at which a guarantee ended, each with the offset from which on it ended."""
        self.only_leader: dict[int, BatchExtent] = {}
        """The batches that the present leader has acknowledged with acks=1."""
        self.read_end = 0
        """The end of what any consumer has read."""
        self.acked_by_deposed: set[int] = set()
        """The CRCs of batches that a leader acknowledged before it had learned of an unclean
        election."""
        self._note = note
        self._leaders: dict[int, int] = {}
        self._appenders: dict[int, int] = {}
        self._in_sync: defaultdict[int, set[int]] = defaultdict(set)
        """The brokers that were in ZooKeeper's ISR at any time of a leader epoch."""
        self._disturbed = -1
        """The last leader epoch in which reports of replicas do not count, nor in earlier ones."""

    def require(self, condition: bool, invariant: str, what: str) -> None:
        """Raise Violation unless the condition holds."""
        if not condition:
            raise Violation(invariant, f"{self.name}: {what}")

    def replica(self, broker: int) -> ReplicaModel:
        """Return the model of a broker's replica, a new one if there is none."""
        return self.replicas.setdefault(
            broker, ReplicaModel(ModelLog(), trusted=self._disturbed < 0)
        )

    @property
    def isr(self) -> Iterable[int]:
        """Return the ISR in ZooKeeper."""
        return self.state.isr if self.state else ()

    # --- ZooKeeper --------------------------------------------------------------------------

    def configured(self, min_isr: int) -> None:
        """Note a value of ``min.insync.replicas`` in ZooKeeper."""
        self.min_isr = min(self.min_isr or min_isr, min_isr)

    def added(self, brokers: Iterable[int]) -> None:
        """Note that the partition is assigned to further brokers."""
        self.been_in_sync.difference_update(set(brokers) - set(self.isr))

    def registered(self, broker: int, zxid: int) -> None:
        """Note that transaction ``zxid`` registered ``broker`` again."""
        self.replica(broker).registered = zxid

    def state_written(self, state: PartitionState, *, unclean: bool, now: float) -> None:
        """Judge a new state znode. ``unclean`` says that the topic allows elections outside the
        ISR."""
        before, self.state = self.state, state
        self._in_sync[state.leader_epoch].update(state.isr)
        self.been_in_sync.update(state.isr)
        leader, isr = state.leader, state.isr
        self.require(
            leader == NO_LEADER or leader in isr,
            "Isr/leader-is-no-member",
            f"{leader} not in {isr}",
        )
        self.require(bool(isr), "Isr/leader-is-no-member", "the ISR is empty")
        if leader != NO_LEADER:
            self._leads(state.leader_epoch, leader)
        if before is not None:
            self._elected(before, state, unclean=unclean, now=now)

    def _elected(
        self, before: PartitionState, state: PartitionState, *, unclean: bool, now: float
    ) -> None:
        leader, isr = state.leader, state.isr
        self.require(
            state.leader_epoch >= before.leader_epoch,
            "LeaderEpoch/went-back",
            f"leader epoch {before.leader_epoch} became {state.leader_epoch} in ZooKeeper",
        )
        if leader != before.leader:
            self.only_leader.clear()
        if leader not in (NO_LEADER, *before.isr):
            self.require(
                unclean, "Election/unclean-leader", f"{leader} leads, the ISR was {before.isr}"
            )
            self.end_guarantee(0, epoch=before.leader_epoch, now=now)
        registered = {broker: replica.registered for broker, replica in self.replicas.items()}
        returned = _elects_returned_member(before, state, registered)
        away = _members_not_back(before, registered) if returned and not unclean else ()
        self.require(
            not away,
            "Election/did-not-wait-for-isr",
            f"{leader} leads, and {away} may have records that it lost",
        )
        others = sorted(set(isr) - {leader}) if returned else ()
        self.require(
            not others,
            "Election/leader-not-alone-in-isr",
            f"{leader} leads again, in the ISR are {others}",
        )
        self._check_undamaged_member(now)
        if returned and not self.replica(leader).is_whole:
            self._whole_isr_bounced(now)
        if leader not in (NO_LEADER, before.leader):
            self._check_better_member(leader, isr)
        self._check_members(isr, "Isr/member-lacks-committed-record")

    def _whole_isr_bounced(self, now: float) -> None:
        """End guarantees after the whole ISR came back from a kill or a power failure.

        A controller cannot tell the two apart. Any member may lead, and with a damaged leader,
        records that only the others have are lost. KIP-966 removes this known limit. The same holds
        for the members of the ISR that an unclean election waited for.
        """
        assert self.state is not None
        self._note(f"{self.name}: the whole ISR had restarted, and a damaged replica was elected")
        members = [self.replica(broker) for broker in self.isr]
        self.end_guarantee(
            int(min(replica.undamaged_end for replica in members)),
            epoch=self.state.leader_epoch - 1,
            now=now,
        )
        for replica in members:
            replica.undamaged_end = UNDAMAGED

    def _check_better_member(self, leader: int, isr: Iterable[int]) -> None:
        replica = self.replica(leader)
        undamaged = [b for b in isr if self.replica(b).is_whole]
        self.require(
            not replica.known or replica.log.end >= self.committed_end or not undamaged,
            "Isr/damaged-replica-stays",
            f"{self.committed_end} are committed, broker {leader} has {replica.log} and is elected "
            f"instead of one of {undamaged}",
        )

    def _leads(self, epoch: int, broker: int) -> None:
        first = self._leaders.setdefault(epoch, broker)
        self.require(
            first == broker,
            "LeaderEpoch/two-leaders",
            f"brokers {first} and {broker} both lead in epoch {epoch}",
        )

    # --- what is committed ------------------------------------------------------------------

    def holds(self, base: int, crc: int) -> bool:
        """Return whether this batch is committed and guaranteed."""
        extent = self.committed.get(base)
        return base >= self.deleted_below and extent is not None and extent.crc == crc

    def is_guaranteed(self, offset: int, sent_at: float) -> bool:
        """Return whether a record sent at that time and acknowledged at ``offset`` must be kept."""
        return offset >= self.deleted_below and not any(
            when >= sent_at and start <= offset for when, start in self.ended_guarantees
        )

    def _check_members(self, members: Iterable[int], invariant: str) -> None:
        if not self.checks_data:
            return
        for broker in members:
            replica = self.replica(broker)
            if replica.trusted and replica.known and replica.is_whole:
                self.require(
                    replica.log.end >= self.committed_end,
                    invariant,
                    f"{self.committed_end} are committed, and the log of broker {broker}, which "
                    f"is in the ISR, is {replica.log}",
                )
                self._verify(broker, replica, self.committed_end, invariant)

    def _verify(
        self, broker: int, replica: ReplicaModel, end: int, invariant: str = "Replica/logs-differ"
    ) -> None:
        """Compare a log with what is committed below ``end``, as far as that was not done yet."""
        if end <= replica.verified:
            return
        for extent in replica.log.between(replica.verified, end):
            if extent.base >= self.deleted_below:
                right = self.committed.get(extent.base)
                self.require(
                    right == extent,
                    invariant,
                    f"broker {broker} holds {extent}, committed is {right}",
                )
        replica.verified = end

    # --- damage -----------------------------------------------------------------------------

    def damaged(self, broker: int, kept: int, *, now: float) -> None:
        """Note that ``broker`` may have lost its records at offset ``kept`` and above."""
        replica = self.replicas.get(broker)
        if replica is None:
            return
        replica.uncertain_from(kept)
        replica.closed = False
        if kept >= replica.log.end:
            return
        replica.end_before_damage = (
            replica.log.end if replica.is_whole else max(replica.end_before_damage, replica.log.end)
        )
        replica.undamaged_end = min(replica.undamaged_end, kept)
        replica.lost_committed = None
        if self.state is not None and self.state.leader == broker:
            self.only_leader = {o: e for o, e in self.only_leader.items() if e.next <= kept}
        self._check_undamaged_member(now)

    def _check_undamaged_member(self, now: float) -> None:
        """End guarantees when no member of the ISR is undamaged.

        What comes later is guaranteed again, so the members count as whole from here on.
        """
        members = [self.replica(broker) for broker in self.isr]
        kept = [member.undamaged_end for member in members]
        if not kept or UNDAMAGED in kept:
            return
        assert self.state is not None
        self.end_guarantee(int(min(kept)), epoch=self.state.leader_epoch, now=now)
        for member in members:
            member.undamaged_end = UNDAMAGED

    def end_guarantee(self, offset: int, *, epoch: int, now: float) -> None:
        """End the guarantee of what was committed at ``offset`` and above in ``epoch`` or before.

        Replicas may still hold it, with a high watermark above it, until they have followed or led
        in a later epoch. Until then, what they hold or lack does not count.
        """
        self.ended_guarantees.append((now, offset))
        self.only_leader.clear()
        self.committed = {o: e for o, e in self.committed.items() if e.next <= offset}
        self.committed_end = min(self.committed_end, offset)
        self._disturbed = max(self._disturbed, epoch)
        for replica in self.replicas.values():
            replica.trusted, replica.lost_committed = False, None
            replica.verified = min(replica.verified, offset)
        self._note(f"{self.name} has no guarantee from offset {offset} on any more")

    def check_damaged_left_isr(self) -> None:
        """Judge at the end: a replica that lacked committed records has left the ISR since."""
        for broker in self.isr:
            replica = self.replica(broker)
            self.require(
                not replica.lost_committed or replica.is_whole,
                "Isr/damaged-replica-stays",
                f"broker {broker} came back with nothing above {replica.undamaged_end:.0f}, and "
                "was never taken out of the ISR",
            )

    # --- lives of brokers -------------------------------------------------------------------

    def hosted(self, broker: int, log: ModelLog | None, high_watermark: int) -> None:
        """Judge the log that a new process of ``broker`` has opened. None means that it cannot be
        read."""
        replica = self.replica(broker)
        was_closed = replica.closed
        replica.process_started(readable=log is not None)
        if log is None:
            return
        self.require(
            not was_closed or log.start >= replica.log.start,
            "Log/deleted-record-is-back",
            f"broker {broker} had {replica.log} when it ended in order, and has {log}",
        )
        self.require(
            not was_closed or high_watermark >= min(replica.high_watermark, log.end),
            "HighWatermark/lost-at-stop",
            f"the high watermark of broker {broker} was {replica.high_watermark} when it ended in "
            f"order, and is {high_watermark}",
        )
        kept, as_it_was = log.agrees_up_to(replica.log), replica.known and self.checks_data
        certain = replica.log.end if as_it_was else min(replica.durable_end, replica.log.end)
        self.require(
            kept >= certain and (not as_it_was or log.end == replica.log.end),
            "Log/records-lost-on-disk",
            f"broker {broker} had {replica.log}, certainly up to {certain}, and has {log}, which "
            f"is the same up to {kept}",
        )
        if not as_it_was:
            replica.log_found(log, kept)
        replica.log_read(log, high_watermark)

    def closed(self, broker: int) -> None:
        """Note that ``broker`` has ended in order.

        A broker that lost power, and was asked to stop before it had opened its log again, has not
        closed what it had before.
        """
        if broker in self.replicas:
            self.replicas[broker].closed = self.replicas[broker].known

    def ended_abruptly(self, broker: int) -> None:
        """Note that ``broker`` has not ended in order: the high watermark on its disk is older.

        Its next process may be asked to stop before it has opened this log again.
        """
        if broker in self.replicas:
            self.replicas[broker].high_watermark = 0

    def removed(self, broker: int) -> None:
        """Judge the deletion of a replica whose topic stays."""
        self.replicas.pop(broker, None)
        self._check_members({broker}.intersection(self.isr), "Isr/member-lacks-committed-record")

    def failed(self, broker: int) -> None:
        """Note that ``broker`` could not carry out its replica's decision, and halts."""
        self.replica(broker).uncertain_from(0)

    # --- steps ------------------------------------------------------------------------------

    def stepped(
        self, broker: int, replica: Replica, event: Event, effects: tuple[Effect, ...]
    ) -> None:
        """Judge a step of a replica whose effects were carried out."""
        model = self.replica(broker)
        if not model.readable:
            return
        self._process_event(broker, model, replica, event)
        for effect in effects:
            self._apply(broker, model, effect, replica.isr)
        self._check_laggards(broker, model, replica, event)
        if self.checks_data:
            model.verified = min(model.verified, model.log.end)
            self._check_view(broker, model, replica, event)
            for answer in (effect for effect in effects if type(effect) is Respond):
                self._check_answer(broker, model, replica, answer)
            self._check_waiting_producers(broker, model, replica, event)

    def _process_event(
        self, broker: int, model: ReplicaModel, replica: Replica, event: Event
    ) -> None:
        match event:
            case Produce():
                model.produce_received(event)
            case LeaderAndIsr() if replica.role is Role.LEADER:
                self._leads(replica.leader_epoch, broker)
                model.trusted = model.trusted or replica.leader_epoch > self._disturbed
            case FollowerFetch():
                self._leader_learns_end(event.replica)
            case LogStartMoved():
                model.log.start_at(event.offset)
                self.deleted_below = max(self.deleted_below, event.offset)

    def _leader_learns_end(self, follower: int) -> None:
        """Count a damaged follower as whole once its leader knows its end, if it lost nothing
        committed."""
        model = self.replicas.get(follower)
        if model is not None and not model.is_whole and model.known:
            if model.lost_committed is None:
                model.lost_committed = model.log.end < self.committed_end
            if not model.lost_committed:
                model.undamaged_end = UNDAMAGED

    def _apply(self, broker: int, model: ReplicaModel, effect: Effect, isr: Iterable[int]) -> None:
        model.log.follow(effect)
        match effect:
            case Append() if effect.leader_epoch is not None:
                first = self._appenders.setdefault(effect.leader_epoch, broker)
                self.require(
                    first == broker,
                    "LeaderEpoch/two-leaders",
                    f"{first} and {broker} both append in epoch {effect.leader_epoch}",
                )
            case AdvanceLogStart():
                self.deleted_below = max(self.deleted_below, effect.offset)
            case WriteIsr():
                model.proposal = effect
                self._proposed(effect, isr)

    def _proposed(self, effect: WriteIsr, isr: Iterable[int]) -> None:
        """Count followers that a leader lets in as whole: it lets in only those that have
        everything.

        A member of the ISR that the leader believes in (``isr``) may have left since, unseen by the
        leader. One that lost power since its last fetch reached the leader is as damaged as before.
        """
        for broker in effect.isr:
            replica = self.replica(broker)
            if broker not in self.isr and broker not in isr and replica.known:
                replica.undamaged_end = UNDAMAGED

    def _check_view(self, broker: int, model: ReplicaModel, replica: Replica, event: Event) -> None:
        watermark = model.high_watermark = replica.high_watermark
        view = (replica.log_start_offset, replica.log_end_offset)
        self.require(
            view == (model.log.start, model.log.end),
            "Replica/state-differs-from-log",
            f"broker {broker} believes its log to be {view}, and it is {model.log}",
        )
        self.require(
            view[0] <= watermark <= view[1],
            "HighWatermark/out-of-range",
            f"{watermark} on broker {broker}, whose log is {view}",
        )
        epoch = replica.leader_epoch
        model.trusted = model.trusted or (type(event) is Fetched and epoch > self._disturbed)
        if not model.is_whole or not model.trusted:
            return
        if replica.role is Role.LEADER and epoch > self._disturbed:
            self._check_leader_watermark(broker, model, replica, watermark)
        elif not self._is_tracked(replica):
            model.untracked_high_watermark = watermark
        else:
            self._check_follower_watermark(broker, model, watermark)
        self._verify(broker, model, min(watermark, self.committed_end))
        if broker in self.isr:
            self._check_members((broker,), "Isr/member-lacks-committed-record")

    def _check_follower_watermark(self, broker: int, model: ReplicaModel, watermark: int) -> None:
        """Judge the high watermark of a follower.

        What it learned from a damaged leader remains true under the next leader, although the model
        has not counted it as committed. Suppose leader 3 fails to sync, commits up to 40 with
        brokers 1 and 2 and stops. Broker 2 knows 40 when broker 1 begins to lead.
        """
        if self.committed_end >= self.deleted_below:
            known = max(self.committed_end, model.log.start, model.untracked_high_watermark)
            self.require(
                watermark <= known,
                "HighWatermark/out-of-range",
                f"{watermark} on broker {broker}, but only {self.committed_end} are committed",
            )
        model.untracked_high_watermark = min(model.untracked_high_watermark, watermark)

    def _is_tracked(self, replica: Replica) -> bool:
        """Return whether the model tracks what the replica's leader commits.

        A leader whose disk rejected a sync is damaged, and may continue to lead since it sees what
        it wrote.
        """
        leader = self.replicas.get(replica.leader)
        return leader is None or leader.is_whole

    def _check_leader_watermark(
        self, broker: int, model: ReplicaModel, replica: Replica, watermark: int
    ) -> None:
        before = model.epoch_watermarks.get(replica.leader_epoch, 0)
        self.require(
            watermark >= before,
            "HighWatermark/went-back",
            f"leader {broker}, epoch {replica.leader_epoch}: from {before} to {watermark}",
        )
        model.epoch_watermarks[replica.leader_epoch] = watermark
        if watermark <= self.committed_end:
            return
        self._verify(broker, model, self.committed_end)
        for extent in model.log.between(self.committed_end, watermark):
            self.committed[extent.base] = extent
        self.committed_end = watermark
        self._note(f"{self.name} is committed up to {watermark}")
        # A broker whose replica was deleted had left the ISR before (``removed``). A completed move
        # deletes it, and the leader that wrote the move learns of the deletion a moment later.
        there = [member for member in replica.isr if member in self.replicas or member in self.isr]
        self._check_members(there, "Isr/believed-member-lacks-committed-record")
        self._check_members(self.isr, "Isr/member-lacks-committed-record")

    # --- answers to producers ---------------------------------------------------------------

    def _check_laggards(
        self, broker: int, model: ReplicaModel, replica: Replica, event: Event
    ) -> None:
        """Judge the ISR every half ``replica.lag.time.max.ms``, as a leader does
        (``isr-expiration``)."""
        if replica.role is not Role.LEADER:
            return
        model.lags.messages_max = self.lag_max.messages
        model.lags.stepped(replica, event)
        if type(event) is not Tick:
            return
        self._check_high_watermark(broker, model, replica, event.now)
        if _proposed(model.proposal, replica):
            return
        follower, lag_ms = model.lags.longest(event.now)
        self.require(
            lag_ms <= 1.5 * self.lag_max.ms,
            "Isr/laggard-not-removed",
            f"broker {follower} lags {lag_ms} ms behind leader {broker}, and is in the ISR",
        )
        follower, lag_ms = model.lags.farthest(event.now)
        self.require(
            lag_ms <= 0.75 * self.lag_max.ms,
            "Isr/laggard-not-removed",
            f"broker {follower} is more than {self.lag_max.messages:g} messages behind leader "
            f"{broker} for {lag_ms} ms, and in the ISR",
        )

    def _check_high_watermark(
        self, broker: int, model: ReplicaModel, replica: Replica, now: int
    ) -> None:
        """Judge the high watermark at a tick, also when a replica stops counting only because time
        passes.

        Suppose broker 3 is outside the ISR, was level with the leader once, and is silent. When
        that is longer ago than ``replica.lag.time.max.ms``, no append or fetch moves the watermark.
        A producer with acks=all would wait until its deadline.
        """
        counted = model.lags.hold_back(now, self.lag_max.ms)
        counted.update(_proposed(model.proposal, replica))
        ends = [end for b, end in replica.follower_ends.items() if b in counted]
        had = min([replica.log_end_offset, *ends])
        self.require(
            replica.high_watermark >= had,
            "HighWatermark/lags-behind-isr",
            f"leader {broker} and {sorted(counted)}, which count, have everything below {had}, and "
            f"the high watermark is {replica.high_watermark}",
        )

    def _check_waiting_producers(
        self, broker: int, model: ReplicaModel, replica: Replica, event: Event
    ) -> None:
        """Judge the producers that still wait (``request.timeout.ms``, ``DelayedProduce``)."""
        if replica.role is not Role.LEADER:
            return
        now = event.now if type(event) is Tick else None
        for acks, end, deadline in model.waiting.values():
            self.require(
                acks != -1 or end > replica.high_watermark,
                "Produce/commit-not-acknowledged",
                f"the high watermark of leader {broker} is {replica.high_watermark}, and a "
                f"producer whose batch ends at {end} waits",
            )
            self.require(
                now is None or deadline > now,
                "Produce/waits-beyond-timeout",
                f"a producer waits at leader {broker} until {deadline} ms, and it is {now} ms",
            )

    def _check_answer(
        self, broker: int, model: ReplicaModel, replica: Replica, answer: Respond
    ) -> None:
        acks, end, _ = model.waiting.pop(answer.request, NO_REQUEST)
        if answer.error is not ErrorCode.none:
            return
        if acks == -1:
            self._check_min_isr(broker, model, replica)
        if replica.leader_epoch <= self._disturbed:
            if not self._leads_now(broker, replica):
                acked = model.log.between(answer.base_offset, end)
                self.acked_by_deposed.update(extent.crc for extent in acked)
            return
        if acks == -1 and model.trusted and model.is_whole:
            self.require(
                end <= self.committed_end,
                "Produce/acknowledged-before-commit",
                f"leader {broker} acknowledges up to {end}, committed is up to "
                f"{self.committed_end}",
            )
        elif acks == 1 and self._leads_now(broker, replica):
            for extent in model.log.between(answer.base_offset, end):
                self.only_leader[extent.base] = extent

    def _check_min_isr(self, broker: int, model: ReplicaModel, replica: Replica) -> None:
        """Judge an answer to acks=all (``Partition.checkEnoughReplicasReachOffset``).

        ZooKeeper's ISR of this moment does not decide. Suppose 1 and 2 hold the record, 2 is being
        removed, and ZooKeeper has {1} already. The ISR that the leader knows counts, if ZooKeeper
        had it in this epoch. The replicas that it is about to let in count, too (KIP-497).
        """
        known_isr = self._in_sync[replica.leader_epoch].intersection(replica.isr)
        counted = known_isr.union(_proposed(model.proposal, replica))
        self.require(
            len(counted) >= self.min_isr,
            "Isr/acknowledged-below-minimum",
            f"leader {broker} answers acks=all while {sorted(counted)} are in sync, "
            f"min.insync.replicas is {self.min_isr}",
        )

    def _leads_now(self, broker: int, replica: Replica) -> bool:
        """Return whether the replica leads by ZooKeeper, and not only by its own knowledge."""
        state = self.state
        now = (state.leader, state.leader_epoch) if state is not None else None
        return now == (broker, replica.leader_epoch)


def _proposed(proposal: WriteIsr | None, replica: Replica) -> tuple[int, ...]:
    """Return the ISR that is neither written nor refused, as far as the leader knows."""
    if proposal is None:
        return ()
    basis = (proposal.leader_epoch, proposal.zk_version)
    return proposal.isr if basis == (replica.leader_epoch, replica.zk_version) else ()


def _elects_returned_member(
    before: PartitionState, state: PartitionState, registered: Mapping[int, int]
) -> bool:
    """Return whether a controller elects a member of the ISR although it knows that the member was
    away.

    ``registered`` has the transaction of each broker's last registration.
    """
    leader = state.leader
    if leader == NO_LEADER or leader not in before.isr:
        return False
    epoch = registered.get(leader, NEVER_READ)
    return before.trusted_up_to(leader) < epoch == state.trusted_up_to(leader)


def _members_not_back(before: PartitionState, registered: Mapping[int, int]) -> list[BrokerId]:
    """Return the members of the ISR that have not come back or never were away."""
    return [b for b in before.isr if registered.get(b, NEVER_READ) <= before.trusted_up_to(b)]


@dataclass(slots=True)
class TopicModel:
    """A topic and its partitions, as ZooKeeper has them."""

    topic_id: object
    assignment: TopicAssignment
    partitions: dict[int, PartitionModel] = field(default_factory=dict)
    is_being_deleted: bool = False
    """Whether it is being deleted. Nothing is guaranteed then."""

    def replicas(self, number: int) -> tuple[int, ...] | None:
        """Return the replicas of a partition, or None while they are being moved."""
        assignment = self.assignment.partitions[number]
        return None if assignment.adding or assignment.removing else assignment.replicas

    def assigned(self, name: str, written: TopicAssignment) -> None:
        """Judge a new assignment of its partitions; raises Violation."""
        lost = sorted(self.partitions.keys() - written.partitions.keys())
        if lost:
            raise Violation("Partition/disappeared", f"{name} has lost its partitions {lost}")
        for number, partition in self.partitions.items() if not self.is_being_deleted else ():
            was, now = self.assignment.partitions[number], written.partitions[number]
            if (was.adding or was.removing) and not (now.adding or now.removing):
                _check_move_end(partition, was, now)
            partition.added(set(now.adding) - set(was.adding))
        self.assignment = written

    def deleted(self, name: str, hosts: Iterable[tuple[int, TopicPartition]]) -> None:
        """Judge the end of the topic, whose replicas are at ``hosts``; raises Violation."""
        for broker, tp in hosts:
            placed = self.assignment.partitions.get(tp.partition)
            if placed is not None and broker in placed.replicas:
                what = f"{name} counts as deleted, and broker {broker} still has {tp}"
                raise Violation("Deletion/replica-left", what)


def _check_move_end(
    partition: PartitionModel, was: ReplicaAssignment, now: ReplicaAssignment
) -> None:
    if partition.state is None:
        return
    over = f"it counts as moved to {list(now.replicas)}, and"
    isr = partition.state.isr
    partition.require(
        set(isr) <= set(now.replicas),
        "Reassignment/ended-out-of-sync",
        f"{over} the ISR is {list(isr)}",
    )
    were_in_sync = partition.been_in_sync
    never = [b for b in was.adding if b in now.replicas and b not in were_in_sync]
    partition.require(
        not never, "Reassignment/ended-out-of-sync", f"{over} {never} were never in the ISR"
    )


# --- single steps ---------------------------------------------------------------------------------
#
# Rules of single steps of leaders and followers.
#
# - **Isr/joined-before-epoch-start**: a leader lets a follower into the ISR only when its log
#   reaches both the high watermark and the start of the leader's epoch (KAFKA-7128;
#   ``Partition.isFollowerInSync``).
# - **Isr/two-proposals-at-once**: a leader proposes an ISR only when it knows the outcome of its
#   last proposal (KIP-497; Kafka's ``PartitionState.isInflight``). Until then either may be in
#   ZooKeeper.
# - **Fetch/uncommitted-record-read**: neither leader nor follower (KIP-392) serves consumers beyond
#   its high watermark.
#
# Each step is judged at once, by the model's knowledge of the other replicas' logs. The
# consequences of a broken rule often depend on luck.

Effects = Sequence[Effect]


def check_before_step(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    """Judge a step by what the model knew before it; raises Violation."""
    model = partition.replica(broker)
    if replica.role is Role.LEADER:
        if type(event) is LeaderAndIsr:
            model.epoch_starts.setdefault(replica.leader_epoch, model.log.end)
        _check_joining_members(broker, replica, partition, effects)
    _check_single_proposal(broker, replica, partition, event, effects)


def check_after_step(broker: int, replica: Replica, partition: PartitionModel) -> None:
    """Judge a step after the model has processed it. Raises Violation."""
    bound = replica.read_bound(None)
    partition.require(
        bound <= replica.high_watermark,
        "Fetch/uncommitted-record-read",
        f"broker {broker} serves consumers up to {bound}, the high watermark is "
        f"{replica.high_watermark}",
    )


def _check_joining_members(
    broker: int, replica: Replica, partition: PartitionModel, effects: Effects
) -> None:
    model, epoch = partition.replica(broker), replica.leader_epoch
    if not partition.checks_data or not model.is_certain or epoch not in model.epoch_starts:
        return
    state = partition.state
    if state is None or (state.leader, state.leader_epoch) != (broker, epoch):
        return  # deposed: its followers follow another leader, and have truncated their logs
    needed = max(model.epoch_starts[epoch], replica.high_watermark)
    for effect in effects:
        for joining in set(effect.isr) - set(replica.isr) if type(effect) is WriteIsr else ():
            joiner = partition.replica(joining)
            partition.require(
                not joiner.is_certain or joiner.log.end >= needed,
                "Isr/joined-before-epoch-start",
                f"leader {broker}, whose epoch begins at {model.epoch_starts[epoch]} and whose "
                f"high watermark is {replica.high_watermark}, lets broker {joining} into the ISR, "
                f"whose log is {joiner.log}",
            )


def _check_single_proposal(
    broker: int, replica: Replica, partition: PartitionModel, event: Event, effects: Effects
) -> None:
    model = partition.replica(broker)
    if model.pending_proposal is not None and _is_outcome_known(
        model.pending_proposal, replica, event
    ):
        model.pending_proposal = None
    for effect in effects:
        if type(effect) is WriteIsr:
            before, model.pending_proposal = model.pending_proposal, effect
            partition.require(
                before is None,
                "Isr/two-proposals-at-once",
                f"leader {broker} proposes the ISR {list(effect.isr)} before it knows the outcome "
                f"of {list(before.isr) if before else ()}",
            )


def _is_outcome_known(proposal: WriteIsr, replica: Replica, event: Event) -> bool:
    """Return whether the leader knows that the proposal is written, refused, to be retried, or
    void."""
    if replica.role is not Role.LEADER or replica.leader_epoch != proposal.leader_epoch:
        return True
    if replica.zk_version > proposal.zk_version:
        return True
    match event:
        case IsrRefused():
            return event.leader_epoch == proposal.leader_epoch
        case IsrWriteFailed():
            return event.leader_epoch == proposal.leader_epoch and not event.conflict
    return False
