"""The position of a consumer after a poll: the same as after single records."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.history.reader import read
from ackproof.workloads.consuming.consumption import ConsumptionRecorder, ConsumptionTables
from ackproof.workloads.consuming.polling import Poller, Positions
from ackproof.workloads.polled import polled
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.spec import ConsumerSpec
from tests.support.builders.examples import examples


def error(code: int, partition: int = 0, offset: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(code))


def record(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, leader_epoch=1, value=b"")


def end(partition: int, offset: int) -> Message:
    return error(KafkaError._PARTITION_EOF, partition, offset)


@contextmanager
def poller(directory: Path, polls: list[list[Message]]) -> Iterator[tuple[Poller, Positions]]:
    spec = ConsumerSpec(
        client="reader-t-0",
        topic="t",
        partitions=2,
        bootstrap_servers="b:1",
        history=directory,
        progress=directory / "progress.json",
    )
    tables, positions = ConsumptionTables(spec), Positions()
    for partition in range(2):
        positions.begin(partition, 0)
    recorder = ConsumptionRecorder(spec, tables, count(100).__next__)
    returned = map(polled, polls, count(100))
    yield Poller(lambda: next(returned), recorder, positions), positions
    tables.close()


SHOWN = st.tuples(st.sampled_from([record, end]), st.integers(0, 1), st.integers(0, 9))


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(SHOWN, max_size=8))
def test_a_poll_leaves_a_consumer_where_its_messages_would_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, shown: list[tuple]
) -> None:
    messages = [make(partition, offset) for make, partition, offset in shown]
    ways: list[tuple] = []
    for polls in ([messages], [[message] for message in messages]):
        directory = tmp_path_factory.mktemp("polls")
        with poller(directory, polls) as (one, positions):
            for _ in polls:
                assert one.poll() == []
            where = [positions.reached(partition) for partition in range(2)]
            ways.append((where, positions.uncommitted()))
        rows = read(directory, "polls", ["partition", "offset"]).to_pylist()
        assert len(rows) == sum(make is record for make, *_ in shown)
    assert ways[0] == ways[1]


def test_an_end_behind_a_hole_is_where_it_says(tmp_path: Path) -> None:
    """Or who waits for the high watermark would wait for records that there are not."""
    with poller(tmp_path, [[record(0, 5), end(0, 8)]]) as (one, positions):
        one.poll()
        assert (positions.reached(0), positions.uncommitted()) == (8, {0: 6})


def test_records_beside_an_error_are_recorded(tmp_path: Path) -> None:
    fatal = [record(0, 1), error(KafkaError._FATAL), record(1, 3)]
    astray = [error(KafkaError._AUTO_OFFSET_RESET, 1), record(0, 0)]
    with poller(tmp_path, [astray, fatal]) as (one, positions):
        assert one.poll() == [1]
        with pytest.raises(ClientFailed, match="for good"):
            one.poll()
        assert positions.uncommitted() == {0: 2, 1: 4}
    assert len(read(tmp_path, "polls", ["offset"])) == 3
