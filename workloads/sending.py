"""What all producers have in common: keys and values of their records, and where they record."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from history.payload import Encoder
from history.writer import PartitionedWriter
from workloads.progress import Progress
from workloads.recorder import SendRecorder
from workloads.spec import ProducerSpec, SpecificationError

Keep = Callable[[float], None]
"""To be called several times a second, with the time of a clock that only goes forward, in seconds:
flushes the history and tells how far it is."""
Integers = NDArray[np.int64]


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
    partitioner, and a partition's keys take turns. They stay in memory as long as this does.

    Raises SpecificationError for fewer keys than partitions.
    """

    def __init__(self, keys: int, partitions: int) -> None:
        if keys < partitions:
            raise SpecificationError(f"{keys} keys are too few for {partitions} partitions")
        self._partitions = partitions
        self._many = keys
        self._block = np.array([b"key-%d" % number for number in range(keys)])
        self._sizes = np.char.str_len(self._block).astype(np.int64)

    def of(self, partitions: Integers, sequences: Integers) -> tuple[Integers, Integers]:
        """The keys of records, by their partitions and sequence numbers: addresses and sizes."""
        among = self._partitions
        mine = (self._many - 1 - partitions) // among + 1
        numbers = partitions + among * (sequences // among % mine)
        addresses = self._block.ctypes.data + numbers * self._block.itemsize
        return addresses, self._sizes[numbers]


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
