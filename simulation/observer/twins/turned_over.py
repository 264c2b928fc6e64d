"""**IndexesAreHints**: a log of whose indexes a bit is turned over is read, and cut, as it was.

Whoever opens a log looks at the last entry of an index and at the order of all. Another one that
is in its order, and no batch's, is met by reads alone: by its position they end within a batch, and
a follower is sent a torn one for ever; by its offset they show what is above the high watermark; by
its time others are the first of their time. By a cut it becomes the last one. No plan turns bits
over: a log that was cut, or opened after a bad end, has its indexes built anew. So a twin of each
log has one that is damaged.
"""

from collections.abc import Callable, Iterator
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from ackproof.broker.log.index import CorruptIndex
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, parse_batches
from simulation.machines.disk import MemoryDisk
from simulation.observer.logs.on_disk import batches_of
from simulation.violation import Violation

SIZES_OF_ENTRIES: Final = {OFFSET_INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12}
FIELDS: Final = {OFFSET_INDEX_SUFFIX: (4, 8), TIME_INDEX_SUFFIX: (8,)}
"""Where the parts of an entry end, bytes; not the offset of a time, by which an entry may come to
tell the truth of another batch: nobody could know it from one that was written so."""
LOW_BITS: Final = 12
"""Of those bits of a part one is turned over: a higher one puts the entry out of its order."""
READ_BYTES: Final = (300, 2**31 - 1)

Opened = Callable[[MemoryDisk], PartitionLog]


class Bit(NamedTuple):
    """Of a file."""

    path: Path
    byte: int
    number: int


def check(
    tp: TopicPartition, disk: MemoryDisk, directory: Path, opened: Opened, random: Random
) -> None:
    """Of a log on a ``disk`` that nobody else uses, which is ``opened`` twice, as after a good end.
    ``random``: which bit. Raises Violation, and CorruptBatch where nothing is damaged."""
    if (bit := _drawn(disk, directory, random)) is None:
        return
    log = opened(disk)
    first, closed = log.log_start_offset, log.segment_base_offsets[-1]
    begin = [at for batch in batches_of(log) if first <= (at := batch.base_offset) <= closed]
    end = random.choice(begin or [closed])
    expected, expected_below = list(_told(log, first, closed)), list(_told(log, first, end))
    Context().run(log.close, flush=False)
    disk.turn_over(*bit)
    what = f"{tp}: bit {bit.number} of byte {bit.byte} of {bit.path.name}"
    damaged = opened(disk)
    try:
        found = list(_told(damaged, first, closed))
        Context().run(damaged.truncate_to, end)
        found_below = list(_told(damaged, first, end))
    except (CorruptBatch, CorruptIndex) as error:
        raise Violation("IndexesAreHints", f"{what}, cut to {end}: {error}") from error
    Context().run(damaged.close, flush=False)
    expected, found = [*expected, *expected_below], [*found, *found_below]
    for (asked, told), (_, is_told) in zip(expected, found, strict=True):
        if told != is_told:
            raise Violation("IndexesAreHints", f"{what}: {asked} tells {is_told!r}, not {told!r}")


def _drawn(disk: MemoryDisk, directory: Path, random: Random) -> Bit | None:
    """Of an entry that is not the last one of its segment, which is not the last one; None: there
    is none."""
    indexes = sorted(
        path for name in disk.names(directory) if (path := Path(name)).suffix in FIELDS
    )
    last = max((path.stem for path in indexes), default="")
    entries = [
        (directory / path, start)
        for path in indexes
        for size in [SIZES_OF_ENTRIES[path.suffix]]
        for start in range(0, len(disk.read(directory / path)) - size, size)
        if path.stem != last
    ]
    if not entries:
        return None
    path, start = random.choice(entries)
    behind, bit = start + random.choice(FIELDS[path.suffix]), random.randrange(LOW_BITS)
    return Bit(path, behind - 1 - bit // 8, bit % 8)


def _told(log: PartitionLog, first: int, end: int) -> Iterator[tuple[str, object]]:
    """What is read of closed segments, in pieces, below several bounds, and by time."""
    times = set()
    for offset in range(first, end):
        for bound in (end, (offset + end + 1) // 2):
            for size in READ_BYTES:
                data = bytes(log.read(offset, size, bound))
                yield f"read({offset}, {size}, {bound})", data
                times |= {batch.max_timestamp for batch in parse_batches(data)[:1]}
    for time in sorted(times):
        yield f"offset_for_timestamp({time})", log.offset_for_timestamp(time)
