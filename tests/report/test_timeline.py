"""Faults over time: whose names stand where, and which are steps of a story."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import Verdict
from ackproof.harness import report
from ackproof.harness.report import figures, timeline
from ackproof.harness.report.rows import rows
from ackproof.harness.report.timeline import FaultSpan, StoryPart, Timeline
from ackproof.history.manifest import PlannedFault
from ackproof.history.schema import LOST_WITH_POD, TABLES
from tests.support.builders.checked_runs import checked
from tests.support.builders.histories import MadeRun, a_fault, kept, write_campaign
from tests.support.builders.results import cell_result, of_cells

T0 = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def span(number: int, start: int, end: int | None, part: StoryPart | None = None) -> FaultSpan:
    """A fault, in seconds since the first ack."""
    return FaultSpan(
        fault_id=number,
        fault="kill",
        target="one",
        servers=("broker-1",),
        start=T0 + start * SECOND,
        end=None if end is None else T0 + end * SECOND,
        injected=True,
        proven=True,
        evidence={},
        healing={},
        part=part,
    )


def stands(faults: list[FaultSpan], *, lasts: int = 100) -> list[tuple[str, int]]:
    """The names over a picture of so many seconds, and how high."""
    first = T0 // SECOND
    return [(one.text, one.storey) for one in figures.names(faults, first, first + lasts)]


def test_faults_that_overlap_have_their_names_above_each_other() -> None:
    faults = [span(1, 0, 10), span(2, 5, 20), span(3, 12, None), span(4, 30, 40)]
    assert stands(faults) == [("kill#1", 0), ("kill#2", 1), ("kill#3", 0), ("kill#4", 1)]


def test_no_name_reaches_beyond_the_picture() -> None:
    """However near its side the band is."""
    faults = [span(1, 0, 1), span(2, 50, 51), span(3, 99, None)]
    first, middle, last = figures.names(faults, T0 // SECOND, T0 // SECOND + 100)
    half = len("kill#1") * 100 / 105 / 2
    assert [one.middle for one in (first, middle, last)] == pytest.approx([half, 50.5, 100 - half])


def test_so_have_faults_that_are_short_for_their_names() -> None:
    faults = [span(1, 10, 12), span(2, 13, 15)]
    assert stands(faults) == [("kill#1", 0), ("kill#2", 1)]
    assert stands(faults, lasts=20) == [("kill#1", 0), ("kill#2", 0)]


def test_the_steps_of_a_story_stand_below_its_name() -> None:
    def step(name: str) -> StoryPart:
        return StoryPart(story="crash-loop#1", step=name, partition="t-0")

    faults = [span(1, 2, 20, step("first")), span(2, 18, 40, step("second")), span(3, 30, 70)]
    assert stands(faults) == [
        ("first", 0),
        ("second", 1),
        ("crash-loop#1", 2),
        ("kill#3", 0),
    ]
    *_, title, other = figures.names(faults, T0 // SECOND, T0 // SECOND + 100)
    assert (title.start, title.end, title.spans) == (2, 40, True)
    assert other.colour != title.colour


def test_a_fault_of_a_story_is_shown_as_its_step(tmp_path: Path) -> None:
    told = {"fault": "kill", "target": "leader(t, 0)", "start_ms": 0, "hold_ms": 0}
    plan = [
        PlannedFault(fault_id=1, story="crash-loop#1 bounce-1", partition=("t", 0), **told),
        PlannedFault(fault_id=2, story="rolling-restart#2 restart-1", **told),
        PlannedFault(fault_id=3, **told),
    ]
    faults = [row for n in (1, 2, 3) for row in a_fault(10 * n, 10 * n + 8, fault_id=n)]
    made = MadeRun(partitions={("t", 0): kept(*range(1, 50))}, faults=faults, plan=plan)
    directory = write_campaign(tmp_path, made)
    pq.write_table(ANOMALIES.empty_table(), directory / "anomalies.parquet")
    page = report.write(directory, checked(directory)).page.read_text()
    rows = re.findall(r"<b>(kill#\d)</b>(.*?)<span class=\"part\">broker", page, re.DOTALL)
    assert [(label, re.sub(r"\s*<[^>]*>\s*", "", part).strip()) for label, part in rows] == [
        ("kill#1", "crash-loop#1 on t-0: bounce-1"),
        ("kill#2", "rolling-restart#2: restart-1"),
        ("kill#3", ""),
    ]
    picture = page[page.index("<svg", page.index("over time</h2>")) :]
    picture = picture[: picture.index("</svg>")]
    for name in ("crash-loop#1", "bounce-1", "rolling-restart#2", "restart-1", "kill#3"):
        assert f">{name}</text>" in picture
    assert ">kill#1</text>" not in picture


def test_nodes_of_a_fault_and_storage_that_it_took_are_named(tmp_path: Path) -> None:
    facts = json.dumps({"pods": {"broker-1": {"node": "node-7", "uid": "u"}}})
    lost = json.dumps({LOST_WITH_POD: {"broker-1": "the emptyDir volume data"}})
    faults = [
        {**row, "facts": facts, "evidence": lost if row["event"] == "injected" else None}
        for row in a_fault(10, 18, fault="drain", destroys="all")
    ]
    made = MadeRun(partitions={("t", 0): kept(*range(1, 50))}, faults=faults)
    directory = write_campaign(tmp_path, made)
    pq.write_table(ANOMALIES.empty_table(), directory / "anomalies.parquet")
    page = report.write(directory, checked(directory)).page.read_text()
    assert '<span class="part">broker-1 on node-7</span>' in page
    assert "(broker-1: the emptyDir volume data). The loss of a record" in page


def test_events_of_coordinators_and_replicas_are_read(tmp_path: Path) -> None:
    made = MadeRun(partitions={("t", 0): kept(*range(1, 50))})
    run = write_campaign(tmp_path, made) / "runs" / "1"
    history = run / "history"
    cluster = [
        {"kind": "partition", "topic": topic, "partition": 0, "leader": leader, "time": T0 + time}
        | {"leader_epoch": epoch}
        for topic, leader, epoch, time in (
            ("t", 1, 0, 1),
            ("t", 2, 1, 5),
            ("__consumer_offsets", 1, 0, 2),
            ("__consumer_offsets", 2, 1, 7),
        )
    ]
    commits = [
        {"client": "m", "group": "g", "commit": 1, "type": kind, "topic": "t", "partition": 0}
        | {"offset": 3, "poll": 1, "time": T0 + time * SECOND}
        for kind, time in (("invoke", 3), ("ok", 4))
    ]
    sessions = [
        {"client": "p", "cell": "c", "transactional_id": "x", "producer": number}
        | {"transaction": 0, "event": "init", "type": "ok", "time": T0 + number}
        for number in (0, 1)
    ]
    for table, written in (("cluster", cluster), ("commits", commits), ("transactions", sessions)):
        rows_of = pa.Table.from_pylist(written, TABLES[table])
        pq.write_table(rows_of, history / f"{table}.events.parquet")
    assert timeline.read(history).truncations is None, "without logs they are unknown"
    log = run / "logs" / "broker-1" / "state-change.log"
    log.parent.mkdir(parents=True)
    common = {"change": "Truncate", "broker": 1, "leader": 2, "due_to": "x", "partition": "t-0"}
    lines = [
        {**common, "leader_epoch": epoch, "log_end_offset": 9, "offset": offset}
        for epoch, offset in ((1, 5), (1, 9), (8, 2))  # the second removes nothing
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = timeline.read(history)
    assert found.truncations == {"t": [T0 + 5]}, "an epoch that was not observed has no time"
    assert found.coordinator_changes == [T0 + 7], "the first leader is no change"
    assert found.commits == {"t": {T0 // SECOND + 4}}
    assert found.fencings == {"c": [T0 + 1]}


@pytest.mark.parametrize(("width", "means"), [(1, {10: 4, 11: 2, 13: 6}), (3, {10: 2, 13: 2})])
def test_points_of_a_long_picture_are_means_of_several_seconds(
    width: int, means: dict[int, float]
) -> None:
    assert figures._means({10: 4, 11: 2, 13: 6}, 10, width) == means


def test_picture_of_a_long_run_is_as_small_as_that_of_a_short_one() -> None:
    def size(seconds: int) -> int:
        first = T0 // SECOND
        acks = {"c": {first + n: 100 + n % 7 for n in range(seconds)}}
        return len(
            figures.timeline(Timeline(acks=acks), rows(of_cells(Verdict.PASS, cell_result("c"))))
        )

    assert size(4 * 3600) < 1.5 * size(600)
