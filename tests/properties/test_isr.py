"""A leader keeps its ISR and its high watermark right, whatever its followers and ZooKeeper do.

The leader is the broker's own state machine; it is judged by the rules of the simulation's model
(:mod:`simulation.model.partition`): who lags leaves the ISR in time,
who joins has everything, what the ISR has is committed, and acks=all is answered then.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import (
    Event,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    Produce,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import LogState, Replica
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, Offset, ZkVersion
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.partition import PartitionModel, check_after_step, check_before_step
from simulation.model.replica import Lag
from tests.support.builders.batches import batch

LEADER, *FOLLOWERS = BROKERS = tuple(map(BrokerId, (1, 2, 3)))
EPOCH = LeaderEpoch(4)
LAG_MS = 100
TICK_MS = 10
RECORD = batch((b"one",), leader_epoch=0)


class Leader(RuleBasedStateMachine):
    """Broker 1 leads; 2 and 3 follow."""

    @initialize(
        lag_messages=st.none() | st.integers(0, 3),
        members=st.sets(st.sampled_from(FOLLOWERS)),
        length=st.integers(0, 4),
        data=st.data(),
    )
    def begin(
        self, lag_messages: int | None, members: set[BrokerId], length: int, data: st.DataObject
    ) -> None:
        """It is elected with records that a former leader has appended, some of them committed.

        What the former leader had committed the new one may not know to be committed yet.
        """
        log = ModelLog(
            0, [BatchExtent.of(RECORD)._replace(base=n, next=n + 1) for n in range(length)]
        )
        ends = {b: data.draw(st.integers(0, length)) for b in FOLLOWERS}
        committed = min([length, *(ends[b] for b in members)])
        watermark = data.draw(st.integers(0, committed))
        config = ReplicaConfig(
            replica_lag_time_max_ms=LAG_MS, replica_lag_max_messages=lag_messages
        )
        state = LogState(
            log_start_offset=Offset(0), log_end_offset=Offset(length),
            high_watermark=Offset(watermark),
            epochs=((LeaderEpoch(0), Offset(0)),) if length else (),
        )  # fmt: skip
        self.replica = Replica(LEADER, config, state)
        self.model = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        messages = float("inf") if lag_messages is None else lag_messages
        self.model.lag_max = Lag(LAG_MS, messages)
        self.model.min_isr = 1
        self.model.committed = {extent.base: extent for extent in log.between(0, committed)}
        self.model.committed_end = committed
        self.now, self.requests, self.version = Millis(0), 0, ZkVersion(0)
        self.proposal: WriteIsr | None = None
        for broker in BROKERS:
            end = ends.get(broker, length)
            self.model.replica(broker).log_read(ModelLog(0, log.between(0, end)), 0)
        self.isr_is((LEADER, *sorted(members)))
        self.step(
            LeaderAndIsr(
                controller_epoch=ControllerEpoch(1), leader=LEADER, leader_epoch=EPOCH,
                isr=(LEADER, *sorted(members)), replicas=BROKERS, zk_version=self.version,
                now=self.now,
            )
        )  # fmt: skip

    def isr_is(self, members: tuple[BrokerId, ...]) -> None:
        state = PartitionState(
            leader=LEADER, leader_epoch=EPOCH, isr=members, zk_version=self.version,
            controller_epoch=ControllerEpoch(1),
        )  # fmt: skip
        self.model.state_written(state, unclean=False, now=0.0)

    def step(self, event: Event) -> None:
        effects = self.replica.step(event)
        for effect in effects:
            if isinstance(effect, WriteIsr):
                self.proposal = effect
        check_before_step(LEADER, self.replica, self.model, event, effects)
        self.model.stepped(LEADER, self.replica, event, effects)
        check_after_step(LEADER, self.replica, self.model)

    # --- producers and followers ----------------------------------------------------------------

    @rule(acks=st.sampled_from([-1, -1, 1]), patience_ms=st.integers(1, 300))
    def produce(self, acks: int, patience_ms: int) -> None:
        self.requests += 1
        deadline = Millis(self.now + patience_ms)
        self.step(
            Produce(
                request=self.requests, batches=(RECORD,), acks=acks, deadline=deadline,
                now=self.now,
            )
        )  # fmt: skip

    @rule(follower=st.sampled_from(FOLLOWERS), take=st.integers(0, 5))
    def fetch(self, follower: BrokerId, take: int) -> None:
        """It has appended up to ``take`` records of the answer before, and asks for more."""
        log, leaders = self.model.replica(follower).log, self.model.replica(LEADER).log
        end = min(log.end + take, leaders.end)
        self.model.replica(follower).log = ModelLog(0, leaders.between(0, end))
        self.step(
            FollowerFetch(
                replica=follower, offset=Offset(end), log_start_offset=Offset(0), now=self.now
            )
        )

    @rule(ticks=st.integers(1, 30))
    def wait(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now = Millis(self.now + TICK_MS)
            self.step(Tick(now=self.now))

    # --- ZooKeeper --------------------------------------------------------------------------------

    @precondition(lambda self: self.proposal is not None)
    @rule(outcome=st.sampled_from(["written", "written", "refused", "unknown"]))
    def isr_is_decided(self, outcome: str) -> None:
        proposal, self.proposal = self.proposal, None
        assert proposal is not None
        if outcome == "refused":
            self.step(IsrRefused(leader_epoch=EPOCH))
        elif outcome == "unknown":
            self.step(IsrWriteFailed(leader_epoch=EPOCH, conflict=False))
        else:
            self.version = ZkVersion(self.version + 1)
            self.isr_is(proposal.isr)
            self.step(IsrWritten(leader_epoch=EPOCH, isr=proposal.isr, zk_version=self.version))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "replica"):
            self.replica.check()


TestLeader = Leader.TestCase
TestLeader.settings = settings(max_examples=60, stateful_step_count=25, report_multiple_bugs=False)
