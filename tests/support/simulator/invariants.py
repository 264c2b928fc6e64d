"""What must hold after every step, per partition.

``committed`` is the one history: whatever any leader ever had below its high watermark, by offset.
All else is measured against it.
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import Append, Effect, Event, LeaderAndIsr, Produce, Respond
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset
from simulator.broker_process import BrokerProcess
from simulator.log import MemoryBatch, MemoryLog
from simulator.zookeeper import PartitionState


class Violation(AssertionError):
    """An invariant does not hold."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(what)


class Invariants:
    def __init__(self, partition: int) -> None:
        self.committed: list[MemoryBatch] = []
        self.acked: dict[Offset, int] = {}
        self.answers = {0: 0, 1: 0, -1: 0}
        self.retained_from = Offset(0)
        self._partition = partition
        self._appenders: dict[LeaderEpoch, BrokerId] = {}
        self._watermarks: dict[tuple[BrokerId, int, LeaderEpoch], Offset] = {}
        self._produces: dict[int, Produce] = {}

    # --- single events ----------------------------------------------------------------------

    def observe(
        self,
        state: PartitionState,
        process: BrokerProcess,
        event: Event,
        effects: tuple[Effect, ...],
    ) -> None:
        """One event of one replica of this partition."""
        replica, log = process.replicas[self._partition], process.logs[self._partition]
        if isinstance(event, Produce):
            self._produces[event.request] = event
        for effect in effects:
            if isinstance(effect, Append) and effect.leader_epoch is not None:
                self._one_appender(effect.leader_epoch, process.broker)
            elif isinstance(effect, Respond):
                self._answered(effect)
        if isinstance(event, LeaderAndIsr) and self._is_election(event, process.broker, state):
            self._elected_has_what_was_acked(process.broker, log)
        self._view_matches(process.broker, replica, log)
        if replica.role is Role.LEADER:
            self._watermark_only_rises(process, replica)
            self._commit(process.broker, replica, log)

    def _one_appender(self, epoch: LeaderEpoch, broker: BrokerId) -> None:
        first = self._appenders.setdefault(epoch, broker)
        require(first == broker, f"brokers {first} and {broker} both append in epoch {epoch}")

    def _answered(self, answer: Respond) -> None:
        request = self._produces.pop(answer.request, None)
        require(request is not None, f"request {answer.request} answered twice, or never asked")
        assert request is not None
        if answer.error is ErrorCode.none:
            self.answers[request.acks] += 1
            if request.acks == -1:
                batch = request.batches[0]
                assert isinstance(batch, MemoryBatch)
                self.acked[answer.base_offset] = batch.value

    @staticmethod
    def _is_election(word: LeaderAndIsr, broker: BrokerId, state: PartitionState) -> bool:
        """A late word may make a leader of an epoch that is over; it need not know what came."""
        return word.leader == broker and word.leader_epoch == state.leader_epoch

    def _elected_has_what_was_acked(self, broker: BrokerId, log: MemoryLog) -> None:
        for offset, value in self.acked.items():
            if offset >= log.start:
                kept = offset < log.end and log.slots[offset - log.start].value == value
                require(kept, f"new leader {broker} lacks the acked record at {offset}")

    def _view_matches(self, broker: BrokerId, replica: Replica, log: MemoryLog) -> None:
        view = (replica.log_start_offset, replica.log_end_offset, replica.epochs)
        real = (log.start, log.end, log.epochs.entries)
        require(view == real, f"replica {broker} sees its log as {view}, but it is {real}")

    def _watermark_only_rises(self, process: BrokerProcess, replica: Replica) -> None:
        key = (process.broker, process.life, replica.leader_epoch)
        before = self._watermarks.get(key, Offset(0))
        now = replica.high_watermark
        require(before <= now, f"leader {process.broker}: watermark fell from {before} to {now}")
        self._watermarks[key] = now

    def _commit(self, broker: BrokerId, replica: Replica, log: MemoryLog) -> None:
        known = len(self.committed)
        require(log.start <= known, f"leader {broker} starts at {log.start}, beyond {known}")
        self.committed += log.slots[known - log.start : replica.high_watermark - log.start]

    # --- the partition as a whole -----------------------------------------------------------

    def check(self, state: PartitionState, processes: Mapping[BrokerId, BrokerProcess]) -> None:
        """After any step that touched the partition or its state in ZooKeeper."""
        for process in processes.values():
            replica = process.replicas.get(self._partition)
            if replica is not None:
                self._agrees(process, replica.high_watermark)
        for member in state.isr:
            log = processes[member].logs[self._partition]
            require(log.end >= len(self.committed), f"ISR member {member} lacks committed records")
            self._agrees(processes[member], Offset(len(self.committed)))

    def _agrees(self, process: BrokerProcess, end: Offset) -> None:
        log = process.logs[self._partition]
        require(log.start <= self.retained_from, f"log of {process.broker} lost its beginning")
        mine = log.slots[: max(0, end - log.start)]
        agreed = self.committed[log.start : end]
        require(mine == agreed, f"log of {process.broker} is not the committed one below {end}")
