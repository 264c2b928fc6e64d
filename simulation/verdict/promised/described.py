"""**DescribedAsItIs**: what brokers describe to administrators is what there is (DescribeGroups,
DescribeLogDirs, ListPartitionReassignments).

Nothing goes by these answers but people, who move what is told to be moving and delete what is told
to be empty. All is quiet when they are asked for.
"""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ackproof.broker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from simulation.clients.client import Client
from simulation.clients.group_requests import Place
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted
from simulation.verdict.promised.moving import who_decides
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

INVARIANT: Final = "DescribedAsItIs"
STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
NOBODYS: Final = "a group that there is not"


async def group(client: Client, place: Place) -> None:
    """Of one whose only member has that ``place``; raises Violation."""
    request = DescribeGroupsRequest(version=4, groups=(place.group, NOBODYS))
    for broker in client.brokers:
        answer = await answered(client, broker, request)
        told = {each.group_id: _group(each) for each in answer.groups}
        if broker == place.coordinator:
            expected = (ErrorCode.none, STABLE, (place.member_id,))
            if told[place.group] != expected:
                what = f"group {place.group} is {expected}, and {told[place.group]} is told"
                raise Violation(INVARIANT, what)
            await _listed(client, place)
        error, state, members = told[NOBODYS]
        if error is ErrorCode.none and (state, members) != (DEAD, ()):
            raise Violation(INVARIANT, f"broker {broker} describes {NOBODYS} as {state}, {members}")


async def _listed(client: Client, place: Place) -> None:
    """Among those in its state, and not among others (KIP-518)."""
    for states, is_due in (((STABLE,), True), ((STABLE, EMPTY), True), ((EMPTY,), False)):
        request = ListGroupsRequest(version=4, states_filter=states)
        answer = await answered(client, place.coordinator, request)
        told = [
            (each.protocol_type, each.group_state)
            for each in answer.groups
            if each.group_id == place.group
        ]
        due = [("consumer", STABLE)] if is_due else []
        if answer.error_code is ErrorCode.none and told != due:
            what = f"{told} of group {place.group} to who lists groups that are one of {states}"
            raise Violation(INVARIANT, f"{what}, due is {due}")


def _group(told: DescribedGroup) -> tuple[ErrorCode, str, tuple[str, ...]]:
    return told.error_code, told.group_state, tuple(each.member_id for each in told.members)


async def partitions(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Raises Violation."""
    await _nothing_moves(client, observer)
    request = DescribeLogDirsRequest(version=1, topics=None)
    for broker in client.brokers:
        answer = await answered(client, broker, request)
        told = {
            TopicPartition(topic.name, part.partition_index): part.partition_size
            for result in answer.results
            for topic in result.topics
            for part in topic.partitions
        }
        there = _sizes(broker, observer, hosted)
        strange = sorted(tp for tp in there if told.get(tp) != there[tp])
        if strange:
            tp = strange[0]
            what = f"broker {broker} has {there[tp]} bytes of {tp}, and {told.get(tp)} is told"
            raise Violation(INVARIANT, what)


def _sizes(broker: int, observer: Observer, hosted: Hosted) -> Mapping[TopicPartition, int]:
    found = {tp: hosted(broker, tp) for tp, _ in observer.partitions()}
    return {tp: replica.log.size for tp, replica in found.items() if replica is not None}


async def _nothing_moves(client: Client, observer: Observer) -> None:
    names = sorted(name for name, topic in observer.topics.items() if not topic.is_doomed)
    named = tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=(0,)) for name in names
    )
    for topics in (None, named):
        request = ListPartitionReassignmentsRequest(topics=topics)
        answer = await answered(client, who_decides(client, observer), request)
        if answer.error_code is not ErrorCode.none or answer.topics:
            moving = [topic.name for topic in answer.topics]
            what = f"{answer.error_code.name}, {moving} to who asks what is being moved"
            raise Violation(INVARIANT, f"{what}, and nothing is")
