"""Rows that no writer of a history ever wrote are damage, and make verdicts inconclusive.

The files fit their closings: they were written so, and no digest shows it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.checkers.verdict import CampaignResult
from ackproof.history import names, reader
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CONSUMPTION, PARTITIONED
from ackproof.history.schema import TABLES, decoded
from ackproof.history.validation import TIMES, WORDS
from ackproof.history.writer import TableWriter
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    TWO_CELLS,
    WELL,
    checked,
    run,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.consumers import MadeConsumer, committed_ok, given, seen
from tests.support.builders.histories import (
    KILL,
    at,
    cell,
    ended,
    history_of,
    losing,
    state,
    write_campaign,
)

LOST = losing(WELL, 1)


def changed(tmp_path: Path, events: Callable[[Any], Any]) -> CampaignResult:
    """Check cells c and d, of which c lost a record whose events were changed."""
    sends = [events(one) if one.producer == 1 else one for one in LOST.sends]
    made = two_cells(partitions={**TWO_CELLS, ("t", 0): LOST.but(sends=sends)})
    return checked(write_campaign(tmp_path, made))


def but(one: Any, **changes: Any) -> Any:
    return type(one)(**{**vars(one), **changes})


def test_unchanged_loss_is_found(tmp_path: Path) -> None:
    assert verdicts(changed(tmp_path, lambda one: one)) == {"c": FAIL, "d": PASS}


@pytest.mark.parametrize("word", ["oK", "acked", "", "OK", "ok "])
def test_unknown_type_of_send_is_damage(tmp_path: Path, word: str) -> None:
    result = changed(tmp_path, lambda one: but(one, type=word) if one.type == "ok" else one)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert f"the column type holds {word!r}" in told(result)


@pytest.mark.parametrize("column", ["time", "offset", "sequence", "producer", "due"])
def test_negative_number_of_send_is_damage(tmp_path: Path, column: str) -> None:
    result = changed(tmp_path, lambda one: but(one, **{column: -5}))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert f"the column {column} holds -5" in told(result)


def rows_of(table: str) -> dict[str, Any]:
    """Sound rows of each table that a verdict rests on, with a column for each word."""
    seen = state(-5, 1, 0, (1, 2, 3))
    return {
        "faults": {"faults": [*KILL[:-1], {**KILL[-1], "event": "heeled"}]},
        "cluster": {"cluster": [seen, {**seen, "kind": "Partition"}]},
        "phases": {"phases": [*run().phases, {"phase": "heal", "event": "fialed", "time": at(1)}]},
        "servers": {"servers": [{**ended(5, "broker-1", 1), "event": "endet"}]},
    }[table]


@pytest.mark.parametrize("table", ["faults", "cluster", "phases", "servers"])
def test_unknown_word_of_run_level_table_is_damage(tmp_path: Path, table: str) -> None:
    result = checked(write_campaign(tmp_path, run(**rows_of(table))))
    assert result.verdict is INCONCLUSIVE
    assert "which is none of" in told(result)


@pytest.mark.parametrize("table", ["faults", "cluster", "phases", "recovery", "servers"])
def test_negative_time_of_run_level_table_is_damage(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, run())
    rewrite(directory, table, lambda rows: [{**row, "time": -row["time"]} for row in rows])
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert "which is negative" in told(result)


DAY = 86_400


@pytest.mark.parametrize("seconds", [-400 * DAY, 400 * DAY, 200 * 365 * DAY])
@pytest.mark.parametrize("column", ["time", "due"])
def test_send_of_another_year_is_damage(tmp_path: Path, seconds: int, column: str) -> None:
    result = changed(tmp_path, lambda one: but(one, **{column: at(seconds)}))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert f"the column {column} holds {at(seconds)}" in told(result)


@pytest.mark.parametrize("table", ["faults", "cluster", "recovery", "servers"])
@pytest.mark.parametrize("seconds", [-400 * DAY, 400 * DAY])
def test_run_level_rows_of_another_run_are_damage(tmp_path: Path, table: str, seconds: int) -> None:
    directory = write_campaign(tmp_path, run(partitions={("t", 0): LOST}))
    shift = seconds * 1_000_000_000
    rewrite(directory, table, lambda rows: [{**row, "time": row["time"] + shift} for row in rows])
    result = checked(directory)
    assert f"table {table}: the column time holds" in told(result)


MEMBER = MadeConsumer(
    client="member-0",
    group="g",
    polls=[seen(1, e.offset, e.producer, e.sequence, at(50)) for e in WELL.log],
    assigned=[given(0, at(0), 0)],
    commits=committed_ok(1, at(56), 3, 1),
)


@pytest.mark.parametrize("table", sorted(CONSUMPTION - {"deliveries"}))
@pytest.mark.parametrize("seconds", [-400 * DAY, 400 * DAY, 200 * 365 * DAY])
def test_rows_of_consumers_of_another_year_are_damage(
    tmp_path: Path, table: str, seconds: int
) -> None:
    made = run(consumers=[MEMBER], cells=[cell(groups={"g": "at-least-once"})])
    directory = write_campaign(tmp_path, made)
    partition = ("t", 0) if table in PARTITIONED else None
    shift = seconds * 1_000_000_000
    assert not checked(directory).findings
    rewrite(
        directory, table, lambda rows: [{**rows[0], "time": rows[0]["time"] + shift}], partition
    )
    (finding,) = checked(directory).findings
    assert (
        f"the column time holds {reader.read(history_of(directory), table)['time'][0]}" in finding
    )


@pytest.mark.parametrize("name", ["d", "", "C", "c²"])
def test_send_of_another_cell_than_the_manifest_says_is_damage(tmp_path: Path, name: str) -> None:
    directory = write_campaign(tmp_path, run())
    assert checked(directory).verdict is PASS
    rewrite(directory, "sends", lambda rows: [*rows[:-1], {**rows[-1], "cell": name}], ("t", 0))
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert f"the column cell holds {name!r}, but the manifest says 'c'" in told(result)


def rewrite(
    directory: Path,
    table: str,
    change: Callable[[list[Any]], list[Any]],
    partition: tuple[str, int] | None = None,
) -> None:
    """Write a table again as its writer would have, had it had other rows."""
    history = history_of(directory)
    (path,) = history.glob(f"{table}.*.parquet")
    writer = names.parse(path.name)[0].writer
    rows = change(reader.read(history, table).to_pylist())
    path.unlink()
    for closing in history.glob(f"closings.{table}-{writer}.parquet"):
        closing.unlink()
    made = TableWriter(history, table, writer, partition=partition)
    for row in rows:
        made.append(tuple(row[name] for name in TABLES[table].names))
    made.close()


def sample(field: pa.Field) -> Any:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_integer(kind):
        return 0
    return [] if pa.types.is_list(kind) else "t"


@pytest.mark.parametrize("table", sorted(TABLES))
def test_each_column_of_words_and_of_times_is_checked(tmp_path: Path, table: str) -> None:
    words = WORDS.get(table, {})
    sound = {field.name: sample(field) for field in TABLES[table]}
    sound |= {name: min(known) for name, known in words.items()}
    partition = ("t", 0) if table in PARTITIONED else None
    bad = dict.fromkeys(words, "nonsense")
    bad |= {name: -1 for name in TABLES[table].names if name in TIMES}
    for number, (name, value) in enumerate([("", None), *bad.items()]):
        directory = tmp_path / str(number)
        writer = TableWriter(directory, table, "w", partition=partition, closing=False)
        row = {**sound, **({name: value} if name else {})}
        writer.append(tuple(row.values()))
        for close in (writer.flush, writer.close):
            close()
            if name:
                with pytest.raises(DamagedFiles, match=f"the column {name} holds"):
                    reader.read(directory, table)
            else:
                assert len(reader.read(directory, table)) == 1


@pytest.mark.parametrize("closings_too", [False, True])
def test_content_of_another_partition_is_damage(tmp_path: Path, closings_too: bool) -> None:
    """The logs of t-0 and u-0 are swapped, and no cell has lost anything or holds a phantom."""
    directory = write_campaign(tmp_path, two_cells())
    history = history_of(directory)
    first, second = history / "log.t.0.final-read.parquet", history / "log.u.0.final-read.parquet"
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    if closings_too:
        swap = {"t": "u", "u": "t"}
        path = history / "closings.log-final-read.parquet"
        rows = [{**row, "topic": swap[row["topic"]]} for row in pq.read_table(path).to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["closings"]), path)
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert not any(result.anomalies.values())
    assert ("its name says" if closings_too else "its digest differs") in told(result)


@pytest.mark.parametrize(("column", "value"), [("topic", "other"), ("partition", 7)])
@pytest.mark.parametrize("statistics", [True, False])
def test_rows_of_another_partition_are_damage(
    tmp_path: Path, column: str, value: object, statistics: bool
) -> None:
    directory = write_campaign(tmp_path, run())
    path = history_of(directory) / "sends.t.0.c-1.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[-1][column] = value
    table = pa.Table.from_pylist(rows, schema=decoded(TABLES["sends"]))
    pq.write_table(table, path, write_statistics=statistics)
    with pytest.raises(DamagedFiles, match=f"the column {column} holds"):
        reader.read(path.parent, "sends")
