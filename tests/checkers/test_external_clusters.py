"""External clusters: clients receive no leader epochs, so the results that need them are unknown,
and no others."""

import pytest

from ackproof.checkers.context import run
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import UNKNOWN, Observed, PartitionState
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.validity import ALWAYS_VALID, ack_window
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedRun

PARTITION = ("t", 0)
SECOND_NS = 1_000_000_000


def cell(acks: str) -> Cell:
    return Cell(name="c", topic="t", settings={"acks": acks})


def around(*leaders: int, epoch: int = UNKNOWN) -> PartitionSurroundings:
    """Seen a second apart."""
    states = tuple(
        PartitionState(time=n * SECOND_NS, leader=leader, leader_epoch=epoch, isr=(1, 2, 3))
        for n, leader in enumerate(leaders, start=1)
    )
    return PartitionSurroundings(
        observed=Observed(states=states), faults=(), settle_ns=SECOND_NS, clock_bound_ns=0
    )


def test_a_change_of_leader_may_have_gone_unseen() -> None:
    found = ack_window(cell("1"), PARTITION, around(1))
    assert (found.unpromised_before, found.unknown_before) == (0, FOREVER)
    assert "leader epochs were not observed" in " ".join(found.why)
    told = ack_window(cell("1"), PARTITION, around(1, epoch=4))
    assert told.unknown_before < FOREVER


def test_a_change_that_was_seen_ends_the_promise() -> None:
    found = ack_window(cell("1"), PARTITION, around(1, 2))
    assert found.unpromised_before == 3 * SECOND_NS
    assert found.unknown_before == FOREVER


@pytest.mark.parametrize("leaders", [(1,), (1, 2), (1, -1, 3)])
def test_with_acks_all_nothing_rests_on_epochs(leaders: tuple[int, ...]) -> None:
    assert ack_window(cell("all"), PARTITION, around(*leaders)) == ALWAYS_VALID


def test_unchecked_guarantees_of_an_older_manifest_are_named() -> None:
    planned = {
        "number": 1,
        "seed": 1,
        "session_timeout_ms": 1,
        "replica_lag_ms": 1,
        "recovery_ms": 1,
        "cells": [],
        "faults": [],
        "writers": [],
    }
    assert list(run.unchecked_findings(PlannedRun.model_validate(planned))) == []
    older = PlannedRun.model_validate({**planned, "external": True})
    told = " ".join(run.unchecked_findings(older))
    for name in ("replicas-agree", "committed-stays", "min-isr-kept", "servers-stay-up"):
        assert name in told
    newer = PlannedRun.model_validate({**planned, "external": True, "unchecked": {}})
    assert list(run.unchecked_findings(newer)) == []
