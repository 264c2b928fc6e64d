"""Incomplete tables of the run as a whole: their results are unknown, never broken and never
excused. Unplanned faults and writers have the same effect."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.faults import TAKE_NOTHING
from ackproof.checkers.verdict import Verdict
from ackproof.history.manifest import UNORDERED, PlannedFault
from ackproof.history.schema import TABLES
from ackproof.history.writer import TableWriter
from ackproof.nemesis import FAULTS
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    NOT_GUARANTEED,
    PASS,
    checked,
    told,
)
from tests.support.builders.examples import examples
from tests.support.builders.histories import (
    ACKS_1,
    AFTER,
    ALL,
    BEFORE,
    DURING,
    FINISHED,
    KILL,
    UNCLEAN,
    Made,
    MadeRun,
    a_fault,
    at,
    cell,
    connection,
    ended,
    entry,
    fault_rows,
    history_of,
    kept,
    losing,
    recovered,
    state,
    write_campaign,
)

WELL = kept(BEFORE, DURING, AFTER, 100)
STAYS = [state(-5, 1, 0, (1, 2, 3))]
TAKEN = [*STAYS, state(13, 2, 1, (2, 3)), state(22, 2, 1, (2, 3, 1))]
ZOMBIE = losing(kept(BEFORE, DURING, 58, 100), 2)
"""Its leader was cut off from 10 s to 60 s, deposed at 13 s, and what it acked at 58 s is lost."""
CUT_OFF = a_fault(10, 60, fault="isolate")
POWER = a_fault(
    10,
    20,
    fault="power-failure",
    destroys="unsynced",
    servers=("broker-1", "broker-2", "broker-3"),
)


def made(partition: Made, **changes: Any) -> MadeRun:
    given = {"cells": [cell(ALL)], "cluster": TAKEN, **changes}
    return MadeRun(partitions={("t", 0): partition}, **given)


def table_of(directory: Path, table: str) -> Path:
    (path,) = history_of(directory).glob(f"{table}.harness.parquet")
    return path


def undigested(directory: Path) -> Path:
    """Take the digests out of a run's closings, as of a history from before there were any: what is
    left of a file that is short then counts."""
    for path in history_of(directory).glob("closings.*"):
        rows = pq.read_table(path)
        digests = pa.nulls(len(rows), pa.string())
        place = rows.column_names.index("digest")
        pq.write_table(rows.set_column(place, "digest", digests), path)
    return directory


def without(directory: Path, table: str, places: Sequence[int]) -> None:
    """Remove rows of a table; its closing stays as it was."""
    path = table_of(directory, table)
    rows = pq.read_table(path)
    kept_rows = pa.array([number not in set(places) for number in range(len(rows))], pa.bool_())
    pq.write_table(rows.filter(kept_rows), path)


def stray(directory: Path, table: str, writer: str, *rows: dict[str, Any], **where: Any) -> None:
    """Add a file by an unplanned writer."""
    writing = TableWriter(history_of(directory), table, writer, **where)
    for row in rows:
        writing.append(tuple(row.get(name) for name in TABLES[table].names))
    writing.close()


SPOILS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "a stray copy": lambda path: shutil.copy(path, path.with_name("faults.harness.bak.parquet")),
    "another writer's": lambda path: shutil.copy(path, path.with_name("faults.other.parquet")),
    "short": lambda path: pq.write_table(pq.read_table(path).slice(0, 2), path),
    "empty": lambda path: pq.write_table(pq.read_table(path).slice(0, 0), path),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_loss_that_a_fault_may_excuse_is_inconclusive_where_the_faults_are_not_whole(
    tmp_path: Path, spoil: str
) -> None:
    for name, one in {
        "acks=1": made(ZOMBIE, cells=[cell(ACKS_1)], faults=CUT_OFF),
        "acks=all": made(losing(WELL, 0), cluster=STAYS, faults=POWER),
    }.items():
        directory = write_campaign(tmp_path / name, one)
        assert checked(directory).verdict is NOT_GUARANTEED
        SPOILS[spoil](table_of(directory, "faults"))
        result = checked(directory)
        assert result.verdict is INCONCLUSIVE
        assert "faults" in told(result)


@pytest.mark.parametrize("spoil", SPOILS)
def test_loss_that_no_planned_fault_can_excuse_fails_whatever_became_of_the_table(
    tmp_path: Path, spoil: str
) -> None:
    """A kill takes nothing from disks, and acks=all outlives an election."""
    directory = write_campaign(tmp_path, made(losing(WELL, 0)))
    SPOILS[spoil](table_of(directory, "faults"))
    assert checked(directory).verdict is FAIL


@pytest.mark.parametrize("fault", ["kill", UNORDERED])
def test_loss_with_the_storage_of_pods_is_inconclusive_where_the_faults_are_not_whole(
    tmp_path: Path, fault: str
) -> None:
    ended = a_fault(10, 20, fault_id=2, fault=fault, destroys="all", servers=POWER[0]["servers"])
    plan = [
        PlannedFault(fault_id=number, fault=name, target="leader(t, 0)", start_ms=0, hold_ms=0)
        for number, name in ((1, "isolate"), (2, fault))
        if name != UNORDERED
    ]
    lost = made(losing(WELL, 0), cluster=STAYS, faults=[*CUT_OFF, *ended], plan=plan, external=True)
    directory = write_campaign(tmp_path, lost)
    assert checked(directory).verdict is NOT_GUARANTEED
    table_of(directory, "faults").unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_planned_fault_without_rows_may_excuse_a_loss_unless_the_run_was_interrupted(
    tmp_path: Path,
) -> None:
    plan = [
        PlannedFault(fault_id=1, fault="kill", target="leader(t, 0)", start_ms=0, hold_ms=0),
        PlannedFault(fault_id=2, fault="isolate", target="leader(t, 0)", start_ms=0, hold_ms=0),
    ]
    lost = made(losing(WELL, 3), cells=[cell(ACKS_1)], plan=plan)
    result = checked(write_campaign(tmp_path / "lost", lost))
    assert result.verdict is INCONCLUSIVE
    assert "isolate#2 on leader(t, 0): the history has no record of it" in told(result)
    stopped = [row for row in FINISHED if (row["phase"], row["event"]) != ("faults", "end")]
    begun_no_more = made(losing(WELL, 3), cells=[cell(ACKS_1)], plan=plan, phases=stopped)
    assert checked(write_campaign(tmp_path / "stopped", begun_no_more)).verdict is FAIL


def test_loss_is_inconclusive_where_rows_of_the_cluster_are_missing(tmp_path: Path) -> None:
    lost = made(losing(WELL, 0), cells=[cell(ACKS_1)])
    directory = undigested(write_campaign(tmp_path, lost))
    assert checked(directory).verdict is NOT_GUARANTEED
    without(directory, "cluster", [1, 2])
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert "cluster by harness holds 1 rows, but its writer closed it with 3" in told(result)


def test_faults_that_take_nothing_are_those_of_the_catalogue() -> None:
    taking_nothing = {name for name, one in FAULTS.items() if one.destroys is None}
    assert taking_nothing | {UNORDERED} == TAKE_NOTHING


# --- what the manifest does not plan ------------------------------------------------------------


def intruder(destroys: str, fault_id: int = 9) -> list[dict[str, Any]]:
    return [{**row, "fault_id": fault_id, "fault": "wipe", "destroys": destroys} for row in POWER]


@pytest.mark.parametrize("destroys", ["all", "unsynced", "bits", "nonsense", "unclean"])
def test_fault_that_the_manifest_does_not_plan_excuses_no_loss(
    tmp_path: Path, destroys: str
) -> None:
    directory = write_campaign(tmp_path, made(losing(WELL, 0), cluster=STAYS))
    assert checked(directory).verdict is FAIL
    stray(directory, "faults", "intruder", *intruder(destroys))
    result = checked(directory)
    # An order to elect uncleanly takes nothing by itself, and no broker was elected so.
    assert result.verdict is (FAIL if destroys == "unclean" else INCONCLUSIVE)
    assert "faults by intruder: the manifest plans no such writer" in told(result)
    assert "wipe#9 on leader(t, 0): the manifest plans no such fault" in told(result)


def test_planned_fault_that_destroys_no_known_word_excuses_no_loss(tmp_path: Path) -> None:
    faults = [{**row, "destroys": "nonsense"} for row in POWER]
    lost = made(losing(WELL, 0), cluster=STAYS, faults=faults)
    result = checked(write_campaign(tmp_path, lost))
    assert result.verdict is INCONCLUSIVE
    assert "destroys 'nonsense', which is not known" in told(result)


def test_planned_fault_excuses_nothing_with_the_help_of_one_that_is_not(tmp_path: Path) -> None:
    """2 loses its disk by a planned fault; 1, the other of the ISR, by an unplanned one."""
    first = [{**row, "servers": ["broker-1"]} for row in intruder("all")]
    second = a_fault(50, 60, fault_id=2, destroys="all", servers=("broker-2",))
    plan = [PlannedFault(fault_id=2, fault="kill", target="t", start_ms=0, hold_ms=0)]
    two = {**ALL, "min.insync.replicas": 1, "replication.factor": 2}
    pair = [state(-5, 1, 0, (1, 2))]
    for name, planned, verdict in (
        ("planned", None, NOT_GUARANTEED),
        ("unplanned", plan, INCONCLUSIVE),
    ):
        run = made(
            losing(WELL, 0),
            cells=[cell(two)],
            cluster=pair,
            faults=[*first, *second],
            plan=planned,
            recovery=[recovered(isr=(1, 2))],
        )
        result = checked(write_campaign(tmp_path / name, run))
        assert result.verdict is verdict, told(result)
        (no_loss, *_) = result.cells[0].guarantees
        assert (no_loss.held is None) == (name == "unplanned")


def test_unplanned_fault_costs_the_cells_that_it_touches(tmp_path: Path) -> None:
    """And a campaign that says that it breaks nothing is no baseline with it."""
    kill = PlannedFault(fault_id=1, fault="kill", target="leader(t, 0)", start_ms=0, hold_ms=0)
    for name, partitions, verdict in (("here", ("t-0",), INCONCLUSIVE), ("else", ("u-0",), PASS)):
        second = a_fault(30, 35, fault_id=2, partitions=partitions)
        run = made(WELL, faults=[*KILL, *second], plan=[kill])
        assert checked(write_campaign(tmp_path / name, run)).verdict is verdict
    run = made(WELL, plan=[])
    baseline = checked(write_campaign(tmp_path / "baseline", run, baseline=True))
    assert baseline.verdict is INCONCLUSIVE


@pytest.mark.parametrize("table", ["log", "sends"])
def test_file_of_an_unplanned_writer_prevents_a_pass(tmp_path: Path, table: str) -> None:
    """It may hold the only copy of a record."""
    directory = write_campaign(tmp_path, made(WELL))
    row = {"cell": "c", "topic": "t", "partition": 0, "offset": 9, "producer": 1, "sequence": 9}
    events = {"type": "invoke", "time": at(1), "timestamp": 0}
    stray(directory, table, "stranger", {**row, **events}, partition=("t", 0))
    result = checked(directory)
    assert result.verdict is not PASS
    assert f"{table} of t-0 by stranger: the manifest plans no such writer" in told(result)


# --- tables that are short, whatever the run ----------------------------------------------------

SHRUNK = [state(-5, 1, 0, (1, 2, 3), version=0), state(5, 1, 1, (1,), version=1)]
EPOCHS_BACK = [
    state(-5, 1, 3, (1, 2, 3), version=0),
    connection(1, "zookeeper-lost"),
    connection(2, "zookeeper-back"),
    state(3, 1, 2, (1, 2, 3), version=1),
]
DELETING = PlannedFault(
    fault_id=1,
    fault="advance-log-start",
    target="topic(t)",
    parameters={"before_offset": 2},
    start_ms=0,
    hold_ms=0,
)
STARTED = [{"time": at(-9), "server": f"broker-{n}", "event": "started"} for n in (1, 2, 3)]
RUNS = {
    "whole": made(WELL),
    "lost": made(losing(WELL, 0)),
    "excused by a fault": made(ZOMBIE, cells=[cell(ACKS_1)], faults=CUT_OFF),
    "excused by an election": made(losing(WELL, 0), cells=[cell(ACKS_1)]),
    "excused by power": made(losing(WELL, 0), cluster=STAYS, faults=POWER),
    "elected uncleanly": made(losing(WELL, 0), cells=[cell(UNCLEAN)], cluster=SHRUNK + TAKEN[1:]),
    "below min.insync.replicas": made(WELL, cluster=SHRUNK),
    "an epoch that went back unseen": made(WELL, cluster=EPOCHS_BACK),
    "deleted": made(
        WELL.but(log=WELL.log[2:], start=2),
        faults=a_fault(servers=(), fault="advance-log-start"),
        plan=[DELETING],
    ),
    "ended by a fault": made(WELL, servers=[*STARTED, ended(10.2, "broker-1", -9, 1)]),
    "ended by itself": made(WELL, servers=[*STARTED, ended(50, "broker-1", 1)]),
    "not recovered": made(WELL, recovery=[recovered(isr=(1,), whole=False, seconds=85)]),
    "recovered late": made(
        WELL, recovery=[recovered(seconds=200)], cluster=[*TAKEN[:2], state(79, 2, 1, (2, 3, 1))]
    ),
    "phantom": made(WELL.but(log=[*WELL.log, entry(4)], end=5)),
}
SHORT = ("faults", "cluster", "servers", "recovery", "phases", "clocks")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Verdict]]:
    """Each of these runs, and its verdict."""
    root = tmp_path_factory.mktemp("runs")
    paths = {name: undigested(write_campaign(root / name, run)) for name, run in RUNS.items()}
    return {name: (path, checked(path).verdict) for name, path in paths.items()}


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_rows_that_are_missing_turn_nothing_into_fail_and_no_fail_into_pass(
    written: dict[str, tuple[Path, Verdict]],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(sorted(RUNS)))
    table = data.draw(st.sampled_from(SHORT))
    whole, before = written[name]
    rows = len(pq.read_table(table_of(whole, table)))
    places = st.integers(0, rows - 1)
    gone = data.draw(st.lists(places, min_size=1, unique=True) | st.just(list(range(rows))))
    directory = tmp_path_factory.mktemp("short") / "run"
    shutil.copytree(whole, directory)
    without(directory, table, gone)
    after = checked(directory).verdict
    assert after in ((FAIL, INCONCLUSIVE) if before is FAIL else (INCONCLUSIVE,))
    shutil.rmtree(directory)


# --- servers ------------------------------------------------------------------------------------


def of_servers(*rows: dict[str, Any], faults: Any = KILL) -> MadeRun:
    return made(WELL, servers=[*STARTED, *rows], faults=faults)


def started(seconds: float, server: str = "broker-1") -> dict[str, Any]:
    return {"time": at(seconds), "server": server, "event": "started"}


UNHEALED = fault_rows(
    ("inject", 10, None),
    ("injected", 10.1, None),
    ("verified", 10.2, True),
    ("heal", 19.9, None),
    ("healed", 50, False),
    fault="disk-failure",
    destroys="unsynced",
)
STRUCK = ended(10.5, "broker-1", -9, 1)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        # It was started again at the heal, and crashes; the fault is still open.
        ([STRUCK, started(20), ended(22, "broker-1", 1, 1)], "broker-1 ended by itself, exit code"),
        ([STRUCK, started(20), ended(22, "broker-1", -11, 1)], "broker-1 ended by itself, signal"),
        ([ended(12, "broker-1", -9, 7)], "broker-1 ended by itself"),  # there is no fault 7
        ([ended(12, "broker-2", 1, 1)], "broker-2 ended by itself"),  # the fault was on broker 1
        ([started(-5), ended(90, "broker-1", 1, 1)], "broker-1 ended by itself"),  # long healed
        ([ended(5, "broker-1", 1, 1)], None),  # within what a look may be late
        ([STRUCK, started(20)], None),
        ([STRUCK, started(20), ended(22, "broker-1", -9, 1), started(23)], None),  # healed again
    ],
)
def test_end_is_the_faults_only_as_far_as_its_effect_reaches(
    tmp_path: Path, rows: list[dict[str, Any]], words: str | None
) -> None:
    result = checked(write_campaign(tmp_path, of_servers(*rows)))
    assert result.verdict is (PASS if words is None else FAIL)
    assert (words or "no-acked-record-lost") in told(result)


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(10.05, PASS), (11, FAIL)], ids=["before", "after"]
)
def test_evicted_broker_that_ends_again_on_another_node_has_ended_by_itself(
    tmp_path: Path, seconds: float, verdict: Verdict
) -> None:
    """Test that a drain explains only the ends of processes that ran before the last eviction."""
    drained = [{**row, "fault": "drain"} for row in KILL]
    first = ended(10.03, "broker-1", 0, 1)
    again = ended(12, "broker-1", 1, 1)
    run = of_servers(first, started(seconds), again, started(13), faults=drained)
    assert checked(write_campaign(tmp_path, run)).verdict is verdict


@pytest.mark.parametrize("fault", ["unordered-restart", "operator-roll"])
@pytest.mark.parametrize(
    ("crashes", "verdict"), [((), PASS), ((ended(15, "broker-1", 1, 1), started(16)), FAIL)]
)
def test_pod_that_is_replaced_explains_the_end_of_its_broker_and_no_crash_of_the_next(
    tmp_path: Path, fault: str, crashes: tuple[dict[str, Any], ...], verdict: Verdict
) -> None:
    rolled = [{**row, "fault": fault} for row in KILL]
    rows = [started(1), ended(11, "broker-1", None, 1), started(12), *crashes]
    result = checked(write_campaign(tmp_path, of_servers(*rows, faults=rolled)))
    assert result.verdict is verdict


def test_late_restart_that_the_campaign_did_not_order_costs_no_verdict(tmp_path: Path) -> None:
    """Nothing is acknowledged after it, because the clients have ended."""
    late = a_fault(200, 230, fault_id=2, fault="unordered-restart")
    rows = [started(1), ended(201, "broker-1", None, 2), started(220)]
    result = checked(write_campaign(tmp_path, of_servers(*rows, faults=[*KILL, *late])))
    assert result.verdict is PASS


def test_restart_that_the_campaign_did_not_order_is_a_finding(tmp_path: Path) -> None:
    by = {"restarted by": {"broker-1": "strimzi.io/cluster-operator: ManualRollingUpdate"}}
    restart = a_fault(30, 34, fault_id=2, fault="unordered-restart")
    restart[-1]["evidence"] = json.dumps(by)
    gone = fault_rows(("inject", 40, None), fault_id=3, fault="unordered-restart")
    rows = [started(1), ended(31, "broker-1", None, 2), started(33)]
    made = of_servers(*rows, faults=[*KILL, *restart])
    result = checked(write_campaign(tmp_path / "back", made))
    assert result.verdict is PASS
    assert (
        "unordered-restart#2: broker-1 was restarted, not by this campaign; by: "
        "strimzi.io/cluster-operator: ManualRollingUpdate"
    ) in "".join(result.findings)
    made = of_servers(*rows, faults=[*KILL, *restart, *gone])
    result = checked(write_campaign(tmp_path / "gone", made))
    assert result.verdict is INCONCLUSIVE
    assert "unordered-restart#3: broker-1 was restarted, not by" in "".join(result.findings)


def test_crash_at_a_restart_is_named_first_with_the_last_error_of_the_log(tmp_path: Path) -> None:
    rows = [STRUCK, started(20), ended(22, "broker-1", 1, 1)]
    directory = write_campaign(tmp_path, of_servers(*rows, faults=UNHEALED))
    log = directory / "runs" / "1" / "logs" / "broker-1" / "broker-1.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "INFO begins\n[...] ERROR cannot open the log of t-0: I/O error (broker)\nINFO ends\n"
    )
    result = checked(directory)
    assert result.verdict is FAIL
    first, *others = result.cells[0].reasons
    assert "servers-stay-up: broker-1 ended by itself, exit code 1" in first
    assert "the last error in its log: [...] ERROR cannot open the log of t-0" in first
    assert "no ack after" not in "".join(others)


@pytest.mark.parametrize(
    ("fault", "verdict"), [("kill", INCONCLUSIVE), ("disk-full", FAIL)], ids=["ours", "theirs"]
)
def test_end_on_a_full_disk_is_a_defect_only_if_a_fault_filled_it(
    tmp_path: Path, fault: str, verdict: Verdict
) -> None:
    faults = [{**row, "fault": fault} for row in KILL]
    rows = [STRUCK, started(20), ended(40, "broker-1", 1)]
    directory = write_campaign(tmp_path, of_servers(*rows, faults=faults))
    log = directory / "runs" / "1" / "logs" / "broker-1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "ERROR Error while writing to t-0 (kafka.server)\n"
        "java.io.IOException: No space left on device\n"
        "FATAL Shutdown broker because all log dirs have failed\n"
    )
    result = checked(directory)
    assert result.verdict is verdict
    assert ("its disk was full" in told(result)) is (verdict is INCONCLUSIVE)


def test_end_of_a_server_is_a_finding_where_it_breaks_nothing(tmp_path: Path) -> None:
    """Such as that of a container on a cluster of one's own, whose processes no agent sees."""
    rows = [STRUCK, started(20), {**ended(40, "broker-1", 137), "detail": "OOMKilled"}]
    directory = write_campaign(tmp_path, of_servers(*rows))
    file = directory / "manifest.json"
    document = json.loads(file.read_text())
    document["runs"][0]["unchecked"] = {"servers-stay-up": "no agent is beside the brokers"}
    file.write_text(json.dumps(document))
    result = checked(directory)
    assert result.verdict is PASS
    assert "run 1: broker-1 ended by itself, exit code 137 (OOMKilled)" in result.findings


def test_broker_that_is_kept_from_zookeeper_may_end_when_it_is_started(tmp_path: Path) -> None:
    faults = [*KILL, *a_fault(15, 30, fault_id=2, fault="pause", servers=("zookeeper-1",))]
    rows = [STRUCK, started(20), ended(32, "broker-1", 1, 2)]
    result = checked(write_campaign(tmp_path, of_servers(*rows, faults=faults)))
    assert "ended by itself" not in told(result)


@pytest.mark.parametrize("code", [-9, 0, 143])
def test_end_without_its_faults_number_is_unknown_while_that_fault_must_have_ended_it(
    tmp_path: Path, code: int
) -> None:
    unnumbered = ended(10.5, "broker-1", code)
    result = checked(write_campaign(tmp_path / "lost", of_servers(unnumbered)))
    assert result.verdict is INCONCLUSIVE
    assert "servers-stay-up: broker-1 ended by itself" in told(result)
    both = of_servers(STRUCK, started(12), unnumbered | {"time": at(14)})
    assert checked(write_campaign(tmp_path / "both", both)).verdict is FAIL
