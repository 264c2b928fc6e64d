"""The replica of one partition on one broker: a state machine without I/O.

Its state is the role and epoch that the controller gave it, a view of its own log (``local``), and
what the role needs (``leader``, ``follower``). ``STEPS`` says what happens for every role and kind
of event. A replica without a leader, or whose role ended before the answer came, ignores the event.

Only ``LeaderAndIsr`` gives a role. The sender does not matter: it is a controller, or
:mod:`broker.coordination`, where each partition's leader coordinates it. The replica requests ISR
changes through ``WriteIsr``, and assumes nothing about their outcome until an event reports it.

Not handled: bytes, disks, fetch sessions and transactions. The log detects repeated batches and
says so in ``Produce``. The receiver of a request fences controllers and brokers by their epochs,
once per request.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.invariants import require
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    AskEpoch,
    DeleteRecords,
    EpochEndOffset,
    Event,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    LogEndMoved,
    LogStartMoved,
    Produce,
    ReplicasChanged,
    Resigned,
    StartServing,
    Stopped,
    Tick,
)
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.leader import Leader, PendingProduces, RemoteReplica, refuse
from ackproof.broker.replication.local import Effects, Entry, LocalLog, LogState
from ackproof.broker.types import NO_EPOCH, NO_LEADER, BrokerId, LeaderEpoch, Offset, ZkVersion

__all__ = ["LogState", "Replica", "Role", "StaleEpoch"]


class Role(Enum):
    """The role of this broker for the partition."""

    OFFLINE = "offline"
    """No LeaderAndIsr has arrived yet, or there is no leader."""
    FOLLOWER = "follower"
    LEADER = "leader"


class StaleEpoch(Exception):
    """A LeaderAndIsr of an earlier leader epoch than the replica has seen. Nothing was changed."""

    def __init__(self, requested: LeaderEpoch, current: LeaderEpoch) -> None:
        super().__init__(
            f"LeaderAndIsr of leader epoch {requested}, but the current one is {current}"
        )
        self.requested = requested
        self.current = current


class Replica:
    """A replica of a partition (see the module's docstring). ``broker`` is its own broker id."""

    def __init__(self, broker: BrokerId, config: ReplicaConfig, log: LogState) -> None:
        self._broker = broker
        self._config = config
        self._log = LocalLog(log)
        self._state: LeaderAndIsr | None = None
        self._leader: Leader | None = None
        self._follower: Follower | None = None

    def step(self, event: Event) -> Effects:
        """Process one event, and return the effects, to be carried out in order before the next
        event.

        Raise StaleEpoch for a LeaderAndIsr of an older leader epoch, and ValueError for one that
        names another leader within the same epoch. Within an epoch only a newer ``zk_version`` is
        news, and repetitions are ignored. An event with ``as_printed`` counts whatever its epoch.
        """
        return STEPS[self.role][type(event)](self, event)

    @property
    def config(self) -> ReplicaConfig:
        """The current settings of the leader or follower."""
        return self._config if self._leader is None else self._leader.config

    def configure(self, config: ReplicaConfig) -> None:
        """Take over changed topic settings. ``truncation`` counts from the next epoch on."""
        self._config = config
        if self._leader is not None:
            self._leader.config = config

    # --- LeaderAndIsr -----------------------------------------------------------------------

    def _leader_and_isr(self, state: LeaderAndIsr) -> Effects:
        known = (self.leader, self.leader_epoch)
        if not state.as_printed:
            self._fence(state.leader_epoch)
            if state.leader_epoch == self.leader_epoch:
                return self._within_epoch(state)
        elif (state.leader, state.leader_epoch) == known:
            return self._within_epoch(state)
        self._state = state
        return self._become(state)

    def _fence(self, epoch: LeaderEpoch) -> None:
        if epoch < self.leader_epoch:
            raise StaleEpoch(epoch, self.leader_epoch)

    def _within_epoch(self, state: LeaderAndIsr) -> Effects:
        if state.leader != self.leader:
            raise ValueError(
                f"leader epoch {state.leader_epoch} has leader {self.leader}, "
                f"now named {state.leader}"
            )
        if state.zk_version <= self.zk_version:
            return ()
        self._state = state
        return self._leader.update_assignment_and_isr(state) if self._leader else ()

    def _become(self, state: LeaderAndIsr) -> Effects:
        if state.leader == self._broker:
            pending = self._leader.pending if self._leader else PendingProduces()
            self._follower = None
            self._leader = Leader(self._broker, self._config, self._log, state, pending)
            return self._leader.enter()
        resigned = self._leader.resign() if self._leader else ()
        self._leader = self._follower = None
        if state.leader == NO_LEADER:
            return resigned
        self._follower = Follower(self._config, self._log, state)
        return (*self._follower.enter(), *resigned)

    def _log_start_moved(self, event: LogStartMoved) -> Effects:
        return self._log.started_at(event.offset)

    def _log_end_moved(self, event: LogEndMoved) -> Effects:
        return self._log.truncate(event.offset)

    def _replicas_changed(self, event: ReplicasChanged) -> Effects:
        if self._state is None or event.leader_epoch != self.leader_epoch:
            return ()
        self._state = replace(self._state, replicas=event.replicas)
        return self._leader.replicas_changed(event) if self._leader else ()

    def _resigned(self, event: Resigned) -> Effects:
        """Leave the role until the next LeaderAndIsr, which will be of a later epoch."""
        if self._leader is None or self._state is None or event.leader_epoch != self.leader_epoch:
            return ()
        self._state = replace(self._state, leader=NO_LEADER)
        return self._stopped(Stopped())

    def _stopped(self, _event: Stopped) -> Effects:
        """Leave the role. Otherwise the outcome of a pending ISR write would find its leader, and
        answer requests that were already answered."""
        resigned = self._leader.resign() if self._leader else ()
        self._leader = self._follower = None
        return resigned

    # --- reading ----------------------------------------------------------------------------

    @property
    def broker(self) -> BrokerId:
        """The id of this broker."""
        return self._broker

    @property
    def role(self) -> Role:
        """The current role of this broker for the partition."""
        if self._leader is not None:
            return Role.LEADER
        return Role.OFFLINE if self._follower is None else Role.FOLLOWER

    @property
    def serves(self) -> bool:
        """Whether this broker leads and serves clients, and no longer waits for its followers."""
        return self._leader is not None and self._leader.serves

    @property
    def leader(self) -> BrokerId:
        """The leader's broker id, or -1 when there is none or it is unknown."""
        return self._state.leader if self._state else NO_LEADER

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch of the last LeaderAndIsr, or -1 before the first."""
        return self._state.leader_epoch if self._state else NO_EPOCH

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The ISR as last committed (on a leader), or as in the last LeaderAndIsr."""
        if self._leader is not None:
            return self._leader.isr.committed
        return self._state.isr if self._state else ()

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """The assigned replicas (AR), the preferred one first."""
        return self._state.replicas if self._state else ()

    @property
    def zk_version(self) -> ZkVersion:
        """The last known version of the partition's state znode, or -1 before any."""
        if self._leader is not None:
            return self._leader.isr.zk_version
        return self._state.zk_version if self._state else ZkVersion(-1)

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that the log still holds."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """LEO: the offset that the next record will get."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> Offset:
        """HW: everything below it is committed. The server checkpoints it."""
        return self._log.high_watermark

    @property
    def low_watermark(self) -> Offset:
        """LW: on a leader the smallest log start of all replicas, -1 until each of them has
        fetched."""
        return self.low_watermark_among(self._remotes)

    def low_watermark_among(self, brokers: Container[BrokerId]) -> Offset:
        """Return the smallest log start of this replica and of those followers that are in
        ``brokers``."""
        starts = [
            remote.log_start_offset for id_, remote in self._remotes.items() if id_ in brokers
        ]
        return min([self._log.log_start_offset, *starts])

    @property
    def epochs(self) -> tuple[Entry, ...]:
        """(leader epoch, start offset) of each epoch in the log."""
        return self._log.epochs.entries

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads, and not all replicas are in the ISR."""
        return self._leader is not None and len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads, and the ISR is smaller than ``min.insync.replicas``."""
        return self._leader is not None and self._leader.is_under_min_isr

    @property
    def follower_ends(self) -> Mapping[BrokerId, Offset]:
        """The followers' log ends as a leader knows them, -1 before their first fetch."""
        return {replica: remote.log_end_offset for replica, remote in self._remotes.items()}

    @property
    def _remotes(self) -> Mapping[BrokerId, RemoteReplica]:
        return self._leader.remotes if self._leader else {}

    def check(self) -> None:
        """Assert what must hold after every step. Raise BrokenInvariant otherwise.

        The high watermark lies within the log. Epochs ascend and begin within the log. A leader's
        latest epoch is its own, because it begins it before its first append (KIP-101).
        """
        log, me = self._log, f"replica on broker {self._broker}"
        start, end = log.log_start_offset, log.log_end_offset
        bounded = 0 <= start <= log.high_watermark <= end
        require(bounded, f"{start} <= {log.high_watermark} <= {end} does not hold", of=me)
        begins = [begin for _, begin in self.epochs]
        require(
            all(start <= begin <= end for begin in begins),
            f"epochs {self.epochs} begin outside of the log, which is {start} to {end}",
            of=me,
        )
        latest = log.epochs.latest
        require(
            self._leader is None or latest == self.leader_epoch,
            f"it leads in epoch {self.leader_epoch}, and the latest one in its log is {latest}",
            of=me,
        )

    # --- questions that the server answers with this replica ---------------------------------

    def fetching(self) -> FetchFrom | AskEpoch | None:
        """Return the next request of a follower's fetcher to its leader, or None when not a
        follower."""
        return self._follower.fetching() if self._follower else None

    def check_leader(
        self, current_leader_epoch: LeaderEpoch | None, follower: BrokerId | None = None
    ) -> ErrorCode:
        """Return the error for a request that presumes this epoch and needs the leader, or ``none``
        (KIP-320).

        None, or -1 as on the wire, presumes nothing. A leader that does not serve clients yet does
        serve a ``follower``, because it waits for its followers.
        """
        if (error := self._check_epoch(current_leader_epoch)) is not ErrorCode.none:
            return error
        leads = self.serves if follower is None else self._leader is not None
        return ErrorCode.none if leads else ErrorCode.not_leader_or_follower

    def check_reader(self, current_leader_epoch: LeaderEpoch | None) -> ErrorCode:
        """Return the error for a consumer that may also read from followers, or ``none`` (KIP-392).

        The epoch keeps the consumer from a follower that has not heard of the next leader, and from
        a follower that it takes for the leader.
        """
        if self._follower is not None:
            return self._check_epoch(current_leader_epoch)
        return self.check_leader(current_leader_epoch)

    def _check_epoch(self, current_leader_epoch: LeaderEpoch | None) -> ErrorCode:
        if current_leader_epoch is not None and current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.unknown_leader_epoch
        return ErrorCode.none

    def followers_to_read_from(self, offset: Offset) -> Mapping[BrokerId, RemoteReplica]:
        """Return the followers, on a leader, from which a consumer may read on at ``offset``.

        Only members of the ISR qualify. A lagging follower would hold the consumer back. It would
        also be named again at each request, because the consumer never requests more than that
        follower has.
        """
        return {
            id_: remote
            for id_, remote in self._remotes.items()
            if id_ in self.isr and remote.log_start_offset <= offset <= remote.log_end_offset
        }

    def refusal(self, acks: int) -> ErrorCode:
        """Return the error with which a produce request would be rejected now, or ``none``."""
        return self._leader.refusal(acks) if self._leader else ErrorCode.not_leader_or_follower

    def read_bound(self, follower: BrokerId | None) -> Offset:
        """Return where reading ends: at the log's end for a follower, at the watermark for a
        consumer."""
        return self.high_watermark if follower is None else self.log_end_offset

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> Entry:
        """Return the answer to OffsetForLeaderEpoch (see ``Epochs.end_offset_for``), (-1, -1) if
        unknown."""
        return self._log.epochs.end_offset_for(epoch, self.log_end_offset)


# --- what happens, by role and kind of event ---------------------------------------------------

Step = Callable[[Replica, Any], Effects]


def _refuse_produce(_replica: Replica, event: Produce) -> Effects:
    return (refuse(event.request, ErrorCode.not_leader_or_follower),)


def _ignore(_replica: Replica, _event: Event) -> Effects:
    return ()


def _leading(handler: Callable[[Leader, Any], Effects]) -> Step:
    def step(replica: Replica, event: Event) -> Effects:
        assert replica._leader is not None
        return handler(replica._leader, event)

    return step


def _following(handler: Callable[[Follower, Any], Effects]) -> Step:
    def step(replica: Replica, event: Event) -> Effects:
        assert replica._follower is not None
        return handler(replica._follower, event)

    return step


_OF_EVERY_ROLE: Final[Mapping[type[Event], Step]] = {
    LeaderAndIsr: Replica._leader_and_isr,
    LogStartMoved: Replica._log_start_moved,
    LogEndMoved: Replica._log_end_moved,
    Stopped: Replica._stopped,
    Resigned: Replica._resigned,
    ReplicasChanged: Replica._replicas_changed,
    StartServing: _ignore,
    DeleteRecords: _ignore,
    Produce: _refuse_produce,
    FollowerFetch: _ignore,
    Fetched: _ignore,
    EpochEndOffset: _ignore,
    FetchOutOfRange: _ignore,
    IsrWritten: _ignore,
    IsrWriteFailed: _ignore,
    IsrRefused: _ignore,
    Tick: _ignore,
}

STEPS: Final[Mapping[Role, Mapping[type[Event], Step]]] = {
    Role.OFFLINE: _OF_EVERY_ROLE,
    Role.FOLLOWER: {
        **_OF_EVERY_ROLE,
        Fetched: _following(Follower.fetched),
        EpochEndOffset: _following(Follower.epoch_end_offset),
        FetchOutOfRange: _following(Follower.out_of_range),
    },
    Role.LEADER: {
        **_OF_EVERY_ROLE,
        StartServing: _leading(Leader.start_serving),
        Produce: _leading(Leader.produce),
        DeleteRecords: _leading(Leader.delete_records),
        FollowerFetch: _leading(Leader.follower_fetch),
        IsrWritten: _leading(Leader.isr_written),
        IsrWriteFailed: _leading(Leader.isr_write_failed),
        IsrRefused: _leading(Leader.isr_refused),
        Tick: _leading(Leader.tick),
    },
}
