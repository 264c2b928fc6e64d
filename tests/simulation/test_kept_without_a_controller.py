"""NothingIsKept, where there is no controller: what a broker remembers of work that has ended."""

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.server.coordination.commands import Commands
from ackproof.broker.server.coordination.led_topics import LedTopics
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.verdict import kept

pytestmark = pytest.mark.simulation


def test_nothing_is_remembered_of_work_that_has_ended() -> None:
    nobody: Any = None
    commands, outbox = Commands(nobody, nobody), Outbox()
    topics = LedTopics(BrokerId(1), nobody, commands, nobody, nobody)
    coordinator: Any = SimpleNamespace(
        topics=topics, _core=SimpleNamespace(_context=SimpleNamespace(outbox=outbox))
    )
    assert list(kept._without_a_controller(coordinator)) == []
    topics._deleting.add("gone")
    topics._creating.add("made")
    outbox.read(TopicPartition("t", 0), lambda _: None)
    with commands._listening():
        assert list(kept._without_a_controller(coordinator)) == [
            "topics ['gone', 'made'] count as being made or deleted",
            "1 commands are under way",
            "1 answers of ZooKeeper are waited for",
        ]
