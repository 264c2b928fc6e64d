"""Pictures of the replicas' logs around planted anomalies: what was lost, who truncated, who led
next, and what was not observed."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.pictures.facts import subject_of_row
from ackproof.checkers.pictures.log_picture import (
    COLUMNS_MAX,
    NOT_OBSERVED,
    ClientFacts,
    Content,
    Facts,
    Held,
    LogFacts,
    LogPicture,
    Part,
    Sign,
    Subject,
    columns_of,
    log_picture,
    merged,
)
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.harness.report.pictures import drawn
from ackproof.harness.report.pictures.rendering import WIDTH, text
from ackproof.harness.report.pictures.sentences import aloud
from tests.support.builders.checked_runs import WELL, run
from tests.support.builders.consumers import MadeConsumer, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import at
from tests.support.builders.losses import Planted, World, lose
from tests.support.builders.planted_logs import (
    facts_of,
    lost_in_an_election,
    replicas_differ,
    stands_twice,
    tables_of,
    with_run,
)
from tests.support.builders.raw_logs import batches, write_log

ANY_MACHINE = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])

KINDS = (
    CauseKind.DEPOSED_LEADER,
    CauseKind.UNCLEAN_ELECTION,
    CauseKind.LOST_FROM_DISK,
    CauseKind.TRUNCATED_BEFORE_LEADING,
    CauseKind.ISR_EXPANDED_TOO_EARLY,
)


def pictures(world: World, **changes: tuple[int, ...]) -> list[tuple[Planted, LogPicture]]:
    """Return the picture of the first record of each planted loss."""
    anomalies, root_causes = tables_of(world)
    facts, row, found = facts_of(world, **changes), 1, []  # type: ignore[arg-type]
    for planted in world.planted:
        subject = subject_of_row(anomalies, root_causes, row)
        found.append((planted, log_picture(subject, facts)))
        row += len(planted.sequences)
    return found


def marked(picture: LogPicture, sign: Sign) -> set[int]:
    """Return the offsets that have a mark."""
    return {
        column.first
        for row in picture.marks
        if row.sign is sign
        for column, mark in zip(picture.columns, row.marks, strict=True)
        if mark.strip(f" {NOT_OBSERVED}")
    }


# --- losses ---------------------------------------------------------------------------------------

LOSSES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 30), st.integers(30, 40)),
    min_size=1,
    max_size=3,
)


@ANY_MACHINE
@given(LOSSES)
@example([(kind, 2, 3) for kind in KINDS])
@example([(CauseKind.DEPOSED_LEADER, 200, 200)])
def test_picture_names_the_lost_offsets_the_truncation_and_the_next_leader(
    losses: list[tuple[CauseKind, int, int]],
) -> None:
    world = World(acks="all")
    for kind, count, appended in losses:
        lose(world, kind, count, appended)
    for planted, picture in pictures(world):
        first = planted.next_offset
        assert picture.subject.offsets == ((first, first + len(planted.sequences) - 1),)
        (next_,) = (one for one in picture.leaders if one.part is Part.NEXT)
        assert (next_.broker, next_.log_start) == (planted.next_leader, planted.next_offset)
        (acked,) = (one for one in picture.leaders if one.part is Part.ACKED)
        assert (acked.broker, acked.epoch) == (planted.leader, planted.epoch)
        assert (next_.in_isr is False) == (planted.kind is CauseKind.UNCLEAN_ELECTION)
        cuts = {one.cut.broker: one.cut.offset for one in picture.truncations}
        assert {broker: cuts.get(broker) for broker in planted.cut_by} == dict.fromkeys(
            planted.cut_by, first
        )
        assert set(cuts) - set(planted.cut_by) == (
            {planted.next_leader} if planted.kind is CauseKind.TRUNCATED_BEFORE_LEADING else set()
        )
        assert planted.fault in [one.label for one in picture.faults]
        holds_drawn_loss(planted, picture)


def holds_drawn_loss(planted: Planted, picture: LogPicture) -> None:
    """Check the marks and the log of the leader before its truncation."""
    lost = range(planted.next_offset, planted.next_offset + len(planted.sequences))
    shown = {column.first for column in picture.columns if not column.is_elided}
    assert marked(picture, Sign.LOST) >= shown & set(lost)
    (before,) = (row for row in picture.logs if row.before and row.broker == planted.leader)
    drawn_lost = {
        column.first
        for column, slot in zip(picture.columns, before.slots, strict=True)
        if slot is not None and slot.lost
    }
    assert drawn_lost == shown & set(lost)
    assert {slot.epoch for slot in before.slots if slot and slot.lost} == {planted.epoch}
    assert all(len(line) <= WIDTH for line in text(picture).splitlines())


def test_truncated_log_holds_no_record_beyond_its_former_end() -> None:
    world = World(acks="1")
    lose(world, CauseKind.NOT_REPLICATED, 2, 5)
    ((_, picture),) = pictures(world)
    (before,) = (row for row in picture.logs if row.before)
    contents = {
        column.first: slot.content
        for column, slot in zip(picture.columns, before.slots, strict=True)
        if slot is not None
    }
    assert contents[6] is Content.RECORD
    assert contents[7] is Content.NOTHING


def test_replica_without_a_raw_log_is_not_drawn_as_empty() -> None:
    world = World(acks="1")
    lose(world, CauseKind.NOT_REPLICATED, 2, 5)
    ((_, picture),) = pictures(world, collected_of=(1, 2))
    (row,) = (row for row in picture.logs if row.broker == 3)
    assert row.slots == ()
    assert row.unobserved == "its raw log was not collected"
    assert "broker-3         not observed: its raw log was not collected" in text(picture)
    assert "The log of broker-3 is not observed: its raw log was not collected." in aloud(picture)


def test_unknown_high_watermark_truncation_and_leader_are_reported_as_not_observed() -> None:
    world = World(acks="1", speaks=False)
    lose(world, CauseKind.NOT_REPLICATED, 2, 5)
    picture = pictures(world)[0][1]
    shown = " ".join(text(picture).split())
    assert "high watermark not observed" in shown
    assert "No broker's log shows a truncation of these records." in aloud(picture)
    assert "at collection: not observed" in shown


def test_acks_that_may_be_missing_are_not_drawn_as_absent() -> None:
    subject = Subject(
        run=1, cell="c", topic="t", partition=0, anomaly="lost", row=1, at=0, offsets=((0, 0),)
    )
    some = Facts(
        final_log=LogFacts(),
        acks={0: [(1, 0)]},
        lost=frozenset({(1, 0)}),
        acks_unobserved="not all sends to the partition are recorded",
    )
    picture = log_picture(subject, some)
    (lost,) = (row for row in picture.marks if row.sign is Sign.LOST)
    assert (lost.marks[0], set(lost.marks[1:])) == ("x", {NOT_OBSERVED})
    assert picture.acked is None
    lines = text(picture).splitlines()
    assert "acked, kept      not observed: not all sends to the partition are recorded" in lines
    assert "How many records were acknowledged there is not known" in aloud(picture)


def test_incomplete_final_read_shows_unknown_offsets_and_fates() -> None:
    facts = Facts(final_log=LogFacts(unknown=((0, 99),)), acks={5: [(1, 5)]}, acked_count=1)
    subject = Subject(
        run=1, cell="c", topic="t", partition=0, anomaly="phantom", row=1, at=5, offsets=((5, 5),)
    )
    picture = log_picture(subject, facts)
    (row,) = picture.logs
    assert {slot.content for slot in row.slots if slot} == {Content.UNKNOWN}
    (acked,) = (row for row in picture.marks if row.sign is Sign.ACKED)
    assert acked.marks[5] == NOT_OBSERVED
    spoken = aloud(picture)
    assert "whether any of these records is lost is not known" in spoken
    assert "No log of a replica is observed." in spoken


def test_records_without_an_offset_have_no_columns() -> None:
    subject = Subject(run=1, cell="c", topic="t", partition=0, anomaly="lost", row=1)
    picture = log_picture(subject, Facts(final_log=LogFacts()))
    assert (picture.columns, picture.logs, picture.acked) == ((), (), None)
    assert "their logs cannot be drawn" in text(picture)


def test_subject_of_records_without_offsets_has_no_offsets() -> None:
    world = World(acks="0")
    lose(world, CauseKind.NOT_REPLICATED, 2, 5)
    nameless = [
        table.set_column(
            table.column_names.index("offset"), "offset", pa.nulls(len(table), pa.int64())
        )
        for table in tables_of(world)
    ]
    subject = subject_of_row(*nameless, 2)
    assert (subject.records, subject.offsets, subject.names) == (2, (), {})


def test_replica_that_still_holds_the_lost_records_is_drawn_with_them(tmp_path: Path) -> None:
    directory = lost_in_an_election(tmp_path)
    log = directory / "runs/1/replicas/broker-3/t-0"
    shutil.rmtree(log)
    write_log(log, batches(3))
    picture, shown = shown_of(directory, "lost")
    (row,) = (row for row in picture.logs if row.broker == 3)
    assert [slot.lost for slot in row.slots if slot][:4] == [False, True, True, False]
    assert "broker-3         0 0 0 . . . . . . . . . . . ." in shown.splitlines()


def test_long_names_stay_within_the_width_of_the_text() -> None:
    topic, client = "t" * 249, "reader-" + "r" * 200
    subject = Subject(
        run=1, cell="c", topic=topic, partition=0, anomaly="unseen", row=1, at=3, offsets=((3, 9),)
    )
    offset = 10**12
    far = replace(subject, at=offset, offsets=((offset, offset + 10**9),))
    facts = Facts(final_log=LogFacts(), clients={client: ClientFacts()})
    for one in (subject, far):
        shown = text(log_picture(one, facts))
        assert max(map(len, shown.splitlines())) <= WIDTH
        assert client in "".join(shown.split())


# --- columns --------------------------------------------------------------------------------------


@given(st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6))
def test_columns_cover_every_offset_once_and_stay_few(first: int, length: int, at_: int) -> None:
    last = first + length
    place = first + at_ % (length + 1)
    subject = Subject(
        run=1,
        cell="c",
        topic="t",
        partition=0,
        anomaly="lost",
        row=1,
        at=place,
        offsets=((first, last),),
    )
    columns = columns_of(subject)
    assert len(columns) <= COLUMNS_MAX
    shown = {column.first for column in columns if not column.is_elided}
    assert {first, place, last} <= shown
    assert all(a.last + 1 == b.first for a, b in pairwise(columns))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5))))
def test_merged_ranges_hold_the_same_offsets(pairs: list[tuple[int, int]]) -> None:
    ranges = [(first, first + length) for first, length in pairs]
    found = merged(ranges)
    offsets = {offset for first, last in ranges for offset in range(first, last + 1)}
    assert [o for first, last in found for o in range(first, last + 1)] == sorted(offsets)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(found))


# --- results on disk ------------------------------------------------------------------------------


def shown_of(directory: Path, anomaly: str) -> tuple[LogPicture, str]:
    """Return the picture of the first row with an anomaly, and its text."""
    results = drawn.read(directory)
    number = results.anomalies["anomaly"].to_pylist().index(anomaly) + 1
    picture = results.of_row(number)
    return picture, text(picture)


def test_loss_of_a_history_is_drawn_from_tables_and_raw_logs(tmp_path: Path) -> None:
    picture, shown = shown_of(lost_in_an_election(tmp_path), "lost")
    assert picture.subject.offsets == ((1, 2),)
    assert marked(picture, Sign.LOST) == {1, 2}
    assert marked(picture, Sign.ACKED) == {0, 1}
    assert (picture.acked, picture.lost) == (4, 2)
    lines = shown.splitlines()
    assert "broker-1 before  0 0 0 . . . . . . . . . . . ." in lines
    assert "broker-1         0 1 . . . . . . . . . . . . ." in lines
    assert "broker-2         0 1 . . . . . . . . . . . . ." in lines
    assert "final log        0 1 . . . . . . . . . . . . ." in lines
    assert "acked, lost        x x" in lines
    spoken = aloud(picture)
    assert "broker-1 truncated its log from 3 to 1" in spoken
    assert "broker-2 led next, in epoch 1 from offset 1 (elected from the ISR [1, 2, 3])." in spoken


def test_replica_that_was_not_collected_is_named(tmp_path: Path) -> None:
    _, shown = shown_of(lost_in_an_election(tmp_path, replicas=2), "lost")
    assert "broker-3         not observed: its raw log was not collected" in shown.splitlines()


def test_damaged_raw_log_is_unknown_from_the_damage_on(tmp_path: Path) -> None:
    directory = lost_in_an_election(tmp_path)
    (log,) = (directory / "runs/1/replicas/broker-3/t-0").glob("*.log")
    log.write_bytes(log.read_bytes()[:-3])
    picture, shown = shown_of(directory, "lost")
    assert "broker-3         0 ? ? ? ? ? ? ? ? ? ? ? ? ? ?" in shown.splitlines()
    assert "Parts of the log of broker-3 are not observed." in aloud(picture)


def test_picture_of_a_missing_history_shows_everything_as_not_observed(tmp_path: Path) -> None:
    directory = lost_in_an_election(tmp_path)
    shutil.rmtree(directory / "runs")
    picture, shown = shown_of(directory, "lost")
    assert all(row.unobserved for row in picture.logs if not row.before)
    assert all(row.unobserved for row in picture.marks)
    assert [one.broker for one in picture.leaders] == [1, 2]
    assert "epoch 1: broker-2 led from an offset that was not observed" in " ".join(shown.split())
    assert "00:00:00" not in shown


def test_log_in_several_directories_is_not_drawn(tmp_path: Path) -> None:
    directory = lost_in_an_election(tmp_path, replicas=2)
    for number in range(2):
        write_log(directory / f"runs/1/replicas/broker-3/{number}/t-0", batches(3))
    _, shown = shown_of(directory, "lost")
    assert "not observed: its log was collected from several log directories" in shown


def test_fault_that_is_not_recorded_is_named_nevertheless() -> None:
    subject = Subject(
        run=1, cell="c", topic="t", partition=0, anomaly="lost", row=1, faults=("kill#9",)
    )
    picture = log_picture(subject, Facts(final_log=LogFacts()))
    assert "kill#9, whose time is not recorded for this partition" in text(picture)
    assert "kill#9 was active." in aloud(picture)


@pytest.mark.parametrize(
    ("final_log", "mark"),
    [
        (LogFacts(held={3: Held(epoch=0, name=(1, 3))}), "g"),
        (LogFacts(held={3: Held(epoch=0, name=(1, 4))}), "o"),
        (LogFacts(held={3: Held(epoch=0)}), NOT_OBSERVED),
        (LogFacts(), "o"),
        (LogFacts(unknown=((0, 9),)), NOT_OBSERVED),
        (LogFacts(unobserved="it was not read"), NOT_OBSERVED),
    ],
)
def test_read_is_compared_with_the_final_log(final_log: LogFacts, mark: str) -> None:
    subject = Subject(
        run=1, cell="c", topic="t", partition=0, anomaly="unseen", row=1, at=3, offsets=((3, 3),)
    )
    clients = {"reader-0": ClientFacts(given={3: frozenset({(1, 3)})})}
    picture = log_picture(subject, Facts(final_log=final_log, clients=clients))
    (given_,) = (row for row in picture.marks if row.sign is Sign.GIVEN)
    assert given_.marks[3] == mark


def test_both_copies_of_a_duplicate_are_marked(tmp_path: Path) -> None:
    picture, shown = shown_of(stands_twice(tmp_path), "duplicated")
    assert picture.subject.copies == (1, 4)
    assert "copies             1     2" in shown.splitlines()
    assert "The same record is at offsets 1 and 4." in aloud(picture)


def test_divergent_replica_is_drawn_with_the_offsets_that_differ(tmp_path: Path) -> None:
    picture, shown = shown_of(replicas_differ(tmp_path), "divergent-replicas")
    assert picture.subject.brokers == (1, 3)
    assert marked(picture, Sign.DIFFERS) == {2, 3}
    assert shown.startswith("t-0, offsets 2 to 3: 2 offsets different among replicas")
    lines = shown.splitlines()
    assert "broker-1         0 0 0 0 . . . . . . . . . . . ." in lines
    assert "broker-3         0 0 1 1 . . . . . . . . . . . ." in lines


def test_gap_of_a_consumer_shows_given_and_missing_offsets(tmp_path: Path) -> None:
    polls = [seen(number, e.offset, e.producer, e.sequence) for number, e in enumerate(WELL.log, 1)]
    reader = MadeConsumer(polls=[polls[0], polls[2]], assigned=[assigned(0, at(0), 0)])
    directory = with_run(tmp_path, run(consumers=(reader,)))
    picture, shown = shown_of(directory, "poll-skip")
    assert marked(picture, Sign.PASSED_OVER) == {1}
    assert marked(picture, Sign.GIVEN) == {0, 2}
    assert "reader-0         g   g" in shown.splitlines()
    assert "Of 1 such records shown, reader-0 was given 0." in aloud(picture)


@pytest.mark.parametrize("number", [0, 99])
def test_row_that_does_not_exist_has_no_picture(number: int, tmp_path: Path) -> None:
    results = drawn.read(lost_in_an_election(tmp_path))
    with pytest.raises(drawn.NotDrawn, match="rows 1 to"):
        results.of_row(number)
