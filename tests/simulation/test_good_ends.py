"""GoodEndIsTrue: of a real broker on a simulated machine, and of ends that are none."""

from collections.abc import Callable

import pytest

from ackproof.broker.log import manager
from ackproof.broker.log.disk.checkpoints import CLEAN_SHUTDOWN
from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.manager import LogManager
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from simulation.mutations.swap import Mutation, Swap
from simulation.plans.actions import CreateTopic, Kill, Produce, Stop, Timed, Who
from simulation.plans.plan import Plan
from simulation.world.world import run

pytestmark = pytest.mark.simulation

ALONE = Who(broker=1)


def plan(*ends: Kill | Stop) -> Plan:
    """Of one broker, which ends and begins again every two seconds."""
    return Plan(
        seed=1,
        brokers=1,
        settings=(("zookeeper.session.timeout.ms", "2000"),),
        producers=(False,),
        topics=(CreateTopic(topic="t0", replicas=((1,),)),),
        actions=(
            Timed(at_ms=0, action=SENT),
            *(Timed(at_ms=2_000 * n, action=end) for n, end in enumerate(ends, 1)),
        ),
        run_ms=2_000 * len(ends) + 2_000,
    )


SENT = Produce(
    producer=0, topic="t0", partition=0, acks=-1, batches=3, records=1, pause_ms=0, in_flight=1
)
CLOSE = LogManager.close
STOP, KILL = Stop(who=ALONE, down_ms=200), Kill(who=ALONE, down_ms=200)


def left_there() -> Swap:
    """The marker is looked at, and not taken away."""

    def look(directory: Directory) -> bool:
        return CLEAN_SHUTDOWN in directory.files.names(directory.path)

    return Swap(manager, "take_clean_shutdown", look)


def taken_and_not_synced() -> Swap:
    """It is taken away, and a power failure may bring it back."""

    def take(directory: Directory) -> bool:
        there = CLEAN_SHUTDOWN in directory.files.names(directory.path)
        if there:
            directory.files.remove(directory.path / CLEAN_SHUTDOWN)
        return there

    return Swap(manager, "take_clean_shutdown", take)


def marked_too_early() -> Swap:
    """Before the checkpoints are written."""

    def close(self: LogManager, clean: bool = True) -> None:
        if clean:
            for directory in self._directories:
                manager.mark_clean_shutdown(directory)
        CLOSE(self, clean)

    return Swap(LogManager, "close", close)


def watermarks_forgotten() -> Swap:
    """Nobody writes them down."""
    return Swap(ReplicaManager, "checkpoint_high_watermarks", lambda _: None)


def the_last_one_counts() -> Swap:
    """Of log directories."""
    load = LogManager._load

    def loaded(self: LogManager, directory: Directory) -> None:
        self.clean = True
        load(self, directory)

    return Swap(LogManager, "_load", loaded)


@pytest.mark.parametrize("ends", [(STOP, STOP), (STOP, KILL, STOP), (KILL, KILL)])
def test_the_broker_says_what_was(ends: tuple[Kill | Stop, ...]) -> None:
    assert run(plan(*ends)).violation is None


@pytest.mark.parametrize(
    ("fault", "ends", "what"),
    [
        (left_there, (STOP, KILL), "and it was none"),
        (taken_and_not_synced, (STOP,), "may still say"),
        (marked_too_early, (STOP,), "has None of t0-0, and not 3"),
        (watermarks_forgotten, (STOP,), "has 0 of t0-0, and not 3"),
        (the_last_one_counts, (STOP,), "one of two log directories"),
    ],
)
def test_a_marker_that_is_not_taken_away_for_good_is_found(
    fault: Callable[[], Swap], ends: tuple[Kill | Stop, ...], what: str
) -> None:
    with Mutation(fault()).active():
        violation = run(plan(*ends)).violation
    assert violation is not None
    assert violation.invariant == "GoodEndIsTrue", violation
    assert what in str(violation)
