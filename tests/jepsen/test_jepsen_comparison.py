"""Our checkers held against Jepsen's Kafka checker, on the same generated histories: what one finds
the other finds, or a rule says why not."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.check_reads import check_rows
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.read_anomalies import GroupGuarantees, PartitionGuarantees
from ackproof.harness.mutants.jepsen import CLASSPATH, Error, JepsenChecker, jepsen_checker
from tests.support.builders.consumer_histories import GROUP, World, sound
from tests.support.builders.consumers import left_by
from tests.support.builders.histories import indexed
from tests.support.oracles.jepsen_differences import NOTHING_ACKED, Both, Ours, unexplained
from tests.support.oracles.jepsen_facts import facts, value
from tests.support.oracles.jepsen_histories import ops_of
from tests.support.oracles.jepsen_plants import PLANTS, Choose, Plant, anything

pytestmark = pytest.mark.jepsen

QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
EACH = settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
ALL = settings(max_examples=400, deadline=None, suppress_health_check=QUIET)

PROMISES = PartitionGuarantees(groups={GROUP: GroupGuarantees(at_least_once=True)})
WHOSE = {
    "poll-skip": re.compile(r"(\S+) skipped it"),
    "nonmonotonic-poll": re.compile(r"read by (\S+) in poll"),
    "unseen": re.compile(r"never read by (\S+),"),
}
"""Where a row of an anomaly names its consumer."""


@pytest.fixture(scope="module")
def jepsen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JepsenChecker]:
    with jepsen_checker(
        os.environ[CLASSPATH], tmp_path_factory.mktemp("jepsen") / "log"
    ) as checker:
        yield checker


def ours(world: World) -> list[Ours]:
    history = indexed(world.log)
    rows = [row for one in CHECKERS.values() for row in one(history).to_pylist()]
    for some in check_rows(map(left_by, world.consumers), history, PROMISES).found:
        rows += some.rows.to_pylist()
    return [_ours(row) for row in rows]


def _ours(row: dict[str, Any]) -> Ours:
    whose = WHOSE.get(row["anomaly"])
    told = whose and whose.match(row["detail"])
    assert bool(whose) == bool(told), row
    record = value(row["producer"], row["sequence"])
    return Ours(row["anomaly"], row["offset"], record, told[1] if told else None)


def held_against_each_other(
    jepsen: JepsenChecker, world: World, used: Counter[str]
) -> tuple[set[str], set[str]]:
    """Return the findings of both. Fail if one found something that the other did not, without a
    known reason."""
    ops = ops_of(world.log, world.consumers)
    found: Sequence[Error] = jepsen.errors(ops)
    both = Both(facts=facts(world.log, world.consumers, ops), ours=ours(world), theirs=found)
    left = unexplained(both, used)
    assert not left, f"{left}\nours: {both.ours}\ntheirs: {both.theirs}"
    return {one.anomaly for one in both.ours}, {one.anomaly for one in found}


@EACH
@given(world=sound())
def test_where_all_is_well_neither_finds_anything(jepsen: JepsenChecker, world: World) -> None:
    used: Counter[str] = Counter()
    _, theirs = held_against_each_other(jepsen, world, used)
    # A group's reading goes on from what it has committed; Jepsen tolerates these.
    tolerated = {"poll-skip", "nonmonotonic-poll"}
    if NOTHING_ACKED.why in used:
        tolerated.add("unseen")
    assert theirs <= tolerated


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.make.__name__)
@EACH
@given(world=sound(), data=st.data())
def test_planted_anomaly_is_found_by_both_or_has_a_known_reason(
    jepsen: JepsenChecker, plant: Plant, world: World, data: st.DataObject
) -> None:
    def choose(among: Sequence[Any]) -> Any:
        assume(among)
        return data.draw(st.sampled_from(among))

    make: Callable[[World, Choose], World] = plant.make
    we, they = held_against_each_other(jepsen, make(world, choose), Counter())
    assert plant.ours <= we
    assert plant.theirs <= they
    assert not plant.never & they


@ALL
@given(world=anything())
def test_whatever_comes_every_difference_is_explained(jepsen: JepsenChecker, world: World) -> None:
    held_against_each_other(jepsen, world, Counter())
