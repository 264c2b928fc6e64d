"""Looks are taken until they show the expected state."""

from collections.abc import Callable, Sequence

import pytest

from ackproof.nemesis.interface import Look, Observation
from ackproof.nemesis.proofs import prove

TRUE = Observation(claim="gone", seen={"t": True})
MISSING = Observation(claim="gone", seen={"t": False}, missing=("t",))
OWED = Observation(claim="gone", seen={"t": False}, missing=("t",), owed=True)
LEFT_OUT = Observation(claim="gone", seen={}, left_out={"t": "kill#1 is active"})


class Looks:
    """Waits for so many looks at most."""

    def __init__(self, *found: Observation) -> None:
        self.found: Sequence[Observation] = found
        self.taken = 0

    def look(self) -> Observation:
        self.taken += 1
        return self.found[self.taken - 1]

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:  # noqa: ARG002
        return any(condition() for _ in self.found)


@pytest.mark.parametrize(
    ("found", "struck", "proven", "taken"),
    [
        ([TRUE], True, True, 1),
        ([MISSING, TRUE], True, True, 2),
        ([MISSING, MISSING], True, False, 2),
        # The other fault is over in time, or is not.
        ([LEFT_OUT, TRUE], True, True, 2),
        ([LEFT_OUT, MISSING, TRUE], True, True, 3),
        ([LEFT_OUT, LEFT_OUT], True, False, 2),
        # What has done nothing has nothing to wait for.
        ([LEFT_OUT, TRUE], False, False, 1),
    ],
)
def test_by_itself(found: list[Observation], struck: bool, proven: bool, taken: int) -> None:
    looks = Looks(*found)
    proof = prove([looks.look], looks, 1.0, by_itself=True, struck=struck)
    assert (proof.proven, looks.taken) == (proven, taken)
    assert not proof.owed


def test_excluded_observation_does_not_delay_a_heal() -> None:
    looks = Looks(LEFT_OUT, TRUE)
    assert prove([looks.look], looks, 1.0, by_itself=False).proven
    assert looks.taken == 1


@pytest.mark.parametrize(
    ("found", "owed"),
    [([OWED], True), ([OWED, OWED], True), ([OWED, TRUE], False), ([OWED, MISSING], False)],
)
def test_debt_of_the_system_follows_its_observations(found: list[Observation], owed: bool) -> None:
    looks = Looks(*found)
    every: list[Look] = [looks.look]
    assert prove(every, looks, 1.0, by_itself=False).owed is owed


def test_meanwhile_runs_before_each_look() -> None:
    looks = Looks(MISSING, TRUE)
    before: list[int] = []

    def meanwhile() -> None:
        before.append(looks.taken)

    prove([looks.look], looks, 1.0, by_itself=False, meanwhile=meanwhile)
    assert before == [0, 1]
