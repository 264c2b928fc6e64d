"""**InvalidRefused**: what is wrong in itself, or said to the wrong broker, is refused.

Good clients find the leader and the coordinator, send whole batches and are who they say, so that
a broker which looks at none of it serves them as well as any. So it is said on purpose when all is
over, and no log is longer for it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.clients.fetch_requests import Limits, fetch_request
from simulation.clients.reading import list_offsets
from simulation.model.observer import Observer
from simulation.model.partition import PartitionModel
from simulation.verdict.led import Hosted
from simulation.verdict.refused.invalid_groups import NOWHERE, to_coordinators
from simulation.verdict.refused.strange_batches import batches
from simulation.verdict.refused.words import Word, is_refused, of_fetch, of_parts
from simulation.violation import Violation

INVARIANT: Final = "InvalidRefused"
STRANGER: Final = BrokerId(99)


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Says it all, to each broker what it must refuse; raises Violation."""
    for tp, partition in observer.partitions():
        if tp.topic != OFFSETS_TOPIC and partition.state is not None:
            await _of_a_partition(client, tp, partition, hosted)
            for word in _to_the_offsets_topic(observer):
                await is_refused(client, word, INVARIANT)
            for word in to_coordinators(client.brokers, tp, observer):
                await is_refused(client, word, INVARIANT)
            return


# --- partitions -----------------------------------------------------------------------------------


async def _of_a_partition(
    client: Client, tp: TopicPartition, partition: PartitionModel, hosted: Hosted
) -> None:
    assert partition.state is not None
    leader = partition.state.leader
    leading = hosted(leader, tp)
    if leading is None:
        return
    end = leading.log.log_end_offset
    followers = [broker for broker in partition.state.isr if broker != leader]
    large = encoded([bytes(leading.config.max_message_bytes)])
    for word in (*_to_the_leader(leader, tp, leading), *_to_others(followers, tp, large)):
        await is_refused(client, word, INVARIANT)
    if leading.log.log_end_offset != end:
        what = f"{tp} ended at {end} before anything was refused, then at"
        raise Violation(INVARIANT, f"{what} {leading.log.log_end_offset}")


def _to_the_leader(broker: int, tp: TopicPartition, leading: server.Partition) -> Iterator[Word]:
    good = encoded([b"v"])
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    large = encoded([bytes(leading.config.max_message_bytes)])
    for what, where, acks, records, expected in (
        ("a batch that is damaged", tp, -1, damaged, ErrorCode.corrupt_message),
        ("a batch that is cut short", tp, -1, good[:-1], ErrorCode.corrupt_message),
        ("a batch that is too large", tp, -1, large, ErrorCode.message_too_large),
        ("two batches", tp, -1, good + good, ErrorCode.invalid_record),
        *((what, tp, -1, batch, refusal) for what, batch, refusal in batches(leading)),
        ("acks=2", tp, 2, good, ErrorCode.invalid_required_acks),
        ("a record for no topic", NOWHERE, -1, good, ErrorCode.unknown_topic_or_partition),
    ):
        request = produce(where, acks, records)
        yield Word(f"a Produce of {what} to {where}", broker, request, _of_produce, expected)
    listed = list_offsets(NOWHERE)
    nowhere = ErrorCode.unknown_topic_or_partition
    yield Word(f"ListOffsets of {NOWHERE}", broker, listed, of_parts, nowhere)
    refusal = ErrorCode.not_leader_or_follower
    fetch = fetch_request([(tp, 0)], Limits(partition_max_bytes=1), replica=STRANGER)
    yield Word(f"a Fetch of {tp} by {STRANGER}, no replica", broker, fetch, of_fetch, refusal)


def _to_others(brokers: Iterable[int], tp: TopicPartition, large: bytes) -> Iterator[Word]:
    """What is wrong with a batch it is not for them to say: their settings may be older."""
    expected = ErrorCode.not_leader_or_follower
    for broker in brokers:
        for acks, records in ((1, encoded([b"v"])), (-1, encoded([b"v"])), (1, large)):
            request = produce(tp, acks, records)
            size = f"{len(records)} bytes with acks={acks}"
            what = f"a Produce of {size} to {tp}, which it follows"
            yield Word(what, broker, request, _of_produce, expected)
        what = f"ListOffsets of {tp}, which it follows"
        yield Word(what, broker, list_offsets(tp), of_parts, expected)


def _to_the_offsets_topic(observer: Observer) -> Iterator[Word]:
    home = TopicPartition(OFFSETS_TOPIC, 0)
    partition = observer.find(home)
    if partition is not None and partition.state is not None:
        request, expected = produce(home, -1, encoded([b"v"])), ErrorCode.invalid_topic_exception
        broker = partition.state.leader
        yield Word(f"a Produce to {home}, by a client", broker, request, _of_produce, expected)


def produce(tp: TopicPartition, acks: int, records: bytes, *, version: int = 7) -> ProduceRequest:
    """One partition's records."""
    data = PartitionProduceData(index=tp.partition, records=records)
    topic = TopicProduceData(name=tp.topic, partition_data=(data,))
    return ProduceRequest(version=version, acks=acks, timeout_ms=1_000, topic_data=(topic,))


def _of_produce(answer: Any) -> Iterator[ErrorCode]:
    for topic in answer.responses:
        for part in topic.partition_responses:
            yield part.error_code
