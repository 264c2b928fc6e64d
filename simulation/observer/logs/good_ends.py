"""**GoodEndIsTrue**: that a broker's last end was orderly is said where it was, and once.

Whoever finds the marker at a start looks at no log ("CleanShutdownFile", ``LogManager``): what the
end tore would be served. So a life that lost its power, was killed or whose disk failed must leave
none, and of the one that a life has found a power failure must bring nothing back.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.log.disk.checkpoints import CLEAN_SHUTDOWN
from broker.log.manager import LogManager
from simulation.loop.ownership import Process
from simulation.machines.disk import MemoryDisk
from simulation.machines.node import Node
from simulation.violation import Violation


@dataclass(frozen=True, slots=True)
class _Opened:
    incarnation: int
    disk_failures: int


class GoodEnds:
    """Which lives have opened their brokers' logs, and whether they have ended in good order.

    Args:
        nodes: By host.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._last: dict[str, _Opened] = {}

    def opened(self, process: Process, logs: LogManager) -> None:
        """A new life has opened its logs. Raises Violation."""
        node = self._nodes[process.host]
        if not isinstance(node.disk, MemoryDisk):
            return
        if logs.clean and not self._ended_well(node):
            raise Violation(
                "GoodEndIsTrue",
                f"broker {node.id} finds that its last end was orderly, and it was none",
            )
        self._last[node.host] = _Opened(process.incarnation, node.disk.failures)
        for directory in node.config.log_dirs:
            if node.disk.may_return(directory / CLEAN_SHUTDOWN):
                raise Violation(
                    "GoodEndIsTrue",
                    f"broker {node.id} begins, and after a power failure {directory.name} may "
                    "still say that the end before was orderly",
                )

    def _ended_well(self, node: Node) -> bool:
        """Whether the last life that had opened the logs was asked to end, did, and had a disk that
        kept everything: else that is no good end, whatever the broker makes of it. Lives since that
        came to nothing have left the logs as they were."""
        last = self._last.get(node.host)
        return last is None or any(
            ending.was_asked and ending.error is None and ending.disk_failures == last.disk_failures
            for ending in node.endings
            if ending.incarnation == last.incarnation
        )
