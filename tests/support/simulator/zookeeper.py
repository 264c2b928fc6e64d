"""What ZooKeeper holds: who is registered, and each partition's state with its version."""

from dataclasses import dataclass, replace

from ackproof.broker.replication.events import IsrWriteFailed, IsrWritten, WriteIsr
from ackproof.broker.types import BrokerId, LeaderEpoch, ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """``/brokers/topics/<topic>/partitions/<n>/state``."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion


class ZooKeeper:
    """``registrations``: broker id to the id of its registration (its broker epoch)."""

    def __init__(self, states: list[PartitionState]) -> None:
        self.states = states
        self.registrations: dict[BrokerId, int] = {}
        self._last_registration = 0

    def register(self, broker: BrokerId) -> int:
        self._last_registration += 1
        self.registrations[broker] = self._last_registration
        return self._last_registration

    def expire(self, broker: BrokerId) -> None:
        self.registrations.pop(broker, None)

    def write(self, partition: int, state: PartitionState) -> PartitionState:
        """Write ``state`` over the version it names; returns it with its new version."""
        if self.states[partition].zk_version != state.zk_version:
            raise AssertionError("the model controller reads and writes in one go")
        written = replace(state, zk_version=ZkVersion(state.zk_version + 1))
        self.states[partition] = written
        return written

    def write_isr(
        self, partition: int, leader: BrokerId, write: WriteIsr
    ) -> IsrWritten | IsrWriteFailed:
        """A leader's conditional write, with the check for a first try that succeeded."""
        state = self.states[partition]
        if state.zk_version == write.zk_version:
            state = self.write(partition, replace(state, isr=write.isr))
        elif (state.leader, state.leader_epoch, state.isr) != (
            leader,
            write.leader_epoch,
            write.isr,
        ):
            return IsrWriteFailed(leader_epoch=write.leader_epoch, conflict=True)
        return IsrWritten(
            leader_epoch=write.leader_epoch, isr=state.isr, zk_version=state.zk_version
        )
