"""Opening the segments of a partition's directory, after a good end or a bad one."""

import logging
from collections.abc import Callable, Sequence
from itertools import zip_longest

from ackproof.broker.log.disk.files import TEMPORARY_SUFFIX, Directory
from ackproof.broker.log.index import CorruptIndex
from ackproof.broker.log.segment import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch

logger = logging.getLogger(__name__)

REACH = 2**30
"""Offsets; a segment spans twice as many, and a batch has fewer."""


def load_segments(
    directory: Directory,
    index_interval_bytes: int,
    recover_from: int | None,
    walking_from: Callable[[int], None],
    noticed: Callable[[RecordBatch], None],
) -> list[Segment]:
    """The segments of ``directory`` in order.

    After a bad end none is kept behind a hole, which is where a segment does not begin where the
    one before it ends: before a segment was flushed the next may be on disk, and it not.

    Args:
        recover_from: segments that reach above this offset are walked and cut at the first batch
            that is not intact; None after a good end, when indexes that fit are believed.
        walking_from: called with the offset where the walk begins, if there is one. What is known
            of this offset and above is had from the batches, and from nothing else: an epoch that
            was cut off since would not fit what took its place.
        noticed: called with every batch above ``recover_from`` and those before it in its segment.
    """
    _remove_leftovers(directory)
    if recover_from is not None:
        # What is seen to be gone must stay so. A cut to 10 took the producers' snapshot of 20 away,
        # and the broker was killed before it had synced that: once the log has grown past 20, a
        # power failure would bring the snapshot back, and of other records it would be believed.
        directory.sync()
    bases = sorted(map(int, directory.stems(LOG_SUFFIX)))
    segments: list[Segment] = []
    walking = False
    try:
        for base_offset, next_base in zip_longest(bases, bases[1:]):
            if recover_from is not None and segments and _hole(segments[-1], base_offset):
                _drop(directory, [base for base in bases if base >= base_offset])
                break
            segment = Segment(directory, base_offset, index_interval_bytes)
            segments.append(segment)
            reaches_above = next_base is None or next_base > (recover_from or 0)
            recover = recover_from is not None and reaches_above
            if recover and not walking:
                walking = True
                walking_from(base_offset)
            if _cut(segment, recover, noticed, is_last=next_base is None):
                _drop(directory, [base for base in bases if base > base_offset])
                break
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def _hole(segment: Segment, next_base: int) -> bool:
    """Whether something is missing behind ``segment``; what no index reaches across never was."""
    return segment.next_offset != next_base and next_base - segment.next_offset < REACH


def _cut(
    segment: Segment, recover: bool, noticed: Callable[[RecordBatch], None], *, is_last: bool
) -> bool:
    """Loads or recovers the segment; says whether something had to be cut off."""
    if not recover:
        try:
            segment.load(is_last=is_last)
            return False
        except (CorruptIndex, CorruptBatch) as error:
            logger.warning("%s: recovering: %s", segment.path, error)
    return segment.recover(noticed if recover else _ignore) > 0


def _ignore(_batch: RecordBatch) -> None:
    """A segment whose indexes alone are damaged tells nothing new of the segments behind it."""


def _drop(directory: Directory, bases: Sequence[int]) -> None:
    """Behind a cut nothing is kept: it would leave a hole in the log."""
    for base_offset in reversed(bases):
        logger.warning("%s: dropping segment %d behind a cut", directory.path, base_offset)
        Segment(directory, base_offset, index_interval_bytes=0).delete()


def _remove_leftovers(directory: Directory) -> None:
    """A crash between the removals of a segment's files leaves indexes without a log; one before a
    file takes another's place, a temporary one."""
    for stem in directory.stems(TEMPORARY_SUFFIX):
        directory.remove(stem + TEMPORARY_SUFFIX)
    logs = directory.stems(LOG_SUFFIX)
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for stem in directory.stems(suffix):
            if stem not in logs:
                directory.remove(stem + suffix)
