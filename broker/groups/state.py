"""The states of a group, and the allowed transitions."""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a group, named as in Kafka and as clients see it."""

    EMPTY = "Empty"
    """There are no members, but perhaps offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join, and those that have joined wait for the others."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun, and its members wait for the leader's assignments."""

    STABLE = "Stable"
    """Every member can have its assignment."""

    DEAD = "Dead"
    """The group's end is being stored, or is stored; the group is being forgotten."""


BEFORE: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset({GroupState.EMPTY}),
}
"""The states from which each state can be reached."""
