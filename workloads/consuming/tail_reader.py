"""The tail reader of one cell: ``python -m ackproof.workloads.consuming.tail_reader SPEC.json``.

It reads all partitions from offset 0, where the log of a topic that was made for the run begins, as
they grow. It assigns itself to them, once: no coordinator is asked, and nothing is committed.

It goes on through every error that is not fatal. A position that the log no longer has is no fatal
error, and the reader does not hide it (``auto.offset.reset=error``). It is recorded, and reading
goes on at the nearest position that there is.

What was shown before is then not what the log holds, or not all of it. What was appended below that
position meanwhile is not shown.

SIGTERM stops it: it reads to the high watermarks of that moment, then ends.
"""

import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from ackproof.workloads.configuration import reader_properties
from ackproof.workloads.consuming.consumption import ConsumptionRecorder
from ackproof.workloads.consuming.polling import (
    ASK_S,
    BATCH_OF_ARRAYS,
    WAIT_SECONDS,
    CatchUp,
    Keep,
    Poller,
    Positions,
    recording,
)
from ackproof.workloads.librdkafka.client import BatchConsumer
from ackproof.workloads.process import main
from ackproof.workloads.spec import ConsumerSpec, load


class TailReader:
    """A reader that records until it is told to stop.

    The constructor raises SpecificationError for properties that librdkafka does not take.
    """

    def __init__(self, spec: ConsumerSpec, recorder: ConsumptionRecorder, keep: Keep) -> None:
        self._spec = spec
        self._recorder = recorder
        self._keep = keep
        self._positions = Positions()
        self._astray: set[int] = set()
        self._consumer = BatchConsumer(spec.topic, reader_properties(spec), BATCH_OF_ARRAYS)
        self._bounds = partial(self._consumer.bounds, seconds=ASK_S)
        consume = partial(self._consumer.consume, WAIT_SECONDS)
        self._poller = Poller(consume, recorder, self._positions)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Read until ``stopping``, then to the end; raise ClientFailed after a fatal error."""
        starts = dict.fromkeys(range(self._spec.partitions), 0)
        for partition, offset in starts.items():
            self._go_on(partition, offset)
        self._recorder.assigned(starts)
        with closing(self._consumer):
            while not stopping():
                self._turn()
            catch_up = CatchUp(self._bounds, self._positions)
            while not catch_up.done():
                self._turn()

    def _turn(self) -> None:
        self._astray.update(self._poller.poll())
        for partition in sorted(self._astray):
            bounds = self._bounds(partition)
            if bounds is not None:
                self._astray.remove(partition)
                self._resume(partition, *bounds)
        self._keep()

    def _resume(self, partition: int, low: int, high: int) -> None:
        due = self._positions.reached(partition) or 0
        nearest = min(max(due, low), high)
        self._recorder.out_of_range(partition, nearest)
        # librdkafka does not seek in a partition that it no longer fetches.
        self._consumer.unassign(partition)
        self._go_on(partition, nearest)

    def _go_on(self, partition: int, offset: int) -> None:
        self._positions.begin(partition, offset)
        self._consumer.assign(partition, offset)


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Read as the specification file says, until ``stopping``."""
    spec = load(ConsumerSpec, specification)
    with recording(spec) as (recorder, keep):
        TailReader(spec, recorder, keep).run(stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
