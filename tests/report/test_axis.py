"""The time axis of a run: what its history says over time, and what it does not say."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.verdict import CellResult, Verdict
from ackproof.harness.report import axis, timeline
from ackproof.harness.report.axis.bins import POINTS_MAX, bins, carried, lanes, thinned
from ackproof.harness.report.axis.cluster import PARTITIONS_MAX, Damage, partition_rows
from ackproof.harness.report.axis.document import Document, Latencies, PartitionSpan
from ackproof.history import manifest
from ackproof.history.manifest import PlannedFault
from tests.support.builders.checked_runs import run
from tests.support.builders.consumers import (
    MadeConsumer,
    committed_ok,
    seen,
)
from tests.support.builders.consumers import (
    given as assigned,
)
from tests.support.builders.histories import (
    ACKS_0,
    Made,
    MadeRun,
    Send,
    a_fault,
    acked,
    at,
    cell,
    connection,
    ended,
    entry,
    kept,
    office,
    send,
    state,
    write_campaign,
)
from tests.support.builders.results import cell_result

SECOND = 1_000_000_000
PLACES = pa.schema(
    [
        ("run", pa.int32()),
        ("cell", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("anomaly", pa.string()),
        ("time", pa.int64()),
    ]
)


def anomalies(*rows: tuple[str, float | None], cell: str = "c") -> pa.Table:
    """Return rows of ``anomalies.parquet``: an anomaly and its second each."""
    return pa.Table.from_pylist(
        [
            {
                "run": 1,
                "cell": cell,
                "topic": "t",
                "partition": 0,
                "anomaly": name,
                "time": None if seconds is None else at(seconds),
            }
            for name, seconds in rows
        ],
        schema=PLACES,
    )


def document(
    directory: Path,
    made: MadeRun,
    found: pa.Table | None = None,
    *,
    lost: int | None = 0,
    duplicated: int | None = 0,
) -> Document:
    """Write a run and return its time axis. ``lost`` and ``duplicated`` are counts of each cell."""
    planned = manifest.read(write_campaign(directory, made)).runs[0]
    history = directory / "runs" / "1" / "history"
    cells = [
        cell_result(
            one.cell.name,
            Verdict.PASS,
            topic=one.cell.topic,
            settings=one.cell.settings,
            lost=lost,
            duplicated=duplicated,
        )
        for one in made.cells
    ]
    faults = timeline.faults(history, planned.faults)
    drawn = axis.read(1, history, faults, cells, anomalies() if found is None else found, planned)
    assert drawn is not None
    return drawn


def at_bins(pairs: Sequence[tuple[int, int]] | None, drawn: Document) -> dict[float, int]:
    """Return the values that are not 0, by the second at which their bins begin."""
    assert pairs is not None
    return {round(place * drawn.bin_s, 3): value for place, value in pairs}


# --- bins


@given(st.integers(0, 10**18), st.integers(0, 10**16))
def test_bins_cover_every_span_with_at_most_600_points(start: int, length: int) -> None:
    made = bins(start, start + length)
    assert made.count <= POINTS_MAX
    assert made.of(np.array([start, start + length])).tolist() == [0, made.count - 1]
    assert made.end - made.width <= start + length < made.end


@pytest.mark.parametrize(
    ("seconds", "width"), [(54, 0.2), (125, 0.5), (3600, 10), (4 * 3600, 30), (86_400, 180)]
)
def test_bins_have_round_widths(seconds: int, width: float) -> None:
    assert bins(0, seconds * SECOND).width / SECOND == width


def test_faults_that_overlap_are_in_lanes_of_their_own() -> None:
    assert lanes([(0, 10), (5, 20), (10, 12), (11, 30), (40, 50)]) == [0, 1, 0, 2, 0]


def test_values_are_carried_to_bins_without_one() -> None:
    values = np.array([-1, 4, -1, 2, -1])
    assert carried(values, values != -1, 0).tolist() == [0, 4, 4, 2, 2]


def test_many_times_are_grouped_by_bin_and_few_are_not() -> None:
    few = bins(0, 600 * SECOND)
    assert thinned([5, 6, 7], few) == [[0], [1], [2]]
    many = thinned([n * SECOND // 2 for n in range(1_200)], few)
    assert len(many) <= POINTS_MAX
    assert [place for group in many for place in group] == list(range(1_200))


# --- sends


def test_acks_failures_and_unknown_outcomes_are_in_the_bins_of_their_events(
    tmp_path: Path,
) -> None:
    sends, log = acked(5, 5.1, 40)
    others = [
        send("invoke", 1, 3, at(7)),
        send("fail", 1, 3, at(8)),
        send("invoke", 1, 4, at(7)),
        send("info", 1, 4, at(9)),
    ]
    drawn = document(
        tmp_path, run(partitions={("t", 0): Made(sends=[*sends, *others], log=log, end=3)})
    )
    (only,) = drawn.cells
    assert drawn.start_ms == at(0) // 1_000_000
    assert drawn.bin_s == 0.2
    assert {round(n * 0.2, 1): value for n, value in enumerate(only.acked) if value} == {
        5: 2,
        40: 1,
    }
    assert at_bins(only.failed, drawn) == {8: 1}
    assert at_bins(only.unknown, drawn) == {9: 1}


def test_latencies_are_percentiles_of_the_records_of_a_bin_over_all_partitions(
    tmp_path: Path,
) -> None:
    def sent(partition: int, *took_ms: float) -> Made:
        """Send records that are all acked at 10 seconds, so long after they were due."""
        sends = []
        for turn, ms in enumerate(took_ms):
            number = partition + 2 * turn
            due = at(10) - int(ms * 1_000_000)
            sends.append(send("invoke", 1, number, at(10) - 5, due=due))
            sends.append(send("ok", 1, number, at(10), turn))
        log = [entry(turn, 1, partition + 2 * turn) for turn in range(len(took_ms))]
        return Made(sends=sends, log=log, end=len(log))

    made = run(
        partitions={("t", 0): sent(0, *[1] * 98), ("t", 1): sent(1, 100, 400)},
        cells=(cell(partitions=2),),
    )
    drawn = document(tmp_path, made)
    place = drawn.cells[0].acked.index(100)
    for latency in (drawn.cells[0].latency, drawn.latency):
        at_10 = [curve[place] for curve in (latency.p50, latency.p99, latency.p999)]
        assert at_10 == pytest.approx([1, 100, 400], rel=0.011)
        assert latency.p50[place - 1] is None


def test_latency_starts_with_the_send_if_there_is_no_schedule(tmp_path: Path) -> None:
    sends = [send("invoke", 1, 0, at(3)), send("ok", 1, 0, at(5), 0)]
    drawn = document(
        tmp_path, run(partitions={("t", 0): Made(sends=sends, log=[entry(0, 1, 0)], end=1)})
    )
    assert [one for one in drawn.latency.p50 if one is not None] == [pytest.approx(2000, rel=0.011)]


def test_parts_of_a_crashed_client_are_joined(tmp_path: Path) -> None:
    drawn = document(tmp_path, run(crashed=(1,), partitions={("t", 0): kept(5, 15, 40)}))
    assert sum(drawn.cells[0].acked) == 3
    assert sum(one is not None for one in drawn.latency.p50) == 3


def test_losses_are_in_the_bins_of_their_acks(tmp_path: Path) -> None:
    found = anomalies(("lost", 5), ("lost", 5.1), ("lost", 15), ("duplicated", 40))
    drawn = document(tmp_path, run(), found, lost=3, duplicated=1)
    assert at_bins(drawn.cells[0].lost, drawn) == {5: 2, 15: 1}
    assert at_bins(drawn.cells[0].duplicated, drawn) == {40: 1}
    (partition,) = drawn.partitions
    assert (partition.lost, partition.duplicated) == (
        drawn.cells[0].lost,
        drawn.cells[0].duplicated,
    )


def test_unknown_losses_are_not_observed_and_known_ones_are_none(tmp_path: Path) -> None:
    unknown = document(tmp_path / "a", run(), lost=None, duplicated=None).cells[0]
    assert (unknown.lost, unknown.duplicated, unknown.whole) == (None, None, False)
    known = document(tmp_path / "b", run()).cells[0]
    assert (known.lost, known.duplicated, known.whole) == ([], [], True)


def test_losses_that_may_be_more_are_shown_as_not_known_in_full(tmp_path: Path) -> None:
    drawn = document(tmp_path, run(), anomalies(("lost", 5)), lost=None)
    assert at_bins(drawn.cells[0].lost, drawn) == {5: 1}
    assert not drawn.cells[0].whole


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.floats(1, 20_000), st.sampled_from(["ok", "fail", "info"]), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_sums_of_bins_are_the_counts_of_sends_and_losses(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[float, str, bool]]
) -> None:
    rows: list[Send] = []
    for number, (seconds, outcome, _) in enumerate(sent):
        rows.append(send("invoke", 1, number, at(seconds) - 5))
        rows.append(send(outcome, 1, number, at(seconds), number if outcome == "ok" else None))
    gone = [("lost", seconds) for seconds, outcome, is_lost in sent if outcome == "ok" and is_lost]
    made = run(partitions={("t", 0): Made(sends=rows, log=[], end=0)})
    directory = tmp_path_factory.mktemp("axis")
    drawn = document(directory, made, anomalies(*gone), lost=len(gone))
    (only,) = drawn.cells
    assert len(only.acked) == drawn.bins <= POINTS_MAX
    for name, pairs in (("fail", only.failed), ("info", only.unknown)):
        assert sum(n for _, n in pairs) == sum(outcome == name for _, outcome, _ in sent)
    assert sum(only.acked) == sum(outcome == "ok" for _, outcome, _ in sent)
    assert sum(n for _, n in only.lost or ()) == len(gone)


def test_cells_have_titles_for_readers_and_their_names_without(tmp_path: Path) -> None:
    assert document(tmp_path, run()).cells[0].title == "c"
    history = tmp_path / "runs" / "1" / "history"
    cells = [cell_result("c", topic="t")]
    drawn = axis.read(1, history, (), cells, anomalies(), titles={"c": "acks=all"})
    assert drawn is not None
    assert (drawn.cells[0].name, drawn.cells[0].title) == ("c", "acks=all")


# --- faults


def test_faults_are_bands_with_links_to_their_rows(tmp_path: Path) -> None:
    faults = [
        *a_fault(10, 20),
        *a_fault(15, 30, fault_id=2, fault="pause"),
        *a_fault(31, 40, fault_id=3)[:2],
    ]
    bands = document(tmp_path, run(faults=faults)).faults
    assert [(one.label, one.anchor, one.lane) for one in bands] == [
        ("kill#1", "fault-1", 0),
        ("pause#2", "fault-2", 1),
        ("kill#3", "fault-3", 0),
    ]
    assert [(one.since, one.until, one.proven) for one in bands] == [
        (10, 20, True),
        (15, 30, True),
        (31, None, False),
    ]


def test_band_of_a_rolling_fault_has_each_broker_that_it_stopped(tmp_path: Path) -> None:
    servers = [
        ended(11, "broker-1", 0, 1),
        {"time": at(13), "server": "broker-1", "event": "started"},
        ended(14, "broker-2", 0, 1),
        ended(32, "broker-3", -9, 2),
    ]
    faults = [*a_fault(10, 20), *a_fault(31, 40, fault_id=2)]
    rolling, kill = document(tmp_path, run(faults=faults, servers=servers)).faults
    assert [(one.server, one.since, one.until) for one in rolling.stops] == [
        ("broker-1", 11, 13),
        ("broker-2", 14, None),
    ]
    assert kill.stops == ()


def test_links_of_a_later_run_are_its_own(tmp_path: Path) -> None:
    document(tmp_path, run())
    history = tmp_path / "runs" / "1" / "history"
    drawn = axis.read(2, history, timeline.faults(history), (), anomalies())
    assert drawn is not None
    assert [one.anchor for one in drawn.faults] == ["fault-1-run-2"]


# --- the cluster


def test_leaders_epochs_and_isrs_are_spans_of_each_partition(tmp_path: Path) -> None:
    cluster = [state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2,)), state(18, -1, 2, (2,))]
    (row,) = document(tmp_path, run(cluster=cluster)).partitions
    assert row.name == "t-0"
    assert [(one.since, one.leader, one.epoch, one.isr, one.needed) for one in row.spans or ()] == [
        (0, 1, 0, (1, 2, 3), 2),
        (12, 2, 1, (2,), 2),
        (18, -1, 2, (2,), 2),
    ]


def test_min_isr_is_the_one_in_force_while_a_fault_changes_it(tmp_path: Path) -> None:
    plan = PlannedFault(
        fault_id=1,
        fault="alter-min-isr",
        target="t",
        parameters={"min_insync_replicas": 1},
        start_ms=0,
        hold_ms=0,
    )
    made = run(
        faults=a_fault(10, 20, fault="alter-min-isr"), plan=[plan], cluster=[state(0, 1, 0, (1,))]
    )
    (row,) = document(tmp_path, made).partitions
    assert [(one.since, one.needed) for one in row.spans or ()] == [(0, 2), (10.1, 1), (20, 2)]


def test_facts_that_an_external_cluster_does_not_have_are_not_observed(tmp_path: Path) -> None:
    row = {**state(0, 1, 0, (1, 2)), "leader_epoch": None, "controller_epoch": None}
    drawn = document(tmp_path / "a", run(cluster=[row]))
    (span,) = drawn.partitions[0].spans or ()
    assert (span.leader, span.epoch, span.isr) == (1, None, (1, 2))
    assert [(one.name, one.spans) for one in drawn.cluster] == [
        ("controller", None),
        ("brokers", None),
    ]
    nothing = document(tmp_path / "b", run(cluster=[]))
    assert [one.spans for one in nothing.partitions] == [None]
    assert nothing.readers == []


def test_controller_and_sessions_of_brokers_are_rows(tmp_path: Path) -> None:
    cluster = [
        office(-5, 3),
        office(22, 1),
        {**connection(-5, "broker-up"), "broker": 1},
        {**connection(10, "broker-down"), "broker": 1},
        {**connection(20, "broker-up"), "broker": 1},
    ]
    rows = {one.name: one.spans or () for one in document(tmp_path, run(cluster=cluster)).cluster}
    assert [(one.since, one.words) for one in rows["controller"]] == [
        (0, "3, epoch 1"),
        (22, "1, epoch 1"),
    ]
    assert [(one.since, one.words, one.well) for one in rows["broker-1"]] == [
        (0, "registered", True),
        (10, "not registered", False),
        (20, "registered", True),
    ]


def test_times_without_observation_are_recorded(tmp_path: Path) -> None:
    lost, back = connection(12, "zookeeper-lost"), connection(15, "zookeeper-back")
    again = connection(30, "zookeeper-lost")
    drawn = document(tmp_path, run(cluster=[lost, back, again]))
    assert drawn.unobserved == [(12, 15), (30, pytest.approx(40.2))]


def test_many_changes_of_a_partition_keep_the_smallest_isr_of_each_bin() -> None:
    rows = [state(n / 4, 1, n, (1,) if n % 4 == 3 else (1, 2, 3)) for n in range(4_000)]
    planned = cell().cell
    ((row,), left) = partition_rows(rows, [planned], (), bins(at(0), at(1_000)), {})
    spans = row.spans or ()
    assert left == 0
    assert len(spans) <= 2 * POINTS_MAX
    assert {len(one.isr or ()) for one in spans} == {1}
    assert sum(one.changes for one in spans if one.changes > 1) == 4_000


def test_partitions_with_losses_and_small_isrs_are_chosen_if_there_are_many() -> None:
    planned = cell(partitions=500).cell
    rows = [state(0, 1, 0, (1, 2, 3), partition=n) for n in range(500)]
    rows.append(state(3, 1, 0, (1,), partition=321))
    damage = {("t", 123): Damage([(3, 4)], []), ("t", 77): Damage([], [(3, 5)])}
    found, left = partition_rows(rows, [planned], (), bins(at(0), at(10)), damage)
    assert (len(found), left) == (PARTITIONS_MAX, 500 - PARTITIONS_MAX)
    ranks = {one.rank: one.name for one in found}
    assert [ranks[n] for n in range(3)] == ["t-77", "t-123", "t-321"]
    assert [one.name for one in found] == sorted(
        (one.name for one in found), key=lambda name: int(name[2:])
    )


# --- consumers


def with_consumers(*consumers: MadeConsumer, **changes: Any) -> MadeRun:
    """Return a run with three records, acked at 5, 15 and 40 seconds."""
    cells = (cell(groups={"g": "at-least-once"}),)
    return run(**{"cells": cells, "consumers": consumers, **changes})


def curve(values: Iterable[int] | None, drawn: Document) -> Mapping[float, int]:
    """Return the values of a curve by the seconds at which it changes."""
    found: dict[float, int] = {}
    for place, value in enumerate(values or ()):
        if not found or value != list(found.values())[-1]:
            found[round(place * drawn.bin_s, 3)] = value
    return found


def test_tail_reader_has_lag_and_undelivered_records(tmp_path: Path) -> None:
    polls = [seen(1, 0, 1, 0, at(6)), seen(2, 1, 1, 1, at(20))]
    made = MadeConsumer(polls=polls, assigned=[assigned(0, at(1), 0)])
    drawn = document(tmp_path, with_consumers(made))
    (one,) = drawn.readers
    assert (one.name, one.marks, one.why) == ("reader-0", None, "")
    assert curve(one.undelivered, drawn) == {0: 0, 5: 1, 6: 0, 15: 1, 20: 0, 40: 1}
    assert curve(one.lag, drawn) == curve(one.undelivered, drawn)


def test_lag_of_a_group_is_that_of_its_commits_and_its_members_are_marked(tmp_path: Path) -> None:
    member = MadeConsumer(
        client="m-0",
        group="g",
        polls=[seen(1, 0, 1, 0, at(6)), seen(2, 1, 1, 1, at(20))],
        assigned=[assigned(0, at(1)), assigned(2, at(21), event="revoked")],
        commits=committed_ok(1, at(8), 1, 1),
    )
    drawn = document(tmp_path, with_consumers(member))
    (one,) = drawn.readers
    assert curve(one.lag, drawn) == {0: 0, 5: 1, 8: 0, 15: 1, 40: 2}
    assert curve(one.undelivered, drawn) == {0: 0, 5: 1, 6: 0, 15: 1, 20: 0, 40: 1}
    assert [(mark.at, mark.words) for mark in one.marks or ()] == [
        (1, "m-0: 1 assigned"),
        (21, "m-0: 1 revoked"),
    ]


def test_lag_without_commits_or_offsets_is_not_observed(tmp_path: Path) -> None:
    member = MadeConsumer(client="m-0", group="g", assigned=[assigned(0, at(1))])
    (group,) = document(tmp_path / "a", with_consumers(member)).readers
    assert group.lag is None
    assert "no commit" in group.why
    sends = [send("invoke", 1, 0, at(5)), send("ok", 1, 0, at(5))]
    silent = run(
        cells=(cell(ACKS_0),),
        partitions={("t", 0): Made(sends=sends, log=[entry(0, 1, 0)], end=1)},
        consumers=[MadeConsumer(assigned=[assigned(0, at(1), 0)])],
    )
    (tail,) = document(tmp_path / "b", silent).readers
    assert tail.lag is None
    assert "acks=0" in tail.why
    assert tail.undelivered is not None


def test_planned_consumer_without_rows_is_not_observed(tmp_path: Path) -> None:
    (one,) = document(tmp_path, with_consumers(MadeConsumer())).readers
    assert (one.name, one.lag, one.undelivered) == ("reader-0", None, None)
    assert "no partition of this consumer" in one.why


def test_damaged_polls_cost_the_other_charts_nothing(tmp_path: Path) -> None:
    polls = [seen(1, 0, 1, 0, at(6))]
    made = MadeConsumer(polls=polls, assigned=[assigned(0, at(1), 0)])
    document(tmp_path, with_consumers(made))
    history = tmp_path / "runs" / "1" / "history"
    (file,) = history.glob("polls.*")
    file.write_bytes(file.read_bytes()[:-20])
    planned = manifest.read(tmp_path).runs[0]
    cells = [cell_result("c", topic="t", settings=planned.cells[0].cell.settings)]
    drawn = axis.read(1, history, (), cells, anomalies(), planned)
    assert drawn is not None
    assert drawn.readers == []
    assert file.name in drawn.readers_damage
    assert sum(drawn.cells[0].acked) == 3


def test_records_of_a_transactional_cell_are_not_counted_as_undelivered(tmp_path: Path) -> None:
    made = MadeConsumer(assigned=[assigned(0, at(1), 0)])
    run_of_it = with_consumers(made, cells=(cell().model_copy(update={"transactional": True}),))
    (one,) = document(tmp_path, run_of_it).readers
    assert one.undelivered is None
    assert "aborted" in one.why
    assert one.lag is not None


def test_record_that_was_read_before_its_ack_is_never_undelivered(tmp_path: Path) -> None:
    polls = [seen(n + 1, n, 1, n, at(when)) for n, when in enumerate((4, 14, 39))]
    made = MadeConsumer(polls=polls, assigned=[assigned(0, at(1), 0)])
    drawn = document(tmp_path, with_consumers(made))
    assert curve(drawn.readers[0].undelivered, drawn) == {0: 0}
    assert set(drawn.readers[0].lag or ()) == {0}


# --- the document


def test_json_cannot_end_its_element(tmp_path: Path) -> None:
    wicked = "</script><!--<script>&"
    drawn = document(tmp_path, run())
    text = replace(drawn, cells=[replace(drawn.cells[0], name=wicked)]).to_json()
    assert not set("<>&") & set(text)
    assert json.loads(text)["cells"][0]["name"] == wicked


def test_run_without_sends_has_no_axis(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(partitions={}))
    history = directory / "runs" / "1" / "history"
    cells: list[CellResult] = []
    assert axis.read(1, history, (), cells, anomalies()) is None


def test_named_version_of_the_library_is_the_one_in_the_page() -> None:
    assert "(v1." in axis.assets().script
    assert "Permission is hereby granted" in axis.assets().script
    assert "</script" not in axis.assets().script


def test_document_of_a_four_hour_run_of_17_cells_is_small(tmp_path: Path) -> None:
    drawn = document(tmp_path, run())
    latency = Latencies(p50=[12.34] * 600, p99=[123.4] * 600, p999=[1234.0] * 600)
    (only,), (partition,) = drawn.cells, drawn.partitions
    full = [(place, 12) for place in range(600)]
    busy = replace(only, acked=[3000] * 600, failed=full, unknown=full, lost=full, latency=latency)
    span = PartitionSpan(since=12_345.678, leader=1, epoch=12, isr=(1, 2, 3), needed=2)
    row = replace(partition, spans=[span] * 600, lost=full)
    large = replace(drawn, cells=[busy] * 17, partitions=[row] * 51, latency=latency)
    assert len(large.to_json()) < 2_500_000
