"""A partition whose leader and ISR the observer never saw costs its own cell, and no other one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.context.observed import Observed, Span
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    TWO_CELLS,
    WELL,
    WHEN_COLLECTED,
    checked,
    replicas_of,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.histories import (
    FINISHED,
    MadeRun,
    a_fault,
    at,
    losing,
    state,
    write_campaign,
)

SEEN_OF_U = (state(-5, 1, 0, (1, 2, 3), topic="u"),)


def unobserved(**changes: Any) -> MadeRun:
    """Cells c on t-0, of which there is no state, and d on u-0; logs were collected."""
    spans = {("collect", "start"): WHEN_COLLECTED, ("collect", "end"): WHEN_COLLECTED + 10}
    phases = [{**row, "time": at(spans.get((row["phase"], row["event"]), 0))} for row in FINISHED]
    return two_cells(**{"cluster": SEEN_OF_U, "phases": phases, "replicas": True, **changes})


@pytest.mark.parametrize("destroys", [None, "all", "unsynced", "unclean"])
def test_unobserved_partition_makes_its_cell_inconclusive(
    tmp_path: Path, destroys: str | None
) -> None:
    faults = a_fault(partitions=("t-0",), destroys=destroys)
    other = a_fault(30, 35, partitions=("u-0",), fault_id=2)
    directory = write_campaign(tmp_path, unobserved(faults=[*faults, *other]))
    replicas_of(directory).mkdir()
    result = checked(directory)
    assert verdicts(result)["c"] is INCONCLUSIVE
    assert "t-0: its leader and ISR were never observed" in told(result)


def test_loss_elsewhere_is_reported_beside_an_unobserved_partition(tmp_path: Path) -> None:
    lost = {**TWO_CELLS, ("u", 0): losing(WELL, 1)}
    directory = write_campaign(tmp_path, unobserved(partitions=lost))
    replicas_of(directory).mkdir()
    assert verdicts(checked(directory)) == {"c": INCONCLUSIVE, "d": FAIL}


def test_refused_topic_is_named_with_the_reason_of_the_broker(tmp_path: Path) -> None:
    why = "cannot create t: INVALID_CONFIG: Tiered Storage is disabled"
    phases: Sequence[Mapping[str, Any]] = [
        row
        if (row["phase"], row["event"]) != ("ready", "end")
        else {**row, "event": "failed"} | {"detail": why}
        for row in FINISHED[:4]
    ]
    nothing = WELL.but(sends=[], log=[], end=0)
    partitions = dict.fromkeys(TWO_CELLS, nothing)
    made = unobserved(phases=phases, partitions=partitions, reads=False, cluster=())
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert why in told(result)


def test_observation_without_states_has_no_spans() -> None:
    assert list(Observed().spans()) == []
    assert Observed().during(Span(0, 1)) == []
