"""**GoodEndIsTrue**: that a broker's last end was orderly is said where it was, and once.

Whoever finds the marker at a start looks at no log ("CleanShutdownFile", ``LogManager``): what the
end tore would be served. So a life that lost its power, was killed or whose disk failed must leave
none, and of the one that a life has found a power failure must bring nothing back. And where it is
left the checkpoints must be on disk, and say what the replicas knew: the next start believes them.
"""

from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ackproof.broker.log.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    offsets_in,
)
from ackproof.broker.log.manager import LogManager
from ackproof.broker.server.replication.partition import Partition as Hosted
from ackproof.broker.types import TopicPartition
from simulation.loop.ownership import Process
from simulation.machines.disk import MemoryDisk
from simulation.machines.node import Node
from simulation.violation import Violation


@dataclass(frozen=True, slots=True)
class _Life:
    """At some moment of it."""

    incarnation: int
    disk_failures: int


class GoodEnds:
    """Which lives have opened their brokers' logs, and whether they have ended in good order.

    Args:
        nodes: By host.
        hosted: A broker's replica of a partition, if it has one.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        hosted: Callable[[int, TopicPartition], Hosted | None],
    ) -> None:
        self._nodes = nodes
        self._hosted = hosted
        self._last: dict[str, _Life] = {}
        self._closed: dict[str, _Life] = {}

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
        self._last[node.host] = self._life(process)
        for directory in node.config.log_dirs:
            if node.disk.may_return(directory / CLEAN_SHUTDOWN):
                raise Violation(
                    "GoodEndIsTrue",
                    f"broker {node.id} begins, and after a power failure {directory.name} may "
                    "still say that the end before was orderly",
                )

    def closed(self, process: Process, logs: LogManager | None, directory: Path) -> None:
        """A life has closed its logs, and says so in this log directory. Raises Violation."""
        self._closed[process.host] = self._life(process)
        disk = self._nodes[process.host].disk
        if logs is None or not isinstance(disk, MemoryDisk):
            return
        for tp, log in logs.logs.items():
            known = self._hosted(self._nodes[process.host].id, tp)
            watermark = logs.high_watermark(tp)
            if known is not None and known.log is log:
                watermark = known.replica.high_watermark
            for name, offset in (
                (RECOVERY_POINTS, log.log_end_offset),
                (LOG_STARTS, log.log_start_offset),
                (HIGH_WATERMARKS, watermark),
            ):
                path = directory / name
                noted = offsets_in(disk.certain(path), path) if disk.must_stay(path) else {}
                if log.directory.parent == directory and noted.get(tp) != offset:
                    raise Violation(
                        "GoodEndIsTrue",
                        f"{process.host} says that its end is orderly; {name} has "
                        f"{noted.get(tp)} of {tp}, and not {offset}",
                    )

    def marked(self, process: Process, logs: LogManager | None, directory: Path) -> None:
        """It has said so. If the next life was given another log directory before this one, empty,
        as of a disk that has been replaced, it would not believe that nothing is missing. Raises
        Violation."""
        disk = self._nodes[process.host].disk
        if logs is None or not isinstance(disk, MemoryDisk):
            return
        directories = directory.with_name("another"), directory
        twin = disk.twin(directory, Random(0))
        found = Context().run(LogManager, directories, logs._config_of, files=twin)
        if found.clean:
            what = "if one of two log directories was new, the next start would take the end for"
            raise Violation("GoodEndIsTrue", f"{process.host}: {what} orderly in both")
        Context().run(found.close, clean=False)

    def _ended_well(self, node: Node) -> bool:
        """Whether the last life that had opened the logs closed them with a disk that had kept
        everything, and then ended as it was asked to, or was killed before it was through: else
        that is no good end, whatever the broker makes of it. Lives since that came to nothing have
        left the logs as they were."""
        last = self._last.get(node.host)
        return last is None or (
            self._closed.get(node.host) == last
            and all(
                ending.was_asked and ending.error is None
                for ending in node.endings
                if ending.incarnation == last.incarnation
            )
        )

    def _life(self, process: Process) -> _Life:
        return _Life(process.incarnation, self._nodes[process.host].disk.failures)
