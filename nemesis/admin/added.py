"""A broker with a new id that joins the cluster, takes over replicas, and leaves in order."""

import random
from collections.abc import Sequence
from itertools import cycle

from pydantic import Field

from ackproof.infra.api.interface import Capability
from ackproof.nemesis.admin import observations as seen
from ackproof.nemesis.admin.effects import Move, Prefer, moved
from ackproof.nemesis.admin.joining import Join
from ackproof.nemesis.admin.ordered import Ordered
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Placed,
    Target,
    Unplannable,
)


class BrokersAdded(Parameters):
    """Of brokers that join."""

    brokers: int = Field(
        default=1,
        ge=1,
        description="how many join; each takes the place of another replica of every partition "
        "that is moved",
    )
    leads: bool = Field(
        default=False, description="whether they are to lead these partitions, in turn"
    )


def _add(
    members: Members, target: Target, parameters: Parameters, rng: random.Random
) -> Sequence[Effect]:
    assert isinstance(parameters, BrokersAdded)
    ids = members.newcomers(parameters.brokers)
    given = tuple(map(str, target.placed))
    joins = [Join(number, given) for number in ids]
    coming = [join.name for join in joins]
    first = cycle(coming)
    moves = [
        _taken_over(one, coming, rng, next(first) if parameters.leads else None)
        for one in target.placed
    ]
    return [*joins, *moves]


def _taken_over(one: Placed, coming: Sequence[str], rng: random.Random, leads: str | None) -> Move:
    """Each of ``coming`` in the place of a replica; ``leads``: who of them is to, if any."""
    if len(coming) > len(one.replicas):
        raise Unplannable(
            f"{one} has replicas on {', '.join(one.replicas)}: these are too few for each of "
            f"{len(coming)} new brokers to have one in their place"
        )
    instead = dict(zip(rng.sample(one.replicas, len(coming)), coming, strict=True))
    to = [instead.get(broker, broker) for broker in one.replicas]
    if leads is None:
        return moved(one, to)
    to.remove(leads)
    return Prefer(topic=one.topic, number=one.number, to=(leads, *to), before=one.replicas)


def _bitten(injection: Injection) -> Sequence[Look]:
    return [seen.joined(injection), seen.moved(injection), seen.preferred_leads(injection)]


def _healed(injection: Injection) -> Sequence[Look]:
    return [seen.moved_back(injection), seen.gone(injection), seen.nothing_left(injection)]


ADD_BROKER = Ordered(
    name="add-broker",
    summary="add brokers with new ids, and move replicas to them; all back and gone at the end",
    aim=Aim.PARTITIONS,
    makes=_add,
    bite=_bitten,
    back=_healed,
    parameters=BrokersAdded,
    needs=frozenset({Capability.FURTHER_NODES, Capability.SIGNALS}),
)
