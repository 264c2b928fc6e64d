"""A failing night, made by hand: 17 cells, 40 faults and a broker with three planted defects.

Its report once began with thirty reasons and a page of findings in a client library's words.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import (
    CampaignResult,
    Cause,
    CellResult,
    Guarantee,
    Outages,
    RunResult,
    Unavailable,
    Verdict,
)
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.validation import load
from ackproof.history.schema import CLUSTER, FAULTS, SENDS

CAMPAIGN = Path(__file__).parents[3] / "campaigns/nightly.yaml"
T0 = 1_942_453_020_000_000_000
SECOND = 1_000_000_000

LEADING = (
    "broker-4 was elected outside the ISR [5]; 867 promised records lost in 3 cells, attributed to "
    "kill#4"
)
"""The sentence that matters."""

_LOST = {
    "acks-all.minisr-1.idempotence-true": 400,
    "acks-all.minisr-2": 300,
    "acks-all.minisr-2.idempotence-true": 167,
}
_FAULTS = 40
_NO_LOSS = "no-acked-record-lost"


def write(directory: Path) -> CampaignResult:
    """Write the campaign, the history and the anomalies of the night, and return its result."""
    (directory / "campaign.yaml").write_bytes(CAMPAIGN.read_bytes())
    cells = expand(load(CAMPAIGN).cells)
    topics = {cell.name: cell.topic for cell in cells}
    history = directory / "runs" / "1" / "history"
    _table(history / "faults.nemesis.parquet", FAULTS, _faults())
    for name, topic in topics.items():
        _table(history / f"sends.{topic}.0.p0.parquet", SENDS, _sends(name, topic))
    _table(history / "cluster.observer.parquet", CLUSTER, [])
    _table(directory / "anomalies.parquet", ANOMALIES, _lost(topics))
    judged = [_judged(replace(_UNJUDGED, settings=cell)) for cell in cells]
    return CampaignResult(
        verdict=Verdict.FAIL,
        cells=tuple(judged),
        anomalies={"lost": sum(_LOST.values()), "watermark-regressed": 867, "duplicated": 0},
        findings=tuple(_findings(topics)),
        runs=(RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False),),
        causes=tuple(_causes(topics)),
    )


_UNJUDGED = CellResult(
    run=1,
    settings=expand(load(CAMPAIGN).cells)[0],
    sent=10_000,
    acked=9_900,
    failed=50,
    indeterminate=50,
    lost=0,
    duplicated=0,
    reordered=0,
    guarantees=(),
    verdict=Verdict.PASS,
    unavailable=Unavailable(
        longest_ms=9_000,
        total_ms=20_000,
        traffic_ms=300_000,
        by_fault=(
            Outages(fault="kill#4", longest_ms=9_000, total_ms=15_000, partition="t-0"),
            Outages(fault="kill#4,pause#5", longest_ms=5_000, total_ms=5_000, partition="t-1"),
        ),
    ),
    reasons=("every guarantee that the cell promises held",),
)


def _judged(cell: CellResult) -> CellResult:
    lost = _LOST.get(cell.cell, 0)
    if lost:
        broken = (
            _broken(_NO_LOSS, "lost", lost),
            _broken("committed-stays", "watermark-regressed", lost),
        )
        reasons = tuple(f"{one.name}: {one.reason}" for one in broken)
        return replace(cell, lost=lost, guarantees=broken, verdict=Verdict.FAIL, reasons=reasons)
    if cell.settings.acks != "all":
        kept = Guarantee(name=_NO_LOSS, promise="p", promised=False, held=True, reason="acks")
        unmeasured = None if cell.settings.acks == "0" else cell.unavailable
        return replace(
            cell, guarantees=(kept,), verdict=Verdict.NOT_GUARANTEED, unavailable=unmeasured
        )
    reasons = tuple(
        f"no ack during isolate#{n} on one, which affected {cell.settings.topic}-{n % 2}"
        for n in range(8, 18)
    )
    return replace(cell, verdict=Verdict.INCONCLUSIVE, reasons=reasons)


def _broken(name: str, anomaly: str, count: int) -> Guarantee:
    return Guarantee(
        name=name,
        promise="p",
        promised=True,
        held=False,
        broken=count,
        anomaly=anomaly,
        reason=f"{count} {anomaly}",
    )


def _causes(topics: dict[str, str]) -> list[Cause]:
    return [
        Cause(
            run=1,
            cell=name,
            anomaly="lost",
            topic=topics[name],
            partition=0,
            number=1,
            kind=CauseKind.UNCLEAN_ELECTION,
            sentence="broker-5 acked these records as leader of epoch 7; broker-4 led epoch 8.",
            records=count,
            promised=count,
            first_offset=100,
            last_offset=99 + count,
            first_time=T0 + 40 * SECOND,
            last_time=T0 + 40 * SECOND + count - 1,
            leaders=(5,),
            epochs=(7,),
            next_leader=4,
            next_epoch=8,
            isr_before=(5,),
            faults=("kill#4",),
        )
        for name, count in _LOST.items()
    ]


def _findings(topics: dict[str, str]) -> list[str]:
    """Return what thirty clients say when their brokers are gone."""
    return [
        f"run 1: producer-{topic}-0 ended: GroupCoordinator: 127.0.0.1:{45_000 + n}: Connect to "
        f"ipv4#127.0.0.1:{45_000 + n} failed: Connection refused (after 0ms in state CONNECT)"
        for n, topic in enumerate(list(topics.values()) * 2)
    ][:30]


def _lost(topics: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "run": 1,
            "cell": name,
            "anomaly": anomaly,
            "topic": topics[name],
            "partition": 0,
            "offset": 100 + n,
            "producer": 0,
            "sequence": n,
            "time": T0 + 40 * SECOND + n,
            "fault": "kill#4",
        }
        for name, count in _LOST.items()
        for anomaly in ("lost", "watermark-regressed")
        for n in range(count)
    ]


def _sends(cell: str, topic: str) -> list[dict[str, Any]]:
    return [
        {
            "cell": cell,
            "topic": topic,
            "partition": 0,
            "producer": 0,
            "sequence": second,
            "type": kind,
            "time": T0 + second * SECOND,
            "offset": second if kind == "ok" else None,
        }
        for second in range(400)
        for kind in ("invoke", "ok")
    ]


def _faults() -> list[dict[str, Any]]:
    kinds = ("kill", "pause", "isolate")
    return [
        {
            "fault_id": n,
            "fault": "kill" if n == 4 else kinds[n % 3],
            "target": "leader(any, any)",
            "servers": [f"broker-{1 + n % 5}"],
            "event": event,
            "time": T0 + (10 * n + after) * SECOND,
            "proven": proven,
            "evidence": "{}",
        }
        for n in range(1, _FAULTS + 1)
        for event, after, proven in (
            ("injected", 0, None),
            ("verified", 1, True),
            ("healed", 8, True),
        )
    ]


def _table(file: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    filled = [{name: row.get(name) for name in schema.names} for row in rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), file)
