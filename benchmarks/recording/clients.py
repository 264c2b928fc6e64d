"""The compared clients, each in a process of its own: ``python -m benchmarks.recording.clients
CLIENT SPEC.json RECORDS``. The result is printed as JSON.

``producer`` and ``reader`` are those of campaigns at full speed, with everything that they record.
The bare clients have the same properties of the same library, as many records in flight, and one
callback that counts. ``using-reader`` also takes the contents of the records, as any program that
needs them must. Time is measured until the last record is acknowledged or read. Closing a history
is not included, because it happens once at the end.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from ackproof.workloads.configuration import producer_properties, reader_properties
from ackproof.workloads.consuming import polling
from ackproof.workloads.consuming.tail_reader import TailReader
from ackproof.workloads.process import ready_for_full_speed
from ackproof.workloads.producing.pacing import FLAT_OUT_RECORDS, TURNS_MAX
from ackproof.workloads.producing.producer import CellProducer
from ackproof.workloads.producing.recorder import recording
from ackproof.workloads.spec import ConsumerSpec, ProducerSpec, load

DEADLINE_S = 120.0


class NotMeasured(Exception):
    """A client that got an error, or did not finish in time."""


class Stopwatch:
    """A stopwatch that runs until all records are done. Raises NotMeasured past the deadline."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._began = time.perf_counter(), time.process_time()
        self.figures: Mapping[str, float] = {}

    def done(self, records: int) -> bool:
        """Return whether so many records are all of them. The first time that they are is the
        measured time."""
        took_s, cpu_s = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        if records >= self._records and not self.figures:
            self.figures = {"seconds": took_s, "cpu_s": cpu_s}
        if took_s > DEADLINE_S:
            raise NotMeasured(f"{records} of {self._records} records after {took_s:.0f} s")
        return bool(self.figures)


def producer(specification: Path, records: int) -> Mapping[str, float]:
    """Run a campaign's producer."""
    ready_for_full_speed()
    spec = load(ProducerSpec, specification)
    with recording(spec) as (recorders, keep):
        client = CellProducer(spec, recorders)
        watch = Stopwatch(records)
        client.run(lambda: watch.done(recorders[0].figures()["acked"]), keep)
    client.close()
    return watch.figures


def bare_producer(specification: Path, records: int) -> Mapping[str, float]:
    """Send the same number of records of the same size, all with the same value."""
    spec = load(ProducerSpec, specification)
    client = Producer(producer_properties(spec))
    value, sent, acked = bytes(spec.record_bytes), 0, 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acked
        if error is not None:
            raise NotMeasured(error.str())
        acked += 1

    watch = Stopwatch(records)
    while not watch.done(acked):
        for _ in range(min(TURNS_MAX, records - sent, FLAT_OUT_RECORDS - (sent - acked))):
            client.produce(spec.topic, value, None, sent % spec.partitions, on_delivery=delivered)
            sent += 1
        is_full = sent == records or sent - acked >= FLAT_OUT_RECORDS
        client.poll(0.1 if is_full else 0)
    return watch.figures


def reader(specification: Path, records: int) -> Mapping[str, float]:
    """Run a campaign's consumer."""
    ready_for_full_speed()
    spec = load(ConsumerSpec, specification)
    with polling.recording(spec) as (recorder, keep):
        client = TailReader(spec, recorder, keep)
        watch = Stopwatch(records)
        client.run(lambda: watch.done(recorder.figures()["shown"]))
    return watch.figures


def bare_reader(specification: Path, records: int) -> Mapping[str, float]:
    """Read all records and only check for errors."""
    return _read(specification, records, lambda message: message.error() is None)


def using_reader(specification: Path, records: int) -> Mapping[str, float]:
    """Read all records, and take the identity, the position, the key and the value of each."""

    def shown(message: Message) -> bool:
        taken = message.partition(), message.offset(), message.key(), message.value()
        return message.error() is None and taken[-1] is not None

    return _read(specification, records, shown)


def _read(
    specification: Path, records: int, counts: Callable[[Message], bool]
) -> Mapping[str, float]:
    spec = load(ConsumerSpec, specification)
    shown = 0
    with _consumer(spec) as client:
        watch = Stopwatch(records)
        client.assign([TopicPartition(spec.topic, p, 0) for p in range(spec.partitions)])
        while not watch.done(shown):
            for message in client.consume(polling.BATCH, polling.WAIT_SECONDS):
                shown += counts(message)
    return watch.figures


@contextmanager
def _consumer(spec: ConsumerSpec) -> Iterator[Consumer]:
    client = Consumer(reader_properties(spec))
    try:
        yield client
    finally:
        client.close()


CLIENTS: Mapping[str, Callable[[Path, int], Mapping[str, float]]] = {
    "producer": producer,
    "bare-producer": bare_producer,
    "reader": reader,
    "bare-reader": bare_reader,
    "using-reader": using_reader,
}

if __name__ == "__main__":
    name, path, count = sys.argv[1:]
    sys.stdout.write(json.dumps(CLIENTS[name](Path(path), int(count))) + "\n")
