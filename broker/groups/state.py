"""The states of a group, and which may follow which."""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """Named as in Kafka, and as clients are told."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join, and those who do wait for the others."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its members wait for what the leader assigns them."""

    STABLE = "Stable"
    """Every member can have its assignment."""

    DEAD = "Dead"
    """Its end is on its way to the log, or stored; the group is being forgotten."""


BEFORE: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}
"""From which states each state can be reached."""
