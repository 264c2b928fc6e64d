"""What all producers have in common: values of their records, and where they record."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ackproof.history.payload import Encoder
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.progress import Progress
from ackproof.workloads.spec import ProducerSpec, SpecificationError

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
