"""Topics of the faults' own that come, grow and go while producers write to others.

What is done to topics of the workload, for good, is in :mod:`nemesis.admin.live_topics`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.admin import observations as seen
from ackproof.nemesis.admin.topic_effects import CreateTopic, DeleteRecords, DeleteTopic, GrowTopic
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
from ackproof.nemesis.proofs.proving import noticed_ms

_REPLICAS = 3
_RECORDS = 100


class OwnTopics(Parameters):
    """Of topics of the fault's own."""

    topics: int = Field(default=5, ge=1, le=100, description="how many")
    partitions: int = Field(default=3, ge=1, le=100, description="of each, when it is made")


class Grown(OwnTopics):
    """Of topics that grow."""

    more: int = Field(default=3, ge=1, le=100, description="partitions that each gets besides")


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Topics are made on the target's brokers (of three replicas, where there are so many), and
    something more is done to each; deleted at the end.

    Attributes:
        then: What more.
        bite: What it does itself, seen.
    """

    name: str
    summary: str
    then: Callable[[CreateTopic, Parameters], Sequence[Effect]]
    bite: Callable[[Injection], Look]
    parameters: type[Parameters] = OwnTopics

    aim: ClassVar[Aim] = Aim.PLACES
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, OwnTopics)
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


def _topic(members: Members, target: Target, partitions: int, rng: random.Random) -> CreateTopic:
    replicas = min(_REPLICAS, len(target.nodes))
    return CreateTopic(
        topic=f"{members.prefix}own-{rng.getrandbits(48):012x}",
        assignment=tuple(tuple(rng.sample(target.nodes, replicas)) for _ in range(partitions)),
    )


def _grow(topic: CreateTopic, parameters: Parameters) -> Sequence[Effect]:
    assert isinstance(parameters, Grown)
    return [GrowTopic(topic=topic.topic, partitions=parameters.partitions + parameters.more)]


def _delete(topic: CreateTopic, parameters: Parameters) -> Sequence[Effect]:  # noqa: ARG001
    return [DeleteTopic(topic=topic.topic, partitions=len(topic.assignment))]


def _delete_records(
    topic: CreateTopic,
    parameters: Parameters,  # noqa: ARG001
) -> Sequence[Effect]:
    many = len(topic.assignment)
    before = _RECORDS // 2
    return [DeleteRecords(topic=topic.topic, partitions=many, records=_RECORDS, before=before)]


CREATE_TOPIC = Churn(
    name="create-topic",
    summary="make topics of its own on the target's brokers, and delete them at the end",
    then=lambda _topic, _parameters: (),
    bite=seen.topics_led,
)
GROW_TOPIC = Churn(
    name="grow-topic",
    summary="make topics of its own and add partitions to them; deleted at the end",
    then=_grow,
    bite=seen.topics_led,
    parameters=Grown,
)
DELETE_TOPIC = Churn(
    name="delete-topic",
    summary="make topics of its own and delete them",
    then=_delete,
    bite=lambda injection: seen.topics_gone(injection, by_order=True),
)
DELETE_RECORDS = Churn(
    name="delete-records",
    summary="write records to topics of its own and delete half of them; deleted at the end",
    then=_delete_records,
    bite=seen.records_gone,
)
CHURN: Sequence[Churn] = (CREATE_TOPIC, GROW_TOPIC, DELETE_TOPIC, DELETE_RECORDS)
