"""Power that fails in the middle of a step: right behind an operation on the disk.

Between a rename and the sync of its directory lie microseconds, and in virtual time nothing at all:
a power failure at some time never comes there. What is still to come of the step does not: the
process is dead, and whatever it asks for tells it so (:func:`simulation.machines.node.mortal`).
"""

from collections.abc import Callable, Iterable
from typing import Final

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NOBODY
from simulation.machines.node import Node
from simulation.plans.actions import LosePowerAfter

OPERATIONS: Final = {
    "write": ("open", "write"),
    "cut": ("truncate",),
    "names": ("rename", "remove", "remove_tree", "make_directory"),
    "sync": ("sync", "sync_directory"),
}
"""Kinds of operations, and how :class:`~broker.log.disk.file_system.FileSystem` names them."""


class MidStep:
    """The power failures of one world that wait for their operation."""

    def __init__(self, loop: SimulatedLoop, lose_power: Callable[[Node, float], None]) -> None:
        """``lose_power``: takes it from a machine, for so many ms."""
        self._loop = loop
        self._lose_power = lose_power

    def arm(self, node: Node, action: LosePowerAfter) -> None:
        """In the next ``for_ms``; in place of what the machine waited for until now."""
        left = action.nth

        def after(operation: str) -> None:
            nonlocal left
            left -= operation in OPERATIONS[action.operation]
            if not left:
                node.after_operation = None
                self._lose_power(node, action.down_ms)

        def is_over() -> None:
            if node.after_operation is after:
                node.after_operation = None

        node.after_operation = after
        self._loop.call_later(action.for_ms / 1000, is_over, context=NOBODY)

    def heal(self, nodes: Iterable[Node]) -> None:
        """The power stays, whatever they do."""
        for node in nodes:
            node.after_operation = None
