"""The write of a leader's new ISR into the partition's state.

Beside the ISR stands the broker epoch of each member (as in KIP-903's ``NewIsrWithEpochs``). It
shows a new controller which members were down since. A leader does not know its followers'
registrations. A broker that stays in the ISR keeps the stored epoch, whatever happened to it
meanwhile. For a broker that joins, the present epoch is looked up.
"""

import contextlib
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kazoo.exceptions import BadVersionError, NoNodeError

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import SessionExpired, SessionNumber, ZkSession
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion

NEVER_TRUSTED = 0
"""A stand-in for a broker epoch, earlier than any."""


class IsrWriteOutcome(enum.Enum):
    """The outcome of a write of a partition state."""

    WRITTEN = enum.auto()
    CONFLICT = enum.auto()
    """It was certainly not written: the node has another version, or is gone."""
    UNKNOWN = enum.auto()
    """The session ended before ZooKeeper answered, or its server lags."""


@dataclass(frozen=True, slots=True)
class IsrWriteResult:
    """The result of a write. ``zk_version`` is the node's new version when WRITTEN, else None."""

    outcome: IsrWriteOutcome
    zk_version: ZkVersion | None = None


async def write_isr(
    session: ZkSession,
    tp: TopicPartition,
    *,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    controller_epoch: ControllerEpoch,
    isr: Sequence[BrokerId],
    zk_version: ZkVersion,
    again: bool,
) -> IsrWriteResult:
    """Write an ISR; see :meth:`broker.server.zk.kafka_zk.KafkaZk.write_isr`."""
    number, path = session.number, znodes.partition_state(tp)
    try:
        stored = await _stored(session, tp, number)
        if stored is None or stored.zk_version < zk_version:
            # This server of ZooKeeper lags behind the one that the controller wrote to. A conflict
            # would leave the leader's proposal pending until the controller's next LeaderAndIsr.
            # That may never come, because nothing has changed.
            await session.sync(path, number)
            stored = await _stored(session, tp, number)
        if stored is not None and stored.zk_version == zk_version:
            data = znodes.encode_state(
                leader=leader,
                leader_epoch=leader_epoch,
                controller_epoch=controller_epoch,
                isr=isr,
                broker_epochs=await _broker_epochs(session, isr, stored, number, again=again),
            )
            with contextlib.suppress(BadVersionError, NoNodeError):
                version = await session.set(path, data, zk_version, number)
                return IsrWriteResult(IsrWriteOutcome.WRITTEN, version)
            stored = await _stored(session, tp, number)
    except SessionExpired:
        return IsrWriteResult(IsrWriteOutcome.UNKNOWN)
    ours = (leader, leader_epoch, controller_epoch, tuple(isr), zk_version + 1)
    if stored is not None and _content(stored) == ours:
        return IsrWriteResult(IsrWriteOutcome.WRITTEN, stored.zk_version)
    return IsrWriteResult(IsrWriteOutcome.CONFLICT)


def _content(state: PartitionState) -> tuple[object, ...]:
    return (state.leader, state.leader_epoch, state.controller_epoch, state.isr, state.zk_version)


async def _stored(
    session: ZkSession, tp: TopicPartition, number: SessionNumber
) -> PartitionState | None:
    path = znodes.partition_state(tp)
    try:
        data, stat = await session.request(lambda c: c.get_async(path), number)
        return znodes.decode_state(tp, data or b"", stat.version, stat.mzxid)
    except (NoNodeError, znodes.MalformedNode):
        return None


async def _broker_epochs(
    session: ZkSession,
    isr: Sequence[BrokerId],
    stored: PartitionState,
    number: SessionNumber,
    *,
    again: bool,
) -> Mapping[BrokerId, int]:
    """Return the broker epoch under which each member of ``isr`` is in it.

    A broker that joins has fetched a moment ago, in this session. To lose power, have its own
    session expire and register again takes longer. This does not hold for a second attempt in
    another session. The broker that fetched then may have had an earlier registration than the
    present one.
    """
    joining = [member for member in isr if member not in stored.isr]
    looked_up = {
        member: NEVER_TRUSTED if again else await _broker_epoch(session, member, number)
        for member in joining
    }
    return {member: stored.trusted_up_to(member) for member in stored.isr} | looked_up


async def _broker_epoch(session: ZkSession, broker: BrokerId, number: SessionNumber) -> int:
    path = znodes.broker_id(broker)
    try:
        _, stat = await session.request(lambda c: c.get_async(path), number)
    except NoNodeError:
        return NEVER_TRUSTED
    return int(stat.czxid)
