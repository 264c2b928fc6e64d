"""Lost answers of ZooKeeper: a client that repeats a write meets its own earlier write."""

import pytest

from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.types import ControllerEpoch
from simulation.plans.actions import CreateTopicOrder, DeposeController, LoseAnswer, Target, Timed
from simulation.plans.plan import SimulationPlan
from simulation.world.world import run
from tests.support.fakes.swapped_functions import Mutation, Swap

pytestmark = pytest.mark.simulation


def plan(
    *, nth: int = 1, for_ms: int = 2_000, expires: bool = False, carried_out: bool = True
) -> SimulationPlan:
    """Return a plan in which one of two brokers is elected controller again."""
    lost = (
        LoseAnswer(
            target=Target(broker=b),
            path="/controller",
            nth=nth,
            expires=expires,
            for_ms=for_ms,
            carried_out=carried_out,
        )
        for b in (1, 2)
    )
    return SimulationPlan(
        seed=1,
        brokers=2,
        settings=(
            ("ackproof.wait.for.isr", "true"),
            ("zookeeper.session.timeout.ms", "6000"),
        ),
        producers=(),
        topics=(CreateTopicOrder(topic="t0", replicas=((1, 2),)),),
        actions=(
            *(Timed(at_ms=1_000, action=each) for each in lost),
            Timed(at_ms=1_010, action=DeposeController()),
        ),
        run_ms=6_000,
    )


@pytest.mark.parametrize(
    ("changed", "fails"),
    [(plan(), 1), (plan(nth=1_000), 0), (plan(for_ms=1), 0), (plan(expires=True), 1)],
    ids=["the first", "too few", "too late", "with its session"],
)
def test_answer_is_lost_only_within_its_time(changed: SimulationPlan, fails: int) -> None:
    outcome = run(changed)
    notes = [what for _, what in outcome.notes]
    assert outcome.violation is None
    assert sum("gets no answer that /controller" in what for what in notes) >= fails
    assert any("gets no answer" in what for what in notes) == bool(fails)


def test_controller_with_a_lost_answer_keeps_its_office_until_expiry() -> None:
    def offices(changed: SimulationPlan) -> int:
        return sum("becomes the controller" in what for _, what in run(changed).notes)

    assert offices(plan()) == 2
    assert offices(plan(expires=True)) > 2


def test_controller_unaware_of_its_office_is_detected() -> None:
    async def takes_it_for_anothers(_self: ControllerZk, _won: ControllerEpoch) -> bool:
        return False

    with Mutation(Swap(ControllerZk, "_elected_unseen", takes_it_for_anothers)).active():
        assert run(plan(nth=1_000)).violation is None
        assert run(plan(expires=True)).violation is None
        violation = run(plan()).violation
    assert violation is not None
    assert violation.invariant == "Cluster/does-not-settle", violation


def test_lost_write_is_repeated() -> None:
    """Test two brokers that lose the connection at the write that would make them controller.

    The write before it announces the controller epoch. One of the brokers becomes the controller.
    """
    outcome = run(plan(nth=2, carried_out=False))
    notes = [what for _, what in outcome.notes]
    assert outcome.violation is None
    lost = next(n for n, what in enumerate(notes) if "/controller is not written" in what)
    assert any("becomes the controller" in what for what in notes[lost:])
    assert not any("is written" in what for what in notes)
