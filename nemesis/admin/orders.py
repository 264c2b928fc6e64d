"""Faults that are an administrator's orders, given while producers write: elections, moves of
replicas, a setting, and a broker that is removed from the cluster.

A cluster guarantees to keep what it acknowledged through all of them. The exception is an unclean
election, which is the choice to lose records.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from pydantic import Field

from ackproof.infra.api.capabilities import LogDirectory
from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.admin import observations as orders_seen
from ackproof.nemesis.admin.effects import (
    BrokerJoin,
    BrokerRetirement,
    DirectoryMove,
    DirectoryMoveLimit,
    ElectUncleanly,
    LeaderPreference,
    ReplicaMove,
    SetConfig,
    moved,
)
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    PlacedPartition,
    Plan,
    Target,
    Unplannable,
    brokers_alone,
)
from ackproof.nemesis.process import observations as processes_seen
from ackproof.nemesis.proofs import expiry_ms, noticed_ms

# --- what all orders have in common ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFault:
    """Orders to the cluster, one or several for each target.

    Proven by ZooKeeper's content afterwards. The orders are undone at the end, and ZooKeeper must
    show that, too.

    Attributes:
        makes: The effects, in their order.
        bite: The looks for its own effect.
        back: The looks for its healing.
    """

    name: str
    summary: str
    aim: Aim
    makes: Callable[[Members, Target, Parameters, random.Random], Sequence[Effect]]
    bite: Callable[[Injection], Sequence[Look]]
    back: Callable[[Injection], Sequence[Look]]
    full_effect_ms: Callable[[Timings], int] = noticed_ms
    parameters: type[Parameters] = Parameters
    needs: frozenset[Capability] = frozenset()
    destroys: Literal["unclean"] | None = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        return Plan(effects=tuple(self.makes(members, target, parameters, rng)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return self.bite(injection)

    def healed(self, injection: Injection) -> Sequence[Look]:
        return self.back(injection)

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


# --- orders on partitions, brokers and settings ---------------------------------------------------

MIN_ISR = "min.insync.replicas"


class ReassignmentParameters(Parameters):
    """The parameters of a reassignment."""

    replicas: Literal["one", "most"] = Field(
        default="most",
        description="replicas of each partition to move: one, drawn by the seed, or as many as "
        "other brokers can take",
    )


class MinIsrAltered(Parameters):
    """The parameters of a changed min.insync.replicas."""

    min_insync_replicas: int = Field(default=1, ge=1, description="the value for the topic")


class DirectoryMoved(Parameters):
    """The parameters of a move between log directories."""

    replicas: Literal["leader", "one", "all"] = Field(
        default="leader",
        description="replicas of each partition to move: the leader's, one drawn by the seed, or "
        "all, each within its broker",
    )
    bytes_per_s: int | None = Field(
        default=None,
        ge=1,
        description="the most bytes a second that a broker moves, until the end. The fault is then "
        "proven by replicas that are still on their way. Kafka checks the limit between fetches "
        "of `replica.fetch.max.bytes`",
    )


def elsewhere(
    one: PlacedPartition, leaving: Sequence[str], members: Members, rng: random.Random
) -> tuple[str, ...]:
    """Return the partition's replicas after those on ``leaving`` have moved to brokers that had
    none, each in its place. Raise Unplannable if there are too few such brokers."""
    free = [broker for broker in members.brokers if broker not in {*one.replicas, *leaving}]
    going = [broker for broker in one.replicas if broker in leaving]
    if len(free) < len(going):
        raise Unplannable(
            f"{one} has replicas on {', '.join(one.replicas)}: there is no other broker for "
            f"{', '.join(going)} to move to"
        )
    to = dict(zip(going, rng.sample(free, len(going)), strict=True))
    return tuple(to.get(broker, broker) for broker in one.replicas)


def _reassign(
    members: Members, target: Target, parameters: Parameters, rng: random.Random
) -> Sequence[Effect]:
    assert isinstance(parameters, ReassignmentParameters)
    moves = []
    for one in target.placed:
        free = len(set(members.brokers) - set(one.replicas))
        count = min(free, len(one.replicas)) if parameters.replicas == "most" else 1
        leaving = rng.sample(one.replicas, max(count, 1))
        moves.append(moved(one, elsewhere(one, leaving, members, rng)))
    return moves


def _change_directory(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,
) -> Sequence[Effect]:
    assert isinstance(parameters, DirectoryMoved)
    if target.directories is None:
        return []  # Only the brokers know where their replicas lie.
    moves = [
        move
        for one in target.placed
        for broker in _whose(one, parameters.replicas, rng)
        if (move := _moved_within(one, broker, target.directories.get(broker, ()), rng))
    ]
    if not moves:
        raise Unplannable(
            f"no replica of {', '.join(map(str, target.placed))} can be moved: its broker "
            "describes no other log directory that works, or does not answer"
        )
    if (limit := parameters.bytes_per_s) is None:
        return moves
    brokers = sorted({move.broker for move in moves})
    return [*(DirectoryMoveLimit(broker, limit) for broker in brokers), *moves]


def _whose(one: PlacedPartition, replicas: str, rng: random.Random) -> Sequence[str]:
    if replicas == "leader":
        return [one.leader] if one.leader is not None else []
    return [rng.choice(one.replicas)] if replicas == "one" else one.replicas


def _moved_within(
    one: PlacedPartition, broker: str, directories: Sequence[LogDirectory], rng: random.Random
) -> DirectoryMove | None:
    """Return the move of the broker's replica to another directory; None if it lies in none, or
    there is no other."""
    key = one.topic, one.number
    before = next((each.path for each in directories if key in each.logs), None)
    others = sorted(each.path for each in directories if key not in each.logs)
    if before is None or not others:
        return None
    return DirectoryMove(
        topic=one.topic, number=one.number, broker=broker, before=before, to=rng.choice(others)
    )


def _prefer(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,
) -> Sequence[Effect]:
    return [_preferring(one, rng) for one in target.placed]


def _preferring(one: PlacedPartition, rng: random.Random) -> LeaderPreference:
    able = [broker for broker in one.isr if broker != one.leader and broker in one.replicas]
    if not able:
        raise Unplannable(f"{one}: its ISR has only the leader {one.leader}")
    first = rng.choice(sorted(able))
    others = (broker for broker in one.replicas if broker != first)
    return LeaderPreference(
        topic=one.topic, number=one.number, to=(first, *others), before=one.replicas
    )


def _elect_uncleanly(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    return [ElectUncleanly(topic=one.topic, number=one.number) for one in target.placed]


def _alter_min_isr(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> Sequence[Effect]:
    assert isinstance(parameters, MinIsrAltered)
    value = str(parameters.min_insync_replicas)
    return [
        SetConfig(topic=topic, setting=MIN_ISR, value=value, before=config.get(MIN_ISR))
        for topic, config in sorted(target.configs.items())
    ]


def _remove(
    members: Members,
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,
) -> Sequence[Effect]:
    brokers_alone("remove-broker", members, target.servers)
    leaving = target.servers
    moves = [moved(one, elsewhere(one, leaving, members, rng)) for one in target.placed]
    return [*moves, *map(BrokerRetirement, leaving)]


def _removed(injection: Injection) -> Sequence[Look]:
    return [
        processes_seen.terminated(injection),
        orders_seen.holds_nothing(injection, injection.target.servers),
        processes_seen.session_closed(injection),
    ]


def _returned(injection: Injection) -> Sequence[Look]:
    brokers = injection.target.servers
    ended = [broker for broker in brokers if broker in {e.ends for e in injection.done()}]
    return [
        proofs.running(injection, brokers),
        proofs.registered(injection, brokers, renewed=ended),
        orders_seen.moved_back(injection),
    ]


REASSIGN = OrderFault(
    name="reassign",
    summary="move replicas of partitions to other brokers; move them back at the end",
    aim=Aim.PARTITIONS,
    makes=_reassign,
    bite=lambda injection: [orders_seen.moved(injection)],
    back=lambda injection: [orders_seen.moved_back(injection)],
    parameters=ReassignmentParameters,
)
MOVE_LOG_DIR = OrderFault(
    name="move-log-dir",
    summary="move replicas between log directories of their broker; they stay there",
    aim=Aim.REPLICAS,
    makes=_change_directory,
    bite=lambda injection: [orders_seen.changes_directory(injection)],
    back=lambda injection: [orders_seen.rests_in_one_directory(injection)],
    parameters=DirectoryMoved,
    needs=frozenset({Capability.LOSE_UNSYNCED_WRITES}),
)
ELECT_PREFERRED = OrderFault(
    name="elect-preferred",
    summary="make another in-sync replica preferred and elect it; undo that at the end",
    aim=Aim.PARTITIONS,
    makes=_prefer,
    bite=lambda injection: [orders_seen.preferred_leads(injection)],
    back=lambda injection: [orders_seen.moved_back(injection)],
    full_effect_ms=expiry_ms,
)
ELECT_UNCLEAN = OrderFault(
    name="elect-unclean",
    summary="elect any replica if the ISR is offline; this accepts a loss",
    aim=Aim.PARTITIONS,
    makes=_elect_uncleanly,
    bite=lambda injection: [orders_seen.elected_uncleanly(injection)],
    back=lambda _: [],
    full_effect_ms=lambda _: 0,
    destroys="unclean",
)
ALTER_MIN_ISR = OrderFault(
    name="alter-min-isr",
    summary="set another min.insync.replicas for topics until the end",
    aim=Aim.TOPICS,
    makes=_alter_min_isr,
    bite=lambda injection: [orders_seen.configured(injection)],
    back=lambda injection: [orders_seen.configured(injection, back=True)],
    parameters=MinIsrAltered,
)
REMOVE_BROKER = OrderFault(
    name="remove-broker",
    summary="move all replicas off brokers and terminate these; undo that at the end",
    aim=Aim.BROKERS,
    makes=_remove,
    bite=_removed,
    back=_returned,
    full_effect_ms=expiry_ms,
    needs=frozenset({Capability.SIGNALS}),
)
ADMIN: Sequence[OrderFault] = (
    REASSIGN,
    MOVE_LOG_DIR,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    ALTER_MIN_ISR,
    REMOVE_BROKER,
)


# --- a broker that joins --------------------------------------------------------------------------


class BrokersAdded(Parameters):
    """The parameters of joining brokers."""

    brokers: int = Field(
        default=1,
        ge=1,
        description="brokers to add; each takes another replica's place in every partition that "
        "is moved",
    )
    leads: bool = Field(default=False, description="let them lead these partitions in turn")


def _add(
    members: Members, target: Target, parameters: Parameters, rng: random.Random
) -> Sequence[Effect]:
    assert isinstance(parameters, BrokersAdded)
    ids = members.newcomers(parameters.brokers)
    given = tuple(map(str, target.placed))
    joins = [BrokerJoin(number, given) for number in ids]
    coming = [join.name for join in joins]
    first = cycle(coming)
    moves = [
        _taken_over(one, coming, rng, next(first) if parameters.leads else None)
        for one in target.placed
    ]
    return [*joins, *moves]


def _taken_over(
    one: PlacedPartition, coming: Sequence[str], rng: random.Random, leads: str | None
) -> ReplicaMove:
    """Return the move that puts each of ``coming`` in the place of a replica. ``leads`` is the one
    that should lead, if any."""
    if len(coming) > len(one.replicas):
        raise Unplannable(
            f"{one} has replicas on {', '.join(one.replicas)}: too few for each of "
            f"{len(coming)} new brokers to replace one"
        )
    instead = dict(zip(rng.sample(one.replicas, len(coming)), coming, strict=True))
    to = [instead.get(broker, broker) for broker in one.replicas]
    if leads is None:
        return moved(one, to)
    to.remove(leads)
    return LeaderPreference(
        topic=one.topic, number=one.number, to=(leads, *to), before=one.replicas
    )


def _bitten(injection: Injection) -> Sequence[Look]:
    return [
        orders_seen.joined(injection),
        orders_seen.moved(injection),
        orders_seen.preferred_leads(injection),
    ]


def _healed(injection: Injection) -> Sequence[Look]:
    return [
        orders_seen.moved_back(injection),
        orders_seen.gone(injection),
        orders_seen.nothing_left(injection),
    ]


ADD_BROKER = OrderFault(
    name="add-broker",
    summary="add brokers and move replicas to them; they get new ids, and leave at the end",
    aim=Aim.PARTITIONS,
    makes=_add,
    bite=_bitten,
    back=_healed,
    parameters=BrokersAdded,
    needs=frozenset({Capability.FURTHER_NODES, Capability.SIGNALS}),
)
