"""Few records, which are handled one by one, are recorded as many are."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.history.reader import read
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads import unresolved
from ackproof.workloads.librdkafka.messages import Reports
from ackproof.workloads.producing import pacing, producer, recorder
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.spec import ProducerSpec
from tests.support.builders.examples import examples

PARTITIONS = 3
CODES = (0, 0, KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS)
SENT = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.floats(0, 2)), max_size=5)
TOLD = st.lists(
    st.tuples(st.integers(0, 12), st.integers(-1, 9), st.sampled_from(CODES)), max_size=5
)


@pytest.mark.parametrize("acknowledged", [True, False])
@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.tuples(SENT, st.booleans(), TOLD), max_size=4))
def test_small_and_large_batches_are_recorded_alike(
    tmp_path_factory: pytest.TempPathFactory, acknowledged: bool, steps: list[tuple]
) -> None:
    ways = []
    for few in (-1, 100):
        directory = tmp_path_factory.mktemp("sends")
        with pytest.MonkeyPatch.context() as patched:
            for module in (recorder, producer, pacing, unresolved):
                patched.setattr(module, "FEW", few)
            ways.append(recorded(directory, acknowledged, steps))
    assert ways[0] == ways[1]


def recorded(directory: Path, acknowledged: bool, steps: list[tuple]) -> tuple:
    """The rows, and what is left open."""
    spec = ProducerSpec(
        cell="c",
        topic="t",
        partitions=PARTITIONS,
        acks="all",
        producer=4,
        rate=None,
        record_bytes=100,
        bootstrap_servers="b:1",
        history=directory,
        progress=directory / "progress",
    )
    writer = PartitionedWriter(directory, "sends", spec.client, [("t", p) for p in range(3)])
    made = SendRecorder(spec, writer, count(10**10).__next__)
    for number, (sent, has_schedule, told) in enumerate(steps):
        partitions = [partition for partition, _ in sent]
        made.invoke(partitions, [late for _, late in sent] if has_schedule else None)
        fields = [np.array([one[place] for one in told], np.int64) for place in range(3)]
        places = np.array([one[0] % PARTITIONS for one in told], np.int32)
        several = Reports(fields[0], fields[1], fields[2].astype(np.int32), places)
        producer.record_reports(several, made, acknowledged, number)
    left = made.waiting.tolist(), made.unresolved, dict(made.figures())
    writer.close()
    return [*read(directory, "sends").to_pylist()], left
