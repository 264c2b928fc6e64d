"""Vanished reads: generated losses of known kinds, of which a reader read every record before. The
root cause names the reader, the leader and the reason; without witnesses it is unknown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.catalogue import INCONSISTENT, VANISHED
from ackproof.checkers.checks.check_reads import check_rows
from ackproof.checkers.checks.read_anomalies import PartitionGuarantees
from ackproof.checkers.root_cause.causes import attributed_faults
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses, explain_reads
from ackproof.checkers.verdict import Cause
from tests.support.builders.consumers import MadeConsumer, left_by
from tests.support.builders.consumers import Seen as Shown
from tests.support.builders.examples import examples
from tests.support.builders.histories import at, indexed, state
from tests.support.builders.losses import Planted, World, cut_for_one_that_never_heard, lose

ANY_MACHINE = settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow]
)
OF_ALL = (
    CauseKind.DEPOSED_LEADER,
    CauseKind.UNCLEAN_ELECTION,
    CauseKind.LOST_FROM_DISK,
    CauseKind.TRUNCATED_BEFORE_LEADING,
    CauseKind.UNEXPLAINED,
)
Losses = list[tuple[CauseKind, int, int]]
ONE = st.tuples(st.sampled_from(OF_ALL), st.integers(1, 5), st.integers(0, 8))


def reader(world: World, *, epochs: bool = True, later: float = 0) -> MadeConsumer:
    """It was shown what is gone as soon as that was acked, or so many seconds later."""
    planted = {sequence: one for one in world.planted for sequence in one.sequences}
    acks = [ack for ack in world.sends if ack.type == "ok" and ack.sequence in planted]
    polls = [
        Shown(
            poll=number,
            time=ack.time + at(later) - at(0),
            offset=ack.offset or 0,
            leader_epoch=planted[ack.sequence].epoch if epochs else None,
            producer=ack.producer,
            sequence=ack.sequence,
        )
        for number, ack in enumerate(acks, start=1)
    ]
    return MadeConsumer(client="reader-7", polls=polls)


def performed(
    world: World, *, epochs: bool = True, later: float = 0
) -> dict[str, tuple[list[dict[str, Any]], RootCauses]]:
    """Return the rows of each anomaly with their root causes."""
    around, known = world.context()
    history = indexed(world.made(), timeline=known)
    looked = check_rows(
        [left_by(reader(world, epochs=epochs, later=later))], history, PartitionGuarantees()
    )
    return {
        found.anomaly: (
            found.rows.to_pylist(),
            explain_reads(history, around, found, looked.clients),
        )
        for found in looked.found
        if found.anomaly in (VANISHED, INCONSISTENT)
    }


def made(planted: Losses, acks: str) -> World:
    world = World(acks=acks)
    for kind, count, appended in planted:
        lose(world, kind, count, appended)
    return world


@ANY_MACHINE
@given(st.lists(ONE, min_size=1, max_size=3), st.sampled_from(["1", "all"]))
@example([(kind, 2, 0) for kind in OF_ALL], "all")
@example([(kind, 2, 3) for kind in OF_ALL], "1")
def test_vanished_reads_are_attributed_to_the_planted_cause(planted: Losses, acks: str) -> None:
    """Whatever acks ask for: what consumers are shown all in sync have."""
    world = made(planted, acks)
    by_sequence = {sequence: one for one in world.planted for sequence in one.sequences}
    told = set()
    for rows, found in performed(world).values():
        for row, root_cause in zip(rows, found.of_records.to_pylist(), strict=True):
            told.add(row["sequence"])
            agrees(by_sequence[row["sequence"]], root_cause)
        assert sum(cause.records for cause in found.causes) == len(rows)
        assert found.faults is not None
        of_cause = {cause.number: attributed_faults(cause) for cause in found.causes}
        laid = [of_cause[root_cause["cause"]] for root_cause in found.of_records.to_pylist()]
        assert found.faults.to_pylist() == laid
        assert all(cause.promised == cause.records for cause in found.causes)
    # Of offsets that were lost more than once the last that was shown is told.
    gone = {ack.offset for ack in world.sends if ack.type == "ok" and ack.sequence in by_sequence}
    offsets = {row["offset"] for rows, _ in performed(world).values() for row in rows}
    assert offsets == gone
    assert told <= by_sequence.keys()


def agrees(planted: Planted, root_cause: dict[str, object]) -> None:
    assert root_cause["kind"] == planted.kind
    assert (root_cause["epochs"], root_cause["leaders"]) == ([planted.epoch], [planted.leader])
    assert root_cause["next_offset"] == planted.next_offset
    assert (root_cause["next_leader"], root_cause["shown_to"]) == (
        planted.next_leader,
        ["reader-7"],
    )
    assert (root_cause["shown_by"], root_cause["shown_epoch"]) == (planted.leader, planted.epoch)
    assert planted.leader in root_cause["cut_by"]
    assert root_cause["below_watermark"] is None


def only(world: World, anomaly: str, *, epochs: bool = True) -> Cause:
    (cause,) = performed(world, epochs=epochs)[anomaly][1].causes
    return cause


def test_vanished_read_of_a_deposed_leader_is_described_in_one_sentence() -> None:
    cause = only(made([(CauseKind.DEPOSED_LEADER, 1_500, 0)], "all"), VANISHED)
    assert cause.sentence == (
        "consumers read these records, up to 2.0 s after broker-2 was observed as leader; "
        "broker-1 appended them as leader of epoch 0; isolate#1 was active on broker-1; broker-2 "
        "led epoch 1 from offset 5, without them; broker-1 truncated its log from 1,505 to 5 as "
        "follower of broker-2 in epoch 1 (leader epoch 0 and offset 5)."
    )


def test_vanished_read_below_a_reported_high_watermark_is_reported_so() -> None:
    world = made([(CauseKind.UNEXPLAINED, 2, 0)], "all")
    first = world.words[0]
    object.__setattr__(first, "high_watermark", 7)
    rows, found = performed(world)[VANISHED]
    assert [row["below_watermark"] for row in found.of_records.to_pylist()] == [True, True]
    assert "broker-1 had a high watermark beyond them when it began epoch 0" in (
        found.causes[0].sentence
    )
    assert len(rows) == 2


def shown_after_an_election(epoch: int) -> list[dict[str, Any]]:
    """Broker-3 is elected in epoch 1 and never hears of it; after that two that were acked before
    are shown, as of this epoch."""
    world = World(acks="all")
    lose(world, CauseKind.TRUNCATED_BEFORE_LEADING, 2, 0, way=cut_for_one_that_never_heard)
    (planted,) = world.planted
    world.planted = [replace(planted, epoch=epoch)]
    _, found = performed(world, later=8)[VANISHED]
    return found.of_records.to_pylist()


def test_vanished_read_is_not_attributed_to_an_unaware_elected_leader() -> None:
    for row in shown_after_an_election(epoch=0):
        assert (row["shown_by"], row["shown_epoch"]) == (1, 0)
        assert (row["kind"], row["next_leader"]) == (CauseKind.DEPOSED_LEADER, 2)


def test_vanished_read_is_attributed_to_the_leader_that_appended_it() -> None:
    for row in shown_after_an_election(epoch=1):
        assert (row["shown_by"], row["shown_epoch"], row["epochs"]) == (3, 1, [1])


@pytest.mark.parametrize("anomaly", [VANISHED, INCONSISTENT])
def test_vanished_read_without_evidence_has_an_unknown_cause(anomaly: str) -> None:
    world = made([(CauseKind.DEPOSED_LEADER, 1, 0 if anomaly == VANISHED else 3)], "all")
    world.rows[1:], world.words, world.truncations = [], [], []
    world.rows[0] = state(0, -1, -1, ())
    cause = only(world, anomaly, epochs=False)
    assert cause.kind == CauseKind.UNKNOWN
    assert "the broker that appended them is not known" in cause.sentence
