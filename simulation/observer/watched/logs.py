"""What is written to logs and checkpoints, and when they are opened."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from ackproof.broker.log import manager
from ackproof.broker.log.disk.checkpoints import RECOVERY_POINTS, mark_clean_shutdown, offsets_in
from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.epochs import LeaderEpochCache
from ackproof.broker.log.flushing import Flushing
from ackproof.broker.log.idempotence.producer_snapshots import Snapshots
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.epochs import Epochs
from ackproof.broker.types import TopicPartition
from simulation.loop.ownership import Process
from simulation.machines.disk import MemoryDisk
from simulation.machines.node import Node
from simulation.observer.logs import (
    begun_anew,
    epochs,
    flushed,
    producers,
    retention,
    taken,
)
from simulation.observer.logs.good_ends import GoodEnds
from simulation.observer.logs.unflushed import Unflushed
from simulation.observer.observer import Observer
from simulation.observer.twins import reopened
from simulation.observer.watched.wrapping import living, replace

Opened = WeakKeyDictionary[Process, LogManager]
"""The logs of each life of a broker."""


def _memory_disk(hosts: Mapping[str, Node]) -> MemoryDisk | None:
    """Of whose step this is; others cannot say what they are sure to keep."""
    disk = None if (process := living()) is None else hosts[process.host].disk
    return disk if isinstance(disk, MemoryDisk) else None


def _logs(opened: Opened) -> LogManager | None:
    """Of whose step this is."""
    return None if (process := living()) is None else opened.get(process)


def checkpoints(
    undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node], opened: Opened
) -> None:
    original = Directory.replace_steps

    def replace_steps(self: Directory, name: str, content: bytes) -> Any:
        disk, logs = _memory_disk(hosts), _logs(opened)
        if name == RECOVERY_POINTS and disk is not None:
            with observer.failing():
                noted = offsets_in(content, self.path / name)
                flushed.check(disk, self.path, noted)
                for tp, offset in noted.items():
                    log = None if logs is None else logs.get(tp)
                    if log is not None:
                        flushed.known(log, offset)
                        epochs.noted(disk, log, offset)
        return original(self, name, content)

    replace(undo, Directory, "replace_steps", replace_steps)


def snapshots(
    undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node], opened: Opened
) -> None:
    original, write = Snapshots.remove, Snapshots.write_steps

    def write_steps(self: Snapshots, offset: int, content: bytes) -> Any:
        logs = _logs(opened)
        for tp, log in logs.logs.items() if logs is not None else ():
            partition = observer.find(tp) if log.directory == self._directory.path else None
            if partition is not None and partition.checks_data:
                with observer.failing():
                    producers.written(log, offset, content)
        return write(self, offset, content)

    def remove(self: Snapshots, unwanted: Callable[[int], bool]) -> None:
        before, directory = self.offsets, self._directory.path
        original(self, unwanted)
        if (disk := _memory_disk(hosts)) is not None:
            with observer.failing():
                producers.removed(disk, directory, set(before).difference(self.offsets))

    replace(undo, Snapshots, "remove", remove)
    replace(undo, Snapshots, "write_steps", write_steps)


def epochs_written(
    undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node]
) -> None:
    original = LeaderEpochCache.write_steps
    begun: WeakKeyDictionary[LeaderEpochCache, Epochs] = WeakKeyDictionary()
    under_way: WeakKeyDictionary[LeaderEpochCache, int] = WeakKeyDictionary()

    def write_steps(self: LeaderEpochCache) -> Any:
        begun[self] = self.history
        under_way[self] = under_way.get(self, 0) + 1
        try:
            yield from original(self)
        finally:
            under_way[self] -= 1
        if not under_way[self] and (disk := _memory_disk(hosts)) is not None:
            with observer.failing():
                epochs.written(disk, self._directory.path, begun[self])

    replace(undo, LeaderEpochCache, "write_steps", write_steps)


def beginnings(undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node]) -> None:
    original, create, doom = PartitionLog.truncate_fully, LogManager.create, LogManager._doom

    def created(self: LogManager, tp: TopicPartition) -> PartitionLog:
        is_new = self.get(tp) is None
        log = create(self, tp)
        if is_new and (disk := _memory_disk(hosts)) is not None:
            with observer.failing():
                begun_anew.made(disk, log.directory.parent, tp)
                begun_anew.begins(self, log, tp)
        return log

    def doomed(self: LogManager, tp: TopicPartition) -> Path:
        path = doom(self, tp)
        with observer.failing():
            begun_anew.gone(self, tp)
        return path

    def truncate_fully(self: PartitionLog, offset: int) -> None:
        original(self, offset)
        if (disk := _memory_disk(hosts)) is not None:
            with observer.failing():
                begun_anew.check(disk, self)

    replace(undo, PartitionLog, "truncate_fully", truncate_fully)
    replace(undo, LogManager, "create", created)
    replace(undo, LogManager, "_doom", doomed)


def flushes(undo: contextlib.ExitStack, observer: Observer) -> None:
    unflushed, append, look = Unflushed(), PartitionLog.append, LogManager.flush_if_due

    def appended(self: PartitionLog, batches: Any, base: int, epoch: Any, now_ms: int) -> None:
        begin = self.log_end_offset
        append(self, batches, base, epoch, now_ms)
        with observer.failing():
            taken.check(self, batches)
            unflushed.appended(self, begin, now_ms)

    def looked(self: LogManager, now_ms: int) -> None:
        look(self, now_ms)
        with observer.failing():
            for log in self.logs.values():
                unflushed.looked(log, now_ms)

    replace(undo, PartitionLog, "append", appended)
    replace(undo, LogManager, "flush_if_due", looked)
    replace(undo, Flushing, "steps", unflushed.counted(Flushing.steps))


def reopenings(
    undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node], opened: Opened
) -> None:
    append, cut = PartitionLog.append, PartitionLog.truncate_to
    retain, random = PartitionLog.delete_old_segments, Random(0)

    def look(log: PartitionLog) -> None:
        _reopened(observer, hosts, opened, log, random)

    def appended(self: PartitionLog, *args: Any) -> None:
        before = len(self.segment_base_offsets)
        append(self, *args)
        if len(self.segment_base_offsets) != before:
            look(self)

    def truncated(self: PartitionLog, offset: int) -> None:
        before = self.log_end_offset
        cut(self, offset)
        if self.log_end_offset != before:
            look(self)

    def retained(self: PartitionLog, high_watermark: int, now_ms: int) -> None:
        before = self.segment_base_offsets
        with observer.failing():
            retention.of_nothing(self, high_watermark)
        retain(self, high_watermark, now_ms)
        if self.segment_base_offsets != before:
            look(self)

    replace(undo, PartitionLog, "append", appended)
    replace(undo, PartitionLog, "truncate_to", truncated)
    replace(undo, PartitionLog, "delete_old_segments", retained)


def _reopened(
    observer: Observer,
    hosts: Mapping[str, Node],
    opened: Opened,
    log: PartitionLog,
    random: Random,
) -> None:
    process, disk, logs = living(), _memory_disk(hosts), _logs(opened)
    if process is None or disk is None or logs is None:
        return
    for tp in [tp for tp, each in logs.logs.items() if each is log]:
        partition = observer.find(tp)
        if partition is not None and partition.checks_data:
            with observer.failing():
                reopened.check(tp, hosts[process.host].id, disk, log, random)


def openings(
    undo: contextlib.ExitStack, observer: Observer, hosts: Mapping[str, Node], opened_by: Opened
) -> None:
    original, ends = LogManager.__init__, GoodEnds(hosts, observer.hosted)

    def opened(self: LogManager, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if (process := living()) is not None:
            with observer.failing():
                ends.opened(process, self)
                if (disk := _memory_disk(hosts)) is not None:
                    for log in self.logs.values():
                        producers.opened(disk, log.directory)
            opened_by[process] = self

    def marked(directory: Directory) -> None:
        if (process := living()) is not None:
            with observer.failing():
                ends.closed(process, opened_by.get(process), directory.path)
        mark_clean_shutdown(directory)
        if (process := living()) is not None:
            with observer.failing():
                ends.marked(process, opened_by.get(process), directory.path)

    replace(undo, LogManager, "__init__", opened)
    replace(undo, manager, "mark_clean_shutdown", marked)
