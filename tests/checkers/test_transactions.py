"""Transactions as their clients left them on disk: made into one history, looked at, judged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.checkers.checks.check_transactions import LOOKED, CellTransactions, check_transactions
from ackproof.checkers.checks.transaction_rules import cycles
from ackproof.checkers.context.run import RunEvidence, gather
from ackproof.checkers.context.status import FORGOTTEN, FORGOTTEN_UNREAD
from ackproof.checkers.engine.reconcile import reconcile
from ackproof.checkers.engine.work_items import work_items
from ackproof.checkers.guarantees.decisions import judged
from ackproof.checkers.guarantees.facts import Facts
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedRun
from ackproof.history.schema import TABLES
from ackproof.history.transactional import TRANSFORMERS
from ackproof.history.writer import PartitionedWriter, TableWriter
from ackproof.workloads.interface import Load, Transactions
from ackproof.workloads.transactions.workload import TransactionsWorkload as Workload
from tests.support.builders.histories import T0, state

TOPIC, PARTITIONS = "t", 2
LOAD = Load(
    rate=1,
    record_bytes=100,
    readers=1,
    transactions=Transactions(records=1, aborts=0, fences=0, transformers=1),
)
PRODUCER, TRANSFORMER, READER = "producer-t-0", "transformer-t-0", "reader-t-0"
FIRST, SECOND, OTHER = 0, 1, TRANSFORMERS
"""Producer numbers: a producer's two sessions, and the transformer's."""
INTERNAL = ("__transaction_state", "__consumer_offsets")

Rows = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""By table and writer."""


def cell(isolation: str = "read_committed") -> Cell:
    settings = {
        "acks": "all",
        "enable.idempotence": True,
        "replication.factor": 3,
        "partitions": PARTITIONS,
        "isolation.level": isolation,
    }
    return Cell(name="c", topic=TOPIC, settings=settings)


def event(
    time: int, producer: int, transaction: int, name: str, kind: str, sequence: int | None = None
) -> dict[str, Any]:
    who = {"client": "x", "cell": "c", "transactional_id": "x" if producer < OTHER else "y"}
    what = {"producer": producer, "transaction": transaction, "event": name, "type": kind}
    return {"time": T0 + time, **who, **what, "sequence": sequence}


def sent(time: int, producer: int, sequence: int, partition: int, offset: int) -> list[Any]:
    who = {"cell": "c", "producer": producer, "sequence": sequence, "partition": partition}
    return [
        {"type": "invoke", "time": T0 + time, **who},
        {"type": "ok", "time": T0 + time + 1, "offset": offset, **who},
    ]


def stands(partition: int, offset: int, producer: int, sequence: int) -> dict[str, Any]:
    who = {"cell": "c", "producer": producer, "sequence": sequence}
    return {"partition": partition, "offset": offset, "timestamp": 0, **who}


def read(partition: int = 0, end: int = 0, complete: bool = True) -> Any:
    return {
        "partition": partition,
        "log_start_offset": 0,
        "log_end_offset": end,
        "read_end_offset": end,
        "records": 0,
        "complete": complete,
        "error": None if complete else "60 s had passed at offset 1 of 9",
    }


def fetched(partition: int, offset: int) -> dict[str, Any]:
    return {"time": T0, "client": "final-read", "group": "g", "type": "fetched"} | {
        "partition": partition,
        "offset": offset,
    }


def sound() -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The first session sends one record to each partition, which are committed, and one more that
    is not; the second one has fenced it. A transformer makes one record of the two."""
    return {
        ("transactions", PRODUCER): [
            event(0, FIRST, 0, "init", "invoke"),
            event(1, FIRST, 0, "init", "ok"),
            event(2, FIRST, 1, "begin", "ok", 0),
            event(10, FIRST, 1, "commit", "invoke"),
            event(11, FIRST, 1, "commit", "ok"),
            event(12, FIRST, 2, "begin", "ok", 2),
            event(20, SECOND, 0, "init", "invoke"),
            event(21, SECOND, 0, "init", "ok"),
            event(30, FIRST, 2, "commit", "invoke"),
            event(31, FIRST, 2, "commit", "info"),
        ],
        ("sends", PRODUCER): [
            *sent(3, FIRST, 0, 0, 0),
            *sent(4, FIRST, 1, 1, 0),
            *sent(13, FIRST, 2, 0, 2),
        ],
        ("transactions", TRANSFORMER): [
            event(40, OTHER, 0, "init", "invoke"),
            event(41, OTHER, 0, "init", "ok"),
            event(42, OTHER, 1, "begin", "ok", 0),
            event(50, OTHER, 1, "commit", "invoke"),
            event(51, OTHER, 1, "commit", "ok"),
        ],
        ("sends", TRANSFORMER): sent(44, OTHER, 0, 0, 4),
        ("inputs", TRANSFORMER): [
            {
                "time": T0 + 43,
                "client": TRANSFORMER,
                "producer": OTHER,
                "transaction": 1,
                "partition": partition,
                "offset": 0,
                "read_cell": "c",
                "read_producer": FIRST,
                "read_sequence": partition,
                "sequence": 0,
            }
            for partition in range(PARTITIONS)
        ],
        ("transaction_offsets", TRANSFORMER): [],
        ("transaction_offsets", "final-read"): [fetched(0, 1), fetched(1, 1)],
        ("log", "final-read"): [
            stands(0, 0, FIRST, 0),
            stands(0, 2, FIRST, 2),
            stands(0, 4, OTHER, 0),
            stands(1, 0, FIRST, 1),
        ],
        ("committed", "final-read"): [
            {"partition": 0, "offset": 0},
            {"partition": 0, "offset": 4},
            {"partition": 1, "offset": 0},
        ],
        ("reads", "final-read"): [read(partition=0, end=6), read(partition=1, end=2)],
        ("committed_reads", "final-read"): [read(partition=0, end=6), read(partition=1, end=2)],
        ("polls", READER): [
            {"client": READER, "partition": 1, "poll": 1, "time": T0 + 60, "offset": 0}
            | {"cell": "c", "producer": FIRST, "sequence": 1}
        ],
        ("assignments", READER): [],
        ("cluster", "harness"): [
            state(-5, 1, 0, (1, 2, 3), topic=topic, partition=number)
            for topic, many in ((TOPIC, PARTITIONS), *((name, 1) for name in INTERNAL))
            for number in range(many)
        ],
    }


def evidence(directory: Path, rows: Rows, of: Cell) -> RunEvidence:
    """Written as clients write, and gathered."""
    return gather(directory, written(directory, rows, of))


def written(directory: Path, rows: Rows, of: Cell) -> PlannedRun:
    """Written as clients write; what was planned."""
    writers = Workload().writers([(of, LOAD)], "client-1")
    planned = PlannedRun(
        number=1,
        seed=1,
        session_timeout_ms=3000,
        replica_lag_ms=4000,
        recovery_ms=60_000,
        cells=(PlannedCell(cell=of, transactional=True),),
        faults=(),
        writers=tuple(writers),
    )
    for one in writers:
        mine = rows.get((one.table, one.writer), ())
        if one.partitions:
            partitioned = PartitionedWriter(directory, one.table, one.writer, one.partitions)
            for row in mine:
                table = partitioned.partition(TOPIC, row["partition"])
                table.append(_row(one.table, row))
            partitioned.close()
        else:
            _write(directory, one.table, one.writer, mine)
    for table in ("cluster", "phases"):
        _write(directory, table, "harness", rows.get((table, "harness"), ()))
    return planned


def _write(directory: Path, table: str, writer: str, rows: Sequence[Mapping[str, Any]]) -> None:
    made = TableWriter(directory, table, writer)
    for row in rows:
        made.append(_row(table, row))
    made.close()


def _row(table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple({"topic": TOPIC, **row}.get(name) for name in TABLES[table].names)


def looked(directory: Path, rows: Rows, of: Cell | None = None) -> CellTransactions:
    of = of or cell()
    return check_transactions(evidence(directory, rows, of), of)


def anomalies(told: CellTransactions) -> list[tuple[str, int, int | None]]:
    return [
        (row["anomaly"], row["partition"], row["offset"])
        for row in told.rows.to_pylist()
        if row["anomaly"] != "G0"
    ]


def guarantees(told: CellTransactions, of: Cell) -> dict[str, tuple[bool, bool | None]]:
    """Return whether each transactional guarantee was valid, and whether it held."""
    facts = Facts(cell=of, counts=told.counts, transactional=True, gaps=told.gaps)
    plain = {one.name for one in judged(replace(facts, transactional=False))[0]}
    return {one.name: (one.promised, one.held) for one in judged(facts)[0] if one.name not in plain}


def test_where_all_is_well_everything_was_looked_at_and_held(tmp_path: Path) -> None:
    told = looked(tmp_path, sound())
    assert (anomalies(told), told.gaps, told.why) == ([], (), ())
    counted = {name: told.counts[f"transactions {name}"] for name in ("committed", "not committed")}
    assert counted == {"committed": 2, "not committed": 1}
    assert set(guarantees(told, cell()).values()) == {(True, True)}


PLANTS = {
    "an aborted record is shown": (
        ("polls", READER),
        {"client": READER, "partition": 0, "poll": 2, "time": T0 + 61, "offset": 2}
        | {"cell": "c", "producer": FIRST, "sequence": 2},
        ("aborted-read", 0, 2),
        "no-aborted-read",
    ),
    "an aborted record stands": (
        ("committed", "final-read"),
        {"partition": 0, "offset": 2},
        ("resurrected-write", 0, 2),
        "aborted-stays-aborted",
    ),
    "the group has gone back": (
        ("transaction_offsets", "final-read"),
        fetched(1, 0),
        ("records-without-offsets", 1, 0),
        "records-with-offsets",
    ),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_each_planted_transaction_anomaly_breaks_one_guarantee(tmp_path: Path, plant: str) -> None:
    where, row, found, broken = PLANTS[plant]
    rows = sound()
    rows[where] = [*rows[where], row]
    told = looked(tmp_path, rows)
    assert anomalies(told) == [found]
    judgement = guarantees(told, cell())
    assert judgement.pop(broken) == (True, False)
    assert set(judgement.values()) == {(True, True)}


def _counted_reads(*records: int) -> list[Mapping[str, Any]]:
    ends = (6, 2)
    return [
        {**read(partition=number, end=ends[number]), "records": many}
        for number, many in enumerate(records)
    ]


def compacted() -> tuple[dict[tuple[str, str], list[Mapping[str, Any]]], Cell]:
    """The sound rows in a compacted topic, whose cleaner has removed two records: one that the
    transformer's has superseded, and the one of the aborted transaction."""
    rows = sound()
    keyed = ("sends", PRODUCER), ("sends", TRANSFORMER)
    for key in keyed:
        rows[key] = [{"key": row["partition"], **row} for row in rows[key]]
    rows["log", "final-read"] = [stands(0, 4, OTHER, 0), stands(1, 0, FIRST, 1)]
    rows["committed", "final-read"] = [{"partition": 0, "offset": 4}, {"partition": 1, "offset": 0}]
    rows["reads", "final-read"] = _counted_reads(1, 1)
    of = cell()
    return rows, replace(of, settings={**of.settings, "topic.cleanup.policy": "compact"})


def counted(run: RunEvidence) -> Counter[str]:
    """Return the counts of all partitions of a run, as tasks count them."""
    totals = reconcile(work_items(run), lambda _rows: None)
    assert [error.message for one in totals for error in one.check_errors] == []
    return sum((Counter(one.counts) for one in totals), Counter())


def test_compacted_transactions_are_whole_and_nothing_is_lost(tmp_path: Path) -> None:
    rows, of = compacted()
    told = looked(tmp_path, rows, of)
    assert (anomalies(told), told.gaps, told.why) == ([], (), ())
    assert set(guarantees(told, of).values()) == {(True, True)}
    counts = counted(evidence(tmp_path / "again", rows, of))
    assert (counts["lost"], counts[FORGOTTEN]) == (0, 2)
    assert counts[FORGOTTEN_UNREAD] == 1, "an aborted record need not be read"


def test_lost_value_of_compacted_transactions_is_found(tmp_path: Path) -> None:
    rows, of = compacted()
    for table in ("log", "committed"):
        rows[table, "final-read"] = rows[table, "final-read"][:1]
    rows["reads", "final-read"] = _counted_reads(1, 0)
    told = looked(tmp_path, rows, of)
    assert anomalies(told) == [("lost-commit", -1, None)]
    assert counted(evidence(tmp_path / "again", rows, of))["lost"] == 1


def test_compacted_transaction_that_stands_in_one_partition_is_torn_alone(tmp_path: Path) -> None:
    """The transformer's outcome is unknown to it. Its record in the other partition stands, and the
    one that superseded the producer's is missing."""
    rows, of = compacted()
    rows["transactions", TRANSFORMER][-1] = event(51, OTHER, 1, "commit", "info")
    more = [{"key": 1, **row} for row in sent(45, OTHER, 1, 1, 2)]
    rows["sends", TRANSFORMER] = [*rows["sends", TRANSFORMER], *more]
    rows["log", "final-read"] = [stands(1, 0, FIRST, 1), stands(1, 2, OTHER, 1)]
    rows["committed", "final-read"] = [{"partition": 1, "offset": offset} for offset in (0, 2)]
    rows["reads", "final-read"] = _counted_reads(0, 2)
    assert anomalies(looked(tmp_path, rows, of)) == [("torn-transaction", 0, None)]


def test_unknown_outcomes_of_compacted_transactions_lose_nothing(tmp_path: Path) -> None:
    """Rows of a client are missing, or the read of committed records did not come to its end."""
    rows, of = compacted()
    nothing = {
        **rows,
        ("log", "final-read"): [],
        ("committed", "final-read"): [],
        ("reads", "final-read"): _counted_reads(0, 0),
    }
    assert counted(evidence(tmp_path / "nothing", nothing, of))["lost"] == 2
    short = written(tmp_path / "short", nothing, of)
    next((tmp_path / "short").glob(f"transactions.{TRANSFORMER}*")).unlink()
    assert counted(gather(tmp_path / "short", short))["lost"] == 0
    rows["transactions", TRANSFORMER][-1] = event(51, OTHER, 1, "commit", "info")
    rows["committed", "final-read"] = [{"partition": 1, "offset": 0}]
    assert counted(evidence(tmp_path / "aborted", rows, of))["lost"] == 1
    rows["committed_reads", "final-read"] = [read(partition=0, complete=False)]
    assert counted(evidence(tmp_path / "cut", rows, of))["lost"] == 0


def test_read_uncommitted_has_no_guarantee_about_aborted_records(tmp_path: Path) -> None:
    where, row, found, broken = PLANTS["an aborted record is shown"]
    rows = sound()
    rows[where] = [*rows[where], row]
    told = looked(tmp_path, rows, cell("read_uncommitted"))
    assert anomalies(told) == [found]
    assert guarantees(told, cell("read_uncommitted"))[broken] == (False, False)


def test_a_transaction_that_stays_open_leaves_the_cell_without_a_verdict(tmp_path: Path) -> None:
    rows = sound()
    rows["committed_reads", "final-read"] = [read(partition=0, complete=False), read(partition=1)]
    told = looked(tmp_path, rows)
    assert anomalies(told) == []
    (gap,) = told.gaps
    assert gap.startswith("t-0: the committed records were not read to the end: 60 s had passed")
    assert {held for _, held in guarantees(told, cell()).values()} == {None}


def test_unwatched_transaction_topic_leaves_guarantees_open(
    tmp_path: Path,
) -> None:
    rows = sound()
    where, row, _, broken = PLANTS["an aborted record stands"]
    rows[where] = [*rows[where], row]
    rows["cluster", "harness"] = [
        one for one in rows["cluster", "harness"] if one["topic"] != INTERNAL[0]
    ]
    told = looked(tmp_path, rows)
    assert told.why == ("the leader of __transaction_state was not observed",)
    assert guarantees(told, cell())[broken][1] is None


TABLES_OF_A_CELL = (
    *(("transactions", client) for client in (PRODUCER, TRANSFORMER)),
    *(("sends", client) for client in (PRODUCER, TRANSFORMER)),
    ("inputs", TRANSFORMER),
    *((table, "final-read") for table in ("log", "committed", "committed_reads")),
    ("transaction_offsets", "final-read"),
)


@pytest.mark.parametrize("left", ["missing", "short", "empty"])
@pytest.mark.parametrize(("table", "writer"), TABLES_OF_A_CELL)
def test_file_that_is_not_whole_breaks_no_promise_of_transactions(
    tmp_path: Path, table: str, writer: str, left: str
) -> None:
    planned = written(tmp_path, sound(), cell())
    path = next(p for p in sorted(tmp_path.glob(f"{table}.*.parquet")) if writer in p.name)
    rows = pq.read_table(path)
    path.unlink()
    if left != "missing":
        pq.write_table(rows.slice(0, 0 if left == "empty" else len(rows) - 1), path)
    run = gather(tmp_path, planned)
    told = check_transactions(run, cell())
    assert anomalies(told) == []
    assert not any(held is False for _, held in guarantees(told, cell()).values())
    assert any(table in gap.words for gap in run.gaps)
    assert told.counts[LOOKED] == 0
    assert set(told.summed.found.values()) == {None}


@pytest.mark.parametrize(
    "more",
    [
        event(12, FIRST, 1, "commit", "fail"),
        event(9, FIRST, 1, "commit", "info"),
        event(12, FIRST, 1, "abort", "ok"),
    ],
)
def test_commit_with_two_answers_is_named_and_breaks_nothing(tmp_path: Path, more: Any) -> None:
    rows = sound()
    rows["transactions", PRODUCER] = [*rows["transactions", PRODUCER], more]
    rows["committed", "final-read"] = []
    told = looked(tmp_path, rows)
    assert "transaction 1 of producer 0 has contradictory events" in told.gaps
    assert anomalies(told) == []


def test_committed_offset_that_the_log_does_not_have_is_named(tmp_path: Path) -> None:
    rows = sound()
    more = [{"partition": 1, "offset": 7}]
    rows["committed", "final-read"] = [*rows["committed", "final-read"], *more]
    told = looked(tmp_path, rows)
    words = "t-1: 1 offsets were read as committed and are not in the final read, the first 7"
    assert told.gaps == (words,)


DAY_NS = 86_400 * 1_000_000_000
STEPS = [
    {"phase": phase, "event": "end", "time": T0 + time}
    for phase, time in (("deploy", -1_000), ("final-read", 70), ("teardown", 1_000))
]


@pytest.mark.parametrize("days", [-400, 400])
@pytest.mark.parametrize(
    "table", ["sends", "transactions", "inputs", "transaction_offsets", "polls"]
)
def test_rows_of_another_year_are_damage(tmp_path: Path, table: str, days: int) -> None:
    rows = sound()
    rows["phases", "harness"] = STEPS
    assert looked(tmp_path / "sound", rows).gaps == ()
    file = next(key for key in rows if key[0] == table and rows[key])
    first, *others = rows[file]
    rows[file] = [{**first, "time": first["time"] + days * DAY_NS}, *others]
    told = looked(tmp_path / "damaged", rows)
    assert any("the column time holds" in gap for gap in told.gaps)
    assert told.counts[LOOKED] == 0


@pytest.mark.parametrize("table", ["sends", "transactions"])
def test_rows_of_another_cell_are_damage(tmp_path: Path, table: str) -> None:
    rows = sound()
    first, *others = rows[table, PRODUCER]
    rows[table, PRODUCER] = [{**first, "cell": "other"}, *others]
    told = looked(tmp_path, rows)
    assert any(
        "the column cell holds 'other', but the manifest says 'c'" in gap for gap in told.gaps
    )


def test_transaction_committed_after_the_final_read_began_is_not_lost(tmp_path: Path) -> None:
    rows = sound()
    rows["committed", "final-read"] = []
    times = {("workload", "start"): -1, ("final-read", "start"): 5, ("final-read", "end"): 6}
    rows["phases", "harness"] = [
        {"phase": phase, "event": event_, "time": T0 + time}
        for (phase, event_), time in times.items()
    ]
    told = looked(tmp_path, rows)
    assert told.gaps == ("3 transactions of c ended after the final read had begun",)
    assert [one for one in anomalies(told) if one[0] in ("lost-commit", "torn-transaction")] == []


def test_disjoint_cycles_are_reported_separately() -> None:
    edges = {(1, 2), (2, 3), (3, 1), (3, 4), (5, 6), (6, 5), (6, 7)}
    assert list(cycles(edges)) == [[1, 2, 3], [5, 6]]
    assert list(cycles({(1, 2), (2, 3), (1, 3)})) == []


def test_transactions_that_cannot_be_looked_at_are_unknown() -> None:
    told = CellTransactions(gaps=("its transactions cannot be examined",)).summed
    assert (told.committed, told.not_committed, told.unknown) == (None, None, None)
    assert set(told.found.values()) == {None}
