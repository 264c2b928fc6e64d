"""Results with a planted anomaly, checked in this process: tables, brokers' logs and raw logs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.checkers.check import check
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.pictures.log_picture import Facts, Held, LogFacts
from ackproof.checkers.root_cause.rows import ROOT_CAUSES
from ackproof.harness import report
from tests.support.builders.checked_runs import collected, replicas_of
from tests.support.builders.histories import (
    CELL,
    TOPIC,
    Made,
    MadeRun,
    acked,
    entry,
    send,
    state,
    write_campaign,
)
from tests.support.builders.losses import World
from tests.support.builders.raw_logs import MadeBatch, batches, write_log

BROKERS = (1, 2, 3)


# --- a world of losses in memory ------------------------------------------------------------------


def facts_of(world: World, *, collected_of: Sequence[int] = BROKERS) -> Facts:
    """Return the facts of a world whose replicas hold the final log, as far as they were
    collected."""
    held = {
        one.offset: Held(epoch=one.leader_epoch, name=(one.producer or 0, one.sequence or 0))
        for one in world.log
    }
    acks: dict[int, list[tuple[int, int]]] = {}
    for event in world.sends:
        if event.type == "ok" and event.offset is not None:
            acks.setdefault(event.offset, []).append((event.producer, event.sequence))
    stands = {one.name for one in held.values()}
    names = [name for some in acks.values() for name in some]
    final, gone = LogFacts(held=held), LogFacts(unobserved="its raw log was not collected")
    return Facts(
        final_log=final,
        replicas={broker: final if broker in collected_of else gone for broker in BROKERS},
        acks=acks,
        lost=frozenset(name for name in names if name not in stands),
        acked_count=len(names),
        lost_count=sum(name not in stands for name in names),
        context=world.context()[0],
    )


def tables_of(world: World) -> tuple[pa.Table, pa.Table]:
    """Return the rows of ``anomalies.parquet`` and ``root-causes.parquet`` of a world's losses."""
    found = world.root_causes()
    by_name = {(s.producer, s.sequence): s for s in world.sends if s.type == "ok"}
    lost = [by_name[1, number] for planted in world.planted for number in planted.sequences]
    whose = {"run": 1, "cell": CELL, "anomaly": "lost", "topic": TOPIC, "partition": 0}
    rows = [
        {
            **whose,
            "offset": one.offset,
            "producer": 1,
            "sequence": one.sequence,
            "time": one.time,
            "fault": fault,
            "detail": "gone",
            **cause,
        }
        for one, cause, fault in zip(
            lost,
            found.of_records.to_pylist(),
            [None] * len(lost) if found.faults is None else found.faults.to_pylist(),
            strict=True,
        )
    ]
    return tuple(_table(rows, schema) for schema in (ANOMALIES, ROOT_CAUSES))  # type: ignore[return-value]


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    full = [{name: row.get(name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(full, schema=schema)


# --- results on disk ------------------------------------------------------------------------------


def lost_in_an_election(directory: Path, *, replicas: int = 3, more: int = 0) -> Path:
    """Write and check results in which broker-1 acked the offsets 1 and 2 in epoch 0, and broker-2
    leads epoch 1 from offset 1 without them. Broker-1 truncated its log from 3 to 1.

    Args:
        replicas: The number of brokers whose raw logs were collected.
        more: The number of further records that were lost with them.
    """
    end = 3 + more
    sends, _ = acked(*(5 + number / 1000 for number in range(end)))
    again = [send("invoke", 2, 0, sends[-1].time + 5), send("ok", 2, 0, sends[-1].time + 6, 1)]
    log = [entry(0, 1, 0, 0), entry(1, 2, 0, 1)]
    cluster = (state(-5, 1, 0, BROKERS, version=0), state(11, 2, 1, (2, 3), version=1))
    made = Made(sends=[*sends, *again], log=log, end=len(log))
    results = write_campaign(directory, collected(partitions={(TOPIC, 0): made}, cluster=cluster))
    own = MadeBatch(base=1, count=1, epoch=1)
    for broker in BROKERS[:replicas]:
        write_log(replicas_of(results) / f"broker-{broker}" / f"{TOPIC}-0", [*batches(1), own])
    said(results, 1, truncate_line(end))
    said(results, 2, leads_line())
    return checked(results)


def stands_twice(directory: Path) -> Path:
    """Write and check results in which the record of offset 1 stands at offset 4, too."""
    sends, log = acked(5, 6, 7, 8)
    log = [*log, entry(4, 1, 1, 0)]
    made = Made(sends=sends, log=log, end=len(log))
    return checked(write_campaign(directory, collected(partitions={(TOPIC, 0): made})))


def replicas_differ(directory: Path) -> Path:
    """Write and check results in which broker-3 holds other records than broker-1 and broker-2 at
    the offsets 2 and 3."""
    sends, log = acked(5, 6, 7, 8)
    made = Made(sends=sends, log=log, end=len(log))
    results = write_campaign(directory, collected(partitions={(TOPIC, 0): made}))
    same, other = batches(2, 2), batches(2, 2, epochs=(0, 1))
    for broker in BROKERS:
        log_of = other if broker == BROKERS[-1] else same
        write_log(replicas_of(results) / f"broker-{broker}" / f"{TOPIC}-0", log_of)
    return checked(results)


def with_run(directory: Path, run: MadeRun) -> Path:
    """Write and check results of one run."""
    return checked(write_campaign(directory, run))


def checked(directory: Path) -> Path:
    """Check results in this process."""
    check(directory, in_process=True)
    return directory


def reported(directory: Path) -> Path:
    """Check results in this process, and report them."""
    report.write(directory, check(directory, in_process=True))
    return directory


def said(directory: Path, broker: int, lines: str) -> None:
    """Write the state-change log of a broker."""
    logs = directory / "runs" / "1" / "logs" / f"broker-{broker}"
    logs.mkdir(parents=True)
    (logs / f"broker-{broker}.log").write_text(lines)


def truncate_line(log_end: int) -> str:
    words = {"event": "completed", "change": "Truncate", "broker": 1, "partition": f"{TOPIC}-0"}
    places = {"leader": 2, "leader_epoch": 1, "log_end_offset": log_end, "offset": 1}
    return _line({**words, **places, "due_to": "leader epoch 0 and offset 1"})


def leads_line() -> str:
    words = {"event": "completed", "change": "LeaderAndIsr", "broker": 2, "partition": f"{TOPIC}-0"}
    places = {"leader": 2, "leader_epoch": 1, "leader_epoch_start_offset": 1}
    return _line({**words, **places, "high_watermark": 1})


def _line(words: dict[str, object]) -> str:
    return f"INFO {json.dumps(words)} (state.change.logger)\n"
