"""A Fetch with everything that one can say in it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

AMPLE: Final = 2**20
CONSUMER: Final = BrokerId(-1)
NO_SESSION: Final = (0, -1)


class Limits(NamedTuple):
    """The sizes and times of a request."""

    max_bytes: int = AMPLE
    partition_max_bytes: int = AMPLE
    min_bytes: int = 0
    max_wait_ms: int = 0


def fetch_request(
    asked: Iterable[tuple[TopicPartition, int]],
    limits: Limits = Limits(),  # noqa: B008 - it does not change
    *,
    replica: BrokerId = CONSUMER,
    epoch: LeaderEpoch = NO_EPOCH,
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[TopicPartition] = (),
) -> FetchRequest:
    """Partitions in their order, each from an offset on. ``epoch``: the leader epoch that is
    presumed of all. ``session``: its id and epoch (KIP-227), which ``forgotten`` partitions leave.
    """
    session_id, session_epoch = session
    return FetchRequest(
        version=11,
        replica_id=replica,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(_topic(tp, at, limits, epoch) for tp, at in asked),
        forgotten_topics_data=tuple(
            ForgottenTopic(topic=tp.topic, partitions=(tp.partition,)) for tp in forgotten
        ),
    )


def _topic(tp: TopicPartition, at: int, limits: Limits, epoch: LeaderEpoch) -> FetchTopic:
    part = FetchPartition(
        partition=tp.partition,
        current_leader_epoch=epoch,
        fetch_offset=Offset(at),
        partition_max_bytes=limits.partition_max_bytes,
    )
    return FetchTopic(topic=tp.topic, partitions=(part,))
