"""What is left of topics that are no more is found, and nothing else."""

from types import SimpleNamespace

import pytest
from group_world import TP, World
from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from simulation.observer.loading.outliving import Outliving
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


def coordinator(world, *names):
    """One that has heard of these topics, and no others."""
    metadata = SimpleNamespace(names=names, is_fresh=lambda _topics: True)
    shard = SimpleNamespace(groups=world.groups)
    return SimpleNamespace(_metadata=metadata, shards=lambda: [shard])


@pytest.fixture
def world():
    made = World()
    made.commit(1)
    made.commit(2, tp=TopicPartition("u", 0))
    return made


def test_offsets_that_stay_behind_their_topic_are_found(world):
    seen = Outliving()
    seen.ticked(coordinator(world, "t", "u"), 100)
    seen.ticked(coordinator(world, "u"), 200)
    with pytest.raises(Violation, match="OffsetsGoWithTopics"):
        seen.ticked(coordinator(world, "u"), 300)


def test_offsets_that_go_or_are_about_to_are_not(world):
    seen = Outliving()
    world.auto = False
    world.partitions_deleted(TP)
    for now in (100, 200, 300):
        seen.ticked(coordinator(world, "u"), now)
    world.store()
    for now in (400, 500):
        seen.ticked(coordinator(world, "u"), now)


def test_those_whose_deletion_failed_are_not(world):
    seen = Outliving()
    world.auto = False
    world.partitions_deleted(TP)
    world.store(ErrorCode.request_timed_out)
    seen.failed(world.groups)
    for now in (100, 200, 300):
        seen.ticked(coordinator(world, "u"), now)
