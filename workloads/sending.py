"""What all producers have in common: keys and values of their records, and where they record."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat

from history.payload import Encoder
from history.writer import PartitionedWriter
from workloads.progress import Progress
from workloads.recorder import SendRecorder
from workloads.spec import ProducerSpec, SpecificationError

Keep = Callable[[float], None]
"""To be called several times a second, with the time of a clock that only goes forward, in seconds:
flushes the history and tells how far it is."""


def encoder(spec: ProducerSpec, number: int | None = None) -> Encoder:
    """Makes the values of its records. ``number``: of its session, where that is not its first.
    Raises SpecificationError when these are too small."""
    producer = spec.producer if number is None else number
    try:
        return Encoder(spec.cell, producer, spec.record_bytes, spec.record_bytes_max)
    except ValueError as error:
        raise SpecificationError(str(error)) from None


class Keys:
    """The keys of a producer's records. Each key belongs to one partition, as it would by a
    partitioner, and a partition's keys take turns."""

    def __init__(self, keys: int, partitions: int) -> None:
        if keys < partitions:
            raise SpecificationError(f"{keys} keys are too few for {partitions} partitions")
        self._of = [
            [b"key-%d" % number for number in range(partition, keys, partitions)]
            for partition in range(partitions)
        ]

    def key(self, partition: int, sequence: int) -> bytes:
        """The key of that record."""
        mine = self._of[partition]
        return mine[sequence // len(self._of) % len(mine)]


def keys(
    spec: ProducerSpec,
) -> Callable[[Iterable[int], Iterable[int]], Iterator[bytes | None]]:
    """What gives the keys of records, by their partitions and sequence numbers: None, without end,
    for records without keys. Raises SpecificationError for too few."""
    if spec.keys is None:
        return lambda _partitions, _sequences: repeat(None)
    return partial(map, Keys(spec.keys, spec.partitions).key)


@contextmanager
def recording(spec: ProducerSpec) -> Iterator[tuple[SendRecorder, Keep]]:
    """The recorder of its sends, whose history is closed in the end."""
    history = PartitionedWriter(spec.history, "sends", spec.client)
    recorder = SendRecorder(spec, history, time.time_ns)
    progress = Progress(spec.progress)

    def tell() -> None:
        progress.write({**recorder.figures(), "fatal": recorder.fatal})

    def keep(now: float) -> None:
        history.flush_due(now)
        if progress.due(now):
            tell()

    try:
        yield recorder, keep
    finally:
        history.close()
        tell()
