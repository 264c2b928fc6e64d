"""Tampering with the records of a real run: the counts show it, and nothing else.

For each workload (with and without idempotence; a tail reader; groups that commit by themselves,
before and after processing), a change to its records must appear in its own numbers.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.checkers.checks import read_counts
from ackproof.history import reader
from ackproof.history.names import FileStem
from ackproof.history.schema import TABLES, decoded
from ackproof.history.storage import digest
from tests.support.builders.checked_runs import checked

pytestmark = [pytest.mark.e2e, pytest.mark.long]

CAMPAIGN = {
    "cluster": {
        "brokers": 1,
        "properties": {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1},
    },
    "cells": {
        "acks": "all",
        "min.insync.replicas": 1,
        "replication.factor": 1,
        "enable.idempotence": [False, True],
    },
    "workload": {
        "rate": 100,
        "readers": 1,
        "groups": [
            {"name": "after", "members": 1, "delivery": "at-least-once"},
            {"name": "before", "members": 1, "delivery": "at-most-once"},
            {
                "name": "by-itself",
                "members": 1,
                "delivery": "auto-commit",
                "consumer": {"auto.commit.interval.ms": 500},
            },
        ],
    },
    "evidence": {"acked.min": 100},
    "schedule": {"warmup": "5s", "tail": "1s"},
    "faults": [],
}
TOPICS = ("acks-all-minisr-1", "acks-all-minisr-1-idempotence-true")
OF_CELLS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
GROUPS = ("after", "before", "by-itself")
Rows = list[dict[str, Any]]
Counts = Mapping[tuple[str, str], int | None]


@pytest.fixture(scope="module")
def recorded(ackproof_of_all) -> Path:
    """The results of one run in which nothing goes wrong."""
    ackproof_of_all.vary(CAMPAIGN)
    result = ackproof_of_all("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    return Path(ackproof_of_all.directory / "results")


class Tampered:
    """A copy of what was recorded, of which rows are changed as if they had been written so."""

    def __init__(self, recorded: Path, copy: Path, topic: str) -> None:
        self.before = counts(recorded)
        self.directory = copy / "results"
        shutil.copytree(recorded, self.directory, symlinks=True)
        self._history = self.directory / "runs" / "1" / "history"
        self.topic = topic
        self.cell = self.topic.replace("-minisr", ".minisr").replace("-idem", ".idem")

    def change(self, table: str, writer: str, act: Callable[[Rows], None]) -> None:
        """``act`` on the rows that ``writer`` wrote of the cell, in place."""
        partition = (self.topic, 0) if table in ("log", "polls", "sends") else None
        self._rewrite(table, FileStem(table=table, writer=writer, partition=partition), act)

    def _rewrite(self, table: str, stem: FileStem, act: Callable[[Rows], None]) -> None:
        (path,) = reader.by_stem(self._history, table)[stem]
        rows = pq.read_table(path).to_pylist()
        act(rows)
        schema = decoded(TABLES[table])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        if table != "closings":
            self._closed_with(stem, len(rows), digest(path))

    def _closed_with(self, stem: FileStem, many: int, digest: str) -> None:
        def say(rows: Rows) -> None:
            for row in rows:
                there = None if row["topic"] is None else (row["topic"], row["partition"])
                if there == stem.partition:
                    row |= {"rows": many, "digest": digest}

        (closing,) = (
            one
            for one in reader.by_stem(self._history, "closings")
            if one.writer == f"{stem.table}-{stem.writer}"
        )
        self._rewrite("closings", closing, say)

    def read_to(self, act: Callable[[dict[str, Any]], None]) -> None:
        """``act`` on what the final read says of the cell's partition."""

        def change(rows: Rows) -> None:
            act(next(row for row in rows if row["topic"] == self.topic))

        self.change("reads", "final-read", change)

    @property
    def changed(self) -> Counts:
        """Return the counts that differ from those before."""
        after = counts(self.directory)
        assert after.keys() == self.before.keys()
        return {name: count for name, count in after.items() if count != self.before[name]}


def counts(directory: Path) -> Counts:
    """All counts of cells, clients and groups, by whose they are and what is counted."""
    result = checked(directory)
    assert result.cells
    told: dict[tuple[str, str], int | None] = {}
    for of, names, things in (
        ("cell", OF_CELLS, result.cells),
        ("client", read_counts.CLIENT_COUNTS, result.consumption.clients),
        ("group", read_counts.GROUP_COUNTS, result.consumption.groups),
    ):
        for thing in things:
            told |= {(getattr(thing, of), name): getattr(thing, name) for name in names}
    return told


@pytest.fixture(params=TOPICS)
def tampered(recorded: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Tampered:
    return Tampered(recorded, tmp_path, request.param)


def clients(tampered: Tampered) -> list[str]:
    return [
        f"reader-{tampered.topic}-0",
        *(f"member-{tampered.topic}-{group}-0" for group in GROUPS),
    ]


def test_recorded_history_has_no_anomalies(recorded: Path) -> None:
    found = counts(recorded)
    wrong = ("lost", "duplicated", "vanished", "skipped", "unseen", "nonmonotonic", "unread")
    wrong += ("inconsistent", "commits_lost", "commits_regressed", "skipped_by_commit")
    assert {count for (_, name), count in found.items() if name in wrong} <= {0, None}
    assert all(count for (_, name), count in found.items() if name in ("acked", "committed"))


def test_a_record_that_is_lost(tampered: Tampered) -> None:
    tampered.change("log", "final-read", lambda rows: rows.pop(100))
    tampered.read_to(lambda row: row.update(records=row["records"] - 1))
    shown = {(client, "vanished"): 1 for client in clients(tampered)}
    assert tampered.changed == {(tampered.cell, "lost"): 1, **shown}


def test_a_record_that_stands_twice(tampered: Tampered) -> None:
    def again(rows: Rows) -> None:
        rows.append({**rows[100], "offset": rows[-1]["offset"] + 1})

    def longer(row: dict[str, Any]) -> None:
        for name in ("log_end_offset", "read_end_offset", "records"):
            row[name] += 1

    tampered.change("log", "final-read", again)
    tampered.read_to(longer)
    unread = (f"reader-{tampered.topic}-0", "unread")
    assert tampered.changed == {(tampered.cell, "duplicated"): 1, unread: 1}


@pytest.mark.parametrize("group", GROUPS)
def test_a_commit_that_goes_back(tampered: Tampered, group: str) -> None:
    """The coordinator tells a member an older offset than was committed."""

    def go_back(rows: Rows) -> None:
        first = next(row for row in rows if row["type"] == "ok")
        last = rows[-1]
        assert first["offset"] < last["offset"]
        told = {**first, "type": "fetched", "commit": last["commit"], "poll": last["poll"]}
        rows.append({**told, "time": last["time"] + 1_000_000_000})

    tampered.change("commits", f"member-{tampered.topic}-{group}-0", go_back)
    assert tampered.changed == {(f"{tampered.topic}-{group}", "commits_regressed"): 1}


def test_a_commit_that_is_gone(tampered: Tampered) -> None:
    def forget(rows: Rows) -> None:
        last = rows[-1]
        told = {**last, "type": "fetched", "offset": -1, "error": None}
        rows.append({**told, "time": last["time"] + 1_000_000_000})

    tampered.change("commits", f"member-{tampered.topic}-after-0", forget)
    assert tampered.changed == {(f"{tampered.topic}-after", "commits_lost"): 1}


def test_a_record_that_was_not_shown(tampered: Tampered) -> None:
    """It was there, and passed over."""
    for client in clients(tampered):
        tampered.change("polls", client, lambda rows: rows.pop(100))
    of_clients = {
        (client, name): tampered.before[client, name] - 1
        for client in clients(tampered)
        for name in ("shown", "distinct")
    }
    passed = {(client, "skipped"): 1 for client in clients(tampered)}
    unseen = {(f"reader-{tampered.topic}-0", "unseen"): 1}
    committed_past = {(f"{tampered.topic}-after", "skipped_by_commit"): 1}
    assert tampered.changed == {**of_clients, **passed, **unseen, **committed_past}


def test_a_record_that_was_shown_again(tampered: Tampered) -> None:
    def again(rows: Rows) -> None:
        rows.insert(102, dict(rows[100]) | {"poll": rows[101]["poll"]})

    for client in clients(tampered):
        tampered.change("polls", client, again)
    shown = {
        (client, "shown"): tampered.before[client, "shown"] + 1 for client in clients(tampered)
    }
    back = {(client, "nonmonotonic"): 1 for client in clients(tampered)}
    assert tampered.changed == {**shown, **back}
