"""Faults that are an administrator's orders on topics: on topics of the faults' own, and on topics
of the workload."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.admin import observations as seen
from ackproof.nemesis.admin.effects import (
    DeleteBelow,
    DeletedTopic,
    GrowTopic,
    RecordDeletion,
    TopicCreation,
)
from ackproof.nemesis.admin.orders import OrderFault
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
    brokers_alone,
)
from ackproof.nemesis.proofs import noticed_ms

# --- topics of the faults' own --------------------------------------------------------------------
#
# Permanent changes of the workload's topics are in the second half of :mod:`nemesis.admin.topics`.

_REPLICAS = 3
_RECORDS = 100


class OwnTopicParameters(Parameters):
    """The parameters of topics of the fault's own."""

    topics: int = Field(default=5, ge=1, le=100, description="number of topics")
    partitions: int = Field(default=3, ge=1, le=100, description="partitions of each new topic")


class TopicGrowthParameters(OwnTopicParameters):
    """The parameters of topics that grow."""

    more: int = Field(default=3, ge=1, le=100, description="partitions to add to each topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Topics created on the target's brokers (with three replicas, if there are so many brokers),
    and a further effect on each. They are deleted at the end.

    Attributes:
        then: The further effects.
        bite: The look for its own effect.
    """

    name: str
    summary: str
    then: Callable[[TopicCreation, Parameters], Sequence[Effect]]
    bite: Callable[[Injection], Look]
    parameters: type[Parameters] = OwnTopicParameters

    aim: ClassVar[Aim] = Aim.PLACES
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, OwnTopicParameters)
        brokers_alone(self.name, members, target.nodes)
        many = parameters.partitions
        made = [_topic(members, target, many, rng) for _ in range(parameters.topics)]
        more = [effect for topic in made for effect in self.then(topic, parameters)]
        return Plan(effects=(*made, *more))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [self.bite(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [seen.topics_gone(injection, by_order=False)]

    def hold_ms_min(self, timings: Timings) -> int:
        return noticed_ms(timings)


def _topic(members: Members, target: Target, partitions: int, rng: random.Random) -> TopicCreation:
    replicas = min(_REPLICAS, len(target.nodes))
    return TopicCreation(
        topic=f"{members.prefix}own-{rng.getrandbits(48):012x}",
        assignment=tuple(tuple(rng.sample(target.nodes, replicas)) for _ in range(partitions)),
    )


def _grow(topic: TopicCreation, parameters: Parameters) -> Sequence[Effect]:
    assert isinstance(parameters, TopicGrowthParameters)
    return [GrowTopic(topic=topic.topic, partitions=parameters.partitions + parameters.more)]


def _delete(topic: TopicCreation, parameters: Parameters) -> Sequence[Effect]:  # noqa: ARG001
    return [DeletedTopic(topic=topic.topic, partitions=len(topic.assignment))]


def _delete_records(
    topic: TopicCreation,
    parameters: Parameters,  # noqa: ARG001
) -> Sequence[Effect]:
    many = len(topic.assignment)
    before = _RECORDS // 2
    return [RecordDeletion(topic=topic.topic, partitions=many, records=_RECORDS, before=before)]


CREATE_TOPIC = Churn(
    name="create-topic",
    summary="create further topics on the target's brokers; delete them at the end",
    then=lambda _topic, _parameters: (),
    bite=seen.topics_led,
)
GROW_TOPIC = Churn(
    name="grow-topic",
    summary="create further topics and add partitions; delete them at the end",
    then=_grow,
    bite=seen.topics_led,
    parameters=TopicGrowthParameters,
)
DELETE_TOPIC = Churn(
    name="delete-topic",
    summary="create further topics and delete them",
    then=_delete,
    bite=lambda injection: seen.topics_gone(injection, by_order=True),
)
DELETE_RECORDS = Churn(
    name="delete-records",
    summary="write records to further topics and delete half; delete the topics at the end",
    then=_delete_records,
    bite=seen.records_gone,
)
CHURN: Sequence[Churn] = (CREATE_TOPIC, GROW_TOPIC, DELETE_TOPIC, DELETE_RECORDS)


# --- topics that are written to -------------------------------------------------------------------
#
# The workload's producers continue to write to the partitions that they know, and records below an
# offset named in the campaign are deleted on purpose. It thus stays certain which records were
# lost. A topic of the workload is never deleted. If it were created again under its name, it would
# begin at the same offsets, in the same epochs. Lost records could then not be distinguished from
# deleted ones.


class AddedPartitionParameters(Parameters):
    """The parameters of added partitions."""

    more: int = Field(default=1, ge=1, le=100, description="partitions to add to each topic")


class RecordDeletionParameters(Parameters):
    """The parameters of deleted records."""

    before_offset: int = Field(
        default=100,
        ge=1,
        description="the first offset to keep in each partition; one with fewer records refuses it",
    )


def _add(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    assert isinstance(parameters, AddedPartitionParameters)
    there = Counter(one.topic for one in target.placed)
    return [
        GrowTopic(topic=topic, partitions=partitions + parameters.more)
        for topic, partitions in sorted(there.items())
    ]


def _delete_below(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    assert isinstance(parameters, RecordDeletionParameters)
    before = parameters.before_offset
    return [DeleteBelow(topic=one.topic, number=one.number, before=before) for one in target.placed]


ADD_PARTITIONS = OrderFault(
    name="add-partitions",
    summary="add partitions to the workload's topics for good; producers do not use them",
    aim=Aim.TOPICS,
    makes=_add,
    bite=lambda injection: [seen.topics_led(injection)],
    back=lambda _: [],
    parameters=AddedPartitionParameters,
)
ADVANCE_LOG_START = OrderFault(
    name="advance-log-start",
    summary="delete records below an offset for good; in partitions of the workload",
    aim=Aim.PARTITIONS,
    makes=_delete_below,
    bite=lambda injection: [seen.begins_later(injection)],
    back=lambda _: [],
    full_effect_ms=lambda _: 0,
    parameters=RecordDeletionParameters,
)
LIVE_TOPICS: Sequence[OrderFault] = (ADD_PARTITIONS, ADVANCE_LOG_START)
