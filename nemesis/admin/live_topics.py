"""Orders on topics that are written to, which nobody can take back: partitions are added, and
records deleted.

The workload's producers go on writing to the partitions that they were told of, and records below
an offset that stands in the campaign are gone on purpose: so it stays certain what was lost. A
topic that is written to is never deleted: made again under its name it would begin at the same
offsets, in the same epochs, and nobody could tell what was lost from what was deleted.
"""

import random
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from ackproof.nemesis.admin import observations as seen
from ackproof.nemesis.admin.ordered import Ordered
from ackproof.nemesis.admin.topic_effects import DeleteBelow, GrowTopic
from ackproof.nemesis.interface import Aim, Effect, Members, Parameters, Target


class Added(Parameters):
    """Of partitions that are added."""

    more: int = Field(
        default=1, ge=1, le=100, description="partitions that each topic gets besides"
    )


class Below(Parameters):
    """Of records that are deleted."""

    before_offset: int = Field(
        default=100,
        ge=1,
        description="the offset below which they are, in each of the partitions; not carried out "
        "where one has not so many, as those that were added",
    )


def _add(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    assert isinstance(parameters, Added)
    there = Counter(one.topic for one in target.placed)
    return [
        GrowTopic(topic=topic, partitions=partitions + parameters.more)
        for topic, partitions in sorted(there.items())
    ]


def _delete(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    assert isinstance(parameters, Below)
    before = parameters.before_offset
    return [DeleteBelow(topic=one.topic, number=one.number, before=before) for one in target.placed]


ADD_PARTITIONS = Ordered(
    name="add-partitions",
    summary="add partitions to topics of the workload, for good; producers keep to those they had",
    aim=Aim.TOPICS,
    makes=_add,
    bite=lambda injection: [seen.topics_led(injection)],
    back=lambda _: [],
    parameters=Added,
)
ADVANCE_LOG_START = Ordered(
    name="advance-log-start",
    summary="delete the records of partitions of the workload below an offset, for good",
    aim=Aim.PARTITIONS,
    makes=_delete,
    bite=lambda injection: [seen.begins_later(injection)],
    back=lambda _: [],
    full_effect_ms=lambda _: 0,
    parameters=Below,
)
LIVE_TOPICS: Sequence[Ordered] = (ADD_PARTITIONS, ADVANCE_LOG_START)
